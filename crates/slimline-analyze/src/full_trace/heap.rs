//! Accesses by the allocation site of the block that they fall into.
//!
//! Most accesses of a site fall into the block, or the gap between blocks, of the one before, so that is tried first; and
//! of segments that only load and store, which is most, sites are gone through one after the other for all visits that
//! follow each other. What batches of several threads do to blocks is right as far as their order is.

mod live_blocks;

use std::ops::Range;

use rustc_hash::FxHashMap;
use slimline_trace::stream::decode::{KnownSegment, Program, SegmentId, SiteId, Visits};
use slimline_trace::stream::sites::{Site, SiteKind};

use self::live_blocks::{Block, BlockNumber, LiveBlocks, NO_GROUP};
use super::counts::accesses;
use super::{Accesses, TraceBatch};

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
    /// By allocating site.
    groups: Vec<GroupBlocks>,
    segments: Vec<Plan>,
    /// Of the segments' sites.
    loads_and_stores: Vec<PlannedSite>,
    accessed: AccessedGroups,
    /// Blocks that are being resized, by process and stream.
    resized: FxHashMap<(u32, u32), Block>,
    /// Blocks freed or resized that were not known: allocated before tracing began, or by code that is not traced.
    unknown_frees: u64,
}

/// How a segment's visits are gone through.
#[derive(Clone, Debug)]
enum Plan {
    /// It has nothing to do with memory.
    Skip,
    /// It only loads and stores: its sites in [`HeapAccesses::loads_and_stores`].
    LoadsAndStores(Range<u32>),
    /// Visit by visit.
    Visits,
}

/// A site that loads or stores: which of its segment's words is the address.
#[derive(Clone, Copy, Debug)]
struct PlannedSite {
    site: u32,
    word: u32,
}

impl Plan {
    fn new(program: &Program, segment: SegmentId, loads_and_stores: &mut Vec<PlannedSite>) -> Self {
        let first = loads_and_stores.len();
        let mut word = 0;
        for (id, site) in program.sites_of(segment) {
            match site.kind {
                SiteKind::Load | SiteKind::Store | SiteKind::Update => {
                    loads_and_stores.push(PlannedSite { site: id.0, word });
                }
                SiteKind::Enter | SiteKind::Leave | SiteKind::Untraced | SiteKind::Acquire => {}
                _ => {
                    loads_and_stores.truncate(first);
                    return Self::Visits;
                }
            }
            word += site.words() as u32;
        }
        match loads_and_stores.len() {
            none if none == first => Self::Skip,
            end => Self::LoadsAndStores(first as u32..end as u32),
        }
    }
}

/// How often each site accessed each group.
#[derive(Debug, Default)]
struct AccessedGroups {
    /// The process that `recent` is of.
    process: u32,
    /// By site: what it accessed last.
    recent: Vec<Recent>,
    /// By site: its groups with their sums. Most sites access one.
    by_site: Vec<Vec<(u32, u32)>>,
    /// The first is of accesses outside blocks.
    sums: Vec<Sum>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    block: BlockNumber,
    /// Index in [`AccessedGroups::sums`] of the site and the block's group.
    sum: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    /// Accesses of a size that the site tells.
    times: u64,
    /// Of those whose size is in their words.
    varying: Accesses,
}

impl AccessedGroups {
    fn make_room(&mut self, process: u32, sites: usize) {
        if self.process != process {
            self.process = process;
            self.recent.clear();
        }
        self.recent.resize(sites, Recent::default());
        self.by_site.resize(sites, Vec::new());
        if self.sums.is_empty() {
            self.sums.push(Sum::default());
        }
    }

    /// The sum that an access of the site to this address belongs to.
    #[inline]
    fn sum(&mut self, live: &mut LiveBlocks, site: u32, address: u64) -> &mut Sum {
        let recent = self.recent[site as usize];
        let sum = if live.reaches(recent.block, address) { recent.sum } else { self.look_up(live, site, address) };
        &mut self.sums[sum as usize]
    }

    fn look_up(&mut self, live: &mut LiveBlocks, site: u32, address: u64) -> u32 {
        let recent = &mut self.recent[site as usize];
        let before = live.group(recent.block);
        recent.block = live.find(address);
        let group = live.group(recent.block);
        if group == NO_GROUP {
            recent.sum = 0;
        } else if group != before || recent.sum == 0 {
            let groups = &mut self.by_site[site as usize];
            recent.sum = match groups.iter().find(|(known, _)| *known == group) {
                Some((_, sum)) => *sum,
                None => {
                    self.sums.push(Sum::default());
                    groups.push((group, self.sums.len() as u32 - 1));
                    self.sums.len() as u32 - 1
                }
            };
        }
        recent.sum
    }

    /// The same address of a site in all visits of a run; `words` begin with it, and it comes again every `stride` words.
    fn run(&mut self, live: &mut LiveBlocks, site: u32, words: &[u64], stride: usize, times: usize) {
        let mut addresses = words.iter().step_by(stride).take(times).peekable();
        while let Some(&address) = addresses.next() {
            self.sum(live, site, address).times += 1;
            let Recent { block, sum } = self.recent[site as usize];
            let mut more = 0;
            while addresses.next_if(|address| live.reaches(block, **address)).is_some() {
                more += 1;
            }
            self.sums[sum as usize].times += more;
        }
    }
}

impl HeapAccesses {
    pub(super) fn update(&mut self, program: &Program, batch: &TraceBatch<'_>) {
        self.make_room(program, batch.process);
        let mut live = self.processes.remove(&batch.process).unwrap_or_default();
        for visits in batch.visits {
            let index = visits.segment.0 as usize;
            let known = &program.segments()[index];
            match &self.segments[index] {
                Plan::Skip => {}
                Plan::LoadsAndStores(sites) if visits.end(known.words) <= batch.words.len() => {
                    let sites = &self.loads_and_stores[sites.start as usize..sites.end as usize];
                    let words = &batch.words[visits.at as usize..];
                    for PlannedSite { site, word } in sites {
                        let words = &words[*word as usize..];
                        if visits.times == 1 {
                            self.accessed.sum(&mut live, *site, words[0]).times += 1;
                        } else {
                            let (stride, times) = (1 + known.words as usize, visits.times as usize);
                            self.accessed.run(&mut live, *site, words, stride, times);
                        }
                    }
                }
                Plan::LoadsAndStores(_) | Plan::Visits => self.each(program, batch, &mut live, visits, known),
            }
        }
        self.processes.insert(batch.process, live);
    }

    /// Visits of a segment that also allocates, copies or accesses lanes.
    fn each(
        &mut self,
        program: &Program,
        batch: &TraceBatch<'_>,
        live: &mut LiveBlocks,
        visits: &Visits,
        known: &KnownSegment,
    ) {
        for mut words in batch.words_of_each(*visits, known.words) {
            for (id, site) in program.sites_of(visits.segment) {
                let Some((own, rest)) = words.split_at_checked(site.words()) else { break };
                words = rest;
                self.site(live, (batch.process, batch.stream), id, site, own);
            }
        }
    }

    /// One visit of a site; `own` are its words.
    fn site(&mut self, live: &mut LiveBlocks, stream: (u32, u32), id: SiteId, site: &Site, own: &[u64]) {
        let Self { groups, accessed, resized, unknown_frees, .. } = self;
        let mut access = |address: u64, accesses: Accesses| accessed.sum(live, id.0, address).varying.add(accesses);
        match (site.kind, own) {
            (SiteKind::Load | SiteKind::Store | SiteKind::Update, [address, ..]) => {
                accessed.sum(live, id.0, *address).times += 1;
            }
            (SiteKind::MaskedLoad | SiteKind::MaskedStore | SiteKind::Fill, [address, ..]) => {
                access(*address, accesses(site, own));
            }
            (SiteKind::Copy, &[to, from, bytes]) => {
                access(to, Accesses { stores: 1, stored_bytes: bytes, ..Accesses::default() });
                access(from, Accesses { loads: 1, loaded_bytes: bytes, ..Accesses::default() });
            }
            (SiteKind::Gather | SiteKind::Scatter, [mask, lanes @ ..]) => {
                let one = accesses(site, &[1]);
                let active = (0..lanes.len().min(64)).filter(|lane| mask >> lane & 1 != 0);
                active.for_each(|lane| access(lanes[lane], one));
            }
            (SiteKind::Allocate, &[start, bytes]) => allocate(live, groups, id.0, start, bytes),
            (SiteKind::AllocateZeroed, &[start, count, bytes]) => {
                allocate(live, groups, id.0, start, count.saturating_mul(bytes));
            }
            // From here on another thread may get its memory.
            (SiteKind::ResizeBegins, &[start]) => {
                let block = if start == 0 { None } else { release(live, groups, start) };
                *unknown_frees += u64::from(start != 0 && block.is_none());
                match block {
                    Some(block) => resized.insert(stream, block),
                    None => resized.remove(&stream),
                };
            }
            (SiteKind::Resize, &[new, bytes]) => match (resized.remove(&stream), new) {
                // It failed, and the old block stays.
                (Some(block), 0) if bytes != 0 => keep(live, groups, block),
                (before, _) => allocate(live, groups, before.map_or(id.0, |block| block.group), new, bytes),
            },
            (SiteKind::Free, &[start, ..]) if start != 0 => {
                *unknown_frees += u64::from(release(live, groups, start).is_none());
            }
            _ => {}
        }
    }

    fn make_room(&mut self, program: &Program, process: u32) {
        for segment in self.segments.len()..program.segments().len() {
            let plan = Plan::new(program, SegmentId(segment as u32), &mut self.loads_and_stores);
            self.segments.push(plan);
        }
        self.groups.resize(program.site_count(), GroupBlocks::default());
        self.accessed.make_room(process, program.site_count());
    }

    /// What was allocated, by site.
    pub fn groups(&self) -> impl Iterator<Item = (SiteId, GroupBlocks)> {
        let allocated = (0..).zip(&self.groups).filter(|(_, blocks)| blocks.blocks > 0);
        allocated.map(|(site, blocks)| (SiteId(site), *blocks))
    }

    /// Accesses to blocks: the accessing site, the allocating one, and how many.
    pub fn accesses<'a>(&'a self, program: &'a Program) -> impl Iterator<Item = (SiteId, SiteId, Accesses)> {
        let by_site = (0..).zip(&self.accessed.by_site);
        by_site.flat_map(move |(site, groups)| {
            groups.iter().map(move |(group, sum)| {
                let Sum { times, varying } = self.accessed.sums[*sum as usize];
                let mut sum = accesses(program.site(SiteId(site)).1, &[]).times(times);
                sum.add(varying);
                (SiteId(site), SiteId(*group), sum)
            })
        })
    }

    /// Blocks that were freed or resized but not known.
    pub fn unknown_frees(&self) -> u64 {
        self.unknown_frees
    }
}

fn allocate(live: &mut LiveBlocks, groups: &mut [GroupBlocks], group: u32, start: u64, bytes: u64) {
    // No block, or none that fits into an address space.
    if start == 0 || start.checked_add(bytes).is_none_or(|end| end > 1 << 57) {
        return;
    }
    // A block that was there was freed by code that is not traced.
    release(live, groups, start);
    live.insert(Block { start, end: start + bytes, group });
    let total = &mut groups[group as usize];
    total.blocks += 1;
    total.bytes = total.bytes.saturating_add(bytes);
    total.live_bytes = total.live_bytes.saturating_add(bytes);
    total.peak_bytes = total.peak_bytes.max(total.live_bytes);
}

/// Takes a release back.
fn keep(live: &mut LiveBlocks, groups: &mut [GroupBlocks], block: Block) {
    live.insert(block);
    let total = &mut groups[block.group as usize];
    total.live_bytes = total.live_bytes.saturating_add(block.end - block.start);
}

fn release(live: &mut LiveBlocks, groups: &mut [GroupBlocks], start: u64) -> Option<Block> {
    let block = live.remove(start)?;
    let total = &mut groups[block.group as usize];
    total.live_bytes = total.live_bytes.saturating_sub(block.end - block.start);
    Some(block)
}

#[cfg(test)]
mod tests {
    use slimline_trace::stream::sites::Site;

    use super::super::tests::Run;
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

    fn loads_by_group(run: &Run) -> Vec<(u32, u64)> {
        let mut heap = HeapAccesses::default();
        heap.update(run.program(), &run.batch());
        let loads =
            heap.accesses(run.program()).filter(|(site, ..)| *site == LOAD).map(|(_, group, sum)| (group.0, sum.loads));
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
        assert_eq!(loads_by_group(&run), [(0, 2), (RESIZE, 1)]);
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
}
