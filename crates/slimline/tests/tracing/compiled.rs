//! Programs that are compiled with tracing, run and counted: what they do is known in closed form.

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Output;

use serde_json::Value;
use slimline_instrument::driver::{HEADER, Language, compile};
use slimline_instrument::rewrite::OwnAllocators;
use tempfile::TempDir;

use super::{report, slimline, text};

/// Neither vectors nor copies of loop bodies: one access each in the source is one in the code.
pub(super) const SCALAR: [&str; 5] = ["-O2", "-fno-vectorize", "-fno-slp-vectorize", "-fno-unroll-loops", "-pthread"];

/// Compiles `source` in a directory; the program.
pub(super) fn compiled(scratch: &TempDir, source: &str) -> PathBuf {
    compiled_with(scratch, source, &[])
}

pub(super) fn compiled_with(scratch: &TempDir, source: &str, options: &[&str]) -> PathBuf {
    compiled_as(scratch, Language::C, source, options)
}

pub(super) fn compiled_as(scratch: &TempDir, language: Language, source: &str, options: &[&str]) -> PathBuf {
    let name = if language == Language::C { "program.c" } else { "program.cpp" };
    let (file, program) = (scratch.path().join(name), scratch.path().join("program"));
    fs::write(&file, source).unwrap();
    let mut all: Vec<OsString> = SCALAR.iter().chain(options).map(OsString::from).collect();
    all.extend(["-o".into(), program.clone().into(), file.into()]);
    assert_eq!(compile(language, &all, slimline_collect::RUNTIME, OwnAllocators::default()).unwrap(), 0);
    program
}

/// Compiles `source` and traces it with these arguments.
fn traced(source: &str, arguments: &[&str]) -> (Output, Value) {
    let scratch = tempfile::tempdir().unwrap();
    let program = compiled(&scratch, source);
    let output = slimline()
        .args(["trace", "--live", "--report", "-", "--format", "json", "--"])
        .arg(&program)
        .args(arguments)
        .output()
        .unwrap();
    assert!(output.status.code().is_none_or(|status| status == 0), "{}", text(&output.stderr));
    let value = report(&output);
    (output, value)
}

/// Loads and stores of the row of this name.
pub(super) fn named(rows: &Value, name: &str) -> (u64, u64) {
    let row = rows.as_array().unwrap().iter().find(|row| row["name"] == name);
    row.map_or((0, 0), |row| (row["loads"].as_u64().unwrap(), row["stores"].as_u64().unwrap()))
}

/// What is estimated is so near what is counted, and what is counted is the same.
#[test]
fn who_keeps_up_estimates_blocks_only() {
    const SOURCE: &str = r#"
#include <stdlib.h>
struct item { long key, value; };
__attribute__((noinline)) static struct item *make(long n) { return malloc(n * sizeof(struct item)); }
__attribute__((noinline)) static long *numbers(long n) { return malloc(n * sizeof(long)); }
__attribute__((noinline)) static long add(const long *a, const long *b) { return *a + *b; }
int main(void) {
    enum { N = 1000, TIMES = 3000 };
    struct item *items = make(N);
    long *all = numbers(N), sum = 0;
    for (long i = 0; i < N; i++) { items[i] = (struct item){ i, -i }; all[i] = i; }
    for (long t = 0; t < TIMES; t++)
        for (long i = 0; i < N; i++) sum += add(&items[i].key, &all[i]) + add(&all[i], &items[i].value);
    return sum == 7;
}
"#;
    let scratch = tempfile::tempdir().unwrap();
    let program = compiled(&scratch, SOURCE);
    let trace = |options: &[&str]| {
        let output = slimline().args(["trace", "--format", "json"]).args(options).arg(&program).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        report(&output)
    };
    // Nothing that is written or read is a matter of time.
    for way in ["--output", "--replay"] {
        let output = slimline().args(["trace", "--keep-up", way, "run.trace"]).output().unwrap();
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains("cannot be used with"), "{said}");
    }
    let (exact, kept_up) =
        (trace(&["--live", "--report", "-", "--"]), trace(&["--live", "--report", "-", "--keep-up", "--"]));
    assert!(exact["looked_up"].is_null());
    for rows in ["total", "functions", "lines"] {
        assert_eq!(exact[rows], kept_up[rows], "{rows}");
    }
    // None of these is static: what was not looked up may be, and is told to be that unsure.
    for name in ["a", "b", "items", "all"] {
        assert_eq!(named(&exact["variables"], name), named(&kept_up["variables"], name), "{name}");
    }
    let told = |report: &Value| report["variables"][0]["share_error"].as_f64();
    assert_eq!((told(&exact), kept_up["looked_up"].is_null() || told(&kept_up).is_some()), (None, true), "{kept_up}");
    let shares = |report: &Value| {
        let share = |row: &Value| {
            let share = row["accesses"].as_f64().unwrap() / report["total"]["accesses"].as_f64().unwrap();
            (row["function"].as_str().unwrap().to_owned(), share)
        };
        report["heap"].as_array().unwrap().iter().map(share).collect::<std::collections::BTreeMap<_, _>>()
    };
    let (exact_shares, shares) = (shares(&exact), shares(&kept_up));
    assert_eq!(exact_shares.keys().collect::<Vec<_>>(), ["make", "numbers"]);
    for (function, share) in exact_shares {
        assert!((shares[&function] - share).abs() < 0.02, "{function}: {share}, {kept_up}");
    }
    // On a machine with time for it all of it was looked up.
    let looked_up = &kept_up["looked_up"];
    if !looked_up.is_null() {
        let number = |name: &str| looked_up[name].as_u64().unwrap();
        assert_eq!(number("of"), kept_up["total"]["accesses"].as_u64().unwrap());
        assert!(number("accesses") > 0 && number("accesses") < number("of"), "{looked_up}");
        // What nobody looked up has a row of its own, so that shares are of all.
        let unseen = kept_up["not_looked_up"]["accesses"].as_u64().unwrap_or(0);
        assert_eq!(unseen, number("unseen"), "{kept_up}");
    }
}

const LOOPS: &str = include_str!("../loop_nest.c");

#[test]
fn loop_nests_threads_and_processes_have_their_closed_form() {
    let (n, m, k) = (70, 30, 11);
    for (mode, multiplied, filled, processes) in
        [("once", 1, 1, 1), ("threads", 4, 1, 1), ("fork", 2, 1, 2), ("exec", 2, 2, 2), ("kill", 1, 1, 1)]
    {
        let (_, report) = traced(LOOPS, &[mode]);
        assert_eq!(named(&report["functions"], "fill"), (0, filled * (n * k + k * m)), "{mode}");
        assert_eq!(named(&report["functions"], "multiply"), (multiplied * 2 * n * m * k, multiplied * n * m), "{mode}");
        let expected = (multiplied * n * m * k, filled * n * k);
        assert_eq!(named(&report["variables"], "a"), expected, "{mode}");
        assert_eq!(report["missing"], Value::Array(Vec::new()), "{mode}");
        assert_eq!(report["processes"].as_array().unwrap().len(), processes, "{mode}");
    }
}

/// A timer interrupts a loop that keeps its cursor in a register: both are counted to the last access.
#[test]
fn signal_handlers_are_counted_beside_what_they_interrupt() {
    const SOURCE: &str = r#"
#define _DEFAULT_SOURCE
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
static struct pair { long ticked, walked; } pairs[1000];
static volatile sig_atomic_t ticks;
__attribute__((noinline)) static void tick(int signal) {
    for (int i = 0; i < 1000; i++) pairs[i].ticked += signal;
    ticks++;
}
__attribute__((noinline)) static long walk(long sum) {
    for (int i = 0; i < 1000; i++) sum += pairs[i].walked ^ i;
    return sum;
}
int main(void) {
    signal(SIGALRM, tick);
    struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, NULL);
    long rounds = 0, sum = 0;
    for (; ticks < 200; rounds++) sum = walk(sum);
    setitimer(ITIMER_REAL, &never, NULL);
    printf("%ld %d %d\n", rounds, (int)ticks, sum > 0);
    return 0;
}
"#;
    let scratch = tempfile::tempdir().unwrap();
    let program = compiled(&scratch, SOURCE);
    let output =
        slimline().args(["trace", "--live", "--report", "-", "--format", "json", "--"]).arg(&program).output().unwrap();
    let (said, report) = text(&output.stdout).split_once('\n').unwrap();
    let said: Vec<u64> = said.split(' ').map(|number| number.parse().unwrap()).collect();
    let report: Value = serde_json::from_str(report).unwrap();
    assert_eq!(named(&report["fields"], "pair.walked"), (said[0] * 1000, 0));
    assert_eq!(named(&report["fields"], "pair.ticked"), (said[1] * 1000, said[1] * 1000));
    assert_eq!(report["missing"], Value::Array(Vec::new()));
    assert_eq!(report["processes"][0]["threads"], 1);
}

#[test]
fn accesses_to_the_heap_have_their_allocation_and_field() {
    const SOURCE: &str = r#"
#include <stdio.h>
#include <stdlib.h>
struct node { long key; struct node *next; long cold[6]; };
__attribute__((noinline)) static struct node *make(int n) {
    struct node *list = NULL;
    for (int i = 0; i < n; i++) {
        struct node *node = malloc(sizeof *node);
        node->key = i;
        node->next = list;
        list = node;
    }
    return list;
}
__attribute__((noinline)) static long sum(struct node *list, long round) {
    long sum = 0;
    for (struct node *at = list; at; at = at->next) sum += at->key ^ round;
    return sum;
}
int main(void) {
    struct node *list = make(1000);
    long all = 0;
    for (int i = 0; i < 10; i++) all += sum(list, i);
    printf("%ld\n", all);
    while (list) { struct node *next = list->next; free(list); list = next; }
    return 0;
}
"#;
    let scratch = tempfile::tempdir().unwrap();
    let program = compiled(&scratch, SOURCE);
    let output =
        slimline().args(["trace", "--live", "--report", "-", "--format", "json", "--"]).arg(&program).output().unwrap();
    let (sum, report) = text(&output.stdout).split_once('\n').unwrap();
    assert_eq!(sum, (0..10).flat_map(|i| (0..1000).map(move |key: i64| key ^ i)).sum::<i64>().to_string());
    let report: Value = serde_json::from_str(report).unwrap();
    let [group] = report["heap"].as_array().unwrap().as_slice() else { panic!("{}", report["heap"]) };
    assert_eq!((&group["blocks"], &group["peak_bytes"]), (&1000.into(), &64_000.into()));
    assert_eq!(group["function"], "make");
    let field = |name: &str| {
        let rows = group["fields"].as_array().unwrap();
        let row = rows.iter().find(|row| row["name"].as_str().is_some_and(|found| found.ends_with(name))).unwrap();
        (row["loads"].as_u64().unwrap(), row["stores"].as_u64().unwrap())
    };
    assert_eq!(field("node.key"), (10_000, 1000));
    assert_eq!(field("node.next"), (11_000, 1000));
    let structure = &report["structures"][0];
    assert_eq!(
        (&structure["name"], &structure["bytes"], &structure["verdict"]),
        (&"node".into(), &64.into(), &"split".into())
    );
    let counts: Vec<_> = structure["fields"].as_array().unwrap().iter().map(|field| &field["accesses"]).collect();
    assert_eq!(counts, [11_000, 12_000, 0]);
    let code = "struct node_cold {\n    long cold[6];\n};\nstruct node {\n    long key;\n    struct node *next;\n    \
                struct node_cold *cold;\n};\n";
    assert_eq!(structure["code"], code);
    assert_eq!(report["missing"], Value::Array(Vec::new()));
}

#[test]
fn values_are_told_on_request() {
    const SOURCE: &str = r#"
#include <stdio.h>
#include <stdlib.h>
struct item { long small; int minus; double half, third; struct item *next; __int128 huge; };
__attribute__((noinline)) static struct item *make(int n) {
    struct item *list = NULL;
    for (int i = 0; i < n; i++) {
        struct item *item = malloc(sizeof *item);
        item->small = i % 4 * 50;
        item->minus = i % 2 ? -i : 0;
        item->half = i / 2.0;
        item->third = i / 3.0;
        item->next = list;
        item->huge = i;
        list = item;
    }
    return list;
}
__attribute__((noinline)) static double sum(struct item *list) {
    double sum = 0;
    for (; list; list = list->next) sum += list->small * list->half + list->minus * list->third + (double)list->huge;
    return sum;
}
int main(void) { printf("%.1f\n", sum(make(1000))); return 0; }
"#;
    let scratch = tempfile::tempdir().unwrap();
    let program = compiled_with(&scratch, SOURCE, &["--slimline-values"]);
    let recording = scratch.path().join("trace");
    let (program, recording) = (program.to_str().unwrap(), recording.to_str().unwrap());
    let run = |arguments: &[&str]| slimline().arg("trace").args(arguments).output().unwrap();
    let live = run(&["--live", "--report", "-", "--format", "json", "--", program]);
    let (said, live) = text(&live.stdout).split_once('\n').unwrap();
    let expected: f64 = (0..1000)
        .map(|i| {
            let minus = if i % 2 == 1 { -i } else { 0 };
            f64::from(i % 4 * 50) * (f64::from(i) / 2.0) + f64::from(minus) * (f64::from(i) / 3.0) + f64::from(i)
        })
        .sum();
    assert_eq!(said, format!("{expected:.1}"));
    assert_eq!(run(&["-o", recording, "--", program]).status.code(), Some(0));
    let replayed = report(&run(&["--format", "json", "--replay", recording]));
    let live: Value = serde_json::from_str(live).unwrap();
    assert_eq!(live["values"].as_array().unwrap().len(), replayed["values"].as_array().unwrap().len());
    for report in [&live, &replayed] {
        let of = |field: &str| {
            let rows = report["values"].as_array().unwrap();
            rows.iter().find(|row| row["name"] == format!("item.{field}")).unwrap()
        };
        // Each is stored once and loaded once.
        for (field, kind, zeros, least, greatest, narrowest) in [
            ("small", "integer", 500, "0", "150", "uint8_t"),
            ("minus", "integer", 1000, "-999", "0", "int16_t"),
            ("half", "float", 2, "0", "499.5", "float"),
            ("third", "float", 2, "0", "333", "double"),
        ] {
            let row = of(field);
            assert_eq!((&row["kind"], &row["values"], &row["zeros"]), (&kind.into(), &2000.into(), &zeros.into()));
            assert_eq!((&row["least"], &row["greatest"]), (&least.into(), &greatest.into()), "{field}");
            assert_eq!(row["narrowest"], narrowest, "{field}");
        }
        assert_eq!((&of("small")["distinct"], &of("third")["bytes"]), (&4.into(), &8.into()));
        assert_eq!((&of("next")["kind"], &of("next")["zeros"]), (&"pointer".into(), &2.into()));
        // What is larger than a word is counted, without its value.
        assert_eq!(named(&report["fields"], "item.small"), (1000, 1000));
        assert_eq!(report["missing"], Value::Array(Vec::new()));
    }
    let shown = run(&["--replay", recording]);
    let shown = text(&shown.stdout);
    let line = shown.lines().find(|line| line.contains("item.minus") && line.contains("int16_t")).unwrap();
    let cells: Vec<_> = line.split_whitespace().collect();
    assert_eq!(
        (cells[0], cells[1], cells[2], cells[cells.len() - 1]),
        ("item.minus", "4", "2,000", "int16_t"),
        "{shown}"
    );
    // Others have none.
    assert_eq!(traced(LOOPS, &["once"]).1["values"], Value::Array(Vec::new()));
}

/// What is missing, as it begins.
pub(super) fn missing(report: &Value) -> Vec<&str> {
    report["missing"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect()
}

/// A program says when it is to be traced, in loops that run, too; a forked child says so for itself.
#[test]
fn programs_start_and_stop_tracing() {
    const SOURCE: &str = r#"
#include "slimline.h"
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static volatile long touched, own;
__attribute__((noinline)) static void touch(int n) { for (int i = 0; i < n; i++) touched = i; }
int main(void) {
    for (int i = 0; i < 40; i++) {
        if (i == 10) slimline_stop();
        if (i == 30) slimline_start();
        own = i;
        if (i == 20) slimline_stop();
    }
    slimline_stop();
    touch(2000);
    if (fork() == 0) { touch(300); slimline_start(); touch(11); _exit(0); }
    wait(NULL);
    slimline_start();
    touch(500);
    slimline_stop();
    touch(1000);
    return 0;
}
"#;
    let scratch = tempfile::tempdir().unwrap();
    fs::write(scratch.path().join("slimline.h"), HEADER).unwrap();
    let program = compiled(&scratch, SOURCE);
    // Rounds 0 to 9, and those behind the one that starts.
    for (arguments, own) in [(&["--live", "--report", "-"][..], 10 + 9), (&["--live", "--report", "-", "--paused"], 9)]
    {
        let output = slimline().arg("trace").args(arguments).args(["--format", "json", "--"]).arg(&program).output();
        let report = report(&output.unwrap());
        assert_eq!(named(&report["variables"], "touched"), (0, 511), "{arguments:?}");
        assert_eq!(named(&report["variables"], "own"), (0, own), "{arguments:?}");
        assert_eq!(report["processes"].as_array().unwrap().len(), 2);
        let missing = missing(&report);
        // The child's trace begins when it asks for it.
        let paused = " % of its time was not traced, while the program was paused: counts are of the rest, not scaled";
        assert!(missing.len() == 1 && missing[0].ends_with(paused), "{missing:?}");
    }
    let header = slimline().arg("header").output().unwrap();
    assert_eq!((text(&header.stdout), header.status.code()), (HEADER, Some(0)));
}

/// The first window ends as soon as anything was read, and the next would begin after the program ends.
#[test]
fn windows_leave_the_rest_untraced() {
    const SOURCE: &str = r#"
static volatile long sum;
__attribute__((noinline)) static void step(void) { for (int i = 0; i < 1000; i++) sum += i; }
int main(void) { for (int i = 0; i < 20000; i++) step(); return sum != 20000l * 499500; }
"#;
    let scratch = tempfile::tempdir().unwrap();
    let program = compiled(&scratch, SOURCE);
    let run = |window: &str| {
        let mut command = slimline();
        command.args(["trace", "--live", "--report", "-", "--format", "json", "--window", window, "--"]).arg(&program);
        command.output().unwrap()
    };
    let output = run("on=1,off=86399s");
    assert_eq!(output.status.code(), Some(0));
    let report = report(&output);
    let (loads, stores) = named(&report["variables"], "sum");
    assert!(loads.abs_diff(stores) <= 1 && (10_000..5_000_000).contains(&loads), "{loads} {stores}");
    let missing = missing(&report);
    assert!(missing.len() == 1 && missing[0].contains(" % of its time was not traced, between windows"), "{missing:?}");
    let wrong = run("on=1ms");
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("not on=LENGTH,off=TIME, as on=10ms,off=90ms"), "{}", text(&wrong.stderr));
}

#[test]
fn filters_leave_out_what_is_not_asked_for() {
    let scratch = tempfile::tempdir().unwrap();
    let program = compiled(&scratch, LOOPS);
    let recording = scratch.path().join("trace");
    let run = |arguments: &[&str]| slimline().arg("trace").args(arguments).output().unwrap();
    let (recording, program) = (recording.to_str().unwrap(), program.to_str().unwrap());
    assert_eq!(run(&["-o", recording, "--", program, "once"]).status.code(), Some(0));
    let (n, m, k) = (70, 30, 11);
    // The argument is read, too.
    let (stores, all) = (n * k, n * k + k * m + 2 * n * m * k + n * m + 1);
    // Live, and of a trace that was written.
    for source in [&["--live", "--report", "-", "--", program, "once"][..], &["--replay", recording]] {
        let filter = ["--format", "json", "--variable", "a", "--function", "f?ll", "--file", "pro*.c"];
        let output = run(&[&filter, source].concat());
        let report = report(&output);
        assert_eq!(named(&report["variables"], "a"), (0, stores));
        assert_eq!(report["total"]["accesses"], stores);
        assert_eq!((&report["left_out"], all - stores), (&48_631.into(), 48_631));
        assert_eq!(missing(&report), [""; 0]);
        let shown = run(&[&filter[2..], source].concat());
        let left_out = "Left out, as --function, --file, --type or --variable ask for others: 48,631 accesses\n";
        assert!(text(&shown.stdout).contains(left_out), "{}", text(&shown.stdout));
    }
}

#[test]
fn filters_that_match_nothing_say_what_there_is() {
    let scratch = tempfile::tempdir().unwrap();
    let program = compiled(&scratch, LOOPS);
    let recording = scratch.path().join("trace");
    let (recording, program) = (recording.to_str().unwrap(), program.to_str().unwrap());
    let run = |arguments: &[&str]| slimline().arg("trace").args(arguments).output().unwrap();
    assert_eq!(run(&["-o", recording, "--", program, "once"]).status.code(), Some(0));
    for source in [&["--live", "--report", "-", "--", program, "once"][..], &["--replay", recording]] {
        let output = run(&[&["--function", "filll"], source].concat());
        assert_eq!(output.status.code(), Some(2));
        let said = text(&output.stderr);
        assert!(said.contains("--function filll: no function with accesses has that name; there are fill, "), "{said}");
        assert!(!text(&output.stdout).contains("accesses:"), "{}", text(&output.stdout));
        let both = run(&[&["--function", "main", "--variable", "a"], source].concat());
        let said = text(&both.stderr);
        assert!(said.contains("no access is of all that --function, --file, --type and --variable ask for"), "{said}");
    }
}

#[test]
fn a_program_that_makes_no_access_is_told_from_one_that_is_not_instrumented() {
    let scratch = tempfile::tempdir().unwrap();
    let program = compiled(&scratch, "int main(int n, char **a) { (void)a; return n; }");
    let output = slimline().args(["trace", "--live", "--report", "-", "--"]).arg(&program).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("nothing was traced: the program's instrumented code made no access"), "{said}");
}

#[test]
fn blocks_of_one_line_are_told_apart_by_who_called() {
    let scratch = tempfile::tempdir().unwrap();
    let program = compiled(
        &scratch,
        r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
__attribute__((noinline)) static void *take(size_t bytes) { void *block = malloc(bytes); if (!block) abort(); return block; }
__attribute__((noinline)) static long *numbers(int n) { long *all = take(n * sizeof *all); for (int i = 0; i < n; i++) all[i] = i * i % 7; return all; }
__attribute__((noinline)) static char *name(int n) { char *text = take(n + 1); for (int i = 0; i < n; i++) text[i] = 'a' + i % 26; text[n] = 0; return text; }
int main(void) {
    long sum = 0;
    for (int round = 0; round < 3; round++) {
        long *all = numbers(100);
        char *text = name(50);
        for (int i = 0; i < 100; i++) sum += all[i];
        sum += text[49];
        free(all), free(text);
    }
    printf("%ld\n", sum);
}
"#,
    );
    let report = |options: &[&str]| {
        let output = slimline()
            .arg("trace")
            .args(options)
            .args(["--live", "--report", "-", "--format", "json", "--"])
            .arg(&program)
            .output();
        let stdout = output.unwrap().stdout;
        let json = text(&stdout).split_once('\n').map(|(_, json)| json.to_owned());
        serde_json::from_str::<Value>(&json.unwrap()).unwrap()
    };
    let heap = |report: &Value| {
        let row = |row: &Value| {
            let callers = row["callers"].as_array().unwrap().iter().map(|caller| caller["function"].as_str().unwrap());
            (callers.collect::<Vec<_>>().join(" < "), row["blocks"].as_u64().unwrap(), row["loads"].as_u64().unwrap())
        };
        report["heap"].as_array().unwrap().iter().map(row).collect::<Vec<_>>()
    };
    assert_eq!(heap(&report(&[])), [(String::new(), 6, 303)]);
    let told = report(&["--callers"]);
    assert_eq!(heap(&told), [("numbers < main".to_owned(), 3, 300), ("name < main".to_owned(), 3, 3)]);
    let calls = |name: &str| {
        let functions = told["functions"].as_array().unwrap();
        functions.iter().find(|function| function["name"] == name).map(|function| function["calls"].clone())
    };
    assert_eq!([calls("take"), calls("numbers"), calls("main")], [Some(6.into()), Some(3.into()), Some(1.into())]);
    let shown =
        slimline().args(["trace", "--callers", "--live", "--report", "-", "--"]).arg(&program).output().unwrap().stdout;
    assert!(text(&shown).contains(" < numbers") && text(&shown).contains(" < name"), "{}", text(&shown));
}

#[test]
fn the_compiler_s_help_has_slimline_s_own_options() {
    let output = slimline().args(["cc", "--help"]).output().unwrap();
    let said = text(&output.stdout);
    assert!(output.status.success() && said.starts_with("Options of slimline's own:\n  --slimline-values"), "{said}");
    assert!(said.contains("-fsyntax-only"), "clang's own are there, too");
}
