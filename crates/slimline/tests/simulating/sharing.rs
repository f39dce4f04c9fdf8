//! `slimline share`: a counter that all threads add to, and counters that lie in one line.

use serde_json::Value;

use super::traced::{by_three_threads, counters, json, slimline, traced, traced_with};

fn array(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

fn misses(row: &Value) -> (u64, u64) {
    let count = |name: &str| row["total"][name].as_u64().unwrap();
    (count("true_misses"), count("false_misses"))
}

#[test]
fn a_statistics_counter_is_uniformly_and_truly_shared() {
    let directory = traced(&by_three_threads(
        "#include <stdatomic.h>\n\
         static struct { long before[8]; atomic_long hits; long behind[7]; } statistics __attribute__((aligned(64)));",
        "statistics.hits += self",
    ));
    let report = json(directory.path(), &["share", "run.trace", "--machine", "four.toml"]);
    assert_eq!(report["falsely_shared"], Value::Array(Vec::new()));
    let [row] = array(&report["shared"]) else { panic!("{report}") };
    assert_eq!((&row["variable"], &row["uniform"], &row["writers"]), (&"statistics".into(), &true.into(), &3.into()));
    assert!(row["field"].as_str().unwrap().ends_with("hits"), "{row}");
    let threads = array(&row["threads"]);
    assert!(threads.len() == 3 && threads.iter().all(|thread| thread["stores"] == 100_000), "{row}");
    assert_eq!((array(&row["code"]).len(), &row["code"][0]["line"]), (1, &4.into()));
    let (true_misses, false_misses) = misses(row);
    // Each of these atomic additions has a time stamp of its own, so their order is the run's. How often the counter really
    // went from core to core is up to the scheduler: once a round and thread where threads ran one after the other.
    assert!(true_misses > 100 && false_misses == 0, "{row}");
    assert!(row["fix"].as_str().unwrap().starts_with("a part for each thread"), "{row}");
}

#[test]
fn counters_in_one_line_are_falsely_shared_until_they_are_apart() {
    let directory = traced(&counters());
    let report = json(directory.path(), &["share", "run.trace", "--machine", "four.toml"]);
    assert_eq!(report["shared"], Value::Array(Vec::new()));
    let [row] = array(&report["falsely_shared"]) else { panic!("{report}") };
    assert_eq!(
        (&row["lines"], &row["apart_bytes"], &row["sides"][0]["variable"]),
        (&1.into(), &8.into(), &"packed".into())
    );
    // In each of 100 rounds at least two of the three take the line from another one, however they are scheduled.
    let (true_misses, false_misses) = misses(row);
    assert!(true_misses == 0 && false_misses > 150, "{row}");
    assert!(row["fix"].as_str().unwrap().contains("pad each to 64 bytes"), "{row}");
    let text = slimline(directory.path(), &["share", "run.trace", "--machine", "four.toml"]);
    assert!(text.contains("packed") && text.lines().all(|line| line.chars().count() <= 100), "{text}");
    let csv = slimline(directory.path(), &["share", "run.trace", "--machine", "four.toml", "--format", "csv"]);
    assert_eq!(
        csv.lines()
            .filter(|line| line.starts_with("false,1,packed,(anonymous struct at program.c:1).count[],0,"))
            .count(),
        3,
        "{csv}"
    );

    let apart = counters().replace("volatile long count[4];", "struct { volatile long of; long pad[7]; } count[4];");
    let directory = traced(&apart.replace("count[self]++", "count[self].of++"));
    let report = json(directory.path(), &["share", "run.trace", "--machine", "four.toml"]);
    assert_eq!((array(&report["shared"]).len(), array(&report["falsely_shared"]).len()), (0, 0), "{report}");
}

#[test]
fn who_adds_up_at_the_end_shares_nothing() {
    // A member for each of two threads; the third thread has none. Main clears both, and reads them when all have ended.
    let source = by_three_threads(
        "static struct { long a, b; } c __attribute__((aligned(64)));",
        "*(volatile long *)(self == 0 ? &c.a : self == 1 ? &c.b : &self) += 1",
    );
    let read = "*(volatile long *)&c.a + *(volatile long *)&c.b > 0 ? 0 : 1";
    let source = source
        .replace("pthread_t threads[3];", "pthread_t threads[3]; *(volatile long *)&c.a = *(volatile long *)&c.b = 0;")
        .replace("    return 0;\n", &format!("    return {read};\n"));
    let directory = traced(&source);
    let report = json(directory.path(), &["share", "run.trace", "--machine", "four.toml"]);
    let of_c = |name: &str| {
        let is_c = |row: &&Value| row.to_string().contains("program.c") && row.to_string().contains("\"c");
        array(&report[name]).iter().filter(is_c).cloned().collect::<Vec<_>>()
    };
    assert!(of_c("shared").is_empty(), "{report}");
    let [row] = &of_c("falsely_shared")[..] else { panic!("{report}") };
    assert_eq!((&row["lines"], &row["apart_bytes"]), (&1.into(), &8.into()));
    let threads: Vec<u64> = array(&row["sides"])
        .iter()
        .flat_map(|side| array(&side["threads"]))
        .map(|thread| thread["stores"].as_u64().unwrap())
        .collect();
    assert_eq!(threads, [100_000, 100_000], "{row}");
}

/// Each begins when the one before has ended: what they would take from each other at the same time nobody knows.
#[test]
fn threads_that_run_one_after_the_other_are_not_judged() {
    let directory = traced(
        r#"
#include <pthread.h>
static struct { volatile long count[4]; } packed __attribute__((aligned(64)));
static void *add(void *self) {
    for (int i = 0; i < 100000; i++) packed.count[(long)self]++;
    return self;
}
int main(void) {
    for (long self = 0; self < 3; self++) {
        pthread_t thread;
        pthread_create(&thread, NULL, add, (void *)self);
        pthread_join(thread, NULL);
    }
    return 0;
}
"#,
    );
    let share = ["share", "run.trace", "--machine", "four.toml"];
    let report = json(directory.path(), &share);
    assert!(report["overlap"].as_f64().unwrap() < 0.1, "{report}");
    assert_eq!((&report["in_turn_lines"], &report["falsely_shared"]), (&1.into(), &Value::Array(Vec::new())));
    let text = slimline(directory.path(), &share);
    let words: Vec<&str> = text.split_whitespace().collect();
    assert!(words.join(" ").contains("1 line that one thread used after the other: whether that does harm"), "{text}");
}

/// Two threads by turns; each loads first what the other one has stored, in one line, and stores its own then.
const BY_TURNS: &str = r#"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
enum { TURNS = 3000 };
static struct { volatile long own[2]; } pair __attribute__((aligned(64)));
static struct { atomic_int of; int pad[15]; } turn __attribute__((aligned(64)));
static pthread_mutex_t lock __attribute__((aligned(64))) = PTHREAD_MUTEX_INITIALIZER;
static void step(long self) { pair.own[self] = pair.own[1 - self] + 1; }
static void *begin(void *given) {
    long self = (long)given;
    for (int done = 0; done < TURNS; done++) {
        ENTER
        step(self);
        LEAVE
        for (volatile int work = 0; work < 20; work++);
    }
    return NULL;
}
int main(void) {
    pthread_t threads[2];
    for (long i = 0; i < 2; i++) pthread_create(&threads[i], NULL, begin, (void *)i);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    return 0;
}
"#;

#[test]
fn what_is_handed_over_by_a_flag_or_a_lock_is_in_the_programs_order() {
    let flag = [
        "while (atomic_load_explicit(&turn.of, memory_order_acquire) != self) sched_yield();",
        "atomic_store_explicit(&turn.of, 1 - self, memory_order_release);",
    ];
    let exchanged = [
        "int want; while (want = self, !atomic_compare_exchange_strong(&turn.of, &want, 2)) sched_yield();",
        "atomic_store(&turn.of, 1 - self);",
    ];
    let locked = ["pthread_mutex_lock(&lock);", "pthread_mutex_unlock(&lock); if (done % 16 == 0) sched_yield();"];
    for (what, [enter, leave]) in [("flag", flag), ("exchanged", exchanged), ("locked", locked)] {
        let directory = traced(&BY_TURNS.replace("ENTER", enter).replace("LEAVE", leave));
        let report = json(directory.path(), &["share", "run.trace", "--machine", "four.toml"]);
        let of_pair = |name: &str| {
            let is_it = |row: &&Value| row.to_string().contains("\"variable\":\"pair\"");
            array(&report[name]).iter().find(is_it).cloned()
        };
        // Who comes next lacks what it loads first. One store or load in a wrong place would make the line be lost for the
        // other eight bytes.
        assert_eq!(of_pair("falsely_shared"), None, "{what}: {report}");
        let row = of_pair("shared");
        match what {
            // How often it goes to the other one is up to the scheduler.
            "locked" => assert!(row.is_none_or(|row| misses(&row).1 == 0), "{report}"),
            // The first time of each is a first use.
            _ => assert_eq!(misses(&row.unwrap()), (2 * 3000 - 2, 0), "{what}"),
        }
    }
}

#[test]
fn who_stores_its_own_word_and_then_loads_the_others_shares_truly() {
    let source = BY_TURNS
        .replace("pair.own[self] = pair.own[1 - self] + 1;", "pair.own[self] = self + 1; (void)pair.own[1 - self];")
        .replace("ENTER", "while (atomic_load_explicit(&turn.of, memory_order_acquire) != self) sched_yield();")
        .replace("LEAVE", "atomic_store_explicit(&turn.of, 1 - self, memory_order_release);");
    let directory = traced(&source);
    let of_pair = |report: &Value, name: &str| {
        let is_it = |row: &&Value| row.to_string().contains("\"variable\":\"pair\"");
        array(&report[name]).iter().find(is_it).cloned()
    };
    let report = json(directory.path(), &["share", "run.trace", "--machine", "four.toml"]);
    assert_eq!(of_pair(&report, "falsely_shared"), None, "{report}");
    let row = of_pair(&report, "shared").unwrap();
    // The first time of each is a first use.
    assert_eq!(misses(&row), (2 * 3000 - 2, 0), "{row}");
    assert_eq!((&row["total"]["loads"], &row["total"]["stores"]), (&6000.into(), &6000.into()), "{row}");
    let live =
        json(directory.path(), &["share", "--machine", "four.toml", "--live", "--report", "-", "--", "./program"]);
    assert_eq!(of_pair(&live, "falsely_shared"), None, "{live}");
    let row = of_pair(&live, "shared").unwrap();
    assert!(misses(&row).0 > 2500 && row["total"]["loads"].as_u64().unwrap() > 2500, "{row}");
    // Simulated: the misses are the stores', and not for nothing.
    let simulated = json(directory.path(), &["simulate", "run.trace", "--machine", "four.toml"]);
    let classes = &simulated["machines"][0]["caches"][0]["classes"];
    let of_class = |name: &str| classes[name].as_u64().unwrap();
    assert!(of_class("coherence_true") >= 5998 && of_class("coherence_false") < 100, "{classes}");
}

/// Two processes that store to neighbours in memory that both have mapped, as the argument says.
const BY_PROCESSES: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>
struct slot { volatile long hits; long id; };
static struct slot *board;
static volatile int *turn;
static void *map(int flags, int file) { return mmap(0, 4096, PROT_READ | PROT_WRITE, flags, file, 0); }
__attribute__((noinline)) static void count(struct slot *own) { for (int i = 0; i < 1000; i++) own->hits++; }
int main(int argc, char **argv) {
    const char *how = argv[1];
    int file = -1;
    (void)argc;
    turn = map(MAP_SHARED | MAP_ANONYMOUS, -1);
    if (!strcmp(how, "inherited")) board = map(MAP_SHARED | MAP_ANONYMOUS, -1);
    if (!strcmp(how, "private")) board = map(MAP_PRIVATE | MAP_ANONYMOUS, -1);
    if (!strcmp(how, "system v")) board = shmat(shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600), 0, 0);
    if (!strcmp(how, "memfd") && ftruncate(file = memfd_create("board", 0), 4096)) return 9;
    for (int i = 0; i < 2; i++)
        if (!fork()) {
            if (i) mmap(0, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (file >= 0) board = map(MAP_SHARED, file);
            for (int round = 0; round < 100; round++) {
                while (__atomic_load_n(turn, __ATOMIC_ACQUIRE) % 2 != i) usleep(10);
                count(&board[i]);
                __atomic_fetch_add(turn, 1, __ATOMIC_RELEASE);
            }
            _exit(0);
        }
    while (wait(0) > 0) {}
    return 0;
}
"#;

/// That they take turns at the line is sure: each counts 1,000 times, then it is the other's turn.
#[test]
fn processes_share_lines_of_memory_that_both_have_mapped() {
    for how in ["inherited", "memfd", "system v", "private"] {
        let directory = traced_with(BY_PROCESSES, &[how]);
        let report = json(directory.path(), &["share", "run.trace", "--machine", "four.toml"]);
        let of_board = |rows: &Value| {
            let is_board = |row: &&Value| row.to_string().contains("\"slot.hits\"");
            array(rows).iter().filter(is_board).cloned().collect::<Vec<_>>()
        };
        let falsely = of_board(&report["falsely_shared"]);
        if how == "private" {
            assert!(falsely.is_empty() && of_board(&report["shared"]).is_empty(), "{report}");
            continue;
        }
        let [row] = &falsely[..] else { panic!("{how}: {report}") };
        assert_eq!((&row["lines"], &row["apart_bytes"]), (&1.into(), &16.into()), "{how}: {row}");
        let threads = array(&row["sides"][0]["threads"]);
        assert!(threads.len() == 2 && threads.iter().all(|thread| thread["stores"] == 100_000), "{how}: {row}");
        assert!(threads[0]["process"] != threads[1]["process"] && threads[0]["pid"] != 0, "{how}: {row}");
        let (true_misses, false_misses) = misses(row);
        assert!(true_misses == 0 && false_misses > 20, "{how}: {row}");
        assert!(row["fix"].as_str().unwrap().contains("process"), "{how}: {row}");
    }
}
