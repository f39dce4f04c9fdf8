//! Which memory of the process is ours and not the program's. In the agent, and in the runtime of traced programs.
//!
//! The program's locks leave it out ([`crate::locks`]). Whoever maps memory notes it here, in a signal handler too, so
//! there is no lock: a range has one of a few places that its address chooses.
//!
//! While the kernel locks whatever is mapped (`MCL_FUTURE`), memory is had by growing a mapping from before: the kernel
//! gives what grows the properties of what was there.
#![allow(unsafe_code)] // mappings

use core::ops::Range;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicUsize};

use crate::kernel;

const BUCKETS: usize = 512;
const PLACES: usize = 8;
const PAGE_BITS: u32 = 12;

struct Place {
    /// 0: free.
    start: AtomicUsize,
    /// 0 until the range is whole.
    end: AtomicUsize,
}

/// Room for the memory of a thousand threads. What finds its places taken counts as the program's.
static PLACES_BY_ADDRESS: [[Place; PLACES]; BUCKETS] =
    [const { [const { Place { start: AtomicUsize::new(0), end: AtomicUsize::new(0) } }; PLACES] }; BUCKETS];

fn places(start: usize) -> &'static [Place; PLACES] {
    // Fibonacci hashing: the upper bits of the product mix all bits of the page number.
    let hash = (start >> PAGE_BITS).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (usize::BITS - BUCKETS.ilog2());
    &PLACES_BY_ADDRESS[hash]
}

/// Notes a new mapping.
pub(crate) fn note(start: usize, bytes: usize) {
    let end = (start + bytes).next_multiple_of(1 << PAGE_BITS);
    let taken = places(start).iter().find(|place| place.start.compare_exchange(0, start, AcqRel, Relaxed).is_ok());
    if let Some(place) = taken {
        place.end.store(end, Release);
    }
}

/// Forgets a mapping that is about to go.
pub(crate) fn forget(start: usize) {
    if let Some(place) = places(start).iter().find(|place| place.start.load(Relaxed) == start) {
        place.end.store(0, Relaxed);
        place.start.store(0, Release);
    }
}

/// In a forked child: forgets what the kernel left out of it (`MADV_DONTFORK`). The program may map something there.
pub(crate) fn in_forked_child() {
    for Range { start, .. } in ranges() {
        let mut answer = 0_u8;
        // SAFETY: the kernel writes one byte.
        let result = unsafe { kernel::call(libc::SYS_mincore, [start, PAGE_BYTES, &raw mut answer as usize, 0, 0, 0]) };
        if result == -libc::ENOMEM as isize {
            forget(start);
        }
    }
}

fn ranges() -> impl Iterator<Item = Range<usize>> {
    PLACES_BY_ADDRESS.iter().flatten().filter_map(|place| {
        let (start, end) = (place.start.load(Acquire), place.end.load(Acquire));
        (start != 0 && start < end).then_some(start..end)
    })
}

/// Bytes of it all.
pub(crate) fn total_bytes() -> usize {
    ranges().map(|range| range.len()).sum()
}

/// Calls `visit` for each part of a range that is not ours.
pub(crate) fn each_other(range: Range<usize>, visit: &mut dyn FnMut(Range<usize>)) {
    let mut at = range.start;
    while at < range.end {
        let next = ranges().filter(|own| own.end > at).min_by_key(|own| own.start);
        let own = next.filter(|own| own.start < range.end).unwrap_or(range.end..range.end);
        if at < own.start {
            visit(at..own.start);
        }
        at = own.end.max(at);
    }
}

/// Whether the kernel locks what is mapped.
static IS_APART: AtomicBool = AtomicBool::new(false);
/// A page that is not locked and stays untouched; 0 where there is none, or somebody is growing it.
static SEED: AtomicUsize = AtomicUsize::new(0);
pub(crate) const PAGE_BYTES: usize = 1 << PAGE_BITS;

/// Maps what [`grow`] grows. Before the kernel is to lock whatever is mapped.
pub(crate) fn prepare_to_grow() {
    if SEED.load(Relaxed) != 0 {
        return;
    }
    let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE) as usize;
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    // SAFETY: a new mapping at a place that the kernel chooses touches nothing that exists; the advice changes no content.
    let page = unsafe {
        let page = kernel::call(libc::SYS_mmap, [0, PAGE_BYTES, protection, flags, usize::MAX, 0]);
        if page < 0 {
            return;
        }
        kernel::call(libc::SYS_madvise, [page as usize, PAGE_BYTES, libc::MADV_DONTDUMP as usize, 0, 0, 0]);
        page as usize
    };
    if SEED.compare_exchange(0, page, Release, Relaxed).is_ok() {
        note(page, PAGE_BYTES);
    } else {
        // SAFETY: nobody has seen it.
        unsafe { kernel::call(libc::SYS_munmap, [page, PAGE_BYTES, 0, 0, 0, 0]) };
    }
}

/// Says whether the kernel locks what is mapped from now on.
pub(crate) fn keep_apart(is_apart: bool) {
    IS_APART.store(is_apart, Relaxed);
}

/// Whether the kernel locks what is mapped.
pub(crate) fn is_apart() -> bool {
    IS_APART.load(Relaxed)
}

/// Private memory, zero, that the kernel does not lock; None where there is none now, as when two threads come at once.
pub(crate) fn grow(bytes: usize) -> Option<usize> {
    let seed = SEED.swap(0, AcqRel);
    if seed == 0 {
        return None;
    }
    let bytes = bytes.next_multiple_of(PAGE_BYTES);
    // SAFETY: the page is ours, untouched and unused.
    let grown = unsafe {
        kernel::call(libc::SYS_mremap, [seed, PAGE_BYTES, bytes + PAGE_BYTES, libc::MREMAP_MAYMOVE as usize, 0, 0])
    };
    if grown < 0 {
        SEED.store(seed, Release);
        return None;
    }
    let start = grown as usize;
    forget(seed);
    note(start + bytes, PAGE_BYTES);
    SEED.store(start + bytes, Release);
    Some(start)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;
    use std::vec::Vec;

    fn others(range: Range<usize>) -> Vec<Range<usize>> {
        let mut found = Vec::new();
        each_other(range, &mut |part| found.push(part));
        found
    }

    /// Below all that programs map.
    const LOW: usize = 0x10_0000;

    #[test]
    fn what_was_noted_is_left_out_until_it_is_forgotten() {
        note(LOW + 0x3000, 0x1000);
        note(LOW + 0x6000, 0x1234);
        assert_eq!(
            others(LOW..LOW + 0x9000),
            [LOW..LOW + 0x3000, LOW + 0x4000..LOW + 0x6000, LOW + 0x8000..LOW + 0x9000]
        );
        assert_eq!(others(LOW + 0x3000..LOW + 0x4000), []);
        assert_eq!(others(LOW + 0x7000..LOW + 0x8000), [], "rounded up to pages");
        forget(LOW + 0x3000);
        assert_eq!(others(LOW..LOW + 0x6000), vec![LOW..LOW + 0x6000]);
        forget(LOW + 0x6000);
    }

    #[test]
    fn what_a_child_does_not_have_is_forgotten() {
        static MAPPED: [u8; 3 * PAGE_BYTES] = [1; 3 * PAGE_BYTES];
        let start = (&raw const MAPPED).addr().next_multiple_of(PAGE_BYTES);
        for (start, is_kept) in [(start, true), (LOW + 0x10_0000, false)] {
            note(start, 2 * PAGE_BYTES);
            assert_eq!(others(start..start + 2 * PAGE_BYTES), []);
            in_forked_child();
            assert_eq!(others(start..start + 2 * PAGE_BYTES).is_empty(), is_kept);
        }
    }

    #[test]
    fn what_grows_is_zero_and_its_own() {
        prepare_to_grow();
        let blocks = [5000, 1 << 20, 1].map(|bytes| (grow(bytes).unwrap(), bytes));
        for (number, (start, bytes)) in (1..).zip(blocks) {
            // SAFETY: fresh memory of this size.
            let words = unsafe { core::slice::from_raw_parts_mut(start as *mut u8, bytes) };
            assert!(words.iter().all(|&byte| byte == 0));
            words.fill(number);
        }
        // SAFETY: as above.
        let last = |(start, bytes): (usize, usize)| unsafe { ((start + bytes - 1) as *const u8).read() };
        assert_eq!(blocks.map(last), [1, 2, 3]);
    }
}
