//! The table of groups: data structures as a person would name them, and their objects.

use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};
use slimline_trace::access::{GroupId, ObjectId};
use slimline_trace::address::{Avma, Svma};
use slimline_trace::tables::{Block, StackRow};

use super::call_paths::{CallPath, CallPaths};
use super::sites::Tally;
use super::{Memory, Place, ProcessId, ProcessView, Reason};
use crate::data::address_space::{Found, Loaded, MappingName, Whole};
use crate::data::timed::Extent;
use crate::data::wrappers::WrapperRules;
use crate::module::demangle;
use crate::tables::{Group, GroupKind, Tables};

/// The smallest page of x86-64.
const PAGE_BYTES: u64 = 4096;

/// What makes two objects the same data structure.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum GroupKey {
    /// Heap blocks by the frames of their call path that are the program's own.
    Heap(Rc<[u32]>),
    /// Mappings that the program made, likewise.
    Mapped(Rc<[u32]>),
    /// Heap blocks without call path.
    HeapUnknown,
    /// Heap blocks that were not followed.
    NotFollowed,
    /// A variable, by module and address.
    Static(Rc<str>, Svma),
    /// What no symbol names, by module and section.
    Section(Rc<str>, String),
    /// All stacks.
    Stacks,
    /// Any other mapping, by name.
    Mapping(String),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum ObjectKey {
    /// A small block: process, start, size, call path. Another block at the same place with the same call path is
    /// taken for the same one.
    Block(ProcessId, u64, u64, Option<StackRow>),
    /// Row of the process's ranges.
    Range(ProcessId, usize),
    /// First row of the process's mappings that is a version of it.
    Mapping(ProcessId, usize),
    /// A variable or section: process, group, start.
    Static(ProcessId, GroupId, u64),
}

/// Where a group's type can be asked for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Origin {
    /// The variable of a module at an address.
    Static(usize, Svma),
    /// The call path that allocated it, at that time.
    Path(ProcessId, StackRow, u64),
}

pub(super) struct Groups {
    paths: CallPaths,
    rows: Vec<Group>,
    /// By row; the first one met.
    origins: Vec<Option<Origin>>,
    tallies: Vec<Tally>,
    reasons: Vec<Option<(Reason, Option<usize>)>>,
    /// Of what is counted for no group: accesses that had an address.
    unmapped: Tally,
    by_key: FxHashMap<GroupKey, GroupId>,
    /// Paths that end where unwinding stopped: groups by the frames that are known.
    cut: Vec<(GroupKind, Rc<[u32]>, GroupId)>,
    by_stack: FxHashMap<(ProcessId, Option<StackRow>, GroupKind), GroupId>,
    objects: FxHashMap<ObjectKey, ObjectId>,
    /// Of groups with allocation call paths that were counted.
    alive: FxHashMap<GroupId, Alive>,
    /// Ranges of each group and their bytes.
    large: FxHashMap<GroupId, (u64, u64)>,
    /// Pages of mappings that were used and never seen mapped.
    pages_beyond: FxHashSet<(ObjectId, u64)>,
    identities: FxHashMap<usize, Rc<str>>,
}

/// Most blocks and bytes of a group that were alive at one time: of each of its call paths, so at most that.
#[derive(Clone, Copy, Debug, Default)]
struct Alive {
    counted: u64,
    blocks: u64,
    bytes: u64,
}

/// With fewer blocks counted the objects that were touched tell more: 16 are off by a quarter.
const LEAST_COUNTED: u64 = 16;

impl Groups {
    /// Where accesses go whose address is not known.
    pub(super) const NOWHERE: Place =
        Place { group: Tables::UNATTRIBUTED, object: ObjectId(0), base: 0, memory: Memory::Known };

    pub(super) fn new(rules: WrapperRules) -> Self {
        Self {
            paths: CallPaths::new(rules),
            rows: vec![Group::unattributed()],
            origins: vec![None],
            tallies: vec![Tally::default()],
            reasons: vec![None],
            unmapped: Tally::default(),
            by_key: FxHashMap::default(),
            cut: Vec::new(),
            by_stack: FxHashMap::default(),
            objects: FxHashMap::default(),
            alive: FxHashMap::default(),
            large: FxHashMap::default(),
            pages_beyond: FxHashSet::default(),
            identities: FxHashMap::default(),
        }
    }

    pub(super) fn weigh(&mut self, group: GroupId, weight: u64) {
        let tally = &mut self.tallies[group.index()];
        tally.weight += weight;
        tally.accesses += 1;
    }

    pub(super) fn count(&mut self, group: GroupId) {
        self.tallies[group.index()].accesses += 1;
    }

    /// Notes that an access counted for no group had an address.
    pub(super) fn note_unmapped(&mut self, weight: u64) {
        self.unmapped.weight += weight;
        self.unmapped.accesses += 1;
    }

    /// What was counted of groups that lack something, with the module it is about.
    pub(super) fn unresolved(&self) -> impl Iterator<Item = (Reason, Option<usize>, Tally)> {
        let nowhere = self.tallies[Tables::UNATTRIBUTED.index()];
        let unknown = Tally {
            weight: nowhere.weight - self.unmapped.weight,
            accesses: nowhere.accesses - self.unmapped.accesses,
        };
        let of_groups = self.reasons.iter().zip(&self.tallies);
        of_groups
            .filter_map(|(reason, &tally)| reason.map(|(reason, module)| (reason, module, tally)))
            .chain([(Reason::NoAddress, None, unknown), (Reason::NoMapping, None, self.unmapped)])
    }

    pub(super) fn row_mut(&mut self, group: GroupId) -> &mut Group {
        &mut self.rows[group.index()]
    }

    /// Every group whose type can be asked for.
    pub(super) fn origins(&self) -> Vec<(GroupId, Origin)> {
        (0..).map(GroupId).zip(&self.origins).filter_map(|(id, origin)| Some((id, (*origin)?))).collect()
    }

    /// Takes in what was counted of the call paths of a process, whether an access named them or not.
    pub(super) fn add_paths(&mut self, view: ProcessView<'_, '_>) {
        for path in view.process.tables.paths.iter() {
            let known = self.by_stack.get(&(view.id, Some(path.stack), GroupKind::Heap)).copied();
            let Some(group) = known.or_else(|| self.known_path(view, path.stack)) else { continue };
            let alive = self.alive.entry(group).or_default();
            alive.counted = alive.counted.saturating_add(path.counted);
            alive.blocks = alive.blocks.saturating_add(path.peak_blocks);
            alive.bytes = alive.bytes.saturating_add(path.peak_bytes);
        }
    }

    /// The group that a heap call path would belong to, if there is one: data that was never accessed gets no row.
    fn known_path(&mut self, view: ProcessView<'_, '_>, stack: StackRow) -> Option<GroupId> {
        let path = self.paths.find(view, stack, GroupKind::Heap, 0);
        let key = GroupKey::Heap(Rc::clone(&path.own));
        self.by_key.get(&key).copied().or_else(|| self.joined(&path, GroupKind::Heap))
    }

    pub(super) fn into_rows(mut self) -> Vec<Group> {
        for (group, alive) in self.alive.iter().filter(|(_, alive)| alive.counted >= LEAST_COUNTED) {
            let row = &mut self.rows[group.index()];
            // Large blocks are not among those counted by path.
            let (large, large_bytes) = self.large.get(group).copied().unwrap_or_default();
            let (blocks, bytes) = (alive.blocks.saturating_add(large), alive.bytes.saturating_add(large_bytes));
            row.estimated = blocks > row.objects || bytes > row.bytes || row.partly_followed;
            row.objects = row.objects.max(blocks);
            row.bytes = row.bytes.max(bytes);
        }
        self.rows
    }

    /// The object that a small heap block is.
    pub(super) fn block(&mut self, view: ProcessView<'_, '_>, block: &Block) -> Place {
        let group = self.of_stack(view, block.stack, GroupKind::Heap, 0);
        let key = ObjectKey::Block(view.id, block.base.0, block.bytes, block.stack);
        let place = self.object(key, group, block.base.0, block.bytes);
        let is_small = block.bytes < view.process.tables.followed_bytes;
        self.rows[group.index()].partly_followed |= is_small && !view.process.tables.follows_all;
        let memory = if is_small { Memory::Heap } else { Memory::Known };
        Place { memory, ..place }
    }

    /// Of an address on a page with blocks that are not followed: one of those, where `place` can hold them.
    pub(super) fn unless_cut(&mut self, place: Place) -> Place {
        match place.memory {
            Memory::Known => place,
            Memory::Cut | Memory::Heap => {
                let row = || Group { name: "heap, not followed".to_owned(), ..Group::unattributed() };
                Place { group: self.group(GroupKey::NotFollowed, row), ..Self::NOWHERE }
            }
        }
    }

    /// The group that stands for blocks that are not followed, if there were any.
    pub(super) fn not_followed(&self) -> Option<GroupId> {
        self.by_key.get(&GroupKey::NotFollowed).copied()
    }

    /// The object that an address belongs to, and the extent in which the answer holds.
    pub(super) fn find(&mut self, view: ProcessView<'_, '_>, address: Avma, time_ns: u64) -> (Place, Extent) {
        let (found, valid) = view.process.space.find(address, time_ns);
        let ranges = view.process.tables.ranges;
        match found {
            Found::Block(row) | Found::Mapped(row) | Found::MappedStack(row) => {
                let group = match found {
                    Found::MappedStack(_) => self.stacks(),
                    _ => {
                        let kind = if let Found::Block(_) = found { GroupKind::Heap } else { GroupKind::Mapping };
                        self.of_stack(view, ranges.stack[row], kind, ranges.born_ns[row])
                    }
                };
                let bytes = ranges.bytes[row];
                let known = self.objects.len();
                let place = self.object(ObjectKey::Range(view.id, row), group, ranges.base[row].0, bytes);
                if self.objects.len() > known {
                    let large = self.large.entry(group).or_default();
                    *large = (large.0 + 1, large.1.saturating_add(bytes));
                }
                let memory = if let Found::Mapped(_) = found { Memory::Cut } else { Memory::Known };
                (Place { memory, ..place }, valid)
            }
            Found::Module(loaded) => {
                let (place, extent) = self.of_module(view, loaded, address);
                (place, valid.and(&extent))
            }
            Found::Stack(row) => {
                let group = self.stacks();
                self.of_mapping(view.id, view.process.space.whole(row), group, address, valid)
            }
            Found::Mapping(row) => {
                let name = view.process.space.name(row);
                let memory = match name {
                    MappingName::Anonymous | MappingName::Heap => Memory::Heap,
                    _ => Memory::Known,
                };
                let name = match name {
                    MappingName::Anonymous => "anonymous memory".to_owned(),
                    MappingName::Heap => "[heap]".to_owned(),
                    MappingName::Stack => "[stack]".to_owned(),
                    MappingName::Special(name) | MappingName::File(name) => name.clone(),
                };
                let group = self.group(GroupKey::Mapping(name.clone()), || row_of(&name, GroupKind::Mapping));
                let (place, valid) = self.of_mapping(view.id, view.process.space.whole(row), group, address, valid);
                (Place { memory, ..place }, valid)
            }
            Found::Nothing => (Self::NOWHERE, valid),
        }
    }

    /// A mapping as one object, whatever versions of it there were: it is as large as it was seen, and larger by the
    /// pages used beyond that. How far it grew unseen is not known: an address may as well be a wrong one.
    fn of_mapping(
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

    fn stacks(&mut self) -> GroupId {
        self.group(GroupKey::Stacks, || row_of("stack", GroupKind::Stack))
    }

    /// A module's variable, or its section where no symbol names it.
    fn of_module(&mut self, view: ProcessView<'_, '_>, loaded: Loaded, address: Avma) -> (Place, Extent) {
        let module = view.modules.get(loaded.module);
        let svma = loaded.svma(address);
        let identity = Rc::clone(self.identities.entry(loaded.module).or_insert_with(|| Rc::from(module.identity())));
        if let Some(variable) = module.symbols().variable_at(svma) {
            let bytes = variable.bytes.max(1);
            let key = GroupKey::Static(identity, variable.start);
            let group = self.group(key, || row_of(&demangle(variable.name), GroupKind::Static));
            self.origins[group.index()].get_or_insert(Origin::Static(loaded.module, variable.start));
            let start = variable.start.to_avma(loaded.bias).0;
            let place = self.object(ObjectKey::Static(view.id, group, start), group, start, bytes);
            return (place, Extent { start, end: start.saturating_add(bytes), ..Extent::ALL });
        }
        let (start, end, section) = module
            .image()
            .and_then(|image| image.section_at(svma))
            .map_or((svma, Svma(svma.0 + 1), ""), |section| section);
        let name = format!("{} {section}", module.file_name()).trim_end().to_owned();
        let key = GroupKey::Section(identity, section.to_owned());
        let group = self.group(key, || row_of(&name, GroupKind::Static));
        self.reasons[group.index()] = Some((Reason::NoVariable, Some(loaded.module)));
        let place = self.object(
            ObjectKey::Static(view.id, group, start.to_avma(loaded.bias).0),
            group,
            start.to_avma(loaded.bias).0,
            end.0 - start.0,
        );
        // The next symbol ends what no symbol names.
        let (gap_start, gap_end) = module.symbols().gap_at(svma, start, end);
        let extent =
            Extent { start: gap_start.to_avma(loaded.bias).0, end: gap_end.to_avma(loaded.bias).0, ..Extent::ALL };
        (place, extent)
    }

    /// The group of what was allocated or mapped with a call path.
    fn of_stack(
        &mut self,
        view: ProcessView<'_, '_>,
        stack: Option<StackRow>,
        kind: GroupKind,
        time_ns: u64,
    ) -> GroupId {
        if let Some(&group) = self.by_stack.get(&(view.id, stack, kind)) {
            return group;
        }
        let group = match stack {
            Some(stack) => {
                let group = self.of_path(view, stack, kind, time_ns);
                self.origins[group.index()].get_or_insert(Origin::Path(view.id, stack, time_ns));
                group
            }
            None => {
                let group = self.group(GroupKey::HeapUnknown, || row_of("heap, call path unknown", GroupKind::Heap));
                self.reasons[group.index()] = Some((Reason::NoCallPath, None));
                group
            }
        };
        self.by_stack.insert((view.id, stack, kind), group);
        group
    }

    fn of_path(&mut self, view: ProcessView<'_, '_>, stack: StackRow, kind: GroupKind, time_ns: u64) -> GroupId {
        let path = self.paths.find(view, stack, kind, time_ns);
        let key = match kind {
            GroupKind::Mapping => GroupKey::Mapped(Rc::clone(&path.own)),
            _ => GroupKey::Heap(Rc::clone(&path.own)),
        };
        if let Some(&group) = self.by_key.get(&key) {
            return group;
        }
        let joined = self.joined(&path, kind);
        let group = joined.unwrap_or_else(|| {
            let group = self.push(Group {
                name: path.name.clone(),
                kind,
                allocated_at: path.allocated_at.clone(),
                stack: path.stack.clone(),
                ..Group::unattributed()
            });
            if path.cut {
                self.cut.push((kind, Rc::clone(&path.own), group));
            }
            group
        });
        self.by_key.insert(key, group);
        group
    }

    /// A path that was cut joins the first that goes on as it does, and the other way round. Both may be cut: each of them
    /// shows a different part of a recursion.
    fn joined(&self, path: &CallPath, kind: GroupKind) -> Option<GroupId> {
        let longer = self.by_key.iter().filter(|_| path.cut).filter_map(|(key, &group)| match (key, kind) {
            (GroupKey::Heap(own), GroupKind::Heap) | (GroupKey::Mapped(own), GroupKind::Mapping) => {
                own.starts_with(&path.own).then_some(group)
            }
            _ => None,
        });
        let shorter = self
            .cut
            .iter()
            .filter(|(other, own, _)| *other == kind && path.own.starts_with(own))
            .map(|&(_, _, group)| group);
        longer.chain(shorter).min()
    }

    fn group(&mut self, key: GroupKey, row: impl FnOnce() -> Group) -> GroupId {
        if let Some(&group) = self.by_key.get(&key) {
            return group;
        }
        let group = self.push(row());
        self.by_key.insert(key, group);
        group
    }

    fn push(&mut self, row: Group) -> GroupId {
        self.rows.push(row);
        self.origins.push(None);
        self.tallies.push(Tally::default());
        self.reasons.push(None);
        GroupId(self.rows.len() as u32 - 1)
    }

    /// Object 0 is nowhere; the others are counted through.
    fn object(&mut self, key: ObjectKey, group: GroupId, base: u64, bytes: u64) -> Place {
        let next = ObjectId(self.objects.len() as u32 + 1);
        let object = *self.objects.entry(key).or_insert_with(|| {
            let row = &mut self.rows[group.index()];
            row.object_bytes = if row.objects == 0 || row.object_bytes == bytes { bytes } else { 0 };
            row.objects += 1;
            row.bytes = row.bytes.saturating_add(bytes);
            next
        });
        Place { group, object, base, memory: Memory::Known }
    }
}

fn row_of(name: &str, kind: GroupKind) -> Group {
    Group { name: name.to_owned(), kind, ..Group::unattributed() }
}
