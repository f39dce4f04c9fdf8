//! `slimline advise TRACE`: pages that lie on another node than the threads that use them.

use std::fs;

use super::advise::TRACE;
use super::traced::{json as report_of, named, slimline, traced};

/// Two cores near to each of two memories.
const MACHINE: &str = r#"
name = "two"
cores = 4
cache = [{ name = "L1", level = 1, holds = "data", size = "1 KiB", line = 64, ways = 4, latency = 4 }]
memory = [{ name = "node0", cores = "0-1", latency = [100, 300] }, { name = "node1", cores = "2-3", latency = [300, 100] }]
"#;

/// Four threads go along a quarter of the table each, in no stream; `FIRST` is done before.
const PROGRAM: &str = r#"
#include <pthread.h>
enum { N = 32768, PART = N / 4 };
static long table[N] __attribute__((aligned(4096)));
static long sums[4][8];
static pthread_barrier_t barrier;
static void *fill(void *number) {
    long *own = table + (long)number * PART;
    for (long i = 0; i < PART; i++) own[i] = i;
    return 0;
}
static void *sum(void *number) {
    const long *own = table + (long)number * PART;
    FIRST
    pthread_barrier_wait(&barrier);
    for (long i = 0, at = 0; i < 4 * PART; i++, at = (at + 1237) % PART) sums[(long)number][0] += own[at];
    return 0;
}
int main(void) {
    pthread_t threads[4];
    pthread_barrier_init(&barrier, 0, 4);
    MAIN
    for (long i = 0; i < 4; i++) pthread_create(&threads[i], 0, sum, (void *)i);
    for (long i = 0; i < 4; i++) pthread_join(threads[i], 0);
    return sums[1][0] == 1;
}
"#;

fn traced_filled(by_main: &str, by_threads: &str) -> tempfile::TempDir {
    let directory = traced(&PROGRAM.replace("FIRST", by_threads).replace("MAIN", by_main));
    fs::write(directory.path().join("small.toml"), MACHINE).unwrap();
    directory
}

#[test]
fn what_one_thread_fills_for_all_is_to_be_touched_by_each() {
    let directory = traced_filled("for (long i = 0; i < 4; i++) fill((void *)i);", "");
    let report = report_of(directory.path(), &[&["advise"], &TRACE[..]].concat());
    let nodes = &report["memory_nodes"];
    assert_eq!(nodes["advice"], "touch_where_used", "{nodes}");
    let ratio = |of: &str| nodes[of]["time_ratio"].as_f64().unwrap();
    assert!(ratio("touched_where_used") < ratio("interleaved") && ratio("touched_where_used") < 0.8, "{nodes}");
    let table = named(&nodes["data"], "table");
    let [served, far, as_used] = ["served", "far", "far_as_used"].map(|of| table[of].as_f64().unwrap());
    // The quarters of two of the threads.
    assert!((0.4..0.55).contains(&(far / served)) && as_used < 0.05 * served, "{table}");
    assert_eq!(table["touching_threads"], 1, "{table}");
    assert!(table["touched_at"].as_str().unwrap().ends_with(":9"), "{table}");
    let text = slimline(directory.path(), &[&["advise"], &TRACE[..]].concat());
    let (_, said) = text.split_once("MEMORY NODES\n").unwrap();
    assert!(said.trim_start().starts_with("Have threads touch first what they use"), "{said}");
    assert!(said.contains("mostly at program.c:9."), "{said}");
}

#[test]
fn what_each_thread_fills_for_itself_stays() {
    let directory = traced_filled("", "fill(number);");
    let report = report_of(directory.path(), &[&["advise"], &TRACE[..]].concat());
    let nodes = &report["memory_nodes"];
    assert_eq!(nodes["advice"], serde_json::Value::Null, "{nodes}");
    assert!(nodes["far"].as_f64().unwrap() < 0.05 * nodes["served"].as_f64().unwrap(), "{nodes}");
    // Where there is one memory there is nothing to say.
    let one = report_of(directory.path(), &["advise", "run.trace", "--machine", "full.toml"]);
    assert!(one["memory_nodes"].is_null(), "{one}");
}
