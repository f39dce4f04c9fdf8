//! Children of traced programs: what they know of their parents' allocations, however they were made.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use slimline_instrument::driver::HEADER;
use tempfile::TempDir;

use super::compiled::{compiled, missing};
use super::{report, slimline, text};

/// N entries of `make` are loaded once by each call of `probe`, and N words of a large block of `table`. Its argument says who calls that.
const PROGRAM: &str = include_str!("../forked.c");

/// Loads of what these functions allocated.
fn loads(report: &Value, function: &str) -> u64 {
    let rows = report["heap"].as_array().unwrap().iter().filter(|row| row["function"] == function);
    rows.map(|row| row["loads"].as_u64().unwrap()).sum()
}

fn traced(program: &Path, options: &[&str], how: &str) -> Value {
    let mut command = slimline();
    command.args(["trace", "--live", "--report", "-", "--format", "json"]).args(options).arg("--").arg(program);
    let output = command.arg(how).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{how}: {}", text(&output.stderr));
    report(&output)
}

/// Of `make` and `table`: each time that `probe` runs it loads N times of both.
const ONCE: (u64, u64) = (1000, 1000);

#[test]
fn forked_children_have_their_parents_allocations() {
    let scratch = tempfile::tempdir().unwrap();
    let program = compiled(&scratch, PROGRAM);
    for (how, times, processes) in [
        ("none", 1, 1),
        ("fork", 1, 2),
        ("deep", 3, 4),
        ("thread", 1, 2),
        ("raw", 1, 2),
        ("clone3", 1, 2),
        ("clone", 1, 2),
    ] {
        let report = traced(&program, &[], how);
        let found = (loads(&report, "make"), loads(&report, "table"));
        assert_eq!(found, (times * ONCE.0, times * ONCE.1), "{how}: {}", report["heap"]);
        assert_eq!(report["processes"].as_array().unwrap().len(), processes, "{how}");
        assert_eq!(missing(&report), [""; 0], "{how}");
        // They count as their parent's.
        let rows = report["heap"].as_array().unwrap();
        let blocks: Vec<_> = rows.iter().map(|row| (&row["function"], &row["blocks"])).collect();
        assert!(blocks.contains(&(&"make".into(), &1000.into())), "{how}: {blocks:?}");
    }
}

/// Each process has its own view from the fork on.
#[test]
fn what_a_child_frees_its_parent_still_has() {
    let scratch = tempfile::tempdir().unwrap();
    let report = traced(&compiled(&scratch, PROGRAM), &[], "apart");
    // The child loads `next` of those that it frees, and probes the rest.
    assert_eq!(loads(&report, "make"), 500 + 500 + 1000, "{}", report["heap"]);
    assert_eq!(loads(&report, "table"), 2000);
    assert_eq!(missing(&report), [""; 0]);
}

#[test]
fn many_children_that_trace_nothing_take_nothing_from_later_ones() {
    let scratch = tempfile::tempdir().unwrap();
    let report = traced(&compiled(&scratch, PROGRAM), &[], "many");
    assert_eq!((loads(&report, "make"), loads(&report, "table")), ONCE, "{}", report["heap"]);
    assert_eq!(missing(&report), [""; 0]);
}

#[test]
fn a_recorded_trace_tells_the_same() {
    let scratch = tempfile::tempdir().unwrap();
    let program = compiled(&scratch, PROGRAM);
    for (how, times) in [("fork", 1), ("deep", 3), ("thread", 1)] {
        let directory = scratch.path().join(how);
        let output =
            slimline().args(["trace", "-o"]).arg(&directory).arg("--").arg(&program).arg(how).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let output = slimline().args(["trace", "--format", "json", "--replay"]).arg(&directory).output().unwrap();
        let report = report(&output);
        assert_eq!((loads(&report, "make"), loads(&report, "table")), (times * ONCE.0, times * ONCE.1), "{how}");
        assert_eq!(missing(&report), [""; 0], "{how}");
    }
}

/// Such a child writes at its parent's cursor: that must not go into the parent's records.
#[test]
fn a_child_in_its_parents_memory_does_no_damage_and_is_told() {
    let scratch = tempfile::tempdir().unwrap();
    let report = traced(&compiled(&scratch, PROGRAM), &[], "vm");
    let missing = missing(&report);
    let is_told = missing.iter().any(|line| line.contains("1 children that share this process's memory"));
    assert!(
        is_told && missing.iter().all(|line| !line.contains("damaged") && !line.contains("no records")),
        "{missing:?}"
    );
    // But for what the parent did before it saw that the child had ended: a page of records.
    let of_parent = loads(&report, "make");
    assert!((99_000..=100_000).contains(&of_parent), "{of_parent}");
}

/// Before tracing began nothing was told; while it is paused allocations are.
#[test]
fn what_was_allocated_while_paused_is_inherited() {
    let scratch = tempfile::tempdir().unwrap();
    fs::write(scratch.path().join("slimline.h"), HEADER).unwrap();
    let source = PROGRAM.replace("#define _GNU_SOURCE", "#define _GNU_SOURCE\n#include \"slimline.h\"");
    let source =
        source.replace("static int child(void *unused) {", "static int child(void *unused) { slimline_start();");
    let report = traced(&compiled(&scratch, &source), &["--paused"], "fork");
    assert_eq!((loads(&report, "make"), loads(&report, "table")), ONCE, "{}", report["heap"]);
}

fn built(scratch: &TempDir) -> std::path::PathBuf {
    let (source, program) = (scratch.path().join("program.c"), scratch.path().join("translated"));
    fs::write(&source, PROGRAM).unwrap();
    let status = Command::new("gcc").args(["-O1", "-g", "-pthread", "-o"]).arg(&program).arg(&source).status();
    assert!(status.unwrap().success());
    program
}

#[test]
fn translated_children_have_their_parents_allocations() {
    let scratch = tempfile::tempdir().unwrap();
    let program = built(&scratch);
    for (how, times) in [("none", 1), ("fork", 1), ("deep", 3), ("raw", 1)] {
        let report = traced(&program, &["--collector", "translate"], how);
        // The allocator itself looks into blocks, too.
        let found = (loads(&report, "make"), loads(&report, "table"));
        assert!(found.0 >= times * ONCE.0 && found.1 >= times * ONCE.1, "{how}: {found:?} {}", report["heap"]);
    }
}

/// The handler also interrupts threads that wait for slimline to read. Their child continues as if nothing had happened.
#[test]
fn a_child_may_return_from_the_handler_that_forked() {
    let scratch = tempfile::tempdir().unwrap();
    let program = compiled(&scratch, include_str!("../../../slimline-agent/tests/preload/targets/returning.c"));
    let output = slimline().args(["trace", "--live", "--report", "-", "--"]).arg(program).output().unwrap();
    let printed = text(&output.stdout);
    assert_eq!(printed.lines().next(), Some("200 of 200"), "{}", text(&output.stderr));
}
