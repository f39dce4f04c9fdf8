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

/// Most frames kept of an allocation's call path. Programs name a data structure within fewer, and each more makes
/// more paths of what is the same to a reader.
pub(crate) const MAX_PATH_FRAMES: usize = 16;

/// Entries of a thread's cache: 2 MiB, touched as far as used.
const ENTRIES: usize = 1 << 14;
/// Entries looked at for one allocation, at most.
const MAX_BRANCHES: usize = 12;
/// Stack slots of an entry: one for each frame, and one for each pointer that was read from the stack.
const SLOTS: usize = 46;

/// A path seen at a stack position. Two cache lines; a path of 14 frames needs the first only.
#[repr(C, align(64))]
struct Entry {
    /// From return address, stack pointer, and what led here; 0: empty.
    key: u64,
    /// Of what the slots from `from` on must hold.
    digest: u64,
    number: u32,
    /// First of the path's frames in the stack area.
    word: u32,
    /// Tells this content of the entry from those before and after.
    serial: u32,
    /// From the stack pointer to the end of the outermost slot.
    extent_words: u16,
    /// Frames; their slots are the first of `slots`.
    frames: u8,
    /// Slots in all.
    count: u8,
    /// Frames before this are those of the entry that this one branches off, where they have been checked.
    from: u8,
    /// The frame pointer register decided too.
    needs_bp: bool,
    /// Distances from the stack pointer in words.
    slots: [u16; SLOTS],
}

const _: () = assert!(size_of::<Entry>() == 128 && SLOTS >= 2 * MAX_PATH_FRAMES);

/// Factors of the digest, odd: two stacks that differ in one slot never have the same, others with a chance of 2⁻⁶⁴.
const FACTORS: [u64; SLOTS + 1] = {
    let mut factors = [0; SLOTS + 1];
    let mut state = 0u64;
    let mut index = 0;
    while index <= SLOTS {
        // SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = state;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        factors[index] = (word ^ word >> 31) | 1;
        index += 1;
    }
    factors
};

impl Entry {
    const EMPTY: Self = Self {
        key: 0,
        digest: 0,
        number: 0,
        word: 0,
        serial: 0,
        extent_words: 0,
        frames: 0,
        count: 0,
        from: 0,
        needs_bp: false,
        slots: [0; SLOTS],
    };

    /// End of the outermost slot.
    #[inline(always)]
    fn end(&self, sp: u64) -> u64 {
        sp + u64::from(self.extent_words) * 8
    }

    /// Digest of what the slots hold now, and the frame pointer if it matters.
    ///
    /// # Safety
    /// From `sp` to the end of the outermost slot must be readable.
    #[inline(always)]
    unsafe fn digest_now(&self, from: u8, sp: u64, bp: u64) -> u64 {
        let (from, count) = (usize::from(from), usize::from(self.count));
        // SAFETY: an entry has no more slots than fit.
        let (slots, factors) = unsafe { (self.slots.get_unchecked(from..count), FACTORS.get_unchecked(from..count)) };
        let start = if self.needs_bp { bp.wrapping_mul(FACTORS[SLOTS]) } else { 0 };
        slots.iter().zip(factors).fold(start, |digest, (distance, factor)| {
            // SAFETY: within the extent.
            digest.wrapping_add(unsafe { slot(sp, *distance) }.wrapping_mul(*factor))
        })
    }

    /// Whether the stack is that of this entry, as far as the one before has not checked it.
    ///
    /// # Safety
    /// As for [`Self::digest_now`].
    #[inline(always)]
    unsafe fn matches(&self, sp: u64, bp: u64) -> bool {
        // SAFETY: passed on.
        self.digest == unsafe { self.digest_now(self.from, sp, bp) }
    }

    /// The first frame that is another now and what its slot holds; or none, and a digest of the pointers.
    ///
    /// # Safety
    /// As for [`Self::digest_now`].
    unsafe fn difference(&self, sp: u64, bp: u64, words: &[AtomicU64]) -> Difference {
        let expected = words.get(self.word as usize..).unwrap_or(&[]);
        for index in usize::from(self.from)..usize::from(self.frames) {
            // SAFETY: within the extent.
            let found = unsafe { slot(sp, self.slots[index]) };
            if expected.get(index).is_none_or(|frame| frame.load(Relaxed) != found) {
                return Difference { frame: Some(index), found };
            }
        }
        // SAFETY: passed on.
        Difference { frame: None, found: unsafe { self.digest_now(self.frames, sp, bp) } }
    }

    /// Whether both paths begin with the same frames in the same slots, apart from what the last one holds.
    fn agrees_before(&self, other: &Self, frame: usize, words: &[AtomicU64]) -> bool {
        let frames = |entry: &Self| words.get(entry.word as usize..)?.get(..frame);
        let (Some(own), Some(others)) = (frames(self), frames(other)) else { return false };
        frame < usize::from(self.frames.min(other.frames))
            && self.slots[..=frame] == other.slots[..=frame]
            && own.iter().zip(others).all(|(own, other)| own.load(Relaxed) == other.load(Relaxed))
    }
}

/// The word at a distance in words from the stack pointer.
///
/// # Safety
/// It must be readable.
#[inline(always)]
unsafe fn slot(sp: u64, distance: u16) -> u64 {
    // SAFETY: promised by the caller; an entry's stack pointer is aligned.
    unsafe { ((sp + u64::from(distance) * 8) as *const u64).read_volatile() }
}

/// Where a stack is not that of an entry.
#[derive(Clone, Copy)]
struct Difference {
    /// Frame whose slot holds something else; None: a pointer.
    frame: Option<usize>,
    /// What was found.
    found: u64,
}

/// An entry from which the search went on.
#[derive(Clone, Copy)]
struct Branch {
    place: usize,
    difference: Difference,
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
    words: &'static [AtomicU64],
    trail: Trail,
    counts: Counts,
    /// Given to the last entry.
    serial: u32,
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
            (&raw mut (*memory).words).write(area.words());
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
            && window.covers(sp, entry.end(sp) - 8)
            // SAFETY: the window says so.
            && unsafe { entry.matches(sp, bp) };
        known.then_some(entry.number)
    }

    /// The whole search: along the branches, then by unwinding. 0 if there is no path.
    pub(crate) fn number(&mut self, sp: u64, bp: u64, window: &mut Window) -> u32 {
        window.enter(sp);
        let Some(return_address) = window.read(sp) else { return 0 };
        let mut key = key(return_address, sp);
        let mut branch = None;
        for _ in 0..MAX_BRANCHES {
            // Two places for each key, so that two paths that are in use can't keep driving each other out.
            let places = [index(key), index(key) ^ 1];
            let Some(place) = places.into_iter().find(|place| self.entries[*place].key == key) else { break };
            let entry = &self.entries[place];
            let was_covered = window.covers(sp, entry.end(sp) - 8);
            if !was_covered && window.read((entry.end(sp) - 8) & !7).is_none() {
                break;
            }
            // SAFETY: the window's pages from `sp` to the end of the extent are readable: it has no gaps.
            let difference = unsafe {
                // The first entry was tried already, unless the window didn't cover it or it was in its other place.
                if (branch.is_some() || place != places[0] || !was_covered) && entry.matches(sp, bp) {
                    return entry.number;
                }
                entry.difference(sp, bp, self.words)
            };
            key = branch_key(key, entry.serial, difference);
            branch = Some(Branch { place, difference });
        }
        self.unwind(key, branch, sp, bp, window)
    }

    #[cold]
    fn unwind(&mut self, key: u64, branch: Option<Branch>, sp: u64, bp: u64, window: &mut Window) -> u32 {
        self.counts.misses += 1;
        let cut = self.trail.follow(sp, bp, window, &mut self.counts);
        let mut frames = [0; MAX_PATH_FRAMES];
        let count = self.trail.frames(&mut frames);
        let Some(path) = self.paths.intern(self.area, &frames[..count], cut) else { return 0 };
        let mut entry = Entry { number: path.number, word: path.word, ..Entry::EMPTY };
        if self.trail.describe(&mut entry, sp) {
            self.serial = self.serial.wrapping_add(1);
            (entry.key, entry.serial) = (key, self.serial);
            let mut place = index(key);
            if let Some(parent) = branch {
                if let Some(frame) = parent.difference.frame
                    && self.entries[parent.place].agrees_before(&entry, frame, self.words)
                {
                    entry.from = frame as u8;
                }
                // The parent itself must stay.
                if parent.place == place {
                    place ^= 1;
                }
            }
            if branch.is_none_or(|parent| parent.place != place ^ 1) {
                self.entries.swap(place, place ^ 1);
            }
            // SAFETY: the slots were just read.
            entry.digest = unsafe { entry.digest_now(entry.from, sp, bp) };
            self.entries[place] = entry;
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

/// Where the search goes on from an entry. Its serial is in the key: who is found there relies on what it checked.
fn branch_key(key: u64, serial: u32, difference: Difference) -> u64 {
    let frame = difference.frame.map_or(0xff, |frame| frame as u64);
    mix(key ^ mix(difference.found ^ frame << 56) ^ mix(serial.into())) | 1
}

#[inline]
fn index(key: u64) -> usize {
    (key >> (64 - ENTRIES.ilog2())) as usize
}

#[cfg(test)]
mod tests {
    use super::paths::tests::{TestArea, table};
    use super::*;
    use crate::unwind::{self, DEEPER, Frame};
    use core::arch::naked_asm;
    use core::hint::black_box;
    use std::vec::Vec;

    /// A cache, and what it is checked with.
    struct Rig {
        cache: &'static mut Cache,
        window: Window,
        area: &'static TestArea,
        stacks: Vec<(Vec<u64>, u8)>,
        random: u64,
        calls: u64,
    }

    impl Rig {
        fn new() -> Self {
            unwind::start();
            let area = TestArea::new();
            let memory = kernel::map(size_of::<Cache>()).unwrap().cast::<Cache>();
            // SAFETY: fresh zeroes; never freed.
            let cache = unsafe {
                Cache::init(memory.as_ptr(), table(), area);
                &mut *memory.as_ptr()
            };
            Self { cache, window: Window::new(), area, stacks: Vec::new(), random: 7, calls: 0 }
        }

        fn below(&mut self, bound: u64) -> u64 {
            self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.random >> 33) % bound
        }
    }

    /// As an allocation function is entered.
    #[unsafe(naked)]
    extern "C" fn enter(rig: &mut Rig) {
        naked_asm!("mov rsi, rsp", "mov rdx, rbp", "jmp {check}", check = sym check)
    }

    /// Asks the cache as the hooks do, and unwinds all the way for comparison.
    extern "C" fn check(rig: &mut Rig, sp: u64, bp: u64) {
        // SAFETY: the entry's stack pointer.
        let known = unsafe { rig.cache.known(sp, bp, &rig.window) };
        let number = known.unwrap_or_else(|| rig.cache.number(sp, bp, &mut rig.window));
        // SAFETY: the return address is there.
        let ip = unsafe { (sp as *const u64).read() };
        let mut frame = Frame { ip, sp: sp + 8, bp, slot: sp, exact: false };
        let mut expected = ([ip].to_vec(), DEEPER);
        loop {
            let mut window = Window::new();
            window.enter(sp);
            match frame.step(&mut window, true) {
                Ok(_) if expected.0.len() == MAX_PATH_FRAMES => break,
                Ok(step) => frame = step.caller,
                Err(end) => {
                    expected.1 = end.code();
                    break;
                }
            }
            expected.0.push(frame.ip);
        }
        if number as usize > rig.stacks.len() {
            rig.stacks = rig.area.stacks();
        }
        assert_eq!(rig.stacks[number as usize - 1], expected);
        rig.calls += 1;
    }

    /// Allocates as most programs do: through a function of its own.
    #[inline(never)]
    fn wrapper(rig: &mut Rig) {
        enter(rig);
        black_box(());
    }

    /// Callers at one depth and of one frame size, so that the wrapper's return address and stack pointer are the same.
    #[inline(never)]
    fn from<const CALLER: usize>(rig: &mut Rig) {
        wrapper(rig);
        black_box(CALLER);
    }

    #[inline(never)]
    fn wander<const BYTES: usize>(rig: &mut Rig, more: u64) -> u64 {
        black_box([0u8; BYTES]);
        // Two calls at one depth: paths that differ in one return address.
        // Paths that differ in one return address, further in and further out.
        match rig.below(3) {
            0 => enter(rig),
            1 => from::<1>(rig),
            _ => from::<2>(rig),
        }
        if more == 0 {
            return 1;
        }
        let next = match rig.below(6) {
            0 => wander::<1>(rig, more - 1),
            1 => wander::<40>(rig, more - 1),
            2 => wander::<5000>(rig, more - 1),
            3 => wander::<BYTES>(rig, more - 1),
            // The same frame size from another place.
            4 => wander::<41>(rig, more - 1),
            _ => 0,
        };
        let other = if rig.below(3) == 0 { wander::<200>(rig, more / 2) } else { 0 };
        black_box(next + other + 1)
    }

    #[test]
    fn agrees_with_unwinding_all_the_way() {
        let mut rig = Rig::new();
        for round in 0..150 {
            wander::<8>(&mut rig, round % 40);
        }
        let counts = rig.cache.counts();
        assert!(rig.calls > 3000, "{}", rig.calls);
        assert!(counts.misses < rig.calls && counts.reused > counts.misses, "{counts:?} of {}", rig.calls);
    }

    #[test]
    fn a_path_in_use_is_found_without_unwinding() {
        let mut rig = Rig::new();
        for turn in 0..1000 {
            // Four paths in turns, at one stack position.
            match turn % 4 {
                0 => from::<0>(&mut rig),
                1 => from::<1>(&mut rig),
                2 => from::<2>(&mut rig),
                _ => from::<3>(&mut rig),
            }
        }
        assert_eq!(rig.cache.counts().misses, 4);
        rig.cache.forget();
        from::<0>(&mut rig);
        assert_eq!(rig.cache.counts().misses, 5);
    }
}
