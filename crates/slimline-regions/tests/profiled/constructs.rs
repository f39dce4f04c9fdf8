//! Nested teams, tasks, and one of each construct.

use std::collections::BTreeSet;

use slimline_regions::{Kind, PathId, Phase, Place, Profile};

use super::{COMPILERS, MS, Program, check, near, table};

fn kinds_of(profile: &Profile, mut path: PathId) -> Vec<Kind> {
    let mut kinds = Vec::new();
    while let Some(node) = profile.node(path) {
        kinds.insert(0, node.region.kind);
        path = node.parent;
    }
    kinds
}

#[test]
fn nested_parallelism() {
    check("nested", |profile| {
        let paths: Vec<_> = profile.paths().map(|(path, _)| kinds_of(profile, path)).collect();
        let (outer, inner) = (vec![Kind::Parallel], vec![Kind::Parallel; 2]);
        assert_eq!(paths, [outer, inner.clone(), [inner, vec![Kind::Loop]].concat()]);
        let looped = table(profile, Kind::Loop);
        assert_eq!((looped.sum.count, looped.threads.len(), profile.threads.len()), (4, 4, 4));
        near("the loop's bodyT", &[looped.sum.phase_ns(Phase::Body)], &[400])?;
        let graph = profile.call_graph();
        // The outer region's two threads, and the inner ones' four; the loop is all that there is in them.
        near("execT", &[graph[0].exec_ns(), graph[1].exec_ns()], &[200, 400])?;
        assert!(graph[0].exclusive_exec_ns() < graph[0].exec_ns() / 2);
        Ok(())
    });
}

#[test]
fn tasks() {
    check("tasks", |profile| {
        let task = table(profile, Kind::Task);
        assert_eq!(task.sum.count, 8);
        // Each may wake late.
        let bodies = task.sum.phase_ns(Phase::Body);
        if !(160 * MS..240 * MS).contains(&bodies) {
            return Err(format!("bodyT: {bodies} ns of eight times 20 ms"));
        }
        let path = profile.paths().find(|(_, node)| node.region.kind == Kind::Task).unwrap().0;
        assert_eq!(kinds_of(profile, path), [Kind::Parallel, Kind::Single, Kind::Task]);
        let executed = task.threads.iter().filter(|(_, times)| times.count > 0).count();
        if executed < 2 {
            return Err("one thread executed all".into());
        }
        // Who waits executes tasks, and is not said to wait meanwhile.
        let wait = table(profile, Kind::Taskwait).sum;
        assert!(wait.exclusive_exec_ns() < wait.exec_ns());
        near("the single's waiting", &[table(profile, Kind::Single).sum.exclusive_ns[2]], &[0])
    });
}

#[test]
fn each_construct() {
    for compiler in COMPILERS {
        let program = Program::new(compiler, "kinds");
        let run = program.run("exit");
        assert_eq!(run.output, program.alone("exit"));
        assert_eq!(run.status.code(), Some(3));
        let profile = &run.profiles[0];
        assert_eq!((profile.lost_regions, profile.lost_threads), (0, 0));
        let seen: BTreeSet<_> = profile.nodes.iter().map(|node| node.region.kind).collect();
        let mut expected = BTreeSet::from([
            Kind::User,
            Kind::Parallel,
            Kind::Loop,
            Kind::Ordered,
            Kind::Critical,
            Kind::Barrier,
            Kind::Single,
            Kind::Taskgroup,
            Kind::Task,
            Kind::Taskwait,
        ]);
        if compiler != "gcc" {
            expected.insert(Kind::Masked);
            // Of `copyprivate`, which libomp has two barriers for.
            expected.insert(Kind::ImplicitBarrier);
        }
        assert_eq!(seen, expected, "{compiler}");
        for table in profile.flat() {
            match &table.region.place {
                Place::Name(name) => assert_eq!(&**name, "all of it"),
                Place::Code { address, .. } => {
                    let (module, _) = profile.locate(*address).unwrap();
                    assert!(module.ends_with("/program"), "{compiler}: {module}");
                }
            }
        }
        let count = |kind| profile.flat().iter().filter(|t| t.region.kind == kind).map(|t| t.sum.count).sum::<u64>();
        // 6 iterations, and 6 + 3 sections; fibonacci(10) makes 2 tasks and a taskwait in each of its 88 calls that go on.
        let counts = [Kind::Ordered, Kind::Critical, Kind::Single, Kind::Taskwait, Kind::Task].map(count);
        assert_eq!(counts, [6, 9, 2, 88, 177], "{compiler}");
    }
}

#[test]
fn combined_constructs() {
    for compiler in COMPILERS {
        let program = Program::new(compiler, "combined");
        let run = program.run("");
        assert_eq!(run.output, program.alone(""));
        let profile = &run.profiles[0];
        let paths = |kinds: &[Kind]| profile.paths().filter(|(path, _)| kinds_of(profile, *path) == kinds).count();
        assert_eq!(paths(&[Kind::Parallel]), 3);
        assert_eq!(paths(&[Kind::Parallel, Kind::Loop]), 2, "{compiler}");
        assert_eq!(paths(&[Kind::Parallel, Kind::Loop, Kind::Critical]), 1, "{compiler}");
        assert_eq!(paths(&[Kind::Parallel, Kind::Sections]), 1, "{compiler}");
        let executed: Vec<_> = profile.flat().into_iter().filter(|table| table.region.kind == Kind::Section).collect();
        if compiler == "gcc" {
            let places: BTreeSet<_> = executed.iter().map(|table| format!("{:?}", table.region.place)).collect();
            assert_eq!(places.len(), 3, "{places:?}");
            assert!(executed.iter().all(|table| table.sum.count == 1));
        } else {
            // clang makes a loop with a static schedule of sections, and calls nothing for each.
            assert_eq!(executed, []);
        }
    }
}

#[test]
fn tasks_are_executed_once_however_often_they_are_suspended() {
    for compiler in COMPILERS {
        let run = Program::new(compiler, "untied").run_with(&[]);
        assert_eq!(&*run.output, "100\n", "{compiler}");
        let tables = run.profiles[0].flat();
        let tasks = tables.iter().filter(|table| table.region.kind == Kind::Task);
        let mut counts: Vec<u64> = tasks.map(|table| table.sum.count).collect();
        counts.sort_unstable();
        assert_eq!(counts, [1, 100], "{compiler}");
    }
}
