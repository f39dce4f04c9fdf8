//! Which heap blocks are followed: all, until that costs too much; then one in so many.
//!
//! Following a block (its call path, its entry in [`crate::blocks`], and taking that out again) costs some ten
//! nanoseconds, and several times that where the program's own data pushes our tables out of the caches. So it has a
//! budget, half as large a part of the threads' CPU time as bursts have. Each time it is used up, half as many new blocks are followed, and twice as many
//! again each time that far more has been saved than they cost (but not all: [`follow_more`]). Each thread
//! counts its allocations down to the next that is ([`gap`]): by chance, so that no pattern of the program's can keep
//! step, and before the block is there, so that the others cost a few instructions. A block of 1 KiB or more is always
//! followed: there are few, and each is much. In a program where there are many, so that those of them which no count
//! chooses are what costs most, it is this limit that is doubled instead, up to 64 KiB.
//!
//! Where blocks were passed over is noted roughly ([`crate::blocks`]), so that a sample there says "a block that nobody
//! followed", and not "no block". Attribution then goes by what the same instruction does to blocks that are followed.
//!
//! Blocks already followed stay so. Those passed over get no call path later; see [`crate::boundary_tags`] for their bounds.
#![allow(unsafe_code)] // reads the time stamp counter

use core::cell::Cell;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicI64, AtomicU32, AtomicU64};

use slimline_trace::wire::{ALWAYS_FOLLOWED_BYTES, COUNTED_SHIFT, MOST_FOLLOWED_BYTES, PAGE_BITS};

use crate::blocks::{BLOCKS, INNER};
use crate::trigger::{self, CALLING_THREAD};
use crate::{kernel, process, recorder};

/// One block in 1024: passing over costs more than following so few, and fewer say too little of small heaps.
pub(crate) const MAX_LEVEL: u32 = 10;
/// Following has one part in so many of the budget: what it pushes out of the program's caches is not timed, and costs
/// about as much again.
const OF_BUDGET: u128 = 2;
/// What may be spent before time has passed.
const ALLOWANCE_NS: i64 = 2_000_000;
/// What may be spent after each halving, before the next.
const RENEWED_NS: i64 = ALLOWANCE_NS / 8;
/// What must have been saved before more are followed.
const SAVED_NS: i64 = 2 * RENEWED_NS;
/// One in so many of those allocations that are followed is timed, and of those releases that need a look, while all are
/// followed. [`MOST_TIMED_SHIFT`]: the fewer, the more, lest few tell of many.
const TIMED_SHIFT: u32 = 6;
const MOST_TIMED_SHIFT: u32 = 2;
/// One that was interrupted tells nothing.
const LONGEST_TICKS: u64 = 1 << 14;

/// Far longer than a store takes to be seen by all processors, see [`crate::blocks::BlockIndex::allow_sweeps`].
const SETTLED_NS: u64 = 10_000_000;

/// A budget of all of the time does not halve anything.
const UNLIMITED_PPM: u32 = 1_000_000;

/// One block in 2^this is followed.
static LEVEL: AtomicU32 = AtomicU32::new(0);
/// Blocks of so many bytes or more are all followed. Read by the entry functions' assembly.
pub(crate) static FOLLOWED_BYTES: AtomicU64 = AtomicU64::new(ALWAYS_FOLLOWED_BYTES);
/// See [`reach_bytes`].
static REACH_BYTES: AtomicU64 = AtomicU64::new(0);
/// When [`LEVEL`] was first raised; 0: never.
static PASSING_SINCE_NS: AtomicU64 = AtomicU64::new(0);
/// What was timed since one of both was changed, of blocks that are followed by count, and for their size.
static TICKS_BY_COUNT: AtomicU64 = AtomicU64::new(0);
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
    REACH_BYTES.fetch_max(followed_bytes() << LEVEL.load(Relaxed), Relaxed);
    if let Some(header) = recorder::header() {
        header.follow_shift.store(LEVEL.load(Relaxed), Relaxed);
        header.followed_bytes.store(FOLLOWED_BYTES.load(Relaxed), Relaxed);
    }
}

/// Blocks of so many bytes or more are all followed.
#[inline(always)]
pub(crate) fn followed_bytes() -> u64 {
    FOLLOWED_BYTES.load(Relaxed)
}

/// How far a block that was ever passed over is at most, as a rule, from one that count chose: as far as so many blocks
/// reach of which none is followed for its size.
pub(crate) fn reach_bytes() -> u64 {
    REACH_BYTES.load(Relaxed)
}

/// How many allocations it takes to the next that is followed, that one included: 2^level on average, evenly spread from
/// 1 to less than twice that. `random` must be. `first`: there was none before, so it is the rest of such a gap from a point
/// in it that is chosen by chance, which is the lesser of two (but for one part in 2^(level + 1)); else blocks
/// of threads that make few would be followed half as often.
pub(crate) fn gap(first: bool, random: u64) -> u64 {
    match LEVEL.load(Relaxed) {
        0 => 1,
        level => gap_of(level, first, random),
    }
}

fn gap_of(level: u32, first: bool, random: u64) -> u64 {
    let most = (2 << level) - 1;
    let gap = |random: u64| 1 + (((random >> 32) * most) >> 32);
    if first { gap(random).min(gap(random << 32)) } else { gap(random) }
}

/// One new block of this size in 2^this is followed.
#[inline(always)]
pub(crate) fn shift_of(bytes: u64) -> u32 {
    if bytes < followed_bytes() { LEVEL.load(Relaxed) } else { 0 }
}

/// Whether a new block, which is one of 2^`follow_shift`, is counted in the totals of its call path.
#[inline(always)]
pub(crate) fn is_counted(base: u64, follow_shift: u32) -> bool {
    is_chosen(base >> PAGE_BITS, COUNTED_SHIFT.saturating_sub(follow_shift))
}

/// Whether a page is one of those in 2^`shift` that are chosen by a hash of their number. Fibonacci hashing (Knuth, TAOCP
/// 3, 6.4): the high bits of the product, which neighbouring pages spread over.
#[inline(always)]
fn is_chosen(page: u64, shift: u32) -> bool {
    page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - COUNTED_SHIFT) & ((1 << shift) - 1) == 0
}

/// Whether a followed allocation or a release with a look is to be timed, by how many there were before.
#[inline(always)]
pub(crate) fn is_timed(number: u32) -> bool {
    number & ((1 << timed_shift()) - 1) == 0
}

#[inline(always)]
fn timed_shift() -> u32 {
    TIMED_SHIFT.saturating_sub(LEVEL.load(Relaxed)).max(MOST_TIMED_SHIFT)
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
    /// Since [`Self::settle`] was called last, by what was timed: all, …
    timed_ticks: Cell<u64>,
    /// … what had to do with blocks that are followed by count, …
    by_count_ticks: Cell<u64>,
    /// … and for their size only.
    by_size_ticks: Cell<u64>,
    /// The thread's user time then.
    settled_user_ns: Cell<u64>,
}

impl Cost {
    /// An allocation or release that [`is_timed`] took so long, of a block of so many bytes; None: there was none in the
    /// index.
    pub(crate) fn note(&self, ticks: u64, bytes: Option<u64>) {
        if ticks >= LONGEST_TICKS {
            return;
        }
        let ticks = ticks << timed_shift();
        self.timed_ticks.set(self.timed_ticks.get() + ticks);
        if let Some(bytes) = bytes {
            // Of those above the limit count would have chosen few.
            let by_count = bytes < followed_bytes() || LEVEL.load(Relaxed) == 0;
            let part = if by_count { &self.by_count_ticks } else { &self.by_size_ticks };
            part.set(part.get() + ticks);
        }
    }

    /// Pays for what was followed since the last time, out of the user time that the thread had since.
    ///
    /// As the kernel's ticks tell it: asking for the precise CPU time makes the scheduler look at once whether the thread's
    /// slice is over. Who often asks loses the processor before the tick comes, which then finds somebody else, and is not
    /// sampled for half of its time where threads outnumber processors.
    pub(crate) fn settle(&self) {
        let Some(config) = process::config().filter(|config| config.budget_ppm < UNLIMITED_PPM) else { return };
        let user_ns = kernel::clock_ns(trigger::user_clock(CALLING_THREAD) as libc::clockid_t);
        let passed_ns = user_ns.saturating_sub(self.settled_user_ns.replace(user_ns));
        let earned_ns = u128::from(passed_ns) * u128::from(config.budget_ppm) / 1_000_000 / OF_BUDGET;
        let ticks_passed = ticks().saturating_sub(STARTED_TICKS.load(Relaxed)).max(1);
        let now_ns = recorder::now_ns();
        let ns_passed = now_ns.saturating_sub(STARTED_NS.load(Relaxed));
        let spent_ns = u128::from(self.timed_ticks.take()) * u128::from(ns_passed) / u128::from(ticks_passed);
        TICKS_BY_COUNT.fetch_add(self.by_count_ticks.take(), Relaxed);
        TICKS_BY_SIZE.fetch_add(self.by_size_ticks.take(), Relaxed);
        let earned = CREDIT_NS.load(Relaxed).saturating_add(earned_ns as i64).min(ALLOWANCE_NS);
        let credit = earned.saturating_sub(spent_ns as i64);
        let is_plenty = credit >= SAVED_NS && spent_ns * 4 < earned_ns;
        // Of two threads at once one may not pay: there will be a next time.
        CREDIT_NS.store(if credit < 0 || is_plenty { RENEWED_NS } else { credit }, Relaxed);
        if credit < 0 {
            follow_fewer(now_ns);
        } else if is_plenty {
            follow_more();
        }
        let since_ns = PASSING_SINCE_NS.load(Relaxed);
        if since_ns != 0 && now_ns.saturating_sub(since_ns) >= SETTLED_NS {
            BLOCKS.allow_sweeps();
            INNER.allow_sweeps();
        }
    }
}

/// Halves the part of the blocks, or doubles the size from which on all are followed: whichever is of those blocks that
/// cost more.
#[cold]
fn follow_fewer(now_ns: u64) {
    let by_count = TICKS_BY_COUNT.swap(0, Relaxed);
    let by_size = TICKS_BY_SIZE.swap(0, Relaxed);
    let changed = if by_size > by_count {
        let bytes = FOLLOWED_BYTES.load(Relaxed);
        bytes < MOST_FOLLOWED_BYTES && FOLLOWED_BYTES.compare_exchange(bytes, bytes << 1, Relaxed, Relaxed).is_ok()
    } else {
        let level = LEVEL.load(Relaxed);
        BLOCKS.pass_over();
        INNER.pass_over();
        let _ = PASSING_SINCE_NS.compare_exchange(0, now_ns, Relaxed, Relaxed);
        level < MAX_LEVEL && LEVEL.compare_exchange(level, level + 1, Relaxed, Relaxed).is_ok()
    };
    // Else another thread has done it, or there is no way on.
    if changed {
        publish();
    }
}

/// Doubles the part of the blocks, short of all: that all are followed means that they always were.
#[cold]
fn follow_more() {
    let level = LEVEL.load(Relaxed);
    if level > 1 && LEVEL.compare_exchange(level, level - 1, Relaxed, Relaxed).is_ok() {
        publish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    #[test]
    fn pages_that_are_counted_are_spread() {
        for start in [0x5_5555_5600_u64, 0x7_ffff_f000, 0] {
            for shift in 0..=COUNTED_SHIFT {
                let counted = (start..start + (1 << 14)).filter(|&page| is_chosen(page, shift)).count();
                let expected = (1 << 14) >> shift;
                assert!(counted.abs_diff(expected) * 8 < expected, "shift {shift}: {counted} pages");
            }
        }
    }

    /// What a generator of random numbers would give, each value of its upper half as often.
    fn halves(level: u32) -> impl Iterator<Item = u64> {
        let steps = ((2 << level) - 1) * 64;
        (0..steps).map(move |step| ((step << 32) / steps + 1) << 32)
    }

    #[test]
    fn gaps_are_even_and_right_on_average() {
        for level in 1..=MAX_LEVEL {
            let mut often = vec![0_u32; 2 << level];
            for random in halves(level) {
                often[gap_of(level, false, random) as usize] += 1;
            }
            assert_eq!(often[0], 0);
            assert!(often[1..].iter().all(|times| times.abs_diff(64) <= 1), "{often:?}");
        }
    }

    #[test]
    fn the_first_gap_makes_no_allocation_of_a_thread_less_likely() {
        // Probability that allocation n is chosen: that the first gap is n, or one before it was chosen and a gap from there
        // is n. All must be 1 in 2^level, but for how the first is approximated.
        let level = 3;
        let most = (2_usize << level) - 1;
        let mut first = vec![0.0; most + 1];
        for one in halves(level) {
            for other in halves(level).step_by(8) {
                first[gap_of(level, true, one | other >> 32) as usize] += 1.0;
            }
        }
        let total: f64 = first.iter().sum();
        let mut chosen = vec![0.0; 100];
        for n in 1..chosen.len() {
            let after: f64 = (n.saturating_sub(most).max(1)..n).map(|before| chosen[before] / most as f64).sum();
            chosen[n] = first.get(n).map_or(0.0, |times| times / total) + after;
            assert!((chosen[n] - 0.125_f64).abs() < 0.01, "allocation {n}: {}", chosen[n]);
        }
    }
}
