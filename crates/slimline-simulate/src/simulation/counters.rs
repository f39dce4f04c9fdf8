//! What is counted, of all accesses and by key.

use crate::access::AccessKind;
use crate::machine::Machine;

/// Misses of a cache: by kind of access, and by class. What is in no class was replaced: for lack of room where classes
/// were not asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Misses {
    /// Of loads.
    pub loads: u64,
    /// Of stores.
    pub stores: u64,
    /// Of instruction fetches.
    pub fetches: u64,
    /// The cache had never held the line, nor been asked for it.
    pub cold: u64,
    /// A fully associative cache of as many lines, replaced by recency, would have missed, too.
    pub capacity: u64,
    /// That one would have hit.
    pub conflict: u64,
    /// Another core's store took the line, and before it was gone again a byte was accessed that others had written and the
    /// cache's own cores had not seen.
    pub coherence_true: u64,
    /// Another core's store took the line, and no such byte was accessed.
    pub coherence_false: u64,
}

impl Misses {
    /// Of all kinds.
    pub fn total(&self) -> u64 {
        self.loads + self.stores + self.fetches
    }

    /// For lack of room: of capacity and of conflict together.
    pub fn replaced(&self) -> u64 {
        self.total() - self.cold - self.coherence_true - self.coherence_false
    }

    /// One that is in no class, or cold.
    #[inline(always)]
    pub(super) fn count(&mut self, kind: Reference, is_cold: bool) {
        match kind {
            Reference::Load => self.loads += 1,
            Reference::Store => self.stores += 1,
            Reference::Fetch => self.fetches += 1,
        }
        self.cold += u64::from(is_cold);
    }

    fn add(&mut self, other: &Self) {
        self.loads += other.loads;
        self.stores += other.stores;
        self.fetches += other.fetches;
        self.cold += other.cold;
        self.capacity += other.capacity;
        self.conflict += other.conflict;
        self.coherence_true += other.coherence_true;
        self.coherence_false += other.coherence_false;
    }
}

/// Why a line was not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Cold,
    Replaced,
    Capacity,
    Conflict,
    CoherenceTrue,
    CoherenceFalse,
}

/// What an access does to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reference {
    Load = 0,
    Store = 1,
    Fetch = 2,
}

impl Reference {
    /// The one that an access to data is, unless it is two.
    #[inline(always)]
    pub(super) fn single(kind: AccessKind) -> Option<Self> {
        match kind {
            AccessKind::Load | AccessKind::Prefetch => Some(Self::Load),
            AccessKind::Store => Some(Self::Store),
            AccessKind::Modify | AccessKind::Fetch => None,
        }
    }
}

/// Counts of a key, or of all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Loads.
    pub loads: u64,
    /// Stores.
    pub stores: u64,
    /// Instruction fetches; none where the machine has no cache for instructions.
    pub fetches: u64,
    /// Lines that were looked up beyond the first of each load and store.
    pub further_lines: u64,
    /// Beyond the first of each instruction fetch.
    pub further_fetches: u64,
    /// Cycles that accesses took, one after the other.
    pub cycles: u64,
    /// Misses of each cache, in the machine's order.
    pub misses: Vec<Misses>,
    /// Misses of each TLB, in the machine's order.
    pub tlb_misses: Vec<u64>,
    /// Walks of the page table: no TLB held the page.
    pub page_walks: u64,
    /// Lines that each memory served, in the machine's order.
    pub served_by_memory: Vec<u64>,
    /// Those of them that were not served by the memory near to the core.
    pub served_from_afar: u64,
    /// Changed lines that each cache wrote farther, in the machine's order: when they left, and when another core asked for them.
    /// They are told of the store that changed them first.
    pub write_backs: Vec<u64>,
    /// Those that went to memory.
    pub memory_writes: u64,
    /// Lines that came into first-level data caches and the bytes of them that were used while they were there, where
    /// that was asked for.
    pub fetched_lines: u64,
    /// See there.
    pub used_bytes: u64,
}

impl Counts {
    /// Lines that each cache was asked for, in the machine's order.
    pub fn lookups(&self, machine: &Machine) -> Vec<u64> {
        let mut lookups = vec![0; self.misses.len()];
        let data = self.loads + self.stores + self.further_lines;
        for (instructions, mut asked) in [(false, data), (true, self.fetches + self.further_fetches)] {
            for cache in machine.path(instructions) {
                lookups[cache] += asked;
                let misses = &self.misses[cache];
                asked = if instructions { misses.fetches } else { misses.loads + misses.stores };
            }
        }
        lookups
    }

    /// Adds those of the same machine.
    pub fn add(&mut self, other: &Self) {
        let Self {
            loads,
            stores,
            fetches,
            further_lines,
            further_fetches,
            cycles,
            misses,
            tlb_misses,
            page_walks,
            served_by_memory,
            served_from_afar,
            write_backs,
            memory_writes,
            fetched_lines,
            used_bytes,
        } = self;
        *loads += other.loads;
        *stores += other.stores;
        *fetches += other.fetches;
        *further_lines += other.further_lines;
        *further_fetches += other.further_fetches;
        *cycles += other.cycles;
        misses.iter_mut().zip(&other.misses).for_each(|(sum, more)| sum.add(more));
        tlb_misses.iter_mut().zip(&other.tlb_misses).for_each(|(sum, more)| *sum += more);
        *page_walks += other.page_walks;
        served_by_memory.iter_mut().zip(&other.served_by_memory).for_each(|(sum, more)| *sum += more);
        *served_from_afar += other.served_from_afar;
        write_backs.iter_mut().zip(&other.write_backs).for_each(|(sum, more)| *sum += more);
        *memory_writes += other.memory_writes;
        *fetched_lines += other.fetched_lines;
        *used_bytes += other.used_bytes;
    }

    /// Loads, stores and instruction fetches.
    pub fn accesses(&self) -> u64 {
        self.loads + self.stores + self.fetches
    }
}

/// What accesses of a key did, but for misses.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    /// By [`Reference`].
    references: [u64; 3],
    further_lines: [u64; 3],
    /// Beyond those of first-level hits.
    extra_cycles: u64,
}

/// Where the counts of a key stand.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mark {
    pub(super) hit_cycles: u64,
    pub(super) extra_cycles: u64,
    /// Misses in the first level.
    pub(super) misses: u64,
    /// Those of them that were for another core's store.
    pub(super) coherence: u64,
    /// Lines that memory served …
    pub(super) from_memory: u64,
    /// … and those of them that the memory near to the core did not.
    pub(super) from_afar: u64,
}

/// Counts of all keys. Memory grows with the largest key.
#[derive(Debug)]
pub(super) struct Counters {
    caches: usize,
    tlbs: usize,
    memories: usize,
    /// Of the rest, by key.
    width: usize,
    rows: Vec<Row>,
    /// By key, then cache.
    misses: Vec<Misses>,
    /// By key: TLBs' misses, walks, each memory's lines, those from afar, lines fetched, bytes of them used, lines written
    /// to memory, each cache's lines written back.
    rest: Vec<u64>,
    /// By [`Reference`]: cycles of a hit in the first level.
    hit_cycles: [u64; 3],
}

impl Counters {
    pub(super) fn new(machine: &Machine) -> Self {
        let first = |instructions| {
            machine.path(instructions).first().map_or(0, |&cache| u64::from(machine.caches[cache].latency_cycles))
        };
        Self {
            caches: machine.caches.len(),
            tlbs: machine.tlbs.len(),
            memories: machine.memories.len(),
            width: machine.tlbs.len() + machine.memories.len() + 5 + machine.caches.len(),
            rows: Vec::new(),
            misses: Vec::new(),
            rest: Vec::new(),
            hit_cycles: [first(false), first(false), first(true)],
        }
    }

    pub(super) fn hit_cycles(&self, kind: Reference) -> u64 {
        self.hit_cycles[kind as usize]
    }

    #[cold]
    fn grow(&mut self, key: u32) -> &mut Row {
        let keys = (key as usize + 1).max(self.rows.len() * 2);
        self.rows.resize(keys, Row::default());
        self.misses.resize(keys * self.caches, Misses::default());
        self.rest.resize(keys * self.width, 0);
        &mut self.rows[key as usize]
    }

    /// An access; all other counts of its key come after it.
    #[inline(always)]
    pub(super) fn access(&mut self, key: u32, kind: Reference) {
        match self.rows.get_mut(key as usize) {
            Some(row) => row.references[kind as usize] += 1,
            None => self.grow(key).references[kind as usize] += 1,
        }
    }

    pub(super) fn further_line(&mut self, key: u32, kind: Reference) {
        self.rows[key as usize].further_lines[kind as usize] += 1;
    }

    pub(super) fn extra_cycles(&mut self, key: u32, cycles: u64) {
        self.rows[key as usize].extra_cycles += cycles;
    }

    pub(super) fn miss(&mut self, key: u32, cache: usize, kind: Reference, class: Class) {
        let misses = &mut self.misses[key as usize * self.caches + cache];
        misses.count(kind, class == Class::Cold);
        match class {
            Class::Cold | Class::Replaced => {}
            Class::Capacity => misses.capacity += 1,
            Class::Conflict => misses.conflict += 1,
            Class::CoherenceTrue => misses.coherence_true += 1,
            Class::CoherenceFalse => misses.coherence_false += 1,
        }
    }

    /// Those of a key that had an access, by cache.
    #[inline(always)]
    pub(super) fn misses(&mut self, key: u32) -> &mut [Misses] {
        &mut self.misses[key as usize * self.caches..][..self.caches]
    }

    /// A miss that was taken to be for nothing was for what others wrote.
    pub(super) fn was_true(&mut self, key: u32, cache: usize) {
        let misses = &mut self.misses[key as usize * self.caches + cache];
        misses.coherence_false -= 1;
        misses.coherence_true += 1;
    }

    fn rest(&mut self, key: u32, column: usize) -> &mut u64 {
        &mut self.rest[key as usize * self.width + column]
    }

    pub(super) fn tlb_miss(&mut self, key: u32, tlb: usize) {
        *self.rest(key, tlb) += 1;
    }

    pub(super) fn page_walk(&mut self, key: u32) {
        *self.rest(key, self.tlbs) += 1;
    }

    pub(super) fn memory(&mut self, key: u32, memory: usize, is_near: bool) {
        let first = self.tlbs + 1;
        *self.rest(key, first + memory) += 1;
        if !is_near {
            *self.rest(key, first + self.memories) += 1;
        }
    }

    pub(super) fn line_left(&mut self, key: u32, used_bytes: u64) {
        *self.rest(key, self.tlbs + self.memories + 2) += 1;
        *self.rest(key, self.tlbs + self.memories + 3) += used_bytes;
    }

    pub(super) fn memory_write(&mut self, key: u32) {
        *self.rest(key, self.tlbs + self.memories + 4) += 1;
    }

    pub(super) fn write_back(&mut self, key: u32, cache: usize) {
        *self.rest(key, self.tlbs + self.memories + 5 + cache) += 1;
    }

    /// Where the counts of a key stand; `first` is the cache that all its accesses ask.
    pub(super) fn mark(&self, key: u32, first: Option<usize>) -> Mark {
        let Some(row) = self.rows.get(key as usize) else { return Mark::default() };
        let misses = first.map(|cache| &self.misses[key as usize * self.caches + cache]);
        let of_memories = &self.rest[key as usize * self.width + self.tlbs + 1..][..=self.memories];
        Mark {
            hit_cycles: self.hits(row),
            extra_cycles: row.extra_cycles,
            misses: misses.map_or(0, Misses::total),
            coherence: misses.map_or(0, |misses| misses.coherence_true + misses.coherence_false),
            from_memory: of_memories[..self.memories].iter().sum(),
            from_afar: of_memories[self.memories],
        }
    }

    /// Cycles of first-level hits.
    fn hits(&self, row: &Row) -> u64 {
        let hits = row.references.iter().zip(&row.further_lines).zip(&self.hit_cycles);
        hits.map(|((first, further), hit)| (first + further) * hit).sum()
    }

    /// One more than the largest key.
    pub(super) fn keys(&self) -> u32 {
        let is_used = |row: &Row| row.references != [0; 3];
        self.rows.iter().rposition(is_used).map_or(0, |last| last as u32 + 1)
    }

    /// Of one key; nothing of one that had no access.
    pub(super) fn of_key(&self, key: u32) -> Counts {
        let mut counts = self.none();
        if (key as usize) < self.rows.len() {
            self.add(&mut counts, key as usize);
        }
        counts
    }

    /// Of all keys.
    pub(super) fn total(&self) -> Counts {
        let mut counts = self.none();
        (0..self.keys() as usize).for_each(|key| self.add(&mut counts, key));
        counts
    }

    fn none(&self) -> Counts {
        Counts {
            misses: vec![Misses::default(); self.caches],
            tlb_misses: vec![0; self.tlbs],
            served_by_memory: vec![0; self.memories],
            write_backs: vec![0; self.caches],
            ..Counts::default()
        }
    }

    fn add(&self, counts: &mut Counts, key: usize) {
        let row = &self.rows[key];
        let [loads, stores, fetches] = row.references;
        counts.loads += loads;
        counts.stores += stores;
        counts.fetches += fetches;
        let [further_loads, further_stores, further_fetches] = row.further_lines;
        counts.further_lines += further_loads + further_stores;
        counts.further_fetches += further_fetches;
        counts.cycles += row.extra_cycles + self.hits(row);
        for (sum, misses) in counts.misses.iter_mut().zip(&self.misses[key * self.caches..]) {
            sum.add(misses);
        }
        let rest = &self.rest[key * self.width..][..self.width];
        let (tlbs, rest) = rest.split_at(self.tlbs);
        let (memories, last) = rest[1..].split_at(self.memories);
        counts.page_walks += rest[0];
        for (sum, n) in counts.tlb_misses.iter_mut().zip(tlbs) {
            *sum += n;
        }
        for (sum, n) in counts.served_by_memory.iter_mut().zip(memories) {
            *sum += n;
        }
        counts.served_from_afar += last[0];
        counts.fetched_lines += last[1];
        counts.used_bytes += last[2];
        counts.memory_writes += last[3];
        for (sum, n) in counts.write_backs.iter_mut().zip(&last[4..]) {
            *sum += n;
        }
    }
}

/// What happened in all caches of a kind, whoever's access it was for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Events {
    /// Lines that left for another that came.
    pub evictions: u64,
    /// Changed lines that were written to a farther cache or to memory: on leaving, and when another core asked for them.
    pub write_backs: u64,
    /// Lines that another core's store took.
    pub invalidations: u64,
    /// Lines that left because a farther cache that includes this one lost them.
    pub back_invalidations: u64,
    /// Lines fetched unasked.
    pub prefetches: u64,
    /// Those of them that were used before they left.
    pub used_prefetches: u64,
}
