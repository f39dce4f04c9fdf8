//! Which call path an allocation comes from, at a few nanoseconds.
//!
//! Two ways, the second where the first knows nothing:
//!
//! 1. The path is a function of few words: the return address, the stack pointer, and the stack slots that unwinding
//!    would read. So each thread keeps paths that it has seen together with where these slots are and a digest of what
//!    they held, and knows a path again by reading its slots again ([`Entry::matches`]): equal inputs, equal path.
//!    An entry is found by the stack pointer and the return address; or, where many paths share these because they
//!    pass through one wrapper (`operator new` and a string's own code, say), by those of some frames more.
//! 2. Unwinding anew ([`walk`]), some nanoseconds a frame, and looking the path up ([`paths`]).
//!
//! Recursion is folded: see [`walk`].
#![allow(unsafe_code)] // reads the target's stack

mod paths;
mod walk;

pub(crate) use paths::{PATHS, StackArea};

use crate::kernel;
use crate::unwind::{self, Stack as _, Window};
use paths::Paths;
use walk::{Kept, Walk};

/// Most frames kept of an allocation's call path. Programs name a data structure within fewer, and each more makes
/// more paths of what is the same to a reader.
pub(crate) const MAX_PATH_FRAMES: usize = 16;
/// Most frames looked at, those included that are folded.
const MAX_WALKED_FRAMES: usize = 24;

/// Entries of a thread's cache: 1 MiB, touched as far as used.
const ENTRIES: usize = 1 << 13;
/// Frames that tell paths apart which begin alike.
const KEY_FRAMES: usize = 5;
/// A path that was found by those takes the place of the one that is looked at first, one time in so many.
const PROMOTED_EVERY: u32 = 16;
/// Stack slots of an entry: one for each frame, and one for each pointer that was read from the stack.
const SLOTS: usize = 52;

/// A path seen at a stack position. Two cache lines; a path of 20 slots needs the first only.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Entry {
    /// What it is found by; 0: empty.
    key: u64,
    /// Of what the slots held.
    digest: u64,
    number: u32,
    /// From the stack pointer to the end of the outermost slot.
    extent_words: u16,
    count: u8,
    /// The frame pointer register decided too.
    needs_bp: bool,
    /// Distances from the stack pointer in words.
    slots: [u16; SLOTS],
}

const _: () = assert!(size_of::<Entry>() == 128 && SLOTS > MAX_WALKED_FRAMES);

/// Factors of digests, odd: two stacks that differ in one slot never have the same, others with a chance of 2⁻⁶⁴.
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
    /// The outermost slot.
    #[inline(always)]
    fn last_slot(&self, sp: u64) -> u64 {
        (sp + u64::from(self.extent_words) * 8).wrapping_sub(8)
    }

    /// Digest of what the slots hold now, and the frame pointer if it matters.
    ///
    /// # Safety
    /// From `sp` to the outermost slot must be readable.
    #[inline(always)]
    unsafe fn digest_now(&self, sp: u64, bp: u64) -> u64 {
        let count = usize::from(self.count);
        // SAFETY: an entry has no more slots than fit.
        let (slots, factors) = unsafe { (self.slots.get_unchecked(..count), FACTORS.get_unchecked(..count)) };
        let start = if self.needs_bp { bp.wrapping_mul(FACTORS[SLOTS]) } else { 0 };
        slots.iter().zip(factors).fold(start, |digest, (distance, factor)| {
            // SAFETY: within the extent; the stack pointer is aligned.
            let word = unsafe { ((sp + u64::from(*distance) * 8) as *const u64).read_volatile() };
            digest.wrapping_add(word.wrapping_mul(*factor))
        })
    }

    /// Whether the stack is that of this entry.
    ///
    /// # Safety
    /// As for [`Self::digest_now`].
    #[inline(always)]
    unsafe fn matches(&self, sp: u64, bp: u64) -> bool {
        // SAFETY: passed on.
        self.digest == unsafe { self.digest_now(sp, bp) }
    }
}

/// A thread's cache.
#[repr(C, align(4096))]
pub(crate) struct Cache {
    entries: [Entry; ENTRIES],
    paths: &'static Paths,
    area: &'static dyn StackArea,
    kept: Kept,
    /// Paths found by more frames, up to [`PROMOTED_EVERY`].
    unpromoted: u32,
    /// Paths that had to be unwound.
    #[cfg(test)]
    misses: u64,
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
        // SAFETY: our own mapping; zeroes are empty entries.
        unsafe { kernel::clear((&raw mut self.entries).cast(), size_of_val(&self.entries)) };
    }

    /// The number of the call path of a function that was entered with `sp` pointing at its return address and `bp` in
    /// the frame pointer register, if it is known: in line. None where [`Self::number`] is needed.
    ///
    /// # Safety
    /// `sp` must be the stack pointer at the entry of a function that the calling thread is in.
    #[inline(always)]
    pub(crate) unsafe fn known(&self, sp: u64, bp: u64, window: &Window) -> Option<u32> {
        // SAFETY: the return address, promised by the caller.
        self.entry_of(key(unsafe { (sp as *const u64).read() }, sp), sp, bp, window).map(|entry| entry.number)
    }

    /// The entry with that key, if the stack is that of it.
    #[inline(always)]
    fn entry_of(&self, key: u64, sp: u64, bp: u64, window: &Window) -> Option<&Entry> {
        let entry = &self.entries[index(key)];
        let known = entry.key == key
            && window.covers(sp, entry.last_slot(sp))
            // SAFETY: the window says so.
            && unsafe { entry.matches(sp, bp) };
        known.then_some(entry)
    }

    /// The same in any case. 0 if there is no path.
    #[inline(never)]
    pub(crate) fn number(&mut self, sp: u64, bp: u64, window: &mut Window) -> u32 {
        window.enter(sp);
        let Some(return_address) = window.read(sp) else { return 0 };
        let first = key(return_address, sp);
        // That only something else needed more thought, or the window has grown.
        if let Some(entry) = self.entry_of(first, sp, bp, window) {
            return entry.number;
        }
        let (mut second, is_full) = longer_key(first, return_address, sp, window);
        if let Some(entry) = self.entry_of(second, sp, bp, window) {
            let number = entry.number;
            self.unpromoted += 1;
            if self.unpromoted >= PROMOTED_EVERY {
                self.promote(first, second);
            }
            return number;
        }
        #[cfg(test)]
        {
            self.misses += 1;
        }
        let entry = &mut self.entries[index(second)];
        entry.key = 0;
        let walk = Walk::new(sp, bp, return_address, window, entry, &mut self.kept);
        let Some(number) = self.paths.intern(self.area, walk.frames(), walk.cut) else { return 0 };
        if walk.is_checkable {
            (entry.key, entry.number) = (second, number);
            // What was not known of these frames before is known now.
            if !is_full {
                let place = index(second);
                second = longer_key(first, return_address, sp, window).0;
                self.entries[index(second)] = self.entries[place];
                self.entries[index(second)].key = second;
            }
            if self.entries[index(first)].key == 0 {
                self.promote(first, second);
            }
        }
        number
    }

    #[inline(never)]
    fn promote(&mut self, first: u64, second: u64) {
        self.unpromoted = 0;
        let (from, to) = (index(second), index(first));
        if from != to {
            self.entries[to] = self.entries[from];
            self.entries[to].key = first;
        }
    }
}

#[inline(always)]
fn key(return_address: u64, sp: u64) -> u64 {
    mix(return_address.rotate_left(32) ^ sp) | 1
}

/// With the return addresses of some more frames, as far as they are found at once; and whether all were.
#[inline(always)]
fn longer_key(key: u64, return_address: u64, sp: u64, window: &Window) -> (u64, bool) {
    let (mut key, mut ip, mut slot) = (key, return_address, sp);
    let is_full = (1..KEY_FRAMES).all(|_| {
        let code = unwind::known_code_at(ip.wrapping_sub(1));
        let Some((cfa, _)) = code.and_then(|code| code.constant_frame(slot + 8)) else { return false };
        let caller = cfa.wrapping_sub(8);
        if caller <= slot || !window.covers(sp, caller) || !caller.is_multiple_of(8) {
            return false;
        }
        slot = caller;
        // SAFETY: the window says so.
        ip = unsafe { (slot as *const u64).read_volatile() };
        key = key.rotate_left(23).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ ip;
        true
    });
    (mix(key) | 1, is_full)
}

#[inline(always)]
fn mix(word: u64) -> u64 {
    let word = word.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    word ^ word >> 32
}

#[inline(always)]
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

    /// After the innermost frame of each function what called its outermost one, by looking for that one.
    fn folded(frames: &[(u64, u64)]) -> Vec<u64> {
        let (mut kept, mut next) = (Vec::new(), 0);
        while let Some(&(ip, function)) = frames.get(next) {
            kept.push(ip);
            next = frames.iter().rposition(|(_, other)| *other == function).unwrap() + 1;
        }
        kept
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
        let with_function = |ip: u64| (ip, unwind::function_bounds(ip - 1).map_or(ip, |(start, _)| start));
        let mut walked = [with_function(ip)].to_vec();
        let mut cut = DEEPER;
        loop {
            let mut window = Window::new();
            window.enter(sp);
            match frame.step(&mut window, true) {
                Ok(_) if walked.len() == MAX_WALKED_FRAMES => break,
                Ok(step) => frame = step.caller,
                Err(end) => {
                    cut = end.code();
                    break;
                }
            }
            walked.push(with_function(frame.ip));
        }
        // It ends at the frame that finds no room, if there is one.
        let full = (1..=walked.len()).find(|count| folded(&walked[..*count]).len() > MAX_PATH_FRAMES);
        let expected = match full {
            Some(count) => (folded(&walked[..count - 1]), DEEPER),
            None => (folded(&walked), cut),
        };
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
        // Most paths are new: it is a wide tree. Of those that were not unwound there must be enough to compare.
        let known = rig.calls - rig.cache.misses;
        assert!(rig.calls > 3000 && known > 200, "{known} of {}", rig.calls);
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
        assert_eq!(rig.cache.misses, 4);
        rig.cache.forget();
        from::<0>(&mut rig);
        assert_eq!(rig.cache.misses, 5);
    }

    /// Two stacks that differ in the slot in which the shorter one ends only.
    #[test]
    fn where_a_path_ends_decides_it() {
        let mut rig = Rig::new();
        // At its first instruction a function's return address is where the stack pointer points.
        let [inner, outer] = [libc::qsort as *const () as u64, libc::getenv as *const () as u64].map(|start| start + 1);
        let mut stack = [0u64; 64];
        let sp = stack.as_ptr() as u64;
        let mut numbers = [[0; 3]; 2];
        for (turn, caller) in [0, outer, 0, outer].into_iter().enumerate() {
            black_box(&mut stack)[..2].copy_from_slice(&[inner, caller]);
            for number in &mut numbers[turn % 2] {
                // SAFETY: the test's own stack.
                let known = unsafe { rig.cache.known(sp, 0, &rig.window) };
                *number = known.unwrap_or_else(|| rig.cache.number(sp, 0, &mut rig.window));
            }
        }
        let stacks = rig.area.stacks();
        let frames = |number: u32| stacks[number as usize - 1].0.as_slice();
        assert!(numbers[0].iter().all(|&number| *frames(number) == [inner]), "{numbers:?}");
        assert!(numbers[1].iter().all(|&number| *frames(number) == [inner, outer]), "{numbers:?}");
    }
}
