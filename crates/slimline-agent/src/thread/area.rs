//! Whether the calling thread's `fs` points to a thread-local area that has the agent's words.
//!
//! A program may point it elsewhere around code that runs without the C library, or nowhere. A trigger that comes then must
//! not use thread-local storage. Areas that the dynamic linker made hold [`COOKIE`]. Looking for it must not fault, which takes
//! a system call, so each thread's last answer is kept.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

use super::{COOKIE, COOKIE_OFFSET, first_word_offset};
use crate::{kernel, segments};

const PLACE_BITS: u32 = 10;
const PLACES: usize = 1 << PLACE_BITS;
/// Each thread's last base with the agent's words, see [`entry`]. Threads with the same place overwrite each other's.
static RECOGNIZED: [AtomicU64; PLACES] = [const { AtomicU64::new(0) }; PLACES];

/// Whether the calling thread, which has the kernel's number `tid`, may use its thread-local storage.
pub(crate) fn is_ours(tid: u32) -> bool {
    let Some(base) = segments::fs_base() else { return false };
    let place = &RECOGNIZED[tid as usize % PLACES];
    let entry = entry(tid, base);
    if entry.is_some_and(|entry| place.load(Relaxed) == entry) {
        return true;
    }
    let is_ours = has_our_words(tid, base);
    if is_ours && let Some(entry) = entry {
        place.store(entry, Relaxed);
    }
    is_ours
}

/// Thread and base in one word. None if it has no room for them: a thread's number has at most 22 bits, and the C library
/// takes no memory above 47.
fn entry(tid: u32, base: u64) -> Option<u64> {
    const BASE_BITS: u32 = 48;
    let number = u64::from(tid >> PLACE_BITS) + 1;
    (base >> BASE_BITS == 0 && number >> (u64::BITS - BASE_BITS) == 0).then_some(number << BASE_BITS | base)
}

fn has_our_words(tid: u32, base: u64) -> bool {
    let cookie_at = base.wrapping_add(first_word_offset()).wrapping_add(COOKIE_OFFSET as u64);
    // The C library keeps an area's address in its first word.
    let (mut found, expected) = ([0_u64; 2], [base, COOKIE]);
    let from = [kernel::range(base, size_of::<u64>()), kernel::range(cookie_at, size_of::<u64>())];
    let to = kernel::range(found.as_mut_ptr().expose_provenance() as u64, size_of_val(&found));
    // SAFETY: our own buffer.
    let bytes = unsafe { kernel::copy_ranges(tid, &from, &[to]) };
    bytes == size_of_val(&found) && found == expected
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    #[test]
    fn areas_are_known_by_their_content() {
        segments::prepare();
        let tid = kernel::thread_id();
        let base = segments::fs_base().unwrap();
        assert!(has_our_words(tid, base));
        assert!(is_ours(tid) && is_ours(tid), "found, and kept");
        let memory = vec![base; 512];
        let inside = &raw const memory[256] as u64;
        for other in [0, 8, base + 8, base - 4096, inside, 1 << 47, u64::MAX - 7] {
            assert!(!has_our_words(tid, other), "{other:#x}");
        }
    }

    #[test]
    fn threads_with_one_place_have_different_entries() {
        let base = 0x7fff_ffff_f000;
        assert_ne!(entry(7, base), entry(7 + PLACES as u32, base));
        assert_ne!(entry(7, base), entry(7, base - 64));
        assert_ne!(entry(1, 0), Some(0), "an empty place");
        assert!(entry((1 << 22) - 1, base).is_some());
        assert_eq!(entry(1, 1 << 48), None);
    }
}
