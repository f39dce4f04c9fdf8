//! Advice on synthetic programs: what to do, where, and what not to touch.

use slimline_analyze::advise::{Advice, Confidence, Floors, Kind, advise};
use slimline_attribute::tables::{Frame, GroupKind, Language, MemberRole, TypeId};
use slimline_trace::access::{GroupId, SiteId};

use crate::synthetic::{Program, Step, computing, load};

fn advice(program: &Program) -> Vec<Advice> {
    advise(&program.findings(), &program.tables, &Floors::default())
}

fn walk(program: &mut Program, steps: &[Step], windows: i64) {
    for window in 0..windows {
        program.window(0, steps, window * 1000, 40, 1_000_000);
    }
}

/// One hot double in 64 bytes, and a loop over four others: an array is split.
fn neighbors() -> Program {
    let mut program = Program::new();
    let element = program.structure("neighbor", 64, &[("entry", 0, 49, "char[49]"), ("dist", 56, 8, "double")]);
    let array = program.array("neighbors", Some(element), 64 << 20);
    let (hot, cold) = (program.a_loop("nearest", 117, 120), program.a_loop("print", 140, 141));
    let (dist, entry) = (program.site(hot), program.site(cold));
    walk(&mut program, &[load(dist, array, 56, 64)], 190);
    walk(&mut program, &[Step { bytes: 1, ..load(entry, array, 0, 64) }], 10);
    program
}

#[test]
fn shares_of_fields_have_intervals() {
    let program = neighbors();
    let findings = program.findings();
    let dist = findings.groups[0].fields.iter().find(|field| field.name == "dist").expect("a field");
    // Wilson's interval of 190 in 200.
    let (low, high) = dist.share_interval;
    assert!((low - 0.9104).abs() < 5e-5 && (high - 0.9726).abs() < 5e-5, "{low} {high}");
}

#[test]
fn an_array_is_split_by_clusters() {
    let program = neighbors();
    let found = advice(&program);
    assert_eq!(found.len(), 1);
    let split = &found[0];
    assert_eq!((split.kind, split.confidence), (Kind::Split, Confidence::High));
    assert_eq!(split.title, "Split neighbor into {dist} {entry}");
    assert_eq!(split.fields, [vec![56], vec![0]]);
    let predicted = split.predicted.as_ref().expect("a prediction");
    // 95 % of the time in a loop that touches a line for each 64 bytes, and then for each 8: −7/8; the other loop reads
    // one byte of an element of 49 bytes instead of 64.
    assert!((predicted.lines - (0.95 * -0.875 + 0.05 * (49.0 / 64.0 - 1.0))).abs() < 0.005, "{predicted:?}");
    assert!(predicted.cycles_low < predicted.cycles && predicted.cycles < predicted.cycles_high);
    assert!(predicted.cycles_high < 0.0);
    assert_eq!(split.declared_at.as_ref().map(|at| (at.file.as_str(), at.line)), Some(("a.c", 10)));
    assert_eq!(split.touched_lines, [("a.c".to_owned(), 117), ("a.c".to_owned(), 140)]);
    assert_eq!(
        split.code,
        "typedef struct neighbor_dist {\n    double dist;\n} neighbor_dist;\n\
         typedef struct neighbor_entry {\n    char entry[49];\n} neighbor_entry;\n\
         // one array each: neighbors[i].dist becomes neighbors_dist[i].dist\n"
    );
}

/// Lines of a last-level cache come in a fraction of the time, and mostly ahead of their use.
#[test]
fn what_a_last_level_may_hold_is_not_sure() {
    let split = |program: &Program, last_level_bytes| {
        let floors = Floors { last_level_bytes, ..Floors::default() };
        advise(&program.findings(), &program.tables, &floors)
            .into_iter()
            .find(|advice| advice.kind == Kind::Split)
            .unwrap()
    };
    let alone = neighbors();
    let memory = split(&alone, (64 << 20) - 1);
    assert_eq!(memory.confidence, Confidence::High);
    assert!(!memory.why.contains("last-level"), "{}", memory.why);
    let cache = split(&alone, 64 << 20);
    assert_eq!((cache.confidence, &cache.predicted), (Confidence::Medium, &memory.predicted));
    assert!(
        cache.why.contains(" All data that takes time (64.0 MiB) fits the last-level cache (64.0 MiB): "),
        "{}",
        cache.why
    );
    let mut beside = neighbors();
    let others = beside.array("others", None, 32 << 20);
    let in_loop = beside.a_loop("others", 9, 12);
    let site = beside.site(in_loop);
    walk(&mut beside, &[load(site, others, 0, 8)], 20);
    let both = split(&beside, 64 << 20);
    assert_eq!(both.confidence, Confidence::Medium);
    let told =
        " Alone it (64.0 MiB) would fit the last-level cache (64.0 MiB), in which other data that takes time is, too: ";
    assert!(both.why.contains(told), "{}", both.why);
}

/// What a loop waits for while it computes anyway may not be won.
#[test]
fn gains_are_bounded_by_what_computing_leaves() {
    let run = |of_100: u64| {
        let mut program = Program::new();
        let element = program.structure("record", 64, &[("x", 0, 8, "double"), ("rest", 8, 56, "char[56]")]);
        let array = program.array("records", Some(element), 64 << 20);
        let in_loop = program.a_loop("solve", 9, 12);
        let (read, divide) = (program.site(in_loop), program.site(in_loop));
        for sample in 0..400 {
            match sample % 100 < of_100 {
                true => program.sample(0, computing(divide), 1_000_000),
                false => walk(&mut program, &[load(read, array, 0, 64)], 1),
            }
        }
        let mut found = advice(&program);
        assert_eq!((found.len(), found[0].kind), (1, Kind::Split));
        found.remove(0)
    };
    let gain = |advice: &Advice| advice.predicted.clone().map(|of| (of.cycles, of.cycles_low, of.cycles_high)).unwrap();
    let close = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-9, "{found} {expected}");
    // All of the time waits; 7 of 8 bytes are saved, of which 0.35 to 1 is reached. The ends hold sampling, too.
    let all = run(0);
    close(gain(&all).0, -0.875 * 0.7);
    assert_eq!(all.confidence, Confidence::High);
    assert!(!all.why.contains("computing"), "{}", all.why);
    // A fifth computes: of the four fifths that wait, a quarter may be hidden.
    let most = run(20);
    close(gain(&most).0, -0.8 * 0.875 * (1.0 + 0.75) / 2.0 * 0.7);
    assert!(most.why.contains("solve lines 9-12 (100.0 % of the time, 20.0 % of it computing)"), "{}", most.why);
    let method = &most.predicted.as_ref().unwrap().method;
    assert!(method.ends_with("up to 25.0 % of it is hidden behind computing in the same loops"), "{method}");
    // It computes for longer than it waits: perhaps nothing is won.
    let least = run(60);
    close(gain(&least).0, -0.4 * 0.875 / 2.0 * 0.7);
    assert_eq!((gain(&least).2, least.confidence), (0.0, Confidence::Medium));
    assert!(gain(&least).1 < gain(&least).0);
}

/// A function inlined at two calls has its loop twice in the binary: together they are the hottest, and that is the
/// figure that the table of loops shows.
#[test]
fn copies_of_the_hottest_loop_count_together() {
    let mut program = Program::new();
    let element = program.structure("neighbor", 64, &[("entry", 0, 49, "char[49]"), ("dist", 56, 8, "double")]);
    let array = program.array("neighbors", Some(element), 64 << 20);
    for (function, lines, offset, windows) in
        [("print", (140, 141), 0, 80), ("nearest", (117, 120), 56, 60), ("nearest", (117, 120), 56, 60)]
    {
        let in_loop = program.a_loop(function, lines.0, lines.1);
        let site = program.site(in_loop);
        walk(&mut program, &[load(site, array, offset, 64)], windows);
    }
    let why = &advice(&program)[0].why;
    assert!(why.contains("Its hottest loop, nearest lines 117-120 (60.0 % of the time), uses {dist}"), "{why}");
}

#[test]
fn nodes_keep_what_is_hot_and_point_to_the_rest() {
    let mut program = Program::new();
    let element = program.structure(
        "struct tree",
        56,
        &[
            ("sz", 0, 4, "int"),
            ("x", 8, 8, "double"),
            ("y", 16, 8, "double"),
            ("left", 24, 8, "struct tree *"),
            ("right", 32, 8, "struct tree *"),
            ("next", 40, 8, "struct tree *"),
            ("prev", 48, 8, "struct tree *"),
        ],
    );
    let tree = program.nodes("tree", Some(element), 100_000, 56);
    let in_loop = program.a_loop("tour_length", 65, 67);
    let steps: Vec<Step> = [8, 16, 40].map(|offset| load(program.site(in_loop), tree, offset, 0)).into();
    for window in 0..200 {
        program.node_window(0, &steps, |turn| (window * 977 + turn * 31) % 100_000, 40, 1_000_000);
    }
    let found = advice(&program);
    assert_eq!((found[0].kind, found[0].confidence), (Kind::HotColdSplit, Confidence::Low));
    assert_eq!(found[0].fields, [vec![8, 16, 40], vec![0, 24, 32, 48]]);
    let predicted = found[0].predicted.as_ref().expect("a prediction");
    // Blocks of 56 and 32 bytes are 64 and 48 bytes apart.
    assert!((predicted.lines - -0.25).abs() < 0.02, "{predicted:?}");
    assert!(predicted.cycles_high == 0.0 && predicted.cycles_high.is_sign_positive(), "JSON would say -0.0");
    assert!(
        found[0].code.starts_with("struct tree_cold {\n    int sz;\n    struct tree *left;\n"),
        "{}",
        found[0].code
    );
    assert!(found[0].code.contains("    struct tree *next;\n    struct tree_cold *cold;\n};\n"), "{}", found[0].code);
}

#[test]
fn holes_are_closed_by_reordering() {
    let mut program = Program::new();
    let members = [("a", 0, 1, "char"), ("b", 8, 8, "long"), ("c", 16, 1, "char"), ("d", 24, 8, "long")];
    let element = program.structure("holes", 32, &members);
    let array = program.array("array", Some(element), 32 << 20);
    let in_loop = program.a_loop("f", 1, 2);
    let steps: Vec<Step> = members
        .map(|(_, offset, bytes, _)| Step { bytes: bytes as u16, ..load(program.site(in_loop), array, offset, 32) })
        .into();
    walk(&mut program, &steps, 200);
    let found = advice(&program);
    assert_eq!(found[0].kind, Kind::Reorder);
    assert_eq!(found[0].fields, [[8, 24, 0, 16]]);
    // 24 bytes instead of 32.
    assert!((found[0].predicted.as_ref().expect("a prediction").lines - -0.25).abs() < 0.02);
    assert_eq!(found[0].code, "typedef struct holes {\n    long b;\n    long d;\n    char a;\n    char c;\n} holes;\n");
}

/// A loop that reads all of an element's members, as (offset, bytes).
fn reads_all(program: &mut Program, element: TypeId, members: &[(u64, u16)]) {
    let bytes = program.tables.type_(element).bytes;
    let array = program.array("array", Some(element), bytes << 20);
    let in_loop = program.a_loop("f", 1, 2);
    let step =
        |&(offset, size): &(u64, u16)| Step { bytes: size, ..load(program.site(in_loop), array, offset, bytes as i64) };
    let steps: Vec<Step> = members.iter().map(step).collect();
    walk(program, &steps, 200);
}

/// rustc orders the fields of a structure by itself.
#[test]
fn rust_is_not_told_to_reorder() {
    let mut program = Program::new();
    let members = [("a", 0, 1, "u8"), ("b", 8, 8, "u64"), ("c", 16, 1, "u8"), ("d", 24, 8, "u64")];
    let element = program.structure("own::Holes", 32, &members);
    program.tables.types[element.index()].language = Language::Rust;
    reads_all(&mut program, element, &[(0, 1), (8, 8), (16, 1), (24, 8)]);
    assert_eq!(advice(&program)[0].kind, Kind::LeaveAlone);
}

/// What a nested structure has behind its last field is not filled with the outer one's fields.
#[test]
fn nested_structures_are_one_member() {
    let mut program = Program::new();
    let value = program.structure("struct value", 16, &[("count", 0, 8, "long"), ("weight", 8, 4, "float")]);
    let members = [("key", 0, 4, "int"), ("value", 8, 16, "struct value")];
    let element = program.structure("struct entry", 24, &members);
    program.tables.types[element.index()].members[1].type_id = Some(value);
    reads_all(&mut program, element, &[(0, 4), (8, 8), (16, 4)]);
    let found = advice(&program);
    assert_eq!((found[0].kind, found[0].why.as_str()), (Kind::LeaveAlone, "All 3 fields are used together."));
}

/// Also where no layout is better.
#[test]
fn what_is_never_used_is_told() {
    let mut program = Program::new();
    let members = [("a", 0, 8, "long"), ("b", 8, 8, "long"), ("spare", 16, 40, "long[5]"), ("c", 56, 8, "long")];
    let element = program.structure("struct wide", 64, &members);
    let array = program.array("small", Some(element), 1600 * 64);
    let in_loop = program.a_loop("sum", 8, 9);
    let steps: Vec<Step> = [0, 8, 56].map(|offset| load(program.site(in_loop), array, offset, 64)).to_vec();
    for window in 0..30 {
        program.window(0, &steps, window * 7 % 1500, 40, 1_000_000);
    }
    let found = &advice(&program)[0];
    assert_eq!(found.kind, Kind::LeaveAlone);
    assert_eq!(found.title, "Leave struct wide as it is; nothing was seen to use {spare}");
    let end = "Nothing was seen to use {spare}, 40 of its 64 bytes; without it an element takes 24, all of them 62.5 KiB less.";
    assert!(found.why.ends_with(end), "{}", found.why);
    // What is split is told as well.
    program.tables.groups[array.index()].bytes = 64 << 20;
    let split = &advice(&program)[0];
    assert_eq!(split.kind, Kind::Split);
    assert!(split.why.contains("Nothing was seen to use {spare}, 40 of its 64 bytes"), "{}", split.why);
}

/// Entries of a hash map and the like.
#[test]
fn what_no_program_declares_is_left_alone() {
    for (name, language) in [("(u32, u64)", Language::Rust), ("std::pair<int, long>", Language::Cpp)] {
        let mut program = Program::new();
        let element = program.structure(name, 64, &[("0", 0, 4, "u32"), ("1", 8, 56, "char[56]")]);
        program.tables.types[element.index()].language = language;
        reads_all(&mut program, element, &[(0, 4)]);
        let found = &advice(&program)[0];
        assert_eq!(found.kind, Kind::LeaveAlone);
        assert_eq!(found.why, format!("Its elements are of {name}: no program can change its definition."));
    }
}

/// A list's node is the library's, and what is in it is not.
#[test]
fn what_a_librarys_element_holds_is_named() {
    let mut program = Program::new();
    let event = program.structure("Event", 48, &[("kind", 0, 4, "int"), ("payload", 8, 40, "char[40]")]);
    let pair = program.structure("std::pair<int, Event>", 56, &[("first", 0, 4, "int"), ("second", 8, 48, "Event")]);
    let node = program.structure("std::_Node<int, Event>", 64, &[("next", 0, 8, "void *"), ("value", 8, 56, "pair")]);
    program.tables.types[pair.index()].members[1].type_id = Some(event);
    program.tables.types[node.index()].members[1].type_id = Some(pair);
    for of in [event, pair, node] {
        program.tables.types[of.index()].language = Language::Cpp;
    }
    reads_all(&mut program, node, &[(0, 8)]);
    let found = &advice(&program)[0];
    let expected = "Its elements are of std::_Node<int, Event>: no program can change its definition, but that of Event in it (48 of its 64 bytes).";
    assert_eq!((found.kind, found.why.as_str()), (Kind::LeaveAlone, expected));
}

/// A string's pointer and length go where it goes, also out of a structure within.
#[test]
fn members_of_library_types_move_whole() {
    let mut program = Program::new();
    let text_members = [("cap", 0, 8, "usize"), ("ptr", 8, 8, "*mut u8"), ("len", 16, 8, "usize")];
    let text = program.structure("alloc::string::String", 24, &text_members);
    let label_members = [("text", 0, 24, "alloc::string::String"), ("color", 24, 8, "u64")];
    let label = program.structure("own::Label", 32, &label_members);
    let members = [
        ("tag", 0, 24, "alloc::string::String"),
        ("label", 24, 32, "own::Label"),
        ("x", 56, 8, "f64"),
        ("y", 64, 8, "f64"),
    ];
    let element = program.structure("own::Particle", 72, &members);
    program.tables.types.iter_mut().for_each(|found| found.language = Language::Rust);
    for (type_, member, of) in [(label, 0, text), (element, 0, text), (element, 1, label)] {
        program.tables.types[type_.index()].members[member].type_id = Some(of);
    }
    let array = program.array("array", Some(element), 72 << 20);
    // The tag's length with x, the label's text's capacity with y, its color alone.
    for (number, offsets) in [vec![16, 56], vec![24, 64], vec![48]].into_iter().enumerate() {
        let in_loop = program.a_loop("f", 10 * number as u32 + 1, 10 * number as u32 + 2);
        let steps: Vec<Step> =
            offsets.into_iter().map(|offset| load(program.site(in_loop), array, offset, 72)).collect();
        walk(&mut program, &steps, 60 - 10 * number as i64);
    }
    let found = &advice(&program)[0];
    assert_eq!(found.title, "Split own::Particle into {tag x} {label.text y} {label.color}");
    assert_eq!(found.fields, [vec![0, 8, 16, 56], vec![24, 32, 40, 64], vec![48]]);
    assert_eq!(
        found.code,
        "struct Particle_tag_x {\n    tag: alloc::string::String,\n    x: f64,\n}\n\
         struct Particle_label_text_y {\n    label_text: alloc::string::String,\n    y: f64,\n}\n\
         struct Particle_label_color {\n    label_color: u64,\n}\n\
         // one Vec each: array[i].tag becomes array_tag_x[i].tag\n"
    );
}

/// The split of a class with a base and a virtual base of this role.
fn split_beside_a_virtual_base(role: MemberRole) -> Advice {
    let mut program = Program::new();
    let left = program.structure("Left", 16, &[("_vptr.Left", 0, 8, "int (**)(void)"), ("l", 8, 8, "long")]);
    let plain = program.structure("Plain", 16, &[("v", 0, 8, "long"), ("w", 8, 8, "long")]);
    let members = [("Left", 0, 16, "Left"), ("more", 16, 64, "long[8]"), ("Plain", 80, 16, "Plain")];
    let element = program.structure("Last", 96, &members);
    for (number, base, role) in [(0, left, MemberRole::Base), (2, plain, role)] {
        let member = &mut program.tables.types[element.0 as usize].members[number];
        (member.type_id, member.role) = (Some(base), role);
    }
    for type_ in &mut program.tables.types {
        type_.language = Language::Cpp;
    }
    let array = program.array("objects", Some(element), 96 << 20);
    let in_loop = program.a_loop("sum", 8, 9);
    let site = program.site(in_loop);
    walk(&mut program, &[load(site, array, 80, 96)], 200);
    advice(&program).remove(0)
}

/// A base finds its virtual base by the virtual table, so neither is split, and as a member it brings that along.
#[test]
fn bases_with_virtual_bases_move_together() {
    let inherited = split_beside_a_virtual_base(MemberRole::InheritedVirtualBase);
    assert_eq!(inherited.title, "Split Last into {_vptr.Left l v w} {more}");
    assert!(inherited.code.contains("    Left left;\n};"), "{}", inherited.code);
    assert!(!inherited.code.contains("Plain"), "{}", inherited.code);
    let own = split_beside_a_virtual_base(MemberRole::VirtualBase);
    assert_eq!(own.title, inherited.title);
    assert!(own.code.contains("    Left left;\n    Plain plain;\n};"), "{}", own.code);
}

/// A walk down the columns of an array, in a loop with another one around it or alone in its function.
fn down_columns(has_outer: bool) -> Vec<Advice> {
    let mut program = Program::new();
    let grid = program.array("grid", None, 8 * 4096 * 4096);
    let in_loop = program.a_loop("column_sum", 29, 30);
    let outer = program.a_loop("column_sum", 28, 31);
    program.tables.loops[in_loop.index()].parent = has_outer.then_some(outer);
    let site = program.site(in_loop);
    for column in 0..200 {
        program.window(0, &[load(site, grid, column * 8, 32_768)], i64::from(column as u32) % 80 * 50, 50, 1_000_000);
    }
    advice(&program)
}

#[test]
fn a_column_walk_is_turned() {
    let found = down_columns(true);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].kind, found[0].confidence), (Kind::Interchange, Confidence::High));
    assert_eq!(found[0].predicted.as_ref().expect("a prediction").lines, -0.875);
    assert_eq!(found[0].touched_lines, [("a.c".to_owned(), 29)]);
    assert!(found[0].title.ends_with("the loop of column_sum lines 29-30 with the one around it"));
    assert!(found[0].why.contains("32768 bytes apart"), "{}", found[0].why);
    // Where none is around it nobody knows whether there is one around the call.
    let alone = down_columns(false);
    assert!(alone[0].title.ends_with("lines 29-30 with the one around its call"), "{}", alone[0].title);
    assert_eq!(alone[0].confidence, Confidence::Low);
}

/// An array of so many bytes, and what accesses it in the inner one of two loops.
fn in_two_loops(bytes: u64) -> (Program, GroupId, SiteId) {
    let mut program = Program::new();
    let grid = program.array("grid", None, bytes);
    let in_loop = program.a_loop("column_sum", 29, 30);
    let outer = program.a_loop("column_sum", 28, 31);
    program.tables.loops[in_loop.index()].parent = Some(outer);
    let site = program.site(in_loop);
    (program, grid, site)
}

/// What an outer loop repeats is in no other order then.
#[test]
fn a_walk_that_is_repeated_is_not_turned() {
    let advised = |elements: u64, next: &dyn Fn(u64) -> u64| {
        let (mut program, grid, site) = in_two_loops(8 * elements);
        for window in 0..200 {
            let at = |step: u64| load(site, grid, 8 * next(window * 3701 + step), 0);
            program.window(0, &(0..128).map(at).collect::<Vec<_>>(), 0, 1, 1_000_000);
        }
        advice(&program).into_iter().any(|advice| advice.kind == Kind::Interchange)
    };
    // Down the columns of 64 rows.
    let elements = 1 << 24;
    let row = elements / 64;
    assert!(advised(elements, &|step| step % 64 * row + step / 64 % row));
    // The same column 100 times before the next one: the loop around is no more than a repetition.
    assert!(!advised(elements, &|step| step % 64 * row + step / 6400 % row));
    // All elements by one loop, some way behind each other: of a power of two, and of what the array has.
    assert!(!advised(elements, &|step| step * (row + 97) % elements));
    let odd = elements - 1001;
    assert!(!advised(odd, &|step| step * (row + 97) % odd));
    // Of a part of it, by an array of indexes.
    assert!(!advised(elements, &|step| step * 7919 % 200_000));
}

/// An array that stays in a core's own caches is walked in any order.
#[test]
fn a_small_array_is_not_turned() {
    let turned = |rows: u64| {
        let (mut program, grid, site) = in_two_loops(512 * rows);
        for column in 0..200 {
            program.window(0, &[load(site, grid, column % 64 * 8, 512)], 0, rows.min(60) as i64, 1_000_000);
        }
        advice(&program).into_iter().any(|advice| advice.kind == Kind::Interchange)
    };
    assert!(!turned(64), "32 KiB");
    assert!(turned(1 << 17), "64 MiB");
}

/// To exchange the loops is one change, whatever it walks.
#[test]
fn a_loop_is_turned_once() {
    let mut program = Program::new();
    let [one, two] = ["one", "two"].map(|name| program.array(name, None, 8 * 4096 * 4096));
    let row = program.array("row", None, 64 << 20);
    let in_loop = program.a_loop("column_sum", 29, 30);
    let outer = program.a_loop("column_sum", 28, 31);
    program.tables.loops[in_loop.index()].parent = Some(outer);
    let sites = [(); 3].map(|()| program.site(in_loop));
    for column in 0..200 {
        let mut steps = [
            load(sites[0], one, column * 8, 32_768),
            load(sites[1], two, column * 8, 32_768),
            load(sites[2], row, column * 400, 8),
        ];
        // Samples are blamed on the first step.
        steps.swap(0, column as usize % 2);
        program.window(0, &steps, i64::from(column as u32) % 80 * 50, 50, 1_000_000);
    }
    let found = advice(&program);
    let turned: Vec<&Advice> = found.iter().filter(|advice| advice.kind == Kind::Interchange).collect();
    let [turned] = turned.as_slice() else { panic!("{found:?}") };
    let title = &turned.title;
    assert!(title.starts_with("Walk one and two in the order in which they lie: interchange the loop of"), "{title}");
    assert_eq!((turned.group, turned.others.as_slice()), (one, &[two][..]));
    let why = &turned.why;
    assert!(
        why.contains(" That is of one; two it walks alike. It walks row in order now, which it may not do"),
        "{why}"
    );
    // All of the time, of which 7 of 8 lines are saved and 70 % of that expected; half of it each.
    let cycles = turned.predicted.as_ref().expect("a prediction").cycles;
    assert!((cycles + 0.6125).abs() < 1e-9, "{cycles}");
}

#[test]
fn without_debug_information_offsets_are_split() {
    let mut program = Program::new();
    let cells = program.array("cells", None, 64 << 20);
    let (one, two) = (program.a_loop("one", 10, 11), program.a_loop("two", 20, 21));
    let (hot, cold) = (program.site(one), program.site(two));
    walk(&mut program, &[load(hot, cells, 40, 64)], 180);
    walk(&mut program, &[load(cold, cells, 0, 64)], 20);
    let found = advice(&program);
    assert_eq!((found[0].kind, found[0].confidence), (Kind::Split, Confidence::Medium));
    assert_eq!(found[0].fields, [[40], [0]]);
    assert!(found[0].code.contains("uint64_t at_40;"), "{}", found[0].code);
}

/// Hash entries in an interpreter's arenas: nobody has an array of them.
#[test]
fn cells_of_an_allocator_are_not_split() {
    let mut program = Program::new();
    let arenas = program.nodes("arenas", None, 5_000, 4080);
    let (find, sum) = (program.a_loop("find", 8, 9), program.a_loop("sum", 18, 19));
    let (next, value) = (program.site(find), program.site(sum));
    for window in 0..80 {
        let cell = u64::from(window * 37 % 170) * 24;
        let step = if window % 4 == 0 { load(value, arenas, cell + 16, 0) } else { load(next, arenas, cell, 0) };
        program.node_window(0, &[step], |turn| (window * 977 + turn * 31) % 5_000, 60, 1_000_000);
    }
    let found = &advice(&program)[0];
    assert_eq!(found.kind, Kind::LeaveAlone);
    let why =
        "Its blocks of 4.0 KiB look like an allocator's: what lies in them, 24 B apart, no debug information tells.";
    assert_eq!(found.why, why);
}

/// What must be left alone, with a word of the reason.
#[test]
fn what_is_well_is_left_alone() {
    let reason = |program: &Program| {
        let found = advice(program);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].kind, found[0].predicted.is_none()), (Kind::LeaveAlone, true));
        found[0].why.clone()
    };
    // All fields together.
    let mut program = Program::new();
    let element = program.doubles("pair", &["a", "b"]);
    let pairs = program.array("pairs", Some(element), 16 << 20);
    let in_loop = program.a_loop("f", 1, 2);
    let steps = [load(program.site(in_loop), pairs, 0, 16), load(program.site(in_loop), pairs, 8, 16)];
    walk(&mut program, &steps, 100);
    assert_eq!(reason(&program), "Both fields are used together.");
    // Small enough for the caches.
    let mut program = Program::new();
    let element = program.doubles("pair", &["a", "b"]);
    let pairs = program.array("pairs", Some(element), 64 << 10);
    let in_loop = program.a_loop("f", 1, 2);
    let steps = [load(program.site(in_loop), pairs, 0, 16)];
    walk(&mut program, &steps, 4);
    assert_eq!(reason(&program), "All of it (64.0 KiB) fits a core's own caches; its lines are not fetched from far.");
    // No structure.
    let mut program = Program::new();
    let numbers = program.array("numbers", None, 64 << 20);
    let in_loop = program.a_loop("f", 1, 2);
    let steps = [load(program.site(in_loop), numbers, 0, 8)];
    walk(&mut program, &steps, 100);
    assert!(reason(&program).contains("no regular structure"));
}

/// One type allocated at two places: what its users need of it is judged together, and told once.
#[test]
fn groups_of_one_type_have_one_advice() {
    let mut program = Program::new();
    let element = program.doubles("struct cell", &["a", "b", "c", "d", "e", "f", "g", "h"]);
    let arrays = ["left", "right"].map(|name| program.array(name, Some(element), 64 << 20));
    for (number, array) in (0..).zip(arrays) {
        let in_loop = program.a_loop("f", 10 * number + 1, 10 * number + 2);
        let site = program.site(in_loop);
        walk(&mut program, &[load(site, array, u64::from(number) * 8, 64)], 100);
    }
    // Blocks whose call path is not known are not known to be the program's to change together.
    assert_eq!(advice(&program).len(), 2);
    for array in arrays {
        let frame = Frame { function: "main".into(), module: "a".into(), position: None, inlined: false };
        program.tables.groups[array.index()].allocated_at = Some(frame);
    }
    let findings = program.findings();
    let [of_type] = &findings.types[..] else { panic!("one type in two groups: {:?}", findings.types) };
    assert_eq!((of_type.groups.as_slice(), of_type.together.share.value), (&arrays[..], 1.0));
    let shares: Vec<f64> = of_type.together.fields.iter().map(|field| field.share).collect();
    let expected = [0.5, 0.5, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    assert!(shares.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-9), "{shares:?}");
    let found = advice(&program);
    assert_eq!(found.len(), 1);
    let split = &found[0];
    assert_eq!((split.group, &split.others[..]), (arrays[0], &arrays[1..]));
    assert_eq!(split.title, "Split struct cell into {a} {b} {c d e f g h}");
    assert!((split.predicted.as_ref().unwrap().lines + 0.875).abs() < 1e-9);
    assert!(
        split.why.starts_with("left and right take 100.0 % of the time; 50.0 % of that goes to {a}"),
        "{}",
        split.why
    );
}

/// What would fit the caches alone does not with others like it: no one of them is told that it does.
#[test]
fn small_structures_share_the_caches() {
    let run = |count: u32| {
        let mut program = Program::new();
        let element = program.doubles("pair", &["a", "b"]);
        for number in 0..count {
            let array = program.array(&format!("pairs {number}"), Some(element), 100 << 10);
            let in_loop = program.a_loop("f", 10 * number + 1, 10 * number + 2);
            let site = program.site(in_loop);
            walk(&mut program, &[load(site, array, 0, 16)], 6);
        }
        advice(&program)
    };
    for found in run(2) {
        let fits = "All of it (100.0 KiB, with the other structures of such size 200.0 KiB) fits a core's own caches; its \
                    lines are not fetched from far.";
        assert_eq!((found.kind, found.why.as_str()), (Kind::LeaveAlone, fits));
    }
    let found = run(5);
    assert_eq!(found.len(), 5);
    for found in found {
        assert_eq!((found.kind, found.confidence), (Kind::Split, Confidence::Low), "few samples");
        let told = "Alone it would fit a core's own caches, but 5 structures of such size are in use, 500.0 KiB together. \
             All data that takes time (500.0 KiB) fits the last-level cache (32.0 MiB): ";
        assert!(found.why.contains(told), "{}", found.why);
    }
}

#[test]
fn cold_data_gets_no_advice() {
    let mut program = neighbors();
    let other = program.array("other", None, 64 << 20);
    let in_loop = program.a_loop("g", 1, 2);
    let site = program.site(in_loop);
    for sample in 0..20_000 {
        program.sample(0, load(site, other, sample * 4096 % (64 << 20), 0), 1_000_000);
    }
    assert!(advice(&program).iter().all(|advice| program.tables.group(advice.group).name == "other"));
}

#[test]
fn memory_that_nobody_is_known_to_have_mapped_is_left_alone() {
    let mut program = neighbors();
    assert!(advice(&program).iter().any(|advice| advice.kind != Kind::LeaveAlone));
    for group in &mut program.tables.groups {
        (group.kind, group.allocated_at) = (GroupKind::Mapping, None);
    }
    assert!(advice(&program).iter().all(|advice| advice.kind == Kind::LeaveAlone));
}

/// In one array a pointer to an element tells its index: no pointer to the cold part is needed.
#[test]
fn a_list_in_one_array_is_split_in_place() {
    let mut program = Program::new();
    let members = [
        ("zoneId", 0, 8, "long"),
        ("partId", 8, 8, "long"),
        ("value", 16, 8, "double"),
        ("nextZone", 24, 8, "struct zone *"),
    ];
    let element = program.structure("struct zone", 32, &members);
    let zones = program.array("zones", Some(element), 32 << 20);
    let in_loop = program.a_loop("update_part", 51, 52);
    let steps = [load(program.site(in_loop), zones, 16, 32), load(program.site(in_loop), zones, 24, 32)];
    walk(&mut program, &steps, 200);
    let found = advice(&program);
    assert_eq!((found[0].kind, found[0].predicted.as_ref().expect("a prediction").lines), (Kind::Split, -0.5));
    assert_eq!(
        found[0].code,
        "struct zone {\n    double value;\n    struct zone *nextZone;\n};\n\
         struct zone_rest {\n    long zoneId;\n    long partId;\n};\n\
         // one array each: node->zoneId becomes zones_rest[node - zones].zoneId\n"
    );
}
