//! Profiles with answers computed by hand. Times in the comments are in the unit of their test.

use std::sync::Arc;

use slimline_regions::{
    Code, Cost, Ended, Entry, Kind, Mapping, Node, OverheadReport, Overheads, PathId, Paths, Phase, Place, Profile,
    ROOT, ReadError, Region, Row, Run, Stack, Subtracted, Team, Thread, Times, Watched, read, read_all,
};

/// A profile of what the threads' stacks counted.
fn profile(paths: &Paths, stacks: &[Stack], duration_ns: u64) -> Profile {
    let rows = (0..)
        .zip(stacks)
        .flat_map(|(thread, stack)| stack.rows().map(move |(path, times)| Row { path, thread, times: *times }));
    Profile {
        process: 7,
        duration_ns,
        threads: (0..).zip(stacks).map(|(number, _)| Thread { number, kernel_id: 100 + number }).collect(),
        nodes: paths.iter().map(|(_, node)| node.clone()).collect(),
        rows: rows.collect(),
        ..Profile::default()
    }
}

/// [enterT, bodyT, exitBarT, exitT], with what is within.
fn phases(times: &Times) -> [u64; 4] {
    Phase::ALL.map(|phase| times.phase_ns(phase))
}

/// Figure 1 of Fürlinger et al.: four threads in a critical section; in hundredths of a second, with a body of 1.0025.
#[test]
fn a_critical_section_as_in_the_paper() {
    const MS: u64 = 1_000_000;
    const BODY: u64 = 10_025 * MS / 10;
    let mut paths = Paths::new();
    let critical = paths.child(ROOT, &Region::at(Kind::Critical, 0x20)).unwrap();
    let entered = [0, 2000 * MS, 1000 * MS, 3010 * MS];
    let stacks = entered.map(|wait| {
        let mut stack = Stack::new();
        stack.enter(Some(critical), Kind::Critical, Entry::Execution, Phase::Enter, 0);
        stack.phase(Kind::Critical, Phase::Body, wait);
        stack.phase(Kind::Critical, Phase::Exit, wait + BODY);
        stack.exit(Kind::Critical, 0x23, wait + BODY);
        stack
    });
    let profile = profile(&paths, &stacks, 4_012_500_000);
    let tables = profile.flat();
    let [table] = tables.as_slice() else { panic!("one region") };
    let hundredths = |ns: u64| (ns + 5 * MS - 1) / (10 * MS);
    let row = |times: &Times| {
        let [enter, body, _, exit] = phases(times).map(hundredths);
        (hundredths(times.exec_ns()), times.count, body, enter, exit)
    };
    let rows: Vec<_> = table.threads.iter().map(|(thread, times)| (*thread, row(times))).collect();
    assert_eq!(
        rows,
        [
            (0, (100, 1, 100, 0, 0)),
            // The paper has 3.01, as it rounds each column by itself.
            (1, (300, 1, 100, 200, 0)),
            (2, (200, 1, 100, 100, 0)),
            (3, (401, 1, 100, 301, 0)),
        ]
    );
    assert_eq!(row(&table.sum), (1002, 4, 401, 601, 0));
    assert_eq!(table.sum.end_address, 0x23);
    let overheads = OverheadReport::of(&profile);
    assert_eq!(overheads.program.overheads.synchronization_ns, 6010 * MS);
    assert_eq!(overheads.program.whole_ns, 4 * 4_012_500_000);
    assert_eq!(overheads.regions, []);
}

/// A team of two: met at 10, bodies begin at 12 and 14, end at 30 and 50, the barrier is over at 51, all at 55.
#[test]
fn a_parallel_region_lasts_as_long_on_each_thread() {
    let mut paths = Paths::new();
    let path = paths.child(ROOT, &Region::at(Kind::Parallel, 1));
    let team = Arc::new(Team::new(path, 10));
    let (mut first, mut second) = (Stack::new(), Stack::new());
    first.fork(Arc::clone(&team));
    first.begin_implicit_task(&team, 12);
    second.begin_implicit_task(&team, 14);
    first.phase(Kind::Parallel, Phase::ExitBarrier, 30);
    second.phase(Kind::Parallel, Phase::ExitBarrier, 50);
    team.join(51);
    first.phase(Kind::Parallel, Phase::Exit, 51);
    team.end(55);
    first.end_parallel(55);
    // The worker hears of it when it is needed next.
    let again = Arc::new(Team::new(path, 90));
    second.begin_implicit_task(&again, 91);
    let profile = profile(&paths, &[first, second], 100);
    let table = &profile.flat()[0];
    assert_eq!(phases(&table.threads[0].1), [2, 18, 21, 4]);
    assert_eq!(phases(&table.threads[1].1), [4, 36, 1, 4]);
    let report = OverheadReport::of(&profile);
    let (_, analysis) = report.regions[0];
    assert_eq!(analysis.whole_ns, 90);
    assert_eq!(
        analysis.overheads,
        Overheads { management_ns: 2 + 4 + 4 + 4, imbalance_ns: 22, ..Overheads::default() }
    );
    assert!((analysis.percent(analysis.overheads.imbalance_ns) - 100.0 * 22.0 / 90.0).abs() < 1e-9);
    assert_eq!(report.parallel_ns, 45);
}

/// A worker's path begins with that of its parallel region, in a nested one too; inclusive and exclusive times of each.
#[test]
fn nested_regions() {
    let mut paths = Paths::new();
    let outer = paths.child(ROOT, &Region::at(Kind::Parallel, 1));
    let teams = Arc::new(Team::new(outer, 0));
    let mut master = Stack::new();
    master.fork(Arc::clone(&teams));
    master.begin_implicit_task(&teams, 0);
    let inner = paths.child(master.path(), &Region::at(Kind::Parallel, 2));
    let nested = Arc::new(Team::new(inner, 10));
    master.fork(Arc::clone(&nested));
    master.begin_implicit_task(&nested, 10);
    let mut worker = Stack::new();
    worker.begin_implicit_task(&nested, 12);
    let looped = paths.child(worker.path(), &Region::at(Kind::Loop, 3));
    worker.enter(looped, Kind::Loop, Entry::Execution, Phase::Body, 20);
    worker.exit(Kind::Loop, 0, 25);
    worker.phase(Kind::Parallel, Phase::ExitBarrier, 30);
    master.phase(Kind::Parallel, Phase::ExitBarrier, 28);
    nested.join(30);
    nested.end(31);
    master.end_parallel(31);
    master.phase(Kind::Parallel, Phase::ExitBarrier, 40);
    teams.join(40);
    teams.end(40);
    master.end_parallel(40);
    worker.finish(50);
    let profile = profile(&paths, &[master, worker], 50);
    let stack_of = |mut path: PathId| {
        let mut kinds = Vec::new();
        while let Some(node) = profile.node(path) {
            kinds.push(node.region.kind);
            path = node.parent;
        }
        kinds
    };
    assert_eq!(stack_of(PathId(3)), [Kind::Loop, Kind::Parallel, Kind::Parallel]);
    let graph = profile.call_graph();
    let both: Vec<_> = graph.iter().map(|times| (times.exec_ns(), times.exclusive_exec_ns())).collect();
    assert_eq!(both, [(40, 19), (21 + 21, 21 + 16), (5, 5)]);
    assert_eq!(OverheadReport::of(&profile).parallel_ns, 40);
}

/// A single whose creator waits in `taskwait` and executes a task there; the other thread executes one in the barrier.
#[test]
fn tasks_are_no_waiting() {
    let mut paths = Paths::new();
    let single = paths.child(ROOT, &Region::at(Kind::Single, 1)).unwrap();
    let task = paths.child(single, &Region::at(Kind::Task, 2));
    let wait = paths.child(single, &Region::at(Kind::Taskwait, 3));
    let (mut creator, mut other) = (Stack::new(), Stack::new());
    creator.enter(Some(single), Kind::Single, Entry::Execution, Phase::Body, 0);
    creator.enter(task, Kind::Task, Entry::Creation, Phase::Enter, 10);
    creator.exit(Kind::Task, 0, 11);
    creator.enter(wait, Kind::Taskwait, Entry::Execution, Phase::ExitBarrier, 20);
    creator.begin_task(task, Entry::Execution, 77, 22);
    assert!(creator.is_in_task(77) && !creator.is_in_task(78));
    creator.end_task(77, 32);
    creator.exit(Kind::Taskwait, 0, 35);
    creator.exit(Kind::Single, 0, 40);
    assert_eq!(creator.enter_barrier(40), Some(Kind::Single));
    creator.exit(Kind::Single, 0, 41);
    other.pass_over(Some(single), Kind::Single);
    assert_eq!(other.enter_barrier(1), Some(Kind::Single));
    other.begin_task(task, Entry::Execution, 78, 5);
    other.end_task(78, 25);
    other.exit(Kind::Single, 0, 41);
    assert_eq!(other.enter_barrier(41), None, "it implies one");
    let profile = profile(&paths, &[creator, other], 41);
    let tables = profile.flat();
    assert_eq!(tables[0].threads[0].1.inclusive_ns, [0, 40, 1, 0]);
    assert_eq!((tables[0].threads[1].1.count, tables[0].threads[1].1.exclusive_ns), (0, [0, 0, 20, 0]));
    assert_eq!((tables[1].sum.count, tables[1].sum.inclusive_ns), (2, [1, 30, 0, 0]));
    assert_eq!(tables[2].sum.exclusive_ns, [0, 0, 5, 0]);
    let overheads = OverheadReport::of(&profile).program.overheads;
    // The creator's own wait at the single's end was not marked as for want of work.
    assert_eq!(
        overheads,
        Overheads { synchronization_ns: 5, imbalance_ns: 1, limited_parallelism_ns: 20, management_ns: 1 }
    );
}

/// A task within itself: its time counts once, its executions all.
#[test]
fn recursion_counts_once() {
    let mut paths = Paths::new();
    let task = paths.child(ROOT, &Region::at(Kind::Task, 1));
    let mut stack = Stack::new();
    stack.begin_task(task, Entry::Execution, 1, 0);
    stack.begin_task(paths.child(stack.path(), &Region::at(Kind::Task, 1)), Entry::Execution, 2, 10);
    stack.end_task(2, 30);
    stack.end_task(1, 50);
    let (_, times) = stack.rows().next().unwrap();
    assert_eq!((times.count, times.exec_ns(), times.exclusive_exec_ns()), (2, 50, 50));
}

#[test]
fn ends_that_fit_nothing_change_nothing() {
    let mut paths = Paths::new();
    let mut stack = Stack::new();
    stack.exit(Kind::Critical, 0, 5);
    stack.end_parallel(5);
    stack.end_task(9, 5);
    stack.phase(Kind::Loop, Phase::ExitBarrier, 5);
    assert_eq!(stack.enter_barrier(5), None);
    // A region that there is no path for: its time is that of the region around it.
    stack.enter(paths.child(ROOT, &Region::at(Kind::Loop, 1)), Kind::Loop, Entry::Execution, Phase::Body, 10);
    stack.enter(None, Kind::Critical, Entry::Execution, Phase::Body, 20);
    stack.exit(Kind::Critical, 0, 30);
    stack.exit(Kind::Loop, 0, 40);
    let rows: Vec<_> = stack.rows().map(|(_, times)| times.exclusive_ns).collect();
    assert_eq!(rows, [[0, 30, 0, 0]]);
}

fn written() -> Profile {
    let node = |parent, kind, place| Node { parent: PathId(parent), region: Region { kind, place } };
    let times = Times {
        count: 3,
        inclusive_ns: [1, 2, 3, 4],
        exclusive_ns: [1, 2, 0, 4],
        limited_ns: 5,
        end_address: 0x40_1234,
        created: 6,
    };
    Profile {
        process: 42,
        run: Some(Run { ended: Ended::Signal(11), command: vec!["./a b".into(), String::new(), "ü".into()] }),
        duration_ns: 1_000_000_007,
        lost_regions: 1,
        lost_threads: 2,
        cost: Some(Cost { inside_ps: 31_000, outside_ps: 44_500 }),
        watched: vec![Watched { start: 0x7f00, bytes: 0x1000, name: "a b".into(), from_ns: 5, until_ns: u64::MAX }],
        began_ns: 3,
        unknown_unwatches: 3,
        unknown_ends: 2,
        lost_steps: 1,
        lost_events: 4,
        mappings: vec![Mapping {
            start: 0x40_1000,
            end: 0x40_3000,
            offset: 0x1000,
            is_code: true,
            path: "/a b/program".into(),
        }],
        code: vec![
            Code { address: 0x40_1200, function: "main(int, char**)".into(), file: "a b.c".into(), line: 7 },
            Code { address: 0x40_1234, ..Code::default() },
        ],
        threads: vec![Thread { number: 0, kernel_id: 42 }, Thread { number: 1, kernel_id: 43 }],
        nodes: vec![
            node(0, Kind::Parallel, Place::Code { address: 0x40_1200, part: 0 }),
            node(1, Kind::Section, Place::Code { address: 0x40_1300, part: 2 }),
            node(1, Kind::User, Place::Name("über %1\n".into())),
        ],
        rows: vec![Row { path: PathId(3), thread: 1, times }],
    }
}

#[test]
fn what_is_written_is_read() {
    let profile = written();
    assert_eq!(read(profile.written().as_bytes()), Ok(profile.clone()));
    let two = profile.written() + &Profile::default().written();
    assert_eq!(read_all(two.as_bytes()), Ok(vec![profile.clone(), Profile::default()]));
    assert_eq!(read_all(&two.as_bytes()[..two.len() - 1]), Err(ReadError::Line(7)));
    assert_eq!(read_all(&two.as_bytes()[..two.len() - "end 3\n".len()]), Err(ReadError::CutOff));
    assert_eq!(read_all(b""), Err(ReadError::NoProfile));
    assert_eq!(profile.locate(0x40_1234), Some(("/a b/program", 0x1234)));
    assert_eq!(profile.locate(0x40_3000), None);
    assert_eq!(profile.addresses(), [(0x40_1200, 0x40_11ff), (0x40_1234, 0x40_1233), (0x40_1300, 0x40_12ff)]);
    assert_eq!(profile.code(0x40_1200).map(|code| code.line), Some(7));
    assert_eq!(profile.code(0x40_1300), None);
}

/// Two places of one source line are one region: its times are added, and what is in them is, too.
#[test]
fn regions_may_be_one() {
    let node = |parent, kind, address| Node { parent: PathId(parent), region: Region::at(kind, address) };
    let times = |ns| Times { count: 1, inclusive_ns: [0, ns, 0, 0], exclusive_ns: [0, ns, 0, 0], ..Times::default() };
    let row = |path, thread, ns| Row { path: PathId(path), thread, times: times(ns) };
    let profile = Profile {
        threads: vec![Thread { number: 0, kernel_id: 1 }, Thread { number: 1, kernel_id: 2 }],
        nodes: vec![
            node(0, Kind::Parallel, 0x10),
            node(1, Kind::Loop, 0x20),
            node(0, Kind::Parallel, 0x11),
            node(3, Kind::Loop, 0x20),
            node(3, Kind::Loop, 0x30),
        ],
        rows: vec![row(1, 0, 1), row(2, 0, 2), row(3, 0, 4), row(4, 0, 8), row(4, 1, 16), row(5, 1, 32)],
        ..Profile::default()
    };
    let (unified, new) = profile.unified(|region| match region.place {
        Place::Code { address: 0x11, .. } => Region::at(region.kind, 0x10),
        _ => region.clone(),
    });
    assert_eq!(new, [1, 2, 1, 2, 3].map(PathId));
    assert_eq!(unified.nodes, [node(0, Kind::Parallel, 0x10), node(1, Kind::Loop, 0x20), node(1, Kind::Loop, 0x30)]);
    let rows: Vec<_> = unified.rows.iter().map(|row| (row.path.0, row.thread, row.times.exec_ns())).collect();
    assert_eq!(rows, [(1, 0, 5), (2, 0, 10), (2, 1, 16), (3, 1, 32)]);
}

#[test]
fn what_is_no_profile_is_told() {
    let whole = written().written();
    assert_eq!(read(b""), Err(ReadError::NoProfile));
    assert_eq!(read(b"slimline-regions 0\n"), Err(ReadError::NoProfile));
    assert_eq!(read(b"slimline-regions 3\n"), Err(ReadError::Newer(3)));
    for length in "slimline-regions 2\n".len()..whole.len() {
        assert!(read(&whole.as_bytes()[..length]).is_err(), "{length} bytes");
    }
    // Without the times of processes and of what they watch.
    let first = whole.replace("regions 2\n", "regions 1\n").replace("a%20b 5 18446744073709551615\n", "a%20b\n");
    let process = first.lines().find(|line| line.starts_with("process ")).unwrap();
    let first = first.replace(process, process.rsplit_once(' ').unwrap().0);
    let read_first = read(first.as_bytes()).unwrap();
    assert_eq!((read_first.began_ns, read_first.watched[0].from_ns, read_first.watched[0].until_ns), (0, 0, u64::MAX));
    assert_eq!(read_first.watched[0].name, "a b");
    let changed = |from: &str, to: &str| read(whole.replace(from, to).as_bytes());
    assert_eq!(changed("path 1 section", "path 9 section"), Err(ReadError::Line(16)));
    assert_eq!(changed("path 1 section", "path 1 flush"), Err(ReadError::Line(16)));
    assert_eq!(changed("row 3 1", "row 4 1"), Err(ReadError::Line(18)));
    assert_eq!(changed("row 3 1", "row 3 2"), Err(ReadError::Line(18)));
    assert_eq!(changed("\nend 18\n", "\nend 17\n"), Err(ReadError::Line(19)));
    assert_eq!(changed("\nend 18\n", "\nend 18\nend 19\n"), Err(ReadError::Line(19)));
}

/// A loop of 100 executions within a region of one; an execution costs 30 ns inside and 50 ns outside.
#[test]
fn what_counting_costs_is_taken_away() {
    let node = |parent, kind| Node { parent: PathId(parent), region: Region::at(kind, 1) };
    let times = |count, body, waited| Times {
        count,
        inclusive_ns: [0, body, waited, 0],
        exclusive_ns: [0, body, waited, 0],
        ..Times::default()
    };
    let row = |path, thread, times| Row { path: PathId(path), thread, times };
    let outer = Times { exclusive_ns: [0, 9_000, 0, 0], ..times(1, 30_000, 0) };
    let mut profile = Profile {
        cost: Some(Cost { inside_ps: 30_000, outside_ps: 50_000 }),
        threads: (0..2).map(|number| Thread { number, kernel_id: number }).collect(),
        nodes: vec![node(0, Kind::User), node(1, Kind::Loop)],
        rows: vec![row(1, 0, outer), row(2, 0, times(100, 20_000, 1_000)), row(2, 1, times(10, 200, 0))],
        ..Profile::default()
    };
    // Two phases are three events: 80 ns and half as much.
    assert_eq!(profile.subtract_cost(), Subtracted { executions: 111, cost_ns: 80 + 100 * 120 + 10 * 80 });
    let of = |place: usize| (profile.rows[place].times.inclusive_ns, profile.rows[place].times.exclusive_ns);
    // 30 of its own; of each loop 60 ns are outside of its phases, and 120 in all.
    assert_eq!(of(0), ([0, 30_000 - 30 - 12_000, 0, 0], [0, 9_000 - 30 - 6_000, 0, 0]));
    // The barrier was shorter than what counting it costs.
    assert_eq!(of(1), ([0, 17_000, 0, 0], [0, 17_000, 0, 0]));
    assert_eq!(of(2), ([0, 0, 0, 0], [0, 0, 0, 0]));
    assert_eq!(Cost::of(100, 3_000, 8_000), Cost { inside_ps: 30_000, outside_ps: 50_000 });
}

/// Ten tasks that one thread creates and another one executes: each pays for its own part.
#[test]
fn creating_tasks_costs_as_executing_them_does() {
    let node = |parent, kind| Node { parent: PathId(parent), region: Region::at(kind, 1) };
    let times = |count, created, [enter, body]: [u64; 2]| {
        let ns = [enter, body, 0, 0];
        Times { count, created, inclusive_ns: ns, exclusive_ns: ns, ..Times::default() }
    };
    let row = |path, thread, times| Row { path: PathId(path), thread, times };
    let single = Times { exclusive_ns: [0, 3_000, 0, 0], ..times(1, 0, [0, 5_000]) };
    let mut profile = Profile {
        cost: Some(Cost { inside_ps: 30_000, outside_ps: 50_000 }),
        threads: (0..2).map(|number| Thread { number, kernel_id: number }).collect(),
        nodes: vec![node(0, Kind::Single), node(1, Kind::Task)],
        rows: vec![row(1, 0, single), row(2, 0, times(0, 10, [2_000, 0])), row(2, 1, times(10, 0, [0, 9_000]))],
        ..Profile::default()
    };
    assert_eq!(profile.subtract_cost(), Subtracted { executions: 21, cost_ns: 80 + 10 * 80 + 10 * 80 });
    let of = |place: usize| (profile.rows[place].times.inclusive_ns, profile.rows[place].times.exclusive_ns);
    assert_eq!(of(0), ([0, 5_000 - 30 - 800, 0, 0], [0, 3_000 - 30 - 500, 0, 0]));
    assert_eq!(of(1), ([1_700, 0, 0, 0], [1_700, 0, 0, 0]));
    assert_eq!(of(2), ([0, 8_700, 0, 0], [0, 8_700, 0, 0]));
}
