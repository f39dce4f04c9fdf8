// How a sample program says where its time really went.
//
// Each loop adds the user time of its passes to a `struct truth`; at the end of the run the totals go to the file that
// the environment variable TRUTH names, one `loop NAME NANOSECONDS` a line. One clock read per pass of some
// milliseconds and no output before the end: the run is the same with and without TRUTH.
//
// Header of plain C that C++ can include too.
#ifndef TRUTH_H
#define TRUTH_H

// For RUSAGE_THREAD; C++ compilers define it themselves.
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

struct truth {
    const char *name;
    uint64_t ns;
};

// User time of a thread or process, which is what the samplers' clocks count: blind to other load on the machine, and to
// what the kernel does for the program, as when memory is touched first.
static inline uint64_t truth_user_ns(int who)
{
    struct rusage used;
    getrusage(who, &used);
    return (uint64_t)used.ru_utime.tv_sec * 1000000000u + (uint64_t)used.ru_utime.tv_usec * 1000u;
}

static inline uint64_t truth_now(void)
{
    return truth_user_ns(RUSAGE_THREAD);
}

// Adds the time since `started`; threads may add to one loop.
static inline void truth_add(struct truth *loop, uint64_t started)
{
    __atomic_fetch_add(&loop->ns, truth_now() - started, __ATOMIC_RELAXED);
}

// Writes all totals, then the process's whole user time, which is more than their sum by start-up and exit.
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
    fprintf(file, "process %llu\n", (unsigned long long)truth_user_ns(RUSAGE_SELF));
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
