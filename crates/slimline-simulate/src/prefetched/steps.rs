//! How indexes of loads go on from one load to the next, of all copies together.

use super::trail::{Numbered, Run, Trail};
use super::{Copy, KeyRole};
use crate::access::{Access, Consumer};

/// Ways that are told apart: a load has one, and where loops begin some others.
const MOST_WAYS: usize = 16;
/// Steps of a loop that are short: with prefetches as far ahead as any, a quarter of it has none.
const SHORT_RUN: u64 = 256;
/// Bytes of the least vector that compilers make of indexes.
const VECTOR_BYTES: u32 = 16;

/// Takes in how indexes go on. Memory: some bytes for each thread and instruction.
#[derive(Debug)]
pub struct Steps<'a> {
    keys: &'a [KeyRole],
    /// By instruction: which load it is a copy of, its first index, and what its loop is in.
    copy_of: Vec<Option<(u32, u32, Option<u32>)>>,
    numbered: Numbered,
    /// By thread.
    threads: Vec<Thread>,
    found: Vec<FoundSteps>,
}

/// A thread.
#[derive(Clone, Debug)]
struct Thread {
    trail: Trail,
    /// By load.
    steps: Vec<Last>,
}

/// What came last of a load.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    /// Its index, and how many loads that had.
    index: Option<u64>,
    lanes: u64,
    /// Which time through its loop that was in.
    run: Run,
}

/// What was found of a load.
#[derive(Clone, Debug, Default)]
pub struct FoundSteps {
    /// How often it was loaded.
    pub loads: u64,
    /// How often its loop was gone through, as far as is known; and how often of these as the first one of its thread.
    runs: u64,
    first_runs: u64,
    /// What its loop is in accesses something: it is known where that ends.
    has_ends: bool,
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
    pub crosses_ends: bool,
}

impl FoundSteps {
    /// What half of the loads or more do.
    pub fn main(&self) -> Option<MainStep> {
        let Way { bytes, lanes, count, at_ends } = *self.ways.iter().max_by_key(|way| way.count)?;
        let of_lanes = lanes.cast_signed();
        let stride = bytes.checked_rem(of_lanes).filter(|rest| *rest == 0).map(|_| bytes / of_lanes)?;
        let ends = self.runs - self.first_runs;
        let crosses_ends = ends > 0 && 10 * at_ends >= 9 * ends && self.loads < SHORT_RUN * self.runs;
        let lanes = u32::try_from(lanes).ok()?;
        let is_main = stride != 0 && 2 * (count + 1) * u64::from(lanes) >= self.loads;
        is_main.then_some(MainStep { stride, lanes, crosses_ends })
    }

    /// Steps of a time through its loop, on average; none where nobody knows where that ends.
    pub fn mean_trip_count(&self) -> Option<f64> {
        self.has_ends.then(|| self.loads as f64 / self.runs.max(1) as f64)
    }
}

impl<'a> Steps<'a> {
    /// Of loads with these copies.
    pub fn new(keys: &'a [KeyRole], loads: &[&[Copy]]) -> Self {
        let numbered = Numbered::of(loads.iter().flat_map(|copies| copies.iter()));
        let mut copy_of = vec![None; numbered.instructions];
        let mut found = vec![FoundSteps::default(); loads.len()];
        for (number, copies) in (0..).zip(loads) {
            for copy in *copies {
                copy_of[copy.load as usize] = copy.indexes.first().map(|index| (number, *index, copy.around));
            }
            found[number as usize].has_ends = copies.iter().all(|copy| copy.around.is_some());
        }
        Self { keys, copy_of, numbered, threads: Vec::new(), found }
    }

    /// What was found, by load.
    pub fn finish(self) -> Vec<FoundSteps> {
        self.found
    }

    fn one(&mut self, access: &Access) {
        let Some(role) = self.keys.get(access.key as usize) else { return };
        if !self.numbered.has(role) {
            return;
        }
        let thread = access.thread as usize;
        if self.threads.len() <= thread {
            let none = Thread { trail: Trail::new(self.numbered), steps: vec![Last::default(); self.found.len()] };
            self.threads.resize(thread + 1, none);
        }
        let Thread { trail, steps } = &mut self.threads[thread];
        trail.note(role, access);
        let copy = self.copy_of.get(role.instruction as usize).copied().flatten();
        let Some((load, index, around)) = copy else { return };
        let ((index, index_bytes), found) = (trail.last(index), &mut self.found[load as usize]);
        let (before, run) = (&mut steps[load as usize], trail.run(around));
        let is_other_run = std::mem::replace(&mut before.run, run) != run;
        found.loads += 1;
        let Some(bytes) = before.index.replace(index).map(|before| index.wrapping_sub(before).cast_signed()) else {
            before.lanes = 1;
            found.runs += 1;
            found.first_runs += 1;
            return;
        };
        found.runs += u64::from(is_other_run);
        before.lanes += 1;
        if bytes == 0 {
            return;
        }
        let lanes = std::mem::replace(&mut before.lanes, 1) - 1;
        // What is no vector is loaded for two loads by one element.
        if lanes > 1 && index_bytes < VECTOR_BYTES {
            return;
        }
        match found.ways.iter().position(|way| (way.bytes, way.lanes) == (bytes, lanes)) {
            Some(way) => {
                found.ways[way].count += 1;
                found.ways[way].at_ends += u64::from(is_other_run);
            }
            None if found.ways.len() < MOST_WAYS => {
                found.ways.push(Way { bytes, lanes, count: 1, at_ends: u64::from(is_other_run) });
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
    use super::super::NO_BODY;
    use super::*;
    use crate::access::AccessKind;
    use crate::access::Work;

    fn access(key: u32, address: u64, bytes: u32, thread: u32) -> Access {
        Access { address, key, bytes, thread, kind: AccessKind::Load, work: Work::USUAL }
    }

    /// Of an index, what has it, and what is around their loop.
    fn found(accesses: &[Access], around: Option<u32>) -> FoundSteps {
        let copies = [Copy { load: 1, through: None, indexes: vec![0], staying: Vec::new(), around }];
        let keys = [(0, NO_BODY), (1, NO_BODY), (2, 0)];
        let keys = keys.map(|(instruction, body)| KeyRole { instruction, body, told_as: 0, leads_on: false });
        let mut steps = Steps::new(&keys, &[&copies]);
        steps.take(accesses);
        steps.finish().remove(0)
    }

    #[test]
    fn steps_are_told_by_what_indexes_mostly_do() {
        let main = |indexes: &[u64], bytes: u32| {
            let of = |index: &u64| [access(0, *index, bytes, 0), access(1, 9000, 8, 0)];
            let found = found(&indexes.iter().flat_map(of).collect::<Vec<_>>(), None);
            assert_eq!(found.mean_trip_count(), None);
            found.main()
        };
        let step = |stride, lanes| Some(MainStep { stride, lanes, crosses_ends: false });
        assert_eq!(main(&[100, 104, 108, 200, 204, 208], 4), step(4, 1));
        // Four loads of each vector.
        let four = [100, 100, 100, 100, 116, 116, 116, 116, 132, 132, 132, 132, 148];
        assert_eq!(main(&four, 16), step(4, 4));
        // Of each index are no vector, nor is what is no whole number of elements.
        assert_eq!(main(&four, 8), None);
        assert_eq!(main(&[100, 100, 117, 117, 134, 134, 151], 17), None);
        assert_eq!(main(&[100, 92, 84], 8), step(-8, 1));
        assert_eq!(main(&[100, 104, 200, 208, 300, 340], 4), None);
        assert_eq!(main(&[100, 100, 100], 8), None);
    }

    /// Rows of an index, and what is accessed around their loop.
    #[test]
    fn rows_may_lie_one_behind_the_other() {
        let rows = |rows: &[(u64, u64)], thread: u32| {
            let row = |&(first, count): &(u64, u64)| {
                let steps =
                    (0..count).flat_map(move |at| [access(0, first + 4 * at, 4, thread), access(1, 9000, 8, thread)]);
                [access(2, 64, 8, thread), access(2, 72, 8, thread)].into_iter().chain(steps)
            };
            rows.iter().flat_map(row).collect::<Vec<_>>()
        };
        let told = |accesses: &[Access]| {
            let found = found(accesses, Some(0));
            (found.main().unwrap().crosses_ends, found.mean_trip_count().unwrap())
        };
        let contiguous = [(100, 3), (112, 2), (120, 4), (136, 3)];
        assert_eq!(told(&rows(&contiguous, 0)), (true, 3.0));
        // A row that is empty is none; of these one goes elsewhere.
        assert_eq!(told(&rows(&[(100, 3), (112, 0), (112, 3), (200, 3)], 0)), (false, 3.0));
        // Those that are long have few steps at their ends.
        assert_eq!(told(&rows(&[(0, 400), (1600, 400)], 0)), (false, 400.0));
        // Each thread has rows of its own.
        assert_eq!(told(&[rows(&contiguous, 0), rows(&contiguous, 1)].concat()), (true, 3.0));
    }
}
