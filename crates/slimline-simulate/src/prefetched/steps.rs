//! How indexes of loads go on from one load to the next, of all copies together.

use super::{Copy, KeyRole};
use crate::access::{Access, Consumer};

/// Ways that are told apart: a load has one, and where loops begin some others.
const MOST_WAYS: usize = 16;

/// Takes in how indexes go on. Memory: some bytes for each thread and instruction.
#[derive(Debug)]
pub struct Steps<'a> {
    keys: &'a [KeyRole],
    /// By instruction: which load it is a copy of, and its first index.
    copy_of: Vec<Option<(u32, u32)>>,
    /// By thread.
    threads: Vec<Thread>,
    found: Vec<FoundSteps>,
}

/// A thread.
#[derive(Clone, Debug)]
struct Thread {
    /// By instruction: where it was last.
    last: Vec<u64>,
    /// By load: its last index, and how many loads that had.
    steps: Vec<(Option<u64>, u64)>,
}

/// What was found of a load.
#[derive(Clone, Debug, Default)]
pub struct FoundSteps {
    /// How often it was loaded.
    pub loads: u64,
    /// From one index to the next other one, with how many loads for the one, and how often that was so.
    ways: Vec<((i64, u64), u64)>,
}

impl FoundSteps {
    /// From one load's index to the next one's, and how many loads there are for each index that is loaded, where half of the loads or more
    /// go so.
    pub fn main(&self) -> Option<(i64, u32)> {
        let &((bytes, lanes), count) = self.ways.iter().max_by_key(|(_, count)| *count)?;
        let stride = bytes / i64::try_from(lanes).ok().filter(|lanes| *lanes > 0)?;
        let lanes = u32::try_from(lanes).ok()?;
        (stride != 0 && 2 * (count + 1) * u64::from(lanes) >= self.loads).then_some((stride, lanes))
    }
}

impl<'a> Steps<'a> {
    /// Of loads with these copies.
    pub fn new(keys: &'a [KeyRole], loads: &[&[Copy]]) -> Self {
        let all = loads.iter().flat_map(|copies| copies.iter());
        let instructions = all.flat_map(|copy| copy.indexes.first().into_iter().chain([&copy.load]));
        let mut copy_of = vec![None; instructions.max().map_or(0, |most| *most as usize + 1)];
        for (number, copies) in (0..).zip(loads) {
            for copy in *copies {
                copy_of[copy.load as usize] = copy.indexes.first().map(|index| (number, *index));
            }
        }
        Self { keys, copy_of, threads: Vec::new(), found: vec![FoundSteps::default(); loads.len()] }
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
            let none = Thread { last: vec![0; self.copy_of.len()], steps: vec![(None, 0); self.found.len()] };
            self.threads.resize(thread + 1, none);
        }
        let Thread { last, steps } = &mut self.threads[thread];
        last[instruction] = access.address;
        let Some((load, index)) = copy else { return };
        let (index, found) = (last[index as usize], &mut self.found[load as usize]);
        let (last_index, lanes) = &mut steps[load as usize];
        found.loads += 1;
        match last_index.replace(index) {
            Some(before) if before != index => {
                let way = (index.wrapping_sub(before).cast_signed(), std::mem::replace(lanes, 1));
                match found.ways.iter().position(|(known, _)| *known == way) {
                    Some(place) => found.ways[place].1 += 1,
                    None if found.ways.len() < MOST_WAYS => found.ways.push((way, 1)),
                    None => {}
                }
            }
            _ => *lanes += 1,
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
            let copies = [Copy { load: 1, through: None, indexes: vec![0], staying: Vec::new() }];
            let mut steps = Steps::new(&keys, &[&copies]);
            indexes.iter().for_each(|&index| steps.take(&[access(0, index), access(1, 9000)]));
            steps.finish()[0].main()
        };
        assert_eq!(main(&[100, 104, 108, 200, 204, 208]), Some((4, 1)));
        // Four loads of each vector.
        assert_eq!(main(&[100, 100, 100, 100, 116, 116, 116, 116, 132, 132, 132, 132, 148]), Some((4, 4)));
        assert_eq!(main(&[100, 92, 84]), Some((-8, 1)));
        assert_eq!(main(&[100, 104, 200, 208, 300, 340]), None);
        assert_eq!(main(&[100, 100, 100]), None);
    }
}
