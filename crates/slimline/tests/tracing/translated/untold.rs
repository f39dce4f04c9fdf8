//! What is said of what a translator can't tell.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use super::{is_newer, missing, translated};
use crate::compiled::named;
use crate::text;

fn built(scratch: &TempDir, source: &str, options: &[&str]) -> PathBuf {
    let (file, program) = (scratch.path().join("program.c"), scratch.path().join("program"));
    std::fs::write(&file, source).unwrap();
    let status = Command::new("gcc").args(options).arg("-o").arg(&program).arg(&file).status();
    assert!(status.unwrap().success());
    program
}

/// QEMU 7.2 tells accesses to numbers of 80 bits: there is nothing to say. Newer ones don't, and that is said.
#[test]
fn numbers_of_80_bits_are_told_or_missing() {
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
    if is_newer() {
        let missing = missing(&report);
        let [parent, child] = &missing[..] else { panic!("{missing:?}") };
        assert!(
            [parent, child].iter().all(|what| what.contains("that load or store 80-bit numbers of x87")),
            "{missing:?}"
        );
        return;
    }
    assert_eq!(named(&report["variables"], "number"), (2001, 2000));
    assert_eq!(missing(&report), [""; 0]);
    let trace = scratch.path().join("trace");
    let recorded = translated(&["-o", trace.to_str().unwrap()], &program, &[]);
    assert!(!text(&recorded.stderr).contains("missing"), "{}", text(&recorded.stderr));
}

/// Allocators are found by their names; where there is none, nothing of the heap is told, and that is.
#[test]
fn programs_without_a_known_allocator_are_told() {
    const SOURCE: &str = r#"
#include <stdlib.h>
int main(void) {
    for (int i = 0; i < 100; i++) *(volatile long *)malloc(64) = i;
    return 0;
}
"#;
    const BARE: &str = r#"
static volatile long number;
void _start(void) {
    for (int i = 0; i < 100; i++) number = number + i;
    __asm__ volatile ("syscall" : : "a"(60L), "D"(0L));
}
"#;
    let run = |source: &str, options: &[&str]| {
        let scratch = TempDir::new().unwrap();
        let program = built(&scratch, source, options);
        let live = translated(&["--live", "--format", "json", "--report", "-"], &program, &[]);
        assert_eq!(live.status.code(), Some(0), "{}", text(&live.stderr));
        let report: Value = serde_json::from_str(text(&live.stdout)).unwrap();
        let missing = missing(&report);
        let trace = scratch.path().join("trace");
        let recorded = translated(&["-o", trace.to_str().unwrap()], &program, &[]);
        let said = text(&recorded.stderr).lines().filter(|line| line.contains("missing: ")).count();
        let said = said - (report["missing"].as_array().unwrap().len() - missing.len());
        assert_eq!(said, missing.len(), "{}", text(&recorded.stderr));
        (missing, program)
    };
    for options in [&["-static"][..], &["-static", "-g"], &[], &["-s"]] {
        assert_eq!(run(SOURCE, options).0, [""; 0], "{options:?}");
    }
    for options in [&["-static", "-s"][..], &["-static-pie", "-s"]] {
        let (missing, program) = run(SOURCE, options);
        let [missing] = &missing[..] else { panic!("{missing:?}") };
        let expected = format!("blocks of the heap: {} is stripped of the symbols by which malloc ", program.display());
        assert!(missing.contains(&expected), "{missing}");
    }
    let (missing, program) = run(BARE, &["-static", "-nostdlib", "-O1"]);
    let [missing] = &missing[..] else { panic!("{missing:?}") };
    let expected =
        format!("blocks of the heap: no function of {}, or of what it loads, has the name ", program.display());
    assert!(missing.contains(&expected), "{missing}");
}
