//! From records to accesses that know whose they are.
//!
//! What an [`Access`] is of (instruction, data, thread) is its key: each combination that occurs gets one, and [`AttributedAccesses::origins`] says at the end what each stands for. Data are heap blocks by their
//! allocating instruction, or else the variable that the instruction names.
//!
//! Where parts of data are asked for ([`AttributedAccesses::with_parts`]), each part of it that occurs makes a key of its own.
//!
//! A key costs comparisons where an instruction accesses the block, and its part, that it accessed last, or again none; else
//! look-ups.

use std::cell::Cell;
use std::num::NonZeroU64;

use rustc_hash::FxHashMap;
use slimline_simulate::access::{Access, AccessKind};
use slimline_trace::stream::decode::{Program, SiteId, Visits};
use slimline_trace::stream::is_a_thread_s;
use slimline_trace::stream::sites::{Site, SiteKind};

use super::TraceBatch;
use super::block_names::BlockNames;
use super::elements::NO_LEAF;
use super::findings::{allocated_at, called_at, callers_of, field, line, of_leaf, place};
use super::function_names::FunctionNames;
use super::heap::blocks::Blocks;
use super::heap::live_blocks::{Group, NO_GROUP};
use super::heap::{GroupBlocks, UnknownBlocks};
use super::keyed::{Collected, Written};
use super::parts::Parts;
use super::plans::{Plans, plain_kind};
use super::regions::Regions;
use super::shared_memory::SharedMemory;
use super::spots::{AccessedSpot, AccessedSpots, Column, Memory, Spot, of_number};
use super::statics::Statics;
use super::unseen::Unseen;
use super::walk::{Accessing, go_through};
use crate::origins::{Data, DataKind, Names, Origin, Origins, Thread};

/// Bytes of one [`Access`].
pub(super) const MOST_ACCESS_BYTES: u64 = 1 << 30;
/// Addresses are below; above it stand processes, so that the memory of each is its own.
const ADDRESS_BITS: u32 = 48;

/// An access's address in its process.
pub const fn own_address(address: u64) -> u64 {
    address & ((1 << ADDRESS_BITS) - 1)
}

/// What tells the addresses of a process, by its number, from those of others: they differ from its own by these bits.
pub const fn address_space(process: u32) -> u64 {
    (process as u64) << ADDRESS_BITS
}

/// Makes accesses of records, in the order in which they come.
#[derive(Debug, Default)]
pub struct AttributedAccesses {
    blocks: Blocks,
    plans: Plans,
    threads: FxHashMap<(u32, u32), u32>,
    /// By thread.
    thread_ids: Vec<Thread>,
    keys: Keys,
    /// None where nobody asked.
    parts: Option<Parts>,
    /// None where nobody asked.
    regions: Option<Regions>,
    /// None where nobody asked.
    shared: Option<SharedMemory>,
    unseen: Unseen,
}

/// Keys of all combinations so far.
#[derive(Debug, Default)]
struct Keys {
    collected: Collected,
    /// Their numbers are the keys; threads are the actors, in one region each where regions are told.
    accessed: AccessedSpots,
    /// Accesses by key.
    counts: Vec<u64>,
}

impl Keys {
    /// The key of one access of so many bytes, and for how many from there on its part of the data goes on.
    fn of_span(&mut self, memory: &mut Memory<'_>, by: (u32, u32), address: u64, bytes: u64) -> (u32, u64) {
        let (key, of_part) = self.accessed.span(memory, by, address, bytes);
        *of_number(&mut self.counts, key) += 1;
        (key, of_part)
    }
}

/// Makes accesses of one thread's batch.
struct Keying<'a> {
    keys: &'a mut Keys,
    thread: u32,
    actor: u32,
    /// The process, as it stands in addresses.
    space: u64,
    written: Written<'a>,
    unseen: &'a mut Unseen,
}

impl Accessing for Keying<'_> {
    fn collect(&mut self, visits: Visits) {
        self.keys.collected.collect(visits);
    }

    fn settle(&mut self, by: (&Program, &Plans), batch: &TraceBatch<'_>, memory: &mut Memory<'_>) {
        let Keys { collected, accessed, counts } = &mut *self.keys;
        let &mut Self { thread, actor, .. } = self;
        let whose = |site: SiteId, column: Column<'_>, each: &mut dyn FnMut(u32, usize)| {
            accessed.column(memory, (actor, site.0), column, |key, range| {
                *of_number(counts, key) += range.len() as u64;
                each(key, range.len());
            });
        };
        collected.write(by, batch.words, (thread, self.space), whose, &mut self.written);
    }

    fn site(&mut self, plans: &Plans, memory: &mut Memory<'_>, id: SiteId, site: &Site, own: &[u64]) {
        let &mut Self { thread, actor, space, .. } = self;
        let is_cut = matches!(site.kind, SiteKind::Copy | SiteKind::Fill);
        let work = plans.work(id);
        site.each_access(own, |kind, address, bytes| {
            let kind = plain_kind(kind).unwrap_or(AccessKind::Load);
            // One of nothing is none.
            if bytes == 0 || !self.unseen.is_possible(bytes) {
                return;
            }
            let id = if kind == AccessKind::Load { id.of_loads(site) } else { id };
            let (mut address, mut left) = (address, bytes);
            while left > 0 {
                let (key, of_part) = self.keys.of_span(memory, (actor, id.0), address, left);
                let of_part = if is_cut { of_part } else { left };
                let bytes = of_part.min(left).min(MOST_ACCESS_BYTES);
                let of_piece = address ^ space;
                let access = Access { address: of_piece, key, bytes: bytes as u32, thread, kind, work };
                self.keys.collected.add(access, self.written.accesses);
                address = address.wrapping_add(bytes);
                left -= bytes;
            }
        });
    }
}

impl AttributedAccesses {
    /// Has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Also tells which part of its data each access is in ([`Origin::part`]): parts of so many bytes, or of a power of two
    /// times as many where data has more than 4096. What one instruction copies or fills is accessed part by part.
    pub fn with_parts(bytes: NonZeroU64) -> Self {
        Self { parts: Some(Parts::of(bytes)), ..Self::default() }
    }

    /// Also tells which region the thread was in ([`Origin::region`]).
    pub fn by_regions(mut self) -> Self {
        self.regions = Some(Regions::default());
        self
    }

    /// The same, and which ranges of memory each access is to ([`Origins::ranges_of`]): of these, by first byte and bytes, in whatever
    /// process, and of those that the program watches. What lies in several is in all of them.
    pub fn by_regions_and_ranges(mut self, asked: &[(u64, u64)]) -> Self {
        self.regions = Some(Regions::with_ranges(asked));
        self
    }

    /// Gives accesses to memory that processes share one address in all of them, of an address space that is no process's.
    pub fn sharing_memory(mut self) -> Self {
        self.shared = Some(SharedMemory::default());
        self
    }

    /// Whether [`Self::sharing_memory`] was asked for.
    pub fn shares_memory(&self) -> bool {
        self.shared.is_some()
    }

    /// Whether regions are told.
    pub fn tells_regions(&self) -> bool {
        self.regions.is_some()
    }

    /// Has blocks of one site told apart by the functions that called for them.
    pub fn by_callers(mut self) -> Self {
        self.blocks.follow_calls();
        self
    }

    /// Adds the accesses of a batch, which comes after all that it can know of. `many` is told when there are some thousands, and may
    /// take them.
    pub fn update(
        &mut self,
        program: &Program,
        batch: &TraceBatch<'_>,
        accesses: &mut Vec<Access>,
        many: &mut dyn FnMut(&mut Vec<Access>),
    ) {
        let Some(mut shared) = self.shared.take() else { return self.update_own(program, batch, accesses, many) };
        shared.follow(program, batch);
        let unified = Cell::new(accesses.len());
        let mut unify = |accesses: &mut Vec<Access>| {
            shared.unify(batch.process, &mut accesses[unified.get()..]);
            many(accesses);
            unified.set(accesses.len());
        };
        self.update_own(program, batch, accesses, &mut unify);
        shared.unify(batch.process, &mut accesses[unified.get()..]);
        self.shared = Some(shared);
    }

    /// The same with addresses as each process has them.
    fn update_own(
        &mut self,
        program: &Program,
        batch: &TraceBatch<'_>,
        accesses: &mut Vec<Access>,
        many: &mut dyn FnMut(&mut Vec<Access>),
    ) {
        let thread = self.make_room(program, batch);
        self.unseen.visit(batch.visits);
        let Some(mut regions) = self.regions.take() else {
            self.update_part(program, batch, (thread, thread), Written { accesses, many });
            return;
        };
        regions.parts(program, batch, |regions, part| {
            let actor = regions.actor(thread, part);
            let ranges = regions.ranges_mut();
            // Those before have the keys that they are to have.
            let told = Cell::new(accesses.len());
            let mut tell = |accesses: &mut Vec<Access>| {
                ranges.tell(part.process, &mut accesses[told.get()..]);
                many(accesses);
                told.set(accesses.len());
            };
            self.update_part(program, part, (thread, actor), Written { accesses, many: &mut tell });
            ranges.tell(part.process, &mut accesses[told.get()..]);
        });
        self.regions = Some(regions);
    }

    fn update_part(
        &mut self,
        program: &Program,
        batch: &TraceBatch<'_>,
        (thread, actor): (u32, u32),
        Written { accesses, many }: Written<'_>,
    ) {
        let Self { blocks, plans, keys, parts, unseen, .. } = self;
        if is_a_thread_s(batch.stream) {
            keys.accessed.make_room(actor, program.site_count());
        }
        let (live, allocations, elements) = blocks.of_process(batch.process);
        let space = address_space(batch.process);
        let mut memory = Memory { process: batch.process, live, elements, parts: parts.as_mut() };
        let written = Written { accesses, many };
        let mut keying = Keying { keys, thread, actor, space, written, unseen };
        go_through((program, plans), batch, allocations, &mut memory, &mut keying);
    }

    /// The number of a thread in accesses.
    pub fn thread(&mut self, process: u32, tid: u32) -> u32 {
        *self.threads.entry((process, tid)).or_insert_with(|| {
            self.thread_ids.push(Thread { process, tid });
            self.thread_ids.len() as u32 - 1
        })
    }

    /// The number of the batch's thread; of what tells of static variables, which no thread wrote, any.
    fn make_room(&mut self, program: &Program, batch: &TraceBatch<'_>) -> u32 {
        self.blocks.make_room(program);
        self.plans.make_room(program, &self.blocks);
        self.unseen.make_room(program);
        if let Some(parts) = &mut self.parts {
            parts.make_room(program);
        }
        if !is_a_thread_s(batch.stream) {
            return 0;
        }
        let thread = self.thread(batch.process, batch.tid);
        self.keys.collected.make_room(program.segments().len());
        thread
    }

    /// What no access was made of.
    pub fn unseen(&self) -> &Unseen {
        &self.unseen
    }

    /// Where blocks are not known.
    pub fn unknown_blocks(&self) -> UnknownBlocks {
        self.blocks.unknown()
    }

    /// By key: its instruction.
    pub fn sites(&self) -> Vec<SiteId> {
        self.keys.accessed.all().iter().map(|of| SiteId(of.site)).collect()
    }

    /// What a key's accesses are to: by what the block consists of, or else as its site says.
    fn field(&self, program: &Program, of: &AccessedSpot) -> String {
        let (module, site) = program.site(SiteId(of.site));
        let Spot { element, leaf, .. } = of.spot;
        let own = field(module, site);
        if leaf == NO_LEAF {
            return own;
        }
        let elements = self.blocks.elements();
        let bytes = site.size_bytes.saturating_mul(site.lanes.into());
        let named = of_leaf(elements, SiteId(of.site), site, (element, leaf), bytes, &own);
        match named.named.as_slice() {
            [(name, _)] => name.clone(),
            // Several members at once.
            _ => elements.get(element).declaration.name.clone(),
        }
    }

    /// What the keys stand for.
    pub fn origins(&self, program: &Program) -> Origins {
        let mut names = Names::default();
        let blocks: FxHashMap<Group, GroupBlocks> = self.blocks.groups().collect();
        let statics = Statics::of(program, &self.blocks, self.keys.accessed.all().iter().map(|of| of.spot.group));
        let mut groups = Groups::of(self.parts.as_ref(), statics);
        for (of, &accesses) in self.keys.accessed.all().iter().zip(&self.keys.counts) {
            groups.names.add(of.spot.group, program.site(SiteId(of.site)), accesses);
        }
        let place_of = |of: &AccessedSpot| {
            let (module, site) = program.site(SiteId(of.site));
            place(module, site)
        };
        let functions = FunctionNames::of(self.keys.accessed.all().iter().map(place_of));
        let rows = self.keys.accessed.all().iter().zip(&self.keys.counts).map(|(of, &accesses)| {
            let (module, site) = program.site(SiteId(of.site));
            let place = place_of(of);
            let variable = module.name(site.variable);
            let data = groups.number(program, &self.blocks, of.spot.group, variable, &blocks);
            let called_at = called_at(module, site).unwrap_or_default();
            let (thread, region) = self.regions.as_ref().map_or((of.actor, 0), |regions| regions.of_actor(of.actor));
            Origin {
                data,
                variable: names.number(variable),
                field: names.number(&self.field(program, of)),
                function: names.number(&functions.name(&place)),
                line: names.number(&line(&place)),
                column: place.column,
                called_at: names.number(&line(&called_at)),
                called_at_column: called_at.column,
                thread,
                region,
                ranges: 0,
                part: of.part,
                accesses,
            }
        });
        let rows: Vec<Origin> = rows.collect();
        let threads = self.thread_ids.clone();
        let Some(ranges) = self.regions.as_ref().map(Regions::ranges).filter(|ranges| ranges.is_asked()) else {
            return Origins::new(rows, groups.data, names, threads);
        };
        let rows = ranges.told().map(|(key, ranges, accesses)| Origin { ranges, accesses, ..rows[key as usize] });
        Origins::new(rows.collect(), groups.data, names, threads).with_ranges(ranges.all().to_vec(), ranges.sets())
    }
}

/// Data by their numbers.
struct Groups<'a> {
    parts: Option<&'a Parts>,
    statics: Statics<'a>,
    names: BlockNames<'a>,
    numbers: FxHashMap<(Group, &'a str), u32>,
    data: Vec<Data>,
}

impl<'a> Groups<'a> {
    fn of(parts: Option<&'a Parts>, statics: Statics<'a>) -> Self {
        let (names, numbers) = Default::default();
        Self { parts, statics, names, numbers, data: Vec::new() }
    }

    fn number(
        &mut self,
        program: &'a Program,
        of: &Blocks,
        group: Group,
        variable: &'a str,
        blocks: &FxHashMap<Group, GroupBlocks>,
    ) -> u32 {
        // What a block is called does not say which it is.
        let identity = (group, if group == NO_GROUP { variable } else { "" });
        if let Some(number) = self.numbers.get(&identity) {
            return *number;
        }
        let data = if group == NO_GROUP {
            let kind = if variable.is_empty() { DataKind::Unattributed } else { DataKind::Variable };
            Data { kind, name: variable.to_owned(), ..Data::default() }
        } else {
            let (module, site) = program.site(of.site_of(group));
            let blocks = blocks.get(&group).copied().unwrap_or_default();
            let (kind, name, type_name) = match self.statics.title(group) {
                Some(title) => (DataKind::Static, title, site.detail),
                None => (DataKind::Heap, self.names.of(group, module, site, blocks.blocks), site.structure),
            };
            Data {
                kind,
                name: name.to_owned(),
                type_name: module.name(type_name).to_owned(),
                allocated_at: allocated_at(module, site).0,
                callers: callers_of(program, of, group).collect(),
                blocks: blocks.blocks,
                peak_bytes: blocks.peak_bytes,
                largest_block_bytes: self.parts.map_or(0, |parts| parts.largest(group)),
            }
        };
        self.data.push(data);
        self.numbers.insert(identity, self.data.len() as u32 - 1);
        self.data.len() as u32 - 1
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use slimline_trace::stream::decode::SegmentId;
    use slimline_trace::stream::sites::{Body, Module, ModuleBuilder, Relative};

    use super::super::heap::HeapAccesses;
    use super::super::tests::{program_of, program_with_bodies, visits_of};
    use super::*;
    use crate::origins::{By, Part, Whose};

    /// What is made of these records, each with its process and thread.
    fn seen(program: &Program, run: &[(u32, u32, u32, Vec<u64>)]) -> (Vec<Access>, AttributedAccesses) {
        seen_by(AttributedAccesses::new(), program, run)
    }

    fn seen_by(
        mut made: AttributedAccesses,
        program: &Program,
        run: &[(u32, u32, u32, Vec<u64>)],
    ) -> (Vec<Access>, AttributedAccesses) {
        let mut accesses = Vec::new();
        for (process, tid, segment, own) in run {
            let (words, visits) = visits_of(program, &[(*segment, own.clone())]);
            let (process, tid) = (*process, *tid);
            let batch =
                TraceBatch { process, stream: tid, tid, visits: &visits, words: &words, ..TraceBatch::default() };
            made.update(program, &batch, &mut accesses, &mut |_| {});
        }
        (accesses, made)
    }

    #[test]
    fn each_kind_accesses_what_its_words_say() {
        use SiteKind::*;
        let site = |kind, size_bytes, lanes| Site { lanes, ..Site::new(kind, size_bytes) };
        let plain = [site(Load, 8, 1), site(Store, 4, 1), site(Update, 2, 1), site(Untraced, 0, 1)];
        let others = [site(Copy, 0, 1), site(Fill, 0, 1), site(MaskedStore, 4, 8), site(Gather, 8, 3)];
        let program = program_of(&[&plain, &others]);
        let words = vec![0x100, 0x200, 10, 0x300, 5 << 30, 0x400, 0b1_0000_1100, 0b101, 0x500, 1 << 63, 0x600];
        let (accesses, made) = seen(&program, &[(0, 7, 0, vec![1, 2, 3]), (0, 7, 1, words)]);
        let found: Vec<_> = accesses.iter().map(|access| (access.kind, access.address, access.bytes)).collect();
        let mut expected = vec![
            (AccessKind::Load, 1, 8),
            (AccessKind::Store, 2, 4),
            (AccessKind::Modify, 3, 2),
            (AccessKind::Load, 0x200, 10),
            (AccessKind::Store, 0x100, 10),
        ];
        expected.extend((0..5).map(|part| (AccessKind::Store, 0x300 + (part << 30), 1 << 30)));
        // Lanes 2 and 3; lane 8 is none.
        expected.extend([(AccessKind::Store, 0x408, 8), (AccessKind::Load, 0x500, 8), (AccessKind::Load, 0x600, 8)]);
        assert_eq!(found, expected);
        assert_eq!(
            (made.unseen().untraced(&program), made.unseen().oversized()),
            (BTreeMap::from([(String::new(), 1)]), 0)
        );
        let (_, made) = seen(&program, &[(0, 7, 1, vec![1, 2, 0, 3, u64::MAX, 4, 0, 0, 0, 0, 0])]);
        assert_eq!(made.unseen().oversized(), 1);
    }

    /// One load in each region and outside of all, by two threads; a range is watched meanwhile.
    #[test]
    fn keys_tell_regions_and_ranges() {
        use SiteKind::{Forks, Inherits, Load, Region, Shared, Unwatch, Watch};
        let kinds: Vec<_> = Module::of_runtime().1.sites.iter().map(|site| site.kind).collect();
        assert_eq!(kinds, [SiteKind::Resumes, Region, Watch, Unwatch, Forks, Inherits, Shared]);
        // Segments 1 to 4 are the runtime's.
        let mut program = program_of(&[&[Site::new(Load, 8)]]);
        let (id, runtime) = Module::of_runtime();
        program.add(id, runtime);
        let run = [
            (0, 7, 0, vec![0x100]),
            (0, 7, 2, vec![1]),
            (0, 7, 0, vec![0x100]),
            (0, 8, 0, vec![0x100]),
            (0, 7, 3, vec![0x100, 8, 0]),
            (0, 7, 0, vec![0x104]),
            (0, 7, 4, vec![0]),
            (0, 7, 0, vec![0x100]),
            (0, 7, 2, vec![0]),
            (0, 7, 0, vec![0x100]),
        ];
        let (accesses, made) = seen_by(AttributedAccesses::new().by_regions_and_ranges(&[]), &program, &run);
        let origins = made.origins(&program);
        let told = |access: &Access| {
            let origin = origins.of(access.key);
            (origin.thread, origin.region, origins.ranges_of(access.key).len())
        };
        let found: Vec<_> = accesses.iter().map(told).collect();
        assert_eq!(found, [(0, 0, 0), (0, 1, 0), (1, 0, 0), (0, 1, 1), (0, 1, 0), (0, 0, 0)]);
        assert_eq!(origins.of(accesses[0].key).accesses, 2);
        assert_eq!((origins.ranges()[0].start, origins.ranges()[0].bytes), (0x100, 8));
        let (accesses, made) = seen_by(AttributedAccesses::new().by_regions(), &program, &run);
        let regions = accesses.iter().map(|access| made.origins(&program).of(access.key).region);
        assert_eq!(regions.collect::<Vec<_>>(), [0, 1, 0, 1, 1, 0]);
    }

    #[test]
    fn what_is_taken_before_all_is_there_is_the_same() {
        let load = Site::new(SiteKind::Load, 8);
        let program =
            program_of(&[&[Site::new(SiteKind::Allocate, 0)], &[load; 2], &[load; 6], &[Site::new(SiteKind::Fill, 0)]]);
        let mut run = vec![(0, vec![0x1000, 0x4000])];
        // Some of a run of many visits are of a block; the last segment is told access by access.
        run.extend((0..4000).map(|at| (1, vec![at * 8, 0x1000 + at % 0x4000])));
        run.extend((0..700).flat_map(|at| [(2, vec![at, at + 1, at + 2, at + 3, at + 4, at + 5]), (3, vec![at, 5])]));
        let (words, visits) = visits_of(&program, &run);
        let batch = TraceBatch { tid: 7, visits: &visits, words: &words, ..TraceBatch::default() };
        let (mut all, mut taken, mut rest) = (Vec::new(), Vec::new(), Vec::new());
        AttributedAccesses::new().update(&program, &batch, &mut all, &mut |_| {});
        let mut times = 0;
        AttributedAccesses::new().update(&program, &batch, &mut rest, &mut |many| {
            times += 1;
            taken.append(many);
        });
        taken.append(&mut rest);
        assert_eq!(all.len(), 2 * 4000 + 700 * 7);
        assert!(times > 8 && taken == all, "{times}");
        let own: Vec<_> = all[..4].iter().map(|access| (access.address, access.key)).collect();
        assert_eq!(own, [(0, 1), (0x1000, 3), (8, 1), (0x1001, 3)], "the fills were told first");
        let of_fill = all.iter().filter(|access| access.kind == AccessKind::Store).map(|access| access.address);
        assert!(of_fill.eq(0..700));
    }

    /// In columns and site by site.
    #[test]
    fn accesses_tell_what_their_loops_compute_with_each() {
        let segments =
            [&[Site::new(SiteKind::Load, 8); 2], &[Site::new(SiteKind::Store, 8), Site::new(SiteKind::Fill, 0)]];
        let loads_and_stores = Body { instructions: 12, sites: vec![1, 2], around: None, is_loop: true };
        let program = program_with_bodies(&segments.map(|of| &of[..]), vec![loads_and_stores]);
        let run = [(0, 7, 0, vec![0x1000, 0x2000]), (0, 7, 1, vec![0x3000, 0x4000, 8])];
        let (accesses, _) = seen(&program, &run);
        let work: Vec<f64> = accesses.iter().map(|access| access.work.instructions()).collect();
        assert_eq!(work, [2.5, 6.0, 6.0, 2.5]);
    }

    #[test]
    fn keys_tell_data_place_and_thread() {
        let mut builder = ModuleBuilder::new();
        let [node, next, list, total] = ["node", "next", "list", "total"].map(|text| builder.name(text));
        let load = |variable, field| Site { variable, structure: node, field, ..Site::new(SiteKind::Load, 8) };
        builder.segment([Site { structure: node, ..Site::new(SiteKind::Allocate, 0) }]);
        builder.segment([load(list, next)]);
        builder.segment([Site { variable: total, ..Site::new(SiteKind::Store, 8) }, Site::new(SiteKind::Load, 1)]);
        let module = builder.finish("a.c", "a.o", "/", "test");
        let mut program = Program::new();
        program.add(module.encode().0, module);
        let (accesses, made) = seen(
            &program,
            &[
                (0, 7, 0, vec![0x1000, 64]),
                (0, 7, 1, vec![0x1008]),
                (0, 8, 1, vec![0x1010]),
                (0, 7, 1, vec![0x1038]),
                (0, 7, 2, vec![0x5000, 0x6000]),
                // Another process has other memory at the same place.
                (1, 7, 1, vec![0x1008]),
            ],
        );
        let keys: Vec<(u32, u32)> = accesses.iter().map(|access| (access.key, access.thread)).collect();
        assert_eq!(keys, [(0, 0), (1, 1), (0, 0), (2, 0), (3, 0), (4, 2)]);
        assert_eq!((accesses[0].address, accesses[5].address), (0x1008, 0x1008 | 1 << 48));
        let origins = made.origins(&program);
        let of_data =
            origins.sums(|key| origins.number(key, By::Data), |key| origins.of(key).accesses, |sum, n| *sum += n);
        let data: Vec<_> = of_data
            .iter()
            .map(|(data, accesses)| {
                let data = &origins.data()[*data as usize];
                (data.kind, data.name.as_str(), data.type_name.as_str(), data.blocks, *accesses)
            })
            .collect();
        let expected = [
            (DataKind::Heap, "list", "node", 1, 3),
            (DataKind::Variable, "total", "", 0, 1),
            (DataKind::Unattributed, "", "", 0, 1),
            (DataKind::Variable, "list", "", 0, 1),
        ];
        assert_eq!(data, expected);
        assert_eq!(origins.name(origins.number(1, By::Field)), "node.next");
        assert_eq!(origins.threads()[1], Thread { process: 0, tid: 8 });
        assert!(Origins::default().is_empty() && Origins::default().name(3).is_empty());
    }

    #[test]
    fn a_block_is_called_by_what_holds_it() {
        let name = |producer: &str, blocks: u64, held: &str, loads: &[&str]| {
            let mut builder = ModuleBuilder::new();
            let variable = builder.name(held);
            builder.segment([Site { variable, ..Site::new(SiteKind::Allocate, 0) }]);
            let mut run: Vec<_> = (0..blocks).map(|block| (0, 7, 0, vec![0x1000 + (block << 8), 64])).collect();
            for (segment, variable) in (1..).zip(loads) {
                let variable = builder.name(variable);
                builder.segment([Site { variable, ..Site::new(SiteKind::Load, 8) }]);
                // The first ones most.
                run.extend((segment..9).map(|_| (0, 7, segment, vec![0x1000])));
            }
            let module = builder.finish("a.c", "a.o", "/", producer);
            let mut program = Program::new();
            program.add(module.encode().0, module);
            seen(&program, &run).1.origins(&program).data()[0].name.clone()
        };
        let (clang, rustc) = ("clang version 19.1.7", "rustc 1.95.0");
        assert_eq!(name(clang, 1, "table", &["row", "table"]), "table");
        assert_eq!(name(clang, 1, "result", &["row", "table"]), "row", "a function that hands it on");
        assert_eq!(name(rustc, 1, "bodies", &["body"]), "bodies");
        assert_eq!(name(clang, 2, "new", &["node", "new"]), "node");
        assert_eq!(name(clang, 2, "new", &[""]), "new");
        assert_eq!(name(rustc, 1, "", &["body"]), "body");
        assert_eq!(name(clang, 1, "this", &["__x", "_Tp", "_items"]), "_items");
        assert_eq!(name(clang, 2, "__p", &["self"]), "");
    }

    #[test]
    fn parts_of_blocks_are_by_offset_and_of_variables_by_address() {
        use SiteKind::*;
        let mut builder = ModuleBuilder::new();
        let table = builder.name("table");
        builder.segment([Site::new(Allocate, 0)]);
        builder.segment([Site { variable: table, ..Site::new(Load, 8) }]);
        builder.segment([Site::new(Fill, 0)]);
        builder.segment([Site::new(Load, 8)]);
        builder.segment([Site::new(Free, 0)]);
        let module = builder.finish("a.c", "a.o", "/", "test");
        let mut program = Program::new();
        program.add(module.encode().0, module);
        let run = [
            (0, 7, 0, vec![0x1010, 300]),
            (0, 7, 1, vec![0x1010 + 60]),
            (0, 7, 1, vec![0x1010 + 64]),
            // From the middle of the second part into the fourth.
            (0, 7, 2, vec![0x1010 + 100, 100]),
            (0, 7, 4, vec![0x1010]),
            // Another block at the same addresses, but not at the same offsets.
            (0, 7, 0, vec![0x1040, 300]),
            (0, 7, 1, vec![0x1010 + 64]),
            // Outside.
            (0, 7, 1, vec![0x5_0fff]),
            (0, 7, 1, vec![0x5_1000]),
            (3, 7, 1, vec![0x5_1000]),
            (0, 7, 3, vec![0x5_1000]),
        ];
        let (accesses, made) = seen_by(AttributedAccesses::with_parts(64.try_into().unwrap()), &program, &run);
        let origins = made.origins(&program);
        let parts: Vec<_> = accesses.iter().map(|access| (origins.of(access.key).part, access.bytes)).collect();
        let block = |start, bytes| (Part { whose: Whose::Block, start, bytes: 64 }, bytes);
        let outside = |process, start| (Part { whose: Whose::Variable { process }, start, bytes: 64 }, 8);
        let expected = [
            block(0, 8),
            block(64, 8),
            block(64, 28),
            block(128, 64),
            block(192, 8),
            block(0, 8),
            outside(0, 0x5_0fc0),
            outside(0, 0x5_1000),
            outside(3, 0x5_1000),
            (Part::default(), 8),
        ];
        assert_eq!(parts, expected);
        let heap = origins.data().iter().find(|data| data.kind == DataKind::Heap).unwrap();
        assert_eq!(heap.largest_block_bytes, 300);
        let (_, made) = seen(&program, &run);
        assert!(made.origins(&program).keys().iter().all(|origin| origin.part == Part::default()));
    }

    /// Alone or beside an allocation in their segment; only copies and fills are cut.
    #[test]
    fn an_access_is_one_whatever_the_parts() {
        use SiteKind::*;
        let plain = [Site::new(Load, 8)];
        let beside = [Site::new(Allocate, 0), Site::new(Load, 8), Site::new(Fill, 0)];
        let program = program_of(&[&plain, &beside]);
        let run = [(0, 7, 1, vec![0x1000, 64, 0x1008, 0x1010, 3]), (0, 7, 0, vec![0x1008])];
        let (accesses, _) = seen_by(AttributedAccesses::with_parts(1.try_into().unwrap()), &program, &run);
        assert_eq!(accesses.iter().map(|access| access.bytes).collect::<Vec<_>>(), [8, 1, 1, 1, 8]);
    }

    #[test]
    fn parts_double_where_data_has_too_many() {
        use SiteKind::*;
        let program = program_of(&[&[Site::new(Allocate, 0)], &[Site::new(Load, 8)]]);
        let run = [
            (0, 7, 0, vec![0x10_0000, 64 * 4096]),
            (0, 7, 1, vec![0x10_0000 + 200]),
            (0, 7, 0, vec![0x80_0000, 64 * 10_000]),
            (0, 7, 1, vec![0x80_0000 + 200]),
        ];
        let (accesses, made) = seen_by(AttributedAccesses::with_parts(64.try_into().unwrap()), &program, &run);
        let origins = made.origins(&program);
        let parts: Vec<_> = accesses.iter().map(|access| origins.of(access.key).part).collect();
        let part = |start, bytes| Part { whose: Whose::Block, start, bytes };
        assert_eq!(parts, [part(192, 64), part(0, 256)]);
    }

    proptest! {
        /// Whatever is collected until a block begins or ends: each access is whose it is found to be by a list of the living, as if
        /// they were gone through one by one; and the heap's counts are of the same.
        #[test]
        fn in_columns_as_one_by_one(steps in proptest::collection::vec((0..7_u32, 0..6_u64, 0..80_u64), 1..120)) {
            use SiteKind::*;
            let load = Site::new(Load, 8);
            let segments: [&[Site]; 6] = [
                &[Site::new(Allocate, 0)],
                &[Site::new(Free, 0)],
                &[load],
                &[load, Site::new(Store, 8)],
                &[load, Site::new(Allocate, 0), load],
                &[Site::new(Fill, 0), load],
            ];
            let mut builder = ModuleBuilder::new();
            for segment in segments {
                builder.segment(segment.iter().copied());
            }
            let relative = Some(Relative { word: 1, bytes: -64 });
            builder.segment_behind(Some(3), [Site { relative, ..load }]);
            let module = builder.finish("a.c", "a.o", "/", "test");
            let mut program = Program::new();
            program.add(module.encode().0, module);
            let (mut run, mut living, mut expected) = (Vec::new(), Vec::<(u64, u32)>::new(), Vec::new());
            // Blocks of 64 bytes, 128 bytes apart.
            for (segment, block, offset) in steps {
                let (start, address) = (0x1000 + block * 128, 0x1000 + block * 128 + offset);
                let sites: Vec<u32> = program.sites_of(SegmentId(segment)).map(|(told, _)| told.site.0).collect();
                let owner = |living: &[(u64, u32)], address: u64| {
                    let holder = living.iter().find(|(start, _)| (*start..start + 64).contains(&address));
                    holder.map(|(_, site)| *site)
                };
                let mut accessed = |site: usize, address: u64, living: &[(u64, u32)]| {
                    expected.push((sites[site], address, owner(living, address)));
                };
                let mut access = |site: usize, living: &[(u64, u32)]| accessed(site, address, living);
                let begin = |site: usize, living: &mut Vec<(u64, u32)>| {
                    living.retain(|(there, _)| *there != start);
                    living.push((start, sites[site]));
                };
                let words = match segment {
                    0 => { begin(0, &mut living); vec![start, 64] }
                    1 => { living.retain(|(there, _)| *there != start); vec![start] }
                    2 => { access(0, &living); vec![address] }
                    3 => { access(0, &living); access(1, &living); vec![address, address] }
                    4 => {
                        access(0, &living);
                        begin(1, &mut living);
                        access(2, &living);
                        vec![address, start, 64, address]
                    }
                    5 => { access(0, &living); access(1, &living); vec![address, 1, address] }
                    _ => {
                        access(0, &living);
                        access(1, &living);
                        accessed(2, address - 64, &living);
                        vec![address, address]
                    }
                };
                run.push((segment, words));
            }
            let (words, visits) = visits_of(&program, &run);
            let batch = TraceBatch { tid: 7, visits: &visits, words: &words, ..TraceBatch::default() };
            let (mut made, mut accesses) = (AttributedAccesses::new(), Vec::new());
            made.update(&program, &batch, &mut accesses, &mut |_| {});
            let site_of = |group: Group| (group != NO_GROUP).then(|| made.blocks.site_of(group).0);
            let found: Vec<_> = accesses.iter().map(|access| {
                let of = made.keys.accessed.all()[access.key as usize];
                (of.site, access.address, site_of(of.spot.group))
            }).collect();
            prop_assert_eq!(&found, &expected);
            for (of, count) in made.keys.accessed.all().iter().zip(&made.keys.counts) {
                let same = |(site, _, owner): &&(u32, u64, Option<u32>)| (*site, *owner) == (of.site, site_of(of.spot.group));
                prop_assert_eq!(*count, expected.iter().filter(same).count() as u64);
            }
            let mut heap = HeapAccesses::default();
            heap.update(&program, &batch);
            let in_blocks = expected.iter().filter(|(.., owner)| owner.is_some()).count() as u64;
            prop_assert_eq!(heap.accesses(&program, None).map(|(.., sum)| sum.count()).sum::<u64>(), in_blocks);
            for (site, spot, sum) in heap.accesses(&program, None) {
                let owner = Some(heap.blocks().site_of(spot.group).0);
                let same = |(by, _, whose): &&(u32, u64, Option<u32>)| (*by, *whose) == (site.0, owner);
                prop_assert_eq!(sum.count(), expected.iter().filter(same).count() as u64);
            }
        }
    }
}
