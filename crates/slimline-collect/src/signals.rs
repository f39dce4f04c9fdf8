//! What slimline does with signals while the target runs: nothing that the target would not see.
//!
//! Both are in the foreground process group, so Ctrl-C and Ctrl-\ reach the target by themselves; slimline lives on to
//! finish the session. What somebody sends to slimline to end it (`kill`) is passed on: whether to it alone the kernel does
//! not tell, so who sends it to the whole group sends it to the target twice. Handlers, unlike ignoring,
//! are not inherited over `exec`: the target starts with the dispositions that slimline was started with.
#![allow(unsafe_code)] // a signal handler that looks at where the signal comes from

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXFSZ};

/// Signals that the terminal sends to the target as well: passed on are those that somebody sends.
const SHARED: [(i32, Signal); 2] = [(SIGINT, Signal::INT), (SIGQUIT, Signal::QUIT)];
/// Signals that are passed on, whoever sends them.
const FORWARDED: [(i32, Signal); 2] = [(SIGTERM, Signal::TERM), (SIGHUP, Signal::HUP)];

/// Signals are held until this is dropped; then they do again what they do by default.
#[derive(Debug)]
pub(crate) struct HeldSignals {
    is_over: Arc<AtomicBool>,
    came: Arc<AtomicBool>,
    forward: Vec<(Arc<AtomicBool>, Signal)>,
}

impl HeldSignals {
    /// Holds the signals; those that are ignored (`nohup`) stay so.
    pub(crate) fn hold() -> io::Result<Self> {
        let ignored = ignored_signals();
        let is_ignored = |signal: i32| ignored >> (signal - 1) & 1 != 0;
        let is_over = Arc::new(AtomicBool::new(false));
        let came = Arc::new(AtomicBool::new(false));
        let mut forward = Vec::new();
        let all = SHARED.into_iter().chain(FORWARDED);
        for (number, signal) in all.filter(|&(number, _)| !is_ignored(number)) {
            let flag = Arc::new(AtomicBool::new(false));
            signal_hook::flag::register_conditional_default(number, Arc::clone(&is_over))?;
            if SHARED.contains(&(number, signal)) {
                register_sent(number, Arc::clone(&flag))?;
            } else {
                signal_hook::flag::register(number, Arc::clone(&flag))?;
            }
            signal_hook::flag::register(number, Arc::clone(&came))?;
            forward.push((flag, signal));
        }
        Ok(Self { is_over, came, forward })
    }

    /// Whether any came: somebody wants slimline to end.
    pub(crate) fn have_come(&self) -> bool {
        self.came.load(Ordering::Relaxed)
    }

    /// Passes on what came since the last call.
    pub(crate) fn forward_to(&self, target: Pid) {
        for (flag, signal) in &self.forward {
            if flag.swap(false, Ordering::Relaxed) {
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

/// Sets `flag` whenever a process sends the signal, and not where the kernel does.
fn register_sent(signal: i32, flag: Arc<AtomicBool>) -> io::Result<()> {
    let note = move |info: &libc::siginfo_t| {
        // See sigaction(2): positive codes are the kernel's.
        if info.si_code <= 0 {
            flag.store(true, Ordering::Relaxed);
        }
    };
    // SAFETY: the handler stores to an atomic variable and does nothing else, which is async-signal-safe, and does not panic.
    unsafe { signal_hook_registry::register_sigaction(signal, note) }.map(drop)
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
