//! One pass of accesses through the caches, TLBs and memories of a machine.
//!
//! What is simulated is what a machine does to each line, not when: no two misses overlap, no buffer between caches, and
//! cycles are a sum of latencies. Stores allocate their lines, and changed lines are written back when they leave.

mod array;
mod blocks;
mod counters;
mod directory;
mod hierarchy;
mod homes;
mod prefetcher;
mod seen;
mod shadow;
mod tlb;
mod used_bytes;
mod words;

pub use counters::{Counts, Events, Misses};
pub use hierarchy::MachineEvents;
pub(crate) use homes::Homes;
pub use homes::MemoryPolicy;
pub use tlb::LargePages;

use std::hint::black_box;
use std::slice;

use array::Line;
use counters::Reference;
use hierarchy::{Front, Hierarchy, Lookup};
use tlb::Tlbs;

use crate::access::{Access, AccessKind, Consumer, TOGETHER};
use crate::machine::{Counting, Machine, MachineError};

/// When more of the last ones than so many were not the first level's newest lines, to read ahead for the next is worth it.
const MANY: usize = TOGETHER / 4;

/// What to tell besides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Tell misses of capacity and of conflict apart. Costs a fully associative cache beside each.
    pub classes: bool,
    /// Tell which part of each line was used in first-level data caches. Costs a look-up for each access.
    pub used_bytes: bool,
    /// Which addresses lie on large pages.
    pub large_pages: LargePages,
    /// Which memory pages live in.
    pub memory: MemoryPolicy,
}

/// A machine while it is used. Where several machines are wanted in one pass, each gets each batch.
#[derive(Debug)]
pub struct Simulation {
    machine: Machine,
    hierarchy: Hierarchy,
    /// By core; none where the machine has no TLB.
    tlbs: Vec<Tlbs>,
    large_pages: LargePages,
    line_shift: u32,
    /// The nearest kind of cache that has data, if any.
    first_data_cache: Option<usize>,
    is_cachegrind: bool,
    /// Whether the most recent line of a set may be passed over quickly.
    has_quick_hits: bool,
    /// Whether such accesses are passed over several at a time: nothing else wants to know of each.
    passes_quiet: bool,
    /// Accesses of the last few that took more than that.
    looked_up: usize,
    /// Lines that were read ahead last, each with the core that will access it, and how many of them were accessed since.
    ahead: Vec<(usize, Line)>,
    ahead_done: usize,
}

impl Simulation {
    /// All caches are empty.
    ///
    /// # Errors
    /// As [`Machine::check`]; or it has TLBs, and none for pages that data lies on.
    pub fn new(machine: &Machine, options: &Options) -> Result<Self, MachineError> {
        machine.check()?;
        machine.check_pages(&options.large_pages)?;
        if options.used_bytes && machine.counting == Counting::Cachegrind {
            let why = "counts as Cachegrind does, which looks lines up by pairs: which bytes are used can't be told";
            return Err(MachineError(format!("machine {}: {why}", machine.name)));
        }
        let hierarchy = Hierarchy::new(machine, options);
        let cores = if machine.tlbs.is_empty() { 0 } else { machine.cores };
        let has_quick_hits = hierarchy.has_fronts() && !options.used_bytes;
        Ok(Self {
            passes_quiet: has_quick_hits && cores == 0 && !hierarchy.has_shadows(),
            tlbs: (0..cores).map(|_| Tlbs::new(machine)).collect(),
            large_pages: options.large_pages.clone(),
            line_shift: machine.line_bytes().trailing_zeros(),
            first_data_cache: machine.path(false).first().copied(),
            is_cachegrind: machine.counting == Counting::Cachegrind,
            has_quick_hits,
            looked_up: 0,
            ahead: Vec::new(),
            ahead_done: 0,
            hierarchy,
            machine: machine.clone(),
        })
    }

    /// The machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Which pages are large.
    pub fn large_pages(&self) -> &LargePages {
        &self.large_pages
    }

    /// Reads what these accesses, which come next, will need, but for those whose line is the first level's newest.
    pub(crate) fn read_ahead(&mut self, accesses: &[Access]) {
        let is_worth_it = self.looked_up > MANY;
        self.looked_up = 0;
        if !is_worth_it {
            return;
        }
        self.ahead.clear();
        self.ahead_done = 0;
        let mut before = None;
        for access in accesses.iter().filter(|access| access.kind != AccessKind::Fetch) {
            let core = self.machine.core_of(access.thread) as usize;
            let at = access.first_byte() >> self.line_shift;
            let is_newest = |front: Front<'_>| front.is_newest(at);
            if before.replace(at) != Some(at) && !self.hierarchy.front(core, false).is_some_and(is_newest) {
                self.ahead.push((core, self.hierarchy.line(at)));
            }
        }
        black_box(self.hierarchy.read_ahead(&self.ahead));
    }

    /// The line, numbered: mostly that was done when it was read ahead.
    #[inline]
    fn line(&mut self, at: u64) -> Line {
        while let Some((_, line)) = self.ahead.get(self.ahead_done) {
            self.ahead_done += 1;
            if line.at == at {
                return *line;
            }
        }
        self.hierarchy.line(at)
    }

    /// Does the first ones of these, as far as one thread does them and they only count; how many they are.
    #[inline]
    fn pass_quiet(&mut self, accesses: &[Access]) -> usize {
        match accesses {
            [access, ..] if self.passes_quiet => {
                let core = self.machine.core_of(access.thread) as usize;
                self.hierarchy.pass_quiet(core, access.thread, accesses)
            }
            _ => 0,
        }
    }

    /// Does an access.
    #[inline(always)]
    fn one(&mut self, access: &Access) {
        match access.kind {
            AccessKind::Load | AccessKind::Prefetch => self.reference(access, Reference::Load),
            AccessKind::Store => self.reference(access, Reference::Store),
            AccessKind::Modify => {
                self.reference(access, Reference::Load);
                if !self.is_cachegrind {
                    self.reference(access, Reference::Store);
                }
            }
            AccessKind::Fetch if self.hierarchy.has_instructions() => self.reference(access, Reference::Fetch),
            AccessKind::Fetch => {}
        }
    }

    #[inline(always)]
    fn reference(&mut self, access: &Access, kind: Reference) {
        let core = self.machine.core_of(access.thread) as usize;
        let (first, last) = access.ends();
        let key = access.key;
        self.hierarchy.counters.access(key, kind);
        if kind != Reference::Fetch && !self.tlbs.is_empty() {
            self.tlbs[core].access(first, last, &self.large_pages, key, &mut self.hierarchy.counters);
        }
        let at = first >> self.line_shift;
        let is_quiet = |front: Front<'_>| front.is_used_quietly(at, kind);
        let is_known_not_to_be = self.passes_quiet && Reference::single(access.kind).is_some();
        if !is_known_not_to_be
            && at == last >> self.line_shift
            && self.has_quick_hits
            && self.hierarchy.front(core, kind == Reference::Fetch).is_some_and(is_quiet)
        {
            return;
        }
        self.looked_up += 1;
        let line = self.line(at);
        self.look_up(Lookup { core, line, kind, key, bytes: 0 }, first, last);
    }

    /// Looks up all lines of the bytes from `first` to `last`.
    fn look_up(&mut self, lookup: Lookup, first: u64, last: u64) {
        let first_line = lookup.line.at;
        let mut last_line = last >> self.line_shift;
        if last_line == first_line {
            return self.hierarchy.access(&Lookup { bytes: self.mask(first, last), ..lookup });
        }
        if self.is_cachegrind {
            // Cachegrind takes longer accesses as if they were of one line's size.
            last_line = (first + (1 << self.line_shift) - 1).min(last) >> self.line_shift;
            if last_line > first_line {
                let second = self.hierarchy.line(last_line);
                return self.hierarchy.access_pair(&lookup, second);
            }
        }
        self.look_up_line(lookup, first, last);
        for at in first_line + 1..=last_line {
            let line = self.hierarchy.line(at);
            self.look_up_line(Lookup { line, ..lookup }, first, last);
            self.hierarchy.counters.further_line(lookup.key, lookup.kind);
        }
    }

    /// Looks up one line of the bytes from `first` to `last`.
    fn look_up_line(&mut self, lookup: Lookup, first: u64, last: u64) {
        let start = lookup.line.at << self.line_shift;
        let end = start + (1 << self.line_shift) - 1;
        self.hierarchy.access(&Lookup { bytes: self.mask(first.max(start), last.min(end)), ..lookup });
    }

    /// These bytes of one line as a mask; longer lines than 64 bytes have several bytes a bit.
    fn mask(&self, first: u64, last: u64) -> u64 {
        let shift = self.line_shift.saturating_sub(6);
        let within = |address: u64| (address & ((1 << self.line_shift) - 1)) >> shift;
        let (first, last) = (within(first), within(last));
        (u64::MAX >> (63 - (last - first))) << first
    }

    /// Does an access, and tells what it took. `told`: the memory that it is in and the one near to its thread, where that is
    /// known.
    pub(crate) fn cost(&mut self, access: &Access, told: Option<(usize, usize)>) -> Cost {
        if let Some(kind) = Reference::single(access.kind)
            && self.pass_quiet(slice::from_ref(access)) == 1
        {
            let cycles = self.hierarchy.counters.hit_cycles(kind);
            return Cost {
                cycles,
                hit_cycles: cycles,
                misses: 0,
                coherence: 0,
                is_from_memory: false,
                is_from_afar: false,
            };
        }
        self.hierarchy.homes.tell(told);
        let first = self.first_data_cache;
        let before = self.hierarchy.counters.mark(access.key, first);
        self.one(access);
        let after = self.hierarchy.counters.mark(access.key, first);
        let hit_cycles = after.hit_cycles - before.hit_cycles;
        Cost {
            cycles: hit_cycles + after.extra_cycles - before.extra_cycles,
            hit_cycles,
            misses: after.misses - before.misses,
            coherence: after.coherence - before.coherence,
            is_from_memory: after.from_memory > before.from_memory,
            is_from_afar: after.from_afar > before.from_afar,
        }
    }

    /// Ends the pass: lines that are still there are counted as if they left now, where used bytes are counted.
    pub fn finish(mut self) -> Outcome {
        self.hierarchy.end();
        Outcome { machine: self.machine, hierarchy: self.hierarchy }
    }
}

impl Consumer for Simulation {
    fn take(&mut self, accesses: &[Access]) {
        for together in accesses.chunks(TOGETHER) {
            self.read_ahead(together);
            let mut rest = together;
            while let [access, behind @ ..] = &rest[self.pass_quiet(rest)..] {
                self.one(access);
                rest = behind;
            }
        }
    }
}

/// What one access took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// Of all that it did.
    pub(crate) cycles: u64,
    /// What they would be, had the first level had all of it.
    pub(crate) hit_cycles: u64,
    /// Misses of the first level.
    pub(crate) misses: u64,
    /// Those of them that were for another core's store.
    pub(crate) coherence: u64,
    /// A memory served it …
    pub(crate) is_from_memory: bool,
    /// … that is not near to the core.
    pub(crate) is_from_afar: bool,
}

/// What was counted in a pass.
#[derive(Debug)]
pub struct Outcome {
    machine: Machine,
    hierarchy: Hierarchy,
}

impl Outcome {
    /// The machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Of all accesses.
    pub fn total(&self) -> Counts {
        self.hierarchy.counters.total()
    }

    /// One more than the largest key.
    pub fn keys(&self) -> u32 {
        self.hierarchy.counters.keys()
    }

    /// Of the accesses of one key.
    pub fn of_key(&self, key: u32) -> Counts {
        self.hierarchy.counters.of_key(key)
    }

    /// By cache, in the machine's order.
    pub fn events(&self) -> &[Events] {
        &self.hierarchy.events
    }

    /// Of the machine.
    pub fn machine_events(&self) -> MachineEvents {
        self.hierarchy.machine_events
    }
}
