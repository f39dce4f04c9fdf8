//! What a thread counts of its allocations.

use crate::follow::{Cost, TIMED_EVERY};
use crate::recorder;
use crate::thread::{self, Thread};
use core::cell::Cell;
use core::sync::atomic::Ordering::Relaxed;
use slimline_trace::wire::{COUNTS_EVERY, LARGE_BLOCK_BYTES};

/// A round of [`TIMED_EVERY`] allocations: how many are left until its last one, above how many bytes are left of more
/// than they can take. So one subtraction counts an allocation with its bytes, and borrows where there is more to do.
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
// No smaller block makes the bytes borrow.
const _: () = assert!((TIMED_EVERY as u64) * LARGE_BLOCK_BYTES < BYTES);

impl Round {
    const FRESH: Self = Self((TIMED_EVERY as u64 - 1) << ROUND_SHIFT | BYTES);

    /// Counts an allocation, but not its bytes; None where that was the round's last, or none was begun.
    fn count(self) -> Option<Self> {
        self.0.checked_sub(ONE).map(Self)
    }

    fn is_begun(self) -> bool {
        self.0 != 0
    }

    /// Allocations and bytes counted.
    fn counted(self) -> (u64, u64) {
        if self.is_begun() {
            ((Self::FRESH.0 >> ROUND_SHIFT) - (self.0 >> ROUND_SHIFT), BYTES - (self.0 & BYTES))
        } else {
            (0, 0)
        }
    }
}

/// Counts since they were last added to the process's, beside those in the thread's [`Round`] and [`thread::frees`].
/// Zeros are fresh ones.
///
/// A thread counts without entering the agent, which would cost more than counting: a signal handler that allocates in
/// between may lose one.
pub(crate) struct Counts {
    /// Rounds that are over.
    rounds: Cell<u32>,
    allocated_bytes: Cell<u64>,
    allocations_followed: Cell<u64>,
    /// Frees for which a look into the index was needed.
    looks: Cell<u32>,
    cost: Cost,
}

/// Counts an allocation of the calling thread. True from time to time: [`settle`] is due then.
#[inline]
#[must_use]
pub(super) fn allocation(bytes: u64) -> bool {
    let Some(Thread { counts, .. }) = thread::current() else { return false };
    let round = Round(thread::round());
    let counted = round.count().or_else(|| if round.is_begun() { None } else { Round::FRESH.count() });
    counts.add_bytes(bytes);
    if let Some(counted) = counted {
        thread::set_round(counted.0);
        return false;
    }
    counts.add_bytes(round.counted().1);
    counts.rounds.set(counts.rounds.get() + 1);
    thread::set_round(Round::FRESH.0);
    true
}

/// Counts a free of the calling thread.
#[inline(always)]
pub(super) fn free() {
    thread::set_frees(thread::frees().wrapping_add(1));
}

/// Counts a free of the calling thread that needs a look into the index. True where that is to be timed.
#[inline]
#[must_use]
pub(super) fn free_with_look() -> bool {
    free();
    thread::existing().is_some_and(|Thread { counts, .. }| {
        let looks = counts.looks.get().wrapping_add(1);
        counts.looks.set(looks);
        looks.is_multiple_of(TIMED_EVERY)
    })
}

/// What is to be done after a round of allocations.
#[cold]
#[inline(never)]
pub(super) fn settle() {
    if thread::existing().is_some_and(|thread| thread.counts.rounds.get() >= COUNTS_EVERY / TIMED_EVERY) {
        super::flush();
    }
}

impl Counts {
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

    /// Adds the counts of `thread`, the calling one, to its process's.
    pub(super) fn tell(&self, thread: &Thread) {
        // The file of a thread without a ring may be that of another process: see the head of [`crate::thread`].
        let Some(header) = recorder::header().filter(|_| thread.is_recorded()) else { return };
        self.cost.settle();
        let round = Round(thread::round());
        if round.is_begun() {
            thread::set_round(Round::FRESH.0);
        }
        let (allocations, bytes) = round.counted();
        let frees = thread::frees();
        thread::set_frees(0);
        for (counted, of_process) in [
            (allocations + u64::from(self.rounds.take() * TIMED_EVERY), &header.allocations),
            (bytes.wrapping_add(self.allocated_bytes.take()), &header.allocated_bytes),
            (self.allocations_followed.take(), &header.allocations_followed),
            (frees, &header.frees),
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
        let mut round = Round::FRESH;
        for allocations in 0..u64::from(TIMED_EVERY) - 1 {
            assert_eq!(round.counted(), (allocations, allocations * (LARGE_BLOCK_BYTES - 1)));
            round = subtract(round, LARGE_BLOCK_BYTES - 1).unwrap();
        }
        assert_eq!((subtract(round, 0), round.count()), (None, None), "the last");
        assert!(round.is_begun());
    }

    #[test]
    fn nothing_is_counted_before_a_round_is_begun() {
        assert_eq!((subtract(Round(0), 0), subtract(Round(0), 100)), (None, None));
        assert_eq!(Round(0).counted(), (0, 0));
        assert_eq!(Round::FRESH.count().unwrap().counted(), (1, 0), "bytes of these are counted elsewhere");
    }
}
