//! `slimline layout`: in which order objects should lie.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::traced::{failed, json, slimline, traced};

/// Links nodes of these types in an order by chance.
macro_rules! linked_by_chance {
    () => {
        r#"
static void link_by_chance(struct node **nodes, int n) {
    unsigned state = 1;
    for (int i = n - 1; i > 0; i--) {
        state = state * 1664525u + 1013904223u;
        int j = (state >> 8) % (unsigned)(i + 1);
        struct node *other = nodes[i];
        nodes[i] = nodes[j], nodes[j] = other;
    }
    for (int i = 0; i < n; i++) nodes[i]->next = i + 1 < n ? nodes[i + 1] : NULL;
}
"#
    };
}

/// A list of 4096 nodes, linked in an order by chance and gone through twenty times; what is freed in between is other objects'.
const LIST: &str = concat!(
    r#"
#include <stdlib.h>
struct node { struct node *next; long value; };
"#,
    linked_by_chance!(),
    r#"
__attribute__((noinline)) static long sum(struct node *node) {
    long sum = 0;
    for (; node; node = node->next) sum += node->value;
    return sum;
}
int main(void) {
    enum { N = 4096 };
    static struct node *nodes[N];
    for (int i = 0; i < N; i++) nodes[i] = malloc(sizeof **nodes), nodes[i]->value = i;
    link_by_chance(nodes, N);
    long all = 0;
    for (int round = 0; round < 20; round++) {
        all += sum(nodes[0]);
        long *scratch = malloc(64);
        scratch[0] = all;
        all += scratch[0] & 1;
        free(scratch);
    }
    return all == 0;
}
"#
);

#[test]
fn a_list_is_put_in_its_order() {
    let directory = traced(LIST);
    let report = json(directory.path(), &["layout", "run.trace", "--machine", "pena-sp", "--order", "order.csv"]);
    // Each scratch block is an object of its own, though all have the same memory.
    assert_eq!(report["verdict"]["order"], "hierarchical");
    assert_eq!((report["objects"].as_u64(), report["trace"]["threads"].as_u64()), (Some(4096 + 20), Some(1)));
    let order = |name: &str| report["orders"].as_array().unwrap().iter().find(|row| row["order"] == name).unwrap();
    let of = |name: &str, what: &str| order(name)[what].as_f64().unwrap();
    // By chance two of n are n / 3 apart. In the list's order they are next to each other, but for those that were made one
    // after the other, which are a twentieth of the weight.
    assert!(of("original", "mean_distance") > 1000.0 && of("hierarchical", "mean_distance") < 100.0, "{report}");
    // Two nodes of 32 bytes with what the allocator needs share a line, 128 a page.
    assert!(of("hierarchical", "to_another_line") < 0.75 * of("original", "to_another_line"), "{report}");
    assert!(of("hierarchical", "to_another_page") < 0.2 * of("original", "to_another_page"), "{report}");
    let misses = |name: &str| order(name)["caches"][0]["misses"].as_f64().unwrap();
    assert!(misses("hierarchical") < 0.7 * misses("original"), "{report}");
    assert!(of("hierarchical", "cycles_ratio") < 0.8, "{report}");
    let csv = fs::read_to_string(directory.path().join("order.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + 4116);
    assert!(
        csv.starts_with("place,process,allocation,address,bytes,type,function,file,line,community_1"),
        "{csv:.200}"
    );
    let drawn = ["layout", "run.trace", "--machine", "pena-sp", "--graph-objects", "30", "--graph"];
    for (file, nodes) in [("graph.dot", "[label="), ("graph.graphml", "<node "), ("graph.svg", "<circle ")] {
        slimline(directory.path(), &[&drawn[..], &[file]].concat());
        let text = fs::read_to_string(directory.path().join(file)).unwrap();
        assert_eq!(text.matches(nodes).count(), 30, "{text}");
    }
    slimline(directory.path(), &["layout", "run.trace", "--machine", "pena-sp", "--picture", "pages.svg"]);
    let pages = fs::read_to_string(directory.path().join("pages.svg")).unwrap();
    for order in ["as it was: ", "as allocated: ", "hierarchical: "] {
        assert_eq!(pages.matches(order).count(), 1, "{pages:.2000}");
    }
    assert!(pages.matches("fill-opacity").count() > 300, "{pages:.2000}");
    // Of itself all is known again, and lies as in its own order.
    let twice = ["layout", "run.trace", "--machine", "pena-sp", "--order-from", "run.trace", "--larger-by", "32,256"];
    let twice = json(directory.path(), &twice);
    assert_eq!((&twice["other_run"]["known"], &twice["other_run"]["by"]), (&twice["objects"], &Value::Null));
    let orders = twice["orders"].as_array().unwrap();
    let cycles = |name: &str| orders.iter().find(|row| row["order"] == name).unwrap()["cycles"].as_u64().unwrap();
    assert_eq!(cycles("other_run"), cycles("hierarchical"));
    let larger: Vec<f64> =
        twice["larger"].as_array().unwrap().iter().map(|row| row["cycles_ratio"].as_f64().unwrap()).collect();
    assert!((larger[0] - cycles("hierarchical") as f64 / cycles("allocated") as f64).abs() < 1e-9, "{twice}");
    // Objects that fill lines by themselves gain by their pages only.
    assert!(larger.len() == 3 && larger[0] < larger[2] && larger[2] < 1.01, "{twice}");
    let said = failed(directory.path(), &["layout", "run.trace", "--order-by", "node.value"]);
    assert!(said.starts_with("slimline: --order-by goes with --order FILE"), "{said}");
    let said = failed(directory.path(), &[&drawn[..], &["graph.png"]].concat());
    assert!(said.contains("--graph graph.png: the name says how to write it"), "{said}");
    let said = failed(directory.path(), &["layout", "run.trace", "--picture", "pages.png"]);
    assert!(said.starts_with("slimline: --picture pages.png: what is written is an SVG"), "{said}");
    assert!(!directory.path().join("pages.png").exists());
    // The same in every run.
    let again = json(directory.path(), &["layout", "run.trace", "--machine", "pena-sp"]);
    assert_eq!(report, again);
    let text = slimline(directory.path(), &["layout", "run.trace", "--machine", "pena-sp"]);
    assert!(text.contains("Objects in the hierarchical order would save "), "{text}");
    assert!(text.contains("19 objects had memory that others had had before"), "{text}");
}

#[test]
fn what_has_no_objects_is_told() {
    let directory = traced("int cells[64];\nint main(void) { for (int i = 0; i < 64; i++) cells[i] = i; return 0; }");
    let said = failed(directory.path(), &["layout", "run.trace"]);
    assert!(said.contains("run.trace: none of its 64 accesses is to a block of the heap"), "{said}");
    let directory = traced(LIST);
    let said = failed(directory.path(), &["layout", "run.trace", "--order", "none/order.csv"]);
    assert!(said.starts_with("slimline: none/order.csv: No such file"), "{said}");
    let said = failed(directory.path(), &["layout", "run.trace", "--machine", "none"]);
    assert!(said.contains("neither host"), "{said}");
}

/// Nodes of a pool that puts them side by side, linked in an order by chance.
const POOL: &str = concat!(
    r#"
#include <stdlib.h>
struct place { long group; };
struct node { struct node *next; struct place in; long value; };
struct tag { long mark; };
"#,
    linked_by_chance!(),
    r#"
enum { N = 4000 };
struct tag *volatile tag;
static char *at, *end;
__attribute__((noinline)) void *pool_take(unsigned long bytes) {
    if (end - at < (long)bytes) at = (char *)malloc(1 << 20) + 64, end = at + (1 << 20) - 64;
    void *block = at;
    return at += bytes, block;
}
int main(void) {
    static struct node *nodes[N];
    for (int i = 0; i < N; i++) nodes[i] = pool_take(sizeof **nodes), nodes[i]->in.group = i + (1l << 60), nodes[i]->value = i;
    link_by_chance(nodes, N);
    tag = malloc(sizeof *tag), tag->mark = 1;
    long all = tag->mark;
    for (int round = 0; round < 5; round++)
        for (struct node *node = nodes[0]; node; node = node->next) all += node->value + node->in.group;
    return all == 0;
}
"#
);

/// What it says on standard output and on standard error.
fn said(directory: &Path, arguments: &[&str]) -> [String; 2] {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slimline"));
    let output = command.args(arguments).current_dir(directory).stdin(Stdio::null()).output().unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(output.status.success(), "{said:?}");
    said
}

#[test]
fn objects_of_a_pool_are_as_close_as_the_pool_puts_them() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let toml =
        "[[allocator]]\nallocate = [{ function = \"pool_take\", size = 1 }, { function = \"pool_tak\", size = 1 }]\n";
    fs::write(directory.join("slimline.toml"), toml).unwrap();
    fs::write(directory.join("pool.c"), POOL).unwrap();
    said(directory, &["cc", "--slimline-values", "-O2", "-g", "-o", "pool", "pool.c"]);
    for place in [&["-o", "run.trace"][..], &["--live"]] {
        let [_, told] = said(directory, &[&["trace"][..], place, &["--", "./pool"]].concat());
        let told = told.lines().filter(|line| line.contains("slimline.toml")).collect::<Vec<_>>();
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(
            told[0].starts_with("slimline: slimline.toml: `pool_tak`: no code that was traced calls it"),
            "{told:?}"
        );
    }
    let report = json(directory, &["layout", "run.trace", "--machine", "pena-sp"]);
    let order = |name: &str| report["orders"].as_array().unwrap().iter().find(|row| row["order"] == name).unwrap();
    let of = |name: &str, what: &str| order(name)[what].as_f64().unwrap();
    // As they were, but for where in a line the first begins: the C library would put each at the next multiple of 16.
    for what in ["to_another_line", "to_another_page"] {
        assert!((of("allocated", what) / of("original", what) - 1.0).abs() < 0.01, "{report}");
    }
    let by_field = ["layout", "run.trace", "--machine", "pena-sp", "--order-by", "in.group", "--order", "-"];
    let [order, told] = said(directory, &by_field);
    let mut groups: Vec<i64> = order.lines().map(|line| line.parse().unwrap()).collect();
    groups.sort_unstable();
    assert_eq!(groups, (0..4000).map(|group| group + (1 << 60)).collect::<Vec<_>>());
    assert!(told.contains("Access graph"), "the report: {told}");
    let [both, _] = said(directory, &[&by_field[..], &["--order-by", "value"]].concat());
    let pairs: Vec<(&str, &str)> = both.lines().map(|line| line.split_once(',').unwrap()).collect();
    assert!(pairs.iter().all(|(group, value)| group.parse() == Ok(value.parse::<i64>().unwrap() + (1 << 60))));
    assert_eq!(pairs.iter().map(|(group, _)| *group).collect::<Vec<_>>(), order.lines().collect::<Vec<_>>());
    let again = ["layout", "run.trace", "--order-from", "run.trace", "--order-by", "in.group", "--order-by", "value"];
    let other = &json(directory, &again)["other_run"];
    assert_eq!((other["known"].as_u64(), &other["by"]), (Some(4000), &serde_json::json!(["in.group", "value"])));
    let told = said(directory, &again)[0].split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("4,000 of this one's 4,001 objects are known again, by in.group and value"), "{told}");
    let unknown = failed(directory, &[&by_field[..], &["--order-by", "worth"]].concat());
    assert!(unknown.starts_with("slimline: --order-by worth: no object of"), "{unknown}");
    assert!(unknown.contains(" node.value") && !unknown.contains("+"), "{unknown}");
    let nobodys = ["layout", "run.trace", "--order-by", "mark", "--order-by", "value", "--order", "order.csv"];
    let nobodys = failed(directory, &nobodys);
    assert!(nobodys.ends_with("was seen to hold mark and value\n"), "{nobodys}");
    assert!(!directory.join("order.csv").exists());
    let refused = failed(directory, &[&by_field[..], &["--picture", "-"]].concat());
    assert!(refused.contains("--order - and --picture -: one of them can be standard output"), "{refused}");
}
