//! What resource limits leave for recording: the target inherits and keeps them, and what we take counts there too.

use rustix::process::{Resource, getrlimit};
use slimline_trace::wire::{AGENT_BYTES, AGENT_SHARE, FILE_MIB, LEAST_ADDRESS_SPACE, LEAST_DESCRIPTORS};

use crate::{RecordError, proc_text};

const MIB: u64 = 1 << 20;

/// A limit and what it means for recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The shell's command that sets it.
    pub command: &'static str,
    /// How much it allows, how much is needed, and what follows.
    pub verdict: String,
}

/// What address space allows.
fn address_space() -> Option<(&'static str, u64)> {
    let limits = [("ulimit -v", Resource::As), ("ulimit -d", Resource::Data)];
    limits
        .into_iter()
        .filter_map(|(command, resource)| Some((command, getrlimit(resource).current?)))
        .min_by_key(|&(_, bytes)| bytes)
}

/// Address space that slimline itself needs to record a program, measured with its threads.
const OWN_BYTES: u64 = 56 * MIB;
/// Files that it has open meanwhile, on a machine with few processors.
const OWN_DESCRIPTORS: u64 = 10;

/// Refuses limits under which slimline itself can't work: memory that is missing would end it without a word.
pub(crate) fn check_own() -> Result<(), RecordError> {
    check(address_space(), getrlimit(Resource::Nofile).current)
}

fn check(address_space: Option<(&'static str, u64)>, descriptors: Option<u64>) -> Result<(), RecordError> {
    let mib = |bytes| format!("{} MiB", bytes / MIB);
    if let Some((command, bytes)) = address_space.filter(|&(_, bytes)| bytes < OWN_BYTES) {
        let (limit, need) = (mib(bytes), mib(OWN_BYTES));
        return Err(RecordError::OwnLimit { what: "address space is", limit, need, command });
    }
    if let Some(limit) = descriptors.filter(|&limit| limit < OWN_DESCRIPTORS) {
        let (limit, need) = (limit.to_string(), OWN_DESCRIPTORS.to_string());
        return Err(RecordError::OwnLimit { what: "open files are", limit, need, command: "ulimit -n" });
    }
    Ok(())
}

/// Whether the first thread's stack may not become as large as that (`ulimit -s`).
pub fn is_stack_small(bytes: u64) -> bool {
    getrlimit(Resource::Stack).current.is_some_and(|limit| limit < bytes)
}

/// Why the agent has no room in programs that are started now; none where it has.
pub fn no_room_for_agent() -> Option<String> {
    address_space().and_then(too_little).or_else(|| too_few_descriptors(getrlimit(Resource::Nofile).current?))
}

fn too_few_descriptors(limit: u64) -> Option<String> {
    (limit < LEAST_DESCRIPTORS).then(|| {
        format!("open files are limited to {limit} (ulimit -n), and the agent needs {LEAST_DESCRIPTORS} for its three")
    })
}

fn too_little((command, bytes): (&str, u64)) -> Option<String> {
    (bytes < LEAST_ADDRESS_SPACE).then(|| {
        format!(
            "address space is limited to {} MiB ({command}), and the agent needs {} MiB so that its {} MiB are a \
             {AGENT_SHARE}th at most",
            bytes / MIB,
            LEAST_ADDRESS_SPACE / MIB,
            AGENT_BYTES / MIB
        )
    })
}

/// The limits of this process that recording meets.
pub(crate) fn limits() -> Vec<Limit> {
    let address_space = address_space().map(|(command, bytes)| Limit {
        command,
        verdict: match too_little((command, bytes)) {
            Some(why) => format!("{why}; programs are sampled from outside"),
            None => format!("{} MiB, of which the agent takes a {AGENT_SHARE}th at most", bytes / MIB),
        },
    });
    let pending = getrlimit(Resource::Sigpending)
        .current
        .map(|limit| Limit { command: "ulimit -i", verdict: pending_verdict(limit, pending_signals()) });
    let locked = getrlimit(Resource::Memlock).current.map(|bytes| Limit {
        command: "ulimit -l",
        verdict: format!(
            "{} KiB; the agent locks nothing, and ring buffers (sampling from outside) shrink where it is little",
            bytes / 1024
        ),
    });
    let file_size =
        getrlimit(Resource::Fsize).current.filter(|bytes| bytes / MIB < FILE_MIB as u64).map(|bytes| Limit {
            command: "ulimit -f",
            verdict: format!("{} KiB, and a process shares a sparse file of {FILE_MIB} MiB: raise it", bytes / 1024),
        });
    let descriptors = getrlimit(Resource::Nofile).current.and_then(too_few_descriptors);
    let descriptors = descriptors
        .map(|why| Limit { command: "ulimit -n", verdict: format!("{why}; programs are sampled from outside") });
    [address_space, pending, locked, file_size, descriptors].into_iter().flatten().collect()
}

fn pending_verdict(limit: u64, taken: Option<u64>) -> String {
    let left = limit.saturating_sub(taken.unwrap_or(0));
    format!(
        "{left} of {limit} are left for all processes of the user; a thread's timer takes one, and threads without one \
         have perf events"
    )
}

/// How many signals wait for processes of this user, or are set aside by timers.
fn pending_signals() -> Option<u64> {
    let status = proc_text::read("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("SigQ:"))?;
    line.split('/').next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_named_with_what_is_needed() {
        let why = too_little(("ulimit -v", 100 * MIB)).unwrap();
        assert_eq!(
            why,
            "address space is limited to 100 MiB (ulimit -v), and the agent needs 192 MiB so that its 12 MiB are a 16th \
             at most"
        );
        assert_eq!(too_little(("ulimit -v", LEAST_ADDRESS_SPACE)), None);
        assert!(too_few_descriptors(5).is_some_and(|why| why.starts_with("open files are limited to 5 (ulimit -n)")));
        assert_eq!(too_few_descriptors(LEAST_DESCRIPTORS), None);
    }

    #[test]
    fn what_slimline_itself_needs_is_told() {
        let refused = |space, files| check(space, files).unwrap_err().to_string();
        assert_eq!(
            refused(Some(("ulimit -v", 40 * MIB)), None),
            "address space is limited to 40 MiB (ulimit -v), and slimline itself needs 56 MiB: raise the limit"
        );
        assert_eq!(
            refused(None, Some(5)),
            "open files are limited to 5 (ulimit -n), and slimline itself needs 10: raise the limit"
        );
        assert!(check(Some(("ulimit -d", OWN_BYTES)), Some(OWN_DESCRIPTORS)).is_ok() && check(None, None).is_ok());
    }

    #[test]
    fn signals_that_are_left_are_told() {
        assert!(pending_verdict(6, Some(4)).starts_with("2 of 6 are left"));
        assert!(pending_verdict(6, Some(9)).starts_with("0 of 6 are left"));
        assert!(pending_signals().is_some());
    }
}
