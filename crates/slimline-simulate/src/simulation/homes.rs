//! Which memory a page lives in: where it is told, or else where a policy has it.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::machine::{Machine, SMALL_PAGE_BYTES};

/// Which memory pages live in, while there is room: as what `numactl` and `mbind` ask the kernel for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum MemoryPolicy {
    /// The one near to the core that touches the page first.
    #[default]
    FirstTouch,
    /// All in turn, page by page, also those that no core is near to: as `numactl --interleave=all`.
    Interleaved,
    /// By the page's number, one of the machine's memories; others by first touch.
    Bound(Arc<FxHashMap<u64, u32>>),
}

/// Pages and their memories.
#[derive(Debug)]
pub(crate) struct Homes {
    pages: FxHashMap<u64, u32>,
    policy: MemoryPolicy,
    /// Pages that still fit.
    room: Vec<u64>,
    /// By memory that a core is near to: all memories, nearest first, then by latency.
    order: Vec<Vec<u32>>,
    memory_of_core: Vec<usize>,
    /// By memory, then by the memory that the core is near to.
    latency_cycles: Vec<Vec<u64>>,
    /// The memory that the next line lives in and the one near to who accesses it, where that is known.
    told: Option<(usize, usize)>,
}

impl Homes {
    pub(crate) fn new(machine: &Machine, policy: MemoryPolicy) -> Self {
        let memories = machine.memories.len();
        let order = |near: usize| {
            let mut order: Vec<u32> = (0..memories as u32).collect();
            let cycles = |memory: u32| machine.memories[memory as usize].latency_cycles[near];
            order.sort_by_key(|&memory| (memory as usize != near, cycles(memory)));
            order
        };
        Self {
            pages: FxHashMap::default(),
            policy,
            room: machine.memories.iter().map(|m| m.bytes.map_or(u64::MAX, |bytes| bytes / SMALL_PAGE_BYTES)).collect(),
            order: (0..memories).map(order).collect(),
            memory_of_core: machine.memory_of_core(),
            latency_cycles: machine
                .memories
                .iter()
                .map(|memory| memory.latency_cycles.iter().map(|&cycles| u64::from(cycles)).collect())
                .collect(),
            told: None,
        }
    }

    /// From now on lines live in the first of these memories, and who accesses them is near to the second one; none: as pages are
    /// touched first.
    pub(super) fn tell(&mut self, told: Option<(usize, usize)>) {
        self.told = told;
    }

    /// The memory that serves this address, its cycles, and whether it is near to the core.
    pub(super) fn serve(&mut self, core: usize, address: u64) -> (usize, u64, bool) {
        if let Some((home, near)) = self.told {
            return (home, self.latency_cycles[home][near], home == near);
        }
        let near = self.memory_of_core[core];
        let home = if self.room.len() == 1 { 0 } else { self.home(near, address / SMALL_PAGE_BYTES) };
        (home, self.latency_cycles[home][near], home == near)
    }

    /// Whether the address lives in the memory near to the core.
    pub(crate) fn is_near(&mut self, core: usize, address: u64) -> bool {
        let near = self.memory_of_core[core];
        self.room.len() == 1 || self.home(near, address / SMALL_PAGE_BYTES) == near
    }

    fn home(&mut self, near: usize, page: u64) -> usize {
        *self.pages.entry(page).or_insert_with(|| {
            let wanted = match &self.policy {
                MemoryPolicy::FirstTouch => near,
                MemoryPolicy::Interleaved => page as usize % self.room.len(),
                MemoryPolicy::Bound(homes) => homes.get(&page).map_or(near, |&home| home as usize),
            };
            let fitting = self.order[wanted].iter().copied().find(|&memory| self.room[memory as usize] > 0);
            let home = fitting.unwrap_or(wanted as u32);
            let room = &mut self.room[home as usize];
            *room = room.saturating_sub(1);
            home
        }) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cores 0 and 1 are near to memories of two pages each; a third one has all else, and no core.
    fn machine() -> Machine {
        let text = "name = \"m\"\ncores = 2\ncache = [{ name = \"L1\", level = 1, holds = \"data\", size = 256, line = 64, ways = 2, \
             latency = 2 }]\nmemory = [{ name = \"a\", cores = \"0\", size = 8192, latency = [100, 300, 300] }, \
             { name = \"b\", cores = \"1\", size = 8192, latency = [300, 100, 300] }, \
             { name = \"far\", latency = [900, 900, 900] }]\n";
        Machine::parse(text).unwrap()
    }

    fn homes_of(policy: MemoryPolicy, accesses: &[(usize, u64)]) -> Vec<usize> {
        let mut homes = Homes::new(&machine(), policy);
        accesses.iter().map(|&(core, page)| homes.serve(core, page * SMALL_PAGE_BYTES).0).collect()
    }

    #[test]
    fn policies_say_where_pages_live() {
        let accesses = [(0, 0), (1, 0), (0, 1), (1, 2)];
        assert_eq!(homes_of(MemoryPolicy::FirstTouch, &accesses), [0, 0, 0, 1]);
        assert_eq!(homes_of(MemoryPolicy::Interleaved, &accesses), [0, 0, 1, 2]);
        let bound = Arc::new([(0, 1)].into_iter().collect());
        assert_eq!(homes_of(MemoryPolicy::Bound(bound), &accesses), [1, 1, 0, 1]);
    }

    #[test]
    fn what_does_not_fit_lives_elsewhere() {
        let three = [(0, 0), (0, 1), (0, 2), (0, 3), (0, 4)];
        assert_eq!(homes_of(MemoryPolicy::FirstTouch, &three), [0, 0, 1, 1, 2]);
        let bound = Arc::new([(0, 1), (1, 1), (2, 1)].into_iter().collect());
        assert_eq!(homes_of(MemoryPolicy::Bound(bound), &three[..3]), [1, 1, 0]);
    }
}
