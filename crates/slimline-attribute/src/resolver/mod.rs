//! A whole session, attributed: windows of the session become [`AccessBatch`]es, and what their handles name becomes
//! [`Tables`].
//!
//! ```text
//!   ip       ──► process's sites ──► site (module, link-time address: the same in all processes)
//!   address  ──► small block named by the sample ──┐
//!            ──► extent cache ─► address space ────┴──► object ──► group
//! ```

mod call_paths;
mod frames;
mod groups;
mod inferred;
mod mappers;
mod naming;
mod path_tree;
mod sampled_paths;
mod sites;
mod typed;
mod unlike;
mod unresolved;

use std::collections::BTreeSet;
use std::ops::Range;

use rustc_hash::FxHashMap;
use slimline_trace::access::{
    Access, AccessBatch, AccessKind, CallPathId, Evidence, GroupId, ObjectId, SiteId, Taken, ThreadId, WindowId,
};
use slimline_trace::address::Avma;
use slimline_trace::session::{Part, Process, ProcessSummary};
use slimline_trace::tables::{
    Accesses, BlockRow, Blocks, Chance, Mappings, Names, Paths, Ranges, Samples, Stacks, Threads,
};
use slimline_trace::wire::{BurstEnd, Quality};

use crate::data::address_space::{AddressSpace, Modules};
use crate::data::names::NamedAddresses;
use crate::data::shared_memory::SharedMappings;
use crate::data::timed::Extent;
use crate::data::wrappers::WrapperRules;
use crate::module::Module;
use crate::module::image::Image;
use crate::module::store::FileStore;
use crate::tables::{Tables, Thread};
use frames::{Activation, Frames, OnStack};
use groups::Groups;
use sampled_paths::SampledPaths;
use sites::Sites;
use typed::Uses;
pub use unresolved::{Reason, Unresolved};

/// Rows after which a batch is handed over at the next window's end.
const BATCH_ROWS: usize = 32 << 10;

/// What concerns the whole of a recorded process.
#[derive(Clone, Copy, Debug)]
pub struct ProcessTables<'s> {
    /// Kernel's number.
    pub pid: u32,
    /// Call paths.
    pub stacks: &'s Stacks,
    /// Large heap blocks and mappings.
    pub ranges: &'s Ranges,
    /// What was mapped where.
    pub mappings: &'s Mappings,
    /// Threads.
    pub threads: &'s Threads,
    /// What was allocated by call path.
    pub paths: &'s Paths,
    /// What an imported file says of addresses by itself.
    pub names: &'s Names,
    /// Whether every heap block was followed.
    pub follows_all: bool,
    /// Blocks of so many bytes or more were all followed.
    pub followed_bytes: u64,
    /// When it was forked from another process of the session, with ranges that began then; 0 otherwise.
    pub forked_ns: u64,
}

impl<'s> ProcessTables<'s> {
    /// The tables of `process`, of which `summary` tells.
    pub fn new(summary: &ProcessSummary, process: &'s Process) -> Self {
        let Process { stacks, ranges, mappings, threads, paths, names, .. } = process;
        let follows_all = summary.follow_shift == 0;
        let (pid, followed_bytes, forked_ns) = (summary.pid, summary.followed_bytes, summary.forked_ns);
        Self { pid, stacks, ranges, mappings, threads, paths, names, follows_all, followed_bytes, forked_ns }
    }
}

/// A few seconds of a process. Rows refer to each other and to [`ProcessTables`] rightly, as the session's reader
/// makes sure.
#[derive(Clone, Copy, Debug)]
pub struct PartTables<'s> {
    /// Samples.
    pub samples: &'s Samples,
    /// The accesses of all their windows, one after another.
    pub accesses: &'s Accesses,
    /// The heap blocks that both name.
    pub blocks: &'s Blocks,
}

impl<'s> From<&'s Part> for PartTables<'s> {
    fn from(part: &'s Part) -> Self {
        Self { samples: &part.samples, accesses: &part.accesses, blocks: &part.blocks }
    }
}

/// A process that a [`Resolver`] knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProcessId(usize);

/// What attribution found in a session, and what it could not find.
#[derive(Clone, Debug)]
pub struct Resolution {
    /// What the handles in the batches name.
    pub tables: Tables,
    /// What could not be resolved, most costly first.
    pub unresolved: Vec<Unresolved>,
}

/// Attributes one session: add its processes, resolve their parts, finish.
///
/// A data structure is the same one in all threads and processes: groups are told apart by module and link-time
/// address or by source position, never by where something happened to lie.
pub struct Resolver<'a> {
    modules: Modules<'a>,
    processes: Vec<ProcessState<'a>>,
    sites: Sites,
    groups: Groups,
    frames: Frames,
    threads: Vec<Thread>,
    windows: u32,
    uses: Uses,
    /// Who called where samples were taken, if that is asked for.
    sampled_paths: Option<SampledPaths>,
}

/// One process while it is resolved.
struct ProcessState<'a> {
    tables: ProcessTables<'a>,
    space: AddressSpace,
    shared: SharedMappings,
    names: NamedAddresses,
    first_thread: u32,
    sites: FxHashMap<u64, SiteId>,
    /// Where followed blocks began that were seen, and when. Only where others are not followed.
    followed: BTreeSet<(u64, u64)>,
}

impl ProcessState<'_> {
    /// Whether a range is a copy of its parent's.
    fn is_inherited(&self, range: usize) -> bool {
        self.tables.forked_ns != 0 && self.tables.ranges.born_ns[range] == self.tables.forked_ns
    }

    /// Notes the followed blocks of a part, each with a time at which it was seen.
    fn note_followed(&mut self, part: PartTables<'_>) {
        let PartTables { samples, accesses, blocks } = part;
        if self.tables.follows_all {
            return;
        }
        let mut is_noted = vec![false; blocks.len()];
        for (row, burst) in samples.windows() {
            for block in burst.filter_map(|access| accesses.block[access]).chain(samples.block[row]) {
                let is_new = !std::mem::replace(&mut is_noted[block.index()], true);
                let block = blocks.row(block.index());
                if is_new && !block.is_not_followed() {
                    self.followed.insert((block.base.0, samples.time_ns[row]));
                }
            }
        }
    }

    /// Whether followed blocks were seen in this extent: then an allocator cuts blocks out of what lies there.
    fn has_followed(&self, extent: &Extent) -> bool {
        let mut there = self.followed.range((extent.start, 0)..(extent.end, 0));
        there.any(|(_, time_ns)| (extent.from_ns..extent.until_ns).contains(time_ns))
    }
}

/// A process, and the modules that it and others loaded, as objects and call paths are looked up in it.
#[derive(Clone, Copy)]
struct ProcessView<'s, 'a> {
    id: ProcessId,
    process: &'s ProcessState<'a>,
    modules: &'s Modules<'a>,
}

/// An object as rows need it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Place {
    group: GroupId,
    object: ObjectId,
    /// First address of the object.
    base: u64,
    memory: Memory,
}

/// How well it is known what lies where, in the memory that a place is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Memory {
    /// Nothing else can be there.
    Known,
    /// A mapping that an allocator may have cut into blocks which were not followed, or something else that it did cut into blocks: some that
    /// were followed were seen there.
    Cut,
    /// A heap block of a size of which only a part is followed: it stands for others.
    Sample,
    /// A stack: what is there depends on which functions the thread is in.
    Stack,
}

impl<'a> Resolver<'a> {
    /// A resolver that reads modules through `store`.
    pub fn new(store: &'a FileStore<'a>) -> Self {
        Self::with_rules(store, WrapperRules::default())
    }

    /// The same with other rules for what passes memory on.
    pub fn with_rules(store: &'a FileStore<'a>, rules: WrapperRules) -> Self {
        Self {
            modules: Modules::new(|path| Module::open(store, path)),
            processes: Vec::new(),
            sites: Sites::new(rules.clone()),
            groups: Groups::new(rules),
            frames: Frames::default(),
            threads: Vec::new(),
            windows: 0,
            uses: Uses::default(),
            sampled_paths: None,
        }
    }

    /// Has it tell of each sample, too, who called where it was taken.
    #[must_use]
    pub fn with_call_paths(self) -> Self {
        Self { sampled_paths: Some(SampledPaths::default()), ..self }
    }

    /// Takes up a process; opens the modules it had loaded.
    pub fn add_process(&mut self, tables: ProcessTables<'a>) -> ProcessId {
        let first_thread = self.threads.len() as u32;
        for row in 0..tables.threads.len() {
            let (tid, name) = (tables.threads.tid[row], tables.threads.name[row].clone());
            self.threads.push(Thread { pid: tables.pid, tid, name });
        }
        let space = AddressSpace::new(tables.mappings, tables.ranges, &mut self.modules);
        let names = NamedAddresses::new(tables.names);
        let shared = SharedMappings::new(tables.mappings);
        let (sites, followed) = Default::default();
        self.processes.push(ProcessState { tables, space, shared, names, first_thread, sites, followed });
        ProcessId(self.processes.len() - 1)
    }

    /// Resolves a part and hands over its accesses as batches, each of one thread, windows in the order of time.
    ///
    /// Every sample has a row that carries its weight ([`Evidence::Cost`]); the accesses of its burst follow, which
    /// count and weigh nothing ([`Evidence::Execution`]). A sample that could not be blamed on an instruction weighs on
    /// the sampled one. Samples without a burst begin the window of the thread's next one that has a burst: that window
    /// stands for all CPU time since the one before. Where none follows, each is a window of its own.
    pub fn resolve(&mut self, process: ProcessId, part: PartTables<'_>, mut emit: impl FnMut(&AccessBatch)) {
        let PartTables { samples, accesses, .. } = part;
        for row in 0..samples.len() {
            self.processes[process.0].space.note_stack(samples.stack_pointer[row], samples.time_ns[row]);
        }
        self.processes[process.0].note_followed(part);
        let first_window = self.windows;
        self.windows = self.windows.saturating_add(samples.len() as u32);
        let mut windows: Vec<(usize, Range<usize>)> = samples.windows().collect();
        windows.sort_by_key(|&(row, _)| (samples.thread[row], samples.time_ns[row]));
        let mut cursor = Cursor::new(part.blocks.len());
        let mut batch = AccessBatch::default();
        let is_same_window = |(before, _): &(usize, Range<usize>), (row, _): &(usize, Range<usize>)| {
            samples.thread[*before] == samples.thread[*row] && samples.burst_end[*before] == BurstEnd::NotStarted
        };
        let ends_in_burst = |seen: &[(usize, Range<usize>)]| {
            seen.last().is_some_and(|&(last, _)| samples.burst_end[last] != BurstEnd::NotStarted)
        };
        let runs = windows.chunk_by(is_same_window);
        for seen in runs.flat_map(|run| run.chunks(if ends_in_burst(run) { run.len() } else { 1 })) {
            let Some(&(last, ref range)) = seen.last() else { continue };
            let thread = ThreadId(self.processes[process.0].first_thread + samples.thread[last].index() as u32);
            if batch.thread != Some(thread) || batch.len() >= BATCH_ROWS {
                if !batch.is_empty() {
                    emit(&batch);
                }
                batch = AccessBatch::with_capacity(thread, BATCH_ROWS + range.len() + 1);
            }
            let window = WindowId(first_window.saturating_add(last as u32));
            batch.begin_window(window, samples.time_ns[last], samples.burst_instructions[last]);
            for &(row, _) in seen {
                let cost = self.cost(process, &mut cursor, part, row, window);
                let path = self.sampled_path(process, samples, row);
                let (cpu_ns, time_ns, served) = (samples.cpu_ns[row], samples.time_ns[row], samples.served[row]);
                let region = samples.within[row].region.unwrap_or(0);
                batch.push_sample(cost, Taken { cpu_ns, time_ns, path, served, region });
            }
            let time_ns = samples.time_ns[last];
            for row in range.clone() {
                let address = accesses.address[row];
                let site = self.site(process, accesses.ip[row], time_ns);
                let seen = Seen { row: last, site, block: accesses.block[row], address };
                let place = self.place(process, &mut cursor, part, seen);
                batch.push(Access {
                    window,
                    site,
                    address,
                    bytes: accesses.bytes[row],
                    kind: accesses.kind[row],
                    group: place.group,
                    object: place.object,
                    offset: address.0.wrapping_sub(place.base),
                    weight: 0,
                    evidence: Evidence::Execution,
                });
                self.sites.count(site);
                self.groups.count(place.group);
                self.note_use(process, part, seen, place, 0);
                if is_unmapped(&place, address) {
                    self.groups.note_unmapped(0);
                }
            }
        }
        if !batch.is_empty() {
            emit(&batch);
        }
    }

    /// What a sample's weight is spent on.
    fn cost(
        &mut self,
        process: ProcessId,
        cursor: &mut Cursor,
        part: PartTables<'_>,
        row: usize,
        window: WindowId,
    ) -> Access {
        let samples = part.samples;
        let (time_ns, address, weight) = (samples.time_ns[row], samples.address[row], samples.weight[row]);
        let blamed = samples.ip[row];
        let ip = if blamed.0 == 0 { samples.sampled_ip[row] } else { blamed };
        let site = self.site(process, ip, time_ns);
        let seen = Seen { row, site, block: samples.block[row], address };
        let place = match address.0 {
            0 if blamed.0 != 0 => self.groups.lost(),
            _ => self.place(process, cursor, part, seen),
        };
        self.sites.weigh(site, weight);
        self.groups.weigh(place.group, weight);
        self.note_use(process, part, seen, place, weight);
        if is_unmapped(&place, address) {
            self.groups.note_unmapped(weight);
        }
        Access {
            window,
            site,
            address,
            bytes: samples.access_bytes[row],
            kind: match (samples.quality[row], samples.kind[row]) {
                (Quality::NoMemory, _) => AccessKind::NONE,
                (Quality::NoCode, _) | (_, AccessKind::NONE) => AccessKind::UNKNOWN,
                (_, kind) => kind,
            },
            group: place.group,
            object: place.object,
            offset: address.0.wrapping_sub(place.base),
            weight,
            evidence: Evidence::Cost,
        }
    }

    /// Who called where a sample was taken, where that is asked for and known.
    fn sampled_path(&mut self, process: ProcessId, samples: &Samples, row: usize) -> Option<CallPathId> {
        let (paths, stack) = (self.sampled_paths.as_mut()?, samples.stack[row]?);
        let view = ProcessView { id: process, process: &self.processes[process.0], modules: &self.modules };
        Some(paths.find(view, self.groups.call_paths(), stack, samples.time_ns[row]))
    }

    fn note_use(&mut self, process: ProcessId, part: PartTables<'_>, seen: Seen, place: Place, weight: u64) {
        let Seen { site, block, address, .. } = seen;
        let used = self
            .uses
            .entry((place.group, site))
            .or_insert_with(|| typed::Use { offset: address.0.wrapping_sub(place.base), ..typed::Use::default() });
        used.tally.accesses += 1;
        used.tally.weight += weight;
        // Where all blocks were followed, nothing has to be inferred, and another process may use other data there.
        if place.memory == Memory::Sample && !self.processes[process.0].tables.follows_all {
            let chance = block.map_or_else(Chance::default, |row| part.blocks.chance[row.index()]);
            used.others += chance.others();
        }
    }

    /// The site of an instruction of a process.
    pub fn site(&mut self, process: ProcessId, ip: Avma, time_ns: u64) -> SiteId {
        let process = &mut self.processes[process.0];
        if let Some(&site) = process.sites.get(&ip.0) {
            return site;
        }
        let site = match process.names.code_at(ip) {
            Some(name) => self.sites.named(name),
            None => self.sites.find(&process.space, &self.modules, ip, time_ns),
        };
        process.sites.insert(ip.0, site);
        site
    }

    /// The object that an access is to, through what is remembered of the part.
    fn place(&mut self, process: ProcessId, cursor: &mut Cursor, part: PartTables<'_>, seen: Seen) -> Place {
        let Seen { row, block, address, .. } = seen;
        if address.0 == 0 {
            return Groups::NOWHERE;
        }
        let time_ns = part.samples.time_ns[row];
        let view = ProcessView { id: process, process: &self.processes[process.0], modules: &self.modules };
        let named = block.map(|row| (row, part.blocks.row(row.index())));
        if let Some((row, block)) = &named
            && !block.is_not_followed()
        {
            let known = &mut cursor.blocks[row.index()];
            return known.unwrap_or_else(|| {
                let (place, is_all_of_it) = self.groups.in_block(view, block, address);
                *known = is_all_of_it.then_some(place);
                place
            });
        }
        let slot = cursor.slot(address);
        if !cursor.extents[slot].0.contains(address.0, time_ns) {
            let (place, extent) = self.groups.find_cut(view, address, time_ns);
            cursor.extents[slot] = (extent, place);
        }
        let place = cursor.extents[slot].1;
        match place.memory {
            Memory::Stack => self.on_stack(process, cursor, part.samples, seen, place),
            _ => match &named {
                Some((_, block)) => self.groups.in_passed_over(view, block, place),
                None => place,
            },
        }
    }

    /// Of a place on a stack, the variable.
    fn on_stack(
        &mut self,
        process: ProcessId,
        cursor: &mut Cursor,
        samples: &Samples,
        Seen { row, site, address, .. }: Seen,
        place: Place,
    ) -> Place {
        let view = ProcessView { id: process, process: &self.processes[process.0], modules: &self.modules };
        let stack_pointer = samples.stack_pointer[row];
        if cursor.walked.as_ref().is_none_or(|(of, _)| *of != row) {
            let callers = samples.stack[row].map_or(&[][..], |stack| view.process.tables.stacks.frames(stack));
            let from = (samples.sampled_ip[row], stack_pointer);
            let walk = self.frames.walk(view, from, callers, samples.time_ns[row]);
            cursor.walked = Some((row, walk));
        }
        let walked = cursor.walked.as_ref().map_or(&[][..], |(_, walked)| walked);
        let at = (site, self.sites.code(site));
        let found = self.frames.find(view, at, address.0, (stack_pointer.0, walked));
        let is_go = || at.1.and_then(|(module, _)| self.modules.get(module).image()).is_some_and(Image::is_go);
        if matches!(found, OnStack::Unknown)
            && is_go()
            && let Some(place) = self.groups.in_arena(view, address, samples.time_ns[row])
        {
            return place;
        }
        self.groups.on_stack(view, place, found)
    }

    /// The object that an address belongs to: its group, its number, and the offset in it. `block` is the small heap
    /// block that is known to hold it.
    pub fn object(
        &mut self,
        process: ProcessId,
        address: Avma,
        time_ns: u64,
        block: Option<&slimline_trace::tables::Block>,
    ) -> (GroupId, ObjectId, u64) {
        let view = ProcessView { id: process, process: &self.processes[process.0], modules: &self.modules };
        let place = match block {
            _ if address.0 == 0 => Groups::NOWHERE,
            Some(block) if !block.is_not_followed() => self.groups.in_block(view, block, address).0,
            Some(block) => {
                let place = self.groups.find_cut(view, address, time_ns).0;
                self.groups.in_passed_over(view, block, place)
            }
            None => self.groups.find(view, address, time_ns).0,
        };
        (place.group, place.object, address.0.wrapping_sub(place.base))
    }

    /// The tables of all that was resolved.
    pub fn finish(mut self) -> Resolution {
        for (number, process) in self.processes.iter().enumerate() {
            self.groups.add_sizes(ProcessView { id: ProcessId(number), process, modules: &self.modules });
        }
        let types = typed::fill(&self.modules, &mut self.sites, &mut self.groups, &self.uses);
        let unresolved = unresolved::collect(&self.sites, &self.groups, &self.modules);
        let mut tables = Tables::new();
        tables.inferred = inferred::inferred(&self.groups, &self.sites, &self.uses, &types);
        (tables.modules, tables.sites, tables.loops) = self.sites.into_rows(&self.modules);
        for (number, process) in self.processes.iter().enumerate() {
            self.groups.add_paths(ProcessView { id: ProcessId(number), process, modules: &self.modules });
        }
        tables.groups = self.groups.into_rows();
        tables.types = types;
        tables.threads = self.threads;
        (tables.call_paths, tables.callers) = self.sampled_paths.unwrap_or_default().into_rows();
        Resolution { tables, unresolved }
    }
}

fn is_unmapped(place: &Place, address: Avma) -> bool {
    place.group == Tables::UNATTRIBUTED && address.0 != 0
}

/// An access whose object is asked for.
#[derive(Clone, Copy)]
struct Seen {
    /// The sample that it was, or whose burst it is of.
    row: usize,
    site: SiteId,
    block: Option<BlockRow>,
    address: Avma,
}

/// What is remembered within one part.
struct Cursor {
    /// Objects of the part's blocks.
    blocks: Vec<Option<Place>>,
    /// Latest answers, by a hash of the address.
    extents: Vec<(Extent, Place)>,
    /// What functions the thread was in at the sample of that row.
    walked: Option<(usize, Vec<Activation>)>,
}

impl Cursor {
    /// Answers remembered: statics and stacks of a loop are few; a table that fits the second-level cache is enough.
    const SLOTS: usize = 1024;

    fn new(blocks: usize) -> Self {
        let nothing = Extent { start: 0, end: 0, from_ns: 0, until_ns: 0 };
        Self { blocks: vec![None; blocks], extents: vec![(nothing, Groups::NOWHERE); Self::SLOTS], walked: None }
    }

    /// Neighbouring addresses share a slot, line by line.
    fn slot(&self, address: Avma) -> usize {
        ((address.0 >> 6).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize
    }
}

const _: () = assert!(Cursor::SLOTS == 1 << (64 - 54));
