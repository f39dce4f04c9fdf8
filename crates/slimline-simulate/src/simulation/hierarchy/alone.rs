//! Misses of lines that one core alone uses, where caches do no more than hold what misses: most misses of most machines.
//!
//! What [`Hierarchy::miss`] does for them, without asking for what can't be: other cores' caches that hold the line, shadows,
//! bytes that were used, lines fetched unasked, caches that include nearer ones or exclude them.

use super::super::array::{DIRTY, Names, QUIET};
use super::super::blocks::place_bit;
use super::super::counters::Reference;
use super::{CacheState, Hierarchy, Lookup};

/// How far the farthest cache of data may be for misses to be done here.
const DEEPEST: usize = 4;

impl Hierarchy {
    /// Whether caches are such that [`Self::miss_alone`] does all that misses do.
    pub(super) fn is_plain(caches: &[CacheState], data: &[Vec<u32>]) -> bool {
        let is_plain = |cache: &CacheState| {
            !cache.is_exclusive && !cache.is_inclusive && cache.shadow.is_none() && cache.prefetcher.is_none()
        };
        caches.iter().all(is_plain) && data.iter().all(|way| (1..=DEEPEST).contains(&way.len()))
    }

    /// The first level has not got a line of data of a block that is this core's alone.
    #[inline]
    pub(super) fn miss_alone(&mut self, lookup: &Lookup) {
        match self.data[lookup.core].len() {
            1 => self.miss_of::<1>(lookup),
            2 => self.miss_of::<2>(lookup),
            3 => self.miss_of::<3>(lookup),
            _ => self.miss_of::<DEEPEST>(lookup),
        }
    }

    /// The same where data passes so many caches.
    #[inline(always)]
    fn miss_of<const DEPTH: usize>(&mut self, lookup: &Lookup) {
        let Lookup { core, line, kind, key, .. } = *lookup;
        let Self { caches, data, blocks, directory, homes, changers, counters, events, machine_events, .. } = self;
        let Ok(way) = <[u32; DEPTH]>::try_from(data[core].as_slice()) else { return };
        // Each is there once.
        let Ok(mut caches) = caches.get_disjoint_mut(way.map(|number| number as usize)) else { return };
        let is_store = kind == Reference::Store;
        let mut missed = 0;
        let mut server_cycles = None;
        let misses = counters.misses(key);
        let seen = blocks.seen(line);
        for (step, cache) in caches.iter_mut().enumerate() {
            if step > 0
                && let Some(place) = cache.array.find(line)
            {
                cache.array.touch(line, place, 0, 0);
                server_cycles = Some(cache.latency_cycles);
                break;
            }
            let seen = &mut seen[cache.kind];
            misses[cache.kind].count(kind, *seen & place_bit(line.number) == 0);
            *seen |= place_bit(line.number);
            missed += 1;
        }
        if is_store {
            changers[line.number as usize] = key;
        }
        let cycles = server_cycles.unwrap_or_else(|| {
            let (memory, cycles, is_near) = homes.serve(core, line.at << self.line_shift);
            counters.memory(key, memory, is_near);
            cycles
        });
        counters.extra_cycles(key, cycles.saturating_sub(counters.hit_cycles(kind)));
        let has_shared = !directory.is_empty();
        for step in (0..missed).rev() {
            let [cache, farther @ ..] = &mut caches[step..] else { return };
            let state = if step > 0 { 0 } else { QUIET | if is_store { DIRTY } else { 0 } };
            let Some(left) = cache.array.insert(line, state) else { continue };
            let kind = cache.kind;
            events[kind].evictions += 1;
            if !left.is_dirty() && !has_shared {
                continue;
            }
            let left_line = match cache.array.names() {
                Names::Places => blocks.line(left.name()).0,
                Names::Numbers => blocks.numbered(left.name()),
            };
            if has_shared && blocks.is_shared(left_line.number) {
                directory.remove(left_line.number, way[step]);
            }
            if !left.is_dirty() {
                continue;
            }
            let changer = changers[left_line.number as usize];
            events[kind].write_backs += 1;
            counters.write_back(changer, kind);
            let holder = farther.iter_mut().find_map(|far| Some((far.array.find(left_line)?, &mut far.array)));
            if let Some((place, array)) = holder {
                array.mark(place, DIRTY, 0);
            } else {
                machine_events.memory_writes += 1;
                counters.memory_write(changer);
            }
        }
    }
}
