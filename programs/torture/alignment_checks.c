// gcc: -Wl,-z,now
// A program that has the processor check alignment (flag AC), with allocations, call paths and a handler of its own.

#include "torture.h"
#include <pthread.h>

#define CHECKS 0x40000ul

static int checked;

static inline uint64_t flags(void)
{
    uint64_t flags;
    __asm__ volatile("pushfq; popq %0" : "=r"(flags));
    return flags;
}

static void count(int signal)
{
    __atomic_fetch_add(&checked, (flags() & CHECKS) != 0, __ATOMIC_RELAXED);
    (void)signal;
}

static __attribute__((noinline)) uint64_t nested(int depth, uint64_t sum)
{
    if (depth)
        return mixed(nested(depth - 1, sum), depth);
    void *block = malloc(64 + (sum & 0xff8));
    sum += block != NULL;
    free(block);
    return sum;
}

static void *worker(void *argument)
{
    uint64_t *table = calloc(1 << 12, 8), sum = (uint64_t)argument;
    for (int i = 0; i < 10; i++) {
        __asm__ volatile("pushfq; orl %0, (%%rsp); popfq" : : "i"(CHECKS) : "memory", "cc");
        sum = worked(table, 1 << 12, 1000000, sum);
        for (int j = 0; j < 30000; j++)
            sum = nested(j & 15, sum);
        raise(SIGTRAP);
        raise(SIGUSR1);
        sum += (flags() & CHECKS) != 0;
        __asm__ volatile("pushfq; andl %0, (%%rsp); popfq" : : "i"((int)~CHECKS) : "memory", "cc");
    }
    free(table);
    return (void *)sum;
}

int main(void)
{
    pthread_t thread;
    void *sum;
    signal(SIGTRAP, count);
    signal(SIGUSR1, count);
    CHECK(pthread_create(&thread, NULL, worker, (void *)1) == 0);
    uint64_t own = (uint64_t)worker((void *)2);
    pthread_join(thread, &sum);
    printf("%lx %lx %d\n", own, (uint64_t)sum, checked);
    return 0;
}
