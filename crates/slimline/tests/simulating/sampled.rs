//! `slimline share` of what `slimline record` sampled: counters of two threads in one line, and in a line each.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::traced::{json, slimline};

/// Two threads add to counters of their own, so many bytes apart, until both have had half a second of processor time.
const COUNTERS: &str = r#"
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
struct counter { volatile long hits; char pad[APART - sizeof(long)]; };
static struct counter counters[4] __attribute__((aligned(64)));
static atomic_int working = 2;
static double spent(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}
__attribute__((noinline)) static void count(struct counter *own) {
    for (int i = 0; i < 20000; i++) own->hits++;
}
static void *begin(void *own) {
    int is_done = 0;
    // The other one may have come later: so that none is alone for most of it.
    while (!is_done || atomic_load(&working) > 0) {
        count(own);
        if (!is_done && spent() > 0.5) { is_done = 1; atomic_fetch_sub(&working, 1); }
    }
    return 0;
}
int main(void) {
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, begin, &counters[i + 1]);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    return 0;
}
"#;

fn recorded(directory: &Path, apart: &str) {
    fs::write(directory.join("counters.c"), COUNTERS).unwrap();
    let mut compile = Command::new("gcc");
    compile.args(["-O2", "-g", "-pthread", &format!("-DAPART={apart}"), "-o", "counters", "counters.c"]);
    assert!(compile.current_dir(directory).status().unwrap().success());
    slimline(directory, &["record", "-F", "1000", "-o", "session", "--", "./counters"]);
}

/// The rows that are of the counters: the flag that tells of the end is there, too.
fn of_counters(report: &Value, sort: &str) -> Vec<Value> {
    let rows = report[sort].as_array().unwrap();
    rows.iter().filter(|row| row.to_string().contains("\"counters\"")).cloned().collect()
}

#[test]
fn false_sharing_is_seen_in_samples_and_gone_with_padding() {
    let directory = tempfile::tempdir().unwrap();
    recorded(directory.path(), "16");
    let report = json(directory.path(), &["share", "session"]);
    assert_eq!((&report["schema"], &report["trace"]["format"]), (&5.into(), &"session".into()));
    assert!(of_counters(&report, "shared").is_empty(), "{report}");
    let [row] = &of_counters(&report, "falsely_shared")[..] else { panic!("{report}") };
    assert_eq!((&row["lines"], &row["apart_bytes"]), (&1.into(), &16.into()), "{row}");
    let side = &row["sides"][0];
    assert_eq!((&side["variable"], &side["field"]), (&"counters".into(), &"counter.hits".into()));
    let threads = side["threads"].as_array().unwrap();
    assert!(threads.len() == 2 && threads.iter().all(|thread| thread["stores"].as_u64().unwrap() > 0), "{row}");
    // Nearly all that it does; it takes no other thread's samples to say so.
    let sampled = &row["sampled"];
    assert!(sampled["weight_share"].as_f64().unwrap() > 0.5, "{row}");
    assert!(sampled["weight_interval"]["low"].as_f64().unwrap() <= sampled["weight_share"].as_f64().unwrap());
    assert!(row["total"]["false_misses"].as_u64().unwrap() >= 3, "{row}");
    assert!(row["fix"].as_str().unwrap().contains("16 bytes apart: pad each to 64 bytes"), "{row}");
    assert!(row["sides"][0]["code"][0]["line"] == 14, "{row}");
    let text = slimline(directory.path(), &["share", "session"]);
    assert!(text.contains("counters") && text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let csv = slimline(directory.path(), &["share", "session", "--format", "csv"]);
    assert_eq!(csv.lines().filter(|line| line.starts_with("false,1,counters,counter.hits,0,")).count(), 2, "{csv}");

    recorded(directory.path(), "64");
    let report = json(directory.path(), &["share", "session"]);
    assert!(of_counters(&report, "shared").is_empty() && of_counters(&report, "falsely_shared").is_empty(), "{report}");
    assert!(report["sampled"]["looks"].as_u64().unwrap() > 100, "{report}");
}
