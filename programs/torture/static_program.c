// gcc: -static-pie
// A static program, into which nothing can be preloaded, with threads, children and signals.

#include "torture.h"
#include <pthread.h>
#include <sys/wait.h>

static volatile int handled;

static void on_signal(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info, (void)context;
    handled++;
}

static void *thread(void *sum)
{
    uint64_t *table = calloc(1 << 12, 8);
    return (void *)worked(table, 1 << 12, 3000000, (uint64_t)sum);
}

int main(void)
{
    pthread_t threads[2];
    void *sums[2];
    handle(SIGPROF, on_signal, 0);
    for (uint64_t i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, thread, (void *)i) == 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], &sums[i]);
    raise(SIGPROF);
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit((int)((uint64_t)thread(sums[0]) & 63));
    CHECK(waitpid(child, &status, 0) == child);
    printf("%lx %lx %x %d\n", (uint64_t)sums[0], (uint64_t)sums[1], status, handled);
    return 0;
}
