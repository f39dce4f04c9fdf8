//! All caches of a machine: look-ups, fills, evictions, and coherence.
//!
//! How a line is looked up, by the caches on the core's way, nearest first:
//!
//! 1. Where other cores' caches hold the line changed, those write it back; a store takes it from all of them (MESI).
//! 2. Each cache that has not got the line counts a miss, until one has it or memory serves it.
//! 3. The line fills those caches, the farthest first, but for exclusive ones; the first level always. A store changes it
//!    there.
//! 4. What leaves a cache for it goes to the next farther one that holds it or is exclusive; if changed, else to memory.
//!
//! A core's stores take lines from other cores' caches of instructions, too, but not from its own.

use super::array::{Array, DIRTY, Entry, QUIET, UNUSED};
use super::counters::{Class, Counters, Events, Reference};
use super::directory::Directory;
use super::homes::Homes;
use super::prefetcher::Prefetcher;
use super::seen::Seen;
use super::shadow::Shadow;
use super::used_bytes::{Use, UsedBytes};
use crate::machine::{Cache, Inclusion, Machine, Prefetch};

/// One cache.
#[derive(Debug)]
struct CacheState {
    /// Which of the machine's kinds.
    kind: usize,
    array: Array,
    /// `None`: it has seen what the cache before it has.
    seen: Option<Seen>,
    shadow: Option<Shadow>,
    prefetcher: Option<Prefetcher>,
    is_inclusive: bool,
    is_exclusive: bool,
    latency_cycles: u64,
    /// What is behind it, nearest first.
    farther: Vec<u32>,
    /// Whether what leaves it unchanged may go to one of these.
    has_exclusive_behind: bool,
    /// Nearer caches of its cores; told by the directory where there is one.
    nearer: Vec<u32>,
}

/// A line that a core looks up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lookup {
    pub(super) core: usize,
    pub(super) line: u64,
    pub(super) kind: Reference,
    pub(super) key: u32,
    /// Bytes of it, as a mask.
    pub(super) bytes: u64,
}

/// What happened once in the machine, not in a kind of cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MachineEvents {
    /// Lines that came from another core's cache, which had changed them.
    pub transfers: u64,
    /// Stores to lines in the core's own first-level cache that others held, too.
    pub upgrades: u64,
    /// Changed lines that were written to memory.
    pub memory_writes: u64,
}

/// All caches.
#[derive(Debug)]
pub(super) struct Hierarchy {
    caches: Vec<CacheState>,
    /// By core, what data passes and what instructions pass.
    data: Vec<Vec<u32>>,
    instructions: Vec<Vec<u32>>,
    directory: Option<Directory>,
    homes: Homes,
    used: Option<UsedBytes>,
    line_shift: u32,
    transfer_cycles: Option<u64>,
    pub(super) counters: Counters,
    /// By kind of cache.
    pub(super) events: Vec<Events>,
    pub(super) machine_events: MachineEvents,
    /// Room for lists of caches.
    list: Vec<u32>,
}

impl Hierarchy {
    /// Of a machine that is as it should be.
    pub(super) fn new(machine: &Machine, classes: bool, used_bytes: bool) -> Self {
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
        for &kind in &kinds {
            let told = &machine.caches[kind];
            for number in 0..told.sharing.caches() {
                let own = first[kind] + number;
                let mut nearer: Vec<u32> = ways()
                    .filter_map(|way| way.iter().position(|&cache| cache == own).map(|place| &way[..place]))
                    .flatten()
                    .copied()
                    .collect();
                nearer.sort_unstable();
                nearer.dedup();
                let behind =
                    |way: &Vec<u32>| way.iter().position(|&cache| cache == own).map(|place| way[place + 1..].to_vec());
                let farther = ways().find_map(behind).unwrap_or_default();
                let is_exclusive = |cache: &Cache| cache.level > told.level && cache.inclusion == Inclusion::Exclusive;
                let is_quiet = machine.caches.iter().all(|cache| cache.prefetch == Prefetch::None);
                let sees_the_same = is_quiet && nearer.len() == told.level as usize - 1 && told.level > 1;
                caches.push(CacheState {
                    kind,
                    array: Array::new(told.sets(), told.ways, told.replacement, number),
                    seen: (!sees_the_same).then(Seen::default),
                    shadow: classes.then(|| Shadow::new(told.lines())),
                    prefetcher: Prefetcher::new(told.prefetch, told.line_bytes),
                    is_inclusive: told.level > 1 && told.inclusion == Inclusion::Inclusive,
                    is_exclusive: told.level > 1 && told.inclusion == Inclusion::Exclusive,
                    latency_cycles: u64::from(told.latency_cycles),
                    farther,
                    has_exclusive_behind: machine.caches.iter().any(is_exclusive),
                    nearer,
                });
            }
        }
        let directory = (machine.cores > 1).then(|| {
            let is_own = |core: usize, cache: &u32| data[core].contains(cache) || instructions[core].contains(cache);
            let others = |core| (0..next).filter(|cache| !is_own(core, cache)).collect();
            let under = caches.iter().map(|cache| cache.nearer.clone()).collect();
            Directory::new(caches.len(), (0..data.len()).map(others).collect(), under)
        });
        Self {
            caches,
            data,
            instructions,
            directory,
            homes: Homes::new(machine),
            used: used_bytes.then(UsedBytes::default),
            line_shift: machine.line_bytes().trailing_zeros(),
            transfer_cycles: machine.transfer_cycles.map(u64::from),
            counters: Counters::new(machine),
            events: vec![Events::default(); machine.caches.len()],
            machine_events: MachineEvents::default(),
            list: Vec::new(),
        }
    }

    /// Whether instruction fetches go anywhere.
    pub(super) fn has_instructions(&self) -> bool {
        !self.instructions[0].is_empty()
    }

    fn way(&self, lookup: &Lookup) -> &[u32] {
        match lookup.kind {
            Reference::Fetch => &self.instructions[lookup.core],
            Reference::Load | Reference::Store => &self.data[lookup.core],
        }
    }

    /// Whether first-level caches keep their sets by recency.
    pub(super) fn is_first_by_recency(&self) -> bool {
        let ways = self.data.iter().chain(&self.instructions);
        ways.filter_map(|way| way.first()).all(|&first| self.caches[first as usize].array.is_by_recency())
    }

    /// Whether nothing changes but a count: see [`Array::is_used_quietly`].
    #[inline(always)]
    pub(super) fn is_used_quietly(&mut self, lookup: &Lookup) -> bool {
        let first = match lookup.kind {
            Reference::Fetch => self.instructions[lookup.core][0],
            Reference::Load | Reference::Store => self.data[lookup.core][0],
        };
        let cache = &mut self.caches[first as usize];
        if cache.shadow.as_ref().is_some_and(|shadow| !shadow.is_first(lookup.line)) {
            return false;
        }
        cache.array.is_used_quietly(lookup.line, lookup.kind == Reference::Store)
    }

    /// Looks a line up and counts what happens.
    pub(super) fn access(&mut self, lookup: &Lookup) {
        let Lookup { core, line, kind, bytes, .. } = *lookup;
        let first = self.way(lookup)[0];
        let is_store = kind == Reference::Store;
        let transferred = self.directory.is_some() && self.needs_others(lookup, first) && self.settle(lookup, first);
        let (missed, was_unasked) = self.look_up(lookup);
        let is_quiet = self.directory.as_ref().is_none_or(|directory| {
            // A load that hits changes nothing of it.
            (is_store || missed > 0) && directory.is_quiet(core, line)
        });
        let state = if is_store { DIRTY } else { 0 } | if is_quiet { QUIET } else { 0 };
        if missed > 0 {
            self.serve(lookup, missed, state, transferred);
        } else if is_store {
            let array = &mut self.caches[first as usize].array;
            if let Some(place) = array.find(line) {
                array.mark(place, state, 0);
            }
        }
        if let Some(used) = &mut self.used
            && kind != Reference::Fetch
        {
            used.used(first, line, bytes);
        }
        self.prefetch(lookup, missed, was_unasked);
    }

    /// An access to two lines that counts as one, as Cachegrind has it: at each level both are looked up where either
    /// missed before.
    pub(super) fn access_pair(&mut self, lookup: &Lookup, second: u64) {
        let Lookup { core, line, kind, key, .. } = *lookup;
        let depth = self.way(lookup).len();
        let mut is_new = [false; 2];
        let mut step = 0;
        while step < depth {
            let number = self.way(lookup)[step];
            let state = if kind == Reference::Store && step == 0 { DIRTY } else { 0 } | QUIET;
            let mut missed = None;
            for (line, is_new) in [line, second].into_iter().zip(&mut is_new) {
                let class = self.look_up_one(number, &Lookup { line, ..*lookup }, is_new).err();
                if class.is_some() {
                    self.fill(number, line, state);
                } else if state & DIRTY != 0 {
                    let array = &mut self.caches[number as usize].array;
                    if let Some(place) = array.find(line) {
                        array.mark(place, state, 0);
                    }
                }
                missed = missed.or(class);
            }
            let Some(class) = missed else { break };
            self.counters.miss(key, self.caches[number as usize].kind, kind, class);
            step += 1;
        }
        let cycles = if step == depth {
            let (memory, cycles, is_near) = self.homes.serve(core, line << self.line_shift);
            self.counters.memory(key, memory, is_near);
            cycles
        } else {
            self.caches[self.way(lookup)[step] as usize].latency_cycles
        };
        self.counters.extra_cycles(key, cycles.saturating_sub(self.counters.hit_cycles(kind)));
    }

    /// Whether other cores' caches may have to do with it: not where the first level has what is loaded, or may change it.
    fn needs_others(&self, lookup: &Lookup, first: u32) -> bool {
        let array = &self.caches[first as usize].array;
        array.find(lookup.line).is_none_or(|place| lookup.kind == Reference::Store && array.flags(place) & QUIET == 0)
    }

    /// Other cores' caches write back what they have changed of the line; a store takes it from them. Whether one had
    /// changed it.
    fn settle(&mut self, lookup: &Lookup, first: u32) -> bool {
        let Lookup { core, line, kind, bytes, .. } = *lookup;
        let mut others = std::mem::take(&mut self.list);
        if let Some(directory) = &self.directory {
            directory.others(core, line, &mut others);
        }
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
                self.events[cache.kind].write_backs += 1;
                self.write_back(other, line);
            }
        }
        self.machine_events.transfers += u64::from(transferred);
        if is_store {
            for &other in &others {
                self.take(other, line);
                let cache = &mut self.caches[other as usize];
                self.events[cache.kind].invalidations += 1;
                if let Some(shadow) = &mut cache.shadow {
                    shadow.remove(line);
                }
                if let Some(directory) = &mut self.directory {
                    directory.lost(line, other);
                }
            }
            if let Some(directory) = &mut self.directory {
                directory.written(core, line, bytes);
            }
        }
        self.list = others;
        transferred
    }

    /// Looks the line up in the caches on its way. How many of them missed, and whether the one that did not had fetched
    /// it unasked.
    fn look_up(&mut self, lookup: &Lookup) -> (usize, bool) {
        let depth = self.way(lookup).len();
        let mut is_new = false;
        for step in 0..depth {
            let number = self.way(lookup)[step];
            match self.look_up_one(number, lookup, &mut is_new) {
                Ok(was_unasked) => return (step, was_unasked),
                Err(class) => {
                    self.counters.miss(lookup.key, self.caches[number as usize].kind, lookup.kind, class);
                }
            }
        }
        (depth, false)
    }

    /// Looks the line up in one cache: whether that had fetched it unasked, or why it is not there. `is_new` says, and is
    /// told, whether caches have never been asked for it.
    #[inline]
    fn look_up_one(&mut self, number: u32, lookup: &Lookup, is_new: &mut bool) -> Result<bool, Class> {
        let line = lookup.line;
        let cache = &mut self.caches[number as usize];
        let was_in_shadow = cache.shadow.as_mut().map(|shadow| shadow.access(line));
        if let Some(place) = cache.array.find(line) {
            let was_unasked = cache.array.flags(place) & UNUSED != 0;
            if was_unasked {
                cache.array.mark(place, 0, UNUSED);
                self.events[cache.kind].used_prefetches += 1;
            }
            cache.array.touch(line, place);
            return Ok(was_unasked);
        }
        if let Some(seen) = &mut cache.seen {
            *is_new = seen.insert(line);
        }
        let written = self.directory.as_mut().and_then(|directory| directory.asked(line, number));
        Err(match (written, was_in_shadow) {
            (Some(written), _) if written & lookup.bytes != 0 => Class::CoherenceTrue,
            (Some(_), _) => Class::CoherenceFalse,
            _ if *is_new => Class::Cold,
            (None, None) => Class::Replaced,
            (None, Some(false)) => Class::Capacity,
            (None, Some(true)) => Class::Conflict,
        })
    }

    /// A line that the first `missed` caches of its way have not got comes from behind them. `state`: its flags in the
    /// first level.
    fn serve(&mut self, lookup: &Lookup, missed: usize, state: u64, transferred: bool) {
        let Lookup { core, line, kind, key, .. } = *lookup;
        let server = self.way(lookup).get(missed).copied();
        let mut state = state;
        let mut cycles = match server {
            Some(server) => {
                state |= self.give(server, line);
                self.caches[server as usize].latency_cycles
            }
            None => {
                let (memory, cycles, is_near) = self.homes.serve(core, line << self.line_shift);
                self.counters.memory(key, memory, is_near);
                cycles
            }
        };
        if transferred && let Some(transfer) = self.transfer_cycles {
            cycles = transfer;
        }
        self.counters.extra_cycles(key, cycles.saturating_sub(self.counters.hit_cycles(kind)));
        for step in (1..missed).rev() {
            let number = self.way(lookup)[step];
            if !self.caches[number as usize].is_exclusive {
                self.fill(number, line, 0);
            }
        }
        self.fill_first(lookup, state);
    }

    fn fill_first(&mut self, lookup: &Lookup, state: u64) {
        let first = self.way(lookup)[0];
        self.fill(first, lookup.line, state);
        if let Some(used) = &mut self.used
            && lookup.kind != Reference::Fetch
        {
            used.came(first, lookup.line, lookup.key);
        }
    }

    /// An exclusive cache gives a line up to those before it: whether it was changed, as a flag. Others keep theirs.
    fn give(&mut self, number: u32, line: u64) -> u64 {
        if !self.caches[number as usize].is_exclusive {
            return 0;
        }
        self.take(number, line).map_or(0, |entry| entry.flags & DIRTY)
    }

    /// Puts a line into a cache that has not got it.
    fn fill(&mut self, number: u32, line: u64, state: u64) {
        let left = self.caches[number as usize].array.insert(line, state);
        if let Some(directory) = &mut self.directory {
            directory.add(line, number);
        }
        if let Some(left) = left {
            self.evicted(number, left);
        }
    }

    /// A line had to leave a cache.
    fn evicted(&mut self, number: u32, left: Entry) {
        let line = left.line;
        self.forget(number, line);
        let cache = &self.caches[number as usize];
        let kind = cache.kind;
        self.events[kind].evictions += 1;
        let mut is_dirty = left.is_dirty();
        if cache.is_inclusive {
            let mut nearer = std::mem::take(&mut self.list);
            self.nearer_holders(number, line, &mut nearer);
            for &near in &nearer {
                if let Some(entry) = self.take(near, line) {
                    is_dirty |= entry.is_dirty();
                    self.events[self.caches[near as usize].kind].back_invalidations += 1;
                }
            }
            self.list = nearer;
        }
        self.events[kind].write_backs += u64::from(is_dirty);
        if !is_dirty && !self.caches[number as usize].has_exclusive_behind {
            return;
        }
        for step in 0..self.caches[number as usize].farther.len() {
            let far = self.caches[number as usize].farther[step];
            let cache = &mut self.caches[far as usize];
            if let Some(place) = cache.array.find(line) {
                cache.array.mark(place, if is_dirty { DIRTY } else { 0 }, 0);
                return;
            }
            if cache.is_exclusive && !self.is_held_nearer(far, line) {
                // Nobody asked this cache for it where it came into the nearer one unasked.
                self.came_unasked(far, line);
                self.fill(far, line, if is_dirty { DIRTY } else { 0 });
                return;
            }
        }
        self.machine_events.memory_writes += u64::from(is_dirty);
    }

    /// What a cache keeps changed goes to the next farther one that holds it, or to memory.
    fn write_back(&mut self, number: u32, line: u64) {
        for step in 0..self.caches[number as usize].farther.len() {
            let far = self.caches[number as usize].farther[step];
            let array = &mut self.caches[far as usize].array;
            if let Some(place) = array.find(line) {
                array.mark(place, DIRTY, 0);
                return;
            }
        }
        self.machine_events.memory_writes += 1;
    }

    /// Nearer caches of the same cores that hold a line, into `found`.
    fn nearer_holders(&self, number: u32, line: u64, found: &mut Vec<u32>) {
        if let Some(directory) = &self.directory {
            return directory.under(number, line, found);
        }
        found.clear();
        let holds = |near: &&u32| self.caches[**near as usize].array.find(line).is_some();
        found.extend(self.caches[number as usize].nearer.iter().filter(holds));
    }

    fn is_held_nearer(&mut self, number: u32, line: u64) -> bool {
        let mut found = std::mem::take(&mut self.list);
        self.nearer_holders(number, line, &mut found);
        let is_held = !found.is_empty();
        self.list = found;
        is_held
    }

    /// Takes a line out of a cache.
    fn take(&mut self, number: u32, line: u64) -> Option<Entry> {
        let entry = self.caches[number as usize].array.remove(line)?;
        self.forget(number, line);
        Some(entry)
    }

    /// A line is no more in a cache: whoever knew that it was.
    fn forget(&mut self, number: u32, line: u64) {
        if let Some(directory) = &mut self.directory {
            directory.remove(line, number);
        }
        if let Some(left) = self.used.as_mut().and_then(|used| used.left(number, line)) {
            self.count_used(left);
        }
    }

    fn count_used(&mut self, left: Use) {
        let unit = 1_u64 << self.line_shift.saturating_sub(6);
        self.counters.line_left(left.key, u64::from(left.bytes.count_ones()) * unit);
    }

    /// Counts the lines that are still there as if they left now.
    pub(super) fn end(&mut self) {
        let Some(mut used) = self.used.take() else { return };
        used.drain().for_each(|left| self.count_used(left));
        self.used = Some(used);
    }

    /// What caches fetch unasked after a line was looked up: those that missed it, and one that had fetched it unasked.
    fn prefetch(&mut self, lookup: &Lookup, missed: usize, was_unasked: bool) {
        for step in 0..missed + usize::from(was_unasked) {
            let number = self.way(lookup)[step] as usize;
            let Some(prefetcher) = &mut self.caches[number].prefetcher else { continue };
            if let Some(line) = prefetcher.next(lookup.line, lookup.key) {
                let kind = if lookup.kind == Reference::Fetch { Reference::Fetch } else { Reference::Load };
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
        if self.directory.is_some() {
            self.settle(lookup, number);
        }
        let depth = self.way(lookup).len();
        let mut server = step + 1;
        let mut state = UNUSED;
        while server < depth {
            let far = self.way(lookup)[server];
            let array = &mut self.caches[far as usize].array;
            if let Some(place) = array.find(line) {
                array.touch(line, place);
                state |= self.give(far, line);
                break;
            }
            server += 1;
        }
        if server == depth {
            self.homes.serve(core, line << self.line_shift);
        }
        for step in (step + 1..server).rev() {
            let far = self.way(lookup)[step];
            if !self.caches[far as usize].is_exclusive {
                self.came_unasked(far, line);
                self.fill(far, line, 0);
            }
        }
        self.came_unasked(number, line);
        if step > 0 {
            return self.fill(number, line, state);
        }
        let is_quiet = self.directory.as_ref().is_none_or(|directory| directory.is_quiet(core, line));
        self.fill_first(lookup, state | if is_quiet { QUIET } else { 0 });
    }

    /// A cache gets a line that nobody asked it for: its next miss of it will not be the first, nor for the store that
    /// took it before.
    fn came_unasked(&mut self, number: u32, line: u64) {
        if let Some(seen) = &mut self.caches[number as usize].seen {
            seen.insert(line);
        }
        if let Some(directory) = &mut self.directory {
            directory.asked(line, number);
        }
    }
}
