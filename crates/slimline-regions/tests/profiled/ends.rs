//! Whichever way a process ends, its profile is whole.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;

use super::{COMPILERS, Program, library};

#[test]
fn each_way_to_end() {
    for compiler in COMPILERS {
        let program = Program::new(compiler, "kinds");
        // Abort and terminate.
        let ends = [("exit", Ok(3)), ("_exit", Ok(3)), ("quick_exit", Ok(3)), ("abort", Err(6)), ("kill", Err(15))];
        for (end, expected) in ends {
            let run = program.run(end);
            let status = run.status.code().ok_or(run.status.signal().unwrap_or_default());
            assert_eq!(status, expected, "{compiler}: {end}");
            assert_eq!((run.profiles.len(), run.others), (1, 0), "{compiler}: {end}");
            assert!(run.profiles[0].rows.len() > 10);
        }
    }
}

/// A forked child that meets no region writes none; the parent's is as without it.
#[test]
fn forked_children_have_profiles_of_their_own() {
    for compiler in COMPILERS {
        let run = Program::new(compiler, "kinds").run("fork");
        assert_eq!(run.status.code(), Some(3));
        assert_eq!((run.profiles.len(), run.others), (1, 0), "{compiler}");
    }
}

#[test]
fn without_a_directory_nothing_is_done() {
    for compiler in COMPILERS {
        let program = Program::new(compiler, "kinds");
        let mut command = Command::new(program.directory.path().join("program"));
        let output = command.env("LD_PRELOAD", library()).env_remove("SLIMLINE_REGIONS").output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), program.alone("exit"));
        assert_eq!(output.status.code(), Some(3));
    }
    // And in a directory that there is not, neither: there is no place to say so.
    let program = Program::new("gcc", "kinds");
    let mut command = Command::new(program.directory.path().join("program"));
    let output =
        command.env("LD_PRELOAD", library()).env("SLIMLINE_REGIONS", program.directory.path().join("none")).output();
    assert_eq!(output.unwrap().status.code(), Some(3));
}

/// Each thread of a team ends the process: the first one writes, and the others wait for it.
#[test]
fn several_threads_end_it_at_once() {
    for compiler in COMPILERS {
        let program = Program::new(compiler, "faults");
        for _ in 0..10 {
            let run = program.run_with(&[]);
            assert_eq!(run.status.signal(), Some(11), "{compiler}");
            assert_eq!((run.profiles.len(), run.others), (1, 0), "{compiler}");
        }
    }
}

#[test]
fn events_within_events_are_lost_and_counted() {
    let run = Program::new("gcc", "handlers").run_with(&[]);
    assert_eq!((run.status.code(), &*run.output), (Some(0), "done\n"));
    let profile = &run.profiles[0];
    let count = |name: &str| {
        let of_name =
            |table: &slimline_regions::Table| table.region.place == slimline_regions::Place::Name(name.into());
        profile.flat().iter().find(|table| of_name(table)).map_or(0, |table| table.sum.count)
    };
    assert_eq!(count("again and again"), 2_000_000);
    // An end is lost with its begin.
    assert!(profile.lost_events.is_multiple_of(2), "{}", profile.lost_events);
    assert!(count("in a handler") + profile.lost_events > 0);
}

#[test]
fn reductions_by_tasks_are_what_they_are_alone() {
    for compiler in COMPILERS {
        let run = Program::new(compiler, "reductions").run_with(&[]);
        assert_eq!((run.status.code(), &*run.output), (Some(0), "45\n"), "{compiler}");
        assert_eq!((run.profiles.len(), run.others), (1, 0), "{compiler}");
    }
}
