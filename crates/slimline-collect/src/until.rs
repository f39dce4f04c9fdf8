//! How long a recording lasts, and waiting for its end while its source is read.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use slimline_trace::session::{End, SessionInfo};

use crate::clock::monotonic_ns;
use crate::signals::HeldSignals;
use crate::source::Source;
use crate::started::{Started, State};
use crate::writer_thread::WriterThread;

/// What a recording lasts until.
#[derive(Debug)]
pub(crate) enum Until {
    /// The command that was started ends.
    Child(Started),
    /// Processes that ran already have all ended, slimline is asked to end, or the command that ran meanwhile has ended.
    Gone { processes: Vec<OwnedFd>, meanwhile: Option<Started> },
}

/// How long a command that ran meanwhile has to end, once it is asked to: one that ignores that is left to itself.
const MOST_TO_END: Duration = Duration::from_secs(1);
/// How often is looked whether it has, where the kernel does not tell.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

impl Until {
    /// How it ended; `None` where it has not. Passes on what signals came.
    pub(crate) fn end(&mut self, signals: &mut HeldSignals) -> io::Result<Option<End>> {
        match self {
            Self::Child(child) => {
                if signals.has_child_changed() {
                    child.look_after_threads();
                }
                match child.state()? {
                    State::Ended(end) => {
                        signals.pass_on_no_longer();
                        return Ok(Some(end));
                    }
                    State::Stopped { signal } => signals.stop_with(child, signal),
                    State::Runs => {}
                }
                signals.forward_to(child.pid());
                Ok(None)
            }
            Self::Gone { processes, meanwhile } => {
                processes.retain(|process| {
                    let mut ended = [PollFd::new(process, PollFlags::IN)];
                    !poll(&mut ended, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|count| count > 0)
                });
                let is_over = match meanwhile {
                    Some(child) => child.end()?.is_some(),
                    None => false,
                };
                let end = match (processes.is_empty(), is_over || signals.have_come()) {
                    (true, _) => End::Gone,
                    (false, true) => End::Detached,
                    (false, false) => return Ok(None),
                };
                if is_over || ask_to_end(meanwhile)? {
                    *meanwhile = None;
                }
                Ok(Some(end))
            }
        }
    }

    /// The command that ran meanwhile, where it still does.
    pub(crate) fn runs_on(&self) -> Option<u32> {
        match self {
            Self::Child(_) => None,
            Self::Gone { meanwhile, .. } => meanwhile.as_ref().map(Started::id),
        }
    }

    /// What wakes us when it ends; where the kernel is too old for that, it is noticed one pause later.
    pub(crate) fn wakes(&self) -> Vec<OwnedFd> {
        let of_child = |child: &Started| pidfd_open(child.pid(), PidfdFlags::empty()).ok();
        match self {
            Self::Child(child) => of_child(child).into_iter().collect(),
            Self::Gone { processes, meanwhile } => {
                let processes = processes.iter().filter_map(|process| process.try_clone().ok());
                processes.chain(meanwhile.as_ref().and_then(of_child)).collect()
            }
        }
    }
}

/// Has a command end that was there to tell the time; whether it did, or there is none.
fn ask_to_end(meanwhile: &mut Option<Started>) -> io::Result<bool> {
    let Some(child) = meanwhile else { return Ok(true) };
    let asked = Instant::now();
    // What is stopped takes a signal once it goes on.
    for signal in [Signal::TERM, Signal::CONT] {
        let _ = kill_process(child.pid(), signal);
    }
    let mut wakes: Vec<OwnedFd> = watch_of(child.id()).into_iter().collect();
    while child.end()?.is_none() {
        let Some(left) = MOST_TO_END.checked_sub(asked.elapsed()) else { return Ok(false) };
        wait(&mut wakes, None, left.min(LOOK_AGAIN));
    }
    Ok(true)
}

/// Takes in what `source` has until the end. Returns how it came, and whether writing failed meanwhile.
pub(crate) fn watch(
    until: &mut Until,
    signals: &mut HeldSignals,
    source: &mut impl Source,
    writer: &WriterThread,
    info: &mut SessionInfo,
) -> (io::Result<End>, bool) {
    let mut wakes = until.wakes();
    let mut has_failed = false;
    loop {
        match until.end(signals) {
            Ok(Some(end)) => return (Ok(end), has_failed),
            Ok(None) => {}
            Err(error) => return (Err(error), has_failed),
        }
        if !has_failed && writer.has_failed() {
            has_failed = true;
            source.stop();
        }
        if !has_failed && source.pass(writer) {
            info.processes = source.summaries();
            info.ended_ns = monotonic_ns();
            writer.send_header(info.clone());
            source.write_parts(writer);
        }
        wait(&mut wakes, signals.wake(), source.pause());
    }
}

/// Waits until one of them is ready, a signal comes or `pause` is over. What was ready is not waited for again.
pub(crate) fn wait(wakes: &mut Vec<OwnedFd>, signals: Option<BorrowedFd<'_>>, pause: Duration) {
    let all = wakes.iter().map(AsFd::as_fd).chain(signals);
    let mut ready: Vec<PollFd<'_>> = all.map(|wake| PollFd::from_borrowed_fd(wake, PollFlags::IN)).collect();
    let pause = Timespec { tv_sec: pause.as_secs().cast_signed(), tv_nsec: pause.subsec_nanos().into() };
    // Interrupted, or nothing to wait for: the caller looks again.
    let _ = poll(&mut ready, Some(&pause));
    let mut are_ready = ready.iter().map(|wake| !wake.revents().is_empty()).collect::<Vec<_>>().into_iter();
    drop(ready);
    wakes.retain(|_| !are_ready.next().unwrap_or(false));
}

/// Wakes us when the process ends; `None` where it is gone already.
pub(crate) fn watch_of(pid: u32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(pid.cast_signed())?, PidfdFlags::empty()).ok()
}
