//! Where pages and threads really were, as a kernel told it while the program ran.

use rustc_hash::FxHashMap;

use crate::access::Located;
use crate::machine::{Machine, SMALL_PAGE_BYTES};

/// What was told. Takes some 16 bytes a page.
#[derive(Debug)]
pub(super) struct Asked {
    /// Nodes of pages, by their numbers.
    pages: FxHashMap<u64, u32>,
    /// By thread.
    threads: Vec<Option<u32>>,
    /// The machine's memories that are nodes, by the number in their names.
    memories: FxHashMap<u32, usize>,
    /// All nodes are memories.
    has_memories: bool,
}

impl Asked {
    /// Nothing was told yet. Nodes are the machine's memories that are called `node0`, `node1` …
    pub(super) fn new(machine: &Machine) -> Self {
        let memories = machine.memories.iter().enumerate();
        let of_node = |(memory, its): (usize, &crate::machine::Memory)| {
            let number = its.name.strip_prefix("node")?.parse().ok()?;
            Some((number, memory))
        };
        Self {
            pages: FxHashMap::default(),
            threads: Vec::new(),
            memories: memories.filter_map(of_node).collect(),
            has_memories: false,
        }
    }

    /// Takes in where they are from now on.
    pub(super) fn take(&mut self, located: &Located<'_>) {
        if !located.nodes.is_empty() {
            self.has_memories = located.nodes.iter().all(|node| self.memories.contains_key(node));
        }
        for &(address, node) in located.pages {
            self.pages.insert(address / SMALL_PAGE_BYTES, node);
        }
        if let Some((thread, node)) = located.thread {
            let thread = thread as usize;
            self.threads.resize(self.threads.len().max(thread + 1), None);
            self.threads[thread] = Some(node);
        }
    }

    /// The node that an address is on, and the one that the thread is on, where both are known.
    pub(super) fn nodes(&self, thread: u32, address: u64) -> Option<(u32, u32)> {
        let node = (*self.threads.get(thread as usize)?)?;
        Some((*self.pages.get(&(address / SMALL_PAGE_BYTES))?, node))
    }

    /// The memories that these nodes are, where all are some.
    pub(super) fn memories(&self, (home, node): (u32, u32)) -> Option<(usize, usize)> {
        if !self.has_memories {
            return None;
        }
        Some((*self.memories.get(&home)?, *self.memories.get(&node)?))
    }

    /// Whether all nodes are memories.
    pub(super) fn has_memories(&self) -> bool {
        self.has_memories
    }
}
