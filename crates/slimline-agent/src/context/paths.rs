//! Every distinct allocation call path of the process, once: appended to the shared stack area, where the collector
//! reads it, and numbered from 1 in that order.
//!
//! Looking a path up takes no lock; a new one is appended under a spin lock. Only allocation hooks come here, never a
//! signal handler that interrupted one ([`crate::thread::Thread::enter`]), so nobody waits for code below itself.

use super::FACTORS;
use crate::blocks::MAX_STACK;
use crate::kernel;
use core::hint::spin_loop;
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};
use core::sync::atomic::{Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use slimline_trace::wire::StackEntry;

/// Where paths are kept for the collector.
pub(crate) trait StackArea: Sync {
    /// Appends an entry; its number (from 1), or None (counted) where there is no room. One caller at a time.
    fn append(&self, frames: &[u64], cut: u8) -> Option<u32>;
}

/// Cells of the hash tables, each mapped and used once the one before is half full: a process with few paths touches few
/// pages, each of which costs as much as a hundred look-ups, and a table much larger than its content is slow to read.
/// 34 MiB in all.
const LEVELS: [usize; 4] = [1 << 10, 1 << 14, 1 << 17, 1 << 21];
const _: () = {
    let mut level = 0;
    while level < LEVELS.len() {
        assert!(LEVELS[level].is_power_of_two());
        level += 1;
    }
};

/// A path by its hash: 64 bits, which a million paths share with a chance of 10⁻⁸, so nothing else is compared.
struct Cell {
    /// 0: empty. Written after the number.
    hash: AtomicU64,
    number: AtomicU32,
}

/// See the module. Zeroes at first.
pub(crate) struct Paths {
    appending: AtomicBool,
    /// Levels in use, apart from the first.
    level: AtomicUsize,
    /// Cells used in the last of them.
    used: AtomicUsize,
    /// The tables; null before their use.
    tables: [AtomicPtr<Cell>; LEVELS.len()],
}

/// The call paths of this process.
pub(crate) static PATHS: Paths = Paths::new();

impl Paths {
    const fn new() -> Self {
        Self {
            appending: AtomicBool::new(false),
            level: AtomicUsize::new(0),
            used: AtomicUsize::new(0),
            tables: [const { AtomicPtr::new(null_mut()) }; LEVELS.len()],
        }
    }

    /// In a forked child: another thread may have been appending, which it will not go on with.
    pub(crate) fn in_forked_child(&self) {
        self.appending.store(false, Release);
    }

    /// The number of the path with these frames, innermost first; None where it is new and there is no room.
    pub(crate) fn intern(&self, area: &dyn StackArea, frames: &[u64], cut: u8) -> Option<u32> {
        let hash = hash(frames, cut);
        self.look_up(hash).or_else(|| self.append(area, hash, frames, cut))
    }

    #[inline]
    fn look_up(&self, hash: u64) -> Option<u32> {
        (0..=self.level.load(Acquire) % LEVELS.len()).find_map(|level| self.look_up_in(self.table(level)?, hash).ok())
    }

    /// A table that is in use; None where it has no memory.
    #[inline]
    fn table(&self, level: usize) -> Option<&[Cell]> {
        let start = NonNull::new(self.tables[level].load(Acquire))?;
        // SAFETY: `enter` mapped as many cells, for ever; zeroes are empty ones.
        Some(unsafe { core::slice::from_raw_parts(start.as_ptr(), LEVELS[level]) })
    }

    /// The number, or the empty cell where it belongs.
    #[inline]
    fn look_up_in<'a>(&self, cells: &'a [Cell], hash: u64) -> Result<u32, &'a Cell> {
        let mut index = hash as usize;
        loop {
            let cell = &cells[index & (cells.len() - 1)];
            match cell.hash.load(Acquire) {
                0 => return Err(cell),
                found if found == hash => return Ok(cell.number.load(Relaxed)),
                _ => index = index.wrapping_add(1),
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn append(&self, area: &dyn StackArea, hash: u64, frames: &[u64], cut: u8) -> Option<u32> {
        while self.appending.swap(true, Acquire) {
            (0..64).for_each(|_| spin_loop());
            kernel::yield_now();
        }
        // Another thread may have been first.
        let number = self.look_up(hash).or_else(|| {
            let number = area.append(frames, cut)?;
            self.enter(hash, number);
            Some(number)
        });
        self.appending.store(false, Release);
        number
    }

    /// With the lock. Paths that the tables have no room for, or whose number no cell of the block index holds, get a new row
    /// each time, until the area is full too: tables must keep empty cells.
    fn enter(&self, hash: u64, number: u32) {
        if number > MAX_STACK {
            return;
        }
        let mut level = self.level.load(Relaxed);
        if self.used.load(Relaxed) == LEVELS[level] / 2 {
            level += 1;
            if level == LEVELS.len() {
                return;
            }
        }
        if self.tables[level].load(Relaxed).is_null() {
            // Without it the path is not known again, and gets another row.
            let Some(fresh) = kernel::map(LEVELS[level] * size_of::<Cell>()) else { return };
            self.tables[level].store(fresh.as_ptr().cast(), Release);
            self.used.store(0, Relaxed);
            self.level.store(level, Release);
        }
        let Some(cells) = self.table(level) else { return };
        if let Err(cell) = self.look_up_in(cells, hash) {
            cell.number.store(number, Relaxed);
            cell.hash.store(hash, Release);
            self.used.fetch_add(1, Relaxed);
        }
    }
}

fn hash(frames: &[u64], cut: u8) -> u64 {
    let sum = frames.iter().zip(&FACTORS).fold(0, |sum: u64, (frame, factor)| {
        // Halves apart: of a plain product's low bits, a frame's high bits would be no part.
        sum.wrapping_add(frame.wrapping_mul(*factor)).wrapping_add((frame >> 32).wrapping_mul(factor.rotate_left(32)))
    });
    let hash = (sum ^ StackEntry::new(frames.len(), cut).0).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (hash ^ hash >> 29).max(1)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::collections::{HashMap, HashSet};
    use std::sync::Mutex;
    use std::vec::Vec;

    /// A stack area in plain memory.
    pub(crate) struct TestArea {
        stacks: Mutex<Vec<(Vec<u64>, u8)>>,
        room: usize,
    }

    impl TestArea {
        fn with_room(room: usize) -> &'static Self {
            std::boxed::Box::leak(std::boxed::Box::new(Self { stacks: Mutex::default(), room }))
        }

        pub(crate) fn new() -> &'static Self {
            Self::with_room(usize::MAX)
        }

        pub(crate) fn stacks(&self) -> Vec<(Vec<u64>, u8)> {
            self.stacks.lock().unwrap().clone()
        }
    }

    impl StackArea for TestArea {
        fn append(&self, frames: &[u64], cut: u8) -> Option<u32> {
            let mut stacks = self.stacks.try_lock().expect("one caller at a time");
            if stacks.len() == self.room {
                return None;
            }
            stacks.push((frames.to_vec(), cut));
            Some(stacks.len() as u32)
        }
    }

    /// An empty table, never freed.
    pub(crate) fn table() -> &'static Paths {
        // SAFETY: zeroes are an empty table.
        unsafe { kernel::map(size_of::<Paths>()).unwrap().cast().as_ref() }
    }

    #[test]
    fn a_path_has_one_number() {
        let (paths, area) = (table(), TestArea::new());
        let number = |frames: &[u64], cut| paths.intern(area, frames, cut).unwrap();
        assert_eq!([number(&[1, 2, 3], 0), number(&[1, 2, 3], 1), number(&[1, 2], 0)], [1, 2, 3]);
        assert_eq!([number(&[2, 1], 0), number(&[1, 2, 0], 0), number(&[1 << 63, 2], 0)], [4, 5, 6]);
        assert_eq!(number(&[1, 2, 3], 0), 1);
        assert_eq!(area.stacks()[..3], [([1, 2, 3].to_vec(), 0), ([1, 2, 3].to_vec(), 1), ([1, 2].to_vec(), 0)]);
    }

    #[test]
    fn a_full_area_takes_no_more_but_knows_what_it_has() {
        let (paths, area) = (table(), TestArea::with_room(2));
        assert!(paths.intern(area, &[1, 2, 3], 0).is_some());
        assert!(paths.intern(area, &[4], 0).is_some());
        assert!(paths.intern(area, &[4, 5], 0).is_none());
        assert_eq!(paths.intern(area, &[1, 2, 3], 0), Some(1));
    }

    #[test]
    fn tables_fill_up_and_the_next_takes_over() {
        let (paths, area) = (table(), TestArea::new());
        // All of the first two, and some of the third.
        let many = (LEVELS[0] + LEVELS[1]) as u64;
        for round in 0..2 {
            assert!(
                (1..=many).all(|number| paths.intern(area, &[number << 20, 7], 0) == Some(number as u32)),
                "{round}"
            );
        }
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
                        .map(|frames| (frames, paths.intern(area, &frames, 0).unwrap()))
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
