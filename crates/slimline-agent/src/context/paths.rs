//! Every distinct allocation call path of the process, once: appended to the shared stack area, where the collector
//! reads it, and numbered from 1 in that order.
//!
//! Looking a path up takes no lock; a new one is appended under a spin lock. Only allocation hooks come here, never a
//! signal handler that interrupted one ([`crate::thread::Thread::enter`]), so nobody waits for code below itself.

use crate::blocks::MAX_STACK;
use crate::kernel;
use core::hint::spin_loop;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use slimline_trace::wire::{STACK_WORDS, StackEntry};

/// Where paths are kept for the collector.
pub(crate) trait StackArea: Sync {
    /// All words, used or not.
    fn words(&self) -> &'static [AtomicU64];
    /// Appends an entry; its number (from 1) and first word, or None (counted) where there is no room. One caller at a
    /// time.
    fn append(&self, frames: &[u64], cut: u8) -> Option<(u32, usize)>;
}

/// Cells of the hash table: 16 MiB, sparse. It is never more than half full.
const CELLS: usize = 1 << 21;
const MAX_PATHS: u64 = (CELLS / 2) as u64;
const _: () = assert!(MAX_PATHS <= MAX_STACK as u64);

/// A path that has a number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    /// Row of the stack area, from 1.
    pub(crate) number: u32,
    /// First of its frames in the stack area.
    pub(crate) word: u32,
}

/// Cell: bits 0–22 word of the entry in the stack area, 23–43 its number, 44–63 part of its hash. 0: empty.
#[derive(Clone, Copy)]
struct Cell(u64);

impl Cell {
    fn new(word: u64, number: u32, hash: u64) -> Self {
        Self(word | u64::from(number) << 23 | hash >> 44 << 44)
    }

    fn word(self) -> usize {
        self.0 as usize & 0x7f_ffff
    }

    fn number(self) -> u32 {
        (self.0 >> 23) as u32 & 0x1f_ffff
    }
}

const _: () = assert!(STACK_WORDS <= 1 << 23 && MAX_PATHS < 1 << 21);

/// See the module. 16 MiB of zeroes, untouched until used.
pub(crate) struct Paths {
    appending: AtomicBool,
    cells: [AtomicU64; CELLS],
}

/// The call paths of this process.
pub(crate) static PATHS: Paths = Paths::new();

impl Paths {
    const fn new() -> Self {
        Self { appending: AtomicBool::new(false), cells: [const { AtomicU64::new(0) }; CELLS] }
    }

    /// In a forked child: another thread may have been appending, which it will not go on with.
    pub(crate) fn in_forked_child(&self) {
        self.appending.store(false, Release);
    }

    /// The path with these frames, innermost first; None where it is new and there is no room.
    pub(crate) fn intern(&self, area: &dyn StackArea, frames: &[u64], cut: u8) -> Option<Path> {
        let words = area.words();
        let first = StackEntry::new(frames.len(), cut).0;
        let hash = hash(first, frames);
        if let Ok(path) = self.look_up(words, hash, first, frames) {
            return Some(path);
        }
        while self.appending.swap(true, Acquire) {
            (0..64).for_each(|_| spin_loop());
            kernel::yield_now();
        }
        // Another thread may have been first.
        let path = match self.look_up(words, hash, first, frames) {
            Ok(path) => Some(path),
            Err(empty) => self.append(area, empty, hash, frames, cut),
        };
        self.appending.store(false, Release);
        path
    }

    /// The path, or the empty cell where it belongs.
    fn look_up(&self, words: &[AtomicU64], hash: u64, first: u64, frames: &[u64]) -> Result<Path, usize> {
        let mut index = hash as usize % CELLS;
        loop {
            let cell = Cell(self.cells[index].load(Acquire));
            if cell.0 == 0 {
                return Err(index);
            }
            if cell.0 >> 44 == hash >> 44 && is_entry(words, cell.word(), first, frames) {
                return Ok(Path { number: cell.number(), word: cell.word() as u32 + 1 });
            }
            index = (index + 1) % CELLS;
        }
    }

    fn append(&self, area: &dyn StackArea, empty: usize, hash: u64, frames: &[u64], cut: u8) -> Option<Path> {
        let (number, word) = area.append(frames, cut)?;
        // Numbers beyond stay out of the table, which must keep empty cells: such a path gets a new row each time,
        // until the area is full too.
        if u64::from(number) <= MAX_PATHS {
            self.cells[empty].store(Cell::new(word as u64, number, hash).0, Release);
        }
        Some(Path { number, word: word as u32 + 1 })
    }
}

/// Whether the entry at `word` is this one. Trusts nothing there: the target can overwrite it.
fn is_entry(words: &[AtomicU64], word: usize, first: u64, frames: &[u64]) -> bool {
    let stored = words.get(word..).and_then(|words| words.get(..=frames.len()));
    stored.and_then(<[_]>::split_first).is_some_and(|(stored_first, stored)| {
        stored_first.load(Relaxed) == first
            && stored.iter().zip(frames).all(|(stored, frame)| stored.load(Relaxed) == *frame)
    })
}

fn hash(first: u64, frames: &[u64]) -> u64 {
    let mix = |hash: u64, word: &u64| (hash.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let hash = frames.iter().fold(first, mix);
    hash ^ hash >> 29
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::collections::{HashMap, HashSet};
    use std::sync::Mutex;
    use std::vec::Vec;

    /// A stack area in plain memory, with what it was given.
    pub(crate) struct TestArea {
        words: &'static [AtomicU64],
        used: Mutex<(u32, usize)>,
    }

    impl TestArea {
        fn with_room(words: usize) -> &'static Self {
            let words = Vec::leak((0..words).map(|_| AtomicU64::new(0)).collect());
            std::boxed::Box::leak(std::boxed::Box::new(Self { words, used: Mutex::new((0, 0)) }))
        }

        pub(crate) fn new() -> &'static Self {
            Self::with_room(1 << 20)
        }

        /// Decoded as the collector does.
        pub(crate) fn stacks(&self) -> Vec<(Vec<u64>, u8)> {
            let used = self.used.lock().unwrap().1;
            let mut words = self.words[..used].iter().map(|word| word.load(Relaxed));
            let mut stacks = Vec::new();
            while let Some(first) = words.next() {
                let entry = StackEntry(first);
                stacks.push((words.by_ref().take(entry.frames()).collect(), entry.cut()));
            }
            stacks
        }
    }

    impl StackArea for TestArea {
        fn words(&self) -> &'static [AtomicU64] {
            self.words
        }

        fn append(&self, frames: &[u64], cut: u8) -> Option<(u32, usize)> {
            let mut used = self.used.try_lock().expect("one caller at a time");
            let word = used.1;
            let (first, rest) = self.words.get(word..=word + frames.len())?.split_first()?;
            first.store(StackEntry::new(frames.len(), cut).0, Relaxed);
            rest.iter().zip(frames).for_each(|(place, frame)| place.store(*frame, Relaxed));
            *used = (used.0 + 1, word + frames.len() + 1);
            Some((used.0, word))
        }
    }

    /// An empty table, never freed.
    pub(crate) fn table() -> &'static Paths {
        // SAFETY: zeroes are an empty table.
        unsafe { kernel::map(size_of::<Paths>()).unwrap().cast().as_ref() }
    }

    #[test]
    fn a_path_has_one_number_and_its_words_are_in_that_row() {
        let (paths, area) = (table(), TestArea::new());
        let number = |frames: &[u64], cut| paths.intern(area, frames, cut).unwrap().number;
        assert_eq!([number(&[1, 2, 3], 0), number(&[1, 2, 3], 1), number(&[1, 2], 0)], [1, 2, 3]);
        assert_eq!(number(&[1, 2, 3], 0), 1);
        assert_eq!(area.stacks(), [([1, 2, 3].to_vec(), 0), ([1, 2, 3].to_vec(), 1), ([1, 2].to_vec(), 0)]);
        let word = paths.intern(area, &[1, 2, 3], 1).unwrap().word as usize;
        assert!(area.words[word..word + 3].iter().map(|frame| frame.load(Relaxed)).eq([1, 2, 3]));
    }

    #[test]
    fn a_full_area_takes_no_more_but_knows_what_it_has() {
        let (paths, area) = (table(), TestArea::with_room(6));
        assert!(paths.intern(area, &[1, 2, 3], 0).is_some());
        assert!(paths.intern(area, &[4, 5], 0).is_none());
        assert!(paths.intern(area, &[4], 0).is_some());
        assert_eq!(paths.intern(area, &[1, 2, 3], 0).unwrap().number, 1);
    }

    #[test]
    fn threads_agree_on_numbers() {
        let (paths, area) = (table(), TestArea::new());
        let path = |number: u64| [number % 977, number % 7, number % 3];
        let numbers: Vec<HashMap<[u64; 3], u32>> = std::thread::scope(|scope| {
            let count = |id: u64| {
                scope.spawn(move || {
                    (0..30_000u64)
                        .map(|step| path(step * (2 * id + 1)))
                        .map(|frames| (frames, paths.intern(area, &frames, 0).unwrap().number))
                        .collect()
                })
            };
            let threads: Vec<_> = (0..4).map(count).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let stacks = area.stacks();
        for (frames, number) in numbers.iter().flatten() {
            assert_eq!(stacks[*number as usize - 1], (frames.to_vec(), 0));
        }
        assert_eq!(stacks.iter().collect::<HashSet<_>>().len(), stacks.len(), "none twice");
    }
}
