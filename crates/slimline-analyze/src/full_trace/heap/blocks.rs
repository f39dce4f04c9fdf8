//! Which blocks are allocated and freed where, in all processes of a run; static variables are blocks, too, that their objects bring along.

use rustc_hash::FxHashMap;
use slimline_trace::stream::decode::{Program, SiteId};
use slimline_trace::stream::sites::SiteKind;

use super::super::TraceBatch;
use super::super::calls::{Calls, MOST_FUNCTIONS, PathNumber, is_of_calls};
use super::super::elements::{Content, Elements};
use super::allocating::{Allocating, AllocatingSites};
use super::forks::Forks;
use super::live_blocks::{Block, Group, LARGE_BYTES, LiveBlocks};

/// Calls of `realloc`, and of what frees, within each other that are kept: a program's own allocator may call the C library's.
const MOST_RESIZED: usize = 16;

/// Bytes that an allocator may ask for beyond twice what it was asked for, to return all of it.
const MOST_ROUNDED: u64 = 64;

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

/// Where blocks are not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnknownBlocks {
    /// Blocks that were freed or resized but not known.
    pub frees: u64,
    /// Forked children of which nobody knows with which blocks they began.
    pub forks: u64,
}

/// Whose blocks a group has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Origin {
    /// The allocating site; of static variables where they are told.
    site: u32,
    /// Who called for them, where that is told apart.
    path: Option<PathNumber>,
}

/// The heaps of all processes.
#[derive(Debug, Default)]
pub(in crate::full_trace) struct Blocks {
    places: FxHashMap<u32, usize>,
    live: Vec<LiveBlocks>,
    allocations: Allocations,
    elements: Elements,
}

/// What all processes allocated.
#[derive(Debug, Default)]
pub(in crate::full_trace) struct Allocations {
    groups: Vec<(Origin, GroupBlocks)>,
    numbers: FxHashMap<Origin, Group>,
    /// None where nobody has asked who called, and no library allocates.
    calls: Option<Calls>,
    /// Whether all groups are told apart by who called; else those of libraries, by the first caller that is none.
    by_callers: bool,
    /// By process and stream: the blocks of the calls of `realloc` that have not returned, the innermost last.
    resized: FxHashMap<(u32, u32), Vec<Option<Block>>>,
    /// By process and stream: blocks that the program's own functions took back, which may yet hand them on to another's.
    handed_on: FxHashMap<(u32, u32), Vec<u64>>,
    sites: AllocatingSites,
    forks: Forks,
    /// Blocks freed or resized that were not known: allocated before tracing began, or by code that is not traced.
    unknown_frees: u64,
}

impl Blocks {
    pub(in crate::full_trace) fn make_room(&mut self, program: &Program) {
        self.elements.make_room(program);
        let Allocations { sites, calls, by_callers, .. } = &mut self.allocations;
        let is_late = sites.has_any();
        sites.make_room(program);
        if *by_callers || sites.has_librarys() {
            let calls = calls.get_or_insert_with(|| if is_late { Calls::late() } else { Calls::default() });
            calls.make_room(program);
        }
    }

    /// The living blocks of a process, who takes in what becomes of them, and what is in them.
    pub(in crate::full_trace) fn of_process(
        &mut self,
        process: u32,
    ) -> (&mut LiveBlocks, &mut Allocations, &mut Elements) {
        let place = *self.places.entry(process).or_insert_with(|| {
            self.live.push(LiveBlocks::default());
            self.live.len() - 1
        });
        (&mut self.live[place], &mut self.allocations, &mut self.elements)
    }

    /// Has groups of one site told apart by who called for their blocks.
    pub(in crate::full_trace) fn follow_calls(&mut self) {
        self.allocations.by_callers = true;
    }

    /// What was allocated, by group.
    pub(in crate::full_trace) fn groups(&self) -> impl Iterator<Item = (Group, GroupBlocks)> {
        let groups = (0..).zip(&self.allocations.groups).filter(|(_, (_, blocks))| blocks.blocks > 0);
        groups.map(|(group, (_, blocks))| (group, *blocks))
    }

    /// Groups so far, those without blocks as well.
    pub(in crate::full_trace) fn group_count(&self) -> u32 {
        self.allocations.groups.len() as u32
    }

    /// Whether visits of sites that tell of calls ([`is_of_calls`]) are for [`Allocations::follow`].
    pub(in crate::full_trace) fn follows_calls(&self) -> bool {
        self.allocations.calls.is_some()
    }

    /// The site that allocates a group's blocks. It must be one of these.
    pub(in crate::full_trace) fn site_of(&self, group: Group) -> SiteId {
        SiteId(self.allocations.groups[group as usize].0.site)
    }

    /// Whether a group's blocks are of an allocator that is traced, too.
    pub(in crate::full_trace) fn is_of_own_allocator(&self, group: Group) -> bool {
        self.allocations.sites.is_outer(self.site_of(group).0)
    }

    /// Sites of the functions that called for them, the innermost first; none where that is not told apart. `None` stands for
    /// those that nobody knows.
    pub(in crate::full_trace) fn callers_of(&self, group: Group) -> Vec<Option<SiteId>> {
        let Allocations { groups, calls, .. } = &self.allocations;
        let path = groups[group as usize].0.path.zip(calls.as_ref());
        path.map(|(path, calls)| calls.functions(path).collect()).unwrap_or_default()
    }

    pub(in crate::full_trace) fn unknown(&self) -> UnknownBlocks {
        UnknownBlocks { frees: self.allocations.unknown_frees, forks: self.allocations.forks.unknown() }
    }

    /// The structures that are in them.
    pub(in crate::full_trace) fn elements(&self) -> &Elements {
        &self.elements
    }
}

impl Allocations {
    /// Takes in one visit of a site of the batch; `own` are its words. Whether it is one that allocates or frees, or where a
    /// function begins or ends.
    pub(in crate::full_trace) fn follow(
        &mut self,
        live: &mut LiveBlocks,
        elements: &Elements,
        batch: &TraceBatch<'_>,
        id: SiteId,
        kind: SiteKind,
        own: &[u64],
    ) -> bool {
        match (kind, own) {
            (kind, _) if is_of_calls(kind) => {
                if let Some(calls) = &mut self.calls {
                    calls.follow((batch.process, batch.stream), id, kind, own.first().copied());
                }
            }
            (SiteKind::Allocate, &[start, bytes]) => {
                self.make_way(live, id.0, start, bytes);
                let group = self.group(batch, id.0);
                self.allocate(live, group, start, bytes, elements.allocated(id.0, bytes));
            }
            (SiteKind::AllocateZeroed, &[start, count, bytes]) => {
                let bytes = count.saturating_mul(bytes);
                self.make_way(live, id.0, start, bytes);
                let group = self.group(batch, id.0);
                self.allocate(live, group, start, bytes, elements.allocated(id.0, bytes));
            }
            (SiteKind::Forks, &[stamp, process]) => self.forks.keep((stamp, process), live.for_child()),
            (SiteKind::Inherits, &[stamp, process]) => {
                if let Some(parents) = self.forks.take((stamp, process)) {
                    live.inherit(parents);
                }
            }
            (SiteKind::Static, &[start, bytes]) => {
                let group = self.group_of(Origin { site: self.sites.of(id.0).same, path: None });
                let content = elements.declared(id.0, bytes);
                let end = start.saturating_add(bytes);
                let block = Block { start, end, group, content, is_inherited: false };
                if is_possible(start, bytes) && bytes > 0 {
                    // Where another program runs now in the process, or another object has its place.
                    live.insert_lasting(block).into_iter().for_each(|gone| self.is_gone(gone));
                    self.count(group, bytes);
                }
            }
            // From here on another thread may get its memory.
            (SiteKind::ResizeBegins, &[start]) => {
                let block = if start == 0 { None } else { self.release(live, id.0, start) };
                let is_known = block.is_some() || self.is_being_resized(batch, start);
                self.take_back(batch, id.0, start, is_known);
                let resized = self.resized.entry((batch.process, batch.stream)).or_default();
                // Those of calls that never came back, as they were left by an exception or a jump.
                if resized.len() == MOST_RESIZED {
                    resized.remove(0);
                }
                resized.push(block);
            }
            (SiteKind::Resize, &[new, bytes]) => {
                let resized = self.resized.get_mut(&(batch.process, batch.stream));
                match (resized.and_then(Vec::pop).flatten(), new) {
                    // It failed, and the old block stays.
                    (Some(block), 0) if bytes != 0 => self.keep(live, block),
                    (before, _) => {
                        self.make_way(live, id.0, new, bytes);
                        // What a library resizes stays that of its user, who had it allocated.
                        let kept = before.filter(|_| self.sites.of(id.0).is_librarys);
                        let group = kept.map_or_else(|| self.group(batch, id.0), |block| block.group);
                        let content = before.map_or_else(
                            || elements.allocated(id.0, bytes),
                            |block| {
                                let allocated_by = self.groups[block.group as usize].0.site;
                                elements.resized((id.0, allocated_by), block.content, bytes)
                            },
                        );
                        self.allocate(live, group, new, bytes, content);
                    }
                }
            }
            (SiteKind::Free, &[start, ..]) if start != 0 => {
                let is_known = self.release(live, id.0, start).is_some() || self.is_being_resized(batch, start);
                self.take_back(batch, id.0, start, is_known);
            }
            _ => return kind == SiteKind::Free,
        }
        true
    }

    /// The group of what the site allocates now.
    fn group(&mut self, batch: &TraceBatch<'_>, site: u32) -> Group {
        let Allocating { same, is_librarys, .. } = self.sites.of(site);
        let most = match (self.by_callers, is_librarys) {
            (true, _) => MOST_FUNCTIONS,
            (false, true) => 1,
            (false, false) => 0,
        };
        let stream = (batch.process, batch.stream);
        let path = self.calls.as_mut().filter(|_| most > 0).map(|calls| calls.path(stream, SiteId(site), most));
        self.group_of(Origin { site: same, path })
    }

    fn group_of(&mut self, origin: Origin) -> Group {
        let groups = &mut self.groups;
        *self.numbers.entry(origin).or_insert_with(|| {
            groups.push((origin, GroupBlocks::default()));
            groups.len() as Group - 1
        })
    }

    fn allocate(&mut self, live: &mut LiveBlocks, group: u32, start: u64, bytes: u64, content: Content) {
        if is_possible(start, bytes) {
            live.insert(Block { start, end: start + bytes, group, content, is_inherited: false });
            self.count(group, bytes);
        }
    }

    fn count(&mut self, group: Group, bytes: u64) {
        let (_, total) = &mut self.groups[group as usize];
        total.blocks += 1;
        total.bytes = total.bytes.saturating_add(bytes);
        total.live_bytes = total.live_bytes.saturating_add(bytes);
        total.peak_bytes = total.peak_bytes.max(total.live_bytes);
    }

    /// What becomes of a block that begins where a new one of so many bytes does. What an allocator of the program's own returned as
    /// another one gave it is the same block, which is taken over; what it cut its block of stays below (a pool's chunk, an arena that is a
    /// static variable). Anything else was freed by code that is not traced, or with its pool.
    fn make_way(&mut self, live: &mut LiveBlocks, site: u32, start: u64, bytes: u64) {
        let Some(there) = live.beginning_at(start).filter(|_| start != 0) else { return };
        let (own, other) = (self.sites.of(site), self.sites.of(self.groups[there.group as usize].0.site));
        if other.is_static {
            return;
        }
        let is_of_another = self.sites.is_outer(site) && own.allocator != other.allocator;
        let is_cut = there.end - there.start > bytes.saturating_mul(2).saturating_add(MOST_ROUNDED);
        if is_of_another && is_cut && bytes <= LARGE_BYTES {
            return;
        }
        if self.release(live, site, start).is_some() && is_of_another && !is_cut && !there.is_inherited {
            let (_, total) = &mut self.groups[there.group as usize];
            total.blocks = total.blocks.saturating_sub(1);
            total.bytes = total.bytes.saturating_sub(there.end - there.start);
        }
    }

    /// Whether it is a block that the thread resizes, which its own `realloc` frees once it was copied.
    fn is_being_resized(&self, batch: &TraceBatch<'_>, start: u64) -> bool {
        let resized = self.resized.get(&(batch.process, batch.stream));
        resized.is_some_and(|resized| resized.iter().flatten().any(|block| block.start == start))
    }

    /// A block is freed or resized, once or by functions that call each other: it is unknown where it is to the first one.
    fn take_back(&mut self, batch: &TraceBatch<'_>, site: u32, start: u64, is_known: bool) {
        let is_outer = self.sites.is_outer(site);
        if start == 0 || is_known && !is_outer {
            return;
        }
        let handed_on = self.handed_on.entry((batch.process, batch.stream)).or_default();
        let before = handed_on.iter().position(|&other| other == start);
        let is_missing = !is_known && before.is_none() && !self.sites.of(site).is_of_c_library;
        self.unknown_frees += u64::from(is_missing);
        match (is_outer, before) {
            (true, None) => {
                // Those that were not handed on, as a pool keeps its blocks.
                if handed_on.len() == MOST_RESIZED {
                    handed_on.remove(0);
                }
                handed_on.push(start);
            }
            (false, Some(before)) => drop(handed_on.remove(before)),
            _ => {}
        }
    }

    /// Takes a release back.
    fn keep(&mut self, live: &mut LiveBlocks, block: Block) {
        live.insert(block);
        let (_, total) = &mut self.groups[block.group as usize];
        total.live_bytes = total.live_bytes.saturating_add(block.end - block.start);
    }

    /// Takes out the block that starts there; of a chunk and the first block of it the site's allocator says which. What a program's
    /// own allocator cut of it ends with it.
    fn release(&mut self, live: &mut LiveBlocks, site: u32, start: u64) -> Option<Block> {
        let is_outer = self.sites.is_outer(site);
        let block = if is_outer { live.remove_innermost(start) } else { live.remove(start) }?;
        self.is_gone(block);
        if self.sites.has_outer() && block.end - block.start > LARGE_BYTES {
            live.remove_within(block).into_iter().for_each(|inner| self.is_gone(inner));
        }
        Some(block)
    }

    /// What a child frees of its parent's blocks is a copy, which was never counted.
    fn is_gone(&mut self, block: Block) {
        if block.is_inherited {
            return;
        }
        let (_, total) = &mut self.groups[block.group as usize];
        total.live_bytes = total.live_bytes.saturating_sub(block.end - block.start);
    }
}

/// Whether this is a block, and fits into an address space.
fn is_possible(start: u64, bytes: u64) -> bool {
    start != 0 && start.checked_add(bytes).is_some_and(|end| end <= 1 << 57)
}
