//! What a thread counts of its allocations.

use crate::follow::{self, Cost};
use crate::recorder;
use crate::thread::{self, Thread};
use core::cell::Cell;
use core::sync::atomic::Ordering::Relaxed;
use slimline_trace::wire::COUNTS_EVERY;

/// A round of allocations, the last of which is followed ([`follow::gap`]): how many come before that one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Round(u64);

impl Round {
    /// Of so many allocations.
    fn of(length: u64) -> Self {
        Self(length - 1)
    }

    /// How many allocations are left, the followed one included. 0 in a signal handler that interrupts an entry function
    /// which has just found the round over.
    fn left(self) -> u64 {
        self.0.wrapping_add(1)
    }

    /// Counts an allocation; None where that was the round's last.
    fn count(self) -> Option<Self> {
        self.0.checked_sub(1).map(Self)
    }
}

/// Counts since they were last added to the process's, beside the thread's [`Round`] and bytes, which stand where the entry
/// functions find them. Zeros are fresh ones.
///
/// A thread counts without entering the agent, which would cost more than counting: what a signal handler allocates in
/// between may not be counted.
pub(crate) struct Counts {
    /// Allocations that the thread's round had left when they were last added; 0: none was begun.
    round: Cell<u64>,
    /// Those of rounds that are over.
    allocations: Cell<u64>,
    allocations_followed: Cell<u64>,
    /// Blocks followed, modulo 2^32.
    entries: Cell<u32>,
    /// Frees for which a look into the index was needed, modulo 2^32.
    looks: Cell<u32>,
    random: Cell<u64>,
    cost: Cost,
}

/// Counts an allocation of the calling thread. True where it ends a round, so that its block is to be followed.
#[inline]
#[must_use]
pub(super) fn allocation(bytes: u64) -> bool {
    // A thread that is not recorded, or that has ended, has no rounds: it makes few.
    let Some(thread) = thread::current() else { return true };
    let counts = &thread.counts;
    let is_begun = counts.round.get() != 0;
    let round = if is_begun { Round(thread::round()) } else { counts.begin_round(true, thread.tid.get()) };
    thread::set_allocated_bytes(thread::allocated_bytes().wrapping_add(bytes));
    let rest = round.count();
    if rest.is_none() {
        counts.allocations.set(counts.allocations.get() + counts.round.get());
    }
    thread::set_round(rest.unwrap_or_else(|| counts.begin_round(false, 0)).0);
    rest.is_none()
}

/// Counts a call; whether it is to be timed.
#[inline(always)]
fn is_timed(calls: &Cell<u32>) -> bool {
    let number = calls.get().wrapping_add(1);
    calls.set(number);
    follow::is_timed(number)
}

/// A block of the calling thread is about to be followed. True where that is to be timed.
#[inline]
#[must_use]
pub(super) fn entry() -> bool {
    thread::existing().is_some_and(|Thread { counts, .. }| is_timed(&counts.entries))
}

/// The calling thread is about to look for a block that it frees. True where that is to be timed.
#[inline]
#[must_use]
pub(super) fn look() -> bool {
    thread::existing().is_some_and(|Thread { counts, .. }| is_timed(&counts.looks))
}

/// What is to be done after a round of allocations.
#[inline]
pub(super) fn settle() {
    if thread::existing().is_some_and(|thread| thread.counts.allocations.get() >= u64::from(COUNTS_EVERY)) {
        super::flush();
    }
}

impl Counts {
    /// Begins the next round; `first`: there was none before.
    #[inline(always)]
    fn begin_round(&self, first: bool, tid: u32) -> Round {
        // A linear congruential generator (Knuth, TAOCP 2, 3.3.4), of which `gap` uses the upper bits.
        let seed = self.random.get().wrapping_add(u64::from(tid) << 32);
        let random = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.random.set(random);
        let length = follow::gap(first, random);
        self.round.set(length);
        Round::of(length)
    }

    /// Counts an allocation whose block is followed.
    #[inline(always)]
    pub(super) fn followed(&self) {
        self.allocations_followed.set(self.allocations_followed.get() + 1);
    }

    /// What following blocks costs.
    pub(super) fn cost(&self) -> &Cost {
        &self.cost
    }

    /// Allocations and bytes since they were taken last.
    fn take(&self) -> (u64, u64) {
        let (mut allocations, bytes) = (self.allocations.take(), thread::allocated_bytes());
        thread::set_allocated_bytes(0);
        if self.round.get() != 0 {
            let left = Round(thread::round()).left();
            allocations += self.round.replace(left).saturating_sub(left);
        }
        (allocations, bytes)
    }

    /// Adds the counts of `thread`, the calling one, to its process's.
    pub(super) fn tell(&self, thread: &Thread) {
        // The file of a thread without a ring may be that of another process: see the head of [`crate::thread`].
        let Some(header) = recorder::header().filter(|_| thread.is_recorded()) else { return };
        self.cost.settle();
        let (allocations, bytes) = self.take();
        for (counted, of_process) in [
            (allocations, &header.allocations),
            (bytes, &header.allocated_bytes),
            (self.allocations_followed.take(), &header.allocations_followed),
        ] {
            of_process.fetch_add(counted, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::follow::MAX_LEVEL;

    #[test]
    fn a_round_counts_down_to_the_one_that_is_followed() {
        let length = 2 << MAX_LEVEL;
        let mut round = Round::of(length);
        for allocations in 0..length - 1 {
            assert_eq!(round.left(), length - allocations);
            round = round.count().unwrap();
        }
        assert_eq!((round.left(), round.count()), (1, None), "the last");
        assert_eq!(Round::of(1).count(), None, "where all are followed");
    }
}
