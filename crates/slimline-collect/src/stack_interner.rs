//! Call paths get one row each, however often they occur.

use std::collections::HashMap;

use slimline_trace::address::Avma;
use slimline_trace::tables::{PathTotal, Paths, StackEnd, StackFrames, StackRow};
use slimline_trace::wire::{MAX_FRAMES, STACK_WORDS, StackEntry};

use crate::ring::ProcessFile;

/// Frames of distinct sampled call paths that are remembered. Bounds memory (32 MiB) for programs whose paths never repeat,
/// however deep; beyond, remembering starts anew and a path may get a second row, which costs room and nothing else.
const REMEMBERED_FRAMES: usize = 4 << 20;
/// A part is due at this many frames not yet written: 12 MiB of columns.
const PART_FRAMES: usize = 512 << 10;

/// Rows given so far, and those not yet written.
#[derive(Debug, Default)]
pub(crate) struct StackInterner {
    rows: usize,
    sampled: HashMap<(Box<[u64]>, u8), StackRow>,
    /// Frames in `sampled`.
    remembered: usize,
    allocation: AllocationPaths,
    /// Rows since the last part.
    pub(crate) new: StackFrames,
}

impl StackInterner {
    /// The row of a sampled call path; `None` for one without frames.
    pub(crate) fn sampled(&mut self, frames: &[u64], cut: u8) -> Option<StackRow> {
        if frames.is_empty() {
            return None;
        }
        // One look-up without an allocation would need a borrowed key of a pair; 1,000 small boxes a second do no harm.
        let key = (Box::from(frames), cut);
        if let Some(&row) = self.sampled.get(&key) {
            return Some(row);
        }
        if self.remembered + frames.len() > REMEMBERED_FRAMES {
            self.sampled.clear();
            self.remembered = 0;
        }
        self.remembered += frames.len();
        let row = self.add(frames, cut);
        self.sampled.insert(key, row);
        Some(row)
    }

    /// The row of entry `number` (from 1) of the process' stack area; `None` for 0 and for entries that are not there.
    pub(crate) fn allocation(&mut self, file: &ProcessFile, number: u32) -> Option<StackRow> {
        let index = (number as usize).checked_sub(1)?;
        self.allocation.find_entries(file);
        let &(word, known) = self.allocation.entries.get(index)?;
        if known.is_some() {
            return known;
        }
        let entry = StackEntry(file.stack_word(word as usize)?);
        let frames: Vec<u64> =
            (1..=entry.frames().min(MAX_FRAMES)).map_while(|frame| file.stack_word(word as usize + frame)).collect();
        if frames.is_empty() {
            return None;
        }
        let row = self.add(&frames, entry.cut());
        self.allocation.entries[index].1 = Some(row);
        Some(row)
    }

    /// What was counted of each allocation call path. Those that nothing named yet get their row here: a data structure
    /// is as large as all of its paths.
    pub(crate) fn paths(&mut self, file: &ProcessFile) -> Paths {
        self.allocation.find_entries(file);
        let mut counted: Vec<PathTotal> = Vec::new();
        for number in 1..=self.allocation.entries.len() {
            if let Some((blocks, peak_blocks, peak_bytes)) = file.path_totals(number)
                && let Some(stack) = self.allocation(file, number as u32)
            {
                counted.push(PathTotal { stack, counted: blocks, peak_blocks, peak_bytes });
            }
        }
        counted.sort_by_key(|total| total.stack.index());
        let mut paths = Paths::default();
        counted.into_iter().for_each(|total| paths.push(total));
        paths
    }

    /// Whether enough new call paths have come together for a part.
    pub(crate) fn is_part_due(&self) -> bool {
        self.new.len() >= PART_FRAMES
    }

    fn add(&mut self, frames: &[u64], cut: u8) -> StackRow {
        let row = StackRow::new(self.rows);
        self.rows += 1;
        self.new.push_stack(row, frames.iter().copied().map(Avma), StackEnd::from_cut(cut));
        row
    }
}

/// Where each entry of the stack area begins, and the row it was given once something named it.
#[derive(Debug, Default)]
struct AllocationPaths {
    entries: Vec<(u32, Option<StackRow>)>,
    next_word: usize,
}

const _: () = assert!(STACK_WORDS <= u32::MAX as usize);

impl AllocationPaths {
    /// Walks the entries that came since the last call.
    fn find_entries(&mut self, file: &ProcessFile) {
        while let Some(word) = file.stack_word(self.next_word) {
            let frames = StackEntry(word).frames();
            if frames > MAX_FRAMES {
                // The target wrote over it: where the next entry begins is lost.
                self.next_word = usize::MAX;
                return;
            }
            self.entries.push((self.next_word as u32, None));
            self.next_word += 1 + frames;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_bounded_by_frames() {
        const DEEP: usize = 8000;
        let mut interner = StackInterner::default();
        for number in 0..2 * (REMEMBERED_FRAMES / DEEP) as u64 {
            interner.sampled(&[number; DEEP], 0);
            assert!(interner.remembered <= REMEMBERED_FRAMES);
            assert_eq!(interner.remembered, interner.sampled.len() * DEEP);
            // As a part takes them.
            if interner.is_part_due() {
                assert!(interner.new.len() < PART_FRAMES + DEEP);
                interner.new.clear();
            }
        }
        let last = interner.sampled(&[7; DEEP], 0);
        assert_eq!(interner.sampled(&[7; DEEP], 0), last);
        assert_ne!(interner.sampled(&[7; DEEP], 1), last, "cut at another place, it is another");
    }
}
