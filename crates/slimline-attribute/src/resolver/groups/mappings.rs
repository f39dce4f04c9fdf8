//! Mappings: what the program had the kernel map, and what is mapped of itself.

use slimline_trace::access::GroupId;
use slimline_trace::address::{Avma, FileOffset};

use super::{GroupKey, Groups, ObjectKey, Origin, row_of};
use crate::data::address_space::{MappingName, Whole};
use crate::data::timed::Extent;
use crate::resolver::{Place, ProcessId, ProcessView};
use crate::tables::GroupKind;

/// The smallest page of x86-64.
const PAGE_BYTES: u64 = 4096;
/// What the kernel calls anonymous memory that is shared.
const SHARED_ANONYMOUS: &str = "/dev/zero (deleted)";
/// Places of one file that are groups of their own.
const MOST_PIECES: usize = 8;

impl Groups {
    /// A mapping as one object, whatever versions of it there were: it is as large as it was seen, and larger by the
    /// pages used beyond that. How far it grew unseen is not known: an address may as well be a wrong one.
    pub(super) fn of_mapping(
        &mut self,
        id: ProcessId,
        whole: Whole,
        group: GroupId,
        address: Avma,
        valid: Extent,
    ) -> (Place, Extent) {
        let place = self.object(ObjectKey::Mapping(id, whole.row), group, whole.base, whole.end - whole.start);
        if (whole.start..whole.end).contains(&address.0) {
            return (place, valid.and(&Extent { start: whole.start, end: whole.end, ..Extent::ALL }));
        }
        let page = address.0 & !(PAGE_BYTES - 1);
        if self.pages_beyond.insert((place.object, page)) {
            let row = &mut self.rows[group.index()];
            row.bytes = row.bytes.saturating_add(PAGE_BYTES);
        }
        (place, valid.and(&Extent { start: page, end: page.saturating_add(PAGE_BYTES), ..Extent::ALL }))
    }

    pub(super) fn other_mapping(&mut self, name: &str) -> GroupId {
        self.group(GroupKey::Mapping(name.to_owned()), || row_of(name, GroupKind::Mapping))
    }

    /// The group of memory that the program had the kernel map: a file's by its path, other by its call path.
    pub(super) fn mapped(&mut self, view: ProcessView<'_, '_>, row: usize) -> GroupId {
        let ranges = view.process.tables.ranges;
        let (stack, born_ns, source) = (ranges.stack[row], ranges.born_ns[row], &ranges.source[row]);
        // `mremap` does not say what it moves: a snapshot may.
        let mapping = || view.process.space.mapping_at(ranges.base[row].0, born_ns);
        let seen =
            || mapping().map(|row| (view.process.space.name(row), view.process.tables.mappings.file_offset[row]));
        let (path, offset) = match (&source.name, seen) {
            (Some(name), _) => (name.clone(), source.file_offset.unwrap_or(FileOffset(0))),
            (None, seen) => match seen() {
                Some((MappingName::File(path), offset)) if path != SHARED_ANONYMOUS => (path.clone(), offset),
                _ => {
                    let is_shared = source.is_shared == Some(true);
                    let kind = if is_shared { GroupKind::SharedMemory } else { GroupKind::Mapping };
                    return self.of_stack(view, stack, kind, born_ns);
                }
            },
        };
        let (group, is_new) = self.file(&path, offset);
        if let Some(stack) = stack.filter(|_| is_new) {
            let found = self.paths.find(view, stack, self.rows[group.index()].kind, born_ns);
            let row = &mut self.rows[group.index()];
            (row.allocated_at, row.stack) = (found.allocated_at(), found.stack());
            self.origins[group.index()] = Some(Origin::File(found.calls));
        }
        group
    }

    /// The group of a mapped file, and whether it is new.
    pub(super) fn file(&mut self, path: &str, offset: FileOffset) -> (GroupId, bool) {
        let key = self.file_key(path, offset);
        let offset = if let GroupKey::File(_, None) = key { FileOffset(0) } else { offset };
        let is_new = !self.by_key.contains_key(&key);
        let (name, kind) = mapped_name(path, offset);
        (self.group(key, || row_of(&name, kind)), is_new)
    }

    /// Programs that map a file piece by piece get one group for all pieces beyond the first few.
    fn file_key(&mut self, path: &str, offset: FileOffset) -> GroupKey {
        let key = GroupKey::File(path.to_owned(), Some(offset));
        if self.by_key.contains_key(&key) {
            return key;
        }
        let pieces = self.pieces.entry(path.to_owned()).or_default();
        if *pieces < MOST_PIECES {
            *pieces += 1;
            return key;
        }
        GroupKey::File(path.to_owned(), None)
    }
}

/// Name and kind of what is mapped from a path, as the kernel has it.
fn mapped_name(path: &str, offset: FileOffset) -> (String, GroupKind) {
    let is_shared_memory = ["/dev/shm/", "/memfd:", "/SYSV"].iter().any(|start| path.starts_with(start));
    let plain = path.trim_end_matches(" (deleted)");
    let name = if plain.starts_with("/dev/") { plain } else { plain.rsplit('/').next().unwrap_or(plain) };
    let name = if offset.0 == 0 { name.to_owned() } else { format!("{name} at {offset}") };
    let kind = if is_shared_memory || path == SHARED_ANONYMOUS { GroupKind::SharedMemory } else { GroupKind::File };
    (name, kind)
}
