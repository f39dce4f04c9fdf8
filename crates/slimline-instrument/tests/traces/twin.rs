//! The same counts from somebody else: clang's own callbacks for loads and stores.

use std::process::Command;

use slimline_trace::stream::sites::SiteKind::{Load, Store};

use crate::harness::{clang, run, trace_c};

/// Sorting, hashing, strings, recursion and numbers of all sizes.
const SOURCE: &str = r#"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
struct entry { uint64_t key; uint32_t count; uint16_t length; char first; struct entry *next; };
struct tree { struct tree *left, *right; short weight; double sum; };
static struct entry *buckets[257];
static uint32_t state = 12345;
static uint32_t draw(void) { state = state * 1664525 + 1013904223; return state >> 8; }
static struct entry *enter(const char *word) {
    uint64_t key = 14695981039346656037u;
    size_t length = strlen(word);
    for (size_t i = 0; i < length; i++) key = (key ^ (unsigned char)word[i]) * 1099511628211u;
    for (struct entry *e = buckets[key % 257]; e; e = e->next) if (e->key == key) { e->count++; return e; }
    struct entry *e = calloc(1, sizeof *e);
    *e = (struct entry){ key, 1, (uint16_t)length, word[0], buckets[key % 257] };
    return buckets[key % 257] = e;
}
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
static struct tree *grow(int depth) {
    if (depth == 0) return NULL;
    struct tree *t = malloc(sizeof *t);
    t->weight = (short)draw();
    t->left = grow(depth - 1);
    t->right = grow(depth - 1 - (int)(draw() & 1 && depth > 1));
    t->sum = t->weight + (t->left ? t->left->sum : 0) + (t->right ? t->right->sum : 0);
    return t;
}
int main(void) {
    char text[32];
    uint64_t seen = 0;
    for (int i = 0; i < 5000; i++) {
        snprintf(text, sizeof text, "w%u", draw() % 700);
        struct entry *e = enter(text);
        seen += e->count * e->length;
    }
    int numbers[600];
    for (int i = 0; i < 600; i++) numbers[i] = (int)(draw() % 10000);
    qsort(numbers, 600, sizeof *numbers, compare);
    long double wide = 0;
    float narrow[64];
    for (int i = 0; i < 64; i++) narrow[i] = (float)numbers[i * 9] / 3;
    for (int i = 0; i < 64; i++) wide += narrow[i];
    printf("%llu %d %g %Lg\n", (unsigned long long)seen, numbers[300], grow(10)->sum, wide);
}
"#;

/// Counts each size's callbacks and writes them down at the end.
const COUNTER: &str = r#"
#include <stdio.h>
#include <stdlib.h>
static unsigned long counts[2][5];
#define HOOK(n, i) void __sanitizer_cov_load##n(void *p) { counts[0][i]++; } void __sanitizer_cov_store##n(void *p) { counts[1][i]++; }
HOOK(1, 0) HOOK(2, 1) HOOK(4, 2) HOOK(8, 3) HOOK(16, 4)
void __sanitizer_cov_trace_pc(void) {}
__attribute__((destructor)) static void tell(void) {
    FILE *file = fopen(getenv("COUNTS"), "w");
    for (int i = 0; i < 10; i++) fprintf(file, "%lu ", counts[i / 5][i % 5]);
    fclose(file);
}
"#;

#[test]
fn clang_counts_as_many_loads_and_stores() {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name);
    std::fs::write(place("program.c"), SOURCE).unwrap();
    std::fs::write(place("counter.c"), COUNTER).unwrap();
    run(Command::new(clang()).args(["-O2", "-c", "-o"]).args([place("counter.o"), place("counter.c")]));
    for level in ["-O1", "-O2", "-O3"] {
        let coverage = "-fsanitize-coverage=edge,trace-pc,trace-loads,trace-stores";
        // With debug information, as the driver adds it.
        run(Command::new(clang())
            .args([level, "-g", coverage, "-c", "-o"])
            .args([place("program.o"), place("program.c")]));
        // Linked without the option: clang would add a runtime of its own.
        run(Command::new(clang()).arg("-o").args([place("counted"), place("program.o"), place("counter.o")]));
        run(Command::new(place("counted")).env("COUNTS", place("counts")));
        let counts = std::fs::read_to_string(place("counts")).unwrap();
        let expected: Vec<usize> = counts.split_whitespace().map(|count| count.parse().unwrap()).collect();
        let trace = trace_c(SOURCE, &[level]);
        let ours: Vec<_> = [Load, Store]
            .into_iter()
            .flat_map(|kind| [1, 2, 4, 8, 16].map(|bytes| (kind, bytes)))
            .map(|(kind, bytes)| trace.count(|site| site.kind == kind && site.bytes == bytes && site.detail.is_empty()))
            .collect();
        assert_eq!(ours, expected, "{level}");
        assert!(ours.iter().sum::<usize>() > 50_000);
    }
}
