// A program that lowers its own limits to what it needs, and meets them: descriptors, memory, processes, file size, CPU time.

#include "torture.h"
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>

static uint64_t table[1 << 12];

static void *thread(void *sum)
{
    return (void *)worked(table, 1 << 12, 1, (uint64_t)sum);
}

static void lower(enum __rlimit_resource resource, rlim_t to)
{
    CHECK(setrlimit(resource, &(struct rlimit){to, to}) == 0);
}

static int ending(void (*work)(void))
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        work();
        _exit(0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    return status;
}

static void file_size(void)
{
    FILE *file = tmpfile();
    lower(RLIMIT_FSIZE, 10000);
    for (int i = 0; i < 20; i++)
        CHECK(write(fileno(file), table, 1000) == 1000);
}

static void cpu_time(void)
{
    lower(RLIMIT_CPU, 1);
    for (uint64_t sum = 1;;)
        sum = worked(table, 1 << 12, 100000, sum);
}

static void memory(void)
{
    lower(RLIMIT_DATA, 64 << 20);
    int count = 0;
    while (malloc(1 << 20))
        count++;
    _exit(count > 48 && count < 64 ? 42 : 1);
}

static void processes(void)
{
    CHECK(setuid(65534) == 0);
    lower(RLIMIT_NPROC, 0);
    pthread_t started;
    _exit(fork() == -1 && pthread_create(&started, NULL, thread, NULL) == EAGAIN ? 43 : 1);
}

static void core_and_signals(void)
{
    lower(RLIMIT_CORE, 0);
    lower(RLIMIT_SIGPENDING, 4);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGRTMIN + 7);
    sigprocmask(SIG_BLOCK, &set, NULL);
    int queued = 0;
    while (sigqueue(getpid(), SIGRTMIN + 7, (union sigval){0}) == 0)
        queued++;
    _exit(queued <= 4 ? 44 : 1);
}

int main(void)
{
    static void (*const ways[])(void) = {file_size, cpu_time, memory, processes, core_and_signals};
    uint64_t sum = worked(table, 1 << 12, 4000000, 1);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        printf("%x\n", ending(ways[i]));
    lower(RLIMIT_STACK, 128 << 10);
    lower(RLIMIT_MEMLOCK, 0);
    lower(RLIMIT_NOFILE, 16);
    sum = worked(table, 1 << 12, 4000000, sum);
    printf("%lx\n", sum);
    return 0;
}
