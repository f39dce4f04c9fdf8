//! Records that go on from block to block, and addresses without words.

use slimline_trace::stream::sites::SiteKind::{Fill, Load, Store};

use crate::SCALAR;
use crate::harness::trace_c;

const WALK: &str = r#"
#include <stdio.h>
#include <string.h>
struct node { struct node *next; long kind, value, weight; };
static struct node nodes[60];
__attribute__((noinline)) static long walk(struct node *list) {
    long sum = 0;
    for (struct node *n = list; n; n = n->next) {
        switch (n->kind) {
        case 0: sum += n->value; break;
        case 1: sum -= n->weight; n->value = sum; break;
        case 2: if (n->value > 30) { memset(&n->value, 0, sum & 8); n->weight++; } break;
        default: break;
        }
    }
    return sum;
}
int main(void) {
    for (long i = 0; i < 60; i++) nodes[i] = (struct node){ i ? &nodes[i - 1] : NULL, i % 4, i, 60 - i };
    printf("%ld\n", walk(&nodes[59]));
}
"#;

#[test]
fn a_record_tells_a_path() {
    let trace = trace_c(WALK, SCALAR);
    let at = |kind, field: &str| -> Vec<u64> {
        let words = trace.words(|site| site.is(kind, "walk") && site.field == field);
        words.into_iter().map(|words| words[0]).collect()
    };
    let kinds = at(Load, "kind");
    assert_eq!(kinds.len(), 60);
    // The list is walked from the last one to the first.
    let first = kinds[59];
    let of = |index: u64, offset: u64| first + index * 32 + offset - 8;
    let each = |of_kind: u64, offset: u64| (0..60).rev().filter(move |i| i % 4 == of_kind).map(move |i| of(i, offset));
    let all = |is_meant: &dyn Fn(u64) -> bool, offset| {
        (0..60).rev().filter(|i| is_meant(*i)).map(|i| of(i, offset)).collect()
    };
    let expected: Vec<u64> = all(&|_| true, 8);
    assert_eq!(kinds, expected);
    let expected: Vec<u64> = all(&|_| true, 0);
    assert_eq!(at(Load, "next"), expected);
    let expected: Vec<u64> = all(&|i| i % 4 == 0 || i % 4 == 2, 16);
    assert_eq!(at(Load, "value"), expected);
    assert_eq!(at(Store, "value"), each(1, 16).collect::<Vec<_>>());
    let expected: Vec<u64> = all(&|i| i % 4 == 1 || i % 4 == 2 && i > 30, 24);
    assert_eq!(at(Load, "weight"), expected);
    let expected: Vec<u64> = all(&|i| i % 4 == 2 && i > 30, 24);
    assert_eq!(at(Store, "weight"), expected);
    assert_eq!(trace.count(|site| site.is(Fill, "walk")), 7);
    // The walk's step is where all ways meet again: a record of its own. All else is as far from the kind as ever.
    let table = &trace.modules[0].1;
    let sites = table.sites.iter().filter(|site| table.name(site.function) == "walk" && site.kind.is_plain());
    let with_words: Vec<_> = sites.filter(|site| site.relative.is_none()).map(|site| table.name(site.field)).collect();
    assert_eq!(with_words, ["kind", "next"]);
    let going_on = table.segments.iter().filter(|segment| segment.continues.is_some()).count();
    assert_eq!(going_on, 5, "of the kinds 0 and 1, of 2 before and behind its condition, and the end");
}

#[test]
fn elements_that_are_always_as_far_from_each_other_have_one_word() {
    const SOURCE: &str = r#"
#include <stdio.h>
struct point { double x, y; int tag[3]; };
struct point points[40];
__attribute__((noinline)) static double near(const struct point *p, long n, long k) {
    double sum = 0;
    for (long i = 1; i + 1 < n; i++) sum += p[i - 1].x * p[i].y + p[i + 1].x + p[i].tag[2] + p[k].x;
    return sum;
}
int main(int argc, char **argv) { (void)argv; printf("%g\n", near(points, 39 + argc, 6 + argc)); }
"#;
    let trace = trace_c(SOURCE, SCALAR);
    let words = |field: &str| trace.words(|site| site.is(Load, "near") && site.field == field);
    let xs: Vec<u64> = words("x").into_iter().map(|words| words[0]).collect();
    let start = *xs.iter().min().unwrap();
    for (field, offset) in [("y", 8), ("tag[]", 24)] {
        let expected: Vec<_> = (1..39).map(|i| vec![start + i * 32 + offset]).collect();
        assert_eq!(words(field), expected, "{field}");
    }
    let is_seventh = |address: &&u64| **address == start + 7 * 32;
    assert_eq!((xs.len(), xs.iter().filter(is_seventh).count()), (3 * 38 - 37, 3));
    let table = &trace.modules[0].1;
    let with_words = table
        .sites
        .iter()
        .filter(|site| table.name(site.function) == "near" && site.kind.is_plain() && site.relative.is_none());
    assert_eq!(
        with_words.count(),
        3,
        "of the element, of p[k].x before the loop, and of the next one: LLVM counts i + 1 apart"
    );
}
