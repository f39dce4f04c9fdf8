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
//!
//! Whether a line that a store took comes back for what others wrote is known by what is accessed while it is there. Where that
//! is not yet so of any cache on its way, its entry in the first level is flagged, so that hits are looked at.
//!
//! Who holds which line is kept track of in [`Blocks`] that several cores use, and only there. By the blocks lines have
//! numbers, which all but sets and pages go by.

mod alone;
mod build;
mod coherence;
mod unasked;

use super::array::{Array, DIRTY, Entry, Line, Names, Newest, OPEN, QUIET, UNUSED};
use super::blocks::{BLOCK_LINES, Blocks};
use super::counters::{Class, Counters, Events, Reference};
use super::directory::Directory;
use super::homes::Homes;
use super::prefetcher::Prefetcher;
use super::seen::Seen;
use super::shadow::Shadow;
use super::used_bytes::{Use, UsedBytes};
use super::words::MOST_NARROW;
use crate::access::Access;

/// One cache.
#[derive(Debug)]
struct CacheState {
    /// Which of the machine's kinds.
    kind: usize,
    array: Array,
    /// Of shared blocks.
    seen: Seen,
    shadow: Option<Shadow>,
    prefetcher: Option<Prefetcher>,
    is_inclusive: bool,
    is_exclusive: bool,
    latency_cycles: u64,
    /// What is behind it, nearest first.
    farther: Vec<u32>,
    /// Whether what leaves it unchanged may go to one of these.
    has_exclusive_behind: bool,
    level: u8,
}

/// What a first-level cache answers by itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Front<'a> {
    newest: Newest<'a>,
    shadow: Option<&'a Shadow>,
}

impl<'a> Front<'a> {
    #[inline(always)]
    fn of(cache: &'a CacheState) -> Option<Self> {
        Some(Self { newest: cache.array.newest()?, shadow: cache.shadow.as_ref() })
    }

    /// Whether nothing changes but a count where the line is used: see [`Newest::is_used_quietly`].
    #[inline(always)]
    pub(super) fn is_used_quietly(self, at: u64, kind: Reference) -> bool {
        self.shadow.is_none_or(|shadow| shadow.is_first(at))
            && self.newest.is_used_quietly(at, kind == Reference::Store)
    }

    /// Whether the line is the one that was used last in its set.
    #[inline(always)]
    pub(super) fn is_newest(self, at: u64) -> bool {
        self.newest.is(at)
    }
}

/// A line that a core looks up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lookup {
    pub(super) core: usize,
    pub(super) line: Line,
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
    /// By core: the first of either.
    firsts: Vec<[u32; 2]>,
    /// By core, then kind of cache: which one it uses.
    used_by: Vec<Vec<u32>>,
    blocks: Blocks,
    /// Whether entries hold numbers of any size.
    is_wide: bool,
    /// Of shared blocks.
    directory: Directory,
    pub(super) homes: Homes,
    used: Option<UsedBytes>,
    /// By line: the key of the store that changed it first since it last came to a first level unchanged.
    changers: Vec<u32>,
    has_prefetchers: bool,
    /// Whether misses of lines that one core alone uses are done [quickly](Self::miss_alone).
    is_plain: bool,
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
    /// The line, numbered.
    #[inline(always)]
    pub(super) fn line(&mut self, at: u64) -> Line {
        let (line, is_new) = self.blocks.line(at);
        if is_new {
            self.new_block(line);
        }
        line
    }

    /// Entries are made wider where they have to be.
    #[cold]
    fn new_block(&mut self, line: Line) {
        self.changers.resize(self.changers.len() + BLOCK_LINES as usize, 0);
        if !self.is_wide && line.number / BLOCK_LINES * BLOCK_LINES + BLOCK_LINES > MOST_NARROW {
            self.is_wide = true;
            self.caches.iter_mut().for_each(|cache| cache.array.widen());
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

    /// Whether the newest line of each set of first-level caches is known.
    pub(super) fn has_fronts(&self) -> bool {
        let ways = self.data.iter().chain(&self.instructions);
        ways.filter_map(|way| way.first()).all(|&first| self.caches[first as usize].array.newest().is_some())
    }

    /// Whether caches have shadows.
    pub(super) fn has_shadows(&self) -> bool {
        self.caches.iter().any(|cache| cache.shadow.is_some())
    }

    /// What a core's first level answers by itself.
    #[inline(always)]
    pub(super) fn front(&self, core: usize, is_fetch: bool) -> Option<Front<'_>> {
        Front::of(&self.caches[self.firsts[core][usize::from(is_fetch)] as usize])
    }

    /// Counts loads and stores by a thread of this core, the first ones of these that [change nothing](Newest::is_used_quietly); how
    /// many they are. Not where there are shadows.
    #[inline]
    pub(super) fn pass_quiet(&mut self, core: usize, thread: u32, accesses: &[Access]) -> usize {
        let Self { caches, firsts, counters, line_shift, .. } = self;
        let Some(newest) = caches[firsts[core][0] as usize].array.newest() else { return 0 };
        let line_shift = *line_shift;
        let line_bytes = 1_u64 << line_shift;
        let is_quiet = |access: &&Access| {
            let Some(kind) = Reference::single(access.kind) else { return false };
            let first = access.first_byte();
            let is_quiet = access.thread == thread
                && (first & (line_bytes - 1)) + u64::from(access.bytes) <= line_bytes
                && newest.is_used_quietly(first >> line_shift, kind == Reference::Store);
            if is_quiet {
                counters.access(access.key, kind);
            }
            is_quiet
        };
        accesses.iter().take_while(is_quiet).count()
    }

    /// Reads what look-ups of lines by cores will need of farther caches: any number, for the compiler to keep the reads.
    /// They wait together for memory, where look-ups wait one by one; so nothing else is between them.
    pub(super) fn read_ahead(&self, lines: &[(usize, Line)]) -> u64 {
        let mut read = lines.iter().fold(0, |read, (_, line)| read ^ self.blocks.read_ahead(*line));
        let depth = self.data[0].len();
        for step in 1..depth {
            for (core, line) in lines {
                let array = &self.caches[self.data[*core][step] as usize].array;
                if !array.is_near() {
                    read ^= array.read_ahead(*line);
                }
            }
        }
        read
    }

    /// Looks a line up and counts what happens.
    pub(super) fn access(&mut self, lookup: &Lookup) {
        let Lookup { core, line, kind, bytes, .. } = *lookup;
        let first = self.firsts[core][usize::from(kind == Reference::Fetch)];
        let is_store = kind == Reference::Store;
        let array = &self.caches[first as usize].array;
        let found = array.find(line);
        let flags = found.map_or(0, |place| array.flags(place));
        // Nobody else has to do with it where the first level has what is loaded, or may change it.
        if is_store && found.is_some() && flags & DIRTY == 0 {
            self.changers[line.number as usize] = lookup.key;
        }
        let is_own = found.is_some() && (!is_store || flags & QUIET != 0);
        if flags & OPEN != 0 {
            self.seen(lookup, found);
        }
        let (missed, was_unasked) = if is_own {
            let was_unasked = self.hit(first, line, found.unwrap_or_default(), if is_store { DIRTY } else { 0 });
            (0, was_unasked)
        } else {
            let is_shared = self.enter(core, line);
            if self.is_plain && found.is_none() && !is_shared && kind != Reference::Fetch {
                return self.miss_alone(lookup);
            }
            let transferred = is_shared && self.settle(lookup, first);
            match found {
                Some(place) => {
                    let is_quiet = !is_shared || self.directory.is_quiet(core, line.number);
                    (0, self.hit(first, line, place, DIRTY | if is_quiet { QUIET } else { 0 }))
                }
                None => self.miss(lookup, is_shared, transferred),
            }
        };
        if let Some(used) = &mut self.used
            && kind != Reference::Fetch
        {
            used.used(first, line.at, bytes);
        }
        if self.has_prefetchers {
            self.prefetch(lookup, missed, was_unasked);
        }
    }

    /// An access to two lines that counts as one, as Cachegrind has it: at each level both are looked up where either
    /// missed before.
    pub(super) fn access_pair(&mut self, lookup: &Lookup, second: Line) {
        let Lookup { core, line, kind, key, .. } = *lookup;
        let depth = self.way(lookup).len();
        let mut step = 0;
        while step < depth {
            let number = self.way(lookup)[step];
            let state = if kind == Reference::Store && step == 0 { DIRTY } else { 0 } | QUIET;
            let mut missed = None;
            for line in [line, second] {
                let is_shared = self.enter(core, line);
                let array = &self.caches[number as usize].array;
                if state & DIRTY != 0 && array.find(line).is_none_or(|place| array.flags(place) & DIRTY == 0) {
                    self.changers[line.number as usize] = key;
                }
                if let Some(place) = self.caches[number as usize].array.find(line) {
                    self.hit(number, line, place, state & DIRTY);
                } else {
                    let class = self.class_of_miss(number, &Lookup { line, ..*lookup }, is_shared);
                    self.fill(number, line, state, is_shared);
                    missed = missed.or(Some(class));
                }
            }
            let Some(class) = missed else { break };
            self.counters.miss(key, self.caches[number as usize].kind, kind, class);
            step += 1;
        }
        let cycles = if step == depth {
            let (memory, cycles, is_near) = self.homes.serve(core, line.at << self.line_shift);
            self.counters.memory(key, memory, is_near);
            cycles
        } else {
            self.caches[self.way(lookup)[step] as usize].latency_cycles
        };
        self.counters.extra_cycles(key, cycles.saturating_sub(self.counters.hit_cycles(kind)));
    }

    /// The first level has not got the line. How many caches on its way have not, and whether the one that has it had
    /// fetched it unasked.
    fn miss(&mut self, lookup: &Lookup, is_shared: bool, transferred: bool) -> (usize, bool) {
        let Lookup { core, line, kind, key, .. } = *lookup;
        if is_shared && self.directory.is_open(line.number, self.way(lookup)) {
            self.seen(lookup, None);
        }
        let depth = self.way(lookup).len();
        let mut missed = 0;
        let mut was_unasked = false;
        while missed < depth {
            let number = self.way(lookup)[missed];
            let found = if missed == 0 { None } else { self.caches[number as usize].array.find(line) };
            if let Some(place) = found {
                was_unasked = self.hit(number, line, place, 0);
                break;
            }
            let class = self.class_of_miss(number, lookup, is_shared);
            self.counters.miss(key, self.caches[number as usize].kind, kind, class);
            missed += 1;
        }
        // Asked for after the caches were: what they lost to stores is known to them now.
        let is_quiet = !is_shared || self.directory.is_quiet(core, line.number);
        let state = if kind == Reference::Store { DIRTY } else { 0 } | if is_quiet { QUIET } else { 0 };
        self.serve(lookup, is_shared, missed, state, transferred);
        (missed, was_unasked)
    }

    /// A cache has the line that it is asked for, at this place; flags to set. Whether it had fetched it unasked.
    #[inline]
    fn hit(&mut self, number: u32, line: Line, place: usize, state: u64) -> bool {
        let cache = &mut self.caches[number as usize];
        if let Some(shadow) = &mut cache.shadow {
            shadow.access(line.at);
        }
        let was_unasked = cache.array.touch(line, place, state, UNUSED) & UNUSED != 0;
        self.events[cache.kind].used_prefetches += u64::from(was_unasked);
        was_unasked
    }

    /// Why a cache has not got the line that it is asked for.
    fn class_of_miss(&mut self, number: u32, lookup: &Lookup, is_shared: bool) -> Class {
        let line = lookup.line;
        let cache = &mut self.caches[number as usize];
        let was_in_shadow = cache.shadow.as_mut().map(|shadow| shadow.access(line.at));
        let (is_new, unseen) = if is_shared {
            (cache.seen.insert(line.number), self.directory.asked(line.number, number))
        } else {
            (self.blocks.see(cache.kind, line), None)
        };
        match (unseen, was_in_shadow) {
            (Some(unseen), _) if unseen & lookup.bytes != 0 => Class::CoherenceTrue,
            (Some(unseen), _) => {
                // One that does not take the line in has it for no longer than this access.
                if !cache.is_exclusive {
                    self.directory.open(line.number, number, unseen, lookup.key);
                }
                Class::CoherenceFalse
            }
            _ if is_new => Class::Cold,
            (None, None) => Class::Replaced,
            (None, Some(false)) => Class::Capacity,
            (None, Some(true)) => Class::Conflict,
        }
    }

    /// A line that the first `missed` caches of its way have not got comes from behind them. `state`: its flags in the
    /// first level.
    fn serve(&mut self, lookup: &Lookup, is_shared: bool, missed: usize, state: u64, transferred: bool) {
        let Lookup { core, line, kind, key, .. } = *lookup;
        let server = self.way(lookup).get(missed).copied();
        let mut state = state;
        let given = server.map_or(0, |server| self.give(server, line));
        if kind == Reference::Store && given & DIRTY == 0 {
            self.changers[line.number as usize] = key;
        }
        state |= given;
        let cycles = match (self.transfer_cycles.filter(|_| transferred), server) {
            (Some(transfer), _) => transfer,
            (None, Some(server)) => self.caches[server as usize].latency_cycles,
            (None, None) => {
                let (memory, cycles, is_near) = self.homes.serve(core, line.at << self.line_shift);
                self.counters.memory(key, memory, is_near);
                cycles
            }
        };
        self.counters.extra_cycles(key, cycles.saturating_sub(self.counters.hit_cycles(kind)));
        for step in (1..missed).rev() {
            let number = self.way(lookup)[step];
            if !self.caches[number as usize].is_exclusive {
                self.fill(number, line, 0, is_shared);
            }
        }
        self.fill_first(lookup, state, is_shared);
    }

    fn fill_first(&mut self, lookup: &Lookup, state: u64, is_shared: bool) {
        let way = self.way(lookup);
        let first = way[0];
        let is_open = is_shared && self.directory.is_open(lookup.line.number, way);
        self.fill(first, lookup.line, state | if is_open { OPEN } else { 0 }, is_shared);
        if let Some(used) = &mut self.used
            && lookup.kind != Reference::Fetch
        {
            used.came(first, lookup.line.at, lookup.key);
        }
    }

    /// An exclusive cache gives a line up to those before it: whether it was changed, as a flag. Others keep theirs.
    fn give(&mut self, number: u32, line: Line) -> u64 {
        if !self.caches[number as usize].is_exclusive {
            return 0;
        }
        self.take(number, line).map_or(0, |entry| if entry.is_dirty() { DIRTY } else { 0 })
    }

    /// Puts a line into a cache that has not got it.
    fn fill(&mut self, number: u32, line: Line, state: u64, is_shared: bool) {
        let left = self.caches[number as usize].array.insert(line, state);
        if is_shared {
            self.directory.add(line.number, number);
        }
        if let Some(left) = left {
            self.evicted(number, left);
        }
    }

    /// A line had to leave a cache.
    fn evicted(&mut self, number: u32, left: Entry) {
        let cache = &self.caches[number as usize];
        let kind = cache.kind;
        self.events[kind].evictions += 1;
        let mut is_dirty = left.is_dirty();
        let is_nobodys = self.directory.is_empty() && self.used.is_none();
        if is_nobodys && !is_dirty && !cache.is_inclusive && !cache.has_exclusive_behind {
            return;
        }
        let line = match cache.array.names() {
            Names::Places => self.line(left.name()),
            Names::Numbers => self.blocks.numbered(left.name()),
        };
        if !is_nobodys {
            self.forget(number, line);
        }
        let cache = &self.caches[number as usize];
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
        if is_dirty {
            self.written_back(kind, line);
        }
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
                let is_shared = self.blocks.is_shared(line.number);
                // Nobody asked this cache for it where it came into the nearer one unasked.
                self.came_unasked(far, line, is_shared);
                self.fill(far, line, if is_dirty { DIRTY } else { 0 }, is_shared);
                return;
            }
        }
        if is_dirty {
            self.written_to_memory(line);
        }
    }

    /// A cache of this kind wrote a changed line farther: for the store that changed it.
    fn written_back(&mut self, kind: usize, line: Line) {
        self.events[kind].write_backs += 1;
        self.counters.write_back(self.changers[line.number as usize], kind);
    }

    /// A changed line was written to memory.
    fn written_to_memory(&mut self, line: Line) {
        self.machine_events.memory_writes += 1;
        self.counters.memory_write(self.changers[line.number as usize]);
    }

    /// Takes a line out of a cache.
    fn take(&mut self, number: u32, line: Line) -> Option<Entry> {
        let entry = self.caches[number as usize].array.remove(line)?;
        self.forget(number, line);
        Some(entry)
    }

    /// A line is no more in a cache: whoever knew that it was.
    fn forget(&mut self, number: u32, line: Line) {
        if self.blocks.is_shared(line.number) {
            self.directory.remove(line.number, number);
        }
        if let Some(left) = self.used.as_mut().and_then(|used| used.left(number, line.at)) {
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
}
