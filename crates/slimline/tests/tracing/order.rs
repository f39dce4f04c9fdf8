//! Blocks that move between threads: every access belongs to its block, to the last one, live and of a trace on disk.

use serde_json::Value;

use super::compiled::compiled;
use super::{report, slimline, text};

const SOURCE: &str = r#"
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
enum { ROUNDS = 20, ALL = 8000, DEPTH = 16 };
struct item { long key; struct item *next; };
__attribute__((noinline)) static struct item *produce(long i) {
    struct item *item = malloc(sizeof *item + i % 5 * 64);
    item->key = i;
    return item;
}
__attribute__((noinline)) static long consume(struct item *item) {
    long sum = 0;
    for (int i = 0; i < ROUNDS; i++) sum += ((volatile struct item *)item)->key;
    return sum;
}
__attribute__((noinline)) static long finish(struct item *item) {
    long sum = consume(item);
    free(item);
    return sum;
}

/* A queue with a lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t has_any = PTHREAD_COND_INITIALIZER, has_room = PTHREAD_COND_INITIALIZER;
static struct item *queue[DEPTH];
static int first, count;
static void put(struct item *item) {
    pthread_mutex_lock(&lock);
    while (count == DEPTH) pthread_cond_wait(&has_room, &lock);
    queue[(first + count++) % DEPTH] = item;
    pthread_cond_signal(&has_any);
    pthread_mutex_unlock(&lock);
}
static struct item *get(void) {
    pthread_mutex_lock(&lock);
    while (count == 0) pthread_cond_wait(&has_any, &lock);
    struct item *item = queue[first];
    first = (first + 1) % DEPTH;
    count--;
    pthread_cond_signal(&has_room);
    pthread_mutex_unlock(&lock);
    return item;
}
static void *locked(void *sum) {
    for (int i = 0; i < ALL; i++) *(long *)sum += finish(get());
    return NULL;
}

/* One place, which an atomic variable guards. */
static _Atomic(struct item *) place;
static void *flagged(void *sum) {
    for (int i = 0; i < ALL; i++) {
        struct item *item;
        while (!(item = atomic_exchange_explicit(&place, NULL, memory_order_acquire))) sched_yield();
        *(long *)sum += finish(item);
    }
    return NULL;
}
static void *fenced(void *sum) {
    for (int i = 0; i < ALL; i++) {
        struct item *item;
        while (!(item = atomic_load_explicit(&place, memory_order_relaxed))) sched_yield();
        atomic_thread_fence(memory_order_acquire);
        *(long *)sum += finish(item);
        atomic_store_explicit(&place, NULL, memory_order_release);
    }
    return NULL;
}

/* What it is begun with; nothing else is ever traced of the thread that begins it. */
static long sums[ALL];
static void *given(void *item) {
    long key = ((struct item *)item)->key;
    sums[key] = finish(item);
    return NULL;
}

/* What was allocated long ago, by a thread that waits: its chunk is never full. */
static struct item *old[ALL];
static void *visited(void *sum) {
    for (int i = 0; i < ALL; i++) *(long *)sum += finish(old[i]);
    return NULL;
}

/* Blocks that grow while others take what they leave. */
static void *grow(void *sum) {
    for (long i = 0; i < ALL; i++) {
        long *block = NULL;
        for (long n = 1; n <= 6; n++) {
            block = realloc(block, n * 40);
            ((volatile long *)block)[n - 1] = n;
        }
        *(long *)sum += block[5];
        free(block);
    }
    return NULL;
}

int main(int argc, char **argv) {
    pthread_t threads[4];
    long all[4] = {0}, sum = 0;
    const char *mode = argv[1];
    if (!strcmp(mode, "locked")) {
        pthread_create(&threads[0], NULL, locked, &all[0]);
        for (long i = 0; i < ALL; i++) put(produce(i));
        pthread_join(threads[0], NULL);
    } else if (!strcmp(mode, "flagged") || !strcmp(mode, "fenced")) {
        pthread_create(&threads[0], NULL, strcmp(mode, "fenced") ? flagged : fenced, &all[0]);
        for (long i = 0; i < ALL; i++) {
            struct item *item = produce(i);
            while (atomic_load_explicit(&place, memory_order_acquire)) sched_yield();
            atomic_store_explicit(&place, item, memory_order_release);
        }
        pthread_join(threads[0], NULL);
    } else if (!strcmp(mode, "begun")) {
        for (long i = 0; i < ALL / 10; i += 4) {
            for (int n = 0; n < 4; n++) pthread_create(&threads[n], NULL, given, produce(i + n));
            for (int n = 0; n < 4; n++) pthread_join(threads[n], NULL);
            for (int n = 0; n < 4; n++) all[0] += sums[i + n];
        }
    } else if (!strcmp(mode, "waiting")) {
        for (long i = 0; i < ALL; i++) old[i] = produce(i);
        pthread_create(&threads[0], NULL, visited, &all[0]);
        pthread_join(threads[0], NULL);
    } else {
        for (int n = 0; n < 4; n++) pthread_create(&threads[n], NULL, grow, &all[n]);
        for (int n = 0; n < 4; n++) pthread_join(threads[n], NULL);
    }
    for (int n = 0; n < 4; n++) sum += all[n];
    printf("%ld\n", sum);
    return 0;
}
"#;

/// The whole of a number in a report.
fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

/// Blocks of the group that this function allocates, and loads and stores of them.
fn group(report: &Value, function: &str) -> [u64; 3] {
    let groups = report["heap"].as_array().unwrap();
    let groups = groups.iter().filter(|group| group["function"] == function);
    groups.fold([0; 3], |sum, group| {
        let own = [&group["blocks"], &group["loads"], &group["stores"]].map(number);
        std::array::from_fn(|at| sum[at] + own[at])
    })
}

#[test]
fn accesses_belong_to_blocks_of_other_threads() {
    let scratch = tempfile::tempdir().unwrap();
    let program = compiled(&scratch, SOURCE);
    let program = program.to_str().unwrap();
    let (all, few, rounds) = (8000, 800, 20);
    let keys = |count| rounds * count * (count - 1) / 2;
    let items = keys(all);
    for (mode, sum, function, expected) in [
        ("locked", items, "produce", [all, rounds * all, all]),
        ("flagged", items, "produce", [all, rounds * all, all]),
        ("fenced", items, "produce", [all, rounds * all, all]),
        ("waiting", items, "produce", [all, rounds * all, all]),
        ("begun", keys(few), "produce", [few, (rounds + 1) * few, few]),
        ("grow", 4 * 6 * all, "grow", [4 * 6 * all, 4 * all, 4 * 6 * all]),
    ] {
        let recording = scratch.path().join(mode);
        let recording = recording.to_str().unwrap();
        let trace = |arguments: &[&str]| slimline().arg("trace").args(arguments).output().unwrap();
        // Threads meet in another way each time.
        for _ in 0..3 {
            let live = trace(&["--live", "--report", "-", "--format", "json", "--", program, mode]);
            let (said, rest) = text(&live.stdout).split_once('\n').unwrap();
            assert_eq!(said, sum.to_string(), "{mode}");
            let live: Value = serde_json::from_str(rest).unwrap();
            assert_eq!(trace(&["-o", recording, "--", program, mode]).status.code(), Some(0));
            let replayed = report(&trace(&["--format", "json", "--replay", recording]));
            for report in [live, replayed] {
                assert_eq!(group(&report, function), expected, "{mode}");
                assert_eq!(report["missing"], Value::Array(Vec::new()), "{mode}");
            }
        }
    }
}
