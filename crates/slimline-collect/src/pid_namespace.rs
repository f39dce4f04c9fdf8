//! Numbers of processes in other PID namespaces (containers, `unshare -p`): what a process there takes for its number is
//! another's here.

use std::cmp::Reverse;
use std::fs;
use std::io;
use std::path::Path;

use crate::drain::is_alive;
use crate::{RecordError, proc_text};

/// A process as it is seen from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbers {
    pub(crate) pid: u32,
    /// 0 where it is not known.
    pub(crate) parent_pid: u32,
    pub(crate) origin: Origin,
}

/// Whose number it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Ours: `/proc` has the process by it.
    Here,
    /// The process' own. It has ended: nobody here has that number there.
    Gone,
    /// The process' own. There are such whose namespace we may not look at.
    Hidden,
}

impl Numbers {
    /// Of a process that says that it is `pid` in a namespace, with this parent there. 0 for a namespace that is not known,
    /// which is taken for ours.
    pub(crate) fn here(namespace: u64, pid: u32, parent_pid: u32) -> Self {
        let ours = link_number(Path::new("/proc/self/ns/pid")).ok().flatten();
        if namespace == 0 || ours.is_none_or(|ours| ours == namespace) {
            return Self { pid, parent_pid, origin: Origin::Here };
        }
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let mut pids: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        // It has just begun: one of the last.
        pids.sort_unstable_by_key(|&pid| Reverse(pid));
        let mut is_any_hidden = false;
        let here = pids.into_iter().find(|&here| {
            if inner_number(here) != Some(pid) {
                return false;
            }
            let found = link_number(Path::new(&format!("/proc/{here}/ns/pid")));
            is_any_hidden |= found.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied);
            found.ok().flatten() == Some(namespace)
        });
        match here {
            Some(here) => {
                let parent_pid = status(here, "PPid:").and_then(|text| text.trim().parse().ok());
                Self { pid: here, parent_pid: parent_pid.unwrap_or(0), origin: Origin::Here }
            }
            None => Self { pid, parent_pid: 0, origin: if is_any_hidden { Origin::Hidden } else { Origin::Gone } },
        }
    }

    /// Whether the process may run still.
    pub(crate) fn may_live(&self) -> bool {
        match self.origin {
            Origin::Here => is_alive(self.pid),
            Origin::Gone => false,
            Origin::Hidden => true,
        }
    }
}

/// Refuses to go on where `/proc` does not show the processes that the kernel's numbers are of.
pub(crate) fn check_proc() -> Result<(), RecordError> {
    let shown = fs::read_link("/proc/self").map_err(RecordError::system("can't read /proc (is it mounted?)"))?;
    if shown.as_os_str() == std::process::id().to_string().as_str() { Ok(()) } else { Err(RecordError::ForeignProc) }
}

/// The number in a namespace's link: `pid:[4026531836]`.
fn link_number(path: &Path) -> io::Result<Option<u64>> {
    let link = fs::read_link(path)?;
    let digits = link.to_str().and_then(|text| text.strip_prefix("pid:[")?.strip_suffix(']'));
    Ok(digits.and_then(|digits| digits.parse().ok()))
}

/// A process' number in its own namespace, where that is not ours.
fn inner_number(pid: u32) -> Option<u32> {
    // From ours inwards.
    status(pid, "NSpid:")?.split_ascii_whitespace().skip(1).last()?.parse().ok()
}

fn status(pid: u32, field: &str) -> Option<String> {
    let status = proc_text::read(&format!("/proc/{pid}/status")).ok()?;
    Some(status.lines().find_map(|line| line.strip_prefix(field))?.to_owned())
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn in_our_own_namespace_numbers_are_what_they_are() {
        let own = link_number(Path::new("/proc/self/ns/pid")).unwrap().unwrap();
        for namespace in [0, own] {
            assert_eq!(Numbers::here(namespace, 4711, 7), Numbers { pid: 4711, parent_pid: 7, origin: Origin::Here });
        }
        assert_eq!(inner_number(std::process::id()), None);
        check_proc().unwrap();
    }

    #[test]
    fn a_number_in_another_namespace_is_found_by_that() {
        let script = "readlink /proc/self/ns/pid; read end";
        let mut command = Command::new("unshare");
        command.args(["-prf", "sh", "-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let Ok(mut child) = command.spawn() else { return eprintln!("skipped: no unshare") };
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let Some(number) = line.trim().strip_prefix("pid:[").and_then(|rest| rest.strip_suffix(']')) else {
            child.wait().unwrap();
            return eprintln!("skipped: no PID namespaces for us");
        };
        let namespace = number.parse().unwrap();
        let found = Numbers::here(namespace, 1, 0);
        let gone = Numbers::here(namespace, 4711, 5);
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!((found.parent_pid, found.origin), (child.id(), Origin::Here), "the shell, a child of unshare");
        assert!(found.pid > 1);
        assert_eq!((gone.pid, gone.parent_pid), (4711, 0));
        assert_ne!(gone.origin, Origin::Here);
    }
}
