//! What translated programs load and store.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

use super::{is_newer, missing, translated};
use crate::compiled::{compiled_with, named};
use crate::{report, slimline, text};

/// Values of each kind and size, positive and negative.
const ITEMS: &str = r#"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
enum flags { LOW = 1u << 20, ALL = ~0u };
struct item {
    long small; int minus; signed char letter; unsigned char byte; short narrow;
    float single; double half, third; struct item *next; enum flags flags; uint32_t mask;
};
__attribute__((noinline)) static struct item *make(int n) {
    struct item *list = NULL;
    for (int i = 0; i < n; i++) {
        struct item *item = malloc(sizeof *item);
        item->small = i % 4 * 50;
        item->minus = i % 2 ? -i : 0;
        item->letter = i % 3 - 1;
        item->byte = i % 200;
        item->narrow = -300 + i;
        item->single = i / 4.0f;
        item->half = i / 2.0;
        item->third = i / 3.0;
        item->next = list;
        item->flags = i % 2 ? ALL : LOW;
        item->mask = i % 2 ? ~0u : 1u << 20;
        list = item;
    }
    return list;
}
static volatile long counter;
static volatile double ratio;
__attribute__((noinline)) static double sum(struct item *list) {
    double sum = 0;
    for (; list; list = list->next) {
        sum += list->small * list->half + list->minus * list->third + list->letter + list->byte + list->narrow;
        sum += list->single + (list->flags == LOW) + (list->mask > 5);
        counter += 3;
        ratio = sum / 2;
    }
    return sum;
}
int main(int argc, char **argv) {
    if (argc > 1) {
        if (fork() == 0) execl(argv[0], argv[0], (char *)0);
        wait(0);
    }
    printf("%.1f\n", sum(make(1000)));
    return 0;
}
"#;

/// A page that threads load from, and another one protects to have them stop, as garbage collectors do.
const STOPPED: &str = r#"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
static int *page;
static volatile int is_over;
static void resume(int number, siginfo_t *information, void *context) { mprotect(page, 4096, PROT_READ | PROT_WRITE); }
static void *work(void *unused) {
    long sum = 0;
    while (!is_over) for (int i = 0; i < 100; i++) sum += *(volatile int *)page;
    return (void *)sum;
}
int main(void) {
    page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct sigaction action = { .sa_sigaction = resume, .sa_flags = SA_SIGINFO };
    sigaction(SIGSEGV, &action, 0);
    *page = 7;
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, work, 0);
    for (int i = 0; i < 20000; i++) mprotect(page, 4096, i % 2 ? PROT_READ | PROT_WRITE : PROT_NONE);
    mprotect(page, 4096, PROT_READ | PROT_WRITE);
    is_over = 1;
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    printf("%d\n", *page);
    return 0;
}
"#;

fn built(scratch: &TempDir, source: &str) -> PathBuf {
    let (file, program) = (scratch.path().join("as_it_is.c"), scratch.path().join("as_it_is"));
    std::fs::write(&file, source).unwrap();
    let status = Command::new("gcc").args(["-g", "-O1", "-pthread", "-o"]).arg(&program).arg(&file).status();
    assert!(status.unwrap().success());
    program
}

/// The report of a run, behind what the program says.
fn traced(program: &Path, arguments: &[&str]) -> (String, Value) {
    let options = ["--values", "--live", "--format", "json", "--report", "-"];
    let output = translated(&options, program, arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let (said, shown) = text(&output.stdout).split_at(text(&output.stdout).find('{').unwrap());
    (said.to_owned(), serde_json::from_str(shown).unwrap())
}

fn row<'r>(report: &'r Value, name: &str) -> &'r Value {
    let rows = report["values"].as_array().unwrap();
    rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn values_are_those_that_instrumented_programs_tell() {
    let scratch = TempDir::new().unwrap();
    let (said, translated) = traced(&built(&scratch, ITEMS), &[]);
    let instrumented = compiled_with(&scratch, ITEMS, &["--slimline-values", "-g"]);
    let live = ["trace", "--live", "--format", "json", "--report", "-", "--"];
    let output = slimline().args(live).arg(&instrumented).output().unwrap();
    let shown = text(&output.stdout).strip_prefix(&*said).unwrap();
    let instrumented: Value = serde_json::from_str(shown).unwrap();
    let rows = instrumented["values"].as_array().unwrap();
    let is_of_program = |row: &&Value| {
        row["name"].as_str().is_some_and(|name| name.starts_with("item.") || ["counter", "ratio"].contains(&name))
    };
    let mut compared = 0;
    for expected in rows.iter().filter(is_of_program) {
        let mut found = row(&translated, expected["name"].as_str().unwrap()).clone();
        // Blocks lie elsewhere.
        if expected["kind"] == "pointer" {
            for part in ["greatest", "distinct"] {
                found[part] = expected[part].clone();
            }
        }
        assert_eq!(&found, expected);
        compared += 1;
    }
    assert_eq!(compared, 13);
    // What was there before, and what is there then.
    let counter = row(&translated, "counter");
    let told = ["values", "zeros", "least", "greatest"].map(|part| counter[part].to_string());
    assert_eq!(told, ["2000", "1", "\"0\"", "\"3000\""]);
    assert_eq!(row(&translated, "item.minus")["least"], "-999");
    assert_eq!(missing(&translated), [""; 0]);
}

#[test]
fn recorded_values_are_the_same_and_only_those_that_are_asked_for() {
    let scratch = TempDir::new().unwrap();
    let (program, trace) = (built(&scratch, ITEMS), scratch.path().join("trace"));
    let place = trace.to_str().unwrap();
    let replayed = |options: &[&str]| {
        let output = translated(&[&["-o", place], options].concat(), &program, &["again"]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        report(&slimline().args(["trace", "--format", "json", "--replay", place]).output().unwrap())
    };
    let told = replayed(&["--values"]);
    // Of the program, and of what its forked child became.
    assert_eq!(told["processes"].as_array().unwrap().len(), 3);
    let half = row(&told, "item.half");
    assert_eq!((&half["values"], &half["greatest"], &half["kind"]), (&4000.into(), &"499.5".into(), &"float".into()));
    let untold = replayed(&[]);
    assert_eq!(untold["values"], Value::Array(Vec::new()));
    for report in [&told, &untold] {
        assert_eq!(named(&report["fields"], "item.half"), (2000, 2000));
    }
}

/// A program that is right may take back what another thread has just loaded from.
#[test]
fn values_that_are_gone_are_missing() {
    let scratch = TempDir::new().unwrap();
    let (said, report) = traced(&built(&scratch, STOPPED), &[]);
    assert_eq!(said, "7\n");
    let of_page = report["values"].as_array().unwrap().iter().find(|row| row["name"] == "page" && row["bytes"] == 4);
    let told = ["least", "greatest"].map(|part| of_page.unwrap()[part].as_str().unwrap());
    assert_eq!(told, ["7", "7"]);
    // Whether any is gone is a matter of time.
    for missing in missing(&report) {
        assert!(missing.contains(" values were not told, as "), "{missing}");
    }
}

/// From version 9.2 on QEMU tells values by a function, which is looked up by its name. Here is one of 7.2 that has it, and says the same
/// of all accesses.
#[test]
fn a_qemu_that_tells_values_is_asked() {
    // It has a function of its own, which comes first, and what that tells the other tests see.
    if is_newer() {
        return;
    }
    const TELLS: &str = r#"
struct value { int type; union { unsigned short u16; unsigned long words[2]; } data; };
struct value qemu_plugin_mem_get_value(unsigned kind) {
    // Of two bytes: what is above them is not of the value.
    return (struct value){ .type = 1, .data = { .words = { 0xdeadbeef002a, 7 } } };
}
"#;
    let scratch = TempDir::new().unwrap();
    let program = built(&scratch, ITEMS);
    let (source, library) = (scratch.path().join("tells.c"), scratch.path().join("tells.so"));
    std::fs::write(&source, TELLS).unwrap();
    let status = Command::new("gcc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
    assert!(status.unwrap().success());
    let mut command = slimline();
    command.args([
        "trace",
        "--collector",
        "translate",
        "--values",
        "--live",
        "--format",
        "json",
        "--report",
        "-",
        "--",
    ]);
    let output = command.arg(&program).env("LD_PRELOAD", &library).output().unwrap();
    let shown = text(&output.stdout).split_once('\n').unwrap().1;
    let told: Value = serde_json::from_str(shown).unwrap();
    for name in ["item.small", "item.minus", "counter"] {
        let row = row(&told, name);
        assert_eq!(
            (&row["least"], &row["greatest"], &row["distinct"]),
            (&"42".into(), &"42".into(), &1.into()),
            "{name}"
        );
    }
    assert_eq!(missing(&told), [""; 0]);
}

#[test]
fn who_can_t_tell_values_says_so() {
    let run = |options: &[&str]| slimline().arg("trace").args(options).output().unwrap();
    let instrumented = run(&["--live", "--values", "--", "true"]);
    assert_eq!((instrumented.status.code(), text(&instrumented.stdout)), (Some(2), ""));
    let said = "slimline: --values goes with --collector translate: a program that is instrumented tells values where it was compiled \
                with slimline cc --slimline-values (or cargo), without any option here\n";
    assert_eq!(text(&instrumented.stderr), said);
    assert_eq!(run(&["--values", "--replay", "/not/there"]).status.code(), Some(2));
}
