//! How indexes of loads go on from one load to the next, of all copies together.

use super::{Copy, KeyRole, around};
use crate::access::{Access, Consumer};

/// Ways that are told apart: a load has one, and where loops begin some others.
const MOST_WAYS: usize = 16;
/// Steps of a loop that are short: with prefetches as far ahead as any, a quarter of it has none.
const SHORT_RUN: u64 = 256;

/// Takes in how indexes go on. Memory: some bytes for each thread and instruction.
#[derive(Debug)]
pub struct Steps<'a> {
    keys: &'a [KeyRole],
    /// By instruction: which load it is a copy of, and its first index.
    copy_of: Vec<Option<(u32, u32)>>,
    /// By instruction: of which loads it ends the loop.
    ends: Vec<Vec<u32>>,
    /// By thread.
    threads: Vec<Thread>,
    found: Vec<FoundSteps>,
}

/// A thread.
#[derive(Clone, Debug)]
struct Thread {
    /// By instruction: where it was last.
    last: Vec<u64>,
    /// By load.
    steps: Vec<Last>,
}

/// What came last of a load.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    /// Its index, and how many loads that had.
    index: Option<u64>,
    lanes: u64,
    /// Its loop ended since.
    is_over: bool,
}

/// What was found of a load.
#[derive(Clone, Debug, Default)]
pub struct FoundSteps {
    /// How often it was loaded.
    pub loads: u64,
    /// How often its loop ended, and it was loaded again.
    pub ends: u64,
    /// From one index to the next other one, with how many loads for the one.
    ways: Vec<Way>,
}

/// A way from one index to the next one.
#[derive(Clone, Debug)]
struct Way {
    bytes: i64,
    lanes: u64,
    /// How often it was gone, and how often of these between two times through the loop.
    count: u64,
    at_ends: u64,
}

/// What indexes mostly do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MainStep {
    /// From one load's index to the next one's.
    pub stride: i64,
    /// How many loads there are for each index that is loaded.
    pub lanes: u32,
    /// The loop is short, and where it ends the index mostly goes on likewise, as through rows that lie one behind the other.
    pub is_across: bool,
}

impl FoundSteps {
    /// What half of the loads or more do.
    pub fn main(&self) -> Option<MainStep> {
        let Way { bytes, lanes, count, at_ends } = *self.ways.iter().max_by_key(|way| way.count)?;
        // What is no whole number of elements is two loads of each, or other lanes.
        let stride =
            bytes.checked_rem(lanes.cast_signed()).filter(|rest| *rest == 0).map(|_| bytes / lanes.cast_signed())?;
        let is_across = self.ends > 0 && 10 * at_ends >= 9 * self.ends && self.loads < SHORT_RUN * self.ends;
        let lanes = u32::try_from(lanes).ok()?;
        let is_main = stride != 0 && 2 * (count + 1) * u64::from(lanes) >= self.loads;
        is_main.then_some(MainStep { stride, lanes, is_across })
    }

    /// Steps of a time through its loop; none where that never ended.
    pub fn steps_of_run(&self) -> Option<f64> {
        (self.ends > 0).then(|| self.loads as f64 / (self.ends + 1) as f64)
    }
}

impl<'a> Steps<'a> {
    /// Of loads with these copies.
    pub fn new(keys: &'a [KeyRole], loads: &[&[Copy]]) -> Self {
        let instructions = loads.iter().flat_map(|copies| copies.iter()).map(Copy::instructions).max().unwrap_or(0);
        let mut copy_of = vec![None; instructions];
        let mut ends = vec![Vec::new(); instructions];
        for (number, copies) in (0..).zip(loads) {
            for copy in *copies {
                copy_of[copy.load as usize] = copy.indexes.first().map(|index| (number, *index));
            }
            for instruction in around(copies) {
                ends[instruction as usize].push(number);
            }
        }
        Self { keys, copy_of, ends, threads: Vec::new(), found: vec![FoundSteps::default(); loads.len()] }
    }

    /// What was found, by load.
    pub fn finish(self) -> Vec<FoundSteps> {
        self.found
    }

    fn one(&mut self, access: &Access) {
        let Some(role) = self.keys.get(access.key as usize) else { return };
        let instruction = role.instruction as usize;
        let Some(&copy) = self.copy_of.get(instruction) else { return };
        let thread = access.thread as usize;
        if self.threads.len() <= thread {
            let none = Thread { last: vec![0; self.copy_of.len()], steps: vec![Last::default(); self.found.len()] };
            self.threads.resize(thread + 1, none);
        }
        let Thread { last, steps } = &mut self.threads[thread];
        last[instruction] = access.address;
        for load in &self.ends[instruction] {
            steps[*load as usize].is_over = true;
        }
        let Some((load, index)) = copy else { return };
        let (index, found) = (last[index as usize], &mut self.found[load as usize]);
        let before = &mut steps[load as usize];
        let is_over = std::mem::take(&mut before.is_over) && before.index.is_some();
        found.loads += 1;
        found.ends += u64::from(is_over);
        let Some(bytes) = before.index.replace(index).map(|before| index.wrapping_sub(before).cast_signed()) else {
            before.lanes = 1;
            return;
        };
        before.lanes += 1;
        if bytes == 0 {
            return;
        }
        let lanes = std::mem::replace(&mut before.lanes, 1) - 1;
        match found.ways.iter().position(|way| (way.bytes, way.lanes) == (bytes, lanes)) {
            Some(way) => {
                found.ways[way].count += 1;
                found.ways[way].at_ends += u64::from(is_over);
            }
            None if found.ways.len() < MOST_WAYS => {
                found.ways.push(Way { bytes, lanes, count: 1, at_ends: u64::from(is_over) });
            }
            None => {}
        }
    }
}

impl Consumer for Steps<'_> {
    fn take(&mut self, accesses: &[Access]) {
        accesses.iter().for_each(|access| self.one(access));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::AccessKind;

    #[test]
    fn steps_are_told_by_what_indexes_mostly_do() {
        let keys = [0, 1].map(|instruction| KeyRole { instruction, told_as: 0, leads_on: false });
        let access = |key, address| Access { address, key, bytes: 8, thread: 0, kind: AccessKind::Load };
        let main = |indexes: &[u64]| {
            let copies = [copy()];
            let mut steps = Steps::new(&keys, &[&copies]);
            indexes.iter().for_each(|&index| steps.take(&[access(0, index), access(1, 9000)]));
            steps.finish()[0].main()
        };
        let step = |stride, lanes| Some(MainStep { stride, lanes, is_across: false });
        assert_eq!(main(&[100, 104, 108, 200, 204, 208]), step(4, 1));
        // Four loads of each vector.
        assert_eq!(main(&[100, 100, 100, 100, 116, 116, 116, 116, 132, 132, 132, 132, 148]), step(4, 4));
        assert_eq!(main(&[100, 92, 84]), step(-8, 1));
        // Two loads of each index are no vector of two.
        assert_eq!(main(&[100, 100, 105, 105, 110, 110, 115]), None);
        assert_eq!(main(&[100, 104, 200, 208, 300, 340]), None);
        assert_eq!(main(&[100, 100, 100]), None);
    }

    fn copy() -> Copy {
        Copy { load: 1, through: None, indexes: vec![0], staying: Vec::new(), around: vec![2] }
    }

    /// Rows of an index, of which another instruction tells the ends.
    #[test]
    fn rows_may_lie_one_behind_the_other() {
        let keys = [0, 1, 2].map(|instruction| KeyRole { instruction, told_as: 0, leads_on: false });
        let access = |key, address| Access { address, key, bytes: 8, thread: 0, kind: AccessKind::Load };
        let found = |rows: &[(u64, u64)]| {
            let copies = [copy()];
            let mut steps = Steps::new(&keys, &[&copies]);
            for &(first, count) in rows {
                steps.take(&[access(2, 64), access(2, 72)]);
                (0..count).for_each(|at| steps.take(&[access(0, first + 4 * at), access(1, 9000)]));
            }
            let found = steps.finish().remove(0);
            (found.ends, found.main().unwrap().is_across, found.steps_of_run().unwrap())
        };
        assert_eq!(found(&[(100, 3), (112, 2), (120, 4), (136, 3)]), (3, true, 3.0));
        // A row that is empty is none; of these one goes elsewhere.
        assert_eq!(found(&[(100, 3), (112, 0), (112, 3), (200, 3)]), (2, false, 3.0));
        // Those that are long have few steps at their ends.
        assert_eq!(found(&[(0, 400), (1600, 400)]), (1, false, 400.0));
    }
}
