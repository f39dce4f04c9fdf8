//! Functions' beginnings and ends.

use slimline_trace::stream::sites::SiteKind::*;

use crate::harness::{Trace, trace_c, trace_cpp};

/// What ran in the first thread: names of functions as they begin, each with how many are around it; ends must be theirs.
fn calls(trace: &Trace) -> Vec<(String, usize)> {
    let (mut around, mut calls) = (Vec::new(), Vec::new());
    for execution in &trace.executions {
        let name = trace.linked(execution);
        match trace.site(execution).kind {
            Enter | EnterFrame => {
                calls.push((name.to_owned(), around.len()));
                around.push(name);
            }
            Leave => {
                // What an exception left has no end.
                while around.pop().expect("the end of nothing") != name {}
            }
            _ => {}
        }
    }
    assert!(around.is_empty(), "{around:?}");
    calls
}

#[test]
fn each_call_is_told() {
    const SOURCE: &str = r#"
#include <stdio.h>
#include <stdlib.h>
static volatile int touched;
__attribute__((noinline)) static int leaf(int n) { return n * touched; }
__attribute__((noinline)) static int early(int n) { if (n > 1) return 7; touched++; return leaf(n) + 1; }
__attribute__((noinline)) static int deep(int n) { touched++; return n ? deep(n - 1) * 3 + n : 0; }
__attribute__((noinline)) static void *made(int n) { return malloc(n); }
__attribute__((noinline)) static int jumped(int n) { touched++; [[clang::musttail]] return leaf(n); }
__attribute__((noinline)) static int sum(int count, ...) { touched += count; return leaf(count); }
int main(void) {
    int all = early(2) + early(0) + deep(2) + jumped(3) + sum(1, 2);
    free(made(8));
    printf("%d\n", all);
    return 0;
}
"#;
    for level in ["-O2", "-O0"] {
        let trace = trace_c(SOURCE, &[level, "-fno-inline", "-fno-optimize-sibling-calls"]);
        let calls = calls(&trace);
        // What takes its caller's place is called by who called that.
        let expected = [
            ("main", 0),
            ("early", 1),
            ("early", 1),
            ("leaf", 2),
            ("deep", 1),
            ("deep", 2),
            ("deep", 3),
            ("jumped", 1),
            ("leaf", 1),
            ("sum", 1),
            ("leaf", 2),
        ];
        let found: Vec<_> = calls.iter().map(|(name, depth)| (name.as_str(), *depth)).collect();
        assert_eq!(&found[..expected.len()], expected, "{level}");
        assert_eq!(found.last(), Some(&("made", 1)), "{level}");
    }
}

#[test]
fn what_an_exception_leaves_ends_with_who_catches_it() {
    const SOURCE: &str = r#"
#include <cstdio>
static volatile int touched;
struct guard { ~guard() { touched = touched + 1; } };
[[gnu::noinline]] static int thrower(int i) { touched = touched + 1; if (i) throw i; return 1; }
[[gnu::noinline]] static int passed(int i) { touched = touched + 1; int got = thrower(i); return got + touched; }
[[gnu::noinline]] static int guarded(int i) { guard g; return passed(i) + 1; }
[[gnu::noinline]] static int catcher(int i) { try { return guarded(i); } catch (int caught) { touched = touched + caught; return 5; } }
[[gnu::noinline]] static int after() { return touched; }
int main() { int all = catcher(0) + catcher(1) + after(); std::printf("%d\n", all); }
"#;
    let trace = trace_cpp(SOURCE, &["-O1"]);
    let calls = calls(&trace);
    let depth = |name: &str| {
        let of_name = calls.iter().filter(|(linked, _)| linked.contains(name));
        of_name.map(|(_, depth)| *depth).collect::<Vec<_>>()
    };
    assert_eq!(
        [depth("catcher"), depth("guarded"), depth("passed"), depth("thrower")],
        [[1; 2], [2; 2], [3; 2], [4; 2]]
    );
    assert_eq!(depth("after"), [1]);
}

#[test]
fn what_goes_on_is_told_with_the_frame_that_it_began_with() {
    const SOURCE: &str = r#"
#include <setjmp.h>
#include <stdio.h>
static volatile int touched;
static jmp_buf place;
__attribute__((noinline)) static void jump(int n) { touched++; if (n) jump(n - 1); else longjmp(place, 1); touched++; }
__attribute__((noinline)) static int dive(int n) {
    touched++;
    if (n == 2) { if (setjmp(place)) return touched; }
    if (n == 0) jump(3);
    int all = dive(n - 1);
    touched++;
    return all;
}
int main(void) { printf("%d\n", dive(4)); return 0; }
"#;
    for level in ["-O2", "-O0"] {
        let trace = trace_c(SOURCE, &[level]);
        let frames = |kind| trace.words(|site| site.is(kind, "dive")).concat();
        let (began, goes_on) = (frames(EnterFrame), frames(GoesOn));
        // Calls with 4, 3, 2, 1, 0; the stack grows downwards.
        assert_eq!(began.len(), 5, "{level}");
        assert!(began.is_sorted_by(|one, other| one > other), "{level}: {began:x?}");
        assert_eq!(goes_on, [began[2]; 2], "{level}: {began:x?}");
        // Who never goes on says no more than before.
        assert_eq!(trace.count(|site| site.is(Enter, "jump")), 4, "{level}");
        assert_eq!(trace.count(|site| site.is(EnterFrame, "jump") || site.is(GoesOn, "jump")), 0, "{level}");
    }
}
