//! Accesses by the allocation site of the block that they fall into.
//!
//! Blocks that live are kept by address: for each 16 bytes of a small block its number, as allocators give out no two
//! blocks in 16 bytes; large ones in a tree. Chunks come in the order in which they were published, so where one
//! thread accesses what another one has just allocated, it may seem to access what was there before, or nothing.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use slimline_trace::stream::decode::{Program, SegmentId, SiteId};
use slimline_trace::stream::sites::SiteKind;

use super::counts::accesses;
use super::{Accesses, TraceBatch};

/// Bytes that the smallest block takes.
const GRAIN_BYTES: u64 = 16;
/// Grains of a page of the table.
const PAGE_GRAINS: usize = 4096;
/// Larger blocks are in the tree.
const LARGE_BYTES: u64 = 1 << 18;

/// What was allocated at a site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupBlocks {
    /// Blocks allocated.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes that live.
    pub live_bytes: u64,
    /// The most that lived at a time.
    pub peak_bytes: u64,
}

/// Accesses to the heap of all processes of a run.
#[derive(Debug, Default)]
pub struct HeapAccesses {
    processes: FxHashMap<u32, LiveBlocks>,
    groups: BTreeMap<SiteId, GroupBlocks>,
    /// By accessing site: which groups, and how much of each. Most sites access one.
    by_site: Vec<Vec<(SiteId, Accesses)>>,
    /// Whether a segment does anything with memory at all.
    matters: Vec<bool>,
    /// Blocks freed or resized that were not known: allocated before tracing began, or by code that is not traced.
    unknown_frees: u64,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    start: u64,
    end: u64,
    group: SiteId,
}

/// Blocks of one process.
#[derive(Debug, Default)]
struct LiveBlocks {
    /// By number - 1; reused.
    blocks: Vec<Block>,
    free: Vec<u32>,
    pages: FxHashMap<u64, Box<[u32; PAGE_GRAINS]>>,
    large: BTreeMap<u64, Block>,
}

impl LiveBlocks {
    fn insert(&mut self, block: Block) {
        if block.end - block.start > LARGE_BYTES {
            self.large.insert(block.start, block);
            return;
        }
        let number = match self.free.pop() {
            Some(number) => {
                self.blocks[number as usize - 1] = block;
                number
            }
            None => {
                self.blocks.push(block);
                self.blocks.len() as u32
            }
        };
        self.fill(block, number);
    }

    /// Notes in its grains which block is there; 0: none.
    fn fill(&mut self, block: Block, number: u32) {
        let (mut grain, last) = (block.start / GRAIN_BYTES, block.end.max(block.start + 1).div_ceil(GRAIN_BYTES));
        while grain < last {
            let page = self.pages.entry(grain / PAGE_GRAINS as u64).or_insert_with(|| Box::new([0; PAGE_GRAINS]));
            let from = grain as usize % PAGE_GRAINS;
            let to = (from as u64 + (last - grain)).min(PAGE_GRAINS as u64) as usize;
            page[from..to].fill(number);
            grain += (to - from) as u64;
        }
    }

    fn find(&self, address: u64) -> Option<Block> {
        let grain = address / GRAIN_BYTES;
        let number = self.pages.get(&(grain / PAGE_GRAINS as u64)).map_or(0, |page| page[grain as usize % PAGE_GRAINS]);
        let block = match number {
            0 => *self.large.range(..=address).next_back()?.1,
            number => self.blocks[number as usize - 1],
        };
        (block.start..block.end).contains(&address).then_some(block)
    }

    /// Takes out the block that starts there.
    fn remove(&mut self, start: u64) -> Option<Block> {
        if let Some(block) = self.large.remove(&start) {
            return Some(block);
        }
        let grain = start / GRAIN_BYTES;
        let number = self.pages.get(&(grain / PAGE_GRAINS as u64)).map_or(0, |page| page[grain as usize % PAGE_GRAINS]);
        let block = *self.blocks.get((number as usize).checked_sub(1)?)?;
        if block.start != start {
            return None;
        }
        self.fill(block, 0);
        self.free.push(number);
        Some(block)
    }
}

impl HeapAccesses {
    pub(super) fn update(&mut self, program: &Program, batch: &TraceBatch<'_>) {
        self.make_room(program);
        let Self { processes, groups, by_site, matters, unknown_frees } = self;
        let live = processes.entry(batch.process).or_default();
        for visit in batch.visits {
            let index = visit.segment.0 as usize;
            if !matters[index] {
                continue;
            }
            let mut words = batch.words_of(*visit, program.segments()[index].words);
            for (id, site) in program.sites_of(visit.segment) {
                let Some((own, rest)) = words.split_at_checked(site.words()) else { break };
                words = rest;
                let accessed = &mut by_site[id.0 as usize];
                let mut access = |address: u64, accesses: Accesses| {
                    let Some(block) = live.find(address) else { return };
                    match accessed.iter_mut().find(|(group, _)| *group == block.group) {
                        Some((_, sum)) => sum.add(accesses),
                        None => accessed.push((block.group, accesses)),
                    }
                };
                match (site.kind, own) {
                    (SiteKind::Load | SiteKind::Store | SiteKind::Update | SiteKind::MaskedLoad, [address, ..])
                    | (SiteKind::MaskedStore | SiteKind::Fill, [address, ..]) => access(*address, accesses(site, own)),
                    (SiteKind::Copy, &[to, from, bytes]) => {
                        access(to, Accesses { stores: 1, stored_bytes: bytes, ..Accesses::default() });
                        access(from, Accesses { loads: 1, loaded_bytes: bytes, ..Accesses::default() });
                    }
                    (SiteKind::Gather | SiteKind::Scatter, [mask, lanes @ ..]) => {
                        let one = accesses(site, &[1]);
                        let active = (0..lanes.len().min(64)).filter(|lane| mask >> lane & 1 != 0);
                        active.for_each(|lane| access(lanes[lane], one));
                    }
                    (SiteKind::Allocate, &[start, bytes]) => allocate(live, groups, id, start, bytes),
                    (SiteKind::AllocateZeroed, &[start, count, bytes]) => {
                        allocate(live, groups, id, start, count.saturating_mul(bytes));
                    }
                    (SiteKind::Resize, &[new, old, bytes]) => {
                        // It failed, and the old block stays.
                        if new == 0 && bytes != 0 {
                            continue;
                        }
                        let before = (old != 0).then(|| release(live, groups, old)).flatten();
                        *unknown_frees += u64::from(old != 0 && before.is_none());
                        allocate(live, groups, before.map_or(id, |block| block.group), new, bytes);
                    }
                    (SiteKind::Free, &[start, ..]) if start != 0 => {
                        *unknown_frees += u64::from(release(live, groups, start).is_none());
                    }
                    _ => {}
                }
            }
        }
    }

    fn make_room(&mut self, program: &Program) {
        for segment in self.matters.len()..program.segments().len() {
            let mut sites = program.sites_of(SegmentId(segment as u32));
            self.matters.push(sites.any(|(_, site)| site.words() > 0));
        }
        self.by_site.resize(program.site_count(), Vec::new());
    }

    /// What was allocated, by site.
    pub fn groups(&self) -> impl Iterator<Item = (SiteId, GroupBlocks)> {
        self.groups.iter().map(|(site, blocks)| (*site, *blocks))
    }

    /// Accesses to blocks: the accessing site, the allocating one, and how many.
    pub fn accesses(&self) -> impl Iterator<Item = (SiteId, SiteId, Accesses)> {
        let by_site = (0..).zip(&self.by_site);
        by_site.flat_map(|(site, groups)| groups.iter().map(move |(group, sum)| (SiteId(site), *group, *sum)))
    }

    /// Blocks that were freed or resized but not known.
    pub fn unknown_frees(&self) -> u64 {
        self.unknown_frees
    }
}

type Groups = BTreeMap<SiteId, GroupBlocks>;

fn allocate(live: &mut LiveBlocks, groups: &mut Groups, group: SiteId, start: u64, bytes: u64) {
    // No block, or none that fits into an address space.
    if start == 0 || start.checked_add(bytes).is_none_or(|end| end > 1 << 57) {
        return;
    }
    // A block that was there was freed by code that is not traced.
    release(live, groups, start);
    live.insert(Block { start, end: start + bytes, group });
    let total = groups.entry(group).or_default();
    total.blocks += 1;
    total.bytes = total.bytes.saturating_add(bytes);
    total.live_bytes = total.live_bytes.saturating_add(bytes);
    total.peak_bytes = total.peak_bytes.max(total.live_bytes);
}

fn release(live: &mut LiveBlocks, groups: &mut Groups, start: u64) -> Option<Block> {
    let block = live.remove(start)?;
    if let Some(total) = groups.get_mut(&block.group) {
        total.live_bytes = total.live_bytes.saturating_sub(block.end - block.start);
    }
    Some(block)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use slimline_trace::stream::sites::Site;

    use super::super::tests::Run;
    use super::*;

    fn run() -> Run {
        let site = |kind| Site::new(kind, 8);
        Run::new(&[
            &[site(SiteKind::Allocate)],
            &[site(SiteKind::AllocateZeroed)],
            &[site(SiteKind::Resize)],
            &[site(SiteKind::Free)],
            &[site(SiteKind::Load)],
        ])
    }

    const LOAD: SiteId = SiteId(4);

    fn loads_by_group(run: &Run) -> Vec<(u32, u64)> {
        let mut heap = HeapAccesses::default();
        heap.update(run.program(), &run.batch());
        let loads = heap.accesses().filter(|(site, ..)| *site == LOAD).map(|(_, group, sum)| (group.0, sum.loads));
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
    fn resized_blocks_stay_in_their_group() {
        let mut run = run();
        run.visit(0, &[0x1000, 64]);
        run.visit(2, &[0x9000, 0x1000, 1 << 20]);
        run.visit(4, &[0x9000 + (1 << 19)]);
        run.visit(4, &[0x1000]);
        run.visit(2, &[0, 0x9000, 1 << 40]); // failed
        run.visit(4, &[0x9000]);
        run.visit(2, &[0x20_0000, 0, 16]); // a new one
        run.visit(4, &[0x20_0000]);
        assert_eq!(loads_by_group(&run), [(0, 2), (2, 1)]);
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
        assert_eq!(heap.groups().collect::<Vec<_>>(), [(SiteId(0), blocks)]);
        assert_eq!(heap.unknown_frees(), 1);
    }

    proptest! {
        /// The table finds what a list of the living finds.
        #[test]
        fn as_a_list_does(steps in proptest::collection::vec((0..3_u8, 0..40_u64, 1..3_000_u64), 1..200)) {
            let (mut live, mut list) = (LiveBlocks::default(), Vec::<Block>::new());
            for (step, place, bytes) in steps {
                let start = place << 16;
                let bytes = if bytes % 7 == 0 { bytes * 200 } else { bytes };
                match step {
                    0 if !list.iter().any(|b| b.start < start + bytes && start < b.end) => {
                        let block = Block { start, end: start + bytes, group: SiteId(place as u32) };
                        live.insert(block);
                        list.push(block);
                    }
                    1 => {
                        let known = list.iter().position(|block| block.start == start).map(|at| list.remove(at));
                        prop_assert_eq!(live.remove(start).map(|b| b.end), known.map(|b| b.end));
                    }
                    _ => {}
                }
                for address in [start, start + bytes / 2, start + bytes, start + 3000 * 200] {
                    let known = list.iter().find(|block| (block.start..block.end).contains(&address));
                    prop_assert_eq!(live.find(address).map(|b| b.start), known.map(|b| b.start));
                }
            }
        }
    }
}
