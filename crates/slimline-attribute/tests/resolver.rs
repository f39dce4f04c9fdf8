//! A session made by hand over a program compiled here: every row must land on the right function and object.

mod recorded;
mod sandbox;

use recorded::{BIAS, Recorded, after_call, after_calls, code_at};
use sandbox::Sandbox;
use slimline_attribute::data::wrappers::WrapperRules;
use slimline_attribute::module::Module;
use slimline_attribute::module::store::FileStore;
use slimline_attribute::resolver::{ProcessTables, Reason, Resolver};
use slimline_attribute::tables::{Amount, CodePlace, GroupKind, SourcePosition, Tables};
use slimline_trace::access::{AccessBatch, AccessKind, Evidence};
use slimline_trace::address::{Avma, Svma};
use slimline_trace::tables::{
    Block, BlockRow, Chance, Name, NameKind, PathTotal, Range, RangeOrigin, RangeSource, StackEnd, StackRow, Thread,
    ThreadRow,
};
use slimline_trace::wire::{BurstEnd, PASSED_OVER, Quality, TAG_BYTES};

const SOURCE: &str = r#"
#include <stdlib.h>
struct node { struct node *next; long value; };
static long table[64];
long total;
static void *xmalloc(size_t bytes) { void *p = malloc(bytes); if (!p) abort(); return p; }
struct node *make(long value) {
    struct node *n = xmalloc(sizeof *n);
    n->value = value;
    return n;
}
int main(int argc, char **argv) {
    for (int i = 0; i < 64; i++) table[i] = i * argc;
    total = make(table[3])->value;
    return (int)total;
}
"#;

fn variable(module: &Module<'_>, name: &str) -> u64 {
    module.symbols().variables().iter().find(|variable| variable.name == name).expect("variable").start.0 + BIAS
}

fn compile(sandbox: &Sandbox, source: &str) -> String {
    sandbox.compile("gcc", &["-g", "-O1", "-fno-inline", "-fpie", "-pie"], "a.c", source, "prog")
}

#[test]
fn rows_land_on_their_code_and_data() {
    let sandbox = Sandbox::new();
    let program = compile(&sandbox, SOURCE);
    let store = FileStore::new(&sandbox);
    let module = Module::open(&store, &program);
    let loop_ip = code_at(&module, "main", 13);
    let (table, total) = (variable(&module, "table"), variable(&module, "total"));

    let mut recorded = Recorded::new(&program);
    let returns = |function, line| after_call(&module, function, line);
    let path = [returns("xmalloc", 6), returns("make", 8), returns("main", 14)];
    let stack = recorded.stacks.push(&path, StackEnd::Outermost);
    // The same allocation, cut by the unwinder.
    let cut = recorded.stacks.push(&path[..2], StackEnd::Depth);
    for (base, stack) in [(0x6000_0000, stack), (0x6000_1000, cut)] {
        recorded.blocks.push(Block { base: Avma(base), bytes: 16, stack: Some(stack), chance: Chance::default() });
    }
    recorded.ranges.push(Range {
        base: Avma(0x7f00_0000_0000),
        bytes: 4 << 20,
        born_ns: 50,
        died_ns: Some(60),
        stack: Some(StackRow::new(0)),
        origin: RangeOrigin::Heap,
        source: RangeSource::default(),
    });
    let block = |row| Some(BlockRow::new(row));
    recorded.sample(10, loop_ip, table + 24, None, 5);
    recorded.access(loop_ip, table + 32, None);
    recorded.access(loop_ip, total, None);
    recorded.access(loop_ip, 0x6000_0008, block(0));
    recorded.access(loop_ip, 0x6000_1008, block(1));
    recorded.access(loop_ip, 0x7ffd_000e_fff0, None);
    recorded.sample(55, loop_ip, 0x7f00_0000_1000, None, 0);
    recorded.sample(70, loop_ip, 0x7f00_0000_1000, None, 0);
    recorded.sample(80, 0, 0, None, 0);

    let mut resolver = Resolver::new(&store);
    let mut rows = Vec::new();
    // The same process twice: one set of sites and groups.
    for pid in [100, 101] {
        let process = resolver.add_process(recorded.process(pid));
        resolver.resolve(process, recorded.part(), |batch: &AccessBatch| {
            rows.extend((0..batch.len()).map(|row| (batch.thread, batch.row(row))));
        });
    }
    let resolution = resolver.finish();
    let Tables { sites, groups, modules, threads, .. } = &resolution.tables;
    assert_eq!(rows.len(), 18);
    assert_eq!(threads.iter().map(|thread| thread.pid).collect::<Vec<_>>(), [100, 101]);
    assert_eq!(modules.len(), 1);

    let (first, second) = rows.split_at(9);
    for (first, second) in first.iter().zip(second) {
        assert_eq!((first.1.site, first.1.group, first.1.offset), (second.1.site, second.1.group, second.1.offset));
        assert_ne!((first.0, first.1.window), (second.0, second.1.window));
        assert!(first.1.group == Tables::UNATTRIBUTED || first.1.object != second.1.object);
    }
    let named: Vec<(&str, GroupKind, u64)> = first
        .iter()
        .map(|(_, row)| {
            let group = &groups[row.group.index()];
            (group.name.as_str(), group.kind, row.offset)
        })
        .collect();
    assert_eq!(
        named,
        [
            ("table", GroupKind::Static, 24),
            ("table", GroupKind::Static, 32),
            ("total", GroupKind::Static, 0),
            ("n", GroupKind::Heap, 8),
            ("n", GroupKind::Heap, 8),
            // From where the stack could have grown to: 128 MiB below its top.
            ("stack", GroupKind::Stack, (128 << 20) - 0x1_0010),
            ("n", GroupKind::Heap, 0x1000),
            ("unattributed", GroupKind::Unattributed, 0x7f00_0000_1000),
            ("unattributed", GroupKind::Unattributed, 0),
        ]
    );
    assert_eq!(first[3].1.group, first[4].1.group, "a path that was cut joins the whole one");
    let heap = &groups[first[3].1.group.index()];
    assert_eq!(heap.allocated_at.as_ref().map(|frame| frame.function.as_str()), Some("make"));
    assert_eq!(heap.stack.iter().map(|frame| frame.function.as_str()).collect::<Vec<_>>(), ["make", "main"]);
    assert_eq!((heap.objects, heap.bytes), (6, 2 * (16 + 16 + (4 << 20))));

    let site = &sites[first[0].1.site.index()];
    assert_eq!((site.function(), site.position().map(|position| position.line)), ("main", Some(13)));
    assert_eq!(site.svma, Svma(loop_ip - BIAS));
    assert_eq!(site.own_position().map(|at| at.line), Some(13));
    // The sample that blames nothing weighs on the sampled instruction: here address 4, in no mapping.
    assert_eq!(sites[first[8].1.site.index()].function(), "[unmapped]+0x4");
    let weight = |evidence| first.iter().filter(|(_, row)| row.evidence == evidence).map(|(_, row)| row.weight).sum();
    assert_eq!((weight(Evidence::Cost), weight(Evidence::Execution)), (4000, 0));

    let reasons: Vec<_> = resolution.unresolved.iter().map(|row| (row.reason, row.weight, row.accesses)).collect();
    assert_eq!(reasons, [(Reason::NoAddress, 2000, 2), (Reason::NoMapping, 2000, 2), (Reason::CodeInNoFile, 2000, 2)]);
}

/// Computing is only what was looked at and accesses nothing.
#[test]
fn what_could_not_be_blamed_is_not_computing() {
    let sandbox = Sandbox::new();
    let program = compile(&sandbox, SOURCE);
    let store = FileStore::new(&sandbox);
    let ip = code_at(&Module::open(&store, &program), "main", 13);
    let mut recorded = Recorded::new(&program);
    for (row, quality) in [Quality::NoMemory, Quality::NoCode, Quality::Lost, Quality::Exact].into_iter().enumerate() {
        recorded.sample(row as u64, if row < 2 { 0 } else { ip }, 0, None, 0);
        recorded.samples.quality[row] = quality;
    }
    // A table that does not tell what an instruction does.
    recorded.samples.kind[3] = AccessKind::NONE;
    let mut resolver = Resolver::new(&store);
    let mut kinds = Vec::new();
    let process = resolver.add_process(recorded.process(100));
    resolver.resolve(process, recorded.part(), |batch: &AccessBatch| kinds.extend_from_slice(&batch.kind));
    assert_eq!(kinds, [AccessKind::NONE, AccessKind::UNKNOWN, AccessKind::LOAD, AccessKind::UNKNOWN]);
}

/// As `allocate(cells(n), a(m, m))` does; and two calls of one line that make the same are one data structure.
#[test]
fn unlike_things_of_one_line_are_several() {
    let source = r#"
#include <stdlib.h>
struct cell { double t, k; } *cells;
double *a, *b;
#define MAKE(n) do { cells = malloc(n * sizeof *cells); a = malloc(n * 8); b = malloc(n * 8); if (n & 1) a = malloc(8); } while (0)
void make(long n) { MAKE(n); }
int main(int argc, char **argv) { make(argc); return a != b; }
"#;
    let sandbox = Sandbox::new();
    let program = compile(&sandbox, source);
    let store = FileStore::new(&sandbox);
    let module = Module::open(&store, &program);
    let calls = after_calls(&module, "make", 6);
    assert_eq!(calls.len(), 4);
    let ip = code_at(&module, "main", 7);
    let mut recorded = Recorded::new(&program);
    for (row, &call) in calls.iter().enumerate() {
        let stack = recorded.stacks.push(&[call, after_call(&module, "main", 7)], StackEnd::Outermost);
        let base = 0x6000_0000 + 0x1000 * row as u64;
        recorded.blocks.push(Block { base: Avma(base), bytes: 48, stack: Some(stack), chance: Chance::default() });
        recorded.sample(row as u64, ip, base, Some(BlockRow::new(row)), 0);
    }
    let mut resolver = Resolver::new(&store);
    let mut rows = Vec::new();
    let process = resolver.add_process(recorded.process(100));
    resolver.resolve(process, recorded.part(), |batch: &AccessBatch| {
        rows.extend((0..batch.len()).map(|row| batch.row(row).group));
    });
    let tables = resolver.finish().tables;
    let told = |row: usize| {
        let group = tables.group(rows[row]);
        let element = group.element.expect("its variable has a type");
        (group.name.as_str(), tables.type_(element.type_id).name.as_str(), group.objects)
    };
    assert_eq!([told(0), told(1), told(2)], [("cells", "struct cell", 1), ("a", "double", 2), ("b", "double", 1)]);
    assert_eq!(rows[3], rows[1]);
}

/// What makes an address be lost are the instructions around the access: the same instruction's others tell whose it is.
#[test]
fn samples_without_an_address_are_of_what_their_instruction_accesses() {
    let sandbox = Sandbox::new();
    let program = compile(&sandbox, SOURCE);
    let store = FileStore::new(&sandbox);
    let module = Module::open(&store, &program);
    let (loop_ip, table) = (code_at(&module, "main", 13), variable(&module, "table"));
    let mut recorded = Recorded::new(&program);
    recorded.sample(10, loop_ip, table + 24, None, 0);
    recorded.sample(20, loop_ip, 0, None, 0);
    recorded.sample(30, code_at(&module, "make", 9), 0, None, 0);
    let mut resolver = Resolver::new(&store);
    let process = resolver.add_process(recorded.process(1));
    let mut rows = Vec::new();
    resolver.resolve(process, recorded.part(), |batch| {
        rows.extend(batch.group.iter().copied().zip(batch.site.iter().copied()));
    });
    let tables = resolver.finish().tables;
    let owners = |row: usize| {
        let (group, site) = rows[row];
        tables.owners(group, site).map(|(id, part)| (tables.group(id).name.clone(), part)).collect::<Vec<_>>()
    };
    assert_eq!([owners(0), owners(1)], [[("table".to_owned(), None)], [("table".to_owned(), Some(0.0..1.0))]]);
    assert_eq!(owners(2), [("address not known".to_owned(), None)]);
}

/// Where no line is known, the loop is, or the function.
#[test]
fn code_without_lines_is_told_by_its_loop() {
    let sandbox = Sandbox::new();
    let flags = ["-g", "-O1", "-fno-inline", "-fpie", "-pie", "-rdynamic"];
    let named = sandbox.compile("gcc", &flags, "a.c", SOURCE, "named");
    let stripped = sandbox.compile("gcc", &[&flags[..], &["-s"]].concat(), "a.c", SOURCE, "stripped");
    let store = FileStore::new(&sandbox);
    let module = Module::open(&store, &named);
    let (before_loop, in_make) = (code_at(&module, "main", 13), code_at(&module, "make", 9));
    // The loop is tested at its end.
    let is_of_loop =
        |ip: &u64| module.frames(Svma(ip - BIAS))[0].position.as_ref().is_some_and(|position| position.line == 13);
    let in_loop = (before_loop..before_loop + 0x100).filter(is_of_loop).last().expect("a line");
    let places = |program: &str| {
        let mut recorded = Recorded::new(program);
        recorded.sample(10, in_loop, 0, None, 0);
        recorded.sample(20, in_make, 0, None, 0);
        recorded.sample(30, 0x4444_0000, 0, None, 0);
        let mut resolver = Resolver::new(&store);
        let process = resolver.add_process(recorded.process(1));
        let mut sites = Vec::new();
        resolver.resolve(process, recorded.part(), |batch| sites.extend_from_slice(&batch.site));
        let tables = resolver.finish().tables;
        let innermost = tables.loops.first().map(|found| (found.start, found.end));
        let places: Vec<_> = sites.into_iter().map(|site| tables.code_place(site)).collect();
        assert_eq!(tables.code_place(Tables::UNKNOWN_SITE), None);
        (places, innermost.expect("a loop"))
    };
    let (with_lines, _) = places(&named);
    let lines: Vec<Option<u32>> = with_lines
        .iter()
        .map(|place| match place {
            Some(CodePlace::Line { line, .. }) => Some(*line),
            _ => None,
        })
        .collect();
    assert_eq!(lines, [Some(13), Some(9), None]);
    let (without, (start, end)) = places(&stripped);
    assert!((start.0..end.0).contains(&(in_loop - BIAS)));
    let function = |module: &str, function: &str| {
        Some(CodePlace::Function { module: module.to_owned(), function: function.to_owned() })
    };
    assert_eq!(
        without,
        [
            Some(CodePlace::Loop { module: "stripped".to_owned(), start, end }),
            function("stripped", "make"),
            function("[unmapped]", "[unmapped]+0x44440000"),
        ]
    );
}

/// Rules that a configuration adds hold for lines, too: code of a source that is a library's is not the program's own.
#[test]
fn sources_of_configured_libraries_are_not_the_programs_own() {
    let sandbox = Sandbox::new();
    let program = compile(&sandbox, SOURCE);
    let store = FileStore::new(&sandbox);
    let ip = code_at(&Module::open(&store, &program), "main", 13);
    let mut recorded = Recorded::new(&program);
    recorded.sample(10, ip, 0, None, 0);
    let mut rules = WrapperRules::default();
    rules.sources.push("a.c".to_owned());
    let mut resolver = Resolver::with_rules(&store, rules);
    let process = resolver.add_process(recorded.process(1));
    let mut site = None;
    resolver.resolve(process, recorded.part(), |batch| site = batch.site.first().copied());
    let tables = resolver.finish().tables;
    let site = tables.site(site.expect("a row"));
    assert_eq!((site.position().map(|at| at.line), site.own_position()), (Some(13), None));
}

const TYPED: &str = r#"
#include <stdlib.h>
struct node { struct node *next; long value; };
struct leaf { long key; };
struct node *nodes;
struct leaf *leaves;
long first(struct node *n) { return n->value; }
long second(struct node *n) { return n->value; }
long of_leaf(struct leaf *l) { return l->key; }
long raw(long *p) { return *p; }
int main(void) {
    nodes = malloc(sizeof *nodes);
    leaves = malloc(64 * sizeof *leaves);
    return first(nodes) + second(nodes) + of_leaf(leaves) + raw(&leaves->key);
}
"#;

#[test]
fn blocks_that_were_not_followed_are_those_of_the_same_type() {
    let sandbox = Sandbox::new();
    let program = compile(&sandbox, TYPED);
    let store = FileStore::new(&sandbox);
    let module = Module::open(&store, &program);
    let line = |function, line| code_at(&module, function, line);
    let mut recorded = Recorded::new(&program);
    recorded.map(0x6000_0000, 0x6010_0000, 0, "rw-p", "[heap]");
    for (line, base, bytes) in [(12, 0x6000_0000_u64, 16), (13, 0x6000_1000, 512)] {
        let stack = recorded.stacks.push(&[after_call(&module, "main", line)], StackEnd::Outermost);
        recorded.blocks.push(Block { base: Avma(base), bytes, stack: Some(stack), chance: Chance::default() });
    }
    recorded.blocks.push(Block { base: Avma(0), bytes: 0, stack: None, chance: Chance::default() });
    let block = |row| Some(BlockRow::new(row));
    recorded.sample(10, line("first", 7), 0x6000_0008, block(0), 0);
    recorded.sample(20, line("raw", 10), 0x6000_1000, block(1), 0);
    // What no other instruction of the function, but one of another was seen to do by that type; of what a block is made
    // of, though nothing was seen to access it so; and the instruction itself.
    for (time_ns, ip) in [(30, line("second", 8)), (40, line("of_leaf", 9)), (50, line("raw", 10))] {
        recorded.sample(time_ns, ip, 0x6000_8000, block(2), 0);
    }
    let mut resolver = Resolver::new(&store);
    let mut rows = Vec::new();
    let process = resolver.add_process(recorded.process(100));
    resolver.resolve(process, recorded.part(), |batch: &AccessBatch| {
        rows.extend((0..batch.len()).map(|row| batch.row(row)));
    });
    let tables = resolver.finish().tables;
    let owners = |row: usize| {
        let found = tables.owners(rows[row].group, rows[row].site);
        found.map(|(id, part)| (tables.group(id).name.as_str(), part)).collect::<Vec<_>>()
    };
    assert_eq!(tables.group(rows[2].group).name, "heap, not followed");
    assert_eq!([owners(2), owners(3), owners(4)], ["nodes", "leaves", "leaves"].map(|name| [(name, Some(0.0..1.0))]));
}

/// Names of groups, with the part of each where that is an estimate.
type Owners<'a> = &'a [(&'a str, Option<std::ops::Range<f64>>)];

/// Checks the owners and the offset of each of `accesses`: a function and a line of `TYPED`, the usable size of a block that was
/// passed over, and the offset in it. `prepare` adds to the recording, given the leaves' call path.
#[track_caller]
fn check_passed_over(
    prepare: impl FnOnce(&mut Recorded, StackRow),
    accesses: &[((&str, u32), u64, u64)],
    expected: &[(Owners<'_>, u64)],
) {
    let sandbox = Sandbox::new();
    let program = compile(&sandbox, TYPED);
    let store = FileStore::new(&sandbox);
    let module = Module::open(&store, &program);
    let line = |function, line| code_at(&module, function, line);
    let mut recorded = Recorded::new(&program);
    recorded.map(0x6000_0000, 0x6010_0000, 0, "rw-p", "[heap]");
    let stacks = [12, 13].map(|line| recorded.stacks.push(&[after_call(&module, "main", line)], StackEnd::Outermost));
    for (base, bytes, stack) in [(0x6000_0000, 16, stacks[0]), (0x6000_1000, 512, stacks[1])] {
        recorded.blocks.push(Block { base: Avma(base), bytes, stack: Some(stack), chance: one_in(3) });
    }
    let sizes: std::collections::BTreeSet<u64> = accesses.iter().map(|&(_, size, _)| size).collect();
    let base_of = |size: u64| 0x6000_2000 + size * 16;
    for &size in &sizes {
        let chance = one_in(PASSED_OVER);
        recorded.blocks.push(Block { base: Avma(base_of(size)), bytes: size, stack: None, chance });
    }
    prepare(&mut recorded, stacks[1]);
    let row_of = |size: u64| Some(BlockRow::new(2 + sizes.iter().position(|&of| of == size).unwrap()));
    let table = variable(&module, "leaves");
    recorded.sample(10, line("raw", 10), table, row_of(accesses[0].1), 0);
    for (number, &((function, at), size, offset)) in accesses.iter().enumerate() {
        recorded.sample(20 + number as u64, line(function, at), base_of(size) + offset, row_of(size), 0);
    }
    recorded.sample(90, line("first", 7), 0x6000_0008, Some(BlockRow::new(0)), 0);
    recorded.sample(91, line("of_leaf", 9), 0x6000_1008, Some(BlockRow::new(1)), 0);
    let mut resolver = Resolver::new(&store);
    let process = resolver.add_process(recorded.process(100));
    let mut rows = Vec::new();
    resolver.resolve(process, recorded.part(), |batch: &AccessBatch| {
        rows.extend((0..batch.len()).map(|row| batch.row(row)));
    });
    let tables = resolver.finish().tables;
    assert_eq!(tables.group(rows[0].group).name, "leaves", "a static is no block, whatever lies there");
    for (row, (owners, offset)) in rows[1..].iter().zip(expected) {
        let found = tables.owners(row.group, row.site);
        let found: Vec<_> = found.map(|(owner, part)| (tables.group(owner).name.as_str(), part)).collect();
        assert_eq!((&found[..], row.offset), (*owners, *offset));
    }
}

#[test]
fn blocks_that_were_passed_over_are_those_of_their_size_and_type() {
    let not_followed: &[_] = &[("heap, not followed", None)];
    let (nodes, leaves): (&[_], &[_]) = (&[("nodes", None)], &[("leaves", None)]);
    check_passed_over(
        |_, _| (),
        &[
            (("second", 8), 24, 8),
            (("of_leaf", 9), 24, 0),
            (("raw", 10), 24, 0),
            (("of_leaf", 9), 520, 16),
            (("of_leaf", 9), 536, 16),
            (("of_leaf", 9), 552, 16),
            (("raw", 10), TAG_BYTES, 0),
        ],
        &[
            (nodes, 8),
            (not_followed, 0),
            // Nothing tells what it accesses.
            (&[("nodes", Some(0.0..1.0))], 0),
            (leaves, 16),
            // 16 bytes more than were asked for.
            (leaves, 16),
            (not_followed, 16),
            (&[("malloc's boundary tags", None)], 0),
        ],
    );
}

#[test]
fn what_may_have_any_size_leaves_a_doubt() {
    let of_leaves = |counted, bytes| {
        move |recorded: &mut Recorded, leaves| {
            recorded.paths.push(PathTotal { stack: leaves, counted, peak_blocks: 16, peak_bytes: bytes });
        }
    };
    let access = &[(("of_leaf", 9), 520, 16)];
    check_passed_over(of_leaves(20, 16 * 512), access, &[(&[("leaves", None)], 16)]);
    // Of several sizes, and too few to know: the only one that it can be, but by estimate.
    for (counted, bytes) in [(20, 16 * 512 + 1), (15, 16 * 512)] {
        let other = &[(("of_leaf", 9), 1032, 16)];
        check_passed_over(of_leaves(counted, bytes), other, &[(&[("leaves", Some(0.0..1.0))], 16)]);
    }
}

fn one_in(follow_shift: u8) -> Chance {
    Chance { follow_shift: Some(follow_shift) }
}

#[test]
fn blocks_that_were_not_followed_are_those_of_the_same_code() {
    let sandbox = Sandbox::new();
    let program = compile(&sandbox, SOURCE);
    let store = FileStore::new(&sandbox);
    let module = Module::open(&store, &program);
    let (in_make, in_main) = (code_at(&module, "make", 9), code_at(&module, "main", 13));
    let table = variable(&module, "table");

    let mut recorded = Recorded::new(&program);
    recorded.map(0x6000_0000, 0x6010_0000, 0, "rw-p", "[heap]");
    // An access to one of two stands for one to the other, to one of four for three.
    for (line, base, follow_shift) in [(8, 0x6000_0000_u64, 1), (14, 0x6000_1000, 2)] {
        let function = if line == 8 { "make" } else { "main" };
        let stack = recorded.stacks.push(&[after_call(&module, function, line)], StackEnd::Outermost);
        recorded.blocks.push(Block { base: Avma(base), bytes: 16, stack: Some(stack), chance: one_in(follow_shift) });
    }
    recorded.blocks.push(Block { base: Avma(0), bytes: 0, stack: None, chance: Chance::default() });
    // One that is always followed says nothing of small ones.
    let stack = recorded.stacks.push(&[after_call(&module, "xmalloc", 6)], StackEnd::Outermost);
    recorded.blocks.push(Block { base: Avma(0x6000_2000), bytes: 1024, stack: Some(stack), chance: one_in(0) });
    let counted =
        |stack, counted| PathTotal { stack: StackRow::new(stack), counted, peak_blocks: 16 * counted, peak_bytes: 999 };
    recorded.paths.push(counted(0, 40));
    recorded.paths.push(counted(1, 2));
    // Another way to the same line, of which no access named a block; and a large block, which is not counted by path.
    let way = [after_call(&module, "xmalloc", 6), after_call(&module, "make", 8)];
    let other_way = recorded.stacks.push(&way, StackEnd::Outermost);
    recorded.paths.push(PathTotal { stack: other_way, ..counted(1, 10) });
    let large = 0x7e00_0000_0000;
    let range = |base, born_ns, died_ns| Range {
        base: Avma(base),
        bytes: 1 << 20,
        born_ns,
        died_ns,
        stack: Some(other_way),
        origin: RangeOrigin::Heap,
        source: RangeSource::default(),
    };
    // Ten of them, one after another: one at a time.
    recorded.ranges.push(range(large, 0, Some(45)));
    for turn in 0..9 {
        recorded.ranges.push(range(large - (8 << 20), 50 + turn, Some(51 + turn)));
    }
    let block = |row| Some(BlockRow::new(row));
    recorded.sample(10, in_make, 0x6000_8000, block(2), 7);
    recorded.access(in_make, 0x6000_0008, block(0));
    recorded.access(in_make, 0x6000_0000, block(0));
    recorded.access(in_make, 0x6000_0000, block(0));
    recorded.access(in_make, 0x6000_1000, block(1));
    recorded.access(in_make, 0x6000_2000, block(3));
    recorded.access(in_make, 0x6000_9000, block(2));
    // Nor does what lies in the heap and is no block.
    recorded.access(in_make, 0x6000_f000, None);
    // The page is of the heap, or it was once: what is known otherwise stays so.
    recorded.sample(20, in_main, table, block(2), 0);
    recorded.sample(30, in_main, 0x6000_8000, block(2), 0);
    recorded.sample(40, in_main, large, None, 0);
    (50..59).for_each(|time_ns| recorded.sample(time_ns, in_main, large - (8 << 20), None, 0));

    // What a process does of which all blocks were followed says nothing of this one.
    let mut other = Recorded::new(&program);
    let stack = other.stacks.push(&[after_call(&module, "main", 14)], StackEnd::Outermost);
    other.blocks.push(Block { base: Avma(0x6000_1000), bytes: 16, stack: Some(stack), chance: Chance::default() });
    other.sample(10, in_make, 0x6000_1000, block(0), 0);

    let mut resolver = Resolver::new(&store);
    let mut rows = Vec::new();
    let process = resolver.add_process(recorded.process(100));
    resolver.resolve(process, recorded.part(), |batch: &AccessBatch| {
        rows.extend((0..batch.len()).map(|row| batch.row(row)));
    });
    let process = resolver.add_process(ProcessTables { follows_all: true, ..other.process(101) });
    resolver.resolve(process, other.part(), |_| ());
    let tables = resolver.finish().tables;
    let name = |row: usize| tables.group(rows[row].group).name.as_str();
    let not_followed = "heap, not followed";
    assert_eq!([name(0), name(6), name(8), name(9)], [not_followed, not_followed, "table", not_followed]);
    let owners = |row: usize| tables.owners(rows[row].group, rows[row].site).collect::<Vec<_>>();
    assert_eq!(owners(0), [(rows[1].group, Some(0.0..0.5)), (rows[4].group, Some(0.5..1.0))]);
    assert_eq!(owners(8), [(rows[8].group, None)]);
    assert_eq!(owners(9), [(rows[9].group, None)], "nothing else was seen of this function");

    // How many there are: where enough were counted that, else those that were touched.
    let size = |row: usize| {
        let group = tables.group(rows[row].group);
        (group.objects, group.bytes, group.estimated, group.is_seen_whole(100))
    };
    assert_eq!(rows[1].group, rows[10].group);
    // The blocks are those alive at one time; of the bytes, those that were touched are more.
    let all = (16 * (40 + 10) + 1, 16 + (10 << 20), true, true);
    assert_eq!([size(1), size(4)], [all, (2, 32, false, false)], "the second one is of the other process");
    // One large block at a time, and the small ones of both paths; of two of 42 nobody knows.
    let alive = |row: usize| tables.group(rows[row].group).alive;
    assert_eq!([alive(1), alive(4)], [Some(Amount { objects: 16 * 50 + 1, bytes: (1 << 20) + 2 * 999 }), None]);
}

/// An allocator of the program's own cuts blocks out of what `malloc` gave it, or of a static array.
#[test]
fn blocks_that_were_not_followed_lie_where_others_were() {
    let sandbox = Sandbox::new();
    let program = compile(&sandbox, SOURCE);
    let store = FileStore::new(&sandbox);
    let module = Module::open(&store, &program);
    let (in_make, in_main) = (code_at(&module, "make", 9), code_at(&module, "main", 13));
    let mut recorded = Recorded::new(&program);
    let small = recorded.stacks.push(&[after_call(&module, "make", 8)], StackEnd::Outermost);
    let large = recorded.stacks.push(&[after_call(&module, "main", 14)], StackEnd::Outermost);
    let [cut, whole] = [0x7e00_0000_0000, 0x7e10_0000_0000];
    for (base, born_ns, died_ns) in [(cut, 0, Some(50)), (cut, 50, None), (whole, 0, None)] {
        let (base, origin, source) = (Avma(base), RangeOrigin::Heap, RangeSource::default());
        recorded.ranges.push(Range { base, bytes: 1 << 20, born_ns, died_ns, stack: Some(large), origin, source });
    }
    recorded.blocks.push(Block { base: Avma(cut + 0x40), bytes: 16, stack: Some(small), chance: Chance::default() });
    recorded.blocks.push(Block { base: Avma(0), bytes: 0, stack: None, chance: Chance::default() });
    let [followed, not_followed] = [0, 1].map(|row| Some(BlockRow::new(row)));
    // Near the chunk, but not in it; in it, before the block there was seen; in what is there later; and what is known to be no small block.
    recorded.sample(10, in_make, whole + 0x2000, not_followed, 0);
    recorded.sample(20, in_make, cut + 0x2000, not_followed, 0);
    recorded.sample(30, in_make, cut + 0x48, followed, 0);
    recorded.sample(40, in_main, cut + 0x2000, None, 0);
    recorded.sample(60, in_make, cut + 0x2000, not_followed, 0);
    let mut resolver = Resolver::new(&store);
    let mut rows = Vec::new();
    let process = resolver.add_process(recorded.process(100));
    resolver.resolve(process, recorded.part(), |batch: &AccessBatch| {
        rows.extend((0..batch.len()).map(|row| batch.row(row)));
    });
    let tables = resolver.finish().tables;
    let [chunk, block] = [rows[3].group, rows[2].group];
    assert_ne!(chunk, block);
    let told: Vec<bool> = rows.iter().map(|row| row.group == chunk).collect();
    assert_eq!(told, [true, false, false, true, true]);
    assert_eq!(tables.group(rows[1].group).name, "heap, not followed");
    assert_eq!(tables.owners(rows[1].group, rows[1].site).collect::<Vec<_>>(), [(block, Some(0.0..1.0))]);
}

#[test]
fn the_kernels_own_code_is_one_function() {
    let sandbox = Sandbox::new();
    let program = sandbox.compile("gcc", &["-g", "-O1", "-fpie", "-pie"], "a.c", SOURCE, "prog");
    let store = FileStore::new(&sandbox);
    let mut recorded = Recorded::new(&program);
    recorded.map(0x7ffd_0020_0000, 0x7ffd_0020_2000, 0, "r-xp", "[vdso]");
    recorded.map(0x6000_0000, 0x6000_1000, 0, "r-xp", "[anon:code]");
    for (time_ns, ip) in [(10, 0x7ffd_0020_0c00), (20, 0x7ffd_0020_0c10), (30, 0x6000_0100)] {
        recorded.sample(time_ns, ip, 0, None, 0);
    }
    let mut resolver = Resolver::new(&store);
    let process = resolver.add_process(recorded.process(1));
    let mut sites = Vec::new();
    resolver.resolve(process, recorded.part(), |batch| sites.extend_from_slice(&batch.site));
    let resolution = resolver.finish();
    let functions: Vec<_> = sites.iter().map(|&site| resolution.tables.site(site).function()).collect();
    assert_eq!(functions, ["[vdso]", "[vdso]", "[anon:code]+0x60000100"]);
    let generated = resolution.unresolved.iter().find(|row| row.reason == Reason::CodeInNoFile);
    assert_eq!(generated.map(|row| row.weight), Some(1000));
}

#[test]
fn a_window_stands_for_the_samples_without_a_burst_before_it() {
    let sandbox = Sandbox::new();
    let program = compile(&sandbox, SOURCE);
    let store = FileStore::new(&sandbox);
    let module = Module::open(&store, &program);
    let (ip, table) = (code_at(&module, "main", 13), variable(&module, "table"));

    let mut recorded = Recorded::new(&program);
    recorded.threads.push(Thread { tid: 2, name: String::new(), began_ns: 0, ended_ns: None, cpu_ns: 0, samples: 0 });
    // (time, thread, accesses of the burst or None for no burst)
    let seen = [(10, 0, None), (15, 1, None), (20, 0, None), (30, 0, Some(2)), (40, 0, Some(0)), (50, 0, None)];
    for (time_ns, thread, burst) in seen {
        recorded.sample(time_ns, ip, table + time_ns, None, burst.unwrap_or(0));
        recorded.accesses_of(ip, table, burst.unwrap_or(0));
        let row = recorded.samples.len() - 1;
        recorded.samples.thread[row] = ThreadRow::new(thread);
        recorded.samples.burst_end[row] = if burst.is_some() { BurstEnd::Limit } else { BurstEnd::NotStarted };
    }

    let mut resolver = Resolver::new(&store);
    let process = resolver.add_process(recorded.process(1));
    let mut windows = Vec::new();
    resolver.resolve(process, recorded.part(), |batch| {
        for (index, window) in batch.windows.iter().enumerate() {
            windows.push((
                batch.thread.unwrap().index(),
                window.time_ns,
                window.weight,
                batch.window_rows(index).len(),
            ));
        }
    });
    assert_eq!(windows, [(0, 30, 3000, 5), (0, 40, 1000, 1), (0, 50, 1000, 1), (1, 15, 1000, 1)]);
}

#[test]
fn a_mapping_is_as_large_as_it_was_seen_or_used() {
    let sandbox = Sandbox::new();
    let program = compile(&sandbox, SOURCE);
    let store = FileStore::new(&sandbox);
    let ip = code_at(&Module::open(&store, &program), "main", 13);

    let mut recorded = Recorded::new(&program);
    recorded.mappings.last_seen_ns.fill(300);
    // The program break moved between snapshots, and farther after the last one.
    let start = 0x6100_0000;
    for (time_ns, end) in [(100, 0x6100_1000), (200, 0x6100_3000), (300, 0x6100_2000)] {
        recorded.map(start, end, 0, "rw-p", "[heap]");
        let row = recorded.mappings.len() - 1;
        (recorded.mappings.first_seen_ns[row], recorded.mappings.last_seen_ns[row]) = (time_ns, time_ns);
    }
    for (time_ns, address) in [(100, start), (200, 0x6100_2000), (300, 0x6100_1000), (310, 0x6100_4ff8), (320, start)] {
        recorded.sample(time_ns, ip, address, None, 0);
    }
    recorded.sample(330, ip, 0x7ffd_000e_fff0, None, 0);
    let mut resolver = Resolver::new(&store);
    let process = resolver.add_process(recorded.process(1));
    let mut offsets = Vec::new();
    resolver.resolve(process, recorded.part(), |batch| offsets.extend_from_slice(&batch.offset));
    assert_eq!(offsets[..5], [0, 0x2000, 0x1000, 0x4ff8, 0]);
    let groups = resolver.finish().tables.groups;
    let sizes: Vec<_> = groups[1..].iter().map(|group| (group.name.as_str(), group.objects, group.bytes)).collect();
    assert_eq!(sizes, [("[heap]", 1, 0x4000), ("stack", 1, 0x10_0000)]);
}

const STRIPPED_SOURCE: &str = r#"
#include <stdlib.h>
#include <sys/mman.h>
struct node { struct node *next; long value; };
struct chunk { struct chunk *next; long used; char bytes[]; } *chunks;
static void *wrap(size_t bytes) { void *p = malloc(bytes); if (!p) abort(); return p; }
static struct node *make(struct node *next, long value) {
    struct node *n = wrap(sizeof *n);
    n->next = next;
    n->value = value;
    return n;
}
void *pool_alloc(size_t bytes) {
    struct chunk *c = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    c->next = chunks;
    c->used = bytes;
    chunks = c;
    return c->bytes;
}
struct node *build(long value) { return make(make(0, value), 1); }
int main(int argc, char **argv) {
    struct node *n = build(argc);
    long *one = pool_alloc(8);
    long *two = pool_alloc(8);
    return n->value + *one + *two;
}
static long *refill(void) {
    struct chunk *c = mmap(0, 1 << 18, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    c->next = chunks;
    c->used = 0;
    chunks = c;
    return (long *)c->bytes;
}
long first(void) { return *refill(); }
long second(void) { return *refill(); }
"#;

/// Code without a name that hands on what it got is looked through, too; what allocates is told behind the nearest
/// caller with a name. A pool's memory is the pool's, whoever called when it was empty.
#[test]
fn stripped_allocators_are_told_by_their_callers() {
    let sandbox = Sandbox::new();
    let flags = ["-g", "-O1", "-fno-inline", "-fno-optimize-sibling-calls", "-fpie", "-pie", "-rdynamic"];
    let named = sandbox.compile("gcc", &flags, "a.c", STRIPPED_SOURCE, "named");
    let stripped = sandbox.compile("gcc", &[&flags[..], &["-s"]].concat(), "a.c", STRIPPED_SOURCE, "stripped");
    let store = FileStore::new(&sandbox);
    // The same code, with lines to find the calls by.
    let module = Module::open(&store, &named);
    let returns = |function, line| after_call(&module, function, line);
    let ip = code_at(&module, "main", 24);

    let mut recorded = Recorded::new(&stripped);
    let node = [returns("wrap", 6), returns("make", 8), returns("build", 20), returns("main", 22)];
    let pool = |line| [returns("pool_alloc", 14), returns("main", line)];
    // An allocator without a name is told by what it does.
    let refill = |caller, line| [returns("refill", 28), returns(caller, line)];
    let (first, second) = (refill("first", 34), refill("second", 35));
    let paths = [&node[..], &pool(23), &pool(24), &first, &second, &first, &first];
    for (number, path) in paths.into_iter().enumerate() {
        let stack = recorded.stacks.push(path, StackEnd::Outermost);
        let base = Avma(0x7f00_0000_0000 + ((number as u64) << 30));
        let origin = if number == 0 { RangeOrigin::Heap } else { RangeOrigin::Map };
        let bytes = if number < 3 { 1 << 20 } else { 1 << 18 };
        let source = RangeSource::default();
        recorded.ranges.push(Range { base, bytes, born_ns: 0, died_ns: None, stack: Some(stack), origin, source });
        recorded.sample(10 + number as u64, ip, base.0, None, 0);
    }
    let mut resolver = Resolver::new(&store);
    let process = resolver.add_process(recorded.process(1));
    resolver.resolve(process, recorded.part(), |_| ());
    let groups = resolver.finish().tables.groups;
    let told: Vec<_> = groups[1..].iter().map(|group| (group.name.as_str(), group.objects)).collect();
    let call = Svma(node[1].0 - BIAS - 1);
    let refilling = format!("stripped+{}", Svma(refill("first", 34)[0].0 - BIAS - 1));
    assert_eq!(told, [(format!("build › +{call}").as_str(), 1), ("pool_alloc", 2), (refilling.as_str(), 4)]);
}

/// What an imported file names by itself is what it says, whatever else is known of the address.
#[test]
fn names_of_an_imported_file_come_first() {
    let mut recorded = Recorded::default();
    recorded.threads.push(Thread {
        tid: 1,
        name: "CPU 4".to_owned(),
        began_ns: 0,
        ended_ns: None,
        cpu_ns: 0,
        samples: 3,
    });
    recorded.map(0x1000, 0x9000, 0, "rw-p", "[heap]");
    let mut name = |start, end, kind, name: &str, line| {
        let (start, end, name, file) = (Avma(start), Avma(end), name.to_owned(), "lulesh.cc".to_owned());
        recorded.names.push(Name { start, end, kind, name, file, line });
    };
    name(0x2000, 0x2100, NameKind::Variable, "m_x", 0);
    name(0x10, 0x11, NameKind::Code, "", 2014);
    recorded.sample(10, 0x10, 0x2008, None, 0);
    recorded.sample(20, 0x10, 0x2010, None, 0);
    recorded.sample(30, 0x30, 0x3000, None, 0);

    let sandbox = Sandbox::new();
    let store = FileStore::new(&sandbox);
    let mut resolver = Resolver::new(&store);
    let process = resolver.add_process(recorded.process(1));
    let mut found = Vec::new();
    resolver.resolve(process, recorded.part(), |batch| {
        found.extend((0..batch.len()).map(|row| batch.row(row)));
    });
    let tables = resolver.finish().tables;
    let group = |row: usize| tables.group(found[row].group);
    assert_eq!((group(0).name.as_str(), group(0).kind, found[0].offset), ("m_x", GroupKind::Named, 8));
    assert_eq!((found[1].group, found[1].object, found[1].offset), (found[0].group, found[0].object, 16));
    assert_eq!((group(2).name.as_str(), group(0).bytes), ("[heap]", 0x100));
    assert_eq!(found[0].site, found[1].site);
    let position = tables.site(found[0].site).own_position().cloned();
    assert_eq!(position, Some(SourcePosition { file: "lulesh.cc".to_owned(), line: 2014, column: 0 }));
    assert_ne!(found[2].site, found[0].site);
}
