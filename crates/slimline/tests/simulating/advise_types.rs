//! `slimline advise TRACE`: fields that become indexes or bits, and elements of arrays that threads share.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use super::advise::{MACHINE, TRACE};
use super::traced::{by_three_threads, json as report_of, slimline, traced, traced_so};

/// What is said of `struct item`, or of whatever has such a name, in a program that is compiled with these options.
fn advised(source: &str, options: &[&str], name: &str) -> (Value, tempfile::TempDir) {
    let directory = traced_so(source, options);
    // Each thread has a core, and waits so long for what another one took that it matters in whatever order they come.
    let machine = MACHINE.replacen('\n', "\ncores = 4\n", 1).replace("latency = 200", "latency = 2000");
    fs::write(directory.path().join("small.toml"), machine).unwrap();
    let report = report_of(directory.path(), &[&["advise"], &TRACE[..]].concat());
    (structure(&report, name), directory)
}

/// What a report says of it.
fn structure(report: &Value, name: &str) -> Value {
    let mut structures = report["structures"].as_array().unwrap().iter();
    let item = structures.find(|of| of["name"].as_str().unwrap().ends_with(name)).cloned();
    item.unwrap_or_else(|| panic!("{report}"))
}

/// What is advised where a patch is asked for.
fn patching(directory: &Path) -> Value {
    report_of(directory, &[&["advise"], &TRACE[..], &["--patch", "change.diff"]].concat())
}

/// The time of a layout that was tried, by which fields have other types.
fn ratio(item: &Value, change: &str, types: [&str; 3]) -> Option<f64> {
    let is_none = |of: &Value| of.as_array().unwrap().is_empty();
    let is_it = |of: &&Value| {
        let has = ["indexed", "bit_fields", "narrowed"].map(|types| if is_none(&of[types]) { "" } else { types });
        of["change"] == change && has == types
    };
    item["tried"].as_array().unwrap().iter().find(is_it).map(|of| of["time_ratio"].as_f64().unwrap())
}

/// A search tree whose nodes are not allocated in the order in which they are found.
const TREE: &str = r#"
#include <stdlib.h>
struct item { long key; struct item *left, *right; };
int main(void) {
    struct item *root = 0;
    unsigned random = 1;
    long sum = 0;
    for (int i = 0; i < 4096; i++) {
        struct item *item = calloc(1, sizeof *item), **place = &root;
        item->key = random = random * 1103515245u + 12345u;
        while (*place) place = item->key < (*place)->key ? &(*place)->left : &(*place)->right;
        *place = item;
    }
    for (int i = 0; i < 40000; i++) {
        random = random * 1103515245u + 12345u;
        for (struct item *item = root; item; item = random < item->key ? item->left : item->right) sum += item->key;
    }
    return sum == 1;
}
"#;

#[test]
fn pointers_of_small_nodes_become_indexes() {
    let (item, directory) = advised(TREE, &[], "item");
    let advice = &item["advice"];
    assert_eq!((&advice["change"], &advice["is_pool"]), (&"indexes".into(), &true.into()), "{item}");
    assert_eq!((&advice["indexed"], &advice["part_bytes"]), (&json!(["left", "right"]), &json!([16])));
    let indexes = ratio(&item, "indexes", ["indexed", "", ""]).unwrap();
    assert!(indexes < ratio(&item, "pool", [""; 3]).unwrap(), "{item}");
    let code = advice["code"].as_str().unwrap();
    // Which of both comes first is up to the keys.
    for field in ["left", "right"] {
        assert!(code.contains(&format!("    uint32_t {field}; // an index, 0: none\n")), "{code}");
    }
    assert!(code.contains("&item_pool[node->left]"), "{code}");
    assert!(advice["cautions"][0].as_str().unwrap().starts_with("only what is in the pool"), "{advice}");

    let text = slimline(directory.path(), &[&["advise"], &TRACE[..]].concat());
    let title = "\n  Make indexes of the pointers {left right} of item: 16 bytes from one pool in the place of 24\n";
    assert!(text.contains(title) && text.contains("\n  indexes, pool *  16 "), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let page = slimline(directory.path(), &[&["advise"], &TRACE[..], &["--format", "html"]].concat());
    assert!(page.contains("indexes, pool (advised)"), "{page}");

    // Indexes are made by hand: a patch makes the best of what it can.
    let report = patching(directory.path());
    let item = structure(&report, "item");
    assert_eq!((&item["advice"]["change"], ratio(&item, "indexes", ["indexed", "", ""])), (&"pool".into(), None));
    assert_eq!(report["patch"]["structures"], json!([{ "structure": item["name"], "refused": null }]));
    let diff = fs::read_to_string(directory.path().join("change.diff")).unwrap();
    assert!(diff.contains("\n+") && diff.contains("pool"), "{diff}");
}

/// A key and ten truths, of which `THREADS` has another thread set one.
const FLAGS: &str = r#"
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
enum { N = 4096 };
struct item { long key; bool a, b, c, d, e; char rest; long f, g, h; };
static struct item *items;
static void *set(void *unused) {
    for (int i = 0; i < N; i++) items[i].h = i % 3 == 0;
    return unused;
}
int main(void) {
    items = calloc(N, sizeof *items);
    long sum = 0;
    for (int i = 0; i < N; i++) {
        items[i].key = i * 1103515245l;
        items[i].a = i & 1, items[i].b = i & 2, items[i].c = i & 4, items[i].d = i & 8, items[i].e = i & 16;
        items[i].rest = i, items[i].f = i % 2, items[i].g = i % 3 == 1;
    }
#ifdef THREADS
    pthread_t thread;
    pthread_create(&thread, 0, set, 0);
    pthread_join(thread, 0);
#else
    set(0);
#endif
    for (int pass = 0; pass < 40; pass++)
        for (int i = 0, j = 0; i < N; i++, j = (j * 13 + pass) % N) {
            struct item *item = &items[j];
            sum += item->key + item->a + item->b + item->c + item->d + item->e + item->rest + item->f + item->g + item->h;
        }
    return sum == 1;
}
"#;

#[test]
fn truths_become_bits_where_narrower_types_are_too_large() {
    let (item, directory) = advised(FLAGS, &["--slimline-values"], "item");
    // 8 + 5 + 1 and three of a byte are 24; seven bits of it are a byte less.
    let advice = &item["advice"];
    assert_eq!((&advice["change"], &advice["part_bytes"]), (&"bit_fields".into(), &json!([16])), "{item}");
    let bits = ratio(&item, "bit_fields", ["", "bit_fields", "narrowed"]).unwrap();
    assert!(bits < ratio(&item, "shrink", ["", "", "narrowed"]).unwrap(), "{item}");
    let code = advice["code"].as_str().unwrap();
    assert!(code.contains(" : 1;\n") && code.contains("// bit-fields: none has an address"), "{code}");
    let cautions = advice["cautions"].as_array().unwrap();
    assert!(cautions.iter().any(|caution| caution.as_str().unwrap().contains("(1 bit)")), "{cautions:?}");
    let text = slimline(directory.path(), &[&["advise"], &TRACE[..]].concat());
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

/// Of what another thread stores nobody makes bits of a byte that the first one stores, too.
#[test]
fn what_another_thread_stores_keeps_its_byte() {
    let (item, _) = advised(FLAGS, &["--slimline-values", "-DTHREADS", "-pthread"], "item");
    let bits: Vec<_> = item["fields"].as_array().unwrap().iter().map(|field| field["bits"].clone()).collect();
    assert_eq!(bits.iter().filter(|bits| **bits == 1).count(), 8, "{item}");
    let packed: Vec<&Value> =
        item["tried"].as_array().unwrap().iter().flat_map(|of| of["bit_fields"].as_array().unwrap()).collect();
    assert!(!packed.is_empty() && packed.iter().all(|field| **field != "h"), "{item}");
}

/// Counters of three threads in one line, as an array of plain numbers.
#[test]
fn numbers_that_threads_share_get_lines_of_their_own() {
    let counts =
        by_three_threads("static long count[4] __attribute__((aligned(64)));", "*(volatile long *)&count[self] += i");
    let (array, directory) = advised(&counts, &["-pthread"], "array count");
    let advice = &array["advice"];
    assert_eq!((&advice["change"], &advice["part_bytes"]), (&"align".into(), &json!([64])), "{array}");
    assert!(advice["predicted"]["first_misses_ratio"].as_f64().unwrap() < 0.5, "{advice}");
    let code = advice["code"].as_str().unwrap();
    assert!(code.starts_with("struct count_line {\n    long count;\n};\n"), "{code}");
    assert!(code.contains("count[i] becomes count[i].count"), "{code}");
    let touched = advice["touched_lines"].as_array().unwrap();
    assert!(touched.iter().any(|line| line.as_str().unwrap().ends_with(":3")), "{touched:?}");
    let text = slimline(directory.path(), &[&["advise"], &TRACE[..]].concat());
    assert!(
        text.contains("Align elements of array count to 64 bytes, so that each element has lines of its own"),
        "{text}"
    );
    assert!(text.contains("array count: 4 elements of 8 bytes"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");

    let report = patching(directory.path());
    let reason = structure(&report, "array count")["reason"].clone();
    assert_eq!(reason, "other layouts of it are made by hand, which are tried without --patch");
    assert!(report["patch"]["structures"].as_array().unwrap().is_empty(), "{report}");
}

/// One thread's array is memory of no structure.
#[test]
fn numbers_of_one_thread_are_none_of_advice() {
    let directory = traced(
        "static volatile long count[4];\nint main(void) { for (int i = 0; i < 9999; i++) count[i % 4]++; return 0; }\n",
    );
    fs::write(directory.path().join("small.toml"), MACHINE).unwrap();
    let report = report_of(directory.path(), &[&["advise"], &TRACE[..]].concat());
    assert_eq!((&report["structures"], report["unknown_share"].as_f64()), (&json!([]), Some(1.0)), "{report}");
}
