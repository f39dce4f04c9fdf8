//! Traces of instrumented programs through simulated machines: programs whose misses are known in closed form.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use slimline_instrument::driver::{Language, compile};
use slimline_instrument::rewrite::OwnAllocators;

/// Neither vectors nor copies of loop bodies: one access each in the source is one in the code.
const SCALAR: [&str; 6] =
    ["-O2", "-fno-vectorize", "-fno-slp-vectorize", "-fno-unroll-loops", "-fno-builtin", "-pthread"];

/// 32 lines beside the core, 1024 behind, all of one set.
const FULL: &str = r#"
name = "full"
cache = [
    { name = "L1", level = 1, holds = "data", size = 2048, line = 64, ways = "full", latency = 1 },
    { name = "L2", level = 2, size = 65536, line = 64, ways = "full", latency = 10 },
]
memory = [{ name = "memory", latency = 100 }]
"#;

/// Each thread of a program of four has a core of its own.
const FOUR: &str = r#"
name = "four"
cores = 4
cache = [{ name = "L1", level = 1, holds = "data", size = 2048, line = 64, ways = "full", latency = 1 }]
memory = [{ name = "memory", latency = 100 }]
"#;

/// 512 lines by rows, then by columns; the sums are on the heap.
pub(crate) const GRID: &str = r#"
#include <stdlib.h>
enum { N = 64 };
double grid[N][N] __attribute__((aligned(64)));
__attribute__((noinline)) static void rows(double *sums) {
    for (int i = 0; i < N; i++) {
        double sum = 0;
        for (int j = 0; j < N; j++)
            sum += grid[i][j]; // line 9
        sums[i] = sum;
    }
}
__attribute__((noinline)) static void columns(double *sums) {
    for (int j = 0; j < N; j++) {
        double sum = 0;
        for (int i = 0; i < N; i++)
            sum += grid[i][j]; // line 17
        sums[j] = sum;
    }
}
int main(void) {
    double *sums = aligned_alloc(64, N * sizeof *sums);
    rows(sums);
    columns(sums);
    free(sums);
    return 0;
}
"#;

/// Compiles and traces a program; the directory that holds the trace, `run.trace`.
pub(crate) fn traced(source: &str) -> tempfile::TempDir {
    traced_with(source, &[])
}

/// The same of a program that tells what it loads and stores.
pub(crate) fn traced_with_values(source: &str) -> tempfile::TempDir {
    traced_so(source, &["--slimline-values"])
}

/// The same of a program that is compiled with these options.
pub(crate) fn traced_so(source: &str, options: &[&str]) -> tempfile::TempDir {
    compiled_and_traced(source, options, &[])
}

/// The same of a program that takes arguments.
pub(crate) fn traced_with(source: &str, arguments: &[&str]) -> tempfile::TempDir {
    compiled_and_traced(source, &[], arguments)
}

fn compiled_and_traced(source: &str, options: &[&str], arguments: &[&str]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let (file, program) = (directory.path().join("program.c"), directory.path().join("program"));
    fs::write(&file, source).unwrap();
    fs::write(directory.path().join("truth.h"), include_str!("../../../../programs/c/truth.h")).unwrap();
    let mut all: Vec<OsString> = options.iter().chain(&SCALAR).map(OsString::from).collect();
    all.extend(["-o".into(), program.into(), file.into()]);
    assert_eq!(compile(Language::C, &all, slimline_collect::RUNTIME, OwnAllocators::default()).unwrap(), 0);
    let trace = ["trace", "-o", "run.trace", "--", "./program"];
    let output = slimline(directory.path(), &[&trace, arguments].concat());
    assert!(!output.contains("Missing"), "{output}");
    for (name, text) in [("full.toml", FULL), ("four.toml", FOUR)] {
        fs::write(directory.path().join(name), text).unwrap();
    }
    directory
}

/// What it says on standard output.
pub(crate) fn slimline(directory: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slimline"));
    let output = command.args(arguments).current_dir(directory).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// What it says where it fails, in one line.
pub(crate) fn failed(directory: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slimline"));
    let output = command.args(arguments).current_dir(directory).stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

pub(crate) fn json(directory: &Path, arguments: &[&str]) -> Value {
    // Before a command.
    let (command, rest) = arguments.split_at(1);
    serde_json::from_str(&slimline(directory, &[command, &["--format", "json"], rest].concat())).unwrap()
}

/// The row of this name.
pub(crate) fn named<'a>(rows: &'a Value, name: &str) -> &'a Value {
    let row = rows.as_array().unwrap().iter().find(|row| row["name"] == name);
    row.unwrap_or_else(|| panic!("no {name} in {rows}"))
}

fn misses(row: &Value) -> Vec<u64> {
    row["caches"].as_array().unwrap().iter().map(|cache| cache["misses"].as_u64().unwrap()).collect()
}

/// Taking a number out of a vector was told as an argument that nobody traces.
#[test]
fn numbers_of_vectors_are_traced() {
    let directory = traced(
        "typedef double pair __attribute__((vector_size(16)));\npair pairs[8];\nint main(int count, char **arguments) {\n\
        double sum = 0;\n for (int i = 0; i < 8; i++) { pair at = pairs[i] * count; sum += at[0] - at[count & 1]; }\n\
        return sum > 1 || !arguments;\n}",
    );
    let text = slimline(directory.path(), &["trace", "--replay", "run.trace"]);
    assert!(text.contains("8 loads") && !text.contains("Missing"), "{text}");
}

#[test]
fn a_walk_by_columns_misses_as_its_closed_form_says() {
    let directory = traced(GRID);
    let report = json(
        directory.path(),
        &["simulate", "run.trace", "--machine", "full.toml", "--used-bytes", "--machine", "host"],
    );
    assert_eq!(report["trace"]["missing"], Value::Array(Vec::new()));
    assert_eq!((&report["trace"]["format"], &report["trace"]["threads"]), (&"trace".into(), &1.into()));
    let by = &report["machines"][0]["by"];
    // Rows miss each line once; columns each access, as 64 lines and the sum's do not fit.
    let grid = named(&by["data"], "grid");
    assert_eq!(
        (&grid["kind"], &grid["accesses"], misses(grid)),
        (&"static".into(), &8192.into(), vec![512 + 4096, 512])
    );
    assert_eq!(grid["cycles"], (4096 - 512) + 512 * 100 + 4096 * 10);
    assert_eq!(grid["used"]["used_bytes"], 512 * 64 + 4096 * 8);
    // The line of a sum stays while a row is gone through, not while a column is.
    let sums = named(&by["data"], "sums");
    assert_eq!((&sums["kind"], &sums["stores"], misses(sums)), (&"heap".into(), &128.into(), vec![8 + 64, 8]));
    // Stored to once by the rows, and once by the columns, whose last line stays; the second level has room for all of it.
    assert_eq!((&sums["caches"][0]["write_backs"], &sums["memory_writes"]), (&(8 + 64 - 1).into(), &0.into()));
    assert_eq!(grid["caches"][0]["write_backs"], 0);
    assert_eq!((&sums["allocated_at"]["line"], &sums["peak_bytes"]), (&22.into(), &512.into()));
    assert_eq!(misses(named(&by["functions"], "columns")), [4096 + 64, 0]);
    let line = by["lines"].as_array().unwrap().iter().find(|row| row["name"].as_str().unwrap().ends_with(":17"));
    assert_eq!(misses(line.unwrap()), [4096, 0]);
    for cut in ["data", "fields", "functions", "lines", "threads"] {
        let rows = by[cut].as_array().unwrap();
        let sum: f64 = rows.iter().map(|row| row["share"].as_f64().unwrap()).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{cut}: {sum}");
        let accesses: u64 = rows.iter().map(|row| row["accesses"].as_u64().unwrap()).sum();
        assert_eq!(accesses, 8192 + 128, "{cut}");
    }
    assert_eq!(report["machines"][1]["by"]["data"].as_array().unwrap().len(), 2);

    let csv = slimline(directory.path(), &["simulate", "run.trace", "--machine", "full.toml", "--format", "csv"]);
    let rows: Vec<&str> = csv.lines().collect();
    assert_eq!(rows[0], "machine,cache,variable,file,line,accesses,misses,write_backs");
    assert!(rows[1].starts_with("full,L1,grid,") && rows[1].ends_with("program.c,9,4096,512,0"), "{csv}");
    assert!(rows[2].starts_with("full,L2,grid,") && rows[2].ends_with("program.c,9,4096,512,0"), "{csv}");
    assert!(rows.iter().any(|row| row.ends_with("program.c,17,4096,4096,0")), "{csv}");
    let text = slimline(directory.path(), &["simulate", "run.trace", "--machine", "full.toml", "--classes"]);
    assert!(text.contains("\nBy data: ") && text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

/// A C program of three threads that each execute a statement 100,000 times, of their number `self`.
pub(crate) fn by_three_threads(declaration: &str, statement: &str) -> String {
    let threads = r#"
#include <pthread.h>
static pthread_barrier_t barrier;
static void *begin(void *self) {
    // So that none has ended before another begins.
    for (int round = 0; round < 100; round++) {
        pthread_barrier_wait(&barrier);
        work((long)self);
    }
    return NULL;
}
int main(void) {
    pthread_t threads[3];
    pthread_barrier_init(&barrier, NULL, 3);
    for (long i = 0; i < 3; i++) pthread_create(&threads[i], NULL, begin, (void *)i);
    for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
    return 0;
}
"#;
    // In front, so that the statement is on a line that is known.
    format!(
        "{declaration}\n__attribute__((noinline)) static void work(long self) {{\n\
         for (int i = 0; i < 1000; i++) {statement};\n}}\n{threads}"
    )
}

/// Threads that count in one line.
pub(crate) fn counters() -> String {
    by_three_threads(
        "static struct { volatile long count[4]; } packed __attribute__((aligned(64)));",
        "packed.count[self]++",
    )
}

#[test]
fn threads_have_cores_of_their_own_and_take_lines_from_each_other() {
    let directory = traced(&counters());
    let report = json(directory.path(), &["simulate", "run.trace", "--machine", "four.toml"]);
    let by = &report["machines"][0]["by"];
    let work = named(&by["functions"], "work");
    assert_eq!((&work["loads"], &work["stores"]), (&300_000.into(), &300_000.into()));
    // Each counts in bytes of its own.
    let classes = &work["caches"][0]["classes"];
    assert_eq!(classes["coherence_true"], 0);
    assert!(classes["coherence_false"].as_u64().unwrap() > 150, "{classes}");
    let of_threads: Vec<u64> =
        by["threads"].as_array().unwrap().iter().map(|row| row["stores"].as_u64().unwrap()).collect();
    assert_eq!(of_threads.iter().filter(|&&stores| stores == 100_000).count(), 3, "{of_threads:?}");
}
