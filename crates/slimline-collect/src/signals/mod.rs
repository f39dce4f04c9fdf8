//! What slimline does with signals while the target runs: nothing that the target would not see.
//!
//! A signal may be sent to slimline alone (`kill PID`, a terminal that hangs up). It is meant for the command that slimline
//! stands for, and is passed on. Or it is sent to slimline's whole process group (Ctrl-C, `kill 0`). Then the target has it
//! already. The kernel does not tell which, so a [`Witness`] in the same group does: what it got as well went to the group.
//!
//! A target that a signal stopped has slimline stopped, and goes on with it.
//!
//! The target starts with the signals ignored and blocked that slimline was started with.
#![allow(unsafe_code)] // installs handlers, blocks signals and sends them with what their sender says

mod arrivals;
mod witness;

use std::fmt;
use std::io;
use std::mem::{MaybeUninit, take};
use std::os::fd::BorrowedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr::{self, with_exposed_provenance_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Pid, getpgid, getpgrp, getpid};
use signal_hook::consts::SIGXFSZ;

use crate::proc_stat;
use crate::started::Started;
use arrivals::{Arrival, Arrivals};
use witness::Witness;

/// Signals that don't end a process by default, that can't have a handler, or that have one: of stack overflows (`SIGSEGV`) and of
/// files that were cut off (`SIGBUS`).
const NOT_ENDING: [i32; 11] = [
    libc::SIGKILL,
    libc::SIGSTOP,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
    libc::SIGCONT,
    libc::SIGCHLD,
    libc::SIGWINCH,
    libc::SIGURG,
    libc::SIGSEGV,
    libc::SIGBUS,
];

/// Those that stop a command and have it go on. `SIGTTIN` and `SIGTTOU` come from the kernel, to the whole group.
const OF_JOBS: [i32; 2] = [libc::SIGTSTP, libc::SIGCONT];

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
    // Where it is ignored nobody can wait for a child.
    // SAFETY: the default action is no code.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

fn was_ignored(signal: i32) -> bool {
    IGNORED_AT_START.load(Ordering::Relaxed) >> (signal - 1) & 1 != 0
}

/// Signals that end a process, except those that were ignored (`nohup`).
fn ending() -> impl Iterator<Item = i32> {
    // Those between belong to the C library.
    let all = (1..32).chain(libc::SIGRTMIN()..=libc::SIGRTMAX());
    all.filter(|&signal| !NOT_ENDING.contains(&signal) && !was_ignored(signal))
}

/// Signals are held until this is dropped; then they do again what they do by default.
pub(crate) struct HeldSignals {
    arrivals: Arrivals,
    /// None where nothing is passed on.
    witness: Option<Witness>,
    /// Read, and not passed on yet.
    arrived: Vec<Arrival>,
    has_child_changed: bool,
}

impl HeldSignals {
    /// Holds all signals that would end slimline while a command runs, and those of jobs.
    pub(crate) fn for_command() -> io::Result<Self> {
        let of_jobs = OF_JOBS.into_iter().filter(|&signal| !was_ignored(signal));
        let mut signals = Self::hold(ending().chain(of_jobs))?;
        signals.witness = Some(Witness::start()?);
        Ok(signals)
    }

    /// Holds signals that end the recording of a program that runs already. Nothing is passed on to it.
    pub(crate) fn for_running() -> io::Result<Self> {
        Self::hold(ending())
    }

    fn hold(signals: impl Iterator<Item = i32>) -> io::Result<Self> {
        // `SIGCHLD` comes when a child ends or stops.
        let arrivals = Arrivals::start(signals.chain([libc::SIGCHLD]))?;
        Ok(Self { arrivals, witness: None, arrived: Vec::new(), has_child_changed: false })
    }

    /// Starts a command with what was ignored and blocked when slimline started.
    pub(crate) fn spawn(&self, command: &mut Command) -> io::Result<Started> {
        // A signal that comes before `exec` waits, and then acts on the child as it would act on the command.
        let blocked = SignalSet::from_signals(1..=libc::SIGRTMAX()).block()?;
        let held = self.arrivals.signals();
        let as_at_start = move || {
            for signal in 1..=64 {
                let action = match (was_ignored(signal), held.contains(signal)) {
                    (true, _) => libc::SIG_IGN,
                    (false, true) => libc::SIG_DFL,
                    (false, false) => continue,
                };
                // SAFETY: neither action is code.
                unsafe { libc::signal(signal, action) };
            }
            blocked.set_as_mask()
        };
        // SAFETY: the closure makes system calls alone.
        unsafe { command.pre_exec(as_at_start) };
        let started = command.spawn().map(Started::from);
        blocked.set_as_mask()?;
        started
    }

    /// Becomes readable when a signal arrives.
    pub(crate) fn wake(&self) -> Option<BorrowedFd<'_>> {
        self.arrivals.wake()
    }

    /// Whether a child ended or stopped since the last call.
    pub(crate) fn has_child_changed(&mut self) -> bool {
        self.read();
        take(&mut self.has_child_changed)
    }

    /// Whether any came since the last call that ends slimline by default.
    pub(crate) fn have_come(&mut self) -> bool {
        self.read();
        let arrived = take(&mut self.arrived);
        arrived.iter().any(|arrival| !is_own(*arrival))
    }

    /// Passes on to `target`, which must not be waited for yet, what others sent to slimline alone since the last call.
    pub(crate) fn forward_to(&mut self, target: Pid) {
        self.read();
        let Some(witness) = &mut self.witness else { return };
        while !self.arrived.is_empty() {
            let witnessed = witness.ask();
            // A target that left the group, as `timeout` does, would not have left it alone: it would have led it.
            let is_in_group = getpgid(Some(target)).is_ok_and(|group| group == getpgrp());
            let has_it = |arrival: &Arrival| is_in_group && witnessed.iter().any(|other| is_same(*arrival, *other));
            let is_of_witness = |arrival: &Arrival| arrival.sender == witness.pid().as_raw_pid();
            for arrival in take(&mut self.arrived) {
                if !has_it(&arrival) && !is_of_witness(&arrival) {
                    forward(arrival, target);
                }
            }
            // The witness has seen some of what arrived meanwhile. The rest is for the next question.
            let (arrived, has_child_changed) = read(&self.arrivals);
            self.arrived = arrived.into_iter().filter(|arrival| !has_it(arrival)).collect();
            self.has_child_changed |= has_child_changed;
        }
    }

    /// Stops slimline as a signal stopped `target`: whoever waits for slimline, as a shell with jobs, waits for the target. Goes on
    /// when slimline is continued, and passes that on; or when the target is, whoever did that.
    pub(crate) fn stop_with(&mut self, target: &Started, signal: i32) {
        // They may have been stopped together, and continued since.
        self.forward_to(target.pid());
        let Some(witness) = self.witness.as_mut().filter(|_| target.is_stopped()) else { return };
        if witness.watch(target.id()).is_ok() {
            Arrivals::act_by_default(signal);
            witness.watch_no_longer();
        }
    }

    fn read(&mut self) {
        let (arrived, has_child_changed) = read(&self.arrivals);
        self.arrived.extend(arrived);
        self.has_child_changed |= has_child_changed;
    }
}

/// What arrived, and whether a child's change was among it.
fn read(arrivals: &Arrivals) -> (Vec<Arrival>, bool) {
    let (of_children, others): (Vec<_>, _) =
        arrivals.read().into_iter().partition(|arrival| arrival.signal == libc::SIGCHLD);
    (others, !of_children.is_empty())
}

/// Whether two processes got one signal that was sent to both. Of those without a queue the kernel keeps the first alone, which
/// need not be the same one in both.
fn is_same(one: Arrival, other: Arrival) -> bool {
    one.signal == other.signal && (one.signal < libc::SIGRTMIN() || one == other)
}

/// Whether it is about slimline itself: the kernel sends such signals for what a process wrote or used.
fn is_own(Arrival { signal, code, sender, .. }: Arrival) -> bool {
    sender == getpid().as_raw_pid() || signal == libc::SIGXCPU && code > 0
}

/// Passes a signal on that was sent to slimline alone.
fn forward(arrival: Arrival, target: Pid) {
    let Arrival { signal, code, sender, value } = arrival;
    // What the target sends to its parent is not for itself.
    if is_own(arrival) || is_descendant(sender.cast_unsigned(), target.as_raw_pid().cast_unsigned()) {
        return;
    }
    // Fails where the target is gone, or has other rights than we have: then nobody but the sender could tell it.
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
    fn from_signals(signals: impl IntoIterator<Item = i32>) -> Self {
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

    fn contains(&self, signal: i32) -> bool {
        // SAFETY: a set that is initialised.
        unsafe { libc::sigismember(&raw const self.0, signal) == 1 }
    }

    /// Blocks them in this thread, and in those that it starts from now on. Returns what was blocked before.
    fn block(&self) -> io::Result<Self> {
        let mut before = Self::from_signals([]);
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
        f.debug_set().entries((1..=libc::SIGRTMAX()).filter(|&signal| self.contains(signal))).finish()
    }
}

/// Makes a write beyond the allowed file size (`ulimit -f`) an error like a full disk, not our death.
pub(crate) fn survive_file_size_limit() -> io::Result<()> {
    signal_hook::flag::register(SIGXFSZ, Arc::default()).map(drop)
}

/// Ends this process by a signal. Returns where the signal does not end it, as the first process of a PID namespace.
pub(crate) fn end_by(signal: i32) {
    let itself = SignalSet::from_signals([signal]);
    // SAFETY: a set that is initialised.
    unsafe { libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const itself.0, ptr::null_mut()) };
    Arrivals::act_by_default(signal);
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
        let set = SignalSet::from_signals([libc::SIGHUP, libc::SIGRTMAX()]);
        assert_eq!(format!("{set:?}"), "{1, 64}");
        assert_eq!(format!("{:?}", SignalSet::from_signals([])), "{}");
    }

    #[test]
    fn of_two_senders_of_a_signal_without_a_queue_each_process_may_see_another() {
        let arrival = |signal, sender| Arrival { signal, code: libc::SI_USER, sender, value: 0 };
        assert!(is_same(arrival(libc::SIGUSR1, 7), arrival(libc::SIGUSR1, 8)));
        assert!(!is_same(arrival(libc::SIGUSR1, 7), arrival(libc::SIGUSR2, 7)));
        let real_time = libc::SIGRTMIN() + 1;
        assert!(is_same(arrival(real_time, 7), arrival(real_time, 7)));
        assert!(!is_same(arrival(real_time, 7), arrival(real_time, 8)));
    }
}
