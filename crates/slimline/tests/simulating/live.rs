//! Programs simulated while they run: the same as of a trace that was written, and nothing on disk.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::traced::{GRID, by_three_threads, counters, json, slimline, traced};

/// Without what tells one run from another.
fn of_run(mut report: Value) -> Value {
    report["trace"] = Value::Null;
    // The kernel's numbers.
    report.pointer_mut("/machines/0/by/threads").map(Value::take);
    report
}

#[test]
fn a_run_is_simulated_as_its_trace_is() {
    let directory = traced(GRID);
    let full = ["--machine", "full.toml"];
    for command in [&["simulate", "--classes"][..], &["histogram"], &["reuse"], &["reuse", "--sampled", "1000"]] {
        let written = json(directory.path(), &[command, &full, &["run.trace"]].concat());
        let before = fs::read_dir(directory.path()).unwrap().count();
        let live = json(directory.path(), &[command, &full, &["--live", "--report", "-", "--", "./program"]].concat());
        assert_eq!((&live["trace"]["format"], &live["trace"]["threads"]), (&"trace".into(), &1.into()));
        assert_eq!(live["trace"]["missing"], Value::Array(Vec::new()));
        assert_eq!(of_run(live), of_run(written), "{command:?}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), before);
    }
}

#[test]
fn threads_share_live_what_they_share_in_a_trace() {
    let directory = traced(&counters());
    let report =
        json(directory.path(), &["share", "--machine", "four.toml", "--live", "--report", "-", "--", "./program"]);
    let [row] = &report["falsely_shared"].as_array().unwrap()[..] else { panic!("{report}") };
    assert_eq!((&row["sides"][0]["variable"], &row["apart_bytes"]), (&"packed".into(), &8.into()));
    let threads = row["sides"][0]["threads"].as_array().unwrap();
    // What the first one did alone is not counted.
    let stores: Vec<u64> = threads.iter().map(|thread| thread["stores"].as_u64().unwrap()).collect();
    assert!(stores.len() == 3 && stores.iter().filter(|&&stores| stores == 100_000).count() >= 2, "{row}");
    let directory = traced(&by_three_threads(
        "#include <stdatomic.h>\nstatic struct { atomic_long hits; long pad[7]; } all __attribute__((aligned(64)));",
        "all.hits += self",
    ));
    let report =
        json(directory.path(), &["share", "--machine", "four.toml", "--live", "--report", "-", "--", "./program"]);
    let [row] = &report["shared"].as_array().unwrap()[..] else { panic!("{report}") };
    assert_eq!((&row["writers"], &row["uniform"]), (&3.into(), &true.into()), "{report}");
    assert_eq!(report["falsely_shared"], Value::Array(Vec::new()));
}

/// What comes before a second thread does is not seen by one pass: the verdict is of what follows.
#[test]
fn what_is_shared_live_is_judged_by_what_was_seen() {
    let directory = traced(
        "#include <pthread.h>\nstatic volatile long all[1000];\n\
         static void *sum(void *of) { for (int i = 0; i < 1000; i++) *(long *)of += all[i]; return of; }\n\
         int main(void) {\n    long of = 0;\n    pthread_t thread;\n    for (int i = 0; i < 1000; i++) all[i] = 1;\n    \
         pthread_create(&thread, NULL, sum, &of);\n    pthread_join(thread, NULL);\n    return of != 1000;\n}\n",
    );
    let live = ["share", "--machine", "four.toml", "--live", "--report", "-"];
    let report = json(directory.path(), &[&live[..], &["--", "./program"]].concat());
    let alone = report["alone_accesses"].as_u64().unwrap();
    assert!(alone >= 1000, "{report}");
    assert_eq!((&report["shared"], &report["falsely_shared"]), (&Value::Array(vec![]), &Value::Array(vec![])));
    let said = slimline(directory.path(), &[&live[..], &["--", "./program"]].concat());
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains(&format!("Missing: {alone} accesses")), "{said}");
    assert!(
        said.contains("No line was seen to go from thread to thread time and again; seen is what follows"),
        "{said}"
    );
    // Who reads a trace twice sees all.
    let report = json(directory.path(), &["share", "run.trace", "--machine", "four.toml"]);
    assert_eq!(report["alone_accesses"], 0);
}

#[test]
fn the_program_keeps_its_streams_and_its_end() {
    let directory = traced(
        "#include <stdio.h>\nstatic volatile int counts[100];\n\
         int main(int argc, char **argv) { counts[argc]++; if (argc > 1) puts(argv[1]); return argc > 1 ? 3 : 0; }",
    );
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_slimline"));
        command.args(arguments).current_dir(directory.path()).stdin(Stdio::null()).output().unwrap()
    };
    let output = run(&["simulate", "--live", "--report", "-", "--", "./program", "--rows"]);
    assert_eq!(output.status.code(), Some(3));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("--rows\nlive (./program --rows), 1 thread\n") && text.contains("counts"), "{text}");
    // Beside its output unless that is asked for.
    let output = run(&["simulate", "--live", "--", "./program", "--rows"]);
    assert_eq!(output.stdout, b"--rows\n");
    assert!(String::from_utf8(output.stderr).unwrap().starts_with("live (./program --rows), 1 thread\n"));
    let output = run(&["simulate", "--live", "--report", "-", "--", "true"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.code() == Some(0) && said.starts_with("slimline: nothing was traced: no process of it"),
        "{said}"
    );
    for (arguments, wanted) in [
        (&["simulate", "run.trace", "--live", "--report", "-", "--", "./program"][..], "cannot be used with"),
        (&["simulate", "--live", "--report", "-"], "required"),
        (&["simulate", "run.trace", "--", "./program"], "cannot be used with"),
        (&["simulate", "--", "./program"], "required"),
        (&["share"], "required"),
        (&["simulate", "--machine", "none.toml", "--live", "--report", "-", "--", "./program"], "none.toml"),
    ] {
        let output = run(arguments);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(2) && said.contains(wanted), "{arguments:?}: {said}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
    let text = slimline(directory.path(), &["histogram", "run.trace", "--part", "4K"]);
    assert!(text.contains("counts"), "{text}");
}

/// `/dev/full` can be opened, and takes nothing.
#[test]
fn a_report_that_can_not_be_written_does_not_hide_how_the_program_ended() {
    let directory = traced(
        "static volatile int counts[100];\n\
         int main(int argc, char **argv) { counts[argc]++; return argv[1] ? 3 : 0; }",
    );
    let run = |command: &[&str], place: &str, argument: &[&str]| {
        let mut slimline = Command::new(env!("CARGO_BIN_EXE_slimline"));
        slimline.args(command).args(["--live", "--report", place, "--", "./program"]).args(argument);
        let output = slimline.current_dir(directory.path()).stdin(Stdio::null()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let full = ["--machine", "full.toml"];
    let place = ["place", "--machine", "pena-sp"];
    let commands = [
        [&["simulate"], &full[..]].concat(),
        [&["histogram"], &full[..]].concat(),
        [&["reuse"], &full[..]].concat(),
        [&["share"], &full[..]].concat(),
        place.to_vec(),
        vec!["trace"],
    ];
    for command in commands {
        let (status, said) = run(&command, "/dev/full", &["x"]);
        assert_eq!(status, Some(3), "{command:?}: {said}");
        assert!(said.starts_with("slimline: /dev/full: No space left"), "{command:?}: {said}");
        assert_eq!(run(&command, "/dev/full", &[]).0, Some(2), "{command:?}");
        // What can't be made is told before the program runs.
        assert_eq!(run(&command, "/not/there", &["x"]).0, Some(2), "{command:?}");
        assert_eq!(run(&command, "report", &["x"]).0, Some(3), "{command:?}");
    }
    // Which data there is the run tells.
    let wrong = [&["histogram", "--data", "cuonts"], &full[..]].concat();
    for (argument, ends) in [(&["x"][..], 3), (&[], 2)] {
        let (status, said) = run(&wrong, "report", argument);
        assert_eq!(status, Some(ends), "{said}");
        let (which, what) = said.split_once(": there is ").unwrap_or_else(|| panic!("{said}"));
        assert_eq!(which, "slimline: no data is called cuonts");
        // What the arguments lie in is data, too.
        assert!(what.split(", ").any(|data| data.trim_end() == "counts"), "{said}");
    }
}
