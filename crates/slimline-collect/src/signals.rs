//! What slimline does with signals while the target runs: nothing that the target would not see.
//!
//! Both are in the foreground process group, so Ctrl-C and Ctrl-\ reach the target by themselves; slimline lives on to
//! finish the session. A signal that somebody sends to slimline (`kill`) is passed on to the target. One that the target
//! or a descendant of it sends (`kill 0`) went to the whole group, so the target has it already. Of signals that others
//! send, or a descendant that has ended since, the kernel does not tell whether they went to the group: those reach the
//! target twice. Handlers, unlike ignoring, are not inherited over `exec`: the target starts with the dispositions that
//! slimline was started with.
#![allow(unsafe_code)] // a signal handler that looks at where the signal comes from

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::SIGXFSZ;

use crate::proc_stat;

/// Signals that end a process by default and that programs send to each other. `SIGPIPE` is ignored anyway.
const HELD: [Signal; 10] = [
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::HUP,
    Signal::USR1,
    Signal::USR2,
    Signal::ALARM,
    Signal::VTALARM,
    Signal::PROF,
    Signal::IO,
];

/// Nobody has sent the signal since it was last looked at.
const NOBODY: i32 = -1;
/// The kernel sent it, or a process that our namespace does not number.
const NO_PROCESS: i32 = 0;

/// Signals are held until this is dropped; then they do again what they do by default.
#[derive(Debug)]
pub(crate) struct HeldSignals {
    is_over: Arc<AtomicBool>,
    came: Arc<AtomicBool>,
    /// Who sent each signal last: a process, [`NO_PROCESS`] or [`NOBODY`].
    senders: Vec<(Signal, Arc<AtomicI32>)>,
}

impl HeldSignals {
    /// Holds the signals; those that are ignored (`nohup`) stay so.
    pub(crate) fn hold() -> io::Result<Self> {
        let ignored = ignored_signals();
        let is_ignored = |signal: Signal| ignored >> (signal.as_raw() - 1) & 1 != 0;
        let is_over = Arc::new(AtomicBool::new(false));
        let came = Arc::new(AtomicBool::new(false));
        let mut senders = Vec::new();
        for signal in HELD.into_iter().filter(|&signal| !is_ignored(signal)) {
            let sender = Arc::new(AtomicI32::new(NOBODY));
            signal_hook::flag::register_conditional_default(signal.as_raw(), Arc::clone(&is_over))?;
            note_sender(signal, Arc::clone(&sender))?;
            signal_hook::flag::register(signal.as_raw(), Arc::clone(&came))?;
            senders.push((signal, sender));
        }
        Ok(Self { is_over, came, senders })
    }

    /// Whether any came: somebody wants slimline to end.
    pub(crate) fn have_come(&self) -> bool {
        self.came.load(Ordering::Relaxed)
    }

    /// Passes on what others than the target sent since the last call.
    pub(crate) fn forward_to(&self, target: Pid) {
        for (signal, sender) in &self.senders {
            let sender = sender.swap(NOBODY, Ordering::Relaxed);
            if sender != NOBODY && !is_descendant(sender.cast_unsigned(), target.as_raw_pid().cast_unsigned()) {
                // Fails where the target is gone, and then there is nobody to tell.
                let _ = kill_process(target, *signal);
            }
        }
    }
}

impl Drop for HeldSignals {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// Notes who sends the signal.
fn note_sender(signal: Signal, sender: Arc<AtomicI32>) -> io::Result<()> {
    // The kernel sends them to the whole group of a terminal. Others, as SIGHUP and SIGALRM, it sends to slimline alone.
    let is_of_terminal = matches!(signal, Signal::INT | Signal::QUIT);
    let note = move |info: &libc::siginfo_t| match info.si_code {
        // SAFETY: signals with these codes have a sender.
        libc::SI_USER | libc::SI_QUEUE | libc::SI_TKILL => sender.store(unsafe { info.si_pid() }, Ordering::Relaxed),
        _ if is_of_terminal => {}
        _ => sender.store(NO_PROCESS, Ordering::Relaxed),
    };
    // SAFETY: the handler stores to an atomic variable and does nothing else, which is async-signal-safe, and does not panic.
    unsafe { signal_hook_registry::register_sigaction(signal.as_raw(), note) }.map(drop)
}

/// Whether `pid` is `ancestor` or a child, grandchild … of it. Not where it has ended.
fn is_descendant(mut pid: u32, ancestor: u32) -> bool {
    const PARENT: usize = 4;
    /// Longer than any line of processes; a number may be given out again while we look.
    const MOST_GENERATIONS: usize = 1000;
    for _ in 0..MOST_GENERATIONS {
        if pid == ancestor {
            return true;
        }
        match proc_stat::number_of(pid, PARENT) {
            Some(parent) if parent > 1 => pid = parent,
            _ => return false,
        }
    }
    false
}

/// Makes a write beyond the allowed file size (`ulimit -f`) an error like a full disk, not our death.
pub(crate) fn survive_file_size_limit() -> io::Result<()> {
    signal_hook::flag::register(SIGXFSZ, Arc::default()).map(drop)
}

/// The mask of ignored signals, from `/proc/self/status`.
fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn descendants_are_followed_over_generations() {
        let own = std::process::id();
        let mut shell = Command::new("sh");
        // Two commands, so that the shell stays.
        let mut child = shell.args(["-c", "sleep 1000; :"]).stdin(Stdio::null()).spawn().unwrap();
        let children = format!("/proc/{0}/task/{0}/children", child.id());
        let grandchild: u32 = loop {
            let list = fs::read_to_string(&children).unwrap();
            if let Some(first) = list.split_ascii_whitespace().next() {
                break first.parse().unwrap();
            }
            std::thread::yield_now();
        };
        let of_child = is_descendant(grandchild, child.id());
        let (is_own, is_others) = (is_descendant(grandchild, own), is_descendant(own, grandchild));
        // SAFETY: no memory is involved.
        unsafe { libc::kill(grandchild.cast_signed(), libc::SIGKILL) };
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(of_child && is_own && !is_others);
        assert!(is_descendant(own, own) && !is_descendant(1, own) && !is_descendant(u32::MAX, own));
    }
}
