//! Windows, start and stop within functions that never return: loops are left and entered at their headers.

use std::fs;

use slimline_instrument::driver::HEADER;

use super::compiled::{compiled, missing, named};
use super::{report, slimline};

/// All of the program is one loop, which calls nothing.
const ONE_LOOP: &str = r#"
static volatile long sum;
int main(void) { for (long i = 0; i < 40000000; i++) sum += i; return sum != 799999980000000; }
"#;

/// The first window ends as soon as anything was read, and the next would begin after the program ends.
#[test]
fn a_window_of_accesses_ends_within_a_loop() {
    let scratch = tempfile::tempdir().unwrap();
    let program = compiled(&scratch, ONE_LOOP);
    let run = |window: &str| {
        let mut command = slimline();
        let output = command
            .args(["trace", "--live", "--report", "-", "--format", "json", "--window", window, "--"])
            .arg(&program)
            .output();
        let output = output.unwrap();
        assert_eq!(output.status.code(), Some(0));
        report(&output)
    };
    let once = run("on=1,off=86399s");
    let (loads, stores) = named(&once["variables"], "sum");
    assert!(loads.abs_diff(stores) <= 2 && (10_000..20_000_000).contains(&loads), "{loads} {stores}");
    let missing = missing(&once);
    assert!(missing.len() == 1 && missing[0].contains(" % of its time was not traced, between windows"), "{missing:?}");
    assert_eq!((&once["windows"], &once["unasked"]), (&1.into(), &serde_json::json!([])));
    // By time: more of them, and each begins in the middle.
    let (loads, stores) = named(&run("on=1ms,off=5ms")["variables"], "sum");
    assert!(loads.abs_diff(stores) <= 40 && (10_000..40_000_000).contains(&loads), "{loads} {stores}");
}

/// Each of several threads is in a loop of its own meanwhile, which it goes on with.
#[test]
fn threads_in_loops_are_traced_from_where_they_are() {
    const SOURCE: &str = r#"
#include "slimline.h"
#include <pthread.h>
#include <stdio.h>
enum { THREADS = 3, ROUNDS = 1000 };
static pthread_barrier_t here;
static volatile long touched[THREADS][8];
static void *work(void *number) {
    long last = 0;
    for (long i = 0; i < 3 * ROUNDS; i++) {
        if (i % ROUNDS == 0 && i) { pthread_barrier_wait(&here); pthread_barrier_wait(&here); }
        touched[(long)number][0] = i;
        last ^= i * (long)number;
    }
    return (void *)last;
}
int main(void) {
    pthread_t threads[THREADS];
    long sum = 0;
    pthread_barrier_init(&here, 0, THREADS + 1);
    slimline_stop();
    for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], 0, work, (void *)i);
    pthread_barrier_wait(&here); slimline_start(); pthread_barrier_wait(&here);
    pthread_barrier_wait(&here); slimline_stop(); pthread_barrier_wait(&here);
    for (int i = 0; i < THREADS; i++) { void *last; pthread_join(threads[i], &last); sum += (long)last; }
    printf("done\n");
    return sum < 0;
}
"#;
    let scratch = tempfile::tempdir().unwrap();
    fs::write(scratch.path().join("slimline.h"), HEADER).unwrap();
    let program = compiled(&scratch, SOURCE);
    let output =
        slimline().args(["trace", "--live", "--report", "-", "--format", "json", "--"]).arg(&program).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    // The round that waits is done as before: one more is traced at the end, and one less at the beginning.
    assert_eq!(named(&report(&output)["variables"], "touched"), (0, 3 * 1000));
}
