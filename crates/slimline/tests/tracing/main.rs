//! `slimline trace`, on a program that writes its trace by hand.

mod callers;
mod compiled;
mod fields;
mod forked;
mod handlers;
mod libraries;
mod order;
mod paused;
mod statics;
mod translated;
mod windows;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use serde_json::Value;
use slimline_trace::stream::sites::{Frame, ModuleBuilder, Site, SiteKind};
use tempfile::TempDir;

/// The program, compiled once.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    &PROGRAM
        .get_or_init(|| {
            let scratch = tempfile::tempdir().unwrap();
            let program = compile(scratch.path());
            (scratch, program)
        })
        .1
}

fn compile(scratch: &Path) -> PathBuf {
    let mut builder = ModuleBuilder::new();
    let [main, file, node, key, next, list] =
        ["main", "list.c", "node", "key", "next", "list"].map(|text| builder.name(text));
    let frame = Some(builder.frame(Frame { function: main, file, line: 7, column: 3, caller: None }));
    let site =
        Site { function: main, frame, variable: list, structure: node, field: key, ..Site::new(SiteKind::Load, 8) };
    builder.segment([site]);
    builder.segment([Site { field: next, ..site }, Site { kind: SiteKind::Store, size_bytes: 4, ..site }]);
    builder.segment(vec![Site::new(SiteKind::Load, 8); 60]);
    let (id, blob) = builder.finish("list.c", "list.o", "/", "by hand").encode();
    sample_programs::by_hand::writes(scratch, id.number(), &blob, slimline_collect::RUNTIME).unwrap()
}

fn slimline() -> Command {
    Command::new(env!("CARGO_BIN_EXE_slimline"))
}

fn trace(options: &[&str], arguments: &[&str]) -> Output {
    slimline().arg("trace").args(options).arg("--").arg(program()).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// The report: of a program that ran beside its output, of a trace the output.
fn report(output: &Output) -> Value {
    let shown = if output.stderr.is_empty() { &output.stdout } else { &output.stderr };
    let shown = text(shown).trim_start_matches("done\n");
    serde_json::from_str(shown).unwrap_or_else(|error| panic!("{error}: {shown}"))
}

/// Loads and stores of `many(n)`.
fn many(n: u64) -> (u64, u64) {
    (2 * n + n / 16 * 60, n)
}

#[test]
fn a_live_report_counts_every_access() {
    let output = trace(&["--live", "--format", "json"], &["plain", "100000"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report = report(&output);
    let (loads, stores) = many(100_000);
    assert_eq!((&report["total"]["loads"], &report["total"]["stores"]), (&loads.into(), &stores.into()));
    assert_eq!(report["missing"], Value::Array(Vec::new()));
    let fields: Vec<(&str, u64)> = report["fields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["name"].as_str().unwrap_or(""), row["accesses"].as_u64().unwrap()))
        .collect();
    assert_eq!(fields, [("", 375_000), ("node.key", 200_000), ("node.next", 100_000)]);
    assert_eq!(report["lines"][1]["name"], "list.c:7");
    let output = trace(&["--live"], &["plain", "100000"]);
    let shown = text(&output.stderr);
    assert!(shown.starts_with("675,000 accesses: 575,000 loads"), "{shown}");
    assert!(shown.contains("node.key") && !shown.contains("Missing"), "{shown}");
    assert_eq!(text(&output.stdout), "done\n");
}

/// The program's streams are its own, and the report is where it is asked for.
#[test]
fn a_live_report_goes_beside_the_program_s_output() {
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("report.json");
    let place = file.to_str().unwrap();
    let output = trace(&["--live", "--format", "json", "--report", place], &["plain", "1000"]);
    assert_eq!((output.status.code(), text(&output.stdout), text(&output.stderr)), (Some(0), "done\n", ""));
    let written: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!(written["total"]["stores"], 1000);
    let output = trace(&["--live", "--report", "-"], &["plain", "1000"]);
    assert!(text(&output.stdout).starts_with("done\n6,720 accesses"), "{}", text(&output.stdout));
    assert_eq!(text(&output.stderr), "");
    let output = trace(&["--live", "--report", place], &["plain", "1000"]);
    assert_eq!(text(&output.stdout), "done\n");
    assert!(fs::read_to_string(&file).unwrap().starts_with("6,720 accesses"));
    // Told before the program runs.
    let output = trace(&["--live", "--report", "/not/there"], &["plain", "1000"]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), ""));
    assert!(text(&output.stderr).starts_with("slimline: /not/there: "), "{}", text(&output.stderr));
}

#[test]
fn how_the_program_ended_is_told() {
    let scratch = tempfile::tempdir().unwrap();
    let place = scratch.path().join("trace");
    let place = place.to_str().unwrap();
    for (mode, status, signal, said) in [
        (
            "kill",
            Value::Null,
            9.into(),
            "The program was killed by SIGKILL, signal 9: this is what it did up to then\n",
        ),
        ("_exit", 3.into(), Value::Null, "The program ended with exit status 3\n"),
        ("plain", 0.into(), Value::Null, ""),
    ] {
        trace(&["-o", place], &[mode, "1000"]);
        let live = trace(&["--live"], &[mode, "1000"]);
        let replayed = slimline().args(["trace", "--replay", place]).output().unwrap();
        for shown in [text(&live.stderr), text(&replayed.stdout)] {
            let told = shown.lines().find(|line| line.starts_with("The program"));
            assert_eq!(told.map_or_else(String::new, |line| format!("{line}\n")), said, "{shown}");
        }
        let json = report(&slimline().args(["trace", "--format", "json", "--replay", place]).output().unwrap());
        assert_eq!((&json["end"]["status"], &json["end"]["signal"]), (&status, &signal));
        // The others say only what is missing for it.
        let recorded = slimline().args(["simulate", place]).output().unwrap();
        let live = slimline().args(["histogram", "--live", "--"]).arg(program()).args([mode, "1000"]).output().unwrap();
        for shown in [text(&recorded.stdout), text(&live.stderr)] {
            let lost = "what the program would have done, had it not been killed by SIGKILL, signal 9";
            assert_eq!(shown.contains(lost), mode == "kill", "{shown}");
        }
    }
}

/// What is told to have been written is missing, not nothing.
#[test]
fn chunks_that_are_gone_are_missed() {
    let scratch = tempfile::tempdir().unwrap();
    let place = scratch.path().join("trace");
    let chunks = place.join("p0-s0.chunks");
    assert_eq!(trace(&["-o", place.to_str().unwrap()], &["plain", "300000"]).status.code(), Some(0));
    let read = |command: &[&str]| slimline().args(command).arg(&place).output().unwrap();
    let info: Value = serde_json::from_str(&fs::read_to_string(place.join("trace.json")).unwrap()).unwrap();
    let all = info["frames"]["p0-s0.chunks"].as_u64().unwrap();
    assert!(all > 10);
    // The first of several.
    let bytes = fs::read(&chunks).unwrap();
    fs::write(&chunks, &bytes[..bytes.len() / 2]).unwrap();
    let shown = read(&["trace", "--replay"]);
    let missing = text(&shown.stdout).lines().find(|line| line.starts_with("Missing: ")).unwrap().to_owned();
    assert!(missing.contains(&format!(" of {all} chunks of ")) && missing.contains("cut off"), "{missing}");
    for cut in [Some(&bytes[..20]), None] {
        match cut {
            Some(bytes) => fs::write(&chunks, bytes).unwrap(),
            None => fs::remove_file(&chunks).unwrap(),
        }
        for command in [&["trace", "--replay"][..], &["simulate"]] {
            let output = read(command);
            let said = text(&output.stderr);
            let wanted = format!("no access is left of it; missing: {all} of {all} chunks of ");
            assert!(output.status.code() == Some(2) && said.contains(&wanted), "{said}");
        }
    }
}

#[test]
fn a_recorded_trace_gives_the_same_report() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("run.trace");
    let place = directory.to_str().unwrap();
    let recorded = trace(&["-o", place], &["threads", "20000"]);
    assert_eq!((recorded.status.code(), text(&recorded.stdout)), (Some(0), "done\n"), "{}", text(&recorded.stderr));
    let replayed = slimline().args(["trace", "--format", "json", "--replay", place]).output().unwrap();
    let live = trace(&["--live", "--format", "json"], &["threads", "20000"]);
    let [replayed, live] = [&replayed, &live].map(report);
    for part in ["total", "fields", "sites", "missing"] {
        assert_eq!(replayed[part], live[part], "{part}");
    }
    let refused = slimline().args(["report", place]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("is a full trace, not a session of samples: slimline trace --replay"));
}

#[test]
fn it_ends_as_the_program_ends() {
    let output = trace(&["--live"], &["_exit", "1000"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(text(&output.stderr).starts_with("6,720 accesses"), "{}", text(&output.stderr));
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(trace(&["--live"], &["kill", "1000"]).status.signal(), Some(9));
}

#[test]
fn a_program_without_instrumentation_runs_and_that_is_said() {
    let output = slimline().args(["trace", "--live", "--", "sh", "-c", "echo hello; exit 4"]).output().unwrap();
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(4), "hello\n"));
    assert!(text(&output.stderr).contains("nothing was traced"), "{}", text(&output.stderr));
}

#[test]
fn what_can_not_be_written_or_read_is_one_line() {
    let scratch = tempfile::tempdir().unwrap();
    fs::write(scratch.path().join("mine"), "").unwrap();
    let place = scratch.path().to_str().unwrap();
    for output in [
        trace(&["-o", place], &["plain"]),
        trace(&["-o", "/proc/no"], &["plain"]),
        slimline().args(["trace", "--replay", place]).output().unwrap(),
        slimline().args(["trace", "--live", "--", "/not/there"]).output().unwrap(),
    ] {
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(text(&output.stderr).lines().count(), 1, "{}", text(&output.stderr));
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_command_that_is_not_there_leaves_the_trace_alone() {
    let scratch = tempfile::tempdir().unwrap();
    let place = scratch.path().join("trace");
    let place = place.to_str().unwrap();
    assert_eq!(trace(&["-o", place], &["plain", "1000"]).status.code(), Some(0));
    let replayed = || slimline().args(["trace", "--format", "json", "--replay", place]).output().unwrap().stdout;
    let before = replayed();
    let output = slimline().args(["trace", "-o", place, "--", "./not-there"]).output().unwrap();
    assert_eq!((output.status.code(), replayed() == before), (Some(2), true));
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 1, "nothing else was made");
}

#[test]
fn a_run_in_which_nothing_is_traced_keeps_the_trace_before() {
    let scratch = tempfile::tempdir().unwrap();
    let place = scratch.path().join("trace");
    let place = place.to_str().unwrap();
    assert_eq!(trace(&["-o", place], &["plain", "1000"]).status.code(), Some(0));
    let replayed = |place: &str| slimline().args(["trace", "--replay", place]).output().unwrap();
    let before = replayed(place).stdout;
    for _ in 0..2 {
        let output = slimline().args(["trace", "-o", place, "--", "true"]).output().unwrap();
        let said = text(&output.stderr);
        assert!(output.status.success() && said.contains("nothing was traced"), "{said}");
        assert!(said.ends_with(&format!("slimline: the trace before it is {place}.old\n")), "{said}");
        assert_eq!(replayed(&format!("{place}.old")).stdout, before);
    }
    let empty = replayed(place);
    assert_eq!((empty.status.code(), empty.stdout.is_empty()), (Some(2), true));
    assert_eq!(text(&empty.stderr), format!("slimline: {place}: holds no access: nothing was traced\n"));
}

#[test]
fn when_slimline_is_killed_the_program_goes_on() {
    let mut traced = slimline()
        .args(["trace", "--live", "--"])
        .arg(program())
        .args(["plain", "20000000"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = traced.stdout.take().unwrap();
    // Until the program has begun: its trace is far more than may wait to be read.
    let prefix = format!("slimline-{}-", traced.id());
    let has_begun = || {
        let named = fs::read_dir("/dev/shm").into_iter().flatten().flatten();
        let mut ours = named.filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix));
        ours.any(|entry| fs::read_dir(entry.path()).is_ok_and(|mut rings| rings.next().is_some()))
    };
    while !has_begun() {
        assert!(traced.try_wait().unwrap().is_none(), "it ended before it was killed");
        std::thread::yield_now();
    }
    traced.kill().unwrap();
    traced.wait().unwrap();
    let mut output = String::new();
    stdout.read_to_string(&mut output).unwrap();
    assert_eq!(output, "done\n");
}
