//! What a thread counts of its allocations.

use crate::follow::{Cost, TIMED_EVERY};
use crate::recorder;
use crate::thread::{self, Thread};
use core::cell::Cell;
use core::sync::atomic::Ordering::Relaxed;
use slimline_trace::wire::COUNTS_EVERY;

/// Counts since they were last added to the process's. Zeros are fresh ones.
///
/// A thread counts without entering the agent, which would cost more than counting: a signal handler that allocates in
/// between may lose one.
pub(crate) struct Counts {
    /// Without those of full rounds.
    allocations: Cell<u32>,
    /// Rounds of [`TIMED_EVERY`] allocations.
    rounds: Cell<u32>,
    allocated_bytes: Cell<u64>,
    allocations_followed: Cell<u64>,
    frees: Cell<u64>,
    /// Frees for which a look into the index was needed.
    looks: Cell<u32>,
    cost: Cost,
}

/// Counts an allocation of the calling thread; false, and nothing done, where [`allocation`] is needed.
#[inline(always)]
#[must_use]
pub(super) fn allocation_quietly(bytes: u64) -> bool {
    let Some(Thread { counts, .. }) = thread::existing() else { return false };
    let allocations = counts.allocations.get() + 1;
    if allocations >= TIMED_EVERY {
        return false;
    }
    counts.add(allocations, bytes);
    true
}

/// Counts an allocation of the calling thread. True from time to time: [`settle`] is due then.
#[inline]
#[must_use]
pub(super) fn allocation(bytes: u64) -> bool {
    let Some(Thread { counts, .. }) = thread::current() else { return false };
    let allocations = counts.allocations.get() + 1;
    counts.add(allocations, bytes);
    allocations >= TIMED_EVERY
}

/// Counts a free of the calling thread; false where it has no counts.
#[inline(always)]
pub(super) fn free() -> bool {
    let Some(Thread { counts, .. }) = thread::existing() else { return false };
    counts.frees.set(counts.frees.get().wrapping_add(1));
    true
}

/// Counts a free of the calling thread that needs a look into the index. True where that is to be timed.
#[inline]
#[must_use]
pub(super) fn free_with_look() -> bool {
    if !free() {
        return false;
    }
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
    let Some(thread) = thread::existing() else { return };
    thread.counts.allocations.set(0);
    let rounds = thread.counts.rounds.get() + 1;
    thread.counts.rounds.set(rounds);
    if rounds >= COUNTS_EVERY / TIMED_EVERY {
        super::flush();
    }
}

impl Counts {
    /// Takes in an allocation, after which there are `allocations` of this round.
    #[inline(always)]
    fn add(&self, allocations: u32, bytes: u64) {
        self.allocations.set(allocations);
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

    /// Adds the counts of `thread` to its process's.
    pub(super) fn tell(&self, thread: &Thread) {
        // The file of a thread without a ring may be that of another process: see the head of [`crate::thread`].
        let Some(header) = recorder::header().filter(|_| thread.is_recorded()) else { return };
        self.cost.settle();
        let allocations = self.allocations.take() + self.rounds.take() * TIMED_EVERY;
        for (counted, of_process) in [
            (allocations.into(), &header.allocations),
            (self.allocated_bytes.take(), &header.allocated_bytes),
            (self.allocations_followed.take(), &header.allocations_followed),
            (self.frees.take(), &header.frees),
        ] {
            of_process.fetch_add(counted, Relaxed);
        }
    }
}
