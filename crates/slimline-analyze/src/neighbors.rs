//! Neighbours: which sites take turns on the same element.
//!
//! An outer loop may read one field of an element and its inner loop, or a function it calls, another one. By innermost
//! loops alone the two would never be used together. Windows show it: of the consecutive accesses to a group, those by
//! two sites that fall on the same stretch of the same object again and again belong to one traversal.

use rustc_hash::FxHashMap;
use slimline_trace::access::{GroupId, SiteId};

/// Bytes that count as the same place. Element sizes are not known yet; this is larger than most elements, and a loop
/// that runs on its own leaves it soon.
const STRETCH_BYTES: u64 = 256;

/// How often one site followed another, or itself, on a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Transitions {
    /// The group.
    pub group: GroupId,
    /// The site before.
    pub from: SiteId,
    /// The site after.
    pub to: SiteId,
    /// On the same stretch of the same object; not counted for a site and itself.
    pub near: u64,
    /// Elsewhere.
    pub far: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Neighbors {
    rows: Vec<Transitions>,
    by_pair: FxHashMap<(GroupId, SiteId, SiteId), usize>,
    /// Latest access to each group.
    latest: Vec<Latest>,
    /// The row used last, by the site after.
    memo: Vec<usize>,
    window: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Latest {
    window: u32,
    site: u32,
    object: u32,
    stretch: u64,
}

impl Neighbors {
    pub(crate) fn begin_window(&mut self) {
        self.window += 1;
    }

    #[inline]
    pub(crate) fn row(&mut self, site: SiteId, group: GroupId, object: u32, offset: u64) {
        if group.index() >= self.latest.len() {
            self.latest.resize(group.index() + 1, Latest::default());
        }
        let now = Latest { window: self.window, site: site.0, object, stretch: offset / STRETCH_BYTES };
        let before = std::mem::replace(&mut self.latest[group.index()], now);
        if before.window != now.window {
            return;
        }
        let near = before.object == now.object && before.stretch == now.stretch;
        // A site that stays on its element says nothing; one that goes on measures how long a traversal stays.
        if near && before.site == now.site {
            return;
        }
        let row = self.find(group, SiteId(before.site), site);
        row.near += u64::from(near);
        row.far += u64::from(!near);
    }

    #[inline]
    fn find(&mut self, group: GroupId, from: SiteId, to: SiteId) -> &mut Transitions {
        if to.index() >= self.memo.len() {
            self.memo.resize(to.index() + 1, usize::MAX);
        }
        let memo = self.memo[to.index()];
        let known = self.rows.get(memo).is_some_and(|row| (row.group, row.from, row.to) == (group, from, to));
        let at = if known {
            memo
        } else {
            let rows = &mut self.rows;
            *self.by_pair.entry((group, from, to)).or_insert_with(|| {
                rows.push(Transitions { group, from, to, near: 0, far: 0 });
                rows.len() - 1
            })
        };
        self.memo[to.index()] = at;
        &mut self.rows[at]
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.add(other.rows.into_iter());
    }

    fn add(&mut self, rows: impl Iterator<Item = Transitions>) {
        for from in rows {
            let row = self.find(from.group, from.from, from.to);
            row.near += from.near;
            row.far += from.far;
        }
    }

    /// The rows, those of groups that have another owner as its own.
    pub(crate) fn into_rows(self, owner: impl Fn(GroupId) -> GroupId) -> Vec<Transitions> {
        let mut owned = Self::default();
        owned.add(self.rows.into_iter().map(|row| Transitions { group: owner(row.group), ..row }));
        owned.rows.sort_unstable();
        owned.rows
    }
}
