//! What is said of what a translator can't tell.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use super::translated;
use crate::compiled::named;
use crate::text;

fn built(scratch: &TempDir, source: &str, options: &[&str]) -> PathBuf {
    let (file, program) = (scratch.path().join("program.c"), scratch.path().join("program"));
    std::fs::write(&file, source).unwrap();
    let status = Command::new("gcc").args(options).arg("-o").arg(&program).arg(&file).status();
    assert!(status.unwrap().success());
    program
}

/// QEMU 7.2, with which this is tested, tells accesses to numbers of 80 bits: there is nothing to say.
#[test]
fn numbers_of_80_bits_are_told() {
    const SOURCE: &str = r#"
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile long double number;
static void work(void) { for (int i = 0; i < 1000; i++) number = number + i; }
int main(void) {
    work();
    if (fork() == 0) { work(); _exit(0); }
    wait(0);
    printf("%Lg\n", number);
    return 0;
}
"#;
    let scratch = TempDir::new().unwrap();
    let program = built(&scratch, SOURCE, &["-g", "-O1"]);
    let output = translated(&["--live", "--format", "json", "--report", "-"], &program, &[]);
    let shown = text(&output.stdout).strip_prefix("499500\n").unwrap();
    let report: Value = serde_json::from_str(shown).unwrap();
    assert_eq!(named(&report["variables"], "number"), (2001, 2000));
    assert_eq!(report["missing"], Value::Array(Vec::new()));
    let trace = scratch.path().join("trace");
    let recorded = translated(&["-o", trace.to_str().unwrap()], &program, &[]);
    assert!(!text(&recorded.stderr).contains("missing"), "{}", text(&recorded.stderr));
}
