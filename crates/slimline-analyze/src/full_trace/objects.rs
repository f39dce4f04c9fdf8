//! From records to accesses that know which object of the heap they are to.
//!
//! An object is a block from when it is allocated until it is freed: what gets its memory afterwards is another one. What is made
//! larger or smaller is another one, too, as it may move.

use rustc_hash::FxHashMap;
use slimline_simulate::access::{Access, AccessKind};
use slimline_trace::stream::decode::{Program, SiteId, Visits};
use slimline_trace::stream::is_a_thread_s;
use slimline_trace::stream::sites::{Site, SiteKind};

use super::TraceBatch;
use super::attributed::{MOST_ACCESS_BYTES, MOST_BYTES, address_space};
use super::findings::{Place, allocated_at};
use super::heap::blocks::Blocks;
use super::heap::live_blocks::{Block, Group, NO_GROUP, Reach};
use super::keyed::{Collected, Written};
use super::plans::{Plans, plain_kind};
use super::spots::{Column, Memory};
use super::walk::{Accessing, go_through};

/// In the place of an object's number: what is accessed is on no heap, or in no block that is known.
pub const NO_OBJECT: u32 = u32::MAX;

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
    /// What allocates it, by its place in [`ObjectAccesses::origins`].
    pub origin: u32,
}

/// What allocates objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectOrigin {
    /// Where.
    pub allocated_at: Place,
    /// The type that is allocated; empty where it is not known.
    pub type_name: String,
}

/// Makes accesses of records, in the order in which they come: the key of each is the number of its object, or [`NO_OBJECT`].
#[derive(Debug, Default)]
pub struct ObjectAccesses {
    blocks: Blocks,
    plans: Plans,
    threads: FxHashMap<(u32, u32), u32>,
    found: Found,
}

/// Objects so far.
#[derive(Debug, Default)]
struct Found {
    collected: Collected,
    objects: Vec<Object>,
    /// By process and sequence.
    numbers: FxHashMap<(u32, u32), u32>,
    /// By group: whether its blocks are static variables.
    is_static: FxHashMap<Group, bool>,
    /// The process that was seen last, and by site what it accessed last there.
    process: u32,
    recent: Vec<(Reach, u32)>,
}

impl Found {
    fn make_room(&mut self, program: &Program, blocks: &Blocks, process: u32) {
        if self.process != process {
            self.process = process;
            self.recent.clear();
        }
        self.recent.resize(program.site_count(), (Reach::default(), NO_OBJECT));
        self.collected.make_room(program.segments().len());
        for (group, _) in blocks.groups() {
            let is_static = || program.site(blocks.site_of(group)).1.kind == SiteKind::Static;
            self.is_static.entry(group).or_insert_with(is_static);
        }
    }

    /// The object that a site accesses at an address, and until when that is the same.
    fn at(&mut self, memory: &mut Memory<'_>, site: u32, address: u64) -> (Reach, u32) {
        let (reach, object) = self.recent[site as usize];
        if reach.addresses.contain(address) && memory.live.is_current(&reach) {
            return (reach, object);
        }
        let number = memory.live.find(address);
        let (block, sequence) = (memory.live.block(number), memory.live.born(number));
        let found = (memory.live.reach(number), self.number(memory.process, block, sequence));
        self.recent[site as usize] = found;
        found
    }

    fn number(&mut self, process: u32, block: Block, sequence: u32) -> u32 {
        // One whose group began in this batch is no static variable: those are told beforehand.
        let is_static = self.is_static.get(&block.group).copied().unwrap_or(false);
        if block.group == NO_GROUP || is_static {
            return NO_OBJECT;
        }
        let Block { start, end, group, .. } = block;
        let objects = &mut self.objects;
        *self.numbers.entry((process, sequence)).or_insert_with(|| {
            objects.push(Object { process, start, bytes: end - start, sequence, origin: group });
            objects.len() as u32 - 1
        })
    }
}

/// Makes accesses of one thread's batch.
struct Finding<'a> {
    found: &'a mut Found,
    thread: u32,
    /// The process, as it stands in addresses.
    space: u64,
    written: Written<'a>,
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

    fn site(&mut self, memory: &mut Memory<'_>, id: SiteId, site: &Site, own: &[u64]) {
        site.each_access(own, |kind, address, bytes| {
            if bytes == 0 || bytes > MOST_BYTES {
                return;
            }
            let kind = plain_kind(kind).unwrap_or(AccessKind::Load);
            let id = if kind == AccessKind::Load { id.of_loads(site) } else { id };
            let (_, key) = self.found.at(memory, id.0, address);
            let bytes = bytes.min(MOST_ACCESS_BYTES) as u32;
            let access = Access { address: address ^ self.space, key, bytes, thread: self.thread, kind };
            self.found.collected.add(access, self.written.accesses);
        });
    }
}

impl ObjectAccesses {
    /// Has seen nothing.
    pub fn new() -> Self {
        Self::default()
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
        self.plans.make_room(program, &self.blocks);
        self.blocks.make_room(program);
        self.found.make_room(program, &self.blocks, batch.process);
        let next = self.threads.len() as u32;
        // What tells of static variables no thread wrote.
        let thread = match is_a_thread_s(batch.stream) {
            true => *self.threads.entry((batch.process, batch.tid)).or_insert(next),
            false => 0,
        };
        let Self { blocks, plans, found, .. } = self;
        let (live, allocations, elements) = blocks.of_process(batch.process);
        let mut memory = Memory { process: batch.process, live, elements, parts: None };
        let space = address_space(batch.process);
        let mut finding = Finding { found, thread, space, written: Written { accesses, many } };
        go_through((program, plans), batch, allocations, &mut memory, &mut finding);
    }

    /// All objects that were accessed so far, by number: in the order in which each was accessed first.
    pub fn objects(&self) -> &[Object] {
        &self.found.objects
    }

    /// What allocates them, by [`Object::origin`].
    pub fn origins(&self, program: &Program) -> Vec<ObjectOrigin> {
        let mut origins = Vec::new();
        for (group, _) in self.blocks.groups() {
            let (module, site) = program.site(self.blocks.site_of(group));
            let origin = ObjectOrigin {
                allocated_at: allocated_at(module, site).0,
                type_name: module.name(site.structure).to_owned(),
            };
            origins.resize(origins.len().max(group as usize + 1), ObjectOrigin::default());
            origins[group as usize] = origin;
        }
        origins
    }

    /// How many threads accessed anything, or could have.
    pub fn threads(&self) -> u64 {
        self.threads.len() as u64
    }

    /// Blocks that were freed or resized but not known.
    pub fn unknown_frees(&self) -> u64 {
        self.blocks.unknown_frees()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{program_of, visits_of};
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
                (1, 2, vec![0x1000, 0x2000]),
            ],
        );
        let keys: Vec<u32> = accesses.iter().map(|access| access.key).collect();
        assert_eq!(keys, [0, 1, 0, NO_OBJECT, 2, 0, 3, NO_OBJECT]);
        let object = |process, start, bytes, sequence| Object { process, start, bytes, sequence, origin: 0 };
        let expected =
            [object(0, 0x2000, 64, 2), object(0, 0x1000, 32, 1), object(0, 0x1000, 16, 3), object(1, 0x1000, 8, 1)];
        assert_eq!(made.objects(), expected);
        assert_eq!(made.origins(&program).len(), 1);
    }

    #[test]
    fn runs_of_one_instruction_meet_object_after_object() {
        let program = program_of(&[&[Site::new(SiteKind::Allocate, 0)], &[Site::new(SiteKind::Load, 8)]]);
        let mut made = ObjectAccesses::new();
        let blocks = [(0, vec![0x1000, 16]), (0, vec![0x1010, 16])];
        let loads = [0x1000, 0x1008, 0x1010, 0x1018, 0x1000, 0x5000].map(|at| (1, vec![at]));
        let (words, visits) = visits_of(&program, &[&blocks[..], &loads[..]].concat());
        let batch = TraceBatch { visits: &visits, words: &words, ..TraceBatch::default() };
        let mut accesses = Vec::new();
        made.update(&program, &batch, &mut accesses, &mut |_| {});
        let keys: Vec<u32> = accesses.iter().map(|access| access.key).collect();
        assert_eq!(keys, [0, 0, 1, 1, 0, NO_OBJECT]);
    }
}
