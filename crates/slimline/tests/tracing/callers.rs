//! `--callers`: who called for a block, also after functions were left in other ways than by returning.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use slimline_instrument::driver::{HEADER, Language};
use tempfile::TempDir;

use super::compiled::compiled_as;
use super::{report, slimline, text};

/// What all programs begin with: `take` allocates for everybody, a number of bytes that says for whom.
const TAKE: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include "slimline.h"
#define OWN __attribute__((noinline)) static
static volatile int touched;
static void *volatile kept;
OWN void take(int bytes) { kept = malloc(bytes); if (!kept) abort(); touched++; }
"#;

/// Which compilers' programs tell it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Family {
    Clang,
    Gcc,
}

impl Family {
    fn compiled(self, scratch: &TempDir, language: Language, source: &str, options: &[&str]) -> PathBuf {
        if self == Self::Clang {
            return compiled_as(scratch, language, source, options);
        }
        let (compiler, name) =
            if language == Language::CPlusPlus { ("g++", "program.cpp") } else { ("gcc", "program.c") };
        fs::write(scratch.path().join(name), source).unwrap();
        let mut command = slimline();
        command.current_dir(scratch.path()).args([compiler, "-O2", "-pthread", "-o", "program", name]).args(options);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        scratch.path().join("program")
    }
}

/// Who called for the blocks of `take`, by their bytes: of a path the sum.
fn callers(family: Family, language: Language, source: &str, options: &[&str]) -> BTreeMap<u64, String> {
    let scratch = tempfile::tempdir().unwrap();
    fs::write(scratch.path().join("slimline.h"), HEADER).unwrap();
    let program = family.compiled(&scratch, language, &format!("{TAKE}{source}"), options);
    let directory = scratch.path().join("run.trace");
    let live = slimline()
        .args(["trace", "--live", "--report", "-", "--callers", "--format", "json", "--"])
        .arg(&program)
        .output();
    let live = by_bytes(&report(&live.unwrap()));
    // Recorded it is the same.
    let recorded = slimline().args(["trace", "-o"]).arg(&directory).arg("--").arg(&program).output().unwrap();
    assert!(recorded.status.success(), "{}", text(&recorded.stderr));
    let replayed = slimline().args(["trace", "--callers", "--format", "json", "--replay"]).arg(&directory).output();
    assert_eq!(by_bytes(&report(&replayed.unwrap())), live);
    live
}

fn by_bytes(report: &Value) -> BTreeMap<u64, String> {
    let rows = report["heap"].as_array().unwrap().iter().filter(|row| row["function"] == "take");
    let path = |row: &Value| {
        let callers = row["callers"].as_array().unwrap().iter().map(|caller| caller["function"].as_str().unwrap());
        callers.collect::<Vec<_>>().join(" < ")
    };
    rows.map(|row| (row["allocated_bytes"].as_u64().unwrap(), path(row))).collect()
}

fn check(families: &[Family], language: Language, source: &str, expected: &[(u64, &str)]) {
    for (family, level) in families.iter().flat_map(|family| ["-O2", "-O0"].map(|level| (*family, level))) {
        let standard = if language == Language::CPlusPlus { "-std=c++20" } else { "-std=gnu17" };
        let found = callers(family, language, source, &[level, standard]);
        let found: Vec<(u64, &str)> = found.iter().map(|(bytes, path)| (*bytes, path.as_str())).collect();
        assert_eq!(found, expected, "{family:?} {level}");
    }
}

const BOTH: [Family; 2] = [Family::Clang, Family::Gcc];

#[test]
fn after_longjmp() {
    const SOURCE: &str = r#"
#include <setjmp.h>
static jmp_buf place, outer;
OWN void third(int n) { touched++; longjmp(place, n); }
OWN void second(int n) { touched++; third(n); touched++; }
OWN void first(int n) { touched++; second(n); touched++; }
OWN void jumps(void) { if (!setjmp(place)) first(7); take(16); touched++; }
OWN void pong(int n);
OWN void ping(int n) { touched++; if (n == 0) longjmp(outer, 1); pong(n); touched++; }
OWN void pong(int n) { touched++; ping(n - 1); touched++; }
/* Jumps to the second of its calls that run. */
OWN void dive(int n, int depth);
OWN void dove(int n, int depth) { touched++; dive(n - 1, depth + 1); touched++; }
OWN void dive(int n, int depth) {
    touched++;
    if (n == 0) longjmp(outer, 1);
    if (depth == 1) { if (setjmp(outer)) { take(64); touched++; return; } }
    dove(n, depth);
    take(128 + depth);
    touched++;
}
OWN void recurses(void) { if (!setjmp(outer)) ping(3); take(32); touched++; }
OWN void loops(void) { volatile int n = 0; if (setjmp(place) < 3) { n++; first(n); } take(1024 + n); touched++; }
int main(void) { jumps(); recurses(); dive(5, 0); loops(); take(4096); return 0; }
"#;
    let expected = [
        (16, "jumps < main"),
        (32, "recurses < main"),
        (64, "dive < dove < dive < main"),
        (128, "dive < main"),
        (1027, "loops < main"),
        (4096, "main"),
    ];
    check(&BOTH, Language::C, SOURCE, &expected);
}

#[test]
fn after_exceptions() {
    const SOURCE: &str = r#"
#include <stdexcept>
struct guard { int bytes; __attribute__((noinline)) ~guard() { take(bytes); touched++; } };
OWN void throws(int n) { touched++; if (n) throw std::runtime_error("thrown"); }
OWN void passes(int n) { touched++; throws(n); touched++; }
OWN void passes_on(int n) { touched++; passes(n); touched++; }
OWN void catches() { try { passes_on(1); } catch (const std::exception &) { take(16); } take(17); touched++; }
OWN void cleans() { guard held{32}; touched++; passes_on(1); touched++; }
OWN void around() { touched++; cleans(); touched++; }
OWN void catches_behind() { try { around(); } catch (...) { take(64); } touched++; }
OWN void rethrows() { try { passes_on(1); } catch (...) { take(128); throw; } touched++; }
OWN void catches_again() { try { rethrows(); } catch (...) { take(256); } touched++; }
OWN void ping(int n);
OWN void pong(int n) { touched++; ping(n - 1); touched++; }
OWN void ping(int n) {
    touched++;
    if (n == 0) throw n;
    if (n == 2) { try { pong(n); } catch (int) { take(512); } take(513); } else pong(n);
    touched++;
}
int main() { catches(); catches_behind(); catches_again(); ping(4); take(4096); return 0; }
"#;
    let expected = [
        (32, "guard::~guard < cleans < around < catches_behind < main"),
        (33, "catches < main"),
        (64, "catches_behind < main"),
        (128, "rethrows < catches_again < main"),
        (256, "catches_again < main"),
        (1025, "ping < pong < ping < pong < ping < main"),
        (4096, "main"),
    ];
    check(&BOTH, Language::CPlusPlus, SOURCE, &expected);
}

#[test]
fn on_stacks_of_their_own() {
    const SOURCE: &str = r#"
#include <ucontext.h>
static ucontext_t own, other;
static char stack[1 << 16];
OWN void yields(void) { touched++; swapcontext(&other, &own); touched++; }
static void other_stack(void) { take(16); yields(); take(32); yields(); abort(); }
OWN void switches(void) {
    getcontext(&other);
    other.uc_stack.ss_sp = stack;
    other.uc_stack.ss_size = sizeof stack;
    makecontext(&other, other_stack, 0);
    swapcontext(&own, &other);
    take(64);
    swapcontext(&own, &other);
    take(128);
    touched++;
}
int main(void) { switches(); take(4096); return 0; }
"#;
    // What began on the other stack before it was left nobody knows any more.
    let expected = [(16, "other_stack < switches < main"), (32, "(unknown)"), (192, "switches < main"), (4096, "main")];
    check(&BOTH, Language::C, SOURCE, &expected);
}

#[test]
fn in_coroutines() {
    const SOURCE: &str = r#"
#include <coroutine>
struct task {
    struct promise_type {
        task get_return_object() { return {std::coroutine_handle<promise_type>::from_promise(*this)}; }
        std::suspend_never initial_suspend() noexcept { return {}; }
        std::suspend_always final_suspend() noexcept { return {}; }
        void return_void() {}
        __attribute__((noinline)) void unhandled_exception() { take(64); touched++; }
    };
    std::coroutine_handle<promise_type> handle;
};
OWN task steps(int n) {
    touched++;
    take(16);
    co_await std::suspend_always{};
    take(32);
    for (int i = 0; i < n; i++) { co_await std::suspend_always{}; touched++; }
    take(128);
    throw n;
}
OWN void goes_on(task &of) { touched++; of.handle.resume(); touched++; }
OWN void runs(void) {
    task one = steps(1), other = steps(0);
    goes_on(one); goes_on(other); goes_on(one);
    take(256);
    one.handle.destroy(); other.handle.destroy();
    touched++;
}
int main() { runs(); take(4096); return 0; }
"#;
    // Up to where it waits first its caller runs it, from there on who lets it go on.
    let expected = [
        (32, "steps < runs < main"),
        (128, "task::promise_type::unhandled_exception < steps < goes_on < runs < main"),
        (256, "runs < main"),
        (320, "steps < goes_on < runs < main"),
        (4096, "main"),
    ];
    check(&[Family::Clang], Language::CPlusPlus, SOURCE, &expected);
    // Of gcc's the one that makes the coroutine calls another one of its name.
    let expected =
        expected.map(|(bytes, path)| (bytes, if bytes == 32 { "steps < steps < runs < main" } else { path }));
    check(&[Family::Gcc], Language::CPlusPlus, SOURCE, &expected);
}

#[test]
fn after_a_pause() {
    const SOURCE: &str = r#"
OWN void stops(void) { slimline_stop(); touched++; }
OWN void starts(void) { touched++; slimline_start(); take(8); touched++; }
OWN void stops_itself(void) { slimline_stop(); touched++; slimline_start(); take(32); touched++; }
OWN void stopped(void) { stops(); touched++; slimline_start(); take(64); touched++; }
OWN void lost(void) { stops(); starts(); take(512); touched++; }
OWN void knows_again(void) { lost(); slimline_start(); take(256); touched++; }
int main(void) { stops_itself(); stopped(); lost(); slimline_start(); knows_again(); take(4096); return 0; }
"#;
    // What `lost` calls is called by nobody knows whom, until a function goes on behind its own `slimline_start`.
    let known = [(32, "stops_itself < main"), (64, "stopped < main"), (256, "knows_again < main")];
    let expected = [&known[..], &[(2 * 8 + 2 * 512, "(unknown)"), (4096, "main")]].concat();
    check(&[Family::Clang], Language::C, SOURCE, &expected);
    // gcc's functions have one version: what goes on is known though it began untraced.
    let expected = [&[(2 * 8, "starts < (unknown)")], &known[..], &[(2 * 512, "(unknown)"), (4096, "main")]].concat();
    check(&[Family::Gcc], Language::C, SOURCE, &expected);
}

/// At -O0 the C++ library's functions are calls, too.
#[test]
fn libraries_are_looked_through() {
    const SOURCE: &str = r#"
#include <vector>
OWN void fill(std::vector<int> &all, int n) { for (int i = 0; i < n; i++) all.push_back(i); take(n); touched++; }
OWN void one() { std::vector<int> all; all.reserve(100); fill(all, 10); touched++; }
OWN void other() { std::vector<int> all; all.reserve(200); fill(all, 20); touched++; }
int main() { one(); other(); return 0; }
"#;
    for level in ["-O0", "-O2"] {
        let scratch = tempfile::tempdir().unwrap();
        fs::write(scratch.path().join("slimline.h"), HEADER).unwrap();
        let program = compiled_as(&scratch, Language::CPlusPlus, &format!("{TAKE}{SOURCE}"), &[level]);
        let output = slimline()
            .args(["trace", "--live", "--report", "-", "--callers", "--format", "json", "--"])
            .arg(&program)
            .output();
        let report = report(&output.unwrap());
        let rows = report["heap"].as_array().unwrap();
        let path_of = |bytes: u64| {
            let row = rows.iter().find(|row| row["allocated_bytes"] == bytes).unwrap_or_else(|| panic!("{rows:#?}"));
            let callers = row["callers"].as_array().unwrap().iter().filter_map(|caller| caller["function"].as_str());
            let callers = callers.filter(|name| !name.starts_with("std::")).collect::<Vec<_>>();
            assert_eq!(row["type_name"], if bytes < 400 { Value::Null } else { "int".into() }, "{level}");
            // Optimized it is inlined, and the function that allocates is no caller.
            let own = row["function"].as_str().filter(|name| !name.starts_with("std::"));
            own.into_iter().chain(callers).collect::<Vec<_>>().join(" < ")
        };
        assert_eq!([400, 800].map(path_of), ["one < main", "other < main"], "{level}");
        assert_eq!([10, 20].map(path_of), ["take < fill < one < main", "take < fill < other < main"], "{level}");
        if level == "-O0" {
            let told = rows.iter().flat_map(|row| row["callers"].as_array().unwrap());
            let library = told.filter(|caller| caller["function"].as_str().unwrap().starts_with("std::")).count();
            assert_eq!(library, 0, "{rows:#?}");
        }
    }
}

/// A function that goes on in the middle is the one that began; of one that does not, nobody knows whether it runs.
#[test]
fn in_loops_that_are_left_and_entered() {
    const SOURCE: &str = r#"
OWN void within(int n) {
    for (int i = 0; i < n; i++) {
        if (i == 3) slimline_stop();
        if (i == 6) slimline_start();
        take(i < 6 ? 16 : i == 6 ? 5 : 64);
    }
}
OWN void left(int bytes) { for (int i = 0; i < 4; i++) { if (i == 2) slimline_stop(); take(bytes); } }
int main(void) {
    within(10);
    for (int i = 0; i < 3; i++) { slimline_start(); left(256 << 2 * i); take(7); }
    return 0;
}
"#;
    let expected = [
        (3 * 16 + 3 * 64, "within < main"),
        (2 * 256, "left < main"),
        (2 * 1024 + 2 * 4096, "left < (unknown)"),
        // With all that was allocated while tracing was stopped.
        (5 + 3 * 16 + 2 * 256 + 2 * 1024 + 2 * 4096 + 3 * 7, "(unknown)"),
    ];
    check(&[Family::Clang], Language::C, SOURCE, &expected);
}

/// A vector's memory is allocated by the library, for either of two functions: that is told without `--callers`, of a run as of its trace.
#[test]
fn blocks_of_libraries_are_told_apart_by_who_had_them_allocated() {
    let source = r#"
#include <cstdio>
#include <vector>
__attribute__((noinline)) static void odd(std::vector<long> &all) { for (long i = 1; i < 20000; i += 2) all.push_back(i); }
__attribute__((noinline)) static void even(std::vector<long> &all) { for (long i = 0; i < 2000; i += 2) all.push_back(i); }
int main() {
    std::vector<long> one, two;
    odd(one), even(two);
    long sum = 0;
    for (long each : one) sum += each;
    for (long each : two) sum -= each;
    std::printf("%ld\n", sum);
}
"#;
    for family in [Family::Clang, Family::Gcc] {
        let scratch = tempfile::tempdir().unwrap();
        // Inlined, it would be the program's own line that allocates.
        let program = family.compiled(&scratch, Language::CPlusPlus, source, &["-g", "-fno-inline"]);
        let trace = scratch.path().join("trace");
        let rows = |output: Vec<u8>| {
            let json = text(&output);
            let report: Value = serde_json::from_str(&json[json.find('{').expect("a report")..]).unwrap();
            let of = |row: &Value| {
                let callers =
                    row["callers"].as_array().unwrap().iter().map(|caller| caller["function"].as_str().unwrap());
                (row["in_library"].as_bool().unwrap(), callers.collect::<Vec<_>>().join(" < "))
            };
            report["heap"].as_array().unwrap().iter().map(of).collect::<Vec<_>>()
        };
        let live =
            slimline().args(["trace", "--live", "--report", "-", "--format", "json", "--"]).arg(&program).output();
        let recorded = slimline().args(["trace", "-o"]).arg(&trace).arg("--").arg(&program).output().unwrap();
        assert!(recorded.status.success(), "{}", text(&recorded.stderr));
        let replay = |options: &[&str]| {
            let mut command = slimline();
            command.args(["trace", "--replay"]).arg(&trace).args(options).output().unwrap().stdout
        };
        for found in [rows(live.unwrap().stdout), rows(replay(&["--format", "json"]))] {
            let expected = [(true, "odd".to_owned()), (true, "even".to_owned())];
            // gcc's names of functions are with their parameters.
            let own = found.iter().map(|(in_library, by)| (*in_library, by.split('(').next().unwrap().to_owned()));
            assert_eq!(own.collect::<Vec<_>>(), expected, "{found:?}");
        }
        let shown = replay(&[]);
        assert!(text(&shown).contains(" < odd") && text(&shown).contains(" < even"), "{}", text(&shown));
    }
}
