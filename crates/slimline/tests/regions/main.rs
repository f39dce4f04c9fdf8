//! `slimline regions`: programs of both compilers, and how it ends badly.

mod accesses;
mod directives;
mod sampled;

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// Each compiler with a runtime of its own.
const COMPILERS: [&str; 2] = ["gcc", "clang-19"];

/// A loop of 3 + 1 + 0 + 0 units of 20 ms, so that two threads wait; it ends as its argument says.
const UNEVEN: &str = r#"#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void slimline_region_begin(const char *) __attribute__((weak));
void slimline_region_end(void) __attribute__((weak));

int main(int argc, char **argv) {
    if (slimline_region_begin) slimline_region_begin("all of it");
#pragma omp parallel num_threads(4)
    {
#pragma omp for schedule(dynamic, 1)
        for (int i = 0; i < 4; i++) {
            usleep(i == 0 ? 60000 : i == 1 ? 20000 : 0);
        }
    }
    if (slimline_region_end) slimline_region_end();
    puts("done");
    fflush(stdout);
    if (argc > 1 && argv[1][0] == 'k') kill(getpid(), SIGTERM);
    return argc > 1 ? atoi(argv[1]) : 0;
}
"#;

fn compiled(compiler: &str, source: &str, flags: &[&str]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("program.c"), source).unwrap();
    let status = Command::new(compiler)
        .args(["-g", "-O1", "-fPIE", "-pie", "-o", "program", "program.c"])
        .args(flags)
        .current_dir(directory.path())
        .status()
        .unwrap_or_else(|error| panic!("{compiler}: {error}"));
    assert!(status.success());
    directory
}

fn regions(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slimline"));
    command.arg("regions").args(arguments).current_dir(directory).stdin(Stdio::null());
    // Who waits sleeps: two processors would be kept from those who work by threads that turn round.
    command.env("OMP_WAIT_POLICY", "passive").output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn programs_are_timed_and_end_as_they_do() {
    for compiler in COMPILERS {
        let directory = compiled(compiler, UNEVEN, &["-fopenmp"]);
        let arguments = ["--format", "json", "--report", "report", "-o", "kept", "--", "./program", "3"];
        let output = regions(directory.path(), &arguments);
        assert_eq!((output.status.code(), text(&output.stdout), text(&output.stderr)), (Some(3), "done\n", ""));
        let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
        let report: Value = serde_json::from_str(&read("report")).unwrap();
        assert_eq!((&report["schema"], &report["ended"]["status"]), (&2.into(), &3.into()));
        assert_eq!(report["command"], serde_json::json!(["./program", "3"]));
        let process = &report["processes"][0];
        assert_eq!(process["threads"], 4, "{compiler}");
        assert_eq!(process["counting"]["executions"], 9);
        let found = process["regions"].as_array().unwrap();
        let region = |kind: &str| found.iter().find(|row| row["kind"] == kind).unwrap();
        let place = |row: &Value| (row["file"].clone(), row["line"].clone(), row["function"].clone());
        let file = Value::from(directory.path().join("program.c").canonicalize().unwrap().to_str().unwrap());
        assert_eq!(place(region("parallel")), (file.clone(), 11.into(), "main".into()), "{compiler}");
        // gcc makes one call of the two.
        let of_loop = if compiler == "gcc" { 11 } else { 13 };
        assert_eq!(place(region("loop")), (file, of_loop.into(), "main".into()), "{compiler}");
        assert_eq!(region("user")["name"], "all of it");
        let looped = region("loop");
        let threads = looped["threads"].as_array().unwrap();
        assert_eq!((threads.len(), &looped["sum"]["count"]), (4, &4.into()));
        // Bodies sleep at least that long, and all wait for the longest.
        assert!(looped["sum"]["body_ns"].as_u64().unwrap() >= 80_000_000);
        // gcc combines the two barriers at the end of both.
        let waited = |row: &Value| row["sum"]["exit_barrier_ns"].as_u64().unwrap();
        assert!(waited(looped) + waited(region("parallel")) > 40_000_000, "{process}");
        assert!(process["overhead"]["imbalance"].as_f64().unwrap() > 0.1, "{process}");
        let graph = process["call_graph"].as_array().unwrap();
        let depths: Vec<_> = graph.iter().map(|row| row["depth"].as_u64().unwrap()).collect();
        assert_eq!(depths, [0, 1, 2]);
        // The same of what was kept, also where the program is gone.
        fs::remove_file(directory.path().join("program")).unwrap();
        let kept = regions(directory.path(), &["kept", "--format", "json"]);
        assert_eq!(text(&kept.stdout), read("report"));
        let compared = regions(directory.path(), &["kept", "--against", "kept", "--format", "json"]);
        let compared: Value = serde_json::from_slice(&compared.stdout).unwrap();
        let rows = compared["against"]["processes"][0]["regions"].as_array().unwrap();
        assert!(rows.len() == 3 && rows.iter().all(|row| row["then"] == row["now"] && !row["now"].is_null()));
        let csv = regions(directory.path(), &["kept", "--format", "csv"]);
        assert_eq!(text(&csv.stdout).lines().count(), 1 + 4 + 4 + 1);
        let page = regions(directory.path(), &["kept", "--format", "html"]);
        let page = text(&page.stdout);
        assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"), "{page}");
        assert_eq!(page.matches("<section class=\"region\"").count(), 3, "{page}");
    }
}

#[test]
fn signals_are_the_programs_own() {
    let directory = compiled("gcc", UNEVEN, &["-fopenmp"]);
    let output = regions(directory.path(), &["--", "./program", "k"]);
    assert_eq!((output.status.signal(), text(&output.stdout)), (Some(15), "done\n"));
    let report = text(&output.stderr);
    assert!(report.starts_with("Regions of ./program k, ended by SIGTERM\n"), "{report}");
    assert!(report.contains("loop") && report.contains(" program.c:1"), "{report}");
}

/// gcc's calls of libgomp have the line of what is before them.
#[test]
fn regions_lie_in_the_program_and_not_in_the_header() {
    const SOURCE: &str = r#"#include "slimline.h"
int main(void) {
    static int data[8];
    slimline_region_begin("around");
#pragma omp parallel for num_threads(2)
    for (int i = 0; i < 8; i++)
        data[i]++;
    slimline_region_end();
    return data[3] - 1;
}
"#;
    let directory = compiled("gcc", "int main(void) { return 0; }", &[]);
    fs::write(directory.path().join("slimline.h"), slimline_instrument::driver::HEADER).unwrap();
    fs::write(directory.path().join("program.c"), SOURCE).unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args(["-g", "-O2", "-fopenmp", "-o", "program", "program.c"]).current_dir(directory.path());
    assert!(gcc.status().unwrap().success());
    let output = regions(directory.path(), &["--format", "json", "--report", "-", "--", "./program"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let found = report["processes"][0]["regions"].as_array().unwrap();
    let parallel = found.iter().find(|row| row["kind"] == "parallel").unwrap();
    assert!(parallel["file"].as_str().unwrap().ends_with("/program.c"), "{parallel}");
    assert!(parallel["function"] == "main" && [4, 5].contains(&parallel["line"].as_u64().unwrap()), "{parallel}");
}

#[test]
fn what_sigkill_keeps_from_being_written_is_told() {
    let directory = compiled("gcc", "#include <signal.h>\nint main(void) { return raise(SIGKILL); }", &[]);
    let output = regions(directory.path(), &["--", "./program"]);
    assert_eq!((output.status.signal(), text(&output.stdout)), (Some(9), ""));
    let said = text(&output.stderr);
    assert!(said.starts_with("slimline: missing: regions of the command itself: SIGKILL ended it, "), "{said}");
}

#[test]
fn what_has_no_regions_is_told() {
    let directory = compiled("gcc", "int main(void) { return 0; }", &[]);
    let output = regions(directory.path(), &["-o", "kept", "--", "./program"]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), ""));
    assert!(text(&output.stderr).starts_with("slimline: no region was met: "), "{}", text(&output.stderr));
    assert!(!directory.path().join("kept").exists());
    let directory = compiled("gcc", "int main(void) { return 0; }", &["-static", "-no-pie"]);
    let output = regions(directory.path(), &["--", "./program"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("is statically linked"), "{}", text(&output.stderr));
}

#[test]
fn what_is_there_stays() {
    let directory = compiled("gcc", UNEVEN, &["-fopenmp"]);
    let path = |name: &str| directory.path().join(name);
    fs::write(path("notes"), "mine").unwrap();
    let run = |output: &str| regions(directory.path(), &["-o", output, "--", "./program"]);
    let output = run("notes");
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), ""));
    assert!(text(&output.stderr).contains("notes: is there already"), "{}", text(&output.stderr));
    assert_eq!(fs::read_to_string(path("notes")).unwrap(), "mine");
    assert_eq!(run("no/kept").status.code(), Some(2));
    for _ in 0..2 {
        assert_eq!(run("kept").status.code(), Some(0));
    }
    assert!(path("kept").is_file() && path("kept.old").is_file() && !path("kept.tmp").exists());
    let whole = fs::read(path("kept")).unwrap();
    fs::write(path("kept"), &whole[..whole.len() / 2]).unwrap();
    for input in ["kept", "notes", "missing"] {
        let output = regions(directory.path(), &[input]);
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && said.starts_with(&format!("slimline: {input}: ")), "{said}");
        assert_eq!(said.lines().count(), 1);
    }
}

/// Two functions that are called 3 and 6 times, and one that calls the second within itself; of each there are two of a name.
const CALLS: &str = r#"#include <stdio.h>
static volatile int sink;
__attribute__((noinline)) static void solve_rows(void) { sink++; }
__attribute__((noinline)) void solve_columns(void) { sink++; }
__attribute__((noinline)) int sum(int n) { solve_columns(); return n == 0 ? 0 : n + sum(n - 1); }
int main(void) {
    for (int i = 0; i < 3; i++)
        solve_rows();
    printf("%d\n", sum(5));
}
"#;

#[test]
fn functions_are_regions_by_their_names() {
    for compiler in COMPILERS {
        for flags in [&["-finstrument-functions"][..], &["-finstrument-functions", "-no-pie"]] {
            let directory = compiled(compiler, CALLS, flags);
            let counts = |names: &[&str]| {
                let arguments = [names, &["--format", "json", "--report", "report", "--", "./program"]].concat();
                let output = regions(directory.path(), &arguments);
                assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "15\n"), "{}", text(&output.stderr));
                let report: Value =
                    serde_json::from_slice(&fs::read(directory.path().join("report")).unwrap()).unwrap();
                let mut counts: Vec<(String, u64)> = report["processes"][0]["regions"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|row| (row["function"].as_str().unwrap().to_owned(), row["sum"]["count"].as_u64().unwrap()))
                    .collect();
                counts.sort_unstable();
                counts
            };
            let of = |name: &str, count| (name.to_owned(), count);
            assert_eq!(
                counts(&["--function", "solve_*"]),
                [of("solve_columns", 6), of("solve_rows", 3)],
                "{compiler} {flags:?}"
            );
            assert_eq!(counts(&["--function", "sum"]), [of("sum", 6)]);
            assert_eq!(
                counts(&[]),
                [of("main", 1), of("solve_columns", 6), of("solve_rows", 3), of("sum", 6)],
                "{compiler} {flags:?}"
            );
            let output = regions(directory.path(), &["--function", "solve", "--", "./program"]);
            assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), ""));
            assert!(text(&output.stderr).contains("has no function solve"), "{}", text(&output.stderr));
        }
    }
}
