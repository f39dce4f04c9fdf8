//! Processes with an agent that another process begins to trace, as a debugger that is attached does: it would stop at each
//! signal of the agent's. So their perf events are disabled until it is gone. Timers can't be stopped from here.
//!
//! A tracer that steps a thread while that blocks `SIGTRAP` makes the kernel forget the agent's action for it. The agent puts it
//! back. Until then the events stay disabled, as each of their signals would end the process.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use crate::perf_rings::{disable_event, enable_event};
use crate::proc_text;

/// Processes that are traced, or were so until now.
#[derive(Debug, Default)]
pub(super) struct Debugged {
    quiet: HashSet<u32>,
}

impl Debugged {
    /// Disables the perf events of a process, which have these numbers there, if it is traced; enables them once it is no longer.
    pub(super) fn look_at(&mut self, pid: u32, events: [u32; 2]) {
        let Some(status) = Status::of(pid) else { return };
        let is_quiet = self.quiet.contains(&pid);
        // Where this process may not reach the events, they stay as they are.
        if status.is_traced && !is_quiet {
            if for_each_event(pid, events, disable_event).is_ok() {
                self.quiet.insert(pid);
            }
        } else if !status.is_traced && is_quiet && status.catches_traps {
            self.quiet.remove(&pid);
            let _ = for_each_event(pid, events, enable_event);
        }
    }

    /// Forgets all processes but these.
    pub(super) fn retain(&mut self, pids: &HashSet<u32>) {
        self.quiet.retain(|pid| pids.contains(pid));
    }
}

/// Changes the perf events that have these descriptors in a process; 0 is none.
fn for_each_event(pid: u32, events: [u32; 2], change: fn(&OwnedFd) -> io::Result<()>) -> io::Result<()> {
    let process = Pid::from_raw(pid.cast_signed()).ok_or(io::ErrorKind::InvalidInput)?;
    let process = pidfd_open(process, PidfdFlags::empty())?;
    for number in events.into_iter().filter(|&number| number != 0) {
        let event = pidfd_getfd(&process, number.cast_signed(), PidfdGetfdFlags::empty())?;
        // The process can write any number.
        let kind = fs::read_link(format!("/proc/self/fd/{}", event.as_raw_fd()))?;
        if kind.as_os_str() == "anon_inode:[perf_event]" {
            change(&event)?;
        }
    }
    Ok(())
}

/// What `/proc/<pid>/status` says.
#[derive(Debug, PartialEq, Eq)]
struct Status {
    is_traced: bool,
    /// It has a handler for `SIGTRAP`.
    catches_traps: bool,
}

impl Status {
    fn of(pid: u32) -> Option<Self> {
        Self::parse(&proc_text::read(&format!("/proc/{pid}/status")).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        const TRAP: u64 = 1 << (libc::SIGTRAP - 1);
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let tracer: u32 = field("TracerPid:")?.parse().ok()?;
        let caught = u64::from_str_radix(field("SigCgt:")?, 16).ok()?;
        Some(Self { is_traced: tracer != 0, catches_traps: caught & TRAP != 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_says_who_traces_and_what_is_caught() {
        let text = "Name:\ta\nTracerPid:\t4711\nSigIgn:\t0000000000000010\nSigCgt:\t0000000000000000\n";
        assert_eq!(Status::parse(text), Some(Status { is_traced: true, catches_traps: false }));
        let text = "Name:\ta\nTracerPid:\t0\nSigCgt:\t0000000000000410\n";
        assert_eq!(Status::parse(text), Some(Status { is_traced: false, catches_traps: true }));
        assert_eq!(Status::parse("Name:\ta\n"), None);
        assert!(Status::of(std::process::id()).is_some_and(|status| !status.is_traced));
    }

    #[test]
    fn only_perf_events_are_changed() {
        let file = fs::File::open("/proc/self/stat").unwrap();
        let number = file.as_raw_fd().cast_unsigned();
        let changed = |_: &OwnedFd| -> io::Result<()> { panic!("changed") };
        for_each_event(std::process::id(), [number, 0], changed).unwrap();
        assert!(for_each_event(std::process::id(), [u32::MAX >> 1, 0], changed).is_err());
    }
}
