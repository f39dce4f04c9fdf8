//! Programs as they are, translated: every access of what was compiled without us.

mod heap;
mod stack;
mod untold;
mod values;

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use super::compiled::named;
use super::{report, slimline, text};

/// What it does is known in closed form: N is 1000.
const PROGRAM: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
enum { N = 1000 };
struct body { double x, y; float mass; int tag; };
static struct body bodies[N];
static long table[N], count;
static __attribute__((noinline)) double weigh(struct body *of, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += of[i].mass;
    return sum;
}
static __attribute__((noinline)) void fill(long *to, int n) { for (int i = 0; i < n; i++) to[i] = i; }
static void *add(void *unused) { for (int i = 0; i < N; i++) __atomic_fetch_add(&count, 1, __ATOMIC_SEQ_CST); return unused; }
int main(int argc, char **argv) {
    pthread_t threads[4];
    fill(table, N);
    for (int i = 0; i < N; i++) bodies[i].mass = argc;
    double sum = weigh(bodies, N);
    for (int i = 0; i < 4; i++) pthread_create(&threads[i], 0, add, 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
    if (argc > 1 && !strcmp(argv[1], "fork")) {
        pid_t child = fork();
        if (!child) { fill(table, N); _exit(0); }
        waitpid(child, 0, 0);
    }
    printf("%g %ld\n", sum, count);
    fflush(stdout);
    if (argc > 1 && !strcmp(argv[1], "crash")) *(volatile int *)0 = 1;
    return 3;
}
"#;

/// Whether the QEMU in `PATH` tells values by itself, as since 9.2. Such ones (10.0 and 10.2 were tried, where all else is of 7.2) do not tell 80-bit
/// numbers and what saves the processor's state any more, which is said.
fn is_newer() -> bool {
    let output = Command::new("qemu-x86_64").arg("--version").output().unwrap();
    let version = text(&output.stdout).split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    let mut numbers = version.unwrap_or_default().split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    (numbers.next(), numbers.next()) >= (Some(9), Some(2))
}

/// What is missing of a report, beside what a newer QEMU does not tell of any program: the dynamic linker saves the processor's state.
fn missing(report: &Value) -> Vec<String> {
    let all = report["missing"].as_array().unwrap().iter().map(|what| what.as_str().unwrap().to_owned());
    all.filter(|what| !(is_newer() && what.contains(" instructions that save or restore the processor's state ")))
        .collect()
}

fn built(scratch: &TempDir, options: &[&str]) -> std::path::PathBuf {
    let (source, program) = (scratch.path().join("program.c"), scratch.path().join("program"));
    std::fs::write(&source, PROGRAM).unwrap();
    let mut gcc = Command::new("gcc");
    let status = gcc.args(["-g", "-pthread"]).args(options).arg("-o").arg(&program).arg(&source).status();
    assert!(status.unwrap().success());
    program
}

fn translated(options: &[&str], program: &Path, arguments: &[&str]) -> Output {
    let mut command = slimline();
    command.args(["trace", "--collector", "translate"]).args(options).arg("--").arg(program).args(arguments);
    command.output().unwrap()
}

/// Loads and stores of a line of the program.
fn line(report: &Value, number: u32) -> (u64, u64) {
    let rows = report["lines"].as_array().unwrap().iter();
    let of_line =
        rows.filter(|row| row["name"].as_str().is_some_and(|name| name.ends_with(&format!("program.c:{number}"))));
    of_line.fold((0, 0), |(loads, stores), row| {
        (loads + row["loads"].as_u64().unwrap(), stores + row["stores"].as_u64().unwrap())
    })
}

#[test]
fn every_access_of_a_program_as_it_is() {
    for options in [&["-O1"][..], &["-O1", "-no-pie", "-fno-pie"], &["-O1", "-static"]] {
        let scratch = TempDir::new().unwrap();
        let program = built(&scratch, options);
        let live = translated(&["--live", "--format", "json", "--report", "-"], &program, &[]);
        assert_eq!(live.status.code(), Some(3), "{}", text(&live.stderr));
        let shown = text(&live.stdout).strip_prefix("1000 4000\n").unwrap();
        let live: Value = serde_json::from_str(shown).unwrap();
        let trace = scratch.path().join("trace");
        let recorded = translated(&["-o", trace.to_str().unwrap()], &program, &[]);
        assert_eq!(text(&recorded.stdout), "1000 4000\n");
        let replayed = slimline().args(["trace", "--format", "json", "--replay"]).arg(&trace).output().unwrap();
        for report in [live, report(&replayed)] {
            assert_eq!(named(&report["variables"], "table"), (0, 1000), "{options:?}");
            assert_eq!(named(&report["variables"], "bodies"), (1000, 1000));
            // Of what begins at a constant address the field is not found out, as stores are without -fPIE.
            assert_eq!(named(&report["fields"], "body.mass").0, 1000);
            // An update loads and stores; the end loads it once more.
            assert_eq!(named(&report["variables"], "count"), (4001, 4000));
            // Compilers may have the function return in that line, too, by a load.
            assert!((1000..=1001).contains(&line(&report, 13).0), "{}", report["lines"]);
            assert_eq!(line(&report, 16).1, 1000);
            assert_eq!(report["processes"][0]["threads"], 5);
            assert_eq!(report["processes"][0]["program"], program.canonicalize().unwrap().to_str().unwrap());
            // An instruction is one row, in however many blocks of code it is.
            let sites = report["sites"].as_array().unwrap();
            let weighs = |site: &&Value| site["line"] == 13 && site["field"] == "body.mass";
            let weighed: Vec<_> = sites.iter().filter(weighs).map(|site| &site["executions"]).collect();
            assert_eq!(weighed, [1000], "{options:?}");
            let missing = report["missing"].as_array().unwrap();
            assert!(missing.iter().all(|what| !what.as_str().unwrap().contains("no records")), "{missing:?}");
        }
    }
}

#[test]
fn what_crashes_and_what_is_forked_is_kept() {
    let scratch = TempDir::new().unwrap();
    let program = built(&scratch, &["-O1"]);
    let output = translated(&["--live", "--format", "json", "--report", "-"], &program, &["crash"]);
    let shown = text(&output.stdout).strip_prefix("2000 4000\n").unwrap();
    let crashed: Value = serde_json::from_str(shown).unwrap();
    assert_eq!((&crashed["end"]["signal"], named(&crashed["variables"], "table")), (&11.into(), (0, 1000)));
    let output = translated(&["--live", "--format", "json", "--report", "-"], &program, &["fork"]);
    let shown = text(&output.stdout).strip_prefix("2000 4000\n").unwrap();
    let forked: Value = serde_json::from_str(shown).unwrap();
    let processes = forked["processes"].as_array().unwrap();
    let program = program.canonicalize().unwrap();
    assert_eq!(processes.len(), 2);
    assert!(processes.iter().all(|process| process["program"] == program.to_str().unwrap()), "{processes:?}");
    assert_eq!(named(&forked["variables"], "table"), (0, 2000));
}

#[test]
fn a_qemu_that_can_t_is_told() {
    let scratch = TempDir::new().unwrap();
    let program = built(&scratch, &["-O1"]);
    for (qemu, said) in [
        ("/not/there", "slimline: /not/there: command not found\n"),
        ("/bin/true", "slimline: /bin/true: was built without plugins"),
    ] {
        let output = translated(&["--live", "--qemu", qemu], &program, &[]);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), ""));
        assert!(text(&output.stderr).starts_with(said), "{}", text(&output.stderr));
    }
    let output = slimline().args(["trace", "--live", "--qemu", "/bin/true", "--"]).arg(&program).output().unwrap();
    assert!(text(&output.stderr).starts_with("slimline: --qemu goes with --collector translate"));
}
