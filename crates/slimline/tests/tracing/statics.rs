//! Static variables are told by where accesses go, whatever the pointer is called that they go by.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use super::compiled::{compiled_with, named};
use super::{report, slimline, text};

/// Arrays that functions are given; a counter beside another one, in the same sixteen bytes; two variables of one name; what the optimizer
/// takes apart; what is on the stack.
const PROGRAM: &str = r#"
#include <stdio.h>
static long hot[1000], cold[1000];
static int left, right;
static struct { long sum; long padding; long most; } totals;
__attribute__((noinline)) static long total(volatile long *values, int n) {
    long sum = 0;
    for (int i = 0; i < n; i++) sum += values[i];
    return sum;
}
__attribute__((noinline)) static void bump(volatile int *counter, int n) {
    for (int i = 0; i < n; i++) ++*counter;
}
__attribute__((noinline)) static long first(void) { static long calls; return total(&calls, 1); }
__attribute__((noinline)) static long second(void) { static long calls; return total(&calls, 1); }
int main(int argc, char **argv) {
    volatile long local[4] = {0};
    hot[argc] = argc;
    long sum = 0;
    for (int i = 0; i < 5; i++) { sum += total(hot, 1000); totals.sum += argc; if (totals.most < argc) totals.most = argc; }
    sum += total(cold, 1000) + total(local, 4);
    bump(&left, 30);
    bump(&right, 20);
    sum += first() + second();
    printf("%ld %d\n", sum + totals.sum + totals.most, left + right);
}
"#;

fn json(arguments: &[&str], program: &Path) -> Value {
    let output = slimline().args(arguments).arg("--").arg(program).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let shown = text(if output.stderr.is_empty() { &output.stdout } else { &output.stderr });
    serde_json::from_str(&shown[shown.find('{').unwrap()..]).unwrap()
}

fn loads(report: &Value, name: &str) -> u64 {
    named(&report["variables"], name).0
}

#[test]
fn whatever_they_are_accessed_by() {
    for options in [&["-fPIE", "-pie"], &["-fno-pie", "-no-pie"], &["-fuse-ld=gold", "-pie"]] {
        let scratch = TempDir::new().unwrap();
        let program = compiled_with(&scratch, PROGRAM, options);
        let live = json(&["trace", "--live", "--format", "json"], &program);
        let trace = scratch.path().join("trace");
        let recorded = slimline().arg("trace").arg("-o").arg(&trace).arg("--").arg(&program).output().unwrap();
        assert!(recorded.status.success());
        // What the trace says needs the program no more.
        std::fs::remove_file(&program).unwrap();
        let replayed = slimline().args(["trace", "--format", "json", "--replay"]).arg(&trace).output().unwrap();
        for report in [live, report(&replayed)] {
            assert_eq!(named(&report["variables"], "hot"), (5000, 1));
            assert_eq!(named(&report["variables"], "cold"), (1000, 0));
            assert_eq!(
                (named(&report["variables"], "left"), named(&report["variables"], "right")),
                ((31, 30), (21, 20))
            );
            // What is nowhere known is by the name that it goes by.
            assert_eq!(loads(&report, "values"), 4);
            let calls: Vec<&str> = report["variables"]
                .as_array()
                .unwrap()
                .iter()
                .filter_map(|row| row["name"].as_str())
                .filter(|name| name.contains("calls"))
                .collect();
            let [first, second] = calls.as_slice() else { panic!("{calls:?}") };
            assert!(first.ends_with("program.c:14)") && second.ends_with("program.c:15)"), "{calls:?}");
            // Its parts are as far apart as they want.
            assert!(loads(&report, "totals") > 0, "{}", report["variables"]);
            assert_eq!((&report["heap"], &report["processes"][0]["threads"]), (&Value::Array(Vec::new()), &1.into()));
        }
        let simulated = slimline().args(["simulate", "--format", "json"]).arg(&trace).output().unwrap();
        let simulated = report(&simulated);
        let data = simulated["machines"][0]["by"]["data"].as_array().unwrap();
        let hot = data.iter().find(|row| row["name"] == "hot").unwrap();
        assert_eq!((&hot["kind"], &hot["declared_at"]["line"]), (&"static".into(), &3.into()));
        assert_eq!((&hot["loads"], &hot["peak_bytes"]), (&5000.into(), &8000.into()));
        assert_eq!(&simulated["trace"]["threads"], &1);
    }
}

#[test]
fn without_symbols_by_the_pointer() {
    let scratch = TempDir::new().unwrap();
    let program = compiled_with(&scratch, PROGRAM, &[]);
    // What is asked for is what is accessed, not what it is called there.
    let report = json(&["trace", "--live", "--format", "json", "--variable", "cold"], &program);
    assert_eq!((&report["total"]["loads"], &report["functions"][0]["name"]), (&1000.into(), &"total".into()));
    let report = json(&["trace", "--live", "--format", "json", "--variable", "values"], &program);
    assert_eq!(report["total"]["loads"], 4);
    let output = slimline().args(["trace", "--live", "--variable", "cool", "--"]).arg(&program).output().unwrap();
    assert!(
        text(&output.stderr).contains("--variable cool: no variable with accesses has that name; there are cold, ")
    );
    assert!(Command::new("strip").arg(&program).status().unwrap().success());
    let report = json(&["trace", "--live", "--format", "json"], &program);
    assert_eq!(loads(&report, "values"), 6006);
}

/// Those of a library that is loaded later, and loaded again elsewhere.
#[test]
fn of_libraries_that_are_loaded() {
    const LIBRARY: &str = "
        static volatile long inside[100];
        __attribute__((noinline)) static long total(volatile long *values) {
            long sum = 0;
            for (int i = 0; i < 100; i++) sum += values[i];
            return sum;
        }
        long library(void) { return total(inside); }";
    const LOADER: &str = r#"
        #include <dlfcn.h>
        #include <sys/mman.h>
        int main(int argc, char **argv) {
            for (int i = 0; i < 2; i++) {
                void *library = dlopen(argv[1], RTLD_NOW);
                if (!library) return 1;
                ((long (*)(void))dlsym(library, "library"))();
                dlclose(library);
                mmap(0, 1 << 16, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            }
        }"#;
    let [scratch, beside] = [TempDir::new().unwrap(), TempDir::new().unwrap()];
    let library = compiled_with(&beside, LIBRARY, &["-shared", "-fPIC"]);
    let program = compiled_with(&scratch, LOADER, &["-ldl"]);
    let output =
        slimline().args(["trace", "--live", "--format", "json", "--"]).arg(&program).arg(&library).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(loads(&report(&output), "inside"), 200);
}
