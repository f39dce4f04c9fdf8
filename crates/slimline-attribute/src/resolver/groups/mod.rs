//! The table of groups: data structures as a person would name them, and their objects.

mod alive;
mod chunk_sizes;
mod dynamic_storage;
mod mappings;
mod not_followed;
mod variables;

use std::rc::Rc;

use rustc_hash::{FxHashMap, FxHashSet};
use slimline_trace::access::{GroupId, ObjectId};
use slimline_trace::address::{Avma, FileOffset, Svma};
use slimline_trace::tables::{Block, RangeOrigin, StackRow};

use super::call_paths::CallPaths;
use super::path_tree::PathTree;
use super::sites::Tally;
use super::unlike::{Call, Unlike};
use super::{Memory, Place, ProcessId, ProcessView, Reason};
use crate::data::address_space::{Found, MappingName};
use crate::data::shared_memory::SharedObject;
use crate::data::timed::Extent;
use crate::data::wrappers::WrapperRules;
use crate::tables::{Amount, Group, GroupKind, Tables};
use crate::typing::frame::FrameLayout;
use alive::{Alive, most_alive};
use chunk_sizes::ChunkSize;
pub(super) use chunk_sizes::{Fit, Sizes};
use dynamic_storage::Held;

/// What makes two objects the same data structure.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum GroupKey {
    /// Heap blocks without call path.
    HeapUnknown,
    /// Heap blocks that were not followed: of so many usable bytes, where that is known.
    NotFollowed(Option<u64>),
    /// What the allocator keeps in front of each block.
    BoundaryTags,
    /// What has no address.
    Lost,
    /// A variable, by module and address.
    Static(Rc<str>, Svma),
    /// A thread-local variable, by module and place in its block.
    ThreadLocal(Rc<str>, Svma),
    /// Thread-local storage that no symbol names, by name.
    Storage(String),
    /// What no symbol names, by module and section.
    Section(Rc<str>, String),
    /// A variable in a function's frame, by module, function and number.
    Local(Rc<str>, Svma, usize),
    /// The rest of all frames: numbers and saved registers.
    Stacks,
    /// Stacks, where no frame is known.
    Frameless,
    /// A mapped file or named shared memory: path, and where in it the mapping begins, unless there are many such places.
    File(String, Option<FileOffset>),
    /// Any other mapping, by name.
    Mapping(String),
    /// What an imported file names by itself.
    Named(String),
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
    /// Memory that processes share, by its number in all of them and its offset there.
    Shared(GroupId, usize, u64),
    /// A child's copy of a range of its parent's: start and size.
    Inherited(GroupId, u64, u64),
    /// A variable or section: process, group, start.
    Static(ProcessId, GroupId, u64),
    /// A part of a range, as a variable in a thread's storage: process, row of the ranges, start.
    InRange(ProcessId, usize, u64),
}

/// Where a group's type can be asked for.
#[derive(Clone, Debug)]
pub(super) enum Origin {
    /// The variable of a module at an address.
    Static(usize, Svma),
    /// The thread-local variable of a module at a place in its block.
    ThreadLocal(usize, Svma),
    /// The variable of a module in a frame, by number.
    Local(usize, Rc<FrameLayout>, usize),
    /// The call path that allocated it.
    Path(Rc<[Call]>),
    /// The call path that mapped a file, which has a name of its own.
    File(Rc<[Call]>),
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
    /// Heap blocks by the frames of their call path that are the program's own.
    heap: PathTree,
    /// Mappings that the program made, likewise; and those that are shared.
    mapped: PathTree,
    shared: PathTree,
    unlike: Unlike,
    by_stack: FxHashMap<(ProcessId, Option<StackRow>, GroupKind), GroupId>,
    /// For whose thread-local variables a call path had the dynamic linker allocate.
    dynamic_storage: FxHashMap<(ProcessId, StackRow), Option<usize>>,
    objects: FxHashMap<ObjectKey, ObjectId>,
    /// Memory that processes share.
    shared_objects: FxHashMap<SharedObject, usize>,
    /// Bytes of each object of it, as in the process that maps most.
    shared_bytes: FxHashMap<ObjectId, u64>,
    /// What children have copies of, each once.
    inherited: FxHashMap<GroupId, Amount>,
    /// Of groups with allocation call paths that were counted.
    alive: FxHashMap<GroupId, Alive>,
    /// Groups of which small heap blocks were touched.
    has_small: FxHashSet<GroupId>,
    /// Of groups whose blocks were followed.
    sizes: FxHashMap<GroupId, Sizes>,
    /// Lives of the large heap blocks of each group: when it began, when it ended, bytes.
    large: FxHashMap<GroupId, Vec<(u64, u64, u64)>>,
    /// Pages of mappings that were used and never seen mapped.
    pages_beyond: FxHashSet<(ObjectId, u64)>,
    identities: FxHashMap<usize, Rc<str>>,
    /// Places of each mapped file that are groups of their own.
    pieces: FxHashMap<String, usize>,
}

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
            heap: PathTree::default(),
            mapped: PathTree::default(),
            shared: PathTree::default(),
            unlike: Unlike::default(),
            by_stack: FxHashMap::default(),
            dynamic_storage: FxHashMap::default(),
            objects: FxHashMap::default(),
            shared_objects: FxHashMap::default(),
            shared_bytes: FxHashMap::default(),
            inherited: FxHashMap::default(),
            alive: FxHashMap::default(),
            has_small: FxHashSet::default(),
            sizes: FxHashMap::default(),
            large: FxHashMap::default(),
            pages_beyond: FxHashSet::default(),
            identities: FxHashMap::default(),
            pieces: FxHashMap::default(),
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

    pub(super) fn row(&self, group: GroupId) -> &Group {
        &self.rows[group.index()]
    }

    pub(super) fn row_mut(&mut self, group: GroupId) -> &mut Group {
        &mut self.rows[group.index()]
    }

    /// The rules that call paths are told by.
    pub(super) fn rules(&self) -> &WrapperRules {
        self.paths.rules()
    }

    /// Every group whose type can be asked for.
    pub(super) fn origins(&self) -> Vec<(GroupId, Origin)> {
        (0..).map(GroupId).zip(&self.origins).filter_map(|(id, origin)| Some((id, origin.clone()?))).collect()
    }

    /// What is known of call paths.
    pub(super) fn call_paths(&mut self) -> &mut CallPaths {
        &mut self.paths
    }

    /// Takes in what was counted of the call paths of a process, whether an access named them or not.
    pub(super) fn add_paths(&mut self, view: ProcessView<'_, '_>) {
        let mut known = FxHashMap::default();
        for path in view.process.tables.paths.iter() {
            let Some(group) = self.known_path(view, path.stack, &mut known) else { continue };
            let alive = self.alive.entry(group).or_default();
            alive.counted = alive.counted.saturating_add(path.counted);
            alive.blocks = alive.blocks.saturating_add(path.peak_blocks);
            alive.bytes = alive.bytes.saturating_add(path.peak_bytes);
        }
        let ranges = view.process.tables.ranges;
        let is_heap = |row: usize| matches!(ranges.origin[row], RangeOrigin::Heap | RangeOrigin::InnerHeap);
        // A child's copies are its parent's.
        for row in (0..ranges.len()).filter(|&row| is_heap(row) && !view.process.is_inherited(row)) {
            let Some(stack) = ranges.stack[row] else { continue };
            if let Some(group) = self.known_path(view, stack, &mut known) {
                let life = (ranges.born_ns[row], ranges.died_ns[row].unwrap_or(u64::MAX), ranges.bytes[row]);
                self.large.entry(group).or_default().push(life);
            }
        }
    }

    /// The group that a heap call path would belong to, if there is one.
    /// `known` are the answers for the process.
    fn known_path(
        &mut self,
        view: ProcessView<'_, '_>,
        stack: StackRow,
        known: &mut FxHashMap<StackRow, Option<GroupId>>,
    ) -> Option<GroupId> {
        *known.entry(stack).or_insert_with(|| {
            self.by_stack.get(&(view.id, Some(stack), GroupKind::Heap)).copied().or_else(|| {
                let path = self.paths.find(view, stack, GroupKind::Heap, 0);
                let first = self.heap.find(&path.own, path.is_cut)?;
                self.unlike.find(view.modules, first, &path.inner)
            })
        })
    }

    pub(super) fn into_rows(mut self) -> Vec<Group> {
        for (group, Amount { objects, bytes }) in std::mem::take(&mut self.inherited) {
            let row = &mut self.rows[group.index()];
            row.objects = row.objects.max(objects);
            row.bytes = row.bytes.max(bytes);
        }
        let groups: FxHashSet<GroupId> = self.alive.keys().chain(self.large.keys()).copied().collect();
        for group in groups {
            let row = &mut self.rows[group.index()];
            let alive = self.alive.get(&group).copied().unwrap_or_default();
            // Large blocks are not among those counted by path.
            let most_large = most_alive(self.large.get(&group).map_or(&[], Vec::as_slice));
            row.alive = alive.with(self.has_small.contains(&group), most_large);
            if let Some(Amount { objects, bytes }) = row.alive.filter(|of| *of != most_large) {
                row.estimated = objects > row.objects || bytes > row.bytes || row.partly_followed;
                row.objects = row.objects.max(objects);
                row.bytes = row.bytes.max(bytes);
            }
        }
        self.rows
    }

    /// The object in a small heap block: the block, or a variable where it is a thread's storage. And whether it is all of the block.
    pub(super) fn in_block(&mut self, view: ProcessView<'_, '_>, block: &Block, address: Avma) -> (Place, bool) {
        match self.in_small_storage(view, block, address) {
            Some(Held::Storage(variable, _)) => (variable, false),
            // What lies in padding says nothing of the rest.
            Some(Held::Padding(_)) => (self.block(view, block), false),
            None => (self.block(view, block), true),
        }
    }

    /// The object that a small heap block is.
    fn block(&mut self, view: ProcessView<'_, '_>, block: &Block) -> Place {
        let group = self.of_stack(view, block.stack, GroupKind::Heap, 0);
        let key = ObjectKey::Block(view.id, block.base.0, block.bytes, block.stack);
        let place = self.object(key, group, block.base.0, block.bytes);
        self.has_small.insert(group);
        self.sizes.entry(group).or_default().add(ChunkSize::of(block.bytes), 1 + block.chance.others());
        let is_small = block.bytes < view.process.tables.followed_bytes;
        self.rows[group.index()].partly_followed |= is_small && !view.process.tables.follows_all;
        let memory = if is_small { Memory::Sample } else { Memory::Known };
        Place { memory, ..place }
    }

    /// Where a sample goes whose instruction is known and whose address is not.
    pub(super) fn lost(&mut self) -> Place {
        let row = || Group { name: "address not known".to_owned(), ..Group::unattributed() };
        let group = self.group(GroupKey::Lost, row);
        self.lacks(group, Reason::NoAddress, None);
        Place { group, ..Self::NOWHERE }
    }

    /// The group of those, if there were any.
    pub(super) fn lost_group(&self) -> Option<GroupId> {
        self.by_key.get(&GroupKey::Lost).copied()
    }

    /// Whether a group is an object that has a name.
    pub(super) fn is_named(&self, group: GroupId) -> bool {
        let row = self.row(group);
        row.kind != GroupKind::Unattributed && row.nameless.is_none()
    }

    /// The same as [`Self::find`] says, and whether that is cut into blocks: a large block or a static array, too, may be what an
    /// allocator makes its blocks of.
    pub(super) fn find_cut(&mut self, view: ProcessView<'_, '_>, address: Avma, time_ns: u64) -> (Place, Extent) {
        let (place, extent) = self.find(view, address, time_ns);
        let is_cut = place.memory == Memory::Known && view.process.has_followed(&extent);
        (Place { memory: if is_cut { Memory::Cut } else { place.memory }, ..place }, extent)
    }

    /// The object that an address belongs to, and the extent in which the answer holds.
    pub(super) fn find(&mut self, view: ProcessView<'_, '_>, address: Avma, time_ns: u64) -> (Place, Extent) {
        if let Some(name) = view.process.names.variable_at(address) {
            return self.named(view, name);
        }
        let (found, valid) = view.process.space.find(address, time_ns);
        let ranges = view.process.tables.ranges;
        match found {
            Found::ThreadLocal(row) => {
                let (place, extent) = self.thread_local(view, row, address);
                (place, valid.and(&extent))
            }
            Found::Block(row) | Found::Mapped(row) | Found::MappedStack(row) => {
                let is_block = matches!(found, Found::Block(_));
                let valid = match is_block.then(|| self.in_large_storage(view, row, address)).flatten() {
                    Some(Held::Storage(place, extent)) => return (place, valid.and(&extent)),
                    Some(Held::Padding(extent)) => valid.and(&extent),
                    None => valid,
                };
                let group = match found {
                    Found::MappedStack(_) => self.stacks(),
                    Found::Mapped(_) => self.mapped(view, row),
                    _ => self.of_stack(view, ranges.stack[row], GroupKind::Heap, ranges.born_ns[row]),
                };
                let (base, bytes) = (ranges.base[row].0, ranges.bytes[row]);
                let place = match view.process.shared.at(base, time_ns) {
                    Some((object, offset)) if !is_block => self.shared((group, object, offset), base, bytes),
                    _ if view.process.is_inherited(row) => self.inherited(group, base, bytes),
                    _ => self.object(ObjectKey::Range(view.id, row), group, base, bytes),
                };
                let memory = match found {
                    Found::Mapped(_) if self.rows[group.index()].kind == GroupKind::Mapping => Memory::Cut,
                    Found::MappedStack(_) => Memory::Stack,
                    _ => Memory::Known,
                };
                (Place { memory, ..place }, valid)
            }
            Found::Module(loaded) => {
                let (place, extent) = self.of_module(view, loaded, address);
                (place, valid.and(&extent))
            }
            Found::Stack(row) => {
                let group = self.stacks();
                let (place, valid) = self.of_mapping(view.id, view.process.space.whole(row), group, address, valid);
                (Place { memory: Memory::Stack, ..place }, valid)
            }
            Found::Mapping(row) => {
                let name = view.process.space.name(row);
                let memory = match name {
                    MappingName::Anonymous | MappingName::Heap => Memory::Cut,
                    _ => Memory::Known,
                };
                let group = match name {
                    MappingName::Anonymous => self.other_mapping("anonymous memory"),
                    MappingName::Heap => self.other_mapping("[heap]"),
                    MappingName::Stack => self.other_mapping("[stack]"),
                    MappingName::Special(name) => self.other_mapping(name),
                    MappingName::File(path) => {
                        let offset = view.process.tables.mappings.file_offset[row];
                        self.file(path, offset).0
                    }
                };
                if memory == Memory::Cut {
                    self.lacks(group, Reason::UnseenMapping, None);
                }
                let whole = view.process.space.whole(row);
                if let Some((object, offset)) = view.process.shared.at(whole.start, time_ns) {
                    let place = self.shared((group, object, offset), whole.start, whole.end - whole.start);
                    return (Place { memory, ..place }, valid);
                }
                let (place, valid) = self.of_mapping(view.id, whole, group, address, valid);
                (Place { memory, ..place }, valid)
            }
            Found::Nothing => (Self::NOWHERE, valid),
        }
    }

    /// Notes that a group stands for no object that one could name, and the module that this is about.
    fn lacks(&mut self, group: GroupId, reason: Reason, module: Option<usize>) {
        self.reasons[group.index()] = Some((reason, module));
        self.rows[group.index()].nameless = Some(reason);
    }

    fn stacks(&mut self) -> GroupId {
        self.group(GroupKey::Stacks, || row_of("stack", GroupKind::Stack))
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
            Some(stack) => self.of_path(view, stack, kind, time_ns),
            None => {
                let group = self.group(GroupKey::HeapUnknown, || row_of("heap, call path unknown", GroupKind::Heap));
                self.lacks(group, Reason::NoCallPath, None);
                group
            }
        };
        self.by_stack.insert((view.id, stack, kind), group);
        group
    }

    fn of_path(&mut self, view: ProcessView<'_, '_>, stack: StackRow, kind: GroupKind, time_ns: u64) -> GroupId {
        let path = self.paths.find(view, stack, kind, time_ns);
        let first = self.tree(kind).find(&path.own, path.is_cut);
        let known = first.and_then(|first| self.unlike.find(view.modules, first, &path.inner));
        let group = known.unwrap_or_else(|| {
            let group = self.push(Group {
                name: path.name(),
                kind,
                allocated_at: path.allocated_at(),
                stack: path.stack(),
                ..Group::unattributed()
            });
            self.unlike.insert(view.modules, first.unwrap_or(group), group, &path.inner);
            self.origins[group.index()] = Some(Origin::Path(Rc::clone(&path.calls)));
            group
        });
        self.tree(kind).insert(&path.own, first.unwrap_or(group), path.is_cut && first.is_none());
        group
    }

    fn tree(&mut self, kind: GroupKind) -> &mut PathTree {
        match kind {
            GroupKind::Mapping => &mut self.mapped,
            GroupKind::SharedMemory => &mut self.shared,
            _ => &mut self.heap,
        }
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

    /// Memory that processes share: one object, as large as the process has it that maps most.
    fn shared(&mut self, (group, object, offset): (GroupId, &SharedObject, u64), base: u64, bytes: u64) -> Place {
        let next = self.shared_objects.len();
        let number = match self.shared_objects.get(object) {
            Some(&number) => number,
            None => *self.shared_objects.entry(object.clone()).or_insert(next),
        };
        let place = self.object(ObjectKey::Shared(group, number, offset), group, base, bytes);
        let known = self.shared_bytes.entry(place.object).or_insert(bytes);
        if let Some(more) = bytes.checked_sub(*known).filter(|more| *more > 0) {
            *known = bytes;
            let row = &mut self.rows[group.index()];
            row.bytes = row.bytes.saturating_add(more);
            row.object_bytes = if row.objects == 1 { bytes } else { 0 };
        }
        place
    }

    /// A child's copy of what its parent has: it adds nothing to what the parent's own add, but counts where nobody else was seen to use
    /// those.
    fn inherited(&mut self, group: GroupId, base: u64, bytes: u64) -> Place {
        let next = ObjectId(self.objects.len() as u32 + 1);
        let inherited = &mut self.inherited;
        let object = *self.objects.entry(ObjectKey::Inherited(group, base, bytes)).or_insert_with(|| {
            let of_group = inherited.entry(group).or_default();
            of_group.objects += 1;
            of_group.bytes = of_group.bytes.saturating_add(bytes);
            next
        });
        Place { group, object, base, memory: Memory::Known }
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
