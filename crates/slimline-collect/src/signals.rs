//! What slimline does with signals while the target runs: nothing that the target would not see.
//!
//! Both are in the foreground process group, so Ctrl-C and Ctrl-\ reach the target by themselves; slimline lives on to
//! finish the session. What is sent to slimline alone to end it (TERM, HUP) is passed on. Handlers, unlike ignoring,
//! are not inherited over `exec`: the target starts with the dispositions that slimline was started with.

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXFSZ};

/// Signals that the terminal sends to the target as well.
const SHARED: [i32; 2] = [SIGINT, SIGQUIT];
/// Signals that are passed on.
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
        for signal in SHARED.into_iter().filter(|&signal| !is_ignored(signal)) {
            signal_hook::flag::register_conditional_default(signal, Arc::clone(&is_over))?;
            signal_hook::flag::register(signal, Arc::clone(&came))?;
        }
        for (number, signal) in FORWARDED.into_iter().filter(|&(number, _)| !is_ignored(number)) {
            let flag = Arc::new(AtomicBool::new(false));
            signal_hook::flag::register_conditional_default(number, Arc::clone(&is_over))?;
            signal_hook::flag::register(number, Arc::clone(&flag))?;
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
