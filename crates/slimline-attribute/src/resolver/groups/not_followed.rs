//! Heap blocks that were not followed, and the groups that may own them.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use slimline_trace::access::GroupId;
use slimline_trace::tables::{Block, PathTotal};
use slimline_trace::wire::TAG_BYTES;

use super::chunk_sizes::{ChunkSize, Sizes};
use super::{GroupKey, Groups, ObjectKey, alive, row_of};
use crate::resolver::{Memory, Place, ProcessView, Reason};
use crate::tables::{Group, GroupKind};

impl Groups {
    /// Where an address lies that may be in a block which was not followed: there, if `place` can hold such blocks, else in
    /// `place`.
    pub(in crate::resolver) fn in_passed_over(
        &mut self,
        view: ProcessView<'_, '_>,
        block: &Block,
        place: Place,
    ) -> Place {
        if matches!(place.memory, Memory::Known | Memory::Stack) {
            return place;
        }
        match block.usable_bytes() {
            Some(usable_bytes) => self.passed_over(view, block, usable_bytes),
            None => Place { group: self.not_followed_group(None), ..Self::NOWHERE },
        }
    }

    /// The object that a block is which was passed over and has so many usable bytes, or the allocator's tag of one.
    fn passed_over(&mut self, view: ProcessView<'_, '_>, block: &Block, usable_bytes: u64) -> Place {
        let group = match usable_bytes {
            TAG_BYTES => self.group(GroupKey::BoundaryTags, || row_of("malloc's boundary tags", GroupKind::Heap)),
            _ => self.not_followed_group(Some(usable_bytes)),
        };
        self.object(ObjectKey::Block(view.id, block.base.0, usable_bytes, None), group, block.base.0, usable_bytes)
    }

    fn not_followed_group(&mut self, usable_bytes: Option<u64>) -> GroupId {
        let name = || match usable_bytes {
            Some(bytes) => format!("heap, not followed, {bytes} bytes"),
            None => "heap, not followed".to_owned(),
        };
        let row = || Group { name: name(), ..Group::unattributed() };
        let group = self.group(GroupKey::NotFollowed(usable_bytes), row);
        self.lacks(group, Reason::NotFollowed, None);
        group
    }

    /// The group that stands for blocks that are not followed and whose bounds are not known, if there were any.
    pub(in crate::resolver) fn not_followed(&self) -> Option<GroupId> {
        self.by_key.get(&GroupKey::NotFollowed(None)).copied()
    }

    /// The groups that stand for those whose usable size is known.
    pub(in crate::resolver) fn passed_over_by_size(&self) -> BTreeMap<u64, GroupId> {
        let sized = self.by_key.iter().filter_map(|(key, &group)| match key {
            GroupKey::NotFollowed(bytes) => bytes.map(|bytes| (bytes, group)),
            _ => None,
        });
        sized.collect()
    }

    /// Notes the sizes of the blocks of each group in a process. A call path without a group gets one if its blocks have a size
    /// of which some were passed over: their accesses may be its own.
    pub(in crate::resolver) fn add_sizes(&mut self, view: ProcessView<'_, '_>) {
        let wanted = self.passed_over_by_size();
        if wanted.is_empty() {
            return;
        }
        // Accesses without an owner are in one row, whatever their size.
        self.not_followed_group(None);
        let paths = view.process.tables.paths;
        for path in paths.iter() {
            let is_wanted =
                |bytes| ChunkSize::of(bytes).usable_bytes().iter().any(|usable| wanted.contains_key(usable));
            if bytes_of_each(&path).is_some_and(is_wanted) {
                self.of_stack(view, Some(path.stack), GroupKind::Heap, 0);
            }
        }
        let mut known = FxHashMap::default();
        for path in paths.iter() {
            let Some(group) = self.known_path(view, path.stack, &mut known) else { continue };
            match bytes_of_each(&path) {
                Some(bytes) => self.add_size(group, bytes, path.peak_blocks),
                None => self.sizes.entry(group).or_default().are_mixed = true,
            }
        }
    }

    /// Notes that a call path of a group has so many blocks of that size.
    fn add_size(&mut self, group: GroupId, bytes: u64, blocks: u64) {
        let row = &mut self.rows[group.index()];
        let sizes = self.sizes.entry(group).or_default();
        if row.objects == 0 {
            let is_same = sizes.are_none() || row.object_bytes == bytes;
            row.object_bytes = if is_same && !sizes.are_mixed { bytes } else { 0 };
            row.partly_followed = true;
            self.has_small.insert(group);
        }
        sizes.add(ChunkSize::of(bytes), blocks);
    }

    pub(in crate::resolver) fn sizes_of(&self, group: GroupId) -> Option<&Sizes> {
        self.sizes.get(&group)
    }

    /// The sizes of each group's blocks, as far as they are known.
    pub(in crate::resolver) fn sizes(&self) -> impl Iterator<Item = (GroupId, &Sizes)> {
        self.sizes.iter().map(|(&group, sizes)| (group, sizes))
    }
}

/// The size of each of a call path's blocks, if all can have one. The mean of few says little.
fn bytes_of_each(path: &PathTotal) -> Option<u64> {
    let each = path.peak_bytes.checked_div(path.peak_blocks)?;
    let are_alike = each.checked_mul(path.peak_blocks) == Some(path.peak_bytes);
    (are_alike && path.counted >= alive::LEAST_COUNTED).then_some(each)
}
