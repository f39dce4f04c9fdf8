// Storms of signals: nested handlers with SA_NODEFER, queued real-time signals from another thread, none lost, in order.

#include "torture.h"
#include <pthread.h>

enum { QUEUED = 20000 };
static volatile uint64_t nested, received, disordered, sums;
static volatile int depth, deepest;
static pthread_t target;

static void on_nested(int signal, siginfo_t *info, void *context)
{
    (void)info, (void)context;
    nested++;
    if (++depth > deepest)
        deepest = depth;
    if (depth < 8)
        raise(signal);
    depth--;
}

static void on_queued(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)context;
    disordered += (uint64_t)info->si_value.sival_int != received;
    received++;
    sums = mixed(sums, (uint64_t)info->si_value.sival_int);
}

static void *sender(void *unused)
{
    for (int i = 0; i < QUEUED; i++)
        while (pthread_sigqueue(target, SIGRTMIN + 3, (union sigval){.sival_int = i}))
            sched_yield();
    return unused;
}

int main(void)
{
    handle(SIGUSR1, on_nested, SA_NODEFER);
    handle(SIGRTMIN + 3, on_queued, SA_RESTART);
    uint64_t *table = calloc(1 << 12, 8), sum = 1;
    pthread_t thread;
    target = pthread_self();
    CHECK(pthread_create(&thread, NULL, sender, NULL) == 0);
    for (int i = 0; i < 3000; i++) {
        sum = worked(table, 1 << 12, 500, sum);
        raise(SIGUSR1);
    }
    pthread_join(thread, NULL);
    while (received < QUEUED)
        ;
    printf("%lx %lu deepest %d, queued %lu disordered %lu %lx\n", sum, nested, deepest, received, disordered, sums);
    return 0;
}
