//! What is known of a run of which not all is traced: blocks from before, and functions in which that takes no effect.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use slimline_instrument::driver::HEADER;

use super::compiled::compiled_with;
use super::{report, slimline, text};

fn traced(program: &Path, options: &[&str]) -> Value {
    let mut command = slimline();
    command.args(["trace", "--live", "--format", "json"]).args(options).arg("--").arg(program);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    report(&output)
}

fn program(source: &str, options: &[&str]) -> (tempfile::TempDir, std::path::PathBuf) {
    let scratch = tempfile::tempdir().unwrap();
    fs::write(scratch.path().join("slimline.h"), HEADER).unwrap();
    let program = compiled_with(&scratch, source, options);
    (scratch, program)
}

/// Blocks that a program makes before it has tracing begin: in functions of both versions, with and without loops, in those that
/// have one version, and in the one that says so.
#[test]
fn blocks_from_before_tracing_began_are_known() {
    const SOURCE: &str = r#"
#include "slimline.h"
#include <setjmp.h>
#include <stdlib.h>
struct node { struct node *next; long key; };
__attribute__((noinline)) static struct node *list(long n) {
    struct node *first = 0;
    for (long i = 0; i < n; i++) { struct node *new = malloc(sizeof *new); new->next = first; new->key = i; first = new; }
    return first;
}
__attribute__((noinline)) static long *table(long n) { return calloc(n, sizeof(long)); }
__attribute__((noinline)) static char *jumper(long n) {
    jmp_buf here;
    if (setjmp(here)) return 0;
    return malloc(n);
}
__attribute__((noinline)) static long *grown(long *old, long n) { return realloc(old, n * sizeof *old); }
/* Functions of their own: loops that call nothing look now and then only. */
__attribute__((noinline)) static long keys(struct node *at) { long sum = 0; for (; at; at = at->next) sum += at->key; return sum; }
__attribute__((noinline)) static void count(volatile long *counts) { for (int i = 0; i < 100; i++) counts[i] = i; }
__attribute__((noinline)) static void mark(volatile char *bytes) { for (int i = 0; i < 64; i++) bytes[i] = 1; }
__attribute__((noinline)) static long add(volatile short *own) { long sum = 0; for (int i = 0; i < 200; i++) sum += own[i] * 0; return sum; }
__attribute__((noinline)) static void put(volatile long *later, long sum) { later[3] = sum; }
int main(void) {
    slimline_stop();
    struct node *nodes = list(1000);
    long *counts = grown(table(10), 100);
    char *bytes = jumper(64);
    short *own = malloc(200 * sizeof *own);
    free(table(5000));
    slimline_start();
    long sum = keys(nodes) + add(own);
    count(counts);
    mark(bytes);
    slimline_stop();
    long *later = table(7);
    slimline_start();
    put(later, sum);
    return sum != 499500;
}
"#;
    let (_scratch, program) = program(SOURCE, &["-fno-vectorize", "-fno-unroll-loops", "-fno-builtin-memset"]);
    for options in [&[][..], &["--paused"]] {
        let report = traced(&program, options);
        let groups = report["heap"].as_array().unwrap().iter().map(|group| {
            let number = |name: &str| group[name].as_u64().unwrap();
            let function = group["function"].as_str().unwrap().to_owned();
            (function, [number("blocks"), number("loads"), number("stores")])
        });
        let mut groups: Vec<_> = groups.collect();
        groups.sort();
        let row = |function: &str, numbers| (function.to_owned(), numbers);
        let expected = [
            row("grown", [1, 0, 100]),
            row("jumper", [1, 0, 64]),
            row("list", [1000, 2000, 0]),
            row("main", [1, 200, 0]),
            row("table", [3, 0, 1]),
        ];
        assert_eq!(groups, expected, "{options:?}");
        assert!(!report["missing"].to_string().contains("freed"), "{}", report["missing"]);
    }
}

/// The same of blocks between windows, by several threads, which go on in their functions.
#[test]
fn blocks_from_between_windows_are_known() {
    const SOURCE: &str = r#"
#include <pthread.h>
#include <stdlib.h>
enum { THREADS = 3, BLOCKS = 200000 };
__attribute__((noinline)) static long use(volatile long *block) { long sum = 0; for (int i = 0; i < 50; i++) sum += block[i % 4]; return sum; }
static void *work(void *unused) {
    long sum = 0;
    for (int i = 0; i < BLOCKS; i++) { long *block = malloc(32); sum += use(block); free(block); }
    return (void *)(sum & 0);
}
int main(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], 0, work, 0);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
    return 0;
}
"#;
    let (_scratch, program) = program(SOURCE, &["-pthread"]);
    let report = traced(&program, &["--window", "on=300us,off=1ms"]);
    let number = |value: &Value| value.as_u64().unwrap();
    let heap = report["heap"].as_array().unwrap();
    let blocks: u64 = heap.iter().map(|group| number(&group["blocks"])).sum();
    assert!(number(&report["windows"]) >= 2, "{}", report["windows"]);
    // Whatever was traced.
    assert_eq!(blocks, 600_000);
    let (all, of_heap) = (number(&report["total"]["loads"]), number(&report["heap_total"]["loads"]));
    assert!(all > 0 && of_heap * 100 >= all * 99, "{of_heap} of {all}");
}

/// Somebody else closes and opens the gate all the time, also where a chunk ends: each block is told once.
#[test]
fn each_block_is_told_while_another_thread_starts_and_stops() {
    const SOURCE: &str = r#"
#include "slimline.h"
#include <pthread.h>
#include <stdlib.h>
static int over;
static void *toggle(void *unused) {
    for (int i = 0; i < 8000; i++) { slimline_stop(); slimline_start(); }
    __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
    return unused;
}
__attribute__((noinline)) static volatile long *make(void) { return malloc(16); }
__attribute__((noinline)) static void use(volatile long *block) { for (int i = 0; i < 40; i++) block[i % 2] += i; }
int main(void) {
    pthread_t toggles;
    volatile long *counted = calloc(1, sizeof *counted);
    pthread_create(&toggles, 0, toggle, 0);
    long count = 0;
    for (; !__atomic_load_n(&over, __ATOMIC_ACQUIRE); count++) {
        volatile long *block = make();
        use(block);
        free((void *)block);
    }
    pthread_join(toggles, 0);
    /* As many blocks of another size. */
    for (long i = 0; i < count; i++) free(malloc(32));
    return 0;
}
"#;
    let (_scratch, program) = program(SOURCE, &["-pthread", "-fno-builtin-malloc", "-fno-builtin-free"]);
    let report = traced(&program, &[]);
    let blocks = |function: &str, bytes: u64| -> u64 {
        let groups = report["heap"].as_array().unwrap().iter();
        let groups = groups
            .map(|group| (&group["function"], ["blocks", "allocated_bytes"].map(|it| group[it].as_u64().unwrap())));
        let own = groups.filter(|(name, [blocks, all])| *name == function && *all == bytes * blocks);
        own.map(|(_, [blocks, _])| blocks).sum()
    };
    assert!(blocks("main", 32) > 1000, "{}", report["heap"]);
    assert_eq!(blocks("make", 16), blocks("main", 32));
}

/// Who notes a block at the end of a chunk while the gate is open goes on in the next one: callers stay known.
#[test]
fn notes_while_the_gate_is_open_leave_the_stack_known() {
    const SOURCE: &str = r#"
#include "slimline.h"
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
static sem_t to_stop, stopped, to_start, started;
static volatile long state[20];
static void *toggle(void *unused) {
    sem_wait(&to_stop);
    slimline_stop();
    sem_post(&stopped);
    sem_wait(&to_start);
    slimline_start();
    sem_post(&started);
    return unused;
}
/* In its loop nobody asks the gate. */
__attribute__((noinline)) static void untraced(void) {
    sem_post(&to_start);
    sem_wait(&started);
    long next = 0;
    for (long i = 0; i < 30000; i++) {
        switch (next) {
#define CASE(n) case n: state[n] += i; free(malloc(24 + n)); next = state[(n * 7 + 3) % 20] % 20; break;
        CASE(0) CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12)
        CASE(13) CASE(14) CASE(15) CASE(16) CASE(17) CASE(18) CASE(19)
        }
    }
}
static void *volatile kept;
__attribute__((noinline)) static void take(void) { kept = malloc(4096); state[0]++; }
__attribute__((noinline)) static void caller(void) {
    state[0]++;
    sem_post(&to_stop);
    sem_wait(&stopped);
    untraced();
    take();
    state[0]++;
}
int main(void) {
    pthread_t thread;
    sem_init(&to_stop, 0, 0); sem_init(&stopped, 0, 0); sem_init(&to_start, 0, 0); sem_init(&started, 0, 0);
    pthread_create(&thread, 0, toggle, 0);
    caller();
    pthread_join(thread, 0);
    return 0;
}
"#;
    let (_scratch, program) = program(SOURCE, &["-O2", "-pthread", "-fno-builtin-malloc", "-fno-builtin-free"]);
    let report = traced(&program, &["--callers"]);
    let heap = report["heap"].as_array().unwrap();
    let noted =
        heap.iter().filter(|group| group["function"] == "untraced").map(|group| group["blocks"].as_u64().unwrap());
    assert_eq!(noted.sum::<u64>(), 30_000);
    let taken: Vec<_> = heap.iter().filter(|group| group["function"] == "take").collect();
    let [taken] = taken[..] else { panic!("{taken:?}") };
    let callers = taken["callers"].as_array().unwrap().iter().map(|caller| caller["function"].as_str().unwrap());
    assert_eq!(callers.collect::<Vec<_>>(), ["caller", "main"]);
}

/// Threads that allocate while the gate is closed keep a chunk each: where there is none left it is told that blocks are missing.
#[test]
fn blocks_for_which_no_chunk_is_left_are_counted() {
    const CROWD: &str = r#"
#include "slimline.h"
#include <pthread.h>
#include <stdlib.h>
enum { THREADS = 600 };
static pthread_barrier_t all;
static void *volatile kept;
static void *work(void *unused) {
    for (int i = 0; i < 3; i++) kept = malloc(16);
    pthread_barrier_wait(&all);
    return unused;
}
int main(void) {
    slimline_stop();
    pthread_t threads[THREADS];
    pthread_barrier_init(&all, 0, THREADS);
    for (int i = 0; i < THREADS; i++) if (pthread_create(&threads[i], 0, work, 0)) abort();
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
    slimline_start();
    return 0;
}
"#;
    // Handlers within handlers: more than have a stream of their own.
    const DEEP: &str = r#"
#include "slimline.h"
#include <signal.h>
#include <stdlib.h>
static void *volatile kept;
static void handler(int number) {
    kept = malloc(16);
    if (number < SIGRTMIN + 6) raise(number + 1);
}
int main(void) {
    slimline_stop();
    for (int i = 0; i < 7; i++) signal(SIGRTMIN + i, handler);
    raise(SIGRTMIN);
    slimline_start();
    return 0;
}
"#;
    for (source, least, most) in [(CROWD, 600 - 512, 600), (DEEP, 1, 1)] {
        let (_scratch, program) = program(source, &["-pthread"]);
        let report = traced(&program, &[]);
        let missing = report["missing"].as_array().unwrap().iter().map(|missing| missing.as_str().unwrap());
        let thrown: Vec<_> = missing.filter_map(|it| it.split_once(" chunks of 256 KiB were thrown away")).collect();
        let [(before, _)] = thrown[..] else { panic!("{}", report["missing"]) };
        let count: u64 = before.rsplit(' ').next().unwrap().parse().unwrap();
        assert!((least..=most).contains(&count), "{before}");
    }
}

const DISPATCH: &str = r#"
#include "slimline.h"
static volatile long state[20];
int main(void) {
    long next = 0;
    for (long i = 0; i < 1000; i++) {
        if (i == 500) slimline_start();
        switch (next) {
#define CASE(n) case n: state[n] += i; next = state[(n * 7 + 3) % 20] % 20; break;
        CASE(0) CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) CASE(9) CASE(10) CASE(11) CASE(12)
        CASE(13) CASE(14) CASE(15) CASE(16) CASE(17) CASE(18) CASE(19)
        }
    }
    return 0;
}
"#;

#[test]
fn functions_in_whose_loops_nobody_asks_are_named() {
    const MIDDLE: &str = r#"
#include "slimline.h"
static volatile long touched;
int main(int count, char **arguments) {
    long i = 0;
    if (count > 1) goto middle;
    for (;;) {
        touched += i;
        if (i == 500) slimline_start();
middle:
        touched ^= i;
        if (++i > 1000) return 0;
    }
}
"#;
    for (source, options, reason) in [
        (DISPATCH, &["-O2"][..], "a loop jumps to 16 places or more"),
        (MIDDLE, &["-O0"], "a loop is entered in its middle"),
    ] {
        let (scratch, program) = program(source, options);
        let report = traced(&program, &["--paused"]);
        let [told] = &report["unasked"].as_array().unwrap()[..] else { panic!("{report}") };
        assert_eq!((&told["function"], &told["reason"]), (&json!("main"), &json!(reason)));
        assert!(told["file"].as_str().unwrap().ends_with("program.c"), "{told}");
        assert_eq!(report["total"]["accesses"], 0);
        // Recorded, too, and in words.
        let trace = scratch.path().join("trace");
        let recorded = slimline().args(["trace", "--paused", "-o"]).arg(&trace).arg("--").arg(&program).status();
        assert!(recorded.unwrap().success());
        let shown = slimline().args(["trace", "--live", "--paused", "--"]).arg(&program).output().unwrap().stderr;
        assert!(text(&shown).contains(&format!("program.c): {reason}\n")), "{}", text(&shown));
        // Who traces everything need not know.
        assert_eq!(traced(&program, &[])["unasked"], json!([]));
    }
}

/// Loops that call nothing ask now and then only, but where the function itself says that tracing begins.
#[test]
fn a_short_loop_behind_start_is_traced() {
    const SOURCE: &str = r#"
#include "slimline.h"
static int a[1000];
int main(void) {
    slimline_start();
    for (int i = 0; i < 1000; i++) ((volatile int *)a)[i] = i;
    slimline_stop();
    for (int i = 0; i < 1000; i++) ((volatile int *)a)[i] = i;
    return 0;
}
"#;
    for level in ["-O0", "-O2"] {
        let (_scratch, program) = program(SOURCE, &[level, "-fno-unroll-loops"]);
        let report = traced(&program, &["--paused"]);
        let rows = report["variables"].as_array().unwrap();
        let a = rows.iter().find(|row| row["name"] == "a").unwrap_or_else(|| panic!("{level}: {report}"));
        assert_eq!(a["stores"], 1000, "{level}");
    }
}
