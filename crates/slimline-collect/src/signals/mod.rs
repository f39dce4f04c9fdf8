//! What slimline does with signals while the target runs: nothing that the target would not see.
//!
//! A signal may be sent to slimline alone (`kill PID`, a terminal that hangs up). It is meant for the command that slimline
//! stands for, and is passed on. Or it is sent to slimline's whole process group (Ctrl-C, `kill 0`). Then the target has it
//! already. The kernel does not tell which, so a [`Witness`] in the same group does: what it got as well went to the group.
//!
//! A target that a signal stopped has slimline stopped, and goes on with it.
//!
//! The target starts with the signals ignored and blocked that slimline was started with.
//!
//! Signals are blocked and read from a descriptor, whose records say who sent them. Blocking leaves faults and `abort` of
//! slimline itself as they are: the kernel does not let them be blocked.
#![allow(unsafe_code)] // blocks signals, and reads and queues them with what their sender says

mod witness;

use std::fmt;
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr::{self, with_exposed_provenance_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Pid, getpid};
use signal_hook::consts::SIGXFSZ;

use crate::proc_stat;
use crate::started::Started;
use witness::Witness;

/// Signals that ask slimline to stop recording a program that it did not start.
const ENDING: [i32; 4] = [libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGHUP];

/// Signals that do not end a process by default, or that no process can block.
const NOT_HELD: [i32; 9] = [
    libc::SIGKILL,
    libc::SIGSTOP,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
    libc::SIGCONT,
    libc::SIGCHLD,
    libc::SIGWINCH,
    libc::SIGURG,
];

/// A bit for each signal that was ignored when slimline started.
static IGNORED_AT_START: AtomicU64 = AtomicU64::new(0);

/// Runs before `main`: there Rust's runtime has `SIGPIPE` ignored already.
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE_IGNORED: extern "C" fn() = note_ignored;

extern "C" fn note_ignored() {
    let mut ignored = 0;
    for signal in 1..=64 {
        let mut action = MaybeUninit::<libc::sigaction>::uninit();
        // SAFETY: where the kernel returns 0 it has written a whole action.
        let is_ignored = unsafe {
            libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) == 0
                && action.assume_init().sa_sigaction == libc::SIG_IGN
        };
        ignored |= u64::from(is_ignored) << (signal - 1);
    }
    IGNORED_AT_START.store(ignored, Ordering::Relaxed);
}

fn was_ignored(signal: i32) -> bool {
    IGNORED_AT_START.load(Ordering::Relaxed) >> (signal - 1) & 1 != 0
}

/// A signal that was sent, and by whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
struct Arrival {
    signal: i32,
    /// `SI_USER`, `SI_KERNEL` and others of sigaction(2).
    code: i32,
    /// The process that sent it; 0 for the kernel, and for processes that our namespace does not number.
    sender: i32,
    /// What came with it (sigqueue(3)), else 0.
    value: usize,
}

/// Signals are held until this is dropped; then they do again what they do by default.
#[derive(Debug)]
pub(crate) struct HeldSignals {
    /// What was blocked before.
    blocked: SignalSet,
    /// A signalfd(2) of those that are held.
    arrivals: OwnedFd,
    /// None where nothing is passed on.
    witness: Option<Witness>,
}

impl HeldSignals {
    /// Holds all signals that would end slimline while a command runs. Those that are ignored (`nohup`) stay so.
    pub(crate) fn for_command() -> io::Result<Self> {
        // Those between belong to the C library.
        let all = (1..32).chain(libc::SIGRTMIN()..=libc::SIGRTMAX());
        let held = all.filter(|signal| !NOT_HELD.contains(signal) && !was_ignored(*signal));
        let mut signals = Self::hold(held)?;
        signals.witness = Some(Witness::start()?);
        Ok(signals)
    }

    /// Holds signals that end the recording of a program that runs already. Nothing is passed on to it.
    pub(crate) fn for_running() -> io::Result<Self> {
        Self::hold(ENDING.into_iter().filter(|&signal| !was_ignored(signal)))
    }

    fn hold(signals: impl Iterator<Item = i32>) -> io::Result<Self> {
        // That of a child that stops tells, too. Where it is ignored, a child that ended could not be waited for.
        let held = SignalSet::of(signals.chain([libc::SIGCHLD]));
        // SAFETY: the default action is no code.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
        // SAFETY: a set that `SignalSet` initialised.
        let arrivals = unsafe { libc::signalfd(-1, &raw const held.0, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        if arrivals < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just made, and nobody else has it.
        let arrivals = unsafe { OwnedFd::from_raw_fd(arrivals) };
        let blocked = held.block()?;
        Ok(Self { blocked, arrivals, witness: None })
    }

    /// Starts a command with what was ignored and blocked when slimline started.
    pub(crate) fn spawn(&self, command: &mut Command) -> io::Result<Started> {
        let blocked = self.blocked;
        let as_at_start = move || {
            for signal in (1..=64).filter(|&signal| was_ignored(signal)) {
                // SAFETY: to ignore a signal is no code.
                unsafe { libc::signal(signal, libc::SIG_IGN) };
            }
            blocked.set_as_mask()
        };
        // SAFETY: the closure makes system calls alone.
        unsafe { command.pre_exec(as_at_start) };
        command.spawn().map(Started::from)
    }

    /// Becomes readable when a signal comes.
    pub(crate) fn wake(&self) -> BorrowedFd<'_> {
        self.arrivals.as_fd()
    }

    /// Whether one that ends the recording of a program that runs already came since the last call.
    pub(crate) fn have_come(&self) -> bool {
        !self.take().is_empty()
    }

    /// Passes on to `target`, which must not be waited for yet, what others sent to slimline alone since the last call.
    pub(crate) fn forward_to(&mut self, target: Pid) {
        let mut arrived = self.take();
        while !arrived.is_empty() {
            // Where it was killed nobody knows: rather twice than not at all.
            let witnessed = self.witness.as_mut().map_or_else(Vec::new, Witness::ask);
            for arrival in arrived.iter().filter(|arrival| !witnessed.contains(arrival)) {
                forward(*arrival, target);
            }
            // Of what came meanwhile the next question tells, unless this one did.
            arrived = self.take();
            arrived.retain(|arrival| !witnessed.contains(arrival));
        }
    }

    /// Stops slimline as a signal stopped `target`: whoever waits for slimline, as a shell with jobs, waits for the target. Goes on
    /// when slimline is continued, and then the target is; or when the target is, whoever did that.
    pub(crate) fn stop_with(&mut self, target: &Started, signal: i32) {
        // A stop of the whole group is over when we see it.
        let Some(witness) = self.witness.as_mut().filter(|_| target.is_stopped()) else { return };
        if witness.watch(target.id()).is_err() {
            return;
        }
        // SAFETY: no memory is involved, and the signal has no handler.
        unsafe { libc::raise(signal) };
        witness.watch_no_longer();
        if target.is_stopped() {
            // SAFETY: no memory is involved.
            unsafe { libc::kill(target.pid().as_raw_pid(), libc::SIGCONT) };
        }
    }

    fn take(&self) -> Vec<Arrival> {
        let mut arrived = Vec::new();
        loop {
            let mut info = MaybeUninit::<libc::signalfd_siginfo>::uninit();
            let size = size_of::<libc::signalfd_siginfo>();
            // SAFETY: the kernel writes one whole record or nothing.
            let read = unsafe { libc::read(self.arrivals.as_raw_fd(), info.as_mut_ptr().cast(), size) };
            if read != size.cast_signed() {
                return arrived;
            }
            // SAFETY: it was written.
            let info = unsafe { info.assume_init() };
            if info.ssi_signo == libc::SIGCHLD.cast_unsigned() {
                continue;
            }
            arrived.push(Arrival {
                signal: info.ssi_signo.cast_signed(),
                code: info.ssi_code,
                sender: info.ssi_pid.cast_signed(),
                value: if info.ssi_code == libc::SI_QUEUE { info.ssi_ptr as usize } else { 0 },
            });
        }
    }
}

impl Drop for HeldSignals {
    fn drop(&mut self) {
        // What comes now would have been held a moment ago.
        self.take();
        // It fails for what is no mask only.
        let _ = self.blocked.set_as_mask();
    }
}

/// Passes a signal on that was sent to slimline alone.
fn forward(Arrival { signal, code, sender, value }: Arrival, target: Pid) {
    // The kernel sends them for what slimline itself wrote or used.
    let is_own = sender == getpid().as_raw_pid() || signal == libc::SIGXCPU && code > 0;
    // What the target sends to its parent is not for itself.
    if is_own || is_descendant(sender.cast_unsigned(), target.as_raw_pid().cast_unsigned()) {
        return;
    }
    // Fails where the target is gone, and then there is nobody to tell.
    // SAFETY: no memory is involved: the value is one that the target may look at.
    unsafe {
        if code == libc::SI_QUEUE {
            libc::sigqueue(target.as_raw_pid(), signal, libc::sigval { sival_ptr: with_exposed_provenance_mut(value) });
        } else {
            libc::kill(target.as_raw_pid(), signal);
        }
    }
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

/// Signals, as the C library wants them.
#[derive(Clone, Copy)]
struct SignalSet(libc::sigset_t);

impl SignalSet {
    fn of(signals: impl IntoIterator<Item = i32>) -> Self {
        let mut set = MaybeUninit::uninit();
        // SAFETY: `sigemptyset` initialises it.
        let mut set = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            set.assume_init()
        };
        for signal in signals {
            // SAFETY: a set that is initialised.
            unsafe { libc::sigaddset(&raw mut set, signal) };
        }
        Self(set)
    }

    /// Blocks them in this thread, and in those that it starts from now on. Returns what was blocked before.
    fn block(&self) -> io::Result<Self> {
        let mut before = Self::of([]);
        // SAFETY: sets that are initialised.
        match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const self.0, &raw mut before.0) } {
            0 => Ok(before),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }

    /// Blocks them in this thread, and no others. Async-signal-safe.
    fn set_as_mask(&self) -> io::Result<()> {
        // SAFETY: a set that is initialised.
        match unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, ptr::null_mut()) } {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    }
}

impl fmt::Debug for SignalSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: a set that is initialised.
        let is_in = |&signal: &i32| unsafe { libc::sigismember(&raw const self.0, signal) } == 1;
        f.debug_set().entries((1..=libc::SIGRTMAX()).filter(is_in)).finish()
    }
}

/// Makes a write beyond the allowed file size (`ulimit -f`) an error like a full disk, not our death.
pub(crate) fn survive_file_size_limit() -> io::Result<()> {
    signal_hook::flag::register(SIGXFSZ, Arc::default()).map(drop)
}

/// Ends this process by a signal. Returns where the signal does not end processes.
pub(crate) fn end_by(signal: i32) {
    let itself = SignalSet::of([signal]);
    // SAFETY: the default action is no code, and no memory is involved.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const itself.0, ptr::null_mut());
        libc::raise(signal);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Stdio;

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

    #[test]
    fn a_set_has_what_it_was_made_of() {
        let set = SignalSet::of([libc::SIGHUP, libc::SIGRTMAX()]);
        assert_eq!(format!("{set:?}"), "{1, 64}");
        assert_eq!(format!("{:?}", SignalSet::of([])), "{}");
    }
}
