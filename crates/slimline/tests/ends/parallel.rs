//! Parallel runs, with a shell script for the launcher: each rank its own session, one report of all.

use std::process::Output;

use slimline_report::view::{PerProcess, Report};
use slimline_trace::session::Session;

use crate::scratch::{Scratch, WALK, check_refused, stderr, stdout};

/// Runs `command` as `count` ranks at once, each recorded into `run`, as `mpirun -n COUNT slimline record -o run -- COMMAND`
/// does; ends with the worst of their statuses.
fn launch(scratch: &Scratch, count: u32, command: &str) -> Output {
    let script = format!(
        "ranks=(); status=0
        for ((rank = 0; rank < {count}; rank++)); do
            OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_SIZE={count} $SLIMLINE record -o run -- {command} & ranks+=($!)
        done
        for rank in ${{ranks[@]}}; do wait $rank || status=$?; done; exit $status"
    );
    scratch.bash(&script).output().unwrap()
}

/// The JSON of a report.
fn json(scratch: &Scratch, arguments: &[&str]) -> Vec<u8> {
    let output = scratch.slimline(["report", "--format", "json"].iter().chain(arguments)).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    output.stdout
}

fn report(scratch: &Scratch, arguments: &[&str]) -> Report {
    serde_json::from_slice(&json(scratch, arguments)).unwrap()
}

fn per_process(scratch: &Scratch, arguments: &[&str]) -> PerProcess {
    serde_json::from_slice(&json(scratch, &[&["--per-process"], arguments].concat())).unwrap()
}

#[test]
fn ranks_are_recorded_side_by_side_and_reported_as_one() {
    let scratch = Scratch::new();
    let program = scratch.compile("walk", WALK, &["-O1", "-g"]);
    let output = launch(&scratch, 3, program.to_str().unwrap());
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), "0\n0\n0\n");
    assert!(stderr(&output).contains("slimline: run/rank-2: "), "{}", stderr(&output));

    let all = report(&scratch, &["run"]);
    assert_eq!((all.session.processes, all.session.ended.as_str()), (3, "exit status 0"));
    assert!(all.session.notes.iter().any(|note| note.contains("3 recordings are taken together: rank-0 to rank-2")));
    let items: Vec<_> = all.groups.iter().filter(|group| group.type_name.as_deref() == Some("struct item")).collect();
    assert_eq!((items.len(), items[0].blocks), (1, 3), "one data structure, in all ranks");

    let apart = per_process(&scratch, &["run"]);
    let mut directories: Vec<_> = apart.processes.iter().map(|process| &process.directory[..7]).collect();
    directories.sort_unstable();
    assert_eq!(directories, ["rank-0/", "rank-1/", "rank-2/"]);
    let samples: u64 = apart.processes.iter().map(|process| process.report.session.samples).sum();
    assert_eq!(samples, all.session.samples);
    assert!(apart.processes.iter().all(|process| process.report.session.processes == 1));
    let text = scratch.slimline(["report", "--per-process", "run"]).output().unwrap();
    assert_eq!(stdout(&text).matches("PROCESS ").count(), 3, "{}", stdout(&text));

    // A smaller run after it: what the third rank left is not of this one.
    assert!(launch(&scratch, 2, "true").status.success());
    assert_eq!(Session::open(&scratch.path("run")).unwrap().processes().len(), 2);
}

#[test]
fn a_rank_that_fails_is_told() {
    let scratch = Scratch::new();
    let output = launch(&scratch, 2, "bash -c 'exit $((4 * OMPI_COMM_WORLD_RANK))'");
    assert_eq!(output.status.code(), Some(4), "{}", stderr(&output));
    let all = report(&scratch, &["run"]);
    assert_eq!(all.session.ended, "exit status 4");
}

#[test]
fn ranks_do_not_displace_a_session_of_another_kind() {
    let scratch = Scratch::new();
    assert!(scratch.slimline(["record", "-o", "run", "--", "true"]).status().unwrap().success());
    let output = scratch.bash("PMI_RANK=0 PMI_SIZE=2 $SLIMLINE record -o run -- touch ran").output().unwrap();
    check_refused(&output, "run: holds a session that is not of a parallel run");
    assert!(!scratch.path("ran").exists());
}

#[test]
fn processes_of_a_shell_are_told_apart() {
    let scratch = Scratch::new();
    let program = scratch.compile("walk", WALK, &["-O1", "-g"]);
    let script = format!("{0} & {0}; wait", program.display());
    let output = scratch.slimline(["record", "-F", "997", "--", "bash", "-c", &script]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let all = report(&scratch, &[]);
    let apart = per_process(&scratch, &[]);
    let walks = apart.processes.iter().filter(|process| process.executable.ends_with("/walk"));
    assert!(walks.count() == 2 && all.session.samples > apart.processes[0].report.session.samples);
}
