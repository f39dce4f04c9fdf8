//! Small programs that are compiled with tracing and run: what they did is known in closed form.

mod addresses;
mod calls;
mod crossing;
mod driving;
mod gate;
mod harness;
mod names;
mod newer;
mod own_allocators;
mod paths;
mod twin;
mod vectors;

use harness::{Named, trace_c, trace_cpp};
use slimline_trace::stream::sites::SiteKind::*;

/// Neither vectors nor copies of loop bodies: one access each in the source is one in the code.
const SCALAR: &[&str] = &["-O2", "-fno-vectorize", "-fno-slp-vectorize", "-fno-unroll-loops", "-Wall", "-Werror"];

#[test]
fn loop_nests_have_their_closed_form() {
    const SOURCE: &str = r#"
#include <stdio.h>
enum { N = 70, M = 30, K = 11 };
static double a[N][K], b[K][M], c[N][M];
__attribute__((noinline)) static void fill(void) {
    for (int i = 0; i < N; i++) for (int k = 0; k < K; k++) a[i][k] = i + k;
    for (int k = 0; k < K; k++) for (int j = 0; j < M; j++) b[k][j] = k - j;
}
__attribute__((noinline)) static void multiply(void) {
    for (int i = 0; i < N; i++)
        for (int j = 0; j < M; j++) {
            double sum = 0;
            for (int k = 0; k < K; k++) sum += a[i][k] * b[k][j];
            c[i][j] = sum;
        }
}
__attribute__((noinline)) static double triangle(void) {
    double sum = 0;
    for (int i = 0; i < M; i++) for (int j = 0; j <= i; j++) sum += c[i][j];
    return sum;
}
int main(void) { fill(); multiply(); printf("%g\n", triangle()); }
"#;
    let (n, m, k) = (70, 30, 11);
    let trace = trace_c(SOURCE, SCALAR);
    let count = |kind, function, variable| {
        trace.count(|site| site.is(kind, function) && site.variable == variable && site.bytes == 8)
    };
    assert_eq!(count(Store, "fill", "a"), n * k);
    assert_eq!(count(Store, "fill", "b"), k * m);
    assert_eq!(count(Load, "multiply", "a"), n * m * k);
    assert_eq!(count(Load, "multiply", "b"), n * m * k);
    assert_eq!(count(Store, "multiply", "c"), n * m);
    assert_eq!(count(Load, "triangle", "c"), m * (m + 1) / 2);
    // Nothing else but that.
    let is_access = |site: Named<'_>| !matches!(site.kind, Enter | EnterFrame | Leave | GoesOn);
    assert_eq!(trace.count(is_access), n * k + k * m + 2 * n * m * k + n * m + m * (m + 1) / 2);
    let addresses = trace.words(|site| site.is(Store, "multiply"));
    assert!(addresses.windows(2).all(|pair| pair[1][0] == pair[0][0] + 8));
}

#[test]
fn a_list_has_its_members() {
    const SOURCE: &str = r#"
#include <stdio.h>
#include <stdlib.h>
struct item { int key; double price; struct item *next; };
__attribute__((noinline)) static struct item *build(int count) {
    struct item *head = NULL;
    for (int i = 0; i < count; i++) {
        struct item *item = malloc(sizeof *item);
        item->key = i;
        item->price = i / 2.0;
        item->next = head;
        head = item;
    }
    return head;
}
__attribute__((noinline)) static double total(const struct item *list) {
    double sum = 0;
    for (; list; list = list->next) sum += list->price;
    return sum;
}
int main(void) {
    struct item *list = build(1000);
    printf("%g\n", total(list));
    while (list) { struct item *next = list->next; free(list); list = next; }
}
"#;
    for options in [SCALAR, &["-O1"], &["-O0"]] {
        let trace = trace_c(SOURCE, options);
        let member = |kind, function: &str, field: &str| {
            trace.count(|site| site.is(kind, function) && site.structure == "item" && site.field == field)
        };
        for field in ["key", "price", "next"] {
            assert_eq!(member(Store, "build", field), 1000, "{field} {options:?}");
        }
        assert_eq!(member(Load, "total", "price"), 1000, "{options:?}");
        assert_eq!(member(Load, "total", "next"), 1000, "{options:?}");
        assert_eq!(member(Load, "main", "next"), 1000, "{options:?}");
        let blocks = trace.words(|site| site.kind == Allocate && site.detail == "malloc" && site.structure == "item");
        assert_eq!(blocks.len(), 1000, "{options:?}");
        let mut freed: Vec<_> = trace.words(|site| site.kind == Free).concat();
        freed.reverse();
        assert_eq!(freed, blocks.iter().map(|words| words[0]).collect::<Vec<_>>());
        assert!(blocks.iter().all(|words| words[1] == 24));
        let prices = trace.words(|site| site.is(Load, "total") && site.field == "price").concat();
        assert!(prices.iter().zip(blocks.iter().rev()).all(|(price, block)| *price == block[0] + 8));
    }
}

#[test]
fn exceptions_keep_every_record() {
    const SOURCE: &str = r#"
#include <cstdio>
#include <memory>
struct error { int code; };
int before, after, landed, unwound;
struct guard { ~guard() { *(volatile int *)&unwound += 1; } };
[[gnu::noinline]] void thrower(int i) { *(volatile int *)&before += 1; if (i % 3 == 0) throw error{i}; *(volatile int *)&after += 1; }
[[gnu::noinline]] int middle(int i) { guard g; thrower(i); return i; }
int main() {
    int sum = 0;
    for (int i = 0; i < 300; i++) {
        try { sum += middle(i); std::unique_ptr<int> p(new int(i)); sum += *(volatile int *)p.get(); }
        catch (const error &e) { *(volatile int *)&landed += 1; sum -= e.code; }
    }
    std::printf("%d %d %d %d %d\n", sum, before, after, landed, unwound);
}
"#;
    for options in [SCALAR, &["-O0"], &["-O3"]] {
        let trace = trace_cpp(SOURCE, options);
        let stores = |variable: &str| trace.count(|site| site.kind == Store && site.variable == variable);
        assert_eq!((stores("before"), stores("after"), stores("landed"), stores("unwound")), (300, 200, 100, 300));
        let allocated = trace.count(|site| site.kind == Allocate && site.detail == "_Znwm" && site.structure == "int");
        assert_eq!(allocated, 200, "{options:?}");
        assert_eq!(trace.count(|site| site.kind == Free), 200);
    }
}

#[test]
fn calls_that_may_throw_return_into_shared_blocks() {
    // The call returns where the other way goes on too, with phis of its result.
    const SOURCE: &str = r#"
#include <cstdio>
volatile int called, merged, caught;
[[gnu::noinline]] int callee(int i) { called = called + 1; if (i % 5 == 0) throw i; return i * 2; }
[[gnu::noinline]] int merge(int i, int *slot) {
    int result = 7;
    try { *slot = i; if (i & 1) result = callee(i); } catch (int) { caught = caught + 1; return 0; }
    merged = merged + 1;
    return result + *slot;
}
int main() {
    long sum = 0;
    int slot = 0;
    for (int i = 0; i < 1000; i++) sum += merge(i, &slot);
    std::printf("%ld %d %d %d\n", sum, called, merged, caught);
}
"#;
    for level in ["-O0", "-O1", "-O2", "-O3"] {
        let trace = trace_cpp(SOURCE, &[level]);
        let stores = |variable: &str| trace.count(|site| site.kind == Store && site.variable == variable);
        assert_eq!((stores("called"), stores("merged"), stores("caught")), (500, 900, 100), "{level}");
        assert_eq!(trace.count(|site| site.is(Store, "merge") && site.variable == "slot" && site.bytes == 4), 1000);
    }
}

#[test]
fn long_jumps_keep_every_record() {
    const SOURCE: &str = r#"
#include <setjmp.h>
#include <stdio.h>
static jmp_buf place;
static volatile int deep, tried, caught;
__attribute__((noinline)) static void descend(int depth) { deep++; if (depth == 0) longjmp(place, 1); descend(depth - 1); deep++; }
int main(void) {
    for (volatile int i = 0; i < 50; i++) {
        tried++;
        if (setjmp(place) == 0) descend(9);
        else caught++;
    }
    printf("%d %d %d\n", deep, tried, caught);
}
"#;
    for options in [&["-O2"], &["-O0"]] {
        let trace = trace_c(SOURCE, options);
        let stores = |variable: &str| trace.count(|site| site.kind == Store && site.variable == variable);
        assert_eq!((stores("deep"), stores("tried"), stores("caught")), (500, 50, 50));
    }
}

#[test]
fn copies_fills_and_allocations_say_how_much() {
    const SOURCE: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
struct big { long word[40]; };
__attribute__((noinline)) static long take(struct big big) { return big.word[39]; }
__attribute__((noinline)) static void work(char *to, const char *from, size_t bytes) {
    memcpy(to, from, bytes);
    memmove(to + 1, to, bytes);
    memset(to, 7, bytes);
}
int main(int count, char **arguments) {
    (void)arguments;
    char *block = calloc(count + 3, 50);
    char *larger = realloc(block, count * 400);
    void *aligned = NULL;
    if (posix_memalign(&aligned, 64, count * 100)) return 1;
    work(larger, (char *)aligned, count * 60);
    struct big big = {{0}};
    big.word[39] = count;
    printf("%d %ld\n", larger[5], take(big));
    free(larger);
    free(aligned);
    free(NULL);
}
"#;
    let trace = trace_c(SOURCE, SCALAR);
    let words = |kind| trace.words(|site| site.kind == kind);
    let [zeroed] = &words(AllocateZeroed)[..] else { panic!() };
    assert_eq!(zeroed[1..], [4, 50]);
    assert_eq!(words(ResizeBegins), [[zeroed[0]]]);
    let [resized] = &words(Resize)[..] else { panic!() };
    assert_eq!(resized[1..], [400]);
    let [aligned] = &words(Allocate)[..] else { panic!() };
    assert_eq!((aligned[0] % 64, aligned[1]), (0, 100));
    let copies = trace.words(|site| site.is(Copy, "work"));
    assert_eq!(copies, [[resized[0], aligned[0], 60], [resized[0] + 1, resized[0], 60]]);
    assert_eq!(trace.words(|site| site.is(Fill, "work")), [[resized[0], 60]]);
    assert_eq!(trace.count(|site| site.detail == "by value" && site.bytes == 320), 1);
    assert_eq!(words(Free)[..2], [[resized[0]], [aligned[0]]]);
}

/// Olden's benchmarks, among others: the compiler does not take it for the C library's then, but it is.
#[test]
fn allocations_by_functions_that_are_declared_otherwise() {
    const SOURCE: &str = r#"
#pragma clang diagnostic ignored "-Wincompatible-library-redeclaration"
extern char *malloc(unsigned), *calloc(int, short);
extern void free();
int printf(const char *, ...);
int main(int count, char **arguments) {
    (void)arguments;
    char *block = malloc(count * 24), *zeroed = calloc(count, 70);
    block[count] = 5;
    printf("%d %d\n", block[count], zeroed[count]);
    free(block);
    free(zeroed);
}
"#;
    let trace = trace_c(SOURCE, SCALAR);
    let words = |kind| trace.words(|site| site.kind == kind);
    let ([block], [zeroed]) = (&words(Allocate)[..], &words(AllocateZeroed)[..]) else { panic!() };
    assert_eq!((block[1], &zeroed[1..]), (24, &[1, 70][..]));
    assert_eq!(words(Free), [[block[0]], [zeroed[0]]]);
}

#[test]
fn threads_have_streams_of_their_own() {
    const SOURCE: &str = r#"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
enum { THREADS = 4, ROUNDS = 30000 };
static long counts[THREADS][16];
static atomic_long all;
static void *work(void *number) {
    volatile long *own = counts[(long)number];
    for (int i = 0; i < ROUNDS; i++) { *own += 1; atomic_fetch_add(&all, 1); }
    return NULL;
}
int main(void) {
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    long sum = 0;
    for (int i = 0; i < THREADS; i++) sum += counts[i][0];
    printf("%ld %ld\n", sum, all);
}
"#;
    let trace = trace_c(SOURCE, &["-O2", "-pthread"]);
    assert_eq!(trace.threads, 5);
    assert_eq!(trace.count(|site| site.is(Store, "work")), 120_000);
    assert_eq!(trace.count(|site| site.is(Update, "work") && site.variable == "all"), 120_000);
    assert!(trace.executions.iter().any(|execution| trace.site(execution).is_volatile));
}

#[test]
fn computed_gotos_tail_calls_and_assembly() {
    const SOURCE: &str = r#"
#include <stdio.h>
static volatile long steps;
__attribute__((noinline)) static long interpret(const unsigned char *code) {
    static const void *labels[] = { &&add, &&twice, &&end };
    long value = 1;
    goto *labels[*code++];
add: value += 3; steps++; goto *labels[*code++];
twice: value *= 2; steps++; goto *labels[*code++];
end: return value;
}
static long odd(long n, long sum);
__attribute__((noinline)) static long even(long n, long sum) { steps++; if (n == 0) return sum; [[clang::musttail]] return odd(n - 1, sum + n); }
__attribute__((noinline)) static long odd(long n, long sum) { steps++; [[clang::musttail]] return even(n - 1, sum - n); }
__attribute__((noinline)) static int tagged(void) { int x = 4; __asm__ volatile("addl $1, %0" : "+r"(x) :: "memory"); return x; }
int main(void) {
    unsigned char code[] = { 0, 1, 0, 1, 1, 2 };
    printf("%ld ", interpret(code));
    printf("%ld %d\n", even(1000000, 0), tagged());
}
"#;
    let trace = trace_c(SOURCE, &["-O2"]);
    let stores = |function: &str| trace.count(|site| site.is(Store, function) && site.variable == "steps");
    assert_eq!(stores("interpret"), 5);
    assert_eq!((stores("even"), stores("odd")), (500_001, 500_000));
    assert_eq!(trace.count(|site| site.kind == Untraced && site.detail == "inline assembly"), 1);
}
