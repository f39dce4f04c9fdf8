//! From records to accesses that know which object of the heap they are to.
//!
//! An object is a block from when it is allocated until it is freed: what gets its memory afterwards is another one. What is made
//! larger or smaller is another one, too, as it may move. For who asks for their fields ([`ObjectAccesses::with_fields`]), each element of an
//! array of structures is an object of its own.

use rustc_hash::FxHashMap;
use slimline_simulate::access::{Access, AccessKind};
use slimline_simulate::relocated::{BESIDE_OBJECTS, NO_OBJECT, is_object};
use slimline_trace::stream::decode::{Program, SiteId, Visits};
use slimline_trace::stream::is_a_thread_s;
use slimline_trace::stream::sites::{Site, SiteKind};

use super::TraceBatch;
use super::attributed::{MOST_ACCESS_BYTES, address_space};
use super::findings::{Place, allocated_at};
use super::heap::UnknownBlocks;
use super::heap::blocks::Blocks;
use super::heap::live_blocks::{Addresses, Block, BlockNumber, Born, Group, NO_GROUP, Reach};
use super::keyed::{Collected, Written};
use super::object_fields::{Fields, ObjectFields, Pointed};
use super::object_structures::{ObjectStructures, Structured};
use super::owners::{Accessed, Owned, Owners};
use super::plans::{Plans, plain_kind};
use super::spots::{Column, Memory};
use super::unseen::Unseen;
use super::walk::{Accessing, go_through};

/// An object that was accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// Number of its process in the trace.
    pub process: u32,
    /// Address of its first byte, in its process.
    pub start: u64,
    /// Its size.
    pub bytes: u64,
    /// How many blocks its process had allocated, itself among them.
    pub sequence: u32,
    /// And how many of them at its line.
    pub ordinal: u32,
    /// What allocates it, by its place in [`ObjectAccesses::origins`].
    pub origin: u32,
    /// Its place in the array that its block is; none of what is in none, or where nobody asked for fields.
    pub index: Option<u32>,
}

impl Object {
    /// As pointers find it.
    pub fn pointed(&self) -> Pointed {
        Pointed { sequence: self.sequence, index: self.index.unwrap_or(0) }
    }
}

/// What allocates objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectOrigin {
    /// Where.
    pub allocated_at: Place,
    /// The type that is allocated; empty where it is not known.
    pub type_name: String,
    /// By an allocator of the program's own, which is traced: not the C library's, nor what takes its place.
    pub is_of_own_allocator: bool,
    /// The static variable; none of blocks of the heap.
    pub variable: Option<String>,
}

/// Whether an allocator is of the C library, or C++'s or Rust's operators, which ask that for memory.
fn is_of_c_library(allocator: &str) -> bool {
    const NAMES: [&str; 10] = [
        "malloc",
        "calloc",
        "realloc",
        "reallocarray",
        "aligned_alloc",
        "memalign",
        "posix_memalign",
        "valloc",
        "pvalloc",
        "strdup",
    ];
    allocator.starts_with("_Zn") || allocator.contains("__rust_") || NAMES.contains(&allocator)
}

/// Makes accesses of records, in the order in which they come: the key of each is the number of its object, [`NO_OBJECT`] where it is on
/// no heap, or in no block that is known, and [`BESIDE_OBJECTS`] where it is among blocks of the heap.
#[derive(Debug, Default)]
pub struct ObjectAccesses {
    blocks: Blocks,
    plans: Plans,
    threads: FxHashMap<(u32, u32), u32>,
    found: Found,
    unseen: Unseen,
}

/// Objects so far.
#[derive(Debug, Default)]
struct Found {
    collected: Collected,
    objects: Vec<Object>,
    /// Of elements of arrays but the first: by process, sequence and place. All others' are with their blocks.
    elements: FxHashMap<(u32, Pointed), u32>,
    /// None where nobody asked.
    fields: Option<ObjectFields>,
    /// None where nobody asked.
    structures: Option<ObjectStructures>,
    /// None where nobody asked.
    owners: Option<Owners>,
    /// By group: whether its blocks are static variables.
    is_static: Vec<bool>,
    /// The process whose batch it is, and by site what it accessed last there; and of other processes.
    process: u32,
    recent: Vec<(Reach, u32)>,
    recent_of_others: FxHashMap<u32, Vec<(Reach, u32)>>,
}

/// What is at an address.
#[derive(Clone, Copy, Debug)]
struct InBlock {
    /// None in no block of the heap, or before the elements of an array.
    object: Option<Pointed>,
    /// How many blocks its line had allocated.
    ordinal: u32,
    /// Those of the object; else some that are none's.
    addresses: Addresses,
    group: Group,
    /// Of an element of an array.
    index: Option<u32>,
}

/// What is at an address that is in a block of this number, or in a gap: by which groups are static variables, and whether elements of
/// arrays are objects.
fn place(
    (is_static, has_elements): (&[bool], bool),
    memory: &Memory<'_>,
    number: BlockNumber,
    address: u64,
) -> InBlock {
    let Block { start, end, group, content, .. } = memory.live.block(number);
    let whole = Addresses { from: start, bytes: end - start };
    let nothing = InBlock { object: None, ordinal: 0, addresses: Addresses::ALL, group, index: None };
    // One whose group began in this batch is no static variable: those are told beforehand.
    let is_static = is_static.get(group as usize).copied().unwrap_or(false);
    if group == NO_GROUP || is_static {
        return nothing;
    }
    let Born { sequence, ordinal } = memory.live.born(number);
    let array = has_elements.then(|| memory.elements.array(content)).flatten();
    let Some((skipped, bytes)) = array else {
        return InBlock { object: Some(Pointed { sequence, index: 0 }), ordinal, addresses: whole, group, index: None };
    };
    let begins = start + u64::from(skipped);
    let index = address.checked_sub(begins).map(|offset| offset / u64::from(bytes));
    // Before its first element is what the allocator, or C++, keeps there.
    let Some(index) = index.and_then(|index| u32::try_from(index).ok()) else {
        return InBlock { addresses: Addresses { from: start, bytes: skipped.into() }, ..nothing };
    };
    let addresses = Addresses { from: begins + u64::from(index) * u64::from(bytes), bytes: bytes.into() };
    InBlock { object: Some(Pointed { sequence, index }), ordinal, addresses, group, index: Some(index) }
}

impl Found {
    fn make_room(&mut self, program: &Program, blocks: &Blocks, process: u32) {
        if self.process != process {
            let recent = self.recent_of_others.remove(&process).unwrap_or_default();
            self.recent_of_others.insert(self.process, std::mem::replace(&mut self.recent, recent));
            self.process = process;
        }
        self.recent.resize(program.site_count(), (Reach::default(), NO_OBJECT));
        self.collected.make_room(program.segments().len());
        for group in self.is_static.len() as u32..blocks.group_count() {
            self.is_static.push(program.site(blocks.site_of(group)).1.kind == SiteKind::Static);
        }
    }

    /// The object that a site accesses at an address, and until when that is the same.
    fn at(&mut self, memory: &mut Memory<'_>, site: u32, address: u64) -> (Reach, u32) {
        let (reach, object) = self.recent[site as usize];
        if reach.addresses.contain(address) && memory.live.is_current(&reach) {
            return (reach, object);
        }
        let number = memory.live.find(address);
        // Static variables are objects to who asks for structures.
        let is_static = match &mut self.structures {
            Some(structures) => {
                structures.learn(memory, number, (site, address));
                &[][..]
            }
            None => self.is_static.as_slice(),
        };
        let mut reach = memory.live.reach(number);
        let found = place((is_static, self.fields.is_some()), memory, number, address);
        reach.addresses = reach.addresses.of_both(found.addresses);
        let object = match self.number(memory, number, &found) {
            NO_OBJECT if memory.live.block(number).group == NO_GROUP && memory.live.is_beside_blocks(address) => {
                BESIDE_OBJECTS
            }
            object => object,
        };
        if let Some(structures) = &mut self.structures {
            let block = memory.live.block(number);
            let at = address.wrapping_sub(block.start);
            structures.access((object, found.group), block.content, (site, at), memory.elements);
        }
        self.recent[site as usize] = (reach, object);
        (reach, object)
    }

    /// The number of what was found in a block, which is a new one if nobody accessed it yet.
    fn number(&mut self, memory: &mut Memory<'_>, block: BlockNumber, found: &InBlock) -> u32 {
        let InBlock { object: Some(pointed), ordinal, addresses, group, index } = *found else { return NO_OBJECT };
        let process = memory.process;
        let known = match pointed.index {
            0 => memory.live.object(block),
            _ => self.elements.get(&(process, pointed)).copied().unwrap_or(NO_OBJECT),
        };
        if known != NO_OBJECT {
            return known;
        }
        let number = self.objects.len() as u32;
        match pointed.index {
            0 => memory.live.set_object(block, number),
            _ => drop(self.elements.insert((process, pointed), number)),
        }
        let Addresses { from: start, bytes } = addresses;
        self.objects.push(Object { process, start, bytes, sequence: pointed.sequence, ordinal, origin: group, index });
        if let Some(fields) = &mut self.fields {
            fields.add_object(group);
        }
        number
    }

    /// An access that is gone through by its site.
    fn take_in(
        &mut self,
        memory: &mut Memory<'_>,
        object: u32,
        address: u64,
        (id, site): (SiteId, &Site),
        own: &[u64],
    ) {
        let Self { fields: Some(fields), objects, is_static, .. } = self else { return };
        let Object { origin, start, .. } = objects[object as usize];
        fields.access(origin, site.kind);
        // The last of its words.
        if let (Some(_), Ok(offset), Some(&value)) = (site.value, u32::try_from(address - start), own.last()) {
            let mut follow = |address| {
                let number = memory.live.find(address);
                place((is_static, true), memory, number, address).object
            };
            fields.value((object, origin), offset, (id, site), value, &mut follow);
        }
    }
}

/// Makes accesses of one thread's batch.
struct Finding<'a> {
    found: &'a mut Found,
    thread: u32,
    /// The process, as it stands in addresses.
    space: u64,
    written: Written<'a>,
    unseen: &'a mut Unseen,
}

impl Accessing for Finding<'_> {
    fn collect(&mut self, visits: Visits) {
        self.found.collected.collect(visits);
    }

    fn settle(&mut self, by: (&Program, &Plans), batch: &TraceBatch<'_>, memory: &mut Memory<'_>) {
        let mut collected = std::mem::take(&mut self.found.collected);
        let found = &mut *self.found;
        let whose = |site: SiteId, column: Column<'_>, each: &mut dyn FnMut(u32, usize)| {
            let mut at = 0;
            while at < column.words.len() {
                let (reach, object) = found.at(memory, site.0, column.words[at].wrapping_add(column.distance));
                let within = reach.addresses.before(column.distance);
                let same = column.words[at + 1..].iter().take_while(|word| within.contain(**word)).count();
                each(object, same + 1);
                at += same + 1;
            }
        };
        collected.write(by, batch.words, (self.thread, self.space), whose, &mut self.written);
        self.found.collected = collected;
    }

    fn site(&mut self, plans: &Plans, memory: &mut Memory<'_>, id: SiteId, site: &Site, own: &[u64]) {
        let &mut Self { thread, space, .. } = self;
        let work = plans.work(id);
        site.each_access(own, |access_kind, mut address, bytes| {
            // One of nothing is none.
            if bytes == 0 || !self.unseen.is_possible(bytes) {
                return;
            }
            let kind = plain_kind(access_kind).unwrap_or(AccessKind::Load);
            let id = if kind == AccessKind::Load { id.of_loads(site) } else { id };
            let mut left = bytes;
            while left > 0 {
                let (_, key) = self.found.at(memory, id.0, address);
                if self.found.fields.is_some() && is_object(key) {
                    self.found.take_in(memory, key, address, (id, site), own);
                }
                if let Found { owners: Some(owners), objects, .. } = &mut *self.found {
                    let value = site.value.and(own.last().copied());
                    let accessed = Accessed { thread, site: id, kind: access_kind, address, bytes: left, value };
                    let object = is_object(key).then(|| (key, &objects[key as usize]));
                    owners.access(memory.live, object, accessed);
                }
                if let Some(values) = self.found.structures.as_mut().and_then(ObjectStructures::values)
                    && left == bytes
                {
                    values.access(memory, (thread, id, site), (access_kind, address, bytes), own);
                }
                let bytes = left.min(MOST_ACCESS_BYTES);
                let access = Access { address: address ^ space, key, bytes: bytes as u32, thread, kind, work };
                self.found.collected.add(access, self.written.accesses);
                address = address.wrapping_add(bytes);
                left -= bytes;
            }
        });
    }
}

impl ObjectAccesses {
    /// Has seen nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Also tells what the fields of objects hold, where the trace tells values; elements of arrays of structures are objects.
    pub fn with_fields() -> Self {
        let found = Found { fields: Some(ObjectFields::default()), ..Found::default() };
        Self { plans: Plans::by_site(), found, ..Self::default() }
    }

    /// Also tells of which structures objects are ([`Self::structured`]); static variables are objects, too.
    pub fn with_structures() -> Self {
        let found = Found { structures: Some(ObjectStructures::default()), ..Found::default() };
        Self { found, ..Self::default() }
    }

    /// The same, and which of their fields could be narrower, where the trace tells values; numbers of objects are other ones.
    pub fn with_values() -> Self {
        let found = Found { structures: Some(ObjectStructures::with_values()), ..Found::default() };
        Self { plans: Plans::by_site(), found, ..Self::default() }
    }

    /// Also tells whose pointers objects of an earlier reading were found by ([`Self::into_owned`]); numbers of objects are other ones.
    pub fn with_owners(owners: Owners) -> Self {
        let structures = Some(ObjectStructures::default());
        let found = Found { structures, owners: Some(owners), ..Found::default() };
        Self { plans: Plans::by_site(), found, ..Self::default() }
    }

    /// Adds the accesses of a batch, which comes after all that it can know of. `many` is told when there are some thousands, and may
    /// take them.
    pub fn update(
        &mut self,
        program: &Program,
        batch: &TraceBatch<'_>,
        accesses: &mut Vec<Access>,
        many: &mut dyn FnMut(&mut Vec<Access>),
    ) {
        self.blocks.make_room(program);
        self.plans.make_room(program, &self.blocks);
        self.found.make_room(program, &self.blocks, batch.process);
        let next = self.threads.len() as u32;
        // What tells of static variables no thread wrote.
        let thread = match is_a_thread_s(batch.stream) {
            true => *self.threads.entry((batch.process, batch.tid)).or_insert(next),
            false => 0,
        };
        let Self { blocks, plans, found, unseen, .. } = self;
        unseen.make_room(program);
        unseen.visit(batch.visits);
        let (live, allocations, elements) = blocks.of_process(batch.process);
        let mut memory = Memory { process: batch.process, live, elements, parts: None };
        let space = address_space(batch.process);
        let written = Written { accesses, many };
        let mut finding = Finding { found, thread, space, written, unseen };
        go_through((program, plans), batch, allocations, &mut memory, &mut finding);
    }

    /// All objects that were accessed, by number. Numbers say nothing of when: accesses are told in their order.
    pub fn into_objects(self) -> Vec<Object> {
        self.found.objects
    }

    /// The same, and what their fields hold if that was asked for.
    pub fn into_objects_with_fields(self, program: &Program) -> (Vec<Object>, Fields) {
        let fields = self.found.fields.map(|fields| fields.finish(program, &self.blocks)).unwrap_or_default();
        (self.found.objects, fields)
    }

    /// What objects consist of, if that was asked for.
    pub fn structured(&self, program: &Program) -> Structured {
        let structures = self.found.structures.as_ref();
        structures.map_or_else(Structured::default, |of| of.finish(program, &self.blocks, &self.found.objects))
    }

    /// By field that was asked for: whose pointers objects were found by.
    pub fn into_owned(self) -> Vec<Owned> {
        self.found.owners.map(Owners::finish).unwrap_or_default()
    }

    /// What no access was made of.
    pub fn unseen(&self) -> &Unseen {
        &self.unseen
    }

    /// What allocates them, by [`Object::origin`].
    pub fn origins(&self, program: &Program) -> Vec<ObjectOrigin> {
        let mut origins = Vec::new();
        for (group, _) in self.blocks.groups() {
            let (module, site) = program.site(self.blocks.site_of(group));
            let origin = ObjectOrigin {
                allocated_at: allocated_at(module, site).0,
                type_name: module.name(site.structure).to_owned(),
                is_of_own_allocator: self.blocks.is_of_own_allocator(group)
                    && !is_of_c_library(module.name(site.detail)),
                variable: (site.kind == SiteKind::Static).then(|| module.name(site.variable).to_owned()),
            };
            origins.resize(origins.len().max(group as usize + 1), ObjectOrigin::default());
            origins[group as usize] = origin;
        }
        origins
    }

    /// Whether no object was accessed.
    pub fn is_empty(&self) -> bool {
        self.found.objects.is_empty()
    }

    /// How many threads accessed anything, or could have.
    pub fn threads(&self) -> u64 {
        self.threads.len() as u64
    }

    /// Where blocks are not known.
    pub fn unknown_blocks(&self) -> UnknownBlocks {
        self.blocks.unknown()
    }
}

#[cfg(test)]
mod tests {
    use slimline_trace::stream::record::ValueKind;
    use slimline_trace::stream::sites::{Body, Member, ModuleBuilder, Structure};

    use super::super::tests::{program_of, program_with_bodies, visits_of};
    use super::*;

    /// One process's records, by segment: the accesses, and the objects.
    fn seen(program: &Program, run: &[(u32, u32, Vec<u64>)]) -> (Vec<Access>, ObjectAccesses) {
        let (mut made, mut accesses) = (ObjectAccesses::new(), Vec::new());
        for &(process, segment, ref own) in run {
            let (words, visits) = visits_of(program, &[(segment, own.clone())]);
            let batch = TraceBatch { process, tid: 7, visits: &visits, words: &words, ..TraceBatch::default() };
            made.update(program, &batch, &mut accesses, &mut |_| {});
        }
        (accesses, made)
    }

    #[test]
    fn what_gets_the_memory_of_a_freed_block_is_another_object() {
        use SiteKind::{Allocate, Free, Load, Store};
        let program =
            program_of(&[&[Site::new(Allocate, 0)], &[Site::new(Free, 0)], &[Site::new(Load, 8), Site::new(Store, 4)]]);
        let (accesses, made) = seen(
            &program,
            &[
                (0, 0, vec![0x1000, 32]),
                (0, 0, vec![0x2000, 64]),
                // The second one is met first, then the first, then neither.
                (0, 2, vec![0x2038, 0x1000]),
                (0, 2, vec![0x2000, 0x1020]),
                (0, 1, vec![0x1000]),
                (0, 0, vec![0x1000, 16]),
                (0, 2, vec![0x1008, 0x2004]),
                // Another process has the same addresses.
                (1, 0, vec![0x1000, 8]),
                (1, 2, vec![0x1000, 0x20_0000]),
            ],
        );
        let keys: Vec<u32> = accesses.iter().map(|access| access.key).collect();
        assert_eq!(keys, [0, 1, 0, BESIDE_OBJECTS, 2, 0, 3, NO_OBJECT]);
        let object = |process, start, bytes, sequence| Object {
            process,
            start,
            bytes,
            sequence,
            ordinal: sequence,
            origin: 0,
            index: None,
        };
        let expected =
            [object(0, 0x2000, 64, 2), object(0, 0x1000, 32, 1), object(0, 0x1000, 16, 3), object(1, 0x1000, 8, 1)];
        assert_eq!(made.origins(&program).len(), 1);
        assert_eq!(made.into_objects(), expected);
    }

    /// In columns and site by site.
    #[test]
    fn accesses_tell_what_their_loops_compute_with_each() {
        let segments =
            [&[Site::new(SiteKind::Load, 8); 2], &[Site::new(SiteKind::Store, 8), Site::new(SiteKind::Fill, 0)]];
        let loads_and_stores = Body { instructions: 12, sites: vec![1, 2], around: None, is_loop: true };
        let program = program_with_bodies(&segments.map(|of| &of[..]), vec![loads_and_stores]);
        let (accesses, _) = seen(&program, &[(0, 0, vec![0x1000, 0x2000]), (0, 1, vec![0x3000, 0x4000, 8])]);
        let work: Vec<f64> = accesses.iter().map(|access| access.work.instructions()).collect();
        assert_eq!(work, [2.5, 6.0, 6.0, 2.5]);
    }

    #[test]
    fn large_copies_are_whole_and_impossible_ones_are_counted() {
        use SiteKind::{Allocate, Copy, Untraced};
        let program = program_of(&[&[Site::new(Allocate, 0)], &[Site::new(Copy, 0)], &[Site::new(Untraced, 0)]]);
        let (accesses, made) = seen(
            &program,
            &[
                (0, 0, vec![0x1000, 5 << 30]),
                (0, 1, vec![0x1000, 7 << 40, (2 << 30) + 5]),
                (0, 1, vec![0x1000, 7 << 40, 1 << 37]),
                (0, 2, vec![]),
            ],
        );
        let of_object = accesses.iter().filter(|access| access.key == 0);
        assert_eq!(of_object.map(|access| access.bytes).collect::<Vec<_>>(), [1 << 30, 1 << 30, 5]);
        assert_eq!(accesses.iter().map(|access| u64::from(access.bytes)).sum::<u64>(), 2 * ((2 << 30) + 5));
        assert_eq!((made.unseen().oversized(), made.unseen().untraced(&program).len()), (2, 1));
    }

    /// `new node[3]` of a type with a destructor: how many there are stands before the first.
    #[test]
    fn what_cpp_keeps_before_an_array_is_of_no_element() {
        let mut builder = ModuleBuilder::new();
        let [node, key, long, new] = ["node", "key", "long", "_Znam"].map(|name| builder.name(name));
        let member = |offset_bytes| Member { name: key, type_name: long, offset_bytes, size_bytes: 8, structure: None };
        builder.structure(Structure { name: node, size_bytes: 24, members: vec![member(8)], ..Structure::default() });
        let value = Some(ValueKind::Unsigned);
        let of_node =
            Site { structure: node, field: key, offset_bytes: Some(8), value, ..Site::new(SiteKind::Load, 8) };
        builder.segment([Site { structure: node, detail: new, ..Site::new(SiteKind::Allocate, 0) }]);
        builder.segment([Site { value, ..Site::new(SiteKind::Store, 8) }]);
        builder.segment([of_node]);
        let module = builder.finish("a.cc", "a.o", "/", "test");
        let mut program = Program::new();
        program.add(module.encode().0, module);
        let run = [(0, vec![0x1000, 8 + 72]), (1, vec![0x1000, 3]), (2, vec![0x1010, 7]), (2, vec![0x1040, 9])];
        let (words, visits) = visits_of(&program, &run);
        let (mut made, mut accesses) = (ObjectAccesses::with_fields(), Vec::new());
        let batch = TraceBatch { visits: &visits, words: &words, ..TraceBatch::default() };
        made.update(&program, &batch, &mut accesses, &mut |_| {});
        assert_eq!(accesses.iter().map(|access| access.key).collect::<Vec<_>>(), [NO_OBJECT, 0, 1]);
        let (objects, fields) = made.into_objects_with_fields(&program);
        let places: Vec<_> = objects.iter().map(|of| (of.start, of.bytes, of.index)).collect();
        assert_eq!(places, [(0x1008, 24, Some(0)), (0x1038, 24, Some(2))]);
        let [field] = fields.fields.as_slice() else { panic!("{fields:?}") };
        assert_eq!((field.name.as_str(), field.offset), ("node.key", 8));
        assert_eq!([0, 1].map(|place| field.value(place)), [Some(7.0), Some(9.0)]);
    }

    #[test]
    fn structures_are_of_a_language() {
        use slimline_attribute::tables::Language;
        let language = |producer: &str, type_name: &str| {
            let mut builder = ModuleBuilder::new();
            let [node, key, of] = ["node", "key", type_name].map(|name| builder.name(name));
            let member = Member { name: key, type_name: of, offset_bytes: 0, size_bytes: 8, structure: None };
            builder.structure(Structure { name: node, size_bytes: 8, members: vec![member], ..Structure::default() });
            builder.segment([Site { structure: node, ..Site::new(SiteKind::Allocate, 0) }]);
            builder.segment([Site::new(SiteKind::Load, 8)]);
            let module = builder.finish("a", "a.o", "/", producer);
            let mut program = Program::new();
            program.add(module.encode().0, module);
            let (words, visits) = visits_of(&program, &[(0, vec![0x1000, 64]), (1, vec![0x1000])]);
            let mut made = ObjectAccesses::with_structures();
            let batch = TraceBatch { visits: &visits, words: &words, ..TraceBatch::default() };
            made.update(&program, &batch, &mut Vec::new(), &mut |_| {});
            made.structured(&program).structures[0].language
        };
        assert_eq!(language("clang version 19.1.7", "long"), Language::C);
        assert_eq!(language("rustc 1.95.0", "u64"), Language::Rust);
        assert_eq!(language("gcc", "real(kind=8)"), Language::Fortran);
        assert_eq!(language("gcc", "character(len=8)"), Language::Fortran);
    }

    /// As of what `xcalloc(n, sizeof *nodes)` returns.
    #[test]
    fn arrays_are_told_by_what_accesses_them() {
        use super::super::object_structures::{Filled, ObjectStructure};
        let filled = |bytes: u64, accesses: &[(u32, u64)]| {
            let mut builder = ModuleBuilder::new();
            let [node, key, other, long] = ["node", "key", "other", "long"].map(|name| builder.name(name));
            let member =
                |offset_bytes| Member { name: key, type_name: long, offset_bytes, size_bytes: 8, structure: None };
            for (name, size_bytes) in [(node, 24), (other, 16)] {
                builder.structure(Structure { name, size_bytes, members: vec![member(8)], ..Structure::default() });
            }
            let of = |structure, kind| Site { structure, field: key, offset_bytes: Some(8), ..Site::new(kind, 8) };
            builder.segment([Site::new(SiteKind::Allocate, 0)]);
            builder.segment([of(node, SiteKind::Load)]);
            builder.segment([of(node, SiteKind::Store)]);
            builder.segment([of(other, SiteKind::Load)]);
            builder.segment([Site::new(SiteKind::Load, 8)]);
            let module = builder.finish("a.c", "a.o", "/", "test");
            let mut program = Program::new();
            program.add(module.encode().0, module);
            let accesses = accesses.iter().map(|&(segment, at)| (segment, vec![0x1000 + at]));
            let run: Vec<_> = [(0, vec![0x1000, bytes])].into_iter().chain(accesses).collect();
            let (words, visits) = visits_of(&program, &run);
            let (mut made, mut accesses) = (ObjectAccesses::with_structures(), Vec::new());
            let batch = TraceBatch { visits: &visits, words: &words, ..TraceBatch::default() };
            made.update(&program, &batch, &mut accesses, &mut |_| {});
            made.structured(&program).objects[0]
        };
        let array = Some(ObjectStructure { structure: 0, filled: Filled::Array, skipped: 0 });
        assert_eq!(filled(72, &[(1, 8), (2, 8 + 48)]), array);
        // Once is chance; another structure, another place, a pool's header in front, no structure.
        assert_eq!(filled(72, &[(1, 8)]), None);
        assert_eq!(filled(72, &[(1, 8), (2, 32), (3, 8)]), None);
        assert_eq!(filled(72, &[(1, 8), (2, 16)]), None);
        assert_eq!(filled(80, &[(1, 8), (2, 32)]), None);
        assert_eq!(filled(72, &[(1, 8), (2, 32), (4, 0)]), None);
    }

    #[test]
    fn runs_of_one_instruction_meet_object_after_object() {
        let program = program_of(&[&[Site::new(SiteKind::Allocate, 0)], &[Site::new(SiteKind::Load, 8)]]);
        let mut made = ObjectAccesses::new();
        let blocks = [(0, vec![0x1000, 16]), (0, vec![0x1010, 16])];
        let loads = [0x1000, 0x1008, 0x1010, 0x1018, 0x1000, 0x50_0000].map(|at| (1, vec![at]));
        let (words, visits) = visits_of(&program, &[&blocks[..], &loads[..]].concat());
        let batch = TraceBatch { visits: &visits, words: &words, ..TraceBatch::default() };
        let mut accesses = Vec::new();
        made.update(&program, &batch, &mut accesses, &mut |_| {});
        let keys: Vec<u32> = accesses.iter().map(|access| access.key).collect();
        assert_eq!(keys, [0, 0, 1, 1, 0, NO_OBJECT]);
    }
}
