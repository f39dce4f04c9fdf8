/* Nanoseconds for one malloc(64) and free, at a depth of the stack ("same DEPTH") or from thousands of call paths in
   random order ("varied DEPTH": 8 to that power). The best of many short stretches, so that a busy machine matters less;
   of "varied" the time includes the calls on the way. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef OWN_ALLOCATOR
/* The least that an allocator can do: what a hook costs shows most. */
struct block { struct block *next; char rest[56]; };
static struct block blocks[64], *first_free;

__attribute__((noinline, noclone)) static void *take(size_t bytes) {
    struct block *block = first_free;
    __asm__ volatile("" : "+r"(bytes));
    first_free = block->next;
    return block;
}

__attribute__((noinline, noclone)) static void give(void *place) {
    struct block *block = place;
    block->next = first_free;
    first_free = block;
}

__attribute__((constructor)) static void make_blocks(void) {
    for (int i = 0; i < 64; i++) give(&blocks[i]);
}
#define malloc take
#define free give
#endif

static void *volatile sink;
static double best = 1e9;

static double now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void stretch(void (*run)(int), int depth, int pairs) {
    double start = now_ns();
    for (int i = 0; i < pairs; i++) run(depth);
    double each = (now_ns() - start) / pairs;
    if (each < best) best = each;
}

__attribute__((noinline)) static void pair(int depth) {
    (void)depth;
    void *block = malloc(64);
    sink = block;
    free(block);
}

__attribute__((noinline)) static int deep(int more) {
    if (more > 0) {
        int result = deep(more - 1);
        __asm__ volatile("" ::: "memory"); /* no tail call */
        return result + 1;
    }
    for (int i = 0; i < 400; i++) stretch(pair, 0, 5000);
    return 1;
}

static uint64_t state = 1;

#define SHAPE(n) \
    __attribute__((noinline)) static void shape##n(int more) { \
        volatile char room[16 * (n + 1)]; \
        room[0] = n; \
        any(more); \
        room[1] = room[0]; \
    }

static void any(int more);
SHAPE(0) SHAPE(1) SHAPE(2) SHAPE(3) SHAPE(4) SHAPE(5) SHAPE(6) SHAPE(7)

static void any(int more) {
    static void (*const shapes[])(int) = {shape0, shape1, shape2, shape3, shape4, shape5, shape6, shape7};
    if (more == 0) {
        pair(0);
        return;
    }
    state = state * 6364136223846793005u + 1442695040888963407u;
    shapes[state >> 61](more - 1);
}

int main(int argc, char **argv) {
    int depth = argc > 2 ? atoi(argv[2]) : 0;
    if (argc > 1 && !strcmp(argv[1], "varied"))
        for (int i = 0; i < 60; i++) stretch(any, depth, 20000);
    else
        deep(depth);
    printf("%.3f\n", best);
    return 0;
}
