//! Which heap blocks are followed: all, until that costs too much; then those that begin on a part of the pages.
//!
//! Following a block (its call path, its entry in [`crate::blocks`], and taking that out again) costs some ten
//! nanoseconds, and several times that where the program's own data pushes our tables out of the caches. So it has a
//! budget, a part of the threads' CPU time. Each time it is used up, the part of pages on which new blocks are followed
//! is halved. Pages are chosen by a hash of their number, so whether a block is followed has nothing to do with what it
//! is, and both its allocation and its release can tell without a look-up. A block of 1 KiB or more is always
//! followed: there are few, and each is much.
//!
//! What was passed over is noted by page ([`crate::blocks`]), so that a sample there says "a block that nobody
//! followed", and not "no block". Attribution then goes by what the same instruction does to blocks that are followed.
//!
//! The part only ever shrinks: blocks already followed stay so, and those passed over can't be named later.
#![allow(unsafe_code)] // reads the time stamp counter

use core::cell::Cell;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicI64, AtomicU64};

use slimline_trace::wire::{ALWAYS_FOLLOWED_BYTES, COUNTED_SHIFT, PAGE_BITS};

use crate::{kernel, process, recorder};

/// One page in 64: fewer say too little of small heaps, and passing over costs as much as following so few.
pub(crate) const MAX_LEVEL: u32 = 6;
/// What may be spent before time has passed.
const ALLOWANCE_NS: i64 = 10_000_000;
/// What may be spent after each halving, before the next.
const RENEWED_NS: i64 = ALLOWANCE_NS / 8;
/// One allocation in so many is timed, and one release in so many of those that need a look.
pub(crate) const TIMED_EVERY: u32 = 64;
/// One that was interrupted tells nothing.
const LONGEST_TICKS: u64 = 1 << 14;

/// A budget of all of the time does not halve anything.
const UNLIMITED_PPM: u32 = 1_000_000;

/// Pages whose hash has these bits zero are chosen.
static MASK: AtomicU64 = AtomicU64::new(0);
/// What may still be spent.
static CREDIT_NS: AtomicI64 = AtomicI64::new(ALLOWANCE_NS);
/// Time stamp counter and clock at [`start`]: their rate comes from what has passed since.
static STARTED_TICKS: AtomicU64 = AtomicU64::new(0);
static STARTED_NS: AtomicU64 = AtomicU64::new(0);

/// Says in a new process file what is followed: all, or in a forked child what its parent followed.
pub(crate) fn start() {
    STARTED_TICKS.store(ticks(), Relaxed);
    STARTED_NS.store(recorder::now_ns(), Relaxed);
    publish(MASK.load(Relaxed));
}

fn publish(mask: u64) {
    if let Some(header) = recorder::header() {
        header.follow_shift.store(mask.count_ones(), Relaxed);
    }
}

/// Whether a new block is followed.
#[inline(always)]
pub(crate) fn chooses(base: u64, bytes: u64) -> bool {
    is_chosen(base >> PAGE_BITS, MASK.load(Relaxed)) || bytes >= ALWAYS_FOLLOWED_BYTES
}

/// How many blocks a new one stands for in the totals of its call path, as a power of two; None: it is not counted.
#[inline(always)]
pub(crate) fn stands_for(base: u64, bytes: u64) -> Option<u32> {
    let mask = ((1 << COUNTED_SHIFT) - 1) | if bytes < ALWAYS_FOLLOWED_BYTES { MASK.load(Relaxed) } else { 0 };
    is_chosen(base >> PAGE_BITS, mask).then(|| mask.count_ones())
}

/// Fibonacci hashing (Knuth, TAOCP 3, 6.4): the high bits of the product, which neighbouring pages spread over.
#[inline(always)]
fn is_chosen(page: u64, mask: u64) -> bool {
    page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - MAX_LEVEL) & mask == 0
}

/// The time stamp counter, once all loads before are done.
#[inline(always)]
pub(crate) fn ticks() -> u64 {
    // SAFETY: every x86-64 has both, and what forbids the counter (`PR_SET_TSC`) kills the vDSO's clocks too.
    unsafe {
        core::arch::x86_64::_mm_lfence();
        core::arch::x86_64::_rdtsc()
    }
}

/// What following costs a thread. Zeros are a fresh one.
pub(crate) struct Cost {
    /// Of what was timed since [`Self::settle`] was called last.
    timed_ticks: Cell<u64>,
    /// The thread's CPU time then.
    settled_cpu_ns: Cell<u64>,
}

impl Cost {
    /// One allocation or release in [`TIMED_EVERY`] took so long.
    pub(crate) fn note(&self, ticks: u64) {
        if ticks < LONGEST_TICKS {
            self.timed_ticks.set(self.timed_ticks.get() + ticks);
        }
    }

    /// Pays for what was followed since the last time, out of the CPU time that the thread had since.
    pub(crate) fn settle(&self) {
        let Some(config) = process::config().filter(|config| config.budget_ppm < UNLIMITED_PPM) else { return };
        let cpu_ns = kernel::clock_ns(libc::CLOCK_THREAD_CPUTIME_ID);
        let passed_ns = cpu_ns.saturating_sub(self.settled_cpu_ns.replace(cpu_ns));
        let earned_ns = u128::from(passed_ns) * u128::from(config.budget_ppm) / 1_000_000;
        let ticks_passed = ticks().saturating_sub(STARTED_TICKS.load(Relaxed)).max(1);
        let ns_passed = recorder::now_ns().saturating_sub(STARTED_NS.load(Relaxed));
        let timed_ticks = u128::from(self.timed_ticks.take()) * u128::from(TIMED_EVERY);
        let spent_ns = timed_ticks * u128::from(ns_passed) / u128::from(ticks_passed);
        let mask = MASK.load(Relaxed);
        let earned = CREDIT_NS.load(Relaxed).saturating_add(earned_ns as i64).min(ALLOWANCE_NS);
        let credit = earned.saturating_sub(spent_ns as i64);
        // Of two threads at once one may not pay: there will be a next time.
        CREDIT_NS.store(if credit < 0 { RENEWED_NS } else { credit }, Relaxed);
        if credit < 0 {
            follow_fewer(mask);
        }
    }
}

/// Halves the part of the pages, unless another thread has done so since it was `mask`.
#[cold]
fn follow_fewer(mask: u64) {
    let next = mask << 1 | 1;
    if next < 1 << MAX_LEVEL && MASK.compare_exchange(mask, next, Relaxed, Relaxed).is_ok() {
        publish(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_chooses_half_of_the_pages_of_the_one_before() {
        for start in [0x5_5555_5600_u64, 0x7_ffff_f000, 0] {
            let mut before: std::vec::Vec<u64> = (start..start + (1 << 14)).collect();
            for level in 1..=MAX_LEVEL {
                let mask = (1 << level) - 1;
                let chosen: std::vec::Vec<u64> = before.iter().copied().filter(|&page| is_chosen(page, mask)).collect();
                let expected = (1 << 14) >> level;
                assert!(chosen.len().abs_diff(expected) * 8 < expected, "level {level}: {} pages", chosen.len());
                before = chosen;
            }
        }
    }
}
