// How a sample program says where its time really went.
//
// Each loop adds the CPU time of its passes to a `struct truth`; at the end of the run the totals go to the file that
// the environment variable TRUTH names, one `loop NAME NANOSECONDS` a line. One clock read per pass of some
// milliseconds and no output before the end: the run is the same with and without TRUTH.
//
// Header of plain C that C++ can include too.
#ifndef TRUTH_H
#define TRUTH_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct truth {
    const char *name;
    uint64_t ns;
};

// CPU time of the calling thread: what the samplers' clocks count, and blind to other load on the machine.
static inline uint64_t truth_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

// Adds the time since `started`; threads may add to one loop.
static inline void truth_add(struct truth *loop, uint64_t started)
{
    __atomic_fetch_add(&loop->ns, truth_now() - started, __ATOMIC_RELAXED);
}

// Writes all totals, then the process's whole CPU time, which is more than their sum by start-up and exit.
static inline void truth_write(const struct truth *loops, size_t count)
{
    const char *path = getenv("TRUTH");
    if (!path)
        return;
    FILE *file = fopen(path, "w");
    if (!file) {
        perror(path);
        exit(2);
    }
    for (size_t i = 0; i < count; i++)
        fprintf(file, "loop %s %llu\n", loops[i].name, (unsigned long long)loops[i].ns);
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    fprintf(file, "process %llu\n", (unsigned long long)t.tv_sec * 1000000000ull + (unsigned long long)t.tv_nsec);
    fclose(file);
}

// The `n`th command-line argument as a positive number, or `otherwise`.
static inline long argument(int argc, char **argv, int n, long otherwise)
{
    if (argc <= n)
        return otherwise;
    char *end;
    long value = strtol(argv[n], &end, 10);
    if (*end || value <= 0) {
        fprintf(stderr, "%s: not a positive number: %s\n", argv[0], argv[n]);
        exit(2);
    }
    return value;
}

// xorshift64: the same sequence everywhere.
static inline uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

#endif
