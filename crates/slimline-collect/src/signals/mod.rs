//! What slimline does with signals while the target runs: nothing that the target would not see.
//!
//! A signal may be sent to slimline alone (`kill PID`, a terminal that hangs up). It is meant for the command that slimline
//! stands for, and is passed on. Or it is sent to slimline's whole process group (Ctrl-C, `kill 0`). Then the target has it
//! already. The kernel does not say which of the two happened. So slimline starts a [`Witness`] in the same group: a signal that
//! the witness receives too went to the group.
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
use std::time::{Duration, Instant};

use rustix::process::{Pid, getpgid, getpgrp, getpid};
use signal_hook::consts::SIGXFSZ;

use crate::inherited;
use crate::proc_stat;
use crate::started::Started;
use arrivals::{Arrival, Arrivals};
use witness::Witness;

/// Signals that can't have a handler, that have one for stack overflows or files that were cut off, or that are about our children
/// or come from a terminal to the whole group.
const NOT_PASSED_ON: [i32; 7] =
    [libc::SIGKILL, libc::SIGSTOP, libc::SIGSEGV, libc::SIGBUS, libc::SIGCHLD, libc::SIGTTIN, libc::SIGTTOU];

/// Those of the others that do not end a process by default.
const NOT_ENDING: [i32; 4] = [libc::SIGTSTP, libc::SIGCONT, libc::SIGWINCH, libc::SIGURG];

/// How long the witness's copy of a signal waits for ours. Both are sent within microseconds.
const LONGEST_APART: Duration = Duration::from_millis(20);
/// How often the witness is asked at least: what it received alone is not to be taken for the group's later.
const ASK_EVERY: Duration = Duration::from_secs(1);

/// Signals that a program may handle and that mean something to it, whoever slimline stands for.
fn passed_on() -> impl Iterator<Item = i32> {
    // Those between belong to the C library.
    let all = (1..32).chain(libc::SIGRTMIN()..=libc::SIGRTMAX());
    all.filter(|signal| !NOT_PASSED_ON.contains(signal))
}

/// Signals are held until this is dropped; then they do again what they do by default.
pub(crate) struct HeldSignals {
    arrivals: Arrivals,
    /// None where nothing is passed on.
    witness: Option<Witness>,
    /// Read, and not passed on yet.
    arrived: Vec<Arrival>,
    /// Signals the witness received and slimline has not yet, with the time of that answer.
    expected: (Vec<Arrival>, Instant),
    has_child_changed: bool,
}

impl fmt::Debug for HeldSignals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldSignals").field("witness", &self.witness).finish_non_exhaustive()
    }
}

impl HeldSignals {
    /// Holds the signals that are passed on to a command while it runs. Ignored ones (`nohup`) are among them, because the command
    /// may handle them.
    pub(crate) fn for_command() -> io::Result<Self> {
        let mut signals = Self::hold(passed_on())?;
        signals.witness = Some(Witness::start()?);
        Ok(signals)
    }

    /// Holds signals that end the recording of a program that runs already, unless they are ignored. Nothing is passed on to it.
    pub(crate) fn for_running() -> io::Result<Self> {
        Self::hold(passed_on().filter(|&signal| !NOT_ENDING.contains(&signal) && !inherited::was_ignored(signal)))
    }

    fn hold(signals: impl Iterator<Item = i32>) -> io::Result<Self> {
        // `SIGCHLD` comes when a child ends or stops.
        let arrivals = Arrivals::start(signals.chain([libc::SIGCHLD]))?;
        let expected = (Vec::new(), Instant::now());
        Ok(Self { arrivals, witness: None, arrived: Vec::new(), expected, has_child_changed: false })
    }

    /// Starts a command with the signals ignored and blocked and the standard streams closed that were when slimline started.
    pub(crate) fn spawn(&mut self, command: &mut Command) -> io::Result<Started> {
        // A signal that comes before `exec` waits, and then acts on the child as it would act on the command.
        let blocked = SignalSet::all().block()?;
        let held = self.arrivals.signals();
        let as_at_start = move || {
            Arrivals::mark();
            for signal in (1..=64).filter(|&signal| held.contains(signal)) {
                // SAFETY: the default action is no code.
                unsafe { libc::signal(signal, libc::SIG_DFL) };
            }
            inherited::ignore_signals();
            inherited::close_streams();
            blocked.set_as_mask()
        };
        // SAFETY: the closure makes system calls alone.
        unsafe { command.pre_exec(as_at_start) };
        let started = command.spawn().map(Started::from);
        blocked.set_as_mask()?;
        let started = started?;
        // What came before there was a command reached the group without it.
        let mut early = self.arrivals.read();
        if let Some(mark) = early.iter().position(|arrival| *arrival == Arrival::MARK) {
            self.take_in(early.split_off(mark));
        }
        early.retain(|arrival| arrival.signal != libc::SIGCHLD);
        if let Some(witness) = self.witness.as_mut().filter(|_| !early.is_empty()) {
            let mut of_group = OfGroup::new(witness.ask());
            for (place, &arrival) in early.iter().enumerate() {
                of_group.take(arrival, &early[place + 1..]);
                forward(arrival, started.pid());
            }
            self.expected = (of_group.once, Instant::now());
        }
        Ok(started)
    }

    /// Becomes readable when a signal arrives.
    pub(crate) fn wake(&self) -> Option<BorrowedFd<'_>> {
        self.arrivals.wake()
    }

    /// Whether a child ended or stopped since the last call.
    pub(crate) fn has_child_changed(&mut self) -> bool {
        self.read();
        let has_changed = take(&mut self.has_child_changed);
        if let Some(witness) = self.witness.as_mut().filter(|_| has_changed) {
            witness.replace_if_dead();
        }
        has_changed
    }

    /// Whether any came since the last call that ends slimline by default.
    pub(crate) fn have_come(&mut self) -> bool {
        self.read();
        let arrived = take(&mut self.arrived);
        arrived.iter().any(|arrival| !is_own(*arrival))
    }

    /// Passes on to `target` what others sent to slimline alone since the last call. `target` must not have been reaped.
    pub(crate) fn forward_to(&mut self, target: Pid) {
        self.read();
        let Some(witness) = &mut self.witness else { return };
        let (expected, since) = &mut self.expected;
        if self.arrived.is_empty() {
            if since.elapsed() > ASK_EVERY {
                self.expected = (witness.ask(), Instant::now());
            }
            return;
        }
        let mut of_group = OfGroup::new(take(expected));
        of_group.once.retain(|_| since.elapsed() < LONGEST_APART);
        while !self.arrived.is_empty() {
            let Some(witness) = &mut self.witness else { return };
            of_group.once.extend(witness.ask());
            let of_witness = witness.pid().as_raw_pid();
            // A target that left the group, as `timeout` does, would not have left it alone: it would have led it.
            let is_in_group = getpgid(Some(target)).is_ok_and(|group| group == getpgrp());
            let arrived = take(&mut self.arrived);
            for (place, &arrival) in arrived.iter().enumerate() {
                let has_group_it = of_group.take(arrival, &arrived[place + 1..]) && is_in_group;
                if !has_group_it && arrival.sender != of_witness {
                    forward(arrival, target);
                }
            }
            // What came meanwhile is for the next question.
            self.read();
        }
        self.expected = (of_group.once, Instant::now());
    }

    /// The target has ended. Signals are held, and passed on to nobody.
    pub(crate) fn pass_on_no_longer(&mut self) {
        self.witness = None;
    }

    /// Stops slimline as a signal stopped `target`: whoever waits for slimline, as a shell with jobs, waits for the target. Goes on
    /// when slimline is continued, and passes that on; or when the target is, whoever did that.
    pub(crate) fn stop_with(&mut self, target: &Started, signal: i32) {
        // They may have been stopped together, and continued since.
        self.forward_to(target.pid());
        let Some(witness) = self.witness.as_mut().filter(|_| proc_stat::is_stopped(target.id())) else { return };
        if witness.watch(target.id()).is_ok() {
            Arrivals::act_by_default(signal);
            witness.watch_no_longer();
        }
    }

    fn read(&mut self) {
        let arrived = self.arrivals.read();
        self.take_in(arrived);
    }

    fn take_in(&mut self, arrived: Vec<Arrival>) {
        for arrival in arrived {
            match arrival {
                Arrival::MARK => {}
                Arrival { signal: libc::SIGCHLD, .. } => self.has_child_changed = true,
                _ => self.arrived.push(arrival),
            }
        }
    }
}

/// Signals that the witness got.
struct OfGroup {
    /// Each is of one arrival.
    once: Vec<Arrival>,
    /// Those without a queue that had one: the witness gets several of them as one where we may get them one by one.
    seen: SignalSet,
}

impl OfGroup {
    fn new(once: Vec<Arrival>) -> Self {
        Self { once, seen: SignalSet::from_signals([]) }
    }

    /// Whether the group got this one, which came before `later`. Of those without a queue that pend the kernel keeps the first
    /// alone, which may have another sender in another process.
    fn take(&mut self, arrival: Arrival, later: &[Arrival]) -> bool {
        let has_queue = arrival.signal >= libc::SIGRTMIN();
        let is_it = |other: &Arrival| other.signal == arrival.signal && (!has_queue || *other == arrival);
        let found = self.once.iter().position(is_it).map(|place| self.once.swap_remove(place));
        if found.is_some() && !has_queue {
            self.seen.insert(arrival.signal);
        }
        found.is_some() || self.seen.contains(arrival.signal) || self.may_have_been_discarded(arrival.signal, later)
    }

    /// `SIGCONT` discards signals that would stop a process and that pend, and they discard it. In the witness they pend until
    /// it is asked. So one that the group got is missing there if the other kind followed.
    fn may_have_been_discarded(&self, signal: i32, later: &[Arrival]) -> bool {
        let is_left = |other| self.once.iter().any(|arrival| arrival.signal == other);
        match signal {
            // Two threads may write both in either order. In doubt the target runs on: nobody might continue it.
            libc::SIGTSTP => is_left(libc::SIGCONT) || self.seen.contains(libc::SIGCONT),
            libc::SIGCONT => {
                let stops_again = later.iter().any(|arrival| arrival.signal == libc::SIGTSTP);
                is_left(libc::SIGTSTP) || stops_again && self.seen.contains(libc::SIGTSTP)
            }
            _ => false,
        }
    }
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
        let set = unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            set.assume_init()
        };
        let mut set = Self(set);
        signals.into_iter().for_each(|signal| set.insert(signal));
        set
    }

    fn all() -> Self {
        Self::from_signals(1..=libc::SIGRTMAX())
    }

    fn insert(&mut self, signal: i32) {
        // SAFETY: a set that is initialised.
        unsafe { libc::sigaddset(&raw mut self.0, signal) };
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
    fn each_of_the_groups_signals_is_one_of_ours() {
        let arrival = |signal, sender| Arrival { signal, code: libc::SI_USER, sender, value: 0 };
        let (plain, queued) = (libc::SIGUSR1, libc::SIGRTMIN() + 1);
        let once = vec![arrival(plain, 7), arrival(queued, 7), arrival(queued, 7)];
        let mut of_group = OfGroup::new(once);
        // Of another sender, and twice: the witness got both as one.
        let mut take = |signal, sender| of_group.take(arrival(signal, sender), &[]);
        assert!(take(plain, 8) && take(plain, 7));
        assert!(!take(libc::SIGUSR2, 7) && !take(queued, 8));
        assert!(take(queued, 7) && take(queued, 7));
        assert!(!take(queued, 7), "a third one was sent to us alone");
        assert_eq!(of_group.once, []);
    }

    #[test]
    fn what_a_later_signal_discarded_in_the_witness_was_the_groups() {
        let arrival = |signal| Arrival { signal, code: libc::SI_USER, sender: 7, value: 0 };
        let of_group = |witnessed: &[i32], arrived: &[i32]| -> Vec<bool> {
            let mut of_group = OfGroup::new(witnessed.iter().copied().map(arrival).collect());
            let arrived: Vec<Arrival> = arrived.iter().copied().map(arrival).collect();
            arrived.iter().enumerate().map(|(place, &one)| of_group.take(one, &arrived[place + 1..])).collect()
        };
        let (stop, go_on) = (libc::SIGTSTP, libc::SIGCONT);
        assert_eq!(of_group(&[go_on], &[stop, go_on]), [true, true]);
        assert_eq!(of_group(&[stop], &[go_on, stop]), [true, true]);
        assert_eq!(of_group(&[stop], &[stop, go_on, stop]), [true; 3]);
        assert_eq!(
            of_group(&[libc::SIGTTIN], &[go_on]),
            [false],
            "what stopped the group would be gone by the group's SIGCONT"
        );
        assert_eq!(of_group(&[go_on], &[stop]), [true], "the witness got SIGCONT before us");
        assert_eq!(of_group(&[stop], &[stop, go_on]), [true, false], "SIGCONT was sent to us alone");
        assert_eq!(of_group(&[go_on], &[go_on, stop]), [true, true], "two threads wrote them in this order");
        assert_eq!(of_group(&[], &[stop, go_on]), [false, false]);
    }

    #[test]
    fn what_was_ignored_is_passed_on_and_what_a_terminal_sends_to_groups_is_not() {
        let all: Vec<i32> = passed_on().collect();
        for signal in [libc::SIGHUP, libc::SIGWINCH, libc::SIGTSTP, libc::SIGCONT, libc::SIGPIPE, libc::SIGRTMAX()] {
            assert!(all.contains(&signal), "{signal}");
        }
        assert!(!all.contains(&libc::SIGTTIN) && !all.contains(&libc::SIGKILL) && !all.contains(&33));
    }
}
