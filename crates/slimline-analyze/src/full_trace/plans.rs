//! How visits of segments are gone through: decided once for each segment.
//!
//! As long as no block begins or ends it is the same in which order it is asked whose accesses are, but for what an access tells of
//! what is in its block ([`Elements::learned`](super::elements::Elements::learned)): that is known of those that are asked later. So
//! visits of segments that only load and store are collected, up to one that does more to blocks, and asked by columns.

use std::ops::Range;

use slimline_simulate::access::{AccessKind, Work};
use slimline_trace::stream::columns::Columns;
use slimline_trace::stream::decode::{Program, SegmentId, SiteId, Told};
use slimline_trace::stream::sites::SiteKind;

use super::calls::is_of_calls;
use super::heap::blocks::Blocks;
use super::spots::Column;

/// Plans of all segments.
#[derive(Debug, Default)]
pub(super) struct Plans {
    segments: Vec<Kept>,
    /// By segment: whether it is gone through site by site.
    is_by_site: Vec<bool>,
    /// Of the segments' sites.
    loads_and_stores: Vec<PlannedAccess>,
    /// All segments that access memory are.
    all_by_site: bool,
    /// Whether those that tell of calls are, as somebody follows them.
    follows_calls: bool,
    /// By site: what is computed with each access of it.
    work: Vec<Work>,
}

#[derive(Clone, Debug)]
enum Kept {
    Skip,
    /// Where in [`Plans::loads_and_stores`].
    LoadsAndStores(Range<u32>),
    Sites {
        changes_blocks: bool,
    },
}

/// How a segment's visits are gone through.
#[derive(Clone, Copy, Debug)]
pub(super) enum Plan {
    /// It has nothing to do with memory.
    Skip,
    /// It only loads and stores.
    LoadsAndStores,
    /// It also allocates, copies or accesses lanes, or tells of calls that are followed: site by site.
    Sites {
        /// Blocks may begin or end.
        changes_blocks: bool,
    },
}

/// A load or store.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlannedAccess {
    /// Which one, and where in its record its address is.
    pub(super) told: Told,
    pub(super) bytes: u32,
    pub(super) kind: AccessKind,
    pub(super) work: Work,
}

impl PlannedAccess {
    /// From the address in its word to its own, modulo 2⁶⁴.
    pub(super) fn distance(&self) -> u64 {
        i64::from(self.told.distance.unwrap_or(0)).cast_unsigned()
    }
}

/// What a site that only loads or stores does.
pub(super) fn plain_kind(kind: SiteKind) -> Option<AccessKind> {
    match kind {
        SiteKind::Load => Some(AccessKind::Load),
        SiteKind::Store => Some(AccessKind::Store),
        SiteKind::Update => Some(AccessKind::Modify),
        _ => None,
    }
}

/// Whether blocks may begin or end at such a site.
fn changes_blocks(kind: SiteKind) -> bool {
    use SiteKind::{Allocate, AllocateZeroed, Forks, Free, Inherits, Resize, ResizeBegins, Static};
    matches!(kind, Allocate | AllocateZeroed | Resize | ResizeBegins | Free | Static | Forks | Inherits)
}

fn by_site(program: &Program, segment: SegmentId) -> Kept {
    Kept::Sites { changes_blocks: program.sites_of(segment).any(|(_, site)| changes_blocks(site.kind)) }
}

impl Plans {
    /// Goes through all that accesses memory site by site: for who asks for more than addresses.
    pub(super) fn by_site() -> Self {
        Self { all_by_site: true, ..Self::default() }
    }

    pub(super) fn make_room(&mut self, program: &Program, blocks: &Blocks) {
        for site in self.work.len()..program.site_count() {
            let told = program.instructions_per_access(SiteId(site as u32));
            self.work.push(told.map_or(Work::USUAL, Work::of));
        }
        if blocks.follows_calls() && !self.follows_calls {
            self.follows_calls = true;
            for segment in 0..self.segments.len() {
                let id = SegmentId(segment as u32);
                if program.sites_of(id).any(|(_, site)| is_of_calls(site.kind)) {
                    self.segments[segment] = by_site(program, id);
                    self.is_by_site[segment] = true;
                }
            }
        }
        for segment in self.segments.len()..program.segments().len() {
            let kept = self.plan(program, SegmentId(segment as u32));
            self.is_by_site.push(matches!(kept, Kept::Sites { .. }));
            self.segments.push(kept);
        }
    }

    fn plan(&mut self, program: &Program, segment: SegmentId) -> Kept {
        let first = self.loads_and_stores.len();
        for (told, site) in program.sites_of(segment) {
            match (plain_kind(site.kind), site.kind) {
                (Some(kind), _) if !self.all_by_site => {
                    let work = self.work(told.site);
                    self.loads_and_stores.push(PlannedAccess { told, bytes: site.size_bytes, kind, work });
                }
                (None, SiteKind::Untraced | SiteKind::Acquire) => {}
                // Whoever follows them asks for them by themselves.
                (None, SiteKind::Region | SiteKind::Watch | SiteKind::Unwatch | SiteKind::Shared) => {}
                (None, kind) if is_of_calls(kind) && !self.follows_calls => {}
                _ => {
                    self.loads_and_stores.truncate(first);
                    return by_site(program, segment);
                }
            }
        }
        match self.loads_and_stores.len() {
            none if none == first => Kept::Skip,
            end => Kept::LoadsAndStores(first as u32..end as u32),
        }
    }

    /// What is computed with each access of a site that there is room for, which is as usual where code does not tell.
    #[inline]
    pub(super) fn work(&self, site: SiteId) -> Work {
        self.work[site.0 as usize]
    }

    /// The plan of a segment that there is room for.
    #[inline]
    pub(super) fn of(&self, segment: SegmentId) -> Plan {
        match &self.segments[segment.0 as usize] {
            Kept::Skip => Plan::Skip,
            Kept::LoadsAndStores(_) => Plan::LoadsAndStores,
            Kept::Sites { changes_blocks } => Plan::Sites { changes_blocks: *changes_blocks },
        }
    }

    /// Indexes of a segment's loads and stores among those of all, of one that does nothing else; else none.
    #[inline]
    pub(super) fn loads_and_stores(&self, segment: SegmentId) -> Range<usize> {
        match &self.segments[segment.0 as usize] {
            Kept::LoadsAndStores(sites) => sites.start as usize..sites.end as usize,
            Kept::Skip | Kept::Sites { .. } => 0..0,
        }
    }

    /// Whether the plan of a segment that there is room for is [`Plan::Sites`].
    #[inline]
    pub(super) fn is_by_site(&self, segment: SegmentId) -> bool {
        self.is_by_site[segment.0 as usize]
    }
}

/// Forgets what was collected, and hands on each load and store of it: its index as of [`Plans::loads_and_stores`], and the column of
/// its addresses.
#[inline]
pub(super) fn take_each(
    columns: &mut Columns,
    (program, plans): (&Program, &Plans),
    words: &[u64],
    mut each: impl FnMut(usize, &PlannedAccess, Column<'_>),
) {
    columns.take(program, words, |segment, of_segment| {
        let indexes = plans.loads_and_stores(segment);
        for (index, access) in indexes.clone().zip(&plans.loads_and_stores[indexes]) {
            let words = of_segment.column(access.told.word as usize);
            each(index, access, Column { words, distance: access.distance() });
        }
    });
}
