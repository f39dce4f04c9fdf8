//! What caches fetch unasked.

use super::super::array::{Line, QUIET, UNUSED};
use super::super::counters::Reference;
use super::{Hierarchy, Lookup};

impl Hierarchy {
    /// What caches fetch unasked after a line was looked up: those that missed it, and one that had fetched it unasked.
    pub(super) fn prefetch(&mut self, lookup: &Lookup, missed: usize, was_unasked: bool) {
        for step in 0..missed + usize::from(was_unasked) {
            let number = self.way(lookup)[step] as usize;
            let Some(prefetcher) = &mut self.caches[number].prefetcher else { continue };
            if let Some(line) = prefetcher.next(lookup.line.at, lookup.key) {
                let kind = if lookup.kind == Reference::Fetch { Reference::Fetch } else { Reference::Load };
                let line = self.line(line);
                self.fetch_unasked(&Lookup { line, kind, bytes: 0, ..*lookup }, step);
            }
        }
    }

    /// Fetches a line into the cache at this step of its way, and those behind that lack it.
    fn fetch_unasked(&mut self, lookup: &Lookup, step: usize) {
        let Lookup { core, line, .. } = *lookup;
        let number = self.way(lookup)[step];
        let cache = &self.caches[number as usize];
        if cache.array.find(line).is_some() || cache.is_exclusive && self.is_held_nearer(number, line) {
            return;
        }
        let kind = self.caches[number as usize].kind;
        self.events[kind].prefetches += 1;
        let is_shared = self.enter(core, line);
        if is_shared {
            self.settle(lookup, number);
        }
        let depth = self.way(lookup).len();
        let mut server = step + 1;
        let mut state = UNUSED;
        while server < depth {
            let far = self.way(lookup)[server];
            let array = &mut self.caches[far as usize].array;
            if let Some(place) = array.find(line) {
                array.touch(line, place, 0, 0);
                state |= self.give(far, line);
                break;
            }
            server += 1;
        }
        if server == depth {
            self.homes.serve(core, line.at << self.line_shift);
        }
        for step in (step + 1..server).rev() {
            let far = self.way(lookup)[step];
            if !self.caches[far as usize].is_exclusive {
                self.came_unasked(far, line, is_shared);
                self.fill(far, line, 0, is_shared);
            }
        }
        self.came_unasked(number, line, is_shared);
        if step > 0 {
            return self.fill(number, line, state, is_shared);
        }
        let is_quiet = !is_shared || self.directory.is_quiet(core, line.number);
        self.fill_first(lookup, state | if is_quiet { QUIET } else { 0 }, is_shared);
    }

    /// A cache gets a line that nobody asked it for: its next miss of it will not be the first, nor for the store that
    /// took it before.
    pub(super) fn came_unasked(&mut self, number: u32, line: Line, is_shared: bool) {
        let cache = &mut self.caches[number as usize];
        if is_shared {
            cache.seen.insert(line.number);
            self.directory.asked(line.number, number);
        } else {
            self.blocks.see(cache.kind, line);
        }
    }
}
