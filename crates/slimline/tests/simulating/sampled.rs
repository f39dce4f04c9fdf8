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

/// The same of two processes, with counters in memory that both have mapped as `how` says, or each for itself.
fn recorded_of_processes(directory: &Path, how: &str) {
    let mapped = match how {
        "inherited" => "mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)",
        "private" => "mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)",
        "system v" => "shmat(shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600), 0, 0)",
        // Elsewhere in each process.
        _ => "mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0)",
    };
    let (in_parent, in_child) = if how == "file" { ("0", mapped) } else { (mapped, "board") };
    let source = format!(
        r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
struct slot {{ volatile long hits; long id; }};
static struct slot *board;
static double spent(void) {{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}}
__attribute__((noinline)) static void count(struct slot *own) {{ for (int i = 0; i < 20000; i++) own->hits++; }}
int main(void) {{
    int file = open("board", O_RDWR | O_CREAT, 0600);
    if (ftruncate(file, 4096)) return 9;
    board = {in_parent};
    for (int i = 0; i < 2; i++)
        if (!fork()) {{
            for (int apart = 0; apart < i; apart++) mmap(0, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            board = {in_child};
            while (spent() < 0.7) count(&board[i]);
            _exit(0);
        }}
    while (wait(0) > 0) {{}}
    return 0;
}}
"#
    );
    fs::write(directory.join("processes.c"), source).unwrap();
    let mut compile = Command::new("gcc");
    compile.args(["-O2", "-g", "-o", "processes", "processes.c"]);
    assert!(compile.current_dir(directory).status().unwrap().success());
    slimline(directory, &["record", "-F", "1000", "-o", "session", "--", "./processes"]);
}

#[test]
fn processes_take_lines_of_shared_memory_from_each_other() {
    for how in ["inherited", "file", "system v", "private"] {
        let directory = tempfile::tempdir().unwrap();
        recorded_of_processes(directory.path(), how);
        let report = json(directory.path(), &["share", "session"]);
        let rows = report["falsely_shared"].as_array().unwrap();
        if how == "private" {
            assert!(rows.is_empty() && report["shared"].as_array().unwrap().is_empty(), "{report}");
            continue;
        }
        let [row] = &rows[..] else { panic!("{how}: {report}") };
        assert_eq!((&row["lines"], &row["apart_bytes"]), (&1.into(), &16.into()), "{how}: {row}");
        let threads = row["sides"][0]["threads"].as_array().unwrap();
        assert!(threads.len() == 2 && threads[0]["process"] != threads[1]["process"], "{how}: {row}");
        assert!(threads.iter().all(|thread| thread["pid"] == thread["tid"] && thread["pid"] != 0), "{how}: {row}");
        assert!(row["fix"].as_str().unwrap().starts_with("processes' elements"), "{how}: {row}");
        let text = slimline(directory.path(), &["share", "session"]);
        assert!(
            text.contains("False sharing: processes use other bytes") && text.contains("process  thread"),
            "{text}"
        );
        // One object of one page, however many processes have it.
        let report = json(directory.path(), &["report", "session"]);
        let groups = report["groups"].as_array().unwrap();
        let board = groups.iter().find(|group| group["bytes"] == 4096);
        assert!(board.is_some_and(|board| board["blocks"] == 1), "{how}: {groups:?}");
    }
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
    assert_eq!((&report["schema"], &report["trace"]["format"]), (&6.into(), &"session".into()));
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
    // How many bursts the budget pays for depends on the machine: there were enough to see it if it were there.
    let sampled = &report["sampled"];
    assert!(sampled["looks"].as_u64() >= sampled["enough_looks"].as_u64(), "{report}");
}
