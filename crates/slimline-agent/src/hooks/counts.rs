//! What a thread counts of its allocations.

use crate::follow::{self, Cost, MAX_LEVEL};
use crate::recorder;
use crate::thread::{self, Thread};
use core::cell::Cell;
use core::sync::atomic::Ordering::Relaxed;
use slimline_trace::wire::{COUNTS_EVERY, MOST_FOLLOWED_BYTES};

/// A round of allocations, the last of which is followed ([`follow::gap`]): how many are left until that one, above how
/// many bytes are left of more than they can take. So one subtraction counts an allocation with its bytes, and borrows
/// where there is more to do.
///
/// ```text
///   63        40 39                  0
///   ┌───────────┬─────────────────────┐
///   │ left      │ bytes left          │     0: no round was begun
///   └───────────┴─────────────────────┘
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Round(u64);

/// Where the number begins. The entry functions set this bit in the size that they subtract.
pub(super) const ROUND_SHIFT: u32 = 40;
const ONE: u64 = 1 << ROUND_SHIFT;
const BYTES: u64 = ONE - 1;
// Sizes that the entry functions count don't make the bytes borrow.
const _: () = assert!((2 << MAX_LEVEL) * MOST_FOLLOWED_BYTES < BYTES);

impl Round {
    /// Of so many allocations.
    fn of(length: u64) -> Self {
        Self((length - 1) << ROUND_SHIFT | BYTES)
    }

    fn is_begun(self) -> bool {
        self.0 != 0
    }

    /// How many allocations are left, the followed one included.
    fn left(self) -> u64 {
        (self.0 >> ROUND_SHIFT) + 1
    }

    fn bytes(self) -> u64 {
        BYTES - (self.0 & BYTES)
    }

    /// Counts an allocation, but not its bytes; None where that was the round's last.
    fn count(self) -> Option<Self> {
        self.0.checked_sub(ONE).map(Self)
    }
}

/// Counts since they were last added to the process's, beside those in the thread's [`Round`]. Zeros are fresh ones.
///
/// A thread counts without entering the agent, which would cost more than counting: what a signal handler allocates in
/// between may not be counted.
pub(crate) struct Counts {
    /// Allocations that the thread's round had left when they were last added.
    round: Cell<u64>,
    /// Those of rounds that are over.
    allocations: Cell<u64>,
    allocated_bytes: Cell<u64>,
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
    let mut round = Round(thread::round());
    if !round.is_begun() {
        round = counts.begin_round(true, thread.tid.get());
    }
    counts.add_bytes(bytes);
    let rest = round.count();
    if rest.is_none() {
        counts.allocations.set(counts.allocations.get() + counts.round.get());
        counts.add_bytes(round.bytes());
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

    fn add_bytes(&self, bytes: u64) {
        self.allocated_bytes.set(self.allocated_bytes.get().wrapping_add(bytes));
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
        let (mut allocations, mut bytes) = (self.allocations.take(), self.allocated_bytes.take());
        let round = Round(thread::round());
        if round.is_begun() {
            allocations += self.round.replace(round.left()).saturating_sub(round.left());
            bytes = bytes.wrapping_add(round.bytes());
            thread::set_round(Round::of(round.left()).0);
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

    /// What an entry function does with the size of a block that is passed over.
    fn subtract(round: Round, bytes: u64) -> Option<Round> {
        round.0.checked_sub(bytes | ONE).map(Round)
    }

    #[test]
    fn a_round_counts_allocations_and_their_bytes_and_then_borrows() {
        let length = 2 << MAX_LEVEL;
        let mut round = Round::of(length);
        for allocations in 0..length - 1 {
            assert_eq!((round.left(), round.bytes()), (length - allocations, allocations * (MOST_FOLLOWED_BYTES - 1)));
            round = subtract(round, MOST_FOLLOWED_BYTES - 1).unwrap();
        }
        assert_eq!((subtract(round, 0), round.count()), (None, None), "the last");
        assert!(round.is_begun());
        assert_eq!((subtract(Round::of(1), 0), Round::of(1).count()), (None, None), "where all are followed");
    }

    #[test]
    fn nothing_is_counted_before_a_round_is_begun() {
        assert_eq!((subtract(Round(0), 0), subtract(Round(0), 100)), (None, None));
    }
}
