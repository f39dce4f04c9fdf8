// Shared by the torture programs: a checksum, checked system calls, and how a program says that the machine lacks something.

#ifndef TORTURE_H
#define TORTURE_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE_BYTES 4096ul

// Ends the program with the status that `cargo xtask harm` counts as skipped.
static inline void skip(const char *why)
{
    printf("skipped: %s\n", why);
    exit(77);
}

#define CHECK(condition)                                                                 \
    do {                                                                                 \
        if (!(condition)) {                                                              \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, strerror(errno)); \
            exit(3);                                                                     \
        }                                                                                \
    } while (0)

static inline uint64_t mixed(uint64_t sum, uint64_t value)
{
    sum ^= value + 0x9e3779b97f4a7c15ul + (sum << 6) + (sum >> 2);
    return sum * 0xff51afd7ed558ccdul;
}

// Anonymous private pages.
static inline char *pages(size_t count, int protection)
{
    char *at = mmap(NULL, count * PAGE_BYTES, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

static inline void handle(int signal, void (*handler)(int, siginfo_t *, void *), int flags)
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
    CHECK(sigaction(signal, &action, NULL) == 0);
}

// Reads and writes a table of `words` (a power of two) in an order without a pattern: work for samples to meet.
static inline uint64_t worked(uint64_t *table, uint64_t words, uint64_t steps, uint64_t sum)
{
    for (uint64_t i = 0; i < steps; i++) {
        uint64_t *word = &table[(i * 0x9e3779b1u ^ sum >> 50) & (words - 1)];
        sum = mixed(sum, *word + i);
        *word = sum;
    }
    return sum;
}

#endif
