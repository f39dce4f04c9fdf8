//! Which call path an allocation comes from, at a few nanoseconds.
//!
//! Unwinding each time would cost ten times the allocation. But the path is a function of few words: the return
//! address, the stack pointer, and the stack slots that unwinding would read. So each thread keeps the paths that it
//! has seen together with these slots, and a path is known again by reading its slots again ([`Entry::matches`]):
//! equal inputs, equal path. Every slot that decided is checked, also saved frame pointers and stack pointers where
//! the caller's place was found by means of them.
//!
//! Entries are found by return address and stack pointer. Where many callers reach an allocation through one wrapper
//! with equal frames, these are equal too; so an entry whose check fails at one slot leads on: the next place to look
//! is found from that slot and what it holds now ([`Cache::look_up`]). The entries of one stack position so form a
//! tree that branches exactly where paths do.
//!
//! A path that is new is unwound only as far as it is new: the last one unwound is kept with its frames, and where a
//! frame of it is met again, the rest is checked slot by slot as above instead ([`Trail`]).
#![allow(unsafe_code)] // reads the target's stack and the shared stack area

mod paths;
mod trail;

pub(crate) use paths::{PATHS, StackArea};

use crate::kernel;
use crate::unwind::Window;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use paths::Paths;
use trail::Trail;

/// Most frames kept of an allocation's call path. Programs name a data structure within far fewer; the slots of this
/// many fit an [`Entry`].
pub(crate) const MAX_PATH_FRAMES: usize = 24;

/// Entries of a thread's cache: 3 MiB, touched as far as used.
const ENTRIES: usize = 1 << 14;
/// Entries looked at for one allocation, at most.
const MAX_BRANCHES: usize = 12;

/// Slots of an entry: one for each caller, and two for each stack pointer that was read from the stack.
const SLOTS: usize = 76;

/// A path seen at a stack position. 192 bytes; a path of 13 frames needs the first 64.
#[repr(C, align(64))]
struct Entry {
    /// From return address, stack pointer, and the slots that led here; 0: empty.
    key: u64,
    /// The path's frames in the stack area.
    frames: *const AtomicU64,
    /// Frame pointer register, if it decided.
    bp: u64,
    number: u32,
    /// From the stack pointer to the end of the outermost slot.
    extent_bytes: u32,
    /// Frames to check; the first is the return address itself.
    count: u8,
    /// Stack pointers on the stack to check, after the frames.
    pointers: u8,
    needs_bp: bool,
    /// Distances from the stack pointer in words: one for each frame, then slot and value of each pointer.
    words: [u16; SLOTS],
}

const _: () = assert!(size_of::<Entry>() == 192 && SLOTS >= MAX_PATH_FRAMES + 2 * MAX_PATH_FRAMES);

impl Entry {
    /// Slots and what they must hold, innermost first: the return address itself and those of the callers.
    #[inline(always)]
    fn frames(&self) -> (&[u16], &[AtomicU64]) {
        let count = usize::from(self.count);
        // SAFETY: an entry has as many frames in the stack area, which is mapped for ever, and as many words.
        unsafe { (self.words.get_unchecked(..count), core::slice::from_raw_parts(self.frames, count)) }
    }

    /// Whether the stack is that of this entry.
    ///
    /// # Safety
    /// `extent_bytes` from `sp` must be readable.
    #[inline(always)]
    unsafe fn matches(&self, sp: u64, bp: u64) -> bool {
        // SAFETY: slots are within the extent.
        let differs = |(word, frame): (&u16, &AtomicU64)| unsafe { slot(sp, *word) } ^ frame.load(Relaxed);
        let (words, frames) = self.frames();
        // Four a branch: on the way to a known path all are equal.
        let (word_blocks, last_words) = words.as_chunks::<4>();
        let (frame_blocks, last_frames) = frames.as_chunks::<4>();
        for (words, frames) in word_blocks.iter().zip(frame_blocks) {
            if words.iter().zip(frames).fold(0, |difference, pair| difference | differs(pair)) != 0 {
                return false;
            }
        }
        last_words.iter().zip(last_frames).all(|pair| differs(pair) == 0)
            // SAFETY: passed on.
            && (!self.needs_bp && self.pointers == 0 || unsafe { self.pointer_difference(sp, bp) }.is_none())
    }

    /// None if the stack is that of this entry; else a word that tells this path from others here: where the first
    /// difference is, and what was found.
    ///
    /// # Safety
    /// `extent_bytes` from `sp` must be readable.
    unsafe fn difference(&self, sp: u64, bp: u64) -> Option<u64> {
        let (words, frames) = self.frames();
        for (index, (word, frame)) in words.iter().zip(frames).enumerate() {
            // SAFETY: slots are within the extent.
            let found = unsafe { slot(sp, *word) };
            if found != frame.load(Relaxed) {
                return Some(found ^ (index as u64) << 56);
            }
        }
        // SAFETY: passed on.
        unsafe { self.pointer_difference(sp, bp) }
    }

    /// As [`Self::difference`], for frame pointers and stack pointers.
    ///
    /// # Safety
    /// As there.
    #[inline(never)]
    unsafe fn pointer_difference(&self, sp: u64, bp: u64) -> Option<u64> {
        if self.needs_bp && bp != self.bp {
            return Some(bp ^ 0xff << 56);
        }
        let pointers = &self.words[usize::from(self.count)..][..2 * usize::from(self.pointers)];
        for (index, pair) in pointers.chunks_exact(2).enumerate() {
            // SAFETY: slots are within the extent.
            let found = unsafe { slot(sp, pair[0]) };
            if found != sp + u64::from(pair[1]) * 8 {
                return Some(found ^ (index as u64 + 0x80) << 56);
            }
        }
        None
    }
}

/// The word at a distance in words from the stack pointer.
///
/// # Safety
/// It must be readable.
#[inline(always)]
unsafe fn slot(sp: u64, word: u16) -> u64 {
    // SAFETY: promised by the caller; an entry's stack pointer is aligned.
    unsafe { ((sp + u64::from(word) * 8) as *const u64).read_volatile() }
}

/// Counts of what a cache did, for tests and tuning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Paths that had to be unwound, at least in part.
    pub(crate) misses: u64,
    /// Steps made by unwind information.
    pub(crate) steps: u64,
    /// Frames taken over from the path before.
    pub(crate) reused: u64,
}

/// A thread's cache.
#[repr(C, align(4096))]
pub(crate) struct Cache {
    entries: [Entry; ENTRIES],
    paths: &'static Paths,
    area: &'static dyn StackArea,
    trail: Trail,
    counts: Counts,
}

impl Cache {
    /// Makes zeroed memory an empty cache.
    ///
    /// # Safety
    /// `memory` must be zero and as large and aligned as a cache.
    pub(crate) unsafe fn init(memory: *mut Self, paths: &'static Paths, area: &'static dyn StackArea) {
        // SAFETY: promised by the caller; zeroes are valid for all other fields.
        unsafe {
            (&raw mut (*memory).paths).write(paths);
            (&raw mut (*memory).area).write(area);
        }
    }

    /// Forgets all: an object was unloaded, its addresses may mean something else now.
    pub(crate) fn forget(&mut self) {
        self.trail.forget();
        // SAFETY: our own mapping; zeroes are empty entries.
        unsafe { kernel::clear((&raw mut self.entries).cast(), size_of_val(&self.entries)) };
    }

    /// The first place to look, in line: the number of the call path of a function that was entered with `sp` pointing
    /// at its return address and `bp` in the frame pointer register. None where [`Self::number`] is needed.
    ///
    /// # Safety
    /// `sp` must be the stack pointer at the entry of a function that the calling thread is in.
    #[inline(always)]
    pub(crate) unsafe fn known(&self, sp: u64, bp: u64, window: &Window) -> Option<u32> {
        // SAFETY: the return address, promised by the caller.
        let key = key(unsafe { (sp as *const u64).read() }, sp);
        let entry = &self.entries[index(key)];
        let known = entry.key == key
            && window.covers(sp, sp + u64::from(entry.extent_bytes) - 8)
            // SAFETY: the window says so.
            && unsafe { entry.matches(sp, bp) };
        known.then_some(entry.number)
    }

    /// The whole search: along the branches, then by unwinding. 0 if there is no path.
    pub(crate) fn number(&mut self, sp: u64, bp: u64, window: &mut Window) -> u32 {
        window.enter(sp);
        let Some(return_address) = window.read(sp) else { return 0 };
        let mut key = key(return_address, sp);
        for _ in 0..MAX_BRANCHES {
            // Two places for each key, so that two paths that are in use can't keep driving each other out.
            let place = match (self.entries[index(key)].key == key, self.entries[index(key) ^ 1].key == key) {
                (true, _) => index(key),
                (_, true) => index(key) ^ 1,
                _ => break,
            };
            let entry = &self.entries[place];
            if window.read((sp + u64::from(entry.extent_bytes) - 8) & !7).is_none() {
                break;
            }
            // SAFETY: the window's pages from `sp` to the end of the extent are readable: it has no gaps.
            match unsafe { entry.difference(sp, bp) } {
                None => return entry.number,
                Some(difference) => key = branch(key, difference),
            }
        }
        self.unwind(key, index(key), sp, bp, window)
    }

    #[cold]
    fn unwind(&mut self, key: u64, place: usize, sp: u64, bp: u64, window: &mut Window) -> u32 {
        self.counts.misses += 1;
        let cut = self.trail.follow(sp, bp, window, &mut self.counts);
        let mut frames = [0; MAX_PATH_FRAMES];
        let count = self.trail.frames(&mut frames);
        let Some(path) = self.paths.intern(self.area, &frames[..count], cut) else { return 0 };
        let other = place ^ 1;
        if self.entries[place].key != 0 && self.entries[place].key != key {
            self.entries.swap(place, other);
        }
        let entry = &mut self.entries[place];
        entry.key = 0;
        if self.trail.describe(entry, sp, bp) {
            (entry.key, entry.frames, entry.number) = (key, path.frames.as_ptr(), path.number);
        }
        path.number
    }

    #[cfg(test)]
    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }
}

#[inline]
fn mix(word: u64) -> u64 {
    let word = word.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word ^ word >> 32
}

#[inline]
fn key(return_address: u64, sp: u64) -> u64 {
    mix(return_address.rotate_left(32) ^ sp) | 1
}

fn branch(key: u64, difference: u64) -> u64 {
    mix(key ^ mix(difference)) | 1
}

#[inline]
fn index(key: u64) -> usize {
    (key >> (64 - ENTRIES.ilog2())) as usize
}
