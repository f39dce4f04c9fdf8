//! `slimline learn`: which fields say who is accessed together.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::traced::{failed, json, slimline, traced, traced_with_values};

/// Caches that a few hundred objects do not fit in.
const SMALL: &str = r#"
name = "small"
page_walk = 30
cache = [
    { name = "L1", level = 1, holds = "data", size = 1024, line = 64, ways = 4, latency = 4 },
    { name = "L2", level = 2, size = 8192, line = 64, ways = 8, latency = 20 },
]
tlb = [{ name = "DTLB", level = 1, entries = 4, ways = 4, latency = 0, pages = [4096] }]
memory = [{ name = "memory", latency = 200 }]
"#;

/// Points of a line, allocated in an order by chance and visited by walks along it; and what they say of themselves.
const WALKS: &str = r#"
#include <stdlib.h>
struct point { double x; struct point *left, *right; long visits; };
enum { N = 1500 };
static unsigned state = 1;
static unsigned drawn(unsigned end) { return state = state * 1664525u + 1013904223u, (state >> 8) % end; }
__attribute__((noinline)) static double walk(struct point *at, int steps) {
    double sum = 0;
    for (int step = 0; step < steps && at; step++) {
        sum += at->x, at->visits++;
        at = drawn(8) ? at->right : at->left;
    }
    return sum;
}
int main(void) {
    static struct point *points[N];
    static int order[N];
    for (int i = 0; i < N; i++) order[i] = i;
    for (int i = N - 1; i > 0; i--) {
        int j = drawn(i + 1), moved = order[i];
        order[i] = order[j], order[j] = moved;
    }
    for (int i = 0; i < N; i++) points[order[i]] = calloc(1, sizeof **points);
    for (int i = 0; i < N; i++) {
        points[i]->x = i * 0.5;
        points[i]->left = i > 0 ? points[i - 1] : NULL;
        points[i]->right = i + 1 < N ? points[i + 1] : NULL;
    }
    double sum = 0;
    for (int round = 0; round < 200; round++) sum += walk(points[drawn(N)], 100);
    return sum == 0;
}
"#;

/// Items that each point to an element of an array, which says where they are in the row that is walked.
const ELEMENTS: &str = r#"
#include <stdlib.h>
struct cell { double x; long visits; };
struct item { struct cell *cell; long value; };
enum { N = 600 };
static unsigned state = 1;
static unsigned drawn(unsigned end) { return state = state * 1664525u + 1013904223u, (state >> 8) % end; }
int main(void) {
    static struct item *items[N];
    static int order[N];
    struct cell *cells = malloc(N * sizeof *cells);
    for (int i = 0; i < N; i++) order[i] = i, cells[i].x = i * 0.5, cells[i].visits = 0;
    for (int i = N - 1; i > 0; i--) {
        int j = drawn(i + 1), moved = order[i];
        order[i] = order[j], order[j] = moved;
    }
    for (int i = 0; i < N; i++) items[order[i]] = calloc(1, sizeof **items);
    for (int i = 0; i < N; i++) items[i]->cell = &cells[i];
    double sum = 0;
    for (int round = 0; round < 200; round++)
        for (int at = drawn(N), step = 0; step < 60 && at > 0; step++, at -= 1 + drawn(2))
            sum += items[at]->cell->x, items[at]->value++;
    return sum == 0;
}
"#;

/// An array of structures that is gone through, as is.
const ARRAY: &str = r#"
#include <stdlib.h>
struct row { long key; double value; };
enum { N = 2000 };
int main(void) {
    struct row *rows = malloc(N * sizeof *rows);
    unsigned state = 1;
    for (int i = 0; i < N; i++) rows[i].key = (state = state * 1664525u + 1013904223u) >> 8, rows[i].value = i;
    double sum = 0;
    for (int round = 0; round < 5; round++)
        for (int i = 0; i < N; i++) sum += rows[i].value * rows[i].key;
    return sum == 0;
}
"#;

/// A table of places by hash, looked up for keys by chance.
const TABLE: &str = r#"
#include <stdlib.h>
struct entry { unsigned long key; long value; };
enum { N = 2048 };
static unsigned long hash(unsigned long key) { return (key * 0x9e3779b97f4a7c15ul) >> 53; }
int main(void) {
    struct entry *table = calloc(N, sizeof *table);
    unsigned long state = 1, sum = 0, keys[N / 2];
    for (int i = 0; i < N / 2; i++) {
        keys[i] = state = state * 6364136223846793005ul + 1442695040888963407ul;
        unsigned long at = hash(keys[i]);
        while (table[at].key) at = (at + 1) % N;
        table[at].key = keys[i], table[at].value = i;
    }
    for (int i = 0; i < 20000; i++) {
        state = state * 6364136223846793005ul + 1442695040888963407ul;
        unsigned long key = keys[(state >> 33) % (N / 2)], at = hash(key);
        while (table[at].key != key) at = (at + 1) % N;
        sum += table[at].value;
    }
    return sum == 0;
}
"#;

/// Small objects that are sorted by copying them.
const COPIES: &str = r#"
#include <stdlib.h>
struct pair { long key, value; char name[48]; };
enum { N = 300 };
int main(void) {
    struct pair **pairs = malloc(N * sizeof *pairs), *spare = malloc(sizeof *spare);
    unsigned state = 1;
    for (int i = 0; i < N; i++) pairs[i] = malloc(sizeof **pairs), pairs[i]->key = (state = state * 1664525u + 1013904223u) >> 8;
    for (int i = 1; i < N; i++)
        for (int j = i; j > 0 && pairs[j]->key < pairs[j - 1]->key; j--)
            *spare = *pairs[j], *pairs[j] = *pairs[j - 1], *pairs[j - 1] = *spare;
    return pairs[0]->key == 1;
}
"#;

fn learned(directory: &Path) -> Value {
    fs::write(directory.join("small.toml"), SMALL).unwrap();
    json(directory, &["learn", "run.trace", "--machine", "small.toml", "--trees", "60"])
}

fn of_type<'a>(report: &'a Value, name: &str) -> &'a Value {
    let types = report["types"].as_array().unwrap();
    types.iter().find(|row| row["type_name"] == name).unwrap_or_else(|| panic!("no {name} in {report}"))
}

#[test]
fn a_field_that_says_who_is_near_is_a_hint() {
    let directory = traced_with_values(WALKS);
    let report = learned(directory.path());
    let point = of_type(&report, "point");
    assert_eq!((point["verdict"].as_str(), point["verdict_features"][0].as_str()), (Some("hint"), Some("x")));
    assert_eq!((point["objects"].as_u64(), point["verdict_features"].as_array().unwrap().len()), (Some(1500), 1));
    let first = point["features"][0]["name"].as_str().unwrap();
    assert!(["x", "left->x", "right->x"].contains(&first), "{point}");
    let accuracy = |of: &str| point[of]["mean"].as_f64().unwrap();
    assert!(accuracy("accuracy_of_fields") > 0.8 && accuracy("accuracy_of_place") < 0.3, "{point}");
    assert!(point["code"].as_str().unwrap().contains("tidy_create(1,"), "{point}");
    let saves = (point["hint_saves"].as_f64().unwrap(), report["layout"]["saved_of_allocated"].as_f64().unwrap());
    assert!(saves.0 > 0.1 && saves.0 < 1.2 * saves.1, "{saves:?}");
    let visits = point["features"].as_array().unwrap().iter().find(|feature| feature["name"] == "visits");
    assert!(visits.is_none(), "all are 0 as they are loaded first: {point}");
    let text = slimline(directory.path(), &["learn", "run.trace", "--machine", "small.toml", "--trees", "60"]);
    assert!(text.contains("Allocate by x: it says who is accessed together."), "{text}");
    assert!(text.lines().filter(|line| !line.starts_with("    ")).all(|line| line.chars().count() <= 100), "{text}");
    // The same in every run.
    assert_eq!(report, learned(directory.path()));
}

#[test]
fn pointers_are_followed_to_elements_of_arrays() {
    let directory = traced_with_values(ELEMENTS);
    let report = learned(directory.path());
    let item = of_type(&report, "item");
    let told = item["features"].as_array().unwrap().iter().find(|feature| feature["name"] == "cell->x");
    let told = told.unwrap_or_else(|| panic!("all of them one cell's: {item}"));
    assert!(told["kind"] == "secondary" && told["known"].as_f64().unwrap() > 0.99, "{item}");
}

#[test]
fn an_array_that_is_gone_through_lies_so_already() {
    let directory = traced_with_values(ARRAY);
    let report = learned(directory.path());
    let row = of_type(&report, "row");
    assert_eq!((row["objects"].as_u64(), row["verdict"].as_str()), (Some(2000), Some("already_so")), "{row}");
}

#[test]
fn a_table_by_hash_needs_another_structure() {
    let directory = traced_with_values(TABLE);
    let report = learned(directory.path());
    // Which is next to which by probing is no reason to move anything.
    let verdicts = ["no_feature", "nothing_to_gain", "already_so"].map(Some);
    assert!(verdicts.contains(&of_type(&report, "entry")["verdict"].as_str()), "{report}");
}

#[test]
fn objects_that_are_copied_about_are_told() {
    let directory = traced_with_values(COPIES);
    assert_eq!(of_type(&learned(directory.path()), "pair")["verdict"], "moved_about");
}

/// Four types, all accessed by chance, that of the fewest objects last.
const BY_CHANCE: &str = r#"
#include <stdlib.h>
struct a { long x; }; struct b { long x, y; }; struct c { long x, y, z; }; struct d { long x, y, z, w; };
enum { N = 400 };
static unsigned state = 1;
static unsigned drawn(unsigned end) { return state = state * 1664525u + 1013904223u, (state >> 8) % end; }
int main(void) {
    static struct a *as[N]; static struct b *bs[N]; static struct c *cs[N]; static struct d *ds[N / 2];
    for (int i = 0; i < N; i++) (as[i] = malloc(sizeof **as))->x = drawn(N), (bs[i] = malloc(sizeof **bs))->x = drawn(N);
    for (int i = 0; i < N; i++) (cs[i] = malloc(sizeof **cs))->x = drawn(N), (ds[i / 2] = malloc(sizeof **ds))->x = drawn(N);
    long sum = 0;
    for (int i = 0; i < 20000; i++) sum += as[drawn(N)]->x + bs[drawn(N)]->x + cs[drawn(N)]->x;
    for (int i = 0; i < 2000; i++) sum += ds[drawn(N / 2)]->x;
    return sum == 0;
}
"#;

#[test]
fn where_nothing_is_found_the_three_largest_types_are_looked_at_alone() {
    let directory = traced_with_values(BY_CHANCE);
    let report = learned(directory.path());
    assert_eq!(report["of_three_types"], true, "{report}");
    let types = report["types"].as_array().unwrap();
    assert!(types.iter().all(|row| row["verdict"] == "no_feature" && row["type_name"] != "d"), "{report}");
}

#[test]
fn an_order_can_be_written_by_a_field() {
    let directory = traced_with_values(WALKS);
    let order = ["layout", "run.trace", "--machine", "pena-sp", "--order", "xs", "--order-by"];
    slimline(directory.path(), &[&order[..], &["point.x"]].concat());
    let written = fs::read_to_string(directory.path().join("xs")).unwrap();
    let mut xs: Vec<f64> = written.lines().map(|line| line.parse().unwrap()).collect();
    // Along the line, in one direction or the other, mostly.
    let near = xs.windows(2).filter(|pair| (pair[0] - pair[1]).abs() < 3.0).count();
    assert!(near > 1200, "{near}");
    xs.sort_by(f64::total_cmp);
    assert_eq!(xs, (0..1500).map(|number| f64::from(number) * 0.5).collect::<Vec<_>>());
    let said = failed(directory.path(), &[&order[..], &["y"]].concat());
    assert!(said.contains("--order-by y: no object of run.trace has such a field; there are point.left"), "{said}");
}

#[test]
fn a_trace_without_values_says_so() {
    let directory = traced(WALKS);
    let text = slimline(directory.path(), &["learn", "run.trace", "--trees", "20"]);
    assert!(text.contains("--slimline-values"), "{text}");
    let said = failed(directory.path(), &["layout", "run.trace", "--order", "xs", "--order-by", "x"]);
    assert!(said.contains("--order-by x: run.trace tells no values"), "{said}");
}
