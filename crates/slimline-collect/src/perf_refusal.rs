//! What to do about a refused `perf_event_open`.

use std::fs;

use rustix::io::Errno;

/// Unprivileged processes may watch their own in user mode up to this `kernel.perf_event_paranoid`.
const PERMISSIVE: i32 = 2;

/// `kernel.perf_event_paranoid`.
pub(crate) fn paranoid_level() -> Option<i32> {
    fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").ok()?.trim().parse().ok()
}

/// What would make the kernel grant an event that it refused with this `errno`.
pub(crate) fn remedy(errno: i32, paranoid: Option<i32>) -> Option<String> {
    match Errno::from_raw_os_error(errno) {
        Errno::ACCESS | Errno::PERM if paranoid.is_some_and(|level| level > PERMISSIVE) => {
            Some(format!("sysctl kernel.perf_event_paranoid={PERMISSIVE}"))
        }
        Errno::ACCESS | Errno::PERM => Some(
            "allow perf_event_open in the container's seccomp profile (docker run --security-opt seccomp=…), or use \
             --cap-add PERFMON"
                .to_owned(),
        ),
        Errno::INVAL => Some("use Linux 5.13 or newer, which has sigtrap".to_owned()),
        Errno::NOSYS | Errno::NOENT => Some("use a kernel with CONFIG_PERF_EVENTS".to_owned()),
        _ => None,
    }
}

/// What would make the kernel grant a hardware event that it refused with this `errno`.
pub(crate) fn hardware_remedy(errno: i32, paranoid: Option<i32>) -> Option<String> {
    match Errno::from_raw_os_error(errno) {
        Errno::ACCESS | Errno::PERM => Some(match paranoid {
            Some(level) if level > PERMISSIVE => format!("sysctl kernel.perf_event_paranoid={PERMISSIVE}"),
            // Hardware that can't leave out the kernel samples it as well.
            _ => "run slimline as root, or with sysctl kernel.perf_event_paranoid=1".to_owned(),
        }),
        Errno::INVAL => Some("use Linux 6.2 or newer, in which AMD IBS samples single processes".to_owned()),
        Errno::BUSY => Some("end what else uses the counters (perf, the NMI watchdog)".to_owned()),
        errno => remedy(errno.raw_os_error(), paranoid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_has_its_remedy() {
        let remedy = |errno: Errno, paranoid| remedy(errno.raw_os_error(), paranoid).unwrap_or_default();
        assert!(remedy(Errno::ACCESS, Some(4)).contains("perf_event_paranoid=2"));
        assert!(remedy(Errno::PERM, Some(2)).contains("seccomp"));
        assert!(remedy(Errno::INVAL, Some(2)).contains("5.13"));
        assert!(remedy(Errno::NOSYS, None).contains("CONFIG_PERF_EVENTS"));
        assert_eq!(remedy(Errno::MFILE, None), "");
        let hardware = |errno: Errno, paranoid| hardware_remedy(errno.raw_os_error(), paranoid).unwrap_or_default();
        assert!(hardware(Errno::ACCESS, Some(4)).contains("perf_event_paranoid=2"));
        assert!(hardware(Errno::ACCESS, Some(2)).contains("perf_event_paranoid=1"));
        assert!(hardware(Errno::INVAL, None).contains("6.2") && hardware(Errno::BUSY, None).contains("watchdog"));
        assert!(hardware(Errno::NOENT, None).contains("CONFIG_PERF_EVENTS"));
    }
}
