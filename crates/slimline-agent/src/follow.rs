//! Which heap blocks are followed: all, until that costs too much; then those that begin on a part of the pages.
//!
//! Following a block (its call path, its entry in [`crate::blocks`], and taking that out again) costs some ten
//! nanoseconds, and several times that where the program's own data pushes our tables out of the caches. So it has a
//! budget, a part of the threads' CPU time. Each time it is used up, the part of pages on which new blocks are followed
//! is halved. Pages are chosen by a hash of their number, so whether a block is followed has nothing to do with what it
//! is, and both its allocation and its release can tell without a look-up. A block of 1 KiB or more is followed on any
//! page: there are few, and each is much. In a program where there are many, so that those of them which no page chooses
//! are what costs most, it is this limit that is doubled instead, up to 64 KiB.
//!
//! What was passed over is noted by page ([`crate::blocks`]), so that a sample there says "a block that nobody
//! followed", and not "no block". Attribution then goes by what the same instruction does to blocks that are followed.
//!
//! The part only ever shrinks: blocks already followed stay so, and those passed over can't be named later.
#![allow(unsafe_code)] // reads the time stamp counter

use core::cell::Cell;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicI64, AtomicU64};

use slimline_trace::wire::{ALWAYS_FOLLOWED_BYTES, COUNTED_SHIFT, MOST_FOLLOWED_BYTES, PAGE_BITS};

use crate::{kernel, process, recorder};

/// One page in 64: fewer say too little of small heaps, and passing over costs as much as following so few.
pub(crate) const MAX_LEVEL: u32 = 6;
const MOST_MASK: u64 = (1 << MAX_LEVEL) - 1;
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
/// Blocks of so many bytes or more are followed on any page. Read by the entry functions' assembly.
pub(crate) static FOLLOWED_BYTES: AtomicU64 = AtomicU64::new(ALWAYS_FOLLOWED_BYTES);
/// What was timed since one of both was changed, of blocks that are followed for their page, and for their size.
static TICKS_BY_PAGE: AtomicU64 = AtomicU64::new(0);
static TICKS_BY_SIZE: AtomicU64 = AtomicU64::new(0);
/// What may still be spent.
static CREDIT_NS: AtomicI64 = AtomicI64::new(ALLOWANCE_NS);
/// Time stamp counter and clock at [`start`]: their rate comes from what has passed since.
static STARTED_TICKS: AtomicU64 = AtomicU64::new(0);
static STARTED_NS: AtomicU64 = AtomicU64::new(0);

/// Says in a new process file what is followed: all, or in a forked child what its parent followed.
pub(crate) fn start() {
    STARTED_TICKS.store(ticks(), Relaxed);
    STARTED_NS.store(recorder::now_ns(), Relaxed);
    publish();
}

fn publish() {
    if let Some(header) = recorder::header() {
        header.follow_shift.store(MASK.load(Relaxed).count_ones(), Relaxed);
        header.followed_bytes.store(FOLLOWED_BYTES.load(Relaxed), Relaxed);
    }
}

/// Blocks of so many bytes or more are followed on any page.
#[inline(always)]
pub(crate) fn followed_bytes() -> u64 {
    FOLLOWED_BYTES.load(Relaxed)
}

/// Whether a new block is followed.
#[inline(always)]
pub(crate) fn chooses(base: u64, bytes: u64) -> bool {
    is_chosen(base >> PAGE_BITS, MASK.load(Relaxed)) || bytes >= followed_bytes()
}

/// How many blocks a new one stands for in the totals of its call path, as a power of two; None: it is not counted.
#[inline(always)]
pub(crate) fn stands_for(base: u64, bytes: u64) -> Option<u32> {
    let mask = ((1 << COUNTED_SHIFT) - 1) | if bytes < followed_bytes() { MASK.load(Relaxed) } else { 0 };
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
    /// Of what was timed since [`Self::settle`] was called last: all, …
    timed_ticks: Cell<u64>,
    /// … what had to do with blocks that are followed for their page, …
    by_page_ticks: Cell<u64>,
    /// … and for their size only.
    by_size_ticks: Cell<u64>,
    /// The thread's CPU time then.
    settled_cpu_ns: Cell<u64>,
}

impl Cost {
    /// One allocation or release in [`TIMED_EVERY`] took so long, of a block at `base`; None: there was none in the index.
    pub(crate) fn note(&self, ticks: u64, base: u64, bytes: Option<u64>) {
        if ticks >= LONGEST_TICKS {
            return;
        }
        self.timed_ticks.set(self.timed_ticks.get() + ticks);
        if let Some(bytes) = bytes {
            // One that is smaller and not on a chosen page was followed while more pages were.
            let by_page = bytes < ALWAYS_FOLLOWED_BYTES || is_chosen(base >> PAGE_BITS, MASK.load(Relaxed));
            let part = if by_page { &self.by_page_ticks } else { &self.by_size_ticks };
            part.set(part.get() + ticks);
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
        TICKS_BY_PAGE.fetch_add(self.by_page_ticks.take(), Relaxed);
        TICKS_BY_SIZE.fetch_add(self.by_size_ticks.take(), Relaxed);
        let earned = CREDIT_NS.load(Relaxed).saturating_add(earned_ns as i64).min(ALLOWANCE_NS);
        let credit = earned.saturating_sub(spent_ns as i64);
        // Of two threads at once one may not pay: there will be a next time.
        CREDIT_NS.store(if credit < 0 { RENEWED_NS } else { credit }, Relaxed);
        if credit < 0 {
            follow_fewer();
        }
    }
}

/// Halves the part of the pages, or doubles the size from which on blocks are followed on any page: whichever is of those
/// blocks that cost more.
#[cold]
fn follow_fewer() {
    let by_page = TICKS_BY_PAGE.swap(0, Relaxed);
    let by_size = TICKS_BY_SIZE.swap(0, Relaxed);
    let (place, most) = if by_size > by_page { (&FOLLOWED_BYTES, MOST_FOLLOWED_BYTES) } else { (&MASK, MOST_MASK) };
    let now = place.load(Relaxed);
    let next = if by_size > by_page { now << 1 } else { now << 1 | 1 };
    // Where this fails another thread has done it.
    if next <= most && place.compare_exchange(now, next, Relaxed, Relaxed).is_ok() {
        publish();
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
