//! What a process had where, and when: code and variables of modules, large blocks, mappings, stacks.

use rustc_hash::{FxHashMap, FxHashSet};
use slimline_trace::address::{Avma, Svma};
use slimline_trace::tables::{Mappings, RangeOrigin, Ranges};

use super::timed::{Extent, TimedRanges};
use crate::module::Module;
use crate::module::bias::{FileMapping, load_biases};

/// The modules of a session; each file is opened once, whatever number of processes have it.
pub struct Modules<'a> {
    open: Box<dyn Fn(&str) -> Module<'a> + 'a>,
    opened: Vec<Module<'a>>,
    by_path: FxHashMap<String, usize>,
}

impl<'a> Modules<'a> {
    /// No module yet; `open` reads one.
    pub fn new(open: impl Fn(&str) -> Module<'a> + 'a) -> Self {
        Self { open: Box::new(open), opened: Vec::new(), by_path: FxHashMap::default() }
    }

    /// The module at a number that this gave out.
    pub fn get(&self, number: usize) -> &Module<'a> {
        &self.opened[number]
    }

    /// Number of modules opened.
    pub fn len(&self) -> usize {
        self.opened.len()
    }

    /// Whether none was opened.
    pub fn is_empty(&self) -> bool {
        self.opened.is_empty()
    }

    fn number_of(&mut self, path: &str) -> usize {
        if let Some(&number) = self.by_path.get(path) {
            return number;
        }
        self.opened.push((self.open)(path));
        self.by_path.insert(path.to_owned(), self.opened.len() - 1);
        self.opened.len() - 1
    }
}

/// A segment of a module where it was loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// Number of the module.
    pub module: usize,
    /// `avma = svma + bias`.
    pub bias: u64,
}

impl Loaded {
    /// The module's own name for a run-time address.
    pub fn svma(&self, address: Avma) -> Svma {
        address.to_svma(self.bias)
    }
}

/// What a mapping is, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MappingName {
    /// No file and no name.
    Anonymous,
    /// `[heap]`: what `brk` made.
    Heap,
    /// `[stack]`: the stack of the main thread.
    Stack,
    /// `[vdso]`, `[anon:name]`…
    Special(String),
    /// A file.
    File(String),
}

/// The first thing found at an address and a time, other than a small heap block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A thread's block of thread-local storage: row of the ranges.
    ThreadLocal(usize),
    /// A large heap block: row of the ranges.
    Block(usize),
    /// A module's own memory.
    Module(Loaded),
    /// A mapping that holds a stack: row of the mappings.
    Stack(usize),
    /// A mapping that the program made and uses as a stack: row of the ranges.
    MappedStack(usize),
    /// A mapping that the program made: row of the ranges.
    Mapped(usize),
    /// Another mapping: row of the mappings.
    Mapping(usize),
    /// Nothing known.
    Nothing,
}

/// All versions of a mapping together: the kernel's list has another line each time it grows or shrinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole {
    /// The first of the rows.
    pub row: usize,
    /// Where it may begin, as far as it may have grown unseen.
    pub base: u64,
    /// First address that was seen mapped.
    pub start: u64,
    /// The address after the last that was.
    pub end: u64,
}

/// Those of the process's ranges that came to be in one way.
struct RangeRows {
    index: TimedRanges,
    rows: Vec<usize>,
}

impl RangeRows {
    fn new(ranges: &Ranges, origin: RangeOrigin) -> Self {
        let rows: Vec<usize> = (0..ranges.len()).filter(|&row| ranges.origin[row] == origin).collect();
        let extents = rows.iter().map(|&row| Extent {
            start: ranges.base[row].0,
            end: ranges.base[row].0.saturating_add(ranges.bytes[row]),
            from_ns: ranges.born_ns[row],
            until_ns: ranges.died_ns[row].unwrap_or(u64::MAX),
        });
        Self { index: TimedRanges::new(extents.collect()), rows }
    }

    /// The row of the ranges that holds an address at a time, and where that holds.
    fn at(&self, address: u64, time_ns: u64) -> (Option<usize>, Extent) {
        let (found, valid) = self.index.at(address, time_ns);
        (found.map(|found| self.rows[found]), valid)
    }
}

/// The address space of one process over its life.
pub struct AddressSpace {
    loaded: Vec<Loaded>,
    modules: TimedRanges,
    thread_locals: RangeRows,
    /// Those of the program's own allocators, which lie in others.
    inner_blocks: RangeRows,
    blocks: RangeRows,
    mapped: RangeRows,
    mappings: TimedRanges,
    names: Vec<MappingName>,
    /// By row of the mappings.
    wholes: Vec<Whole>,
    /// Rows of `mappings` and of the ranges that held a stack pointer.
    stacks: FxHashSet<usize>,
    mapped_stacks: FxHashSet<usize>,
}

impl AddressSpace {
    /// The address space that a process's tables tell of; opens the modules that had code mapped.
    pub fn new(mappings: &Mappings, ranges: &Ranges, modules: &mut Modules<'_>) -> Self {
        let lives = lives_of(mappings);
        let (loaded, loaded_extents) = load_modules(mappings, &lives, modules);
        let names: Vec<MappingName> = mappings.path.iter().map(|path| name_of(path)).collect();
        let seen: Vec<Extent> = (0..mappings.len())
            .map(|row| Extent { start: mappings.start[row].0, end: mappings.end[row].0, ..lives[row] })
            .collect();
        let extents = grown(&seen, &names);
        let wholes = wholes(mappings, &seen, &extents);
        Self {
            loaded,
            modules: TimedRanges::new(loaded_extents),
            thread_locals: RangeRows::new(ranges, RangeOrigin::ThreadLocal),
            inner_blocks: RangeRows::new(ranges, RangeOrigin::InnerHeap),
            blocks: RangeRows::new(ranges, RangeOrigin::Heap),
            mapped: RangeRows::new(ranges, RangeOrigin::Map),
            mappings: TimedRanges::new(extents),
            names,
            wholes,
            stacks: FxHashSet::default(),
            mapped_stacks: FxHashSet::default(),
        }
    }

    /// The module whose memory holds an address. Where none did at that time, the one that did nearest to it:
    /// mappings are only seen now and then.
    pub fn module_at(&self, address: Avma, time_ns: u64) -> Option<Loaded> {
        let at = self.modules.at(address.0, time_ns).0;
        at.or_else(|| self.modules.nearest(address.0, time_ns)).map(|row| self.loaded[row])
    }

    /// Learns from a thread's stack pointer what a stack is; whether that was new, so that answers may have changed.
    pub fn note_stack(&mut self, stack_pointer: Avma, time_ns: u64) -> bool {
        let address = stack_pointer.0;
        // A stack inside a heap block (a coroutine's) stays that block.
        if self.blocks.at(address, time_ns).0.is_some() {
            return false;
        }
        if let Some(row) = self.mapped.at(address, time_ns).0 {
            return self.mapped_stacks.insert(row);
        }
        let Some(row) = self.mapping_at(address, time_ns) else { return false };
        let can_be = !matches!(self.names[row], MappingName::Heap | MappingName::File(_));
        can_be && self.stacks.insert(row)
    }

    /// The module that was loaded with a bias.
    pub fn module_with_bias(&self, bias: u64) -> Option<Loaded> {
        self.loaded.iter().copied().find(|loaded| loaded.bias == bias)
    }

    /// What holds an address, and the extent in which the answer stays the same.
    ///
    /// What the program asked for comes before what the system made of it (a stack's mapping may have grown together
    /// with its neighbour's), and what has a name before what has none.
    pub fn find(&self, address: Avma, time_ns: u64) -> (Found, Extent) {
        let (thread_local, mut valid) = self.thread_locals.at(address.0, time_ns);
        if let Some(row) = thread_local {
            return (Found::ThreadLocal(row), valid);
        }
        for blocks in [&self.inner_blocks, &self.blocks] {
            let (block, extent) = blocks.at(address.0, time_ns);
            valid = valid.and(&extent);
            if let Some(row) = block {
                return (Found::Block(row), valid);
            }
        }
        let (module, extent) = self.modules.at(address.0, time_ns);
        valid = valid.and(&extent);
        if let Some(module) = module {
            return (Found::Module(self.loaded[module]), valid);
        }
        let (mapped, extent) = self.mapped.at(address.0, time_ns);
        valid = valid.and(&extent);
        if let Some(row) = mapped {
            let is_stack = self.mapped_stacks.contains(&row);
            return (if is_stack { Found::MappedStack(row) } else { Found::Mapped(row) }, valid);
        }
        let (mapping, extent) = self.mappings.at(address.0, time_ns);
        valid = valid.and(&extent);
        if let Some(mapping) = mapping {
            let is_stack = self.stacks.contains(&mapping);
            return (if is_stack { Found::Stack(mapping) } else { Found::Mapping(mapping) }, valid);
        }
        let found = match (self.modules.nearest(address.0, time_ns), self.mappings.nearest(address.0, time_ns)) {
            (Some(module), _) => Found::Module(self.loaded[module]),
            (None, Some(mapping)) if self.stacks.contains(&mapping) => Found::Stack(mapping),
            (None, Some(mapping)) => Found::Mapping(mapping),
            (None, None) => Found::Nothing,
        };
        // An answer about the nearest time holds for this moment and this byte only.
        let end = address.0.saturating_add(1);
        (found, Extent { start: address.0, end, from_ns: time_ns, until_ns: time_ns.saturating_add(1) })
    }

    /// Name of a mapping, by its row.
    pub fn name(&self, row: usize) -> &MappingName {
        &self.names[row]
    }

    /// What a mapping is a version of, by its row.
    pub fn whole(&self, row: usize) -> Whole {
        self.wholes[row]
    }

    /// The mapping that holds an address at a time or, where none did, at the time nearest to it.
    pub fn mapping_at(&self, address: u64, time_ns: u64) -> Option<usize> {
        self.mappings.at(address, time_ns).0.or_else(|| self.mappings.nearest(address, time_ns))
    }
}

fn name_of(path: &str) -> MappingName {
    match path {
        "" => MappingName::Anonymous,
        "[heap]" => MappingName::Heap,
        "[stack]" => MappingName::Stack,
        _ if path.starts_with('/') => MappingName::File(path.to_owned()),
        _ => MappingName::Special(path.to_owned()),
    }
}

/// From when to when each mapping may have been there: from after the last snapshot without it, until the first
/// snapshot without it again.
fn lives_of(mappings: &Mappings) -> Vec<Extent> {
    let mut snapshots: Vec<u64> = mappings.first_seen_ns.iter().chain(&mappings.last_seen_ns).copied().collect();
    snapshots.sort_unstable();
    snapshots.dedup();
    (0..mappings.len())
        .map(|row| {
            let first = snapshots.partition_point(|&time| time < mappings.first_seen_ns[row]);
            let after = snapshots.partition_point(|&time| time <= mappings.last_seen_ns[row]);
            Extent {
                from_ns: first.checked_sub(1).map_or(0, |before| snapshots[before].saturating_add(1)),
                until_ns: snapshots.get(after).copied().unwrap_or(u64::MAX),
                ..Extent::ALL
            }
        })
        .collect()
}

/// The kernel keeps mappings this far away from the top of the main thread's stack, or farther (`MIN_GAP`).
const STACK_GAP_BYTES: u64 = 128 << 20;

/// The main thread's stack and the heap may have grown since the last snapshot: they reach to their neighbour, the
/// stack no farther than where the kernel begins to put mappings.
fn grown(seen: &[Extent], names: &[MappingName]) -> Vec<Extent> {
    let grow = |(extent, name): (&Extent, &MappingName)| {
        let others = || seen.iter().filter(|other| other.from_ns < extent.until_ns && extent.from_ns < other.until_ns);
        let mut extent = *extent;
        match name {
            MappingName::Stack => {
                let neighbour = others().map(|other| other.end).filter(|&end| end <= extent.start).max().unwrap_or(0);
                extent.start = neighbour.max(extent.end.saturating_sub(STACK_GAP_BYTES)).min(extent.start);
            }
            MappingName::Heap => {
                let next = others().map(|other| other.start).filter(|&start| start >= extent.end).min();
                extent.end = next.unwrap_or(u64::MAX);
            }
            _ => {}
        }
        extent
    };
    seen.iter().zip(names).map(grow).collect()
}

/// For each row, all rows of its name and its permissions whose addresses overlap. An arena whose writable part grows
/// into the rest of its reservation is not the reservation, so permissions count.
fn wholes(mappings: &Mappings, seen: &[Extent], grown: &[Extent]) -> Vec<Whole> {
    let mut rows: Vec<usize> = (0..seen.len()).collect();
    let identity = |row: usize| (&mappings.path[row], &mappings.permissions[row]);
    rows.sort_by_key(|&row| (identity(row), seen[row].start));
    let mut wholes: Vec<Whole> = (0..seen.len())
        .map(|row| Whole { row, base: grown[row].start, start: seen[row].start, end: seen[row].end })
        .collect();
    let mut first = 0;
    for next in 1..=rows.len() {
        let whole = wholes[rows[first]];
        let is_version = |&row: &usize| identity(row) == identity(rows[first]) && seen[row].start < whole.end;
        if let Some(row) = rows.get(next).copied().filter(is_version) {
            let whole = &mut wholes[rows[first]];
            whole.row = whole.row.min(row);
            whole.base = whole.base.min(grown[row].start);
            whole.end = whole.end.max(seen[row].end);
            continue;
        }
        rows[first..next].iter().for_each(|&row| wholes[row] = whole);
        first = next;
    }
    wholes
}

/// Loads what had code mapped, and tells where each segment was, `.bss` included.
fn load_modules(mappings: &Mappings, lives: &[Extent], modules: &mut Modules<'_>) -> (Vec<Loaded>, Vec<Extent>) {
    let mut by_path: FxHashMap<&str, Vec<usize>> = FxHashMap::default();
    for row in 0..mappings.len() {
        if mappings.path[row].starts_with('/') && !mappings.path[row].starts_with("/dev/") {
            by_path.entry(&mappings.path[row]).or_default().push(row);
        }
    }
    let is_code = |row: usize| mappings.permissions[row].as_bytes().get(2) == Some(&b'x');
    let mut paths: Vec<_> = by_path.into_iter().filter(|(_, rows)| rows.iter().any(|&row| is_code(row))).collect();
    paths.sort_unstable();
    let (mut loaded, mut extents) = (Vec::new(), Vec::new());
    for (path, mut rows) in paths {
        rows.sort_by_key(|&row| mappings.start[row]);
        let module = modules.number_of(path);
        let Some(image) = modules.get(module).image() else {
            // Nothing is known of the file but where it was: that names the module at least.
            for row in rows {
                let bias = mappings.start[row].0.wrapping_sub(mappings.file_offset[row].0);
                loaded.push(Loaded { module, bias });
                extents.push(Extent { start: mappings.start[row].0, end: mappings.end[row].0, ..lives[row] });
            }
            continue;
        };
        let pieces: Vec<FileMapping> = rows
            .iter()
            .map(|&row| FileMapping {
                start: mappings.start[row],
                end: mappings.end[row],
                offset: mappings.file_offset[row],
            })
            .collect();
        let biases = load_biases(&pieces, &image.loads().collect::<Vec<_>>());
        let mut distinct: Vec<u64> = biases.iter().flatten().copied().collect();
        distinct.sort_unstable();
        distinct.dedup();
        for bias in distinct {
            let own = || rows.iter().zip(&biases).filter(|(_, other)| **other == Some(bias)).map(|(&row, _)| row);
            if !own().any(is_code) {
                continue;
            }
            let from_ns = own().map(|row| lives[row].from_ns).min().unwrap_or(0);
            let until_ns = own().map(|row| lives[row].until_ns).max().unwrap_or(u64::MAX);
            for segment in image.segments() {
                let start = segment.svma.to_avma(bias).0;
                loaded.push(Loaded { module, bias });
                extents.push(Extent { start, end: start.saturating_add(segment.memory_bytes), from_ns, until_ns });
            }
        }
    }
    (loaded, extents)
}

#[cfg(test)]
mod tests {
    use slimline_trace::address::FileOffset;
    use slimline_trace::tables::{Mapping, Range, RangeSource};

    use super::*;

    fn mappings(rows: &[(u64, u64, &str, u64, u64)]) -> Mappings {
        let mut mappings = Mappings::default();
        for &(start, end, path, first_seen_ns, last_seen_ns) in rows {
            mappings.push(Mapping {
                start: Avma(start),
                end: Avma(end),
                file_offset: FileOffset(0),
                permissions: "rw-p".to_owned(),
                device: "00:00".to_owned(),
                inode: 0,
                path: path.to_owned(),
                first_seen_ns,
                last_seen_ns,
            });
        }
        mappings
    }

    fn space(mappings: &Mappings, ranges: &Ranges) -> AddressSpace {
        AddressSpace::new(mappings, ranges, &mut Modules::new(|_| unreachable!("no code is mapped")))
    }

    #[test]
    fn mappings_live_between_the_snapshots_that_lack_them() {
        let mappings = mappings(&[
            (0x1000, 0x2000, "", 100, 300),
            (0x3000, 0x4000, "", 200, 200),
            (0x3000, 0x5000, "[anon:arena]", 300, 300),
        ]);
        let space = space(&mappings, &Ranges::default());
        let cases = [
            (0x1000, 0, Found::Mapping(0)),
            (0x1fff, 900, Found::Mapping(0)),
            (0x3000, 150, Found::Mapping(1)),
            (0x3000, 250, Found::Mapping(2)),
            (0x3000, 300, Found::Mapping(2)),
            // Before it was first seen: the nearest time is taken.
            (0x4800, 10, Found::Mapping(2)),
            (0x6000, 100, Found::Nothing),
        ];
        for (address, time, found) in cases {
            assert_eq!(space.find(Avma(address), time).0, found, "{address:#x} at {time}");
        }
    }

    #[test]
    fn blocks_come_before_the_stack_they_grew_together_with() {
        let mappings = mappings(&[(0x10_0000, 0x90_0000, "", 0, 100)]);
        let mut ranges = Ranges::default();
        let range = |base, bytes, origin| Range {
            base: Avma(base),
            bytes,
            born_ns: 10,
            died_ns: Some(50),
            stack: None,
            origin,
            source: RangeSource::default(),
        };
        ranges.push(range(0x20_0000, 0x10_0000, RangeOrigin::Map));
        ranges.push(range(0x80_0000, 0x10_0000, RangeOrigin::Heap));
        ranges.push(range(0x30_0000, 0x10_0000, RangeOrigin::Map));
        let mut space = space(&mappings, &ranges);
        assert_eq!(space.find(Avma(0x70_0000), 20).0, Found::Mapping(0));
        assert!(space.note_stack(Avma(0x70_0000), 20));
        assert!(!space.note_stack(Avma(0x70_0010), 21));
        // A coroutine's stack in a heap block, and one in a mapping of its own.
        assert!(!space.note_stack(Avma(0x80_0010), 20));
        assert!(space.note_stack(Avma(0x30_0010), 20));
        let cases = [
            (0x70_0000, 20, Found::Stack(0)),
            (0x80_0010, 20, Found::Block(1)),
            (0x80_0010, 60, Found::Stack(0)),
            (0x20_0000, 20, Found::Mapped(0)),
            (0x20_0000, 5, Found::Stack(0)),
            (0x30_0000, 20, Found::MappedStack(2)),
        ];
        for (address, time, found) in cases {
            assert_eq!(space.find(Avma(address), time).0, found, "{address:#x} at {time}");
        }
    }

    #[test]
    fn a_threads_storage_comes_before_the_stack_it_lies_in() {
        let mappings = mappings(&[(0x10_0000, 0x90_0000, "", 0, 100)]);
        let mut ranges = Ranges::default();
        let range = |base, bytes, origin, died_ns| Range {
            base: Avma(base),
            bytes,
            born_ns: 10,
            died_ns,
            stack: None,
            origin,
            source: RangeSource::default(),
        };
        ranges.push(range(0x80_0000, 0x8_0000, RangeOrigin::Heap, None));
        ranges.push(range(0x87_0000, 0x100, RangeOrigin::ThreadLocal, Some(50)));
        let space = space(&mappings, &ranges);
        assert_eq!(space.find(Avma(0x87_00ff), 20).0, Found::ThreadLocal(1));
        assert_eq!(space.find(Avma(0x87_0100), 20).0, Found::Block(0));
        assert_eq!(space.find(Avma(0x87_0000), 50).0, Found::Block(0));
    }

    #[test]
    fn versions_of_a_mapping_are_one_mapping() {
        let mappings = mappings(&[
            (0x4000, 0x5000, "[heap]", 0, 10),
            (0x4000, 0x9000, "[heap]", 20, 30),
            (0x4000, 0x7000, "[heap]", 40, 40),
            (0x10_0000, 0x10_1000, "", 0, 40),
            (0x10_1000, 0x10_2000, "[anon:a]", 0, 40),
            (0xf000_0000, 0xf000_1000, "[stack]", 0, 10),
            (0xefff_f000, 0xf000_1000, "[stack]", 20, 40),
        ]);
        let space = space(&mappings, &Ranges::default());
        let heap = Whole { row: 0, base: 0x4000, start: 0x4000, end: 0x9000 };
        assert_eq!([0, 1, 2].map(|row| space.whole(row)), [heap; 3]);
        assert_eq!([3, 4].map(|row| space.whole(row).row), [3, 4]);
        let stack = Whole { row: 5, base: 0xf000_1000 - STACK_GAP_BYTES, start: 0xefff_f000, end: 0xf000_1000 };
        assert_eq!([5, 6].map(|row| space.whole(row)), [stack; 2]);
    }

    #[test]
    fn stack_and_heap_grow_into_the_gap() {
        let mappings = mappings(&[
            (0x1000, 0x2000, "[heap]", 0, 0),
            (0x8000, 0x9000, "", 0, 0),
            (0xf000, 0x1_0000, "[stack]", 0, 0),
        ]);
        let space = space(&mappings, &Ranges::default());
        assert_eq!(space.find(Avma(0x7fff), 5).0, Found::Mapping(0));
        assert_eq!(space.find(Avma(0x9000), 5).0, Found::Mapping(2));
        assert_eq!(space.find(Avma(0x1_0000), 5).0, Found::Nothing);
    }
}
