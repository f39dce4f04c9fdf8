//! A machine's caches, all empty.

use super::super::Options;
use super::super::array::{Array, Names};
use super::super::blocks::Blocks;
use super::super::counters::{Counters, Events};
use super::super::directory::Directory;
use super::super::homes::Homes;
use super::super::prefetcher::Prefetcher;
use super::super::seen::Seen;
use super::super::shadow::Shadow;
use super::super::used_bytes::UsedBytes;
use super::{CacheState, Hierarchy, MachineEvents};
use crate::machine::{Cache, Inclusion, Machine};

impl Hierarchy {
    /// Of a machine that is as it should be.
    pub(in super::super) fn new(machine: &Machine, options: &Options) -> Self {
        let &Options { classes, used_bytes, .. } = options;
        // All caches are numbered, nearest first.
        let mut kinds: Vec<usize> = (0..machine.caches.len()).collect();
        kinds.sort_by_key(|&kind| machine.caches[kind].level);
        let mut first = vec![0; kinds.len()];
        let mut next = 0;
        for &kind in &kinds {
            first[kind] = next;
            next += machine.caches[kind].sharing.caches();
        }
        let way = |instructions| {
            let path = machine.path(instructions);
            let of =
                |core: u32, kind: &usize| first[*kind] + machine.caches[*kind].sharing.cache_of_core[core as usize];
            (0..machine.cores).map(|core| path.iter().map(|kind| of(core, kind)).collect()).collect::<Vec<Vec<u32>>>()
        };
        let data = way(false);
        let starts_at_first = |kind: &usize| machine.caches[*kind].level == 1;
        let instructions = match machine.path(true).first().is_some_and(starts_at_first) {
            true => way(true),
            false => vec![Vec::new(); machine.cores as usize],
        };
        let ways = || data.iter().zip(&instructions).flat_map(|(data, instructions)| [data, instructions]);
        let mut caches = Vec::with_capacity(next as usize);
        let mut under = Vec::with_capacity(next as usize);
        for &kind in &kinds {
            let told = &machine.caches[kind];
            // Most look-ups end at the first level.
            let names = if told.level == 1 { Names::Places } else { Names::Numbers };
            for number in 0..told.sharing.caches() {
                let own = first[kind] + number;
                let nearer = ways()
                    .filter_map(|way| way.iter().position(|&cache| cache == own).map(|place| &way[..place]))
                    .flatten();
                under.push(nearer.copied().collect::<Vec<u32>>());
                let behind =
                    |way: &Vec<u32>| way.iter().position(|&cache| cache == own).map(|place| way[place + 1..].to_vec());
                let farther = ways().find_map(behind).unwrap_or_default();
                let is_exclusive = |cache: &Cache| cache.level > told.level && cache.inclusion == Inclusion::Exclusive;
                caches.push(CacheState {
                    kind,
                    array: Array::new(told.sets(), told.ways, told.replacement, number, names),
                    seen: Seen::default(),
                    shadow: classes.then(|| Shadow::new(told.lines())),
                    prefetcher: Prefetcher::new(told.prefetch, told.line_bytes),
                    is_inclusive: told.level > 1 && told.inclusion == Inclusion::Inclusive,
                    is_exclusive: told.level > 1 && told.inclusion == Inclusion::Exclusive,
                    latency_cycles: u64::from(told.latency_cycles),
                    farther,
                    has_exclusive_behind: machine.caches.iter().any(is_exclusive),
                    level: told.level,
                });
            }
        }
        let is_own = |core: usize, cache: &u32| data[core].contains(cache) || instructions[core].contains(cache);
        let others = |core| (0..next).filter(|cache| !is_own(core, cache)).collect();
        let directory = Directory::new(caches.len(), (0..data.len()).map(others).collect(), under);
        let of_kind = |core: usize, kind: usize| first[kind] + machine.caches[kind].sharing.cache_of_core[core];
        let used_by = |core| (0..first.len()).map(|kind| of_kind(core, kind)).collect();
        let used_by = (0..data.len()).map(used_by).collect();
        let firsts = data.iter().zip(&instructions);
        let firsts =
            firsts.map(|(data, instructions)| [data, instructions].map(|way| way.first().copied().unwrap_or(0)));
        Self {
            is_plain: Self::is_plain(&caches, &data) && !used_bytes,
            has_prefetchers: caches.iter().any(|cache| cache.prefetcher.is_some()),
            caches,
            firsts: firsts.collect(),
            data,
            instructions,
            used_by,
            blocks: Blocks::new(machine.caches.len()),
            is_wide: false,
            directory,
            homes: Homes::new(machine, options.memory.clone()),
            used: used_bytes.then(UsedBytes::default),
            changers: Vec::new(),
            line_shift: machine.line_bytes().trailing_zeros(),
            transfer_cycles: machine.transfer_cycles.map(u64::from),
            counters: Counters::new(machine),
            events: vec![Events::default(); machine.caches.len()],
            machine_events: MachineEvents::default(),
            list: Vec::new(),
        }
    }
}
