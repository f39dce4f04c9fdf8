// Safepoints of a garbage collector: threads poll a page, which is protected to stop them all. Each faults once a round.

#include "torture.h"
#include <pthread.h>
#include <sched.h>

enum { THREADS = 3, ROUNDS = 2000 };
static volatile char *poll_page;
static int stopped, released, over;
static uint64_t faults, sums[THREADS];

static void on_fault(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)context;
    if (info->si_addr != (void *)poll_page)
        _exit(4);
    int round = __atomic_load_n(&released, __ATOMIC_ACQUIRE);
    __atomic_fetch_add(&faults, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&stopped, 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(&released, __ATOMIC_ACQUIRE) == round)
        sched_yield();
}

static void *worker(void *number)
{
    uint64_t *table = calloc(1 << 12, 8), sum = (uint64_t)number;
    while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
        sums[(uint64_t)number] = worked(table, 1 << 12, 50, sum);
        (void)*poll_page;
    }
    free(table);
    return NULL;
}

int main(void)
{
    pthread_t threads[THREADS];
    poll_page = pages(1, PROT_READ);
    handle(SIGSEGV, on_fault, 0);
    for (uint64_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, worker, (void *)i) == 0);
    for (int round = 0; round < ROUNDS; round++) {
        __atomic_store_n(&stopped, 0, __ATOMIC_RELEASE);
        mprotect((void *)poll_page, PAGE_BYTES, PROT_NONE);
        while (__atomic_load_n(&stopped, __ATOMIC_ACQUIRE) < THREADS)
            sched_yield();
        mprotect((void *)poll_page, PAGE_BYTES, PROT_READ);
        if (round == ROUNDS - 1)
            __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
        __atomic_fetch_add(&released, 1, __ATOMIC_RELEASE);
        for (volatile int i = 0; i < 20000; i++)
            ;
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("%lu faults\n", faults);
    return 0;
}
