//! Samples by region, thread and data: `slimline record --regions`.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::accesses::json;
use super::{COMPILERS, compiled, regions, text};

const N: u64 = 6_000;
const TIMES: u64 = 12;
const THREADS: u64 = 2;

/// The paper's matrix times vector, over and over; with an argument a child does it. Nothing is
/// vectorized at -O1: an access is of one element.
const MATRIX: &str = r#"#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#define N 6000
static double a[N][N], b[N], c[N];
static void multiply(void) {
    for (int time = 0; time < 12; time++) {
#pragma omp parallel for num_threads(2)
        for (int i = 0; i < N; i++) {
            double sum = 0;
            for (int j = 0; j < N; j++)
                sum += a[i][j] * b[j];
            c[i] = sum;
        }
    }
}
int main(int argc, char **argv) {
    for (int i = 0; i < N; i++) {
        b[i] = i % 7;
        for (int j = 0; j < N; j++)
            a[i][j] = (i ^ j) % 5;
    }
    if (argc > 1 && fork() == 0) {
        multiply();
        _exit(0);
    }
    wait(0);
    if (argc == 1)
        multiply();
    printf("%g\n", c[7]);
    return 3;
}
"#;

fn recorded(directory: &Path, arguments: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slimline"));
    command.args(["record", "--regions", "-F", "1000"]).args(arguments).current_dir(directory);
    let output = command.env("OMP_WAIT_POLICY", "passive").stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
}

fn told(directory: &Path, arguments: &[&str]) -> Value {
    json(&regions(directory, &[arguments, &["--format", "json"]].concat()))
}

/// The parallel region of the last process.
fn parallel(report: &Value) -> &Value {
    let process = report["processes"].as_array().unwrap().last().unwrap();
    process["regions"].as_array().unwrap().iter().find(|row| row["kind"] == "parallel").unwrap()
}

/// Value and interval of an estimate.
fn estimate(of: &Value) -> [f64; 3] {
    ["value", "low", "high"].map(|name| of[name].as_f64().unwrap_or_else(|| panic!("no {name}: {of}")))
}

#[test]
fn estimates_of_loads_are_what_was_counted_within_their_error_bars() {
    for compiler in COMPILERS {
        let directory = compiled(compiler, MATRIX, &["-fopenmp"]);
        recorded(directory.path(), &["--", "./program"]);
        let report = told(directory.path(), &["slimline.data", "--data", "a", "--data", "b"]);
        let region = parallel(&report);
        let all = region["samples"].as_array().unwrap();
        let [a, b] = [0, 1].map(|place| all.iter().find(|of| of["chosen"] == place).expect("accesses"));
        assert_eq!(a["threads"].as_array().unwrap().len() as u64, THREADS, "{compiler}");
        let truth = (N * N * TIMES) as f64;
        for of in [a, b] {
            let [value, low, high] = estimate(&of["sum"]["loads"]);
            // An interval of 95 % misses now and then: by half of its width, that is one time in a thousand.
            let more = (high - low) / 2.0;
            assert!(low - more < truth && truth < high + more, "{compiler}: {low} to {high}");
            assert!((value / truth - 1.0).abs() < 0.6, "{compiler}: {value} of {truth}");
            assert_eq!(estimate(&of["sum"]["stores"]), [0.0; 3]);
        }
        // Of what bursts saw there `a` and `b` are as good as all, each a half.
        let in_region: f64 = all.iter().map(|of| of["sum"]["access_share"].as_f64().unwrap()).sum();
        assert!((a["sum"]["access_share"].as_f64().unwrap() / in_region - 0.5).abs() < 0.02, "{all:?}");
        // Nothing is told twice, nothing is left out.
        let process = &report["processes"][0];
        let regions = process["regions"].as_array().unwrap().iter();
        let exclusive = regions.flat_map(|row| row["exclusive_samples"].as_array().unwrap());
        let everywhere = exclusive.chain(process["outside_samples"].as_array().unwrap());
        let samples: u64 = everywhere.map(|of| of["sum"]["samples"].as_u64().unwrap()).sum();
        assert_eq!(samples, report["sampled"]["samples"].as_u64().unwrap());
    }
}

#[test]
fn children_have_regions_of_their_own_and_end_by_exit_of_both_libraries() {
    let directory = compiled("gcc", MATRIX, &["-fopenmp"]);
    recorded(directory.path(), &["-o", "child.data", "--", "./program", "child"]);
    let report = told(directory.path(), &["child.data", "--data", "a"]);
    let region = parallel(&report);
    assert!(region["sum"]["count"].as_u64() >= Some(TIMES * THREADS), "{region}");
    assert!(region["samples"][0]["sum"]["samples"].as_u64() > Some(5), "{region}");
    let output = Command::new(env!("CARGO_BIN_EXE_slimline"))
        .args(["report", "--by", "region", "child.data"])
        .current_dir(directory.path())
        .output()
        .unwrap();
    let said = text(&output.stdout);
    assert!(said.contains("parallel program.c:9 multiply") && said.contains("outside of regions"), "{said}");
    let output = regions(directory.path(), &["child.data", "--data", "nothing"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no data that samples or bursts met is called nothing: there is "));
    // Without any names the data that was met most is told.
    let chosen = told(directory.path(), &["child.data"])["sampled"]["chosen"].clone();
    assert!(chosen.as_array().unwrap().iter().any(|row| row["name"] == "a"), "{chosen}");
    // `_exit` was the end of the child for the agent, too.
    let info: Value =
        serde_json::from_slice(&fs::read(directory.path().join("child.data/session.json")).unwrap()).unwrap();
    let states: Vec<&Value> = info["processes"].as_array().unwrap().iter().map(|process| &process["state"]).collect();
    assert_eq!(states, ["exited", "exited"], "{info}");
}

#[test]
fn sessions_without_regions_say_so() {
    let directory = compiled("gcc", MATRIX, &["-fopenmp"]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_slimline"));
    let output = command.args(["record", "--", "./program"]).current_dir(directory.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    let output = regions(directory.path(), &["slimline.data"]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), ""));
    assert!(text(&output.stderr).contains("no regions were recorded, or none was met"), "{}", text(&output.stderr));
    let report = ["report", "--by", "region"];
    let output =
        Command::new(env!("CARGO_BIN_EXE_slimline")).args(report).current_dir(directory.path()).output().unwrap();
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), ""));
    assert!(text(&output.stderr).contains("no regions were recorded, or none was met"));
    let output = regions(directory.path(), &["slimline.data", "--machine", "host"]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), ""));
    assert!(text(&output.stderr).contains("samples are not simulated"), "{}", text(&output.stderr));
}

#[test]
fn programs_that_can_not_have_the_libraries_are_refused() {
    let directory = compiled("gcc", MATRIX, &["-fopenmp", "-static-pie"]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_slimline"));
    let output =
        command.args(["record", "--regions", "--", "./program"]).current_dir(directory.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("--regions: the program itself tells where its threads are"));
    assert!(!directory.path().join("slimline.data").exists());
}

#[test]
fn samples_from_outside_are_told_by_regions_too() {
    let directory = compiled("gcc", MATRIX, &["-fopenmp"]);
    recorded(directory.path(), &["--out-of-process", "-o", "outside.data", "--", "./program"]);
    let report = told(directory.path(), &["outside.data", "--data", "a"]);
    let samples = |of: &Value| of["sum"]["samples"].as_u64().unwrap();
    let all = report["sampled"]["samples"].as_u64().unwrap();
    let in_region: u64 = parallel(&report)["samples"].as_array().unwrap().iter().map(samples).sum();
    // Setting up the matrix is outside.
    assert!(in_region > all / 4 && in_region < all, "{in_region} of {all}");
    assert_eq!(parallel(&report)["samples"][0]["threads"].as_array().unwrap().len() as u64, THREADS, "{report}");
}

/// A region that a child leaves which its parent entered, and one that waits for nothing.
const FORKED: &str = r#"#include <sys/wait.h>
#include <unistd.h>
void slimline_region_begin(const char *) __attribute__((weak));
void slimline_region_end(void) __attribute__((weak));
static volatile double sink;
static void work(void) { for (long i = 0; i < 200000000; i++) sink += i; }
int main(void) {
    if (slimline_region_begin) slimline_region_begin("around");
    if (fork() == 0) {
        if (slimline_region_end) slimline_region_end();
        work();
        _exit(0);
    }
    wait(0);
    return 3;
}
"#;

#[test]
fn children_leave_regions_of_their_parents() {
    let directory = compiled("gcc", FORKED, &[]);
    recorded(directory.path(), &["--", "./program"]);
    let report = told(directory.path(), &["slimline.data"]);
    let child = report["processes"].as_array().unwrap().last().unwrap();
    let samples =
        |all: &Value| -> u64 { all.as_array().unwrap().iter().map(|of| of["sum"]["samples"].as_u64().unwrap()).sum() };
    assert!(samples(&child["outside_samples"]) > 20, "{child}");
    let inside: u64 = child["regions"].as_array().unwrap().iter().map(|row| samples(&row["samples"])).sum();
    assert!(inside < 5, "{child}");
}
