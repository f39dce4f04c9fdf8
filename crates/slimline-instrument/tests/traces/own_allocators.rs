//! Allocators of a program's own, as its user tells them.

use slimline_instrument::rewrite::{AllocatorRole, OwnAllocator};
use slimline_trace::stream::sites::SiteKind::{self, Allocate as Allocate_, ResizeBegins, Untraced};

use crate::harness::trace_with;

const SOURCE: &str = r#"
#include <stdio.h>
struct node { struct node *next; long key; };
static char room[1 << 16] __attribute__((aligned(16)));
static volatile long at;
__attribute__((noinline)) void *pool_take(double unused, unsigned bytes, short count) { at += bytes * count; return room + at; }
__attribute__((noinline)) struct node *node_new(void) { at += sizeof(struct node); return (struct node *)(room + at); }
__attribute__((noinline)) int pool_store(void **place, int count) {
    if (count < 0) return 12;
    at += 8 * count;
    *place = room + at;
    return 0;
}
__attribute__((noinline)) void *pool_grow(void *block, long bytes) { at += bytes; return !block || bytes > 1000 ? 0 : room + at; }
__attribute__((noinline)) void pool_give(void *pool, void *block) { at += block == pool; }
__attribute__((noinline)) void *pool_fixed(long bytes) { at += 8; return room + at; }
__attribute__((noinline)) void pool_empty(void *pool) { at = 0; }
__attribute__((noinline)) static void *odd(long unused, long bytes) { at += bytes; return room + at; }
int main(void) {
    void *stored = 0;
    long *numbers = pool_take(0.5, 24, 2);
    numbers[0] = 1;
    struct node *node = node_new();
    node->key = numbers[0];
    int status = pool_store(&stored, 3) + pool_store(&stored, -1);
    void *grown = pool_grow(numbers, 64), *failed = pool_grow(node, 2000);
    pool_give(room, node);
    pool_fixed(8);
    pool_empty(room);
    printf("%ld %d %ld %ld %ld\n", node->key, status, (char *)stored - room, (char *)grown - room, (char *)odd(1, 8) - room);
    return failed != 0;
}
"#;

fn own(function: &str, role: AllocatorRole) -> OwnAllocator {
    OwnAllocator { function: function.to_owned(), role, size: 0, count: 0, block: 0, place: 0, unit_bytes: 1 }
}

#[test]
fn calls_of_allocators_that_are_told() {
    use AllocatorRole::{Allocate, Free, Reset, Resize};
    let functions = vec![
        // What is passed as a floating-point number is in no register that is counted.
        OwnAllocator { size: 1, count: 2, ..own("pool_take", Allocate) },
        OwnAllocator { unit_bytes: 16, ..own("node_new", Allocate) },
        OwnAllocator { place: 1, count: 2, unit_bytes: 8, ..own("pool_store", Allocate) },
        OwnAllocator { block: 1, size: 2, ..own("pool_grow", Resize) },
        OwnAllocator { block: 2, ..own("pool_give", Free) },
        own("pool_empty", Reset),
        OwnAllocator { size: 2, ..own("odd", Allocate) },
        OwnAllocator { size: 1, ..own("pool_fixed", Allocate) },
    ];
    for level in ["-O0", "-O2"] {
        let trace = trace_with(&[("program.c", SOURCE)], &[level], functions.clone());
        let words = |kind, function: &str| {
            let words = trace.words(|site| site.kind == kind && site.detail == function);
            assert!(!words.is_empty(), "{level}: {function}");
            words
        };
        let taken = words(Allocate_, "pool_take");
        let node = words(Allocate_, "node_new");
        let stored = words(Allocate_, "pool_store");
        let start = taken[0][0] - 48;
        assert_eq!(taken, [[start + 48, 48]], "{level}");
        assert_eq!(node, [[start + 64, 16]], "{level}");
        assert_eq!(stored[0], [start + 88, 24], "{level}");
        assert_eq!(stored[1][0], 0, "{level}");
        assert_eq!(words(ResizeBegins, "pool_grow"), [[start + 48], [start + 64]], "{level}");
        assert_eq!(words(SiteKind::Resize, "pool_grow"), [[start + 152, 64], [0, 2000]], "{level}");
        assert_eq!(words(SiteKind::Free, "pool_give"), [[start + 64]], "{level}");
        assert_eq!(trace.count(|site| site.detail == "pool_empty"), 0, "{level}");
        // The optimizer leaves out what the function does not use, or passes anything there.
        let expected = if level == "-O0" { (1, 0) } else { (0, 1) };
        for function in ["odd", "pool_fixed"] {
            let told = trace.count(|site| site.kind == Allocate_ && site.detail == function);
            let unlike = trace.count(|site| site.kind == Untraced && site.detail.contains(function));
            assert_eq!((told, unlike), expected, "{level}: {function}");
        }
    }
}

const TAGS: &str = r#"
#include <cstdarg>
#include <cstdio>
struct tag {};
static char room[1 << 16] __attribute__((aligned(16)));
static volatile long at;
__attribute__((noinline)) void *dots(void *pool, unsigned long bytes, ...) {
    va_list more;
    va_start(more, bytes);
    at += bytes + (bytes > 1000 ? va_arg(more, int) : 0);
    va_end(more);
    return (char *)pool + at;
}
__attribute__((noinline)) void *tagged(unsigned long bytes, tag) { at += bytes; return room + at; }
__attribute__((noinline)) static void *odd(long unused, tag, unsigned long bytes) { at += bytes; return room + at; }
int main(int count, char **) {
    void *blocks[] = {dots(room, 8 * count), tagged(16 * count, tag()), odd(1, tag(), 8 * count)};
    for (void *block : blocks) std::printf("%ld\n", (char *)block - room);
}
"#;

/// No argument is passed for dots, and none need be for an empty class.
#[test]
fn parameters_that_are_not_passed() {
    let allocate = |function, size| OwnAllocator { size, ..own(function, AllocatorRole::Allocate) };
    let functions = vec![allocate("_Z4dotsPvmz", 2), allocate("_Z6taggedm3tag", 1), allocate("_ZL3oddl3tagm", 2)];
    for level in ["-O0", "-O2"] {
        let trace = trace_with(&[("program.cpp", TAGS)], &[level], functions.clone());
        let bytes = |function: &str| {
            let words = trace.words(|site| site.kind == Allocate_ && site.detail == function);
            words.iter().map(|words| words[1]).collect::<Vec<_>>()
        };
        assert_eq!((bytes("_Z4dotsPvmz"), bytes("_Z6taggedm3tag")), (vec![8], vec![16]), "{level}");
        let expected = if level == "-O0" { vec![8] } else { vec![] };
        assert_eq!(bytes("_ZL3oddl3tagm"), expected, "{level}");
    }
}

#[test]
fn what_was_not_told_is_no_allocator() {
    let trace = trace_with(&[("program.c", SOURCE)], &["-O1"], Vec::new());
    assert_eq!(trace.count(|site| matches!(site.kind, Allocate_ | SiteKind::Free)), 0);
}
