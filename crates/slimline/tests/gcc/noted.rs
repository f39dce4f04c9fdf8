//! Blocks of programs that are traced in parts only.

use super::{Compiled, heap};

/// Somebody else closes and opens the gate all the time, also between two instructions of what tells a block: nothing else
/// is ever written, and few blocks are lost, in the chunk that a thread goes on with where nobody reads. Who does so tells nothing, and so waits for nobody.
#[test]
fn blocks_are_told_while_another_thread_starts_and_stops() {
    const SOURCE: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
extern void __slimline_start(void) __attribute__((weak));
extern void __slimline_stop(void) __attribute__((weak));
static int over;
__attribute__((no_sanitize("thread"))) static void *toggle(void *unused) {
    for (int i = 0; i < 200000; i++) { __slimline_stop(); __slimline_start(); }
    __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
    return unused;
}
int main(void) {
    pthread_t toggles;
    pthread_create(&toggles, NULL, toggle, NULL);
    long count = 0;
    for (; !__atomic_load_n(&over, __ATOMIC_ACQUIRE); count++) {
        volatile long *zeros = calloc(2, 8);
        volatile long *one = malloc(8);
        zeros[1] = *one = count;
        free((void *)zeros);
        free((void *)one);
    }
    pthread_join(toggles, NULL);
    printf("%ld\n", count);
    return 0;
}
"#;
    let program = Compiled::new("gcc", SOURCE, &[]);
    let (said, report) = program.traced(&[]);
    let count: u64 = said.trim().parse().unwrap();
    assert!(count > 1000, "{count}");
    let blocks: Vec<_> = heap(&report).into_iter().map(|(line, blocks, ..)| (line, blocks)).collect();
    let [(18, zeros), (19, ones)] = blocks[..] else { panic!("{blocks:?}") };
    assert!(zeros <= count && ones <= count && zeros.min(ones) * 20 >= count * 19, "{blocks:?} of {count}");
    assert!(!report["missing"].to_string().contains("not understood"), "{}", report["missing"]);
}

/// A block that one thread makes and another one frees, and gets again, all before anything is traced.
#[test]
fn blocks_from_before_tracing_began_are_those_of_who_had_them_last() {
    const SOURCE: &str = r#"
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
extern void __slimline_start(void) __attribute__((weak));
extern void __slimline_stop(void) __attribute__((weak));
static sem_t other_began, handed;
static long *volatile block;
static void *volatile kept;
__attribute__((noinline)) static void *ours(void) { return malloc(64); }
__attribute__((noinline)) static void *theirs(void) { return malloc(63); }
static void *other(void *unused) {
    kept = malloc(4000);
    sem_post(&other_began);
    sem_wait(&handed);
    long *had = block;
    free(had);
    block = theirs();
    printf("%d\n", block == had);
    return unused;
}
__attribute__((noinline)) static void use(volatile long *block) { for (int i = 0; i < 8; i++) block[i] = i; }
int main(void) {
    pthread_t thread;
    __slimline_stop();
    sem_init(&other_began, 0, 0);
    sem_init(&handed, 0, 0);
    pthread_create(&thread, NULL, other, NULL);
    sem_wait(&other_began);
    kept = malloc(3000);
    block = ours();
    sem_post(&handed);
    pthread_join(thread, NULL);
    __slimline_start();
    use(block);
    return 0;
}
"#;
    let program = Compiled::new("gcc", SOURCE, &[]);
    let (said, report) = program.traced(&[]);
    assert_eq!(said, "1\n");
    let groups = report["heap"].as_array().unwrap().iter().filter(|group| group["stores"] != 0);
    let stored: Vec<_> = groups.map(|group| (group["function"].as_str(), group["stores"].as_u64())).collect();
    assert_eq!(stored, [(Some("theirs"), Some(8))]);
    assert!(!report["missing"].to_string().contains("time stamps"), "{}", report["missing"]);
}
