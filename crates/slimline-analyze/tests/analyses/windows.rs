//! What windows of consecutive accesses show: strides, structures, fields, paces, traversals.

use slimline_analyze::findings::DataProfile;
use slimline_analyze::pace::TriggerCosts;
use slimline_analyze::structure::ElementFrom;
use slimline_trace::access::{AccessKind, SiteId};

use crate::synthetic::{Program, Step, affinity, cluster_names, group, load, store};

/// Windows all over an array of `elements` at which the steps run 50 times each.
fn walk(program: &mut Program, steps: &[Step], elements: i64, windows: i64) {
    for window in 0..windows {
        let from = window * 7919 % (elements - 50);
        program.window(0, steps, from, 50, 1_000_000);
    }
}

#[test]
fn a_store_that_never_stalls_has_its_stride_and_its_share() {
    let mut program = Program::new();
    let element = program.doubles("body", &["x", "y", "z", "mass"]);
    let bodies = program.array("bodies", Some(element), 32 * 100_000);
    let in_loop = program.a_loop("advance", 10, 12);
    let (read, write) = (program.site(in_loop), program.site(in_loop));
    walk(&mut program, &[load(read, bodies, 0, 32), store(write, bodies, 24, 32)], 100_000, 20);
    let findings = program.findings();
    let bodies = group(&findings, &program, "bodies");
    let mass = &bodies.fields[3];
    assert_eq!((mass.blamed_share, mass.share, mass.access_share), (0.0, 0.5, 0.5));
    assert_eq!((mass.loads, mass.stores, mass.stride_bytes), (0, 1000, Some(32)));
    assert_eq!(affinity(bodies, "x", "mass"), 1.0);
    assert_eq!(cluster_names(bodies), [["x", "mass"], ["y", "z"]]);
    let structure = bodies.structure.expect("an element");
    assert_eq!((structure.from, structure.element_bytes), (ElementFrom::DebugInfo, 32));
    assert_eq!((structure.by_stride, structure.is_contradicted()), (Some(32), false));
}

#[test]
fn without_debug_information_offsets_stand_for_fields() {
    let mut program = Program::new();
    let cells = program.array("cells", None, 48 * 50_000);
    let (one, two) = (program.a_loop("one", 10, 11), program.a_loop("two", 20, 21));
    let hot = program.site(one);
    let (a, b) = (program.site(two), program.site(two));
    walk(&mut program, &[load(hot, cells, 40, 48)], 50_000, 30);
    walk(&mut program, &[load(a, cells, 0, 48), Step { bytes: 4, ..load(b, cells, 8, 48) }], 50_000, 10);
    // A `memset` over all of it says nothing about structure.
    let clear = program.a_loop("clear", 5, 5);
    let wide = program.site(clear);
    walk(&mut program, &[Step { bytes: 32, ..store(wide, cells, 0, 32) }], 70_000, 10);
    let findings = program.findings();
    let cells = group(&findings, &program, "cells");
    let structure = cells.structure.expect("a structure");
    assert_eq!((structure.element_bytes, structure.from), (48, ElementFrom::Stride));
    assert!(structure.confidence > 0.95);
    let fields: Vec<_> = cells.fields.iter().map(|field| (field.name.as_str(), field.bytes)).collect();
    assert_eq!(fields, [("+0", 8), ("+8", 4), ("+40", 8)]);
}

#[test]
fn an_unrolled_loop_is_seen_through() {
    let mut program = Program::new();
    let pairs = program.array("pairs", None, 16 * 100_000);
    let in_loop = program.a_loop("sum", 3, 4);
    let steps: Vec<Step> = (0..4).map(|copy| load(program.site(in_loop), pairs, copy * 16, 64)).collect();
    walk(&mut program, &steps, 20_000, 10);
    let findings = program.findings();
    assert_eq!(group(&findings, &program, "pairs").structure.expect("a structure").element_bytes, 16);
}

#[test]
fn a_loop_that_reads_everything_shows_no_structure() {
    let mut program = Program::new();
    let numbers = program.array("numbers", None, 8 * 100_000);
    let in_loop = program.a_loop("sum", 3, 4);
    let steps: Vec<Step> = (0..4).map(|copy| load(program.site(in_loop), numbers, copy * 8, 32)).collect();
    walk(&mut program, &steps, 20_000, 10);
    let findings = program.findings();
    assert_eq!(group(&findings, &program, "numbers").structure, None);
}

#[test]
fn a_column_walk_is_no_structure() {
    let mut program = Program::new();
    let grid = program.array("grid", None, 8 * 4096 * 4096);
    let in_loop = program.a_loop("column_sum", 29, 30);
    let site = program.site(in_loop);
    for column in 0..40 {
        program.window(0, &[load(site, grid, column * 8, 32_768)], i64::from(column as u32) * 50, 50, 1_000_000);
    }
    let findings = program.findings();
    let walk = &findings.loops[0].groups[0].walks[0];
    assert_eq!(walk.motion.stride_bytes, Some(32_768));
    assert_eq!(walk.motion.grain.expect("a grain").bytes, 8);
    assert_eq!(group(&findings, &program, "grid").structure, None);
}

#[test]
fn blocks_of_one_size_are_nodes() {
    let mut program = Program::new();
    let list = program.nodes("list", None, 5_000, 40);
    let in_loop = program.a_loop("chase", 8, 9);
    let (next, value) = (program.site(in_loop), program.site(in_loop));
    for window in 0..20 {
        let steps = [load(next, list, 0, 0), load(value, list, 32, 0)];
        program.node_window(0, &steps, |turn| (window * 977 + turn * 31) % 5_000, 60, 1_000_000);
    }
    let findings = program.findings();
    let list = group(&findings, &program, "list");
    let structure = list.structure.expect("nodes");
    assert_eq!((structure.element_bytes, structure.from), (40, ElementFrom::BlockSize));
    assert!(structure.one_per_object);
    assert_eq!(list.fields.iter().map(|field| field.offset).collect::<Vec<_>>(), [0, 32]);
    assert_eq!(list.fields[0].stride_bytes, None);
}

/// An allocator's blocks have one size as well, but each instruction reaches many places of them.
#[test]
fn blocks_that_are_cut_into_small_ones_are_no_nodes() {
    let mut program = Program::new();
    let slabs = program.nodes("slabs", None, 5_000, 480);
    let in_loop = program.a_loop("find", 8, 9);
    let (next, value) = (program.site(in_loop), program.site(in_loop));
    for window in 0..40 {
        let cell = u64::from(window * 37 % 20) * 24;
        let steps = [load(next, slabs, cell, 0), load(value, slabs, cell + 8, 0)];
        program.node_window(0, &steps, |turn| (window * 977 + turn * 31) % 5_000, 60, 1_000_000);
    }
    let findings = program.findings();
    let structure = group(&findings, &program, "slabs").structure.expect("cells");
    assert_eq!((structure.element_bytes, structure.from), (24, ElementFrom::Stride));
    assert!(!structure.one_per_object);
}

/// The same with too little seen of each instruction to know the cells.
#[test]
fn blocks_of_which_few_places_were_seen_twice_are_no_nodes() {
    let mut program = Program::new();
    let slabs = program.nodes("slabs", None, 5_000, 480);
    let in_loop = program.a_loop("find", 8, 9);
    for place in 0..40_u32 {
        let site = program.site(in_loop);
        for (time, apart) in (0..).zip([0, 13, 201, 350]) {
            let step = load(site, slabs, u64::from((place * 7 + apart) % 60) * 8, 0);
            program.node_window(0, &[step], |_| place * 31 + time, 1, 1_000_000);
        }
    }
    let findings = program.findings();
    assert_eq!(group(&findings, &program, "slabs").structure, None);
}

/// An interpreter's arenas: each instruction was seen at one place of some of them.
#[test]
fn arenas_are_no_nodes() {
    let found = |bytes: u64| {
        let mut program = Program::new();
        let arenas = program.nodes("arenas", None, 5_000, bytes);
        let in_loop = program.a_loop("run", 8, 9);
        let steps = [80, 224, 440].map(|offset| load(program.site(in_loop), arenas, offset, 0));
        for window in 0..20 {
            program.node_window(0, &steps, |turn| (window * 977 + turn * 31) % 5_000, 60, 1_000_000);
        }
        let findings = program.findings();
        group(&findings, &program, "arenas").structure.map(|structure| structure.element_bytes)
    };
    assert_eq!((found(504), found(512), found(4080)), (Some(504), None, None));
}

/// A garbage collector's heap: one loop walks over some of it, and all else hops about.
#[test]
fn a_few_walks_say_nothing_of_a_pool() {
    let element_bytes = |hops: u64| {
        let mut program = Program::new();
        let pool = program.array("pool", None, 48 * 100_000);
        let mark = program.a_loop("mark", 3, 4);
        let steps = [load(program.site(mark), pool, 0, 48), load(program.site(mark), pool, 16, 48)];
        walk(&mut program, &steps, 10_000, 2);
        let elsewhere = program.a_loop("elsewhere", 13, 14);
        for hop in 0..hops {
            let step = load(program.site(elsewhere), pool, hop * 7919 * 8 % (48 * 100_000), 0);
            program.window(0, &[step], 0, 1, 1_000_000);
        }
        let findings = program.findings();
        group(&findings, &program, "pool").structure.map(|structure| structure.element_bytes)
    };
    assert_eq!((element_bytes(20), element_bytes(2_000)), (Some(48), None));
}

/// A trie's or a skip list's node: one instruction reaches all of its children, others one field each.
#[test]
fn nodes_with_many_children_are_nodes() {
    let mut program = Program::new();
    let trie = program.nodes("trie", None, 5_000, 8 * 27);
    let (find, insert) = (program.a_loop("find", 8, 9), program.a_loop("insert", 18, 19));
    let (found, inserted, count) = (program.site(find), program.site(insert), program.site(insert));
    for window in 0..60 {
        let child = |turn: u32| 8 + u64::from(window + turn) * 7 % 26 * 8;
        let node = |turn: u32| (window * 977 + turn * 31) % 5_000;
        program.node_window(0, &[load(found, trie, child(0), 0)], node, 60, 1_000_000);
        let steps = [load(inserted, trie, child(3), 0), load(count, trie, 0, 0)];
        program.node_window(0, &steps, node, 30, 1_000_000);
    }
    let findings = program.findings();
    let structure = group(&findings, &program, "trie").structure.expect("nodes");
    assert_eq!((structure.element_bytes, structure.from), (8 * 27, ElementFrom::BlockSize));
    assert!(structure.one_per_object);
}

/// Two loops take the same time, but one executes ten times as often: by windows alone both would count the same.
#[test]
fn pace_takes_the_bias_out_of_counts() {
    let mut program = Program::new();
    let element = program.doubles("pair", &["slow", "fast"]);
    let pairs = program.array("pairs", Some(element), 16 * 10_000_000);
    let (slow_loop, fast_loop) = (program.a_loop("slow", 1, 2), program.a_loop("fast", 3, 4));
    let (slow, fast) = (program.site(slow_loop), program.site(fast_loop));
    // 20,000 and 200,000 executions a millisecond, each of 8 instructions: 50 executions in 400 instructions.
    for millisecond in 0..40 {
        program.window(0, &[load(slow, pairs, 0, 16)], millisecond * 20_000, 50, 1_000_000);
    }
    for millisecond in 0..40 {
        program.window(0, &[load(fast, pairs, 8, 16)], millisecond * 200_000, 50, 1_000_000);
    }
    let findings = program.findings();
    let pairs = group(&findings, &program, "pairs");
    assert!((pairs.fields[1].access_share - 10.0 / 11.0).abs() < 0.005, "{}", pairs.fields[1].access_share);
    assert!((pairs.fields[0].share - 0.5).abs() < 1e-9);
    assert_eq!(pairs.paced, 1.0);
}

/// The same with a walk of uneven steps, and beside it a pointer that wraps around in a buffer.
#[test]
fn pace_of_uneven_steps_beside_a_wrapping_pointer() {
    let mut program = Program::new();
    let element = program.doubles("pair", &["slow", "fast"]);
    let pairs = program.array("pairs", Some(element), 16 * 10_000_000);
    let buffer = program.array("buffer", None, 5_000);
    let (slow_loop, fast_loop) = (program.a_loop("slow", 1, 2), program.a_loop("fast", 3, 4));
    let (slow, fast) = (program.site(slow_loop), program.site(fast_loop));
    let (slow_wrap, fast_wrap) = (program.site(slow_loop), program.site(fast_loop));
    // Of each three elements two are visited. Where the buffer's pointer is at a window's start is chance.
    for (site, wrap, offset, turns) in [(slow, slow_wrap, 0, 10_000), (fast, fast_wrap, 8, 100_000)] {
        for millisecond in 0..40_i64 {
            let from = millisecond * turns;
            let wrapped = (millisecond * 7919 % 4_900 - from) as u64;
            let steps =
                [load(site, pairs, offset, 48), load(site, pairs, offset + 16, 48), load(wrap, buffer, wrapped, 1)];
            program.window(0, &steps, from, 25, 1_000_000);
        }
    }
    let findings = program.findings();
    let pairs = group(&findings, &program, "pairs");
    assert!((pairs.fields[1].access_share - 10.0 / 11.0).abs() < 0.01, "{}", pairs.fields[1].access_share);
    assert_eq!(pairs.paced, 1.0);
}

/// A loop whose body is four windows long, each of which shows two of its eight sites; most begin at the same one.
#[test]
fn pace_of_a_body_longer_than_a_window() {
    let mut program = Program::new();
    let element = program.doubles("pair", &["slow", "fast"]);
    let pairs = program.array("pairs", Some(element), 16 * 10_000_000);
    let (slow_loop, fast_loop) = (program.a_loop("slow", 1, 2), program.a_loop("fast", 3, 4));
    let slow: Vec<SiteId> = (0..8).map(|_| program.site(slow_loop)).collect();
    let fast = program.site(fast_loop);
    // 250 turns a millisecond, give or take some, of 1,600 instructions: 0.4 a nanosecond.
    for millisecond in 0..160_i64 {
        let begin = if millisecond % 2 == 0 { 2 } else { (millisecond / 2 % 8) as usize };
        let steps = [begin, begin + 1].map(|at| {
            let turn = (at / 8) as u64 * 160;
            load(slow[at % 8], pairs, turn + (at % 8) as u64 * 16, 160)
        });
        program.window(0, &steps, millisecond * 250 + millisecond * 7 % 5, 1, 1_000_000);
    }
    for millisecond in 0..160 {
        program.window(0, &[load(fast, pairs, 8, 16)], millisecond * 200_000, 50, 1_000_000);
    }
    let findings = program.findings();
    let pairs = group(&findings, &program, "pairs");
    // 1.6 a nanosecond against 0.4; windows show 50 executions against 2, so 200 for each 2.
    assert_eq!(pairs.paced, 1.0);
    assert!((pairs.fields[1].access_share - 200.0 / 202.0).abs() < 0.003, "{}", pairs.fields[1].access_share);
}

/// A loop with a hundred sites in a body four windows long, over walks of five milliseconds. One sample in five has a
/// window, and the others are blamed on any of the sites: so hardly a site is in two samples of one walk, but two of
/// them are again and again.
#[test]
fn sites_of_a_long_body_tell_its_pace_together() {
    const SITES: usize = 100;
    const TURN: u64 = 16 * SITES as u64;
    let mut program = Program::new();
    let element = program.doubles("pair", &["slow", "fast"]);
    let pairs = program.array("pairs", Some(element), 16 * 10_000_000);
    let (slow_loop, fast_loop) = (program.a_loop("slow", 1, 2), program.a_loop("fast", 3, 4));
    let slow: Vec<SiteId> = (0..SITES).map(|_| program.site(slow_loop)).collect();
    let fast = program.site(fast_loop);
    // 250 turns a millisecond, of 1,600 instructions: 0.4 a nanosecond.
    for millisecond in 0..600_usize {
        // Give or take some.
        let (walk, turn) = (millisecond / 5, millisecond % 5 * 250 + millisecond * 13 % 4);
        let begin = (walk as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 48;
        let start = (begin + turn as u64) * TURN;
        let access = |at: usize| load(slow[at % SITES], pairs, start + at as u64 * 16, 0);
        let at = (millisecond * millisecond + 37 * millisecond) % SITES;
        if millisecond % 5 == walk % 5 {
            let steps: Vec<_> = (at..at + SITES / 4).map(access).collect();
            program.window(0, &steps, 0, 1, 1_000_000);
        } else {
            program.sample_before(access(at), 1_000_000);
        }
    }
    for millisecond in 0..600 {
        program.window(0, &[load(fast, pairs, 8, 16)], millisecond * 10_000, 50, 1_000_000);
    }
    let findings = program.findings();
    let pairs = group(&findings, &program, "pairs");
    assert_eq!(pairs.paced, 1.0);
    // 10,000 executions a millisecond against 250 turns of a hundred.
    assert!((pairs.fields[1].access_share - 10.0 / 35.0).abs() < 0.01, "{}", pairs.fields[1].access_share);
}

/// Walks of five milliseconds that start anew again and again. One sample in seven has a window, so that hardly two
/// windows are in one walk; but two samples are.
#[test]
fn pace_of_short_walks_is_told_by_samples_without_a_window() {
    let mut program = Program::new();
    let element = program.doubles("pair", &["slow", "fast"]);
    let pairs = program.array("pairs", Some(element), 16 * 10_000_000);
    let loops = [(program.a_loop("slow", 1, 2), 0, 20_000), (program.a_loop("fast", 3, 4), 8, 200_000)];
    let loops = loops.map(|(in_loop, offset, turns)| (program.site(in_loop), offset, turns));
    let mut samples = 0;
    for _pass in 0..70 {
        for (site, offset, turns) in loops {
            for millisecond in 0..5 {
                let from = millisecond * turns;
                samples += 1;
                match samples % 7 {
                    0 => program.window(0, &[load(site, pairs, offset, 16)], from, 50, 1_000_000),
                    _ => program.sample_before(load(site, pairs, offset + from as u64 * 16, 16), 1_000_000),
                }
            }
        }
    }
    let findings = program.findings();
    let pairs = group(&findings, &program, "pairs");
    assert!((pairs.fields[1].access_share - 10.0 / 11.0).abs() < 0.005, "{}", pairs.fields[1].access_share);
    assert_eq!(pairs.paced, 1.0);
}

/// Each interrupt takes 60 microseconds of the thread's time. Of the first loop there are samples 0.4 milliseconds apart, and
/// these decide: 0.34 milliseconds of walking; of the second there are none closer than one millisecond, 0.94 of walking.
#[test]
fn interrupts_are_no_part_of_a_walk() {
    let mut program = Program::new();
    let element = program.doubles("pair", &["slow", "fast"]);
    let pairs = program.array("pairs", Some(element), 16 * 10_000_000);
    let (slow_loop, fast_loop) = (program.a_loop("slow", 1, 2), program.a_loop("fast", 3, 4));
    let (slow, fast) = (program.site(slow_loop), program.site(fast_loop));
    // 20 turns a microsecond: 0.54 milliseconds to the sample in between, and 0.34 from there.
    for millisecond in 0..60_u64 {
        let turn = millisecond * 17_600;
        program.window(0, &[load(slow, pairs, 0, 16)], turn as i64, 50, 1_000_000);
        program.sample_between(load(slow, pairs, (turn + 10_800) * 16, 16), 600_000);
    }
    // 100 turns a microsecond.
    for millisecond in 0..60 {
        program.window(0, &[load(fast, pairs, 8, 16)], millisecond * 94_000, 50, 1_000_000);
    }
    let share = |trigger_costs| {
        let findings = program.findings_of(DataProfile { trigger_costs, ..DataProfile::default() });
        let pairs = group(&findings, &program, "pairs");
        assert_eq!(pairs.paced, 1.0);
        pairs.fields[0].access_share
    };
    let costs = TriggerCosts { weighing_ns: 60_000, between_ns: 60_000 };
    assert!((share(costs) - 17_600.0 / 111_600.0).abs() < 0.002, "{}", share(costs));
    // Taken for walking, 0.34 milliseconds of it are 0.4.
    let unknown = TriggerCosts::default();
    assert!((share(unknown) - 17_000.0 / 111_000.0).abs() < 0.002, "{}", share(unknown));
}

/// Walks that start anew between windows give no pace; then counts are by windows and say so.
#[test]
fn broken_walks_give_no_pace() {
    let mut program = Program::new();
    let element = program.doubles("pair", &["a", "b"]);
    let pairs = program.array("pairs", Some(element), 16 * 100_000);
    let in_loop = program.a_loop("f", 1, 2);
    let site = program.site(in_loop);
    for window in 0..60_i64 {
        program.window(0, &[load(site, pairs, 0, 16)], window * 7919 % 9_000, 50, 1_000_000);
    }
    let findings = program.findings();
    let pairs = group(&findings, &program, "pairs");
    assert_eq!((pairs.paced, pairs.fields[0].access_share), (0.0, 1.0));
}

/// The outer loop reads `count` of each element, the inner one its `weights` again and again.
#[test]
fn an_inner_loop_over_the_same_element_is_one_traversal() {
    let mut program = Program::new();
    let element = program.doubles("cell", &["count", "w0", "w1", "unused"]);
    let cells = program.array("cells", Some(element), 32 * 100_000);
    let (outer, inner) = (program.a_loop("outer", 1, 9), program.a_loop("inner", 4, 5));
    let (count, weight) = (program.site(outer), program.site(inner));
    let steps = [load(count, cells, 0, 32), load(weight, cells, 8, 32), load(weight, cells, 16, 32)];
    for window in 0..20 {
        program.window(0, &steps, window * 1000, 40, 1_000_000);
    }
    // Elsewhere another loop reads `unused` alone.
    let other = program.a_loop("other", 20, 21);
    let alone = program.site(other);
    for window in 0..20 {
        program.window(0, &[load(alone, cells, 24, 32)], window * 1000, 40, 1_000_000);
    }
    let findings = program.findings();
    let cells = group(&findings, &program, "cells");
    assert_eq!(affinity(cells, "count", "w0"), 1.0);
    assert_eq!(affinity(cells, "count", "unused"), 0.0);
    assert_eq!(cluster_names(cells), [vec!["count", "w0", "w1"], vec!["unused"]]);
}

#[test]
fn a_read_modify_write_is_two_accesses() {
    let mut program = Program::new();
    let element = program.doubles("pair", &["a", "b"]);
    let pairs = program.array("pairs", Some(element), 16 * 100_000);
    let in_loop = program.a_loop("f", 1, 2);
    let (add, read) = (program.site(in_loop), program.site(in_loop));
    let add = Step { kind: AccessKind::LOAD_STORE, ..load(add, pairs, 0, 16) };
    walk(&mut program, &[add, load(read, pairs, 8, 16)], 100_000, 10);
    let findings = program.findings();
    let pairs = group(&findings, &program, "pairs");
    assert_eq!((pairs.loads, pairs.stores), (1000, 500));
    assert!((pairs.fields[0].access_share - 2.0 / 3.0).abs() < 1e-9);
}

/// What a loop over elements of four doubles (x, y, z, unused) has by one instruction that accesses them: of each field its
/// part of the accesses, and whether it is only spanned.
fn by_one_instruction(step: impl Fn(Step) -> Step) -> Vec<(f64, bool)> {
    let mut program = Program::new();
    let element = program.doubles("point", &["x", "y", "z", "unused"]);
    let points = program.array("points", Some(element), 32 * 100_000);
    let in_loop = program.a_loop("f", 1, 2);
    let wide = step(Step { bytes: 16, ..load(program.site(in_loop), points, 0, 32) });
    walk(&mut program, &[wide], 100_000, 10);
    let findings = program.findings();
    let points = group(&findings, &program, "points");
    let whole: f64 = points.fields.iter().map(|field| field.access_share).sum();
    assert!((whole - 1.0).abs() < 1e-9, "{whole}");
    let share: f64 = points.fields.iter().map(|field| field.share).sum();
    assert!((share - 1.0).abs() < 1e-9, "{share}");
    let used = &findings.loops[0].groups[0].fields;
    let is_only_spanned = |row: usize| used.iter().any(|field| field.field == row && field.only_spanned);
    points.fields.iter().enumerate().map(|(row, field)| (field.access_share, is_only_spanned(row))).collect()
}

#[test]
fn wide_accesses_count_for_all_fields_that_they_reach() {
    let none = (0.0, false);
    assert_eq!(by_one_instruction(|step| step), [(0.5, false), (0.5, false), none, none]);
    // It begins in the middle of a field, and ends in the next one's.
    assert_eq!(
        by_one_instruction(|step| Step { offset: 4, bytes: 8, ..step }),
        [(0.5, false), (0.5, false), none, none]
    );
    // A third is of the next element.
    let around = by_one_instruction(|step| Step { offset: 16, bytes: 24, kind: AccessKind::STORE, ..step });
    for (found, expected) in around.iter().zip([1.0, 0.0, 1.0, 1.0]) {
        assert!((found.0 - expected / 3.0).abs() < 1e-9 && !found.1, "{around:?}");
    }
}

/// A vectorizer takes two elements at a time, and loads what lies between.
#[test]
fn wide_loads_of_several_elements_count_where_they_begin() {
    let none = (0.0, false);
    let by_two = |step| Step { stride: 64, ..step };
    assert_eq!(by_one_instruction(by_two), [(1.0, false), (0.0, true), none, none]);
    let wider = |step| Step { bytes: 64, ..step };
    assert_eq!(by_one_instruction(wider), [(1.0, false), (0.0, true), (0.0, true), (0.0, true)]);
    // What is stored is used, however wide.
    let stored = |step| Step { kind: AccessKind::STORE, ..by_two(step) };
    assert_eq!(by_one_instruction(stored), [(0.5, false), (0.5, false), none, none]);
    // No vector has so many lanes: the loop leaves elements out.
    let far = |step| Step { stride: 32 * 100, ..step };
    assert_eq!(by_one_instruction(far), [(0.5, false), (0.5, false), none, none]);
}

/// One loop has x and y by one instruction, another one spends three times as much on x alone, for a third of the accesses.
#[test]
fn fields_of_one_instruction_are_not_parted() {
    let clusters = |bytes: u16| {
        let mut program = Program::new();
        let element = program.doubles("point", &["x", "y", "z"]);
        let points = program.array("points", Some(element), 24 * 100_000);
        let (both, alone) = (program.a_loop("both", 1, 2), program.a_loop("alone", 11, 12));
        let both = Step { bytes, kind: AccessKind::STORE, ..load(program.site(both), points, 0, 24) };
        let alone = load(program.site(alone), points, 0, 24);
        for window in 0..20 {
            program.window(0, &[both], window * 4000, 40, 1_000_000);
            program.window(0, &[alone], window * 400, 4, 3_000_000);
        }
        let findings = program.findings();
        cluster_names(group(&findings, &program, "points")).into_iter().map(|names| names.concat()).collect::<Vec<_>>()
    };
    assert_eq!(clusters(16), ["xy", "z"]);
    assert_eq!(clusters(8), ["x", "yz"]);
}

/// A search looks at twenty nodes for each that is used: what is used then is not used together with the keys.
#[test]
fn what_a_search_hands_over_is_no_part_of_it() {
    let mut program = Program::new();
    let element = program.doubles("node", &["key", "left", "value"]);
    let nodes = program.array("nodes", Some(element), 24 * 100_000);
    let (find, caller) = (program.a_loop("find", 1, 2), program.a_loop("caller", 5, 9));
    let (key, left, value) = (program.site(find), program.site(find), program.site(caller));
    let mut steps = Vec::new();
    for depth in 0..20 {
        let node = depth * 24_000;
        steps.extend([load(key, nodes, node, 24), load(left, nodes, node + 8, 24)]);
    }
    steps.push(load(value, nodes, 19 * 24_000 + 16, 24));
    for window in 0..20 {
        program.window(0, &steps, window * 17, 3, 1_000_000);
    }
    let findings = program.findings();
    let nodes = group(&findings, &program, "nodes");
    assert_eq!((affinity(nodes, "key", "left"), affinity(nodes, "key", "value")), (1.0, 0.0));
    assert_eq!(cluster_names(nodes), [vec!["key", "left"], vec!["value"]]);
}

#[test]
fn unrolled_copies_have_the_stride_of_the_loop() {
    let mut program = Program::new();
    let element = program.doubles("pair", &["a", "b"]);
    let pairs = program.array("pairs", Some(element), 16 * 100_000);
    let in_loop = program.a_loop("sum", 3, 4);
    let steps: Vec<Step> = (0..4).map(|copy| load(program.site(in_loop), pairs, copy * 16, 64)).collect();
    walk(&mut program, &steps, 20_000, 10);
    let findings = program.findings();
    assert_eq!(group(&findings, &program, "pairs").fields[0].stride_bytes, Some(16));
}

/// What instructions cost divides among fields so that the sums are the fields' shares: where lines are divided by executions, where
/// a part of the cost is in no field, and where no window showed the loop.
#[test]
fn instructions_divide_as_fields_do() {
    let mut program = Program::new();
    let node = program.doubles("node", &["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"]);
    let nodes = program.array("nodes", Some(node), 80 * 1000);
    let (walked, unseen) = (program.a_loop("walk", 3, 5), program.a_loop("other", 8, 9));
    let [first, second, far] = [(); 3].map(|()| program.site(walked));
    let alone = program.site(unseen);
    let steps = [load(first, nodes, 0, 80), load(second, nodes, 8, 80), load(far, nodes, 72, 80)];
    for turn in 0..40 {
        program.window(0, &steps, turn, 20, 1000);
        program.sample(0, load(far, nodes, 72 + 80 * turn as u64, 80), 300);
        program.sample(0, load(alone, nodes, 16 + 80 * turn as u64, 80), 70);
    }
    let findings = program.findings_of(DataProfile { by_instruction: true, ..DataProfile::default() });
    let found = group(&findings, &program, "nodes");
    let weights = [(first, 40_000.0), (second, 0.0), (far, 12_000.0), (alone, 2_800.0)];
    let all: f64 = weights.iter().map(|(_, weight)| weight).sum();
    let mut shares = vec![0.0; found.fields.len()];
    for (site, weight) in weights {
        for &(field, part) in &found.divided[&site].weight {
            shares[field] += weight / all * part;
        }
    }
    for (field, share) in found.fields.iter().zip(&shares) {
        assert!((field.share - share).abs() < 1e-9, "{}: {} {share}", field.name, field.share);
    }
    let of_second = &found.divided[&second].executions;
    let is_its_own = matches!(of_second[..], [(1, part)] if (part - 1.0).abs() < 1e-9);
    assert!(is_its_own, "what it accesses is its own: {of_second:?}");
    assert!(shares[0] > 0.3 && shares[1] > 0.3, "a line's cost is that of all its fields: {shares:?}");
    assert!((1.0 - shares.iter().sum::<f64>() - found.elsewhere).abs() < 1e-9);
    assert!(group(&program.findings(), &program, "nodes").divided.is_empty(), "nobody asked");
}
