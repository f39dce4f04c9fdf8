//! Where a thread was last, of what is numbered: instructions, and what loops are in.

use super::{Copy, KeyRole};
use crate::access::Access;

/// Which time through a loop it is: what the loop is in, and how often that accessed anything.
pub(super) type Run = (Option<u32>, u64);

/// How many instructions and bodies are numbered.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Numbered {
    pub(super) instructions: usize,
    bodies: usize,
}

impl Numbered {
    /// By loads with these copies.
    pub(super) fn of<'a>(copies: impl Iterator<Item = &'a Copy>) -> Self {
        let mut all = Self::default();
        for copy in copies {
            let others = copy.indexes.iter().chain(&copy.through).chain(&copy.staying);
            for instruction in others.chain([&copy.load]) {
                all.instructions = all.instructions.max(*instruction as usize + 1);
            }
            all.bodies = all.bodies.max(copy.around.map_or(0, |around| around as usize + 1));
        }
        all
    }

    /// Whether an access is of any of them.
    pub(super) const fn has(self, role: &KeyRole) -> bool {
        (role.instruction as usize) < self.instructions || (role.body as usize) < self.bodies
    }
}

/// Of one thread.
#[derive(Clone, Debug)]
pub(super) struct Trail {
    /// By instruction: where it was last, and how many bytes it accessed there.
    last: Vec<(u64, u32)>,
    /// By body: how often it accessed anything.
    accesses: Vec<u64>,
}

impl Trail {
    /// Of a thread that was nowhere yet.
    pub(super) fn new(numbered: Numbered) -> Self {
        Self { last: vec![(0, 0); numbered.instructions], accesses: vec![0; numbered.bodies] }
    }

    /// An access comes now.
    pub(super) fn note(&mut self, role: &KeyRole, access: &Access) {
        if let Some(last) = self.last.get_mut(role.instruction as usize) {
            *last = (access.address, access.bytes);
        }
        if let Some(accesses) = self.accesses.get_mut(role.body as usize) {
            *accesses += 1;
        }
    }

    /// Where an instruction was last, and how many bytes it accessed there.
    pub(super) fn last(&self, instruction: u32) -> (u64, u32) {
        self.last[instruction as usize]
    }

    /// Which time through a loop in this body it is.
    pub(super) fn run(&self, around: Option<u32>) -> Run {
        (around, around.map_or(0, |around| self.accesses[around as usize]))
    }
}
