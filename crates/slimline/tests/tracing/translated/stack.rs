//! Variables on the stack, which debug information names where they are in scope.

use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use super::translated;
use crate::compiled::{compiled_with, named};
use crate::{slimline, text};

const PROGRAM: &str = r#"
#include <stdio.h>
struct pair { int a; long b; };
__attribute__((noinline)) static long local(int n) {
    long table[64];
    struct pair pairs[8];
    volatile int scalar = 0;
    for (int i = 0; i < 64; i++) table[i] = i;
    for (int i = 0; i < n; i++) { table[i & 63] += i; pairs[i & 7].a = i; pairs[i & 7].b = i; scalar++; }
    long sum = 0;
    { volatile long inner = 3; for (int i = 0; i < 64; i++) sum += table[i] * inner; }
    { volatile long other = 4; for (int i = 0; i < 8; i++) sum += pairs[i].b + pairs[i].a + other; }
    return sum + scalar;
}
__attribute__((noinline)) static void through(long *to, int n) { for (int i = 0; i < n; i++) to[i] = i; }
__attribute__((noinline)) static long taken(void) {
    volatile long own[32];
    through((long *)own, 32);
    return own[3] + own[7];
}
int main(void) {
    printf("%ld\n", local(1000) + taken());
    return 0;
}
"#;

/// By their scope, also where two have one place; what goes by a pointer has the pointer's name. As instrumented programs tell it.
#[test]
fn variables_of_the_stack_have_their_names() {
    let scratch = TempDir::new().unwrap();
    let (file, program) = (scratch.path().join("as_it_is.c"), scratch.path().join("as_it_is"));
    std::fs::write(&file, PROGRAM).unwrap();
    let status = Command::new("gcc").args(["-g", "-O1", "-o"]).arg(&program).arg(&file).status();
    assert!(status.unwrap().success());
    let options = ["--live", "--format", "json", "--report", "-"];
    let run = translated(&options, &program, &[]);
    let instrumented = compiled_with(&scratch, PROGRAM, &["-g"]);
    let other = slimline().arg("trace").args(options).arg("--").arg(instrumented).output().unwrap();
    for output in [run, other] {
        let (_, shown) = text(&output.stdout).split_once('\n').unwrap();
        let report: Value = serde_json::from_str(shown).unwrap();
        let variables = &report["variables"];
        for (name, expected) in [
            ("table", (1064, 1064)),
            ("pairs", (16, 2000)),
            ("scalar", (1001, 1001)),
            ("inner", (64, 1)),
            ("other", (8, 1)),
            ("own", (2, 0)),
        ] {
            assert_eq!(named(variables, name), expected, "{name}: {variables}");
        }
        assert_eq!(named(&report["fields"], "pair.a"), (8, 1000));
    }
}
