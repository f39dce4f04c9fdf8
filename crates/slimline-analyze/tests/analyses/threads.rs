//! Data that several threads use: what is known of it, and what advice must not claim.

use slimline_analyze::advise::{Advice, Confidence, Floors, Kind, advise};
use slimline_analyze::threads::{Evidence, Sharing};
use slimline_attribute::tables::GroupKind;
use slimline_trace::access::{GroupId, ThreadId};

use crate::synthetic::{Program, Step, group, load, store};

/// A structure of two doubles, one of them or an array of them, and two loops over it.
struct Cells {
    program: Program,
    cells: GroupId,
    steps: [[Step; 2]; 2],
}

fn cells(bytes: u64) -> Cells {
    let mut program = Program::new();
    let element = program.doubles("cell", &["left", "right"]);
    let cells = program.array("cells", Some(element), bytes);
    let stride = if bytes == 16 { 0 } else { 16 };
    let steps = [0, 8].map(|offset| {
        let in_loop = program.a_loop("walk", 10 + offset as u32, 11 + offset as u32);
        let sites = [program.site(in_loop), program.site(in_loop)];
        [load(sites[0], cells, offset, stride), store(sites[1], cells, offset, stride)]
    });
    Cells { program, cells, steps }
}

fn sharing(program: &Program) -> Option<Sharing> {
    group(&program.findings(), program, "cells").threads.sharing
}

fn advice(program: &Program) -> Advice {
    let mut found = advise(&program.findings(), &program.tables, &Floors::default());
    assert_eq!(found.len(), 1);
    found.remove(0)
}

/// Each thread stores to a field of its own, both on one line.
#[test]
fn counters_of_two_threads_are_not_called_well() {
    let Cells { mut program, steps, .. } = cells(16);
    for turn in 0..60 {
        let thread = turn as usize % 2;
        program.window(thread as u32, &steps[thread], 0, 40, 1_000_000);
    }
    assert_eq!(sharing(&program), Some(Sharing { lines: 1, met_again: 1, shared: 1 }));
    let threads = group(&program.findings(), &program, "cells").threads.threads.clone();
    let expected = [(ThreadId(0), 0.5, 1200, 1200), (ThreadId(1), 0.5, 1200, 1200)];
    assert_eq!(threads.iter().map(|of| (of.thread, of.share, of.loads, of.stores)).collect::<Vec<_>>(), expected);
    let found = advice(&program);
    assert_eq!((found.kind, found.confidence), (Kind::NotJudged, Confidence::Low));
    assert_eq!(found.title, "What threads share of cell is not judged");
    assert_eq!(
        found.why,
        "2 threads use it at once, and all store to it: 0 (thread 0), 1 (thread 1); 1 of 1 cache lines looked at had \
         stores of one thread and accesses of another. What that costs is not judged here, but by \
         `slimline share`. Where different threads \
         store to different fields, these belong on cache lines of their own (alignas(64)). Of the layout alone: All \
         of it (16 B) fits a core's own caches, apart from lines that threads take from each other."
    );
}

/// Two threads walk over halves of an array: lines are met again, none by the other one.
#[test]
fn threads_that_keep_to_their_own_lines_are_told_so() {
    let Cells { mut program, steps, .. } = cells(1 << 20);
    for turn in 0..60 {
        let thread = turn % 2;
        program.window(thread as u32, &steps[0], thread * 4096, 40, 1_000_000);
    }
    let found = sharing(&program).expect("stores of two threads at once");
    assert_eq!((found.shared, found.evidence()), (0, Evidence::Apart));
    let found = advice(&program);
    assert_eq!(found.kind, Kind::Split);
    let told = "each on lines of its own, as far as seen (20 cache lines met again, none by another one).";
    assert!(found.why.ends_with(told), "{}", found.why);
}

/// Where no line is met twice nothing is known: the split is advised, less surely.
#[test]
fn what_no_line_tells_is_said_to_be_unknown() {
    let run = |threads: u32| {
        let Cells { mut program, steps, .. } = cells(64 << 20);
        for turn in 0..200 {
            program.window(turn as u32 % threads, &steps[0], turn * 4096, 40, 1_000_000);
        }
        program
    };
    assert_eq!((sharing(&run(1)), advice(&run(1)).confidence), (None, Confidence::High));
    let two = run(2);
    assert_eq!(sharing(&two).map(|found| found.evidence()), Some(Evidence::Unknown));
    let found = advice(&two);
    assert_eq!((found.kind, found.confidence), (Kind::Split, Confidence::Medium));
    assert!(found.why.contains("whether on the same cache lines, the samples do not tell"), "{}", found.why);
}

/// One thread fills it, then two others only read; or another process has a copy; or each has its own stack.
#[test]
fn what_is_handed_over_or_private_is_not_shared() {
    let Cells { mut program, steps: [[read, write], _], cells } = cells(16);
    for thread in [0, 0, 0, 1, 2, 1, 2, 1, 2] {
        program.window(thread, &[if thread == 0 { write } else { read }], 0, 40, 1_000_000);
    }
    assert_eq!(sharing(&program), None);
    assert_eq!(advice(&program).kind, Kind::LeaveAlone);
    // Now it stores once more while they read.
    program.window(0, &[write], 0, 40, 1_000_000);
    program.window(1, &[read], 0, 40, 1_000_000);
    assert_eq!(sharing(&program).map(|found| found.evidence()), Some(Evidence::Shared));
    let mut forked = program.clone();
    forked.tables.threads[0].pid = 2;
    assert_eq!(sharing(&forked), None);
    program.tables.groups[cells.index()].kind = GroupKind::Stack;
    assert_eq!(sharing(&program), None);
}

/// A thread that has less than a hundredth of the time and of the accesses makes no sharing.
#[test]
fn a_rare_user_does_not_count() {
    let Cells { mut program, steps, .. } = cells(16);
    for turn in 0..300 {
        program.window(u32::from(turn == 150), &steps[0], 0, 40, 1_000_000);
    }
    assert_eq!(sharing(&program), None);
}

/// One object is no array, and how much of the heap was followed changes nothing of that.
#[test]
fn one_object_is_not_split() {
    let Cells { mut program, cells, steps } = cells(16);
    program.tables.groups[cells.index()].partly_followed = true;
    for turn in 0..60 {
        let thread = turn as usize % 2;
        program.window(thread as u32, &steps[thread], 0, 40, 1_000_000);
    }
    let found = advice(&program);
    assert_eq!((found.kind, found.predicted), (Kind::NotJudged, None));
    assert!(found.why.contains("belong on cache lines of their own (alignas(64))."), "{}", found.why);
    let alone =
        "Of the layout alone: It is one object of 16 B: there is no array whose lines another layout could save.";
    assert!(found.why.ends_with(alone), "{}", found.why);
}
