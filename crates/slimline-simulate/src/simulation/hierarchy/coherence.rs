//! Who holds lines of blocks that several cores use, and what a core's access does to other cores' caches.

use super::super::array::{DIRTY, Line, OPEN, QUIET};
use super::super::blocks::{BLOCK_LINES, Owner};
use super::super::counters::Reference;
use super::{CacheState, Hierarchy, Lookup};

impl Hierarchy {
    /// A core uses a line. Whether its block is shared: from now on, where it was another core's.
    #[inline]
    pub(super) fn enter(&mut self, core: usize, line: Line) -> bool {
        match self.blocks.owner(line.number) {
            Owner::Nobody => self.blocks.own(core, line),
            Owner::Core(owner) if owner == core => {}
            Owner::Core(owner) => {
                self.share(owner, line);
                return true;
            }
            Owner::Shared => return true,
        }
        false
    }

    /// A core's block is shared: what its caches hold and have seen of it is told by line.
    fn share(&mut self, owner: usize, line: Line) {
        let Line { at, number } = line;
        let place = number % BLOCK_LINES;
        let seen = self.blocks.share(line).to_vec();
        for (&cache_number, lines) in self.used_by[owner].iter().zip(seen) {
            let cache = &mut self.caches[cache_number as usize];
            for other in (0..BLOCK_LINES).filter(|other| lines >> other & 1 != 0) {
                let line = Line { at: at - place + other, number: number - place + other };
                cache.seen.insert(line.number);
                // What a cache holds it has seen.
                if cache.array.find(line).is_some() {
                    self.directory.add(line.number, cache_number);
                }
            }
        }
    }

    /// Other cores' caches write back what they have changed of the line; a store takes it from them. Whether one had
    /// changed it.
    pub(super) fn settle(&mut self, lookup: &Lookup, first: u32) -> bool {
        let Lookup { core, line, kind, bytes, .. } = *lookup;
        let mut others = std::mem::take(&mut self.list);
        self.directory.others(core, line.number, &mut others);
        let is_store = kind == Reference::Store;
        if is_store && !others.is_empty() && self.caches[first as usize].array.find(line).is_some() {
            self.machine_events.upgrades += 1;
        }
        let mut transferred = false;
        for &other in &others {
            let cache = &mut self.caches[other as usize];
            let Some(place) = cache.array.find(line) else { continue };
            let was_dirty = cache.array.flags(place) & DIRTY != 0;
            cache.array.mark(place, 0, DIRTY | QUIET);
            if was_dirty {
                transferred = true;
                let kind = cache.kind;
                self.written_back(kind, line);
                self.write_back(other, line);
            }
        }
        self.machine_events.transfers += u64::from(transferred);
        if is_store {
            for &other in &others {
                let unseen = self.directory.close(line.number, other);
                self.take(other, line);
                let cache = &mut self.caches[other as usize];
                self.events[cache.kind].invalidations += 1;
                if let Some(shadow) = &mut cache.shadow {
                    shadow.remove(line.at);
                }
                self.directory.lost(line.number, other, unseen);
            }
            self.directory.written(core, line.number, bytes);
        }
        self.list = others;
        transferred
    }

    /// A core accesses a line that open misses brought here: they were for that where it has not seen these bytes. `place`: where
    /// its first level has the line, if it has.
    #[cold]
    pub(super) fn seen(&mut self, lookup: &Lookup, place: Option<usize>) {
        let Lookup { line, bytes, .. } = *lookup;
        for step in 0..self.way(lookup).len() {
            let number = self.way(lookup)[step];
            if let Some(key) = self.directory.seen(line.number, number, bytes) {
                self.counters.was_true(key, self.caches[number as usize].kind);
            }
        }
        if let Some(place) = place
            && !self.directory.is_open(line.number, self.way(lookup))
        {
            let first = self.way(lookup)[0];
            self.caches[first as usize].array.mark(place, 0, OPEN);
        }
    }

    /// What a cache keeps changed goes to the next farther one that holds it, or to memory.
    fn write_back(&mut self, number: u32, line: Line) {
        for step in 0..self.caches[number as usize].farther.len() {
            let far = self.caches[number as usize].farther[step];
            let array = &mut self.caches[far as usize].array;
            if let Some(place) = array.find(line) {
                array.mark(place, DIRTY, 0);
                return;
            }
        }
        self.written_to_memory(line);
    }

    /// Nearer caches of the same cores that hold a line, into `found`.
    pub(super) fn nearer_holders(&self, number: u32, line: Line, found: &mut Vec<u32>) {
        found.clear();
        let owner = match self.blocks.owner(line.number) {
            Owner::Core(owner) => owner,
            Owner::Shared => return self.directory.under(number, line.number, found),
            Owner::Nobody => return,
        };
        let CacheState { kind, level, .. } = self.caches[number as usize];
        if self.used_by[owner][kind] != number {
            return;
        }
        let holds = |near: &&u32| {
            let cache = &self.caches[**near as usize];
            cache.level < level && cache.array.find(line).is_some()
        };
        found.extend(self.used_by[owner].iter().filter(holds));
        // By kind, so far; wanted is nearest first.
        found.sort_unstable();
    }

    pub(super) fn is_held_nearer(&mut self, number: u32, line: Line) -> bool {
        let mut found = std::mem::take(&mut self.list);
        self.nearer_holders(number, line, &mut found);
        let is_held = !found.is_empty();
        self.list = found;
        is_held
    }
}
