//! Accesses of chosen data by region and thread: the paper's example, and each way to choose.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use super::{regions, text};

pub(super) const N: u64 = 480;
pub(super) const THREADS: u64 = 4;

/// The paper's Fig. 2 in C, which goes through rows; with an argument through columns. Then each thread loads elements 2 to 5 of nine,
/// which are watched, and again when they are not.
const MATRIX: &str = r#"#include <stdio.h>
#include <stdlib.h>
#define N 480
static double a[N][N], b[N], c[N];
void slimline_watch(const void *, size_t, const char *) __attribute__((weak));
void slimline_unwatch(const void *) __attribute__((weak));
__attribute__((noinline)) static double by_rows(void) {
#pragma omp parallel for num_threads(4)
    for (int i = 0; i < N; i++) {
        double sum = 0;
        for (int j = 0; j < N; j++)
            sum += a[i][j] * b[j];
        c[i] = sum;
    }
    return c[7];
}
__attribute__((noinline)) static double by_columns(void) {
#pragma omp parallel for num_threads(4)
    for (int j = 0; j < N; j++) {
        double sum = 0;
        for (int i = 0; i < N; i++)
            sum += a[i][j] * b[i];
        c[j] = sum;
    }
    return c[7];
}
static double *volatile nine;
static double both;
static void load(void) {
#pragma omp parallel num_threads(4)
    {
        const double *all = nine;
        double sum = 0;
        for (int i = 2; i < 6; i++)
            sum += all[i];
#pragma omp critical
        both += sum;
    }
}
int main(int argc, char **argv) {
    double *made = malloc(9 * sizeof *made);
    for (int i = 0; i < 9; i++)
        made[i] = i;
    nine = made;
    for (int i = 0; i < N; i++) {
        b[i] = i % 7;
        for (int j = 0; j < N; j++)
            a[i][j] = (i ^ j) % 5;
    }
    double sum = argc > 1 ? by_columns() : by_rows();
    if (slimline_watch)
        slimline_watch(made + 2, 4 * sizeof *made, "four of nine");
    load();
    if (slimline_unwatch) {
        slimline_unwatch(made + 2);
        slimline_unwatch(made);
    }
    load();
    printf("%g %g\n", sum, both);
}
"#;

/// Itanium 2 "Madison", the paper's: its lines are 128 bytes, and its last level is 3 MiB; here all is a sixteenth, as the matrix is smaller.
pub(super) const MACHINE: &str = r#"
name = "small Madison"
cores = 4
cache = [
    { name = "L2", level = 1, holds = "data", size = 16384, line = 128, ways = 8, latency = 5 },
    { name = "L3", level = 2, size = 98304, line = 128, ways = 12, latency = 14 },
]
memory = [{ name = "memory", latency = 200 }]
"#;

fn matrix(compiler: &[&str]) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("matrix.c"), MATRIX).unwrap();
    fs::write(directory.path().join("madison.toml"), MACHINE).unwrap();
    let mut command = match compiler {
        ["slimline", compiler] => {
            let mut command = Command::new(env!("CARGO_BIN_EXE_slimline"));
            command.arg(compiler);
            command
        }
        other => Command::new(other[0]),
    };
    let arguments = ["-g", "-O2", "-fopenmp", "-fPIE", "-pie", "-o", "matrix", "matrix.c"];
    let output = command.args(arguments).current_dir(directory.path()).output().unwrap();
    assert!(output.status.success(), "{compiler:?}: {}", text(&output.stderr));
    directory
}

pub(super) fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(&output.stderr)))
}

/// What a region has of data of that name: [TID, loads, stores, bytes, misses…] of each thread.
pub(super) fn of<'a>(report: &'a Value, region: &'a Value, name: &str) -> Option<&'a Value> {
    let chosen = report["data"]["chosen"].as_array().unwrap();
    let place = chosen.iter().position(|row| row["name"] == name);
    assert!(place.is_some() || name == "other data", "{name}: {chosen:?}");
    let all = region["accesses"].as_array().unwrap();
    all.iter().find(|row| row["chosen"].as_u64() == place.map(|place| place as u64))
}

pub(super) fn loads(accesses: &Value) -> Vec<u64> {
    accesses["threads"].as_array().unwrap().iter().map(|row| row[1]["loads"].as_u64().unwrap()).collect()
}

/// The region of a kind that was met first.
pub(super) fn region<'a>(report: &'a Value, kind: &str) -> &'a Value {
    let all = report["processes"][0]["regions"].as_array().unwrap();
    all.iter().filter(|row| row["kind"] == kind).min_by_key(|row| row["number"].as_u64()).unwrap()
}

/// Every thread loads its part of the matrix once, and nothing else is among that.
fn check_matrix(report: &Value, is_exact: bool) {
    let parallel = region(report, "parallel");
    let a = of(report, parallel, "a").unwrap();
    assert_eq!(a["sum"]["bytes"], N * N * 8);
    if is_exact {
        assert_eq!(loads(a), vec![N * N / THREADS; THREADS as usize]);
        assert_eq!(loads(of(report, parallel, "b").unwrap()), vec![N * N / THREADS; THREADS as usize]);
        assert_eq!(a["sum"]["loads"], N * N);
    }
    assert_eq!(a["sum"]["stores"], 0);
    let c = of(report, parallel, "c").unwrap();
    assert_eq!((&c["sum"]["stores"], &c["sum"]["loads"]), (&N.into(), &0.into()));
    assert_eq!(
        (&report["data"]["chosen"][0]["start_imprecision"], &report["data"]["chosen"][0]["bytes"]),
        (&0.into(), &(N * N * 8).into())
    );
    // What regions have without those within, and what is outside, is all that there is.
    let process = &report["processes"][0];
    let own =
        process["regions"].as_array().unwrap().iter().flat_map(|row| row["exclusive_accesses"].as_array().unwrap());
    let all = own.chain(process["outside_accesses"].as_array().unwrap());
    let of_a = all.filter(|row| row["chosen"] == 0).map(|row| row["sum"]["loads"].as_u64().unwrap()).sum::<u64>();
    assert_eq!(of_a, a["sum"]["loads"].as_u64().unwrap());
}

/// Each thread loads four watched elements, 32 bytes, once.
fn check_watched(report: &Value) {
    let all = report["processes"][0]["regions"].as_array().unwrap();
    let sums = all.iter().filter(|row| row["kind"] == "parallel").filter_map(|row| of(report, row, "four of nine"));
    let sums: Vec<&Value> = sums.map(|row| &row["sum"]["bytes"]).collect();
    assert_eq!(sums, [&Value::from(THREADS * 32)]);
    let chosen = report["data"]["chosen"].as_array().unwrap().iter().find(|row| row["by"] == "program").unwrap();
    assert_eq!((&chosen["bytes"], &chosen["pid"]), (&32.into(), &report["processes"][0]["pid"]));
    let missing = report["missing"].as_array().unwrap();
    assert!(
        missing.iter().any(|what| what.as_str().unwrap().ends_with("1 times slimline_unwatch of what is not watched")),
        "{missing:?}"
    );
}

const NAMES: [&str; 6] = ["--data", "a", "--data", "b", "--data", "c"];

#[test]
fn the_papers_example() {
    let directory = matrix(&["slimline", "cc"]);
    let run = |program: &[&str]| {
        let options = ["--machine", "madison.toml", "--format", "json", "--report", "-", "--"];
        // The program's own output is before the report.
        let output = regions(directory.path(), &[&NAMES[..], &options, program].concat());
        let said = text(&output.stdout).split_once('\n').unwrap_or_else(|| panic!("{}", text(&output.stderr)));
        assert!(output.status.success() && said.0.ends_with(" 112"), "{said:?}");
        serde_json::from_str::<Value>(said.1).unwrap()
    };
    let [by_rows, by_columns] = [run(&["./matrix"]), run(&["./matrix", "columns"])];
    for report in [&by_rows, &by_columns] {
        check_matrix(report, true);
        check_watched(report);
        assert_eq!(region(report, "loop")["accesses"][0]["sum"]["loads"], N * N);
    }
    // As the paper swaps its loops: 139,658,446 misses of the last level were 9,002,787.
    let misses = |report| of(report, region(report, "parallel"), "a").unwrap()["sum"]["misses"][1].as_u64().unwrap();
    let [few, many] = [misses(&by_rows), misses(&by_columns)];
    assert!(few.abs_diff(N * N * 8 / 128) < N && many > 10 * few, "{few} {many}");
}

fn traced(directory: &Path, collector: &[&str]) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slimline"));
    command.args(["trace", "--regions", "-o", "run.trace"]).args(collector).args(["--", "./matrix"]);
    command.current_dir(directory).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let own = format!("slimline-{}-", child.id());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    // Nothing stays of what it met the program by.
    for place in [Path::new("/dev/shm"), &std::env::temp_dir()] {
        let left = fs::read_dir(place).unwrap().flatten().map(|entry| entry.file_name());
        let left: Vec<_> = left.filter(|name| name.to_string_lossy().starts_with(&own)).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

#[test]
fn traces_are_told_by_regions() {
    let directory = matrix(&["slimline", "gcc"]);
    traced(directory.path(), &[]);
    let show = |arguments: &[&str]| regions(directory.path(), &[&["run.trace"], arguments].concat());
    let report = json(&show(&[&NAMES[..], &["--format", "json"]].concat()));
    check_matrix(&report, true);
    check_watched(&report);
    // The same memory by its address: halves of the matrix, one of them over the other.
    let start = report["data"]["chosen"][0]["start"].as_str().unwrap();
    let half = (N * N * 4).to_string();
    let quarter = u64::from_str_radix(&start[2..], 16).unwrap() + N * N * 2;
    let quarter = format!("{quarter:#x}");
    let by_address = ["--data-addr", start, "--data-size", &half, "--data-addr", &quarter, "--data-size", &half];
    let names = ["--data-name", "first half", "--data-name", "middle", "--format", "json"];
    let halves = json(&show(&[&by_address[..], &names].concat()));
    let parallel = region(&halves, "parallel");
    for name in ["first half", "middle"] {
        assert_eq!(of(&halves, parallel, name).unwrap()["sum"]["loads"], N * N / 2);
    }
    let other = of(&halves, parallel, "other data").unwrap()["sum"]["loads"].as_u64().unwrap();
    // A quarter is in neither; b is other data.
    assert!((N * N / 4 + N * N..N * N / 4 + N * N + 1000).contains(&other), "{other}");
    // The same by variables.
    let mut command = Command::new(env!("CARGO_BIN_EXE_slimline"));
    let variables = [("SLIMLINE_DATA_ADDR", start), ("SLIMLINE_DATA_SIZE", &half), ("SLIMLINE_DATA_NAME", "half")];
    let output =
        command.args(["regions", "run.trace", "--format", "csv"]).envs(variables).current_dir(directory.path());
    let output = output.output().unwrap();
    let csv = text(&output.stdout);
    let line = csv
        .lines()
        .find(|line| line.contains(",parallel,") && line.contains(",half,with,"))
        .unwrap_or_else(|| panic!("{csv}"));
    assert!(
        csv.starts_with(
            "pid,region,kind,name,function,file,line,last_line,part,thread,data,within,loads,stores,bytes,"
        ),
        "{csv}"
    );
    assert!(line.contains(",by_rows,"), "{line}");
    // For people.
    let output = show(&["--data", "a"]);
    let said = text(&output.stdout);
    assert!(
        said.contains("four of nine") && said.contains("watched by process") && said.contains("other data"),
        "{said}"
    );
    assert!(said.lines().all(|line| line.chars().count() <= 100), "{said}");
}

#[test]
fn translated_programs_are_told_by_regions() {
    for compiler in ["gcc", "clang-19"] {
        let directory = matrix(&[compiler]);
        traced(directory.path(), &["--collector", "translate"]);
        let output = regions(directory.path(), &[&["run.trace", "--format", "json"], &NAMES[..]].concat());
        let report = json(&output);
        // Vectors are one access; libraries have data of their own.
        check_matrix(&report, false);
        check_watched(&report);
        assert_eq!(region(&report, "parallel")["function"], "by_rows");
        assert!(report["processes"][0]["program"].as_str().unwrap().ends_with("/matrix"));
    }
}

#[test]
fn what_was_asked_for_wrongly_is_told() {
    let directory = matrix(&["slimline", "cc"]);
    traced(directory.path(), &[]);
    let code = || {
        let kept = fs::read_to_string(directory.path().join("run.trace/regions")).unwrap();
        let line = kept
            .lines()
            .find(|line| line.starts_with("map") && line.contains(" x ") && line.ends_with("/matrix"))
            .unwrap();
        format!("0x{}", line.split(' ').nth(1).unwrap())
    };
    let code = code();
    let cases: [(&[&str], &str); 6] = [
        (&["--data", "nothing"], "no data that was accessed is called nothing: there is a, b, both, c, "),
        (&["--data-addr", "0x1000"], "--data-addr and --data-size go together: there are 1 and 0"),
        (&["--data-addr", "0x1000", "--data-size", "0"], "invalid value '0' for '--data-size"),
        (&["--data-addr", "here", "--data-size", "8"], "not an address"),
        (&["--data-addr", "0xffffffffffffffff", "--data-size", "8"], "beyond all memory"),
        (&["--data-size", "8", "--data-name", "x"], "go together: there are 0 and 1"),
    ];
    for (arguments, expected) in cases {
        let output = regions(directory.path(), &[&["run.trace"], arguments].concat());
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(expected), "{arguments:?}: {said}");
        assert_eq!(text(&output.stdout), "");
    }
    let output =
        regions(directory.path(), &["run.trace", "--data-addr", &code, "--data-size", "64", "--data-name", "f"]);
    let said = text(&output.stdout);
    assert!(said.contains("Missing: f: in process") && said.contains("not data alone"), "{said}");
}

#[test]
fn a_variable_in_two_files_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let part = |name: &str| {
        format!("static long grid[64];\nlong {name}(long i) {{ grid[i & 63] += i; return grid[(i + 1) & 63]; }}\n")
    };
    for name in ["one", "two"] {
        fs::write(directory.path().join(name).with_extension("c"), part(name)).unwrap();
    }
    let main = "long one(long), two(long);\nint main(int c, char **v) { long s = 0; for (int i = 0; i < 100; i++) s += one(i) + two(i); return s == c; }\n";
    fs::write(directory.path().join("main.c"), main).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_slimline"));
    let arguments = ["cc", "-O1", "-o", "program", "main.c", "one.c", "two.c"];
    assert!(command.args(arguments).current_dir(directory.path()).status().unwrap().success());
    let run = |name: &str| {
        let arguments = ["--data", name, "--format", "json", "--report", "-", "--", "./program"];
        regions(directory.path(), &arguments)
    };
    let output = run("grid");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("grid: is a variable in "), "{}", text(&output.stderr));
    assert!(text(&output.stderr).trim_end().ends_with(": one.c:grid names one"), "{}", text(&output.stderr));
    // The program has run: what else there is, is told.
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["missing"].as_array().unwrap().len(), 1, "{report}");
    let report = json(&run("one.c:grid"));
    let outside = &report["processes"][0]["outside_accesses"];
    assert_eq!((&outside[0]["chosen"], &outside[0]["sum"]["loads"]), (&0.into(), &200.into()), "{outside}");
}

/// Particles by their cells: each thread looks at every particle once for each of its five cells.
const PARTICLES: &str = r#"#include <stdio.h>
#include <stdlib.h>
struct particle { double x, y, mass; int cell; };
struct cell { int first, count; double mass; };
int main(void) {
    enum { N = 1000, C = 10 };
    struct particle *all = malloc(N * sizeof *all);
    struct cell *cells = calloc(C, sizeof *cells);
    for (int i = 0; i < N; i++)
        all[i] = (struct particle) { i, -i, 1 + i % 3, i % C };
#pragma omp parallel for num_threads(2)
    for (int c = 0; c < C; c++)
        for (int i = 0; i < N; i++)
            if (all[i].cell == c) {
                cells[c].mass += all[i].mass;
                cells[c].count++;
            }
    printf("%g\n", cells[3].mass);
}
"#;

#[test]
fn types_members_and_allocations_are_chosen_by_name() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("particles.c"), PARTICLES).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_slimline"));
    let arguments = ["cc", "-O1", "-fopenmp", "-o", "program", "particles.c"];
    assert!(command.args(arguments).current_dir(directory.path()).status().unwrap().success());
    let names = ["particle", "particle.mass", "particles.c:7", "cell*", "cell.mass"];
    let asked = names.iter().flat_map(|name| ["--data", name]);
    let options = ["--format", "json", "--report", "report", "--", "./program"];
    let output = regions(directory.path(), &asked.chain(options).collect::<Vec<_>>());
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "199\n"), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&fs::read(directory.path().join("report")).unwrap()).unwrap();
    let parallel = region(&report, "parallel");
    let counts = |name| {
        let sum = &of(&report, parallel, name).unwrap()["sum"];
        (sum["loads"].as_u64().unwrap(), sum["stores"].as_u64().unwrap())
    };
    // A cell of 10 × 1000 particles, and the mass of the 1000 that are in it; then a mass and a count.
    assert_eq!(names.map(counts), [(11_000, 0), (1_000, 0), (11_000, 0), (2_000, 2_000), (1_000, 1_000)]);
    assert_eq!(loads(of(&report, parallel, "particle").unwrap()), [5_500, 5_500]);
}

/// A forked child goes through what its parent watches; it ends a region that has not begun.
const FORKED: &str = r#"#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
void slimline_watch(const void *, size_t, const char *) __attribute__((weak));
void slimline_region_begin(const char *) __attribute__((weak));
void slimline_region_end(void) __attribute__((weak));
int main(void) {
    volatile double *seven = calloc(7, sizeof *seven);
    if (slimline_watch) slimline_watch((void *)seven, 7 * sizeof *seven, "seven");
    if (fork() == 0) {
        double sum = seven[0];
        if (slimline_region_begin) slimline_region_begin("child");
        for (int i = 1; i < 7; i++) sum += seven[i];
        if (slimline_region_end) { slimline_region_end(); slimline_region_end(); }
        return sum > 0;
    }
    int status;
    wait(&status);
    return status;
}
"#;

#[test]
fn forked_children_know_what_is_watched() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("forked.c"), FORKED).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_slimline"));
    let arguments = ["cc", "-O1", "-o", "program", "forked.c"];
    assert!(command.args(arguments).current_dir(directory.path()).status().unwrap().success());
    for collector in [&[][..], &["--collector", "translate"]] {
        let options = ["--live", "--format", "json", "--report", "-"];
        let output = regions(directory.path(), &[collector, &options, &["--", "./program"]].concat());
        let report = json(&output);
        let chosen = report["data"]["chosen"].as_array().unwrap();
        let processes = report["processes"].as_array().unwrap();
        let child = processes.iter().find(|process| process["regions"] != serde_json::json!([])).expect("a region");
        let seven = chosen.iter().position(|row| row["pid"] == child["pid"]).expect("watched by the child");
        let of_seven = |all: &Value| {
            let row = all.as_array().unwrap().iter().find(|row| row["chosen"] == seven).unwrap().clone();
            (row["threads"][0][0].clone(), row["sum"]["loads"].clone())
        };
        assert_eq!(of_seven(&child["outside_accesses"]), (0.into(), 1.into()), "{child}");
        assert_eq!(of_seven(&child["regions"][0]["accesses"]), (0.into(), 6.into()), "{child}");
        let missing = format!("process {}: 1 times slimline_region_end where no region had begun", child["pid"]);
        assert!(report["missing"].as_array().unwrap().contains(&missing.into()), "{}", report["missing"]);
    }
}
