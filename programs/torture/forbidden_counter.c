// A program that forbids itself the time stamp counter, and with that the kernel's clocks, in two threads and a child.

#include "torture.h"
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/wait.h>

static void *worker(void *argument)
{
    uint64_t *table = calloc(1 << 12, 8), sum = (uint64_t)argument;
    for (int i = 0; i < 20; i++) {
        sum = worked(table, 1 << 12, 500000, sum);
        free(malloc(100 + (sum & 0xfffff)));
    }
    free(table);
    return (void *)sum;
}

int main(void)
{
    pthread_t thread;
    void *sum;
    int status;
    if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV))
        skip("PR_SET_TSC (the processor has none)");
    CHECK(pthread_create(&thread, NULL, worker, (void *)2) == 0);
    uint64_t own = (uint64_t)worker((void *)1);
    pthread_join(thread, &sum);
    pid_t child = fork();
    if (child == 0)
        _exit((uint64_t)worker((void *)3) & 63);
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(prctl(PR_SET_TSC, PR_TSC_ENABLE) == 0);
    printf("%lx %lx %x\n", own, (uint64_t)sum, status);
    return 0;
}
