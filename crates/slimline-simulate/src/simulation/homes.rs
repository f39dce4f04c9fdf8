//! Which memory a page lives in: where it is told, or else the one near to the core that touches it first, while there is room.

use rustc_hash::FxHashMap;

use crate::machine::{Machine, SMALL_PAGE_BYTES};

/// Pages and their memories.
#[derive(Debug)]
pub(crate) struct Homes {
    pages: FxHashMap<u64, u32>,
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
    pub(crate) fn new(machine: &Machine) -> Self {
        let memories = machine.memories.len();
        let order = |near: usize| {
            let mut order: Vec<u32> = (0..memories as u32).collect();
            let cycles = |memory: u32| machine.memories[memory as usize].latency_cycles[near];
            order.sort_by_key(|&memory| (memory as usize != near, cycles(memory)));
            order
        };
        Self {
            pages: FxHashMap::default(),
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
            let fitting = self.order[near].iter().copied().find(|&memory| self.room[memory as usize] > 0);
            let home = fitting.unwrap_or(near as u32);
            let room = &mut self.room[home as usize];
            *room = room.saturating_sub(1);
            home
        }) as usize
    }
}
