// Threads that leave all signals to others but those of faults, among them SIGTRAP, which has a handler.

#include "torture.h"
#include <pthread.h>

static volatile sig_atomic_t trapped;

static void count(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info, (void)context;
    trapped++;
}

static uint64_t trap(uint64_t sum)
{
    uint64_t *table = calloc(1 << 12, 8);
    for (int round = 0; round < 20; round++) {
        sum = worked(table, 1 << 12, 100000, sum);
        raise(SIGTRAP);
        __asm__ volatile("int3");
    }
    free(table);
    return sum;
}

static void *in_thread(void *argument) { return (void *)trap((uint64_t)argument); }

int main(void)
{
    sigset_t all, found;
    handle(SIGTRAP, count, 0);
    sigfillset(&all);
    for (int *fault = (int[]){SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, 0}; *fault; fault++)
        sigdelset(&all, *fault);
    CHECK(pthread_sigmask(SIG_SETMASK, &all, NULL) == 0 && pthread_sigmask(SIG_SETMASK, NULL, &found) == 0);
    for (int signal = 1; signal <= 64; signal++)
        putchar('0' + sigismember(&found, signal));
    pthread_t thread;
    void *result;
    CHECK(pthread_create(&thread, NULL, in_thread, (void *)2) == 0);
    uint64_t sum = trap(1);
    CHECK(pthread_join(thread, &result) == 0);
    printf("\n%lx %lx %d\n", sum, (uint64_t)result, trapped);
    return trapped != 80;
}
