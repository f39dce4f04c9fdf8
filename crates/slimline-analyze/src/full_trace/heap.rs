//! Accesses by the allocation site of the block that they fall into, and by the member of what that consists of.
//!
//! What batches of several threads do to blocks is right as far as their order is.

mod allocating;
pub(super) mod blocks;
mod cloned;
mod forks;
pub(super) mod live_blocks;

use slimline_trace::stream::columns::Columns;
use slimline_trace::stream::decode::{Program, SegmentId, SiteId, Visits};
use slimline_trace::stream::sites::{Site, SiteKind};

use self::blocks::Blocks;
pub use self::blocks::{GroupBlocks, UnknownBlocks};
use self::live_blocks::NO_GROUP;
use super::counts::accesses;
use super::elements::Elements;
use super::plans::{Plans, take_each};
use super::sampling::{GROUPS, Sampling};
use super::spots::{AccessedSpots, Memory, Spot, of_number};
use super::walk::{Accessing, go_through};
use super::{Accesses, TraceBatch};

/// Accesses to the heap of all processes of a run.
#[derive(Debug, Default)]
pub struct HeapAccesses {
    blocks: Blocks,
    plans: Plans,
    accessed: Accessed,
    /// None where all batches are looked up.
    sampling: Option<Sampling>,
}

/// What was accessed how often.
#[derive(Debug, Default)]
struct Accessed {
    columns: Columns,
    /// The process that was seen last.
    process: u32,
    spots: AccessedSpots,
    /// By group of what was looked up: how often each spot was accessed, by its number.
    sums: [Vec<Sum>; GROUPS],
    /// Of what is looked up now, and how often it counts.
    group: usize,
    weight: u64,
}

/// Nobody asks whose accesses are.
struct Passing;

impl Accessing for Passing {
    fn is_asking(&self) -> bool {
        false
    }

    fn collect(&mut self, _: Visits) {}

    fn settle(&mut self, _: (&Program, &Plans), _: &TraceBatch<'_>, _: &mut Memory<'_>) {}

    fn site(&mut self, _: &Plans, _: &mut Memory<'_>, _: SiteId, _: &Site, _: &[u64]) {}
}

/// All threads: they are not told apart.
const ACTOR: u32 = 0;

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    /// Accesses of a size that the site tells.
    times: u64,
    /// Of those whose size is in their words.
    varying: Accesses,
}

impl Accessed {
    fn make_room(&mut self, program: &Program, process: u32) {
        self.columns.make_room(program.segments().len());
        if self.process != process {
            self.process = process;
            self.spots.forget_recent();
        }
        self.spots.make_room(ACTOR, program.site_count());
    }
}

impl Accessing for Accessed {
    fn collect(&mut self, visits: Visits) {
        self.columns.collect(visits);
    }

    fn settle(&mut self, by: (&Program, &Plans), batch: &TraceBatch<'_>, memory: &mut Memory<'_>) {
        let Self { columns, spots, sums, group, weight, .. } = self;
        let (sums, weight) = (&mut sums[*group], *weight);
        take_each(columns, by, batch.words, |_, access, column| {
            spots.column(memory, (ACTOR, access.told.site.0), column, |number, range| {
                of_number(sums, number).times += range.len() as u64 * weight;
            });
        });
    }

    fn site(&mut self, _: &Plans, memory: &mut Memory<'_>, id: SiteId, site: &Site, own: &[u64]) {
        let mut access_as = |id: SiteId, address: u64, bytes: u64, accesses: Accesses| {
            let (number, _) = self.spots.span(memory, (ACTOR, id.0), address, bytes);
            of_number(&mut self.sums[self.group], number).varying.add(accesses.times(self.weight));
        };
        let mut access = |address: u64, bytes: u64, accesses: Accesses| access_as(id, address, bytes, accesses);
        match (site.kind, own) {
            (SiteKind::Load | SiteKind::Store | SiteKind::Update, &[address, ..]) => {
                access(address, 1, accesses(site, own))
            }
            (SiteKind::Fill, &[address, bytes, ..]) => access(address, bytes, accesses(site, own)),
            (SiteKind::MaskedLoad | SiteKind::MaskedStore, &[address, mask, ..]) => {
                if let Some((offset, bytes)) = site.span_of_lanes(mask) {
                    access(address.wrapping_add(offset), bytes, accesses(site, own));
                }
            }
            (SiteKind::Copy, &[to, from, bytes]) => {
                access(to, bytes, Accesses { stores: 1, stored_bytes: bytes, ..Accesses::default() });
                let loads = Accesses { loads: 1, loaded_bytes: bytes, ..Accesses::default() };
                access_as(id.of_loads(site), from, bytes, loads);
            }
            (SiteKind::Gather | SiteKind::Scatter, [mask, lanes @ ..]) => {
                let one = accesses(site, &[1]);
                let active = (0..lanes.len().min(64)).filter(|lane| mask >> lane & 1 != 0);
                active.for_each(|lane| access(lanes[lane], one.bytes(), one));
            }
            _ => {}
        }
    }
}

fn follow(
    (blocks, plans): (&mut Blocks, &Plans),
    program: &Program,
    batch: &TraceBatch<'_>,
    accessing: &mut impl Accessing,
) {
    let (live, allocations, elements) = blocks.of_process(batch.process);
    let mut memory = Memory { process: batch.process, live, elements, parts: None };
    go_through((program, plans), batch, allocations, &mut memory, accessing);
}

impl HeapAccesses {
    pub(super) fn update(&mut self, program: &Program, batch: &TraceBatch<'_>) {
        self.make_room(program);
        let Self { blocks, plans, accessed, sampling } = self;
        accessed.make_room(program, batch.process);
        (accessed.group, accessed.weight) =
            sampling.as_mut().map_or((0, 1), |sampling| sampling.look_up(program, batch));
        follow((blocks, plans), program, batch, accessed);
    }

    /// Follows blocks only.
    pub(super) fn pass_over(&mut self, program: &Program, batch: &TraceBatch<'_>) {
        self.make_room(program);
        follow((&mut self.blocks, &self.plans), program, batch, &mut Passing);
    }

    pub(super) fn make_room(&mut self, program: &Program) {
        self.blocks.make_room(program);
        self.plans.make_room(program, &self.blocks);
    }

    /// Whether visits of the segment, which there is room for, are asked for where accesses are passed over.
    pub(super) fn is_by_site(&self, segment: SegmentId) -> bool {
        self.plans.is_by_site(segment)
    }

    /// What comes was written at another time, and is looked up or not.
    pub(super) fn begin_part(&mut self, is_looked_up: bool, words: u64) {
        if let Some(sampling) = &mut self.sampling {
            sampling.begin_part(is_looked_up, words);
        }
    }

    /// Some batches are going to be passed over.
    pub(super) fn sample(&mut self) {
        self.sampling = Some(Sampling::default());
    }

    /// Has groups of one site told apart by who called for their blocks.
    pub(super) fn follow_calls(&mut self) {
        self.blocks.follow_calls();
    }

    /// What was allocated.
    pub(super) fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// What was looked up; none where all was.
    pub(super) fn sampling(&self) -> Option<&Sampling> {
        self.sampling.as_ref().filter(|sampling| !sampling.is_all())
    }

    /// Accesses to blocks that were looked up, but for those of one group: the accessing site, the spot, and how many.
    pub(super) fn accesses<'a>(
        &'a self,
        program: &'a Program,
        without: Option<usize>,
    ) -> impl Iterator<Item = (SiteId, Spot, Accesses)> {
        let Accessed { spots, sums, .. } = &self.accessed;
        let heap = spots.all().iter().enumerate().filter(|(_, of)| of.spot.group != NO_GROUP);
        heap.map(move |(number, of)| {
            let one = accesses(program.site(SiteId(of.site)).1, &[]);
            let mut all = Accesses::default();
            let parts = sums.iter().enumerate().filter(|(part, _)| Some(*part) != without);
            for &Sum { times, varying } in parts.filter_map(|(_, sums)| sums.get(number)) {
                all.add(one.times(times));
                all.add(varying);
            }
            (SiteId(of.site), of.spot, all)
        })
    }

    /// The structures of the program.
    pub(super) fn elements(&self) -> &Elements {
        self.blocks.elements()
    }

    /// Where blocks are not known.
    pub fn unknown_blocks(&self) -> UnknownBlocks {
        self.blocks.unknown()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use slimline_trace::stream::sites::{Frame, Member, ModuleBuilder, Relative, Site, Structure};

    use super::super::tests::{Run, visits_of};
    use super::*;

    fn run() -> Run {
        let site = |kind| Site::new(kind, 8);
        Run::new(&[
            &[site(SiteKind::Allocate)],
            &[site(SiteKind::AllocateZeroed)],
            &[site(SiteKind::Acquire), site(SiteKind::Resize)],
            &[site(SiteKind::Free)],
            &[site(SiteKind::Load)],
            &[site(SiteKind::ResizeBegins)],
        ])
    }

    const RESIZE: u32 = 3;
    const LOAD: SiteId = SiteId(5);

    /// Blocks by site.
    fn allocated(heap: &HeapAccesses) -> Vec<(SiteId, GroupBlocks)> {
        heap.blocks.groups().map(|(group, blocks)| (heap.blocks.site_of(group), blocks)).collect()
    }

    fn loads_by_group(run: &Run) -> Vec<(u32, u64)> {
        let mut heap = HeapAccesses::default();
        heap.update(run.program(), &run.batch());
        let loads = heap
            .accesses(run.program(), None)
            .filter(|(site, ..)| *site == LOAD)
            .map(|(_, spot, sum)| (heap.blocks.site_of(spot.group).0, sum.loads));
        let mut loads: Vec<_> = loads.collect();
        loads.sort_unstable();
        loads
    }

    #[test]
    fn accesses_belong_to_the_block_that_lives() {
        let mut run = run();
        run.visit(0, &[0x1000, 64]);
        run.visit(4, &[0x103f]);
        run.visit(4, &[0x1040]);
        run.visit(3, &[0x1000]);
        run.visit(4, &[0x1000]);
        run.visit(1, &[0x1000, 4, 8]);
        run.visit(4, &[0x101f]);
        run.visit(4, &[0x1020]);
        assert_eq!(loads_by_group(&run), [(0, 1), (1, 1)]);
    }

    #[test]
    fn masked_accesses_are_where_their_lanes_are() {
        let lanes = |kind| Site { lanes: 8, ..Site::new(kind, 4) };
        let mut run = Run::new(&[&[Site::new(SiteKind::Allocate, 8)], &[lanes(SiteKind::MaskedStore)]]);
        run.visit(0, &[0x1000, 64]);
        // Lanes 2 and 3 of what begins before the block; none of it.
        run.visit(1, &[0x0ff8, 0b1100]);
        run.visit(1, &[0x1000, 0]);
        // In front of the block.
        run.visit(1, &[0x0ff8, 0b0001]);
        let mut heap = HeapAccesses::default();
        heap.update(run.program(), &run.batch());
        let stores: Vec<_> = heap
            .accesses(run.program(), None)
            .map(|(_, spot, sum)| (heap.blocks.site_of(spot.group).0, sum.stores))
            .collect();
        assert_eq!(stores, [(0, 1)]);
    }

    #[test]
    fn resized_blocks_are_of_the_site_that_resized_them() {
        let mut run = run();
        run.visit(0, &[0x1000, 64]);
        run.visit(5, &[0x1000]);
        run.visit(2, &[1, 0x9000, 1 << 20]);
        run.visit(4, &[0x9000 + (1 << 19)]);
        run.visit(4, &[0x1000]);
        run.visit(5, &[0x9000]);
        run.visit(2, &[1, 0, 1 << 40]); // failed
        run.visit(4, &[0x9000]);
        run.visit(5, &[0]);
        run.visit(2, &[1, 0x20_0000, 16]); // a new one
        run.visit(4, &[0x20_0000]);
        run.visit(5, &[0x20_0000]);
        run.visit(2, &[1, 0, 0]); // freed
        run.visit(4, &[0x20_0000]);
        assert_eq!(loads_by_group(&run), [(RESIZE, 3)]);
    }

    /// `Vec::push` of Rust's library calls `realloc` in a function that is not inlined: whose vector it is its allocation says.
    #[test]
    fn what_a_library_resizes_stays_in_its_group() {
        let mut builder = ModuleBuilder::new();
        let own = builder.name("/w/src/main.rs");
        let library = builder.name("/rustc/0a1b2c3d4e5f60718293a4b5c6d7e8f901234567/library/alloc/src/raw_vec.rs");
        let frame = |file, line| Frame { file, line, ..Frame::default() };
        let [own, library] = [frame(own, 3), frame(library, 70)].map(|frame| Some(builder.frame(frame)));
        builder.segment([Site { frame: own, ..Site::new(SiteKind::Allocate, 0) }]);
        builder.segment([Site { frame: library, ..Site::new(SiteKind::ResizeBegins, 0) }]);
        builder.segment([Site { frame: library, ..Site::new(SiteKind::Resize, 0) }]);
        let module = builder.finish("a.rs", "a.o", "/", "test");
        let mut program = Program::new();
        program.add(module.encode().0, module);
        let run = [(0, vec![0x1000, 64]), (1, vec![0x1000]), (2, vec![0x2000, 128])];
        let (words, visits) = visits_of(&program, &run);
        let mut heap = HeapAccesses::default();
        heap.update(&program, &TraceBatch { tid: 7, visits: &visits, words: &words, ..TraceBatch::default() });
        let blocks = GroupBlocks { blocks: 2, bytes: 192, live_bytes: 128, peak_bytes: 128 };
        assert_eq!(allocated(&heap), [(SiteId(0), blocks)]);
    }

    #[test]
    fn calls_of_realloc_within_each_other_have_their_own_blocks() {
        let mut run = run();
        run.visit(0, &[0x1000, 64]);
        run.visit(0, &[0x2000, 64]);
        run.visit(5, &[0x1000]);
        run.visit(5, &[0x2000]);
        run.visit(2, &[1, 0x4000, 128]);
        run.visit(2, &[1, 0x3000, 128]);
        for address in [0x3000, 0x4000, 0x1000, 0x2000] {
            run.visit(4, &[address]);
        }
        assert_eq!(loads_by_group(&run), [(RESIZE, 2)]);
    }

    /// A block of `body { double position[3], mass; }`, whose members are set by two stores of 16 bytes, the second by its distance.
    #[test]
    fn wide_stores_are_of_all_members_that_they_reach() {
        let mut builder = ModuleBuilder::new();
        let [body, position, mass, array, double] =
            ["body", "position", "mass", "double[3]", "double"].map(|name| builder.name(name));
        let member = |name, type_name, offset_bytes, size_bytes| Member {
            name,
            type_name,
            offset_bytes,
            size_bytes,
            structure: None,
        };
        let members = vec![member(position, array, 0, 24), member(mass, double, 24, 8)];
        builder.structure(Structure { name: body, size_bytes: 32, members, ..Structure::default() });
        let store = Site { structure: body, field: position, ..Site::new(SiteKind::Store, 16) };
        let second = Site { offset_bytes: Some(16), relative: Some(Relative { word: 0, bytes: 16 }), ..store };
        builder.segment([Site { structure: body, ..Site::new(SiteKind::Allocate, 0) }]);
        builder.segment([Site { offset_bytes: Some(0), ..store }, second]);
        // Gone through site by site.
        builder.segment([Site { offset_bytes: Some(16), ..store }, Site::new(SiteKind::Fill, 0)]);
        let module = builder.finish("a.c", "a.o", "/", "test");
        let mut program = Program::new();
        program.add(module.encode().0, module);
        let run = [(0, vec![0x1000, 320]), (1, vec![0x1000]), (1, vec![0x1020]), (2, vec![0x1050, 0, 0])];
        let (words, visits) = visits_of(&program, &run);
        let mut heap = HeapAccesses::default();
        heap.update(&program, &TraceBatch { tid: 7, visits: &visits, words: &words, ..TraceBatch::default() });
        let mut stores: Vec<_> = heap
            .accesses(&program, None)
            .map(|(site, spot, sum)| {
                let span = heap.elements().bytes_of(spot.element, spot.leaf, 16).expect("members");
                (site.0, sum.stores, heap.elements().members(spot.element, span).named)
            })
            .collect();
        stores.sort_unstable();
        let named = |name: &str, bytes| (format!("body.{name}"), bytes);
        let both = vec![named("position[]", 8), named("mass", 8)];
        assert_eq!(stores, [(1, 2, vec![named("position[]", 16)]), (2, 2, both.clone()), (3, 1, both)]);
    }

    /// `new` of the program's own, which calls `malloc`, and `realloc`, which calls `malloc` and `free`.
    #[test]
    fn what_an_allocator_of_the_program_s_own_allocates_is_one_block() {
        let mut builder = ModuleBuilder::new();
        let [malloc, new, realloc, main] = ["malloc", "_Znwm", "realloc", "main"].map(|name| builder.name(name));
        let site = |kind, detail, function| Site { detail, function, ..Site::new(kind, 8) };
        builder.segment([site(SiteKind::Allocate, malloc, new)]);
        builder.segment([site(SiteKind::Allocate, new, main)]);
        builder.segment([site(SiteKind::ResizeBegins, realloc, main)]);
        builder.segment([site(SiteKind::Allocate, malloc, realloc)]);
        builder.segment([site(SiteKind::Free, malloc, realloc)]);
        builder.segment([site(SiteKind::Resize, realloc, main)]);
        let module = builder.finish("a.c", "a.o", "/", "test");
        let mut program = Program::new();
        program.add(module.encode().0, module);
        let run = [
            (0, vec![0x1000, 64]),
            (1, vec![0x1000, 64]),
            (2, vec![0x1000]),
            (3, vec![0x2000, 128]),
            (4, vec![0x1000]),
            (5, vec![0x2000, 128]),
        ];
        let (words, visits) = visits_of(&program, &run);
        let mut heap = HeapAccesses::default();
        heap.update(&program, &TraceBatch { tid: 7, visits: &visits, words: &words, ..TraceBatch::default() });
        let first = GroupBlocks { blocks: 1, bytes: 64, live_bytes: 0, peak_bytes: 64 };
        let resized = GroupBlocks { blocks: 1, bytes: 128, live_bytes: 128, peak_bytes: 128 };
        assert_eq!(allocated(&heap), [(SiteId(1), first), (SiteId(5), resized)]);
        assert_eq!(heap.unknown_blocks().frees, 0);
    }

    /// `static char pool[64]`, of which the program's own allocator cuts blocks, one at the pool's beginning; and what is loaded later in
    /// the place of something else.
    #[test]
    fn arenas_that_are_static_stay() {
        let mut builder = ModuleBuilder::new();
        let [pool, chars, take, give, main] = ["pool", "take", "take", "give", "main"].map(|name| builder.name(name));
        let other = builder.name("other");
        // Its type is called like the allocator.
        let of = |variable, detail| Site { variable, detail, ..Site::new(SiteKind::Static, 0) };
        let site = |kind, detail, function| Site { detail, function, ..Site::new(kind, 8) };
        builder.segment([of(pool, chars)]);
        builder.segment([site(SiteKind::Allocate, take, main)]);
        builder.segment([site(SiteKind::Free, give, main), site(SiteKind::Load, take, take)]);
        builder.segment([Site::new(SiteKind::Load, 8)]);
        builder.segment([of(other, chars)]);
        let module = builder.finish("a.c", "a.o", "/", "test");
        let mut program = Program::new();
        program.add(module.encode().0, module);
        let run = [
            (0, vec![0x1008, 64]),
            (1, vec![0x1008, 24]),
            (1, vec![0x1020, 24]),
            (3, vec![0x1008]),         // the first
            (3, vec![0x1040]),         // behind both: the pool's
            (2, vec![0x1008, 0x1008]), // freed: the pool's
            (3, vec![0x101f]),         // the pool's
            (3, vec![0x1020]),         // the second
            (2, vec![0x1008, 0x1047]), // freed twice: the pool stays
            (4, vec![0x1040, 64]),
            (3, vec![0x1040]), // of what has its place
        ];
        let (words, visits) = visits_of(&program, &run);
        let mut heap = HeapAccesses::default();
        heap.update(&program, &TraceBatch { tid: 7, visits: &visits, words: &words, ..TraceBatch::default() });
        let of = |blocks, bytes, live_bytes, peak_bytes| GroupBlocks { blocks, bytes, live_bytes, peak_bytes };
        let expected = [(SiteId(0), of(1, 64, 0, 64)), (SiteId(1), of(2, 48, 24, 48)), (SiteId(5), of(1, 64, 64, 64))];
        assert_eq!(allocated(&heap), expected);
        let mut loads: BTreeMap<u32, u64> = BTreeMap::new();
        for (_, spot, sum) in heap.accesses(&program, None) {
            *loads.entry(heap.blocks.site_of(spot.group).0).or_default() += sum.loads;
        }
        assert_eq!(loads, BTreeMap::from([(0, 4), (1, 2), (5, 1)]));
        assert_eq!(heap.unknown_blocks().frees, 1);
    }

    /// `xfree` and `xrealloc` of the program's own, which call `free` and `realloc`: inner calls are of the same blocks.
    #[test]
    fn what_is_handed_on_to_be_freed_is_one_block() {
        let mut builder = ModuleBuilder::new();
        let [malloc, free, realloc] = ["malloc", "free", "realloc"].map(|name| builder.name(name));
        let [xfree, xrealloc, main] = ["xfree", "xrealloc", "main"].map(|name| builder.name(name));
        let site = |kind, detail, function| Site { detail, function, ..Site::new(kind, 8) };
        builder.segment([site(SiteKind::Allocate, malloc, main)]);
        builder.segment([site(SiteKind::ResizeBegins, xrealloc, main)]);
        builder.segment([site(SiteKind::ResizeBegins, realloc, xrealloc)]);
        builder.segment([site(SiteKind::Resize, realloc, xrealloc)]);
        builder.segment([site(SiteKind::Resize, xrealloc, main)]);
        builder.segment([site(SiteKind::Free, xfree, main)]);
        builder.segment([site(SiteKind::Free, free, xfree)]);
        let module = builder.finish("a.c", "a.o", "/", "test");
        let mut program = Program::new();
        program.add(module.encode().0, module);
        let unknown = |run: &[(u32, Vec<u64>)]| {
            let (words, visits) = visits_of(&program, run);
            let mut heap = HeapAccesses::default();
            heap.update(&program, &TraceBatch { tid: 7, visits: &visits, words: &words, ..TraceBatch::default() });
            (allocated(&heap), heap.unknown_blocks().frees)
        };
        let mut run = vec![
            (0, vec![0x1000, 64]),
            (1, vec![0x1000]),
            (2, vec![0x1000]),
            (3, vec![0x2000, 128]),
            (4, vec![0x2000, 128]),
            (5, vec![0x2000]),
            (6, vec![0x2000]),
        ];
        let blocks = |bytes| GroupBlocks { blocks: 1, bytes, live_bytes: 0, peak_bytes: bytes };
        assert_eq!(unknown(&run), (vec![(SiteId(0), blocks(64)), (SiteId(4), blocks(128))], 0));
        // What was freed is not known any more.
        run.push((6, vec![0x2000]));
        assert_eq!(unknown(&run).1, 1);
        // Nor is what was never allocated, which is one block each.
        assert_eq!(unknown(&[(5, vec![0x7000]), (6, vec![0x7000]), (1, vec![0x8000]), (2, vec![0x8000])]).1, 2);
    }

    #[test]
    fn peaks_and_unknown_blocks() {
        let mut run = run();
        run.visit(0, &[0x1000, 64]);
        run.visit(0, &[0x2000, 36]);
        run.visit(3, &[0x1000]);
        run.visit(3, &[0]);
        run.visit(3, &[0x7777]);
        run.visit(0, &[0x3000, 10]);
        run.visit(0, &[0, 1 << 62]);
        let mut heap = HeapAccesses::default();
        heap.update(run.program(), &run.batch());
        let blocks = GroupBlocks { blocks: 3, bytes: 110, live_bytes: 46, peak_bytes: 100 };
        assert_eq!(allocated(&heap), [(SiteId(0), blocks)]);
        assert_eq!(heap.unknown_blocks().frees, 1);
    }

    /// `pool_take` cuts blocks of a chunk of `malloc`'s, also of its beginning, and begins anew twice; `xmalloc` returns what
    /// `malloc` gave it.
    #[test]
    fn what_is_cut_of_a_block_leaves_it_below_and_what_is_handed_on_is_one() {
        use SiteKind::*;
        let mut builder = ModuleBuilder::new();
        let names = ["malloc", "pool_take", "xmalloc", "main"].map(|name| builder.name(name));
        let [malloc, take, xmalloc, main] = names;
        let allocates = |detail, function| Site { detail, function, ..Site::new(Allocate, 0) };
        let load = |function| Site { function, ..Site::new(Load, 8) };
        for sites in [
            [allocates(malloc, take), load(take)],
            [allocates(take, main), load(main)],
            [allocates(malloc, xmalloc), load(xmalloc)],
            [allocates(xmalloc, main), load(main)],
        ] {
            builder.segment(sites);
        }
        let module = builder.finish("a.c", "a.o", "/", "test");
        let mut program = Program::new();
        program.add(module.encode().0, module);
        let mut run = vec![(0, vec![0x1000, 4096, 0x1ff0])];
        for _ in 0..3 {
            // Each accesses its first word.
            run.extend((0..4).map(|block| (1, vec![0x1000 + block * 64, 64, 0x1000 + block * 64])));
        }
        run.push((0, vec![0x8000, 16, 0x1800]));
        run.extend([(2, vec![0x9000, 48, 0x9000]), (3, vec![0x9000, 40, 0x9008])]);
        let (words, visits) = visits_of(&program, &run);
        let mut heap = HeapAccesses::default();
        heap.update(&program, &TraceBatch { tid: 7, visits: &visits, words: &words, ..TraceBatch::default() });
        let blocks: Vec<_> = allocated(&heap).into_iter().map(|(site, of)| (site.0, of.blocks, of.bytes)).collect();
        assert_eq!(blocks, [(0, 2, 4096 + 16), (2, 12, 12 * 64), (6, 1, 40)]);
        let mut loads: Vec<_> = heap
            .accesses(&program, None)
            .map(|(site, spot, sum)| (heap.blocks.site_of(spot.group).0, site.0, sum.loads))
            .collect();
        loads.sort_unstable();
        // What lies behind the pool's blocks is still the chunk's.
        assert_eq!(loads, [(0, 1, 2), (2, 3, 12), (4, 5, 1), (6, 7, 1)]);
    }

    /// A chunk of a pool is freed: what was cut of it lives no longer, also of its beginning.
    #[test]
    fn what_is_cut_of_a_block_ends_with_it() {
        use SiteKind::*;
        let mut builder = ModuleBuilder::new();
        let [malloc, take, main] = ["malloc", "pool_take", "main"].map(|name| builder.name(name));
        let site = |kind, detail, function| Site { detail, function, ..Site::new(kind, 0) };
        builder.segment([site(Allocate, malloc, take)]);
        builder.segment([site(Allocate, take, main)]);
        builder.segment([site(Free, malloc, main)]);
        let module = builder.finish("a.c", "a.o", "/", "test");
        let mut program = Program::new();
        program.add(module.encode().0, module);
        let chunk = 1 << 20;
        let run = [
            (0, vec![chunk, chunk]),
            (1, vec![chunk, 64]),
            (1, vec![chunk + 64, 64]),
            (1, vec![chunk + 4096, 1 << 17]),
            (2, vec![chunk]),
        ];
        let (words, visits) = visits_of(&program, &run);
        let mut heap = HeapAccesses::default();
        let batch = TraceBatch { tid: 7, visits: &visits, words: &words, ..TraceBatch::default() };
        heap.update(&program, &batch);
        let live: Vec<_> = allocated(&heap).into_iter().map(|(site, of)| (site.0, of.blocks, of.live_bytes)).collect();
        assert_eq!(live, [(0, 1, 0), (1, 3, 0)]);
        assert_eq!(heap.unknown_blocks().frees, 0);
    }
}
