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
