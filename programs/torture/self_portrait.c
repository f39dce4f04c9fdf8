// All that a program sees of itself: signal dispositions, masks, timers, descriptors, threads, limits, environment and layout.

#include "torture.h"
#include <dirent.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>

extern char **environ;

static int compared(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void signals(void)
{
    sigset_t mask, pending;
    stack_t stack;
    sigprocmask(SIG_BLOCK, NULL, &mask);
    sigpending(&pending);
    sigaltstack(NULL, &stack);
    printf("alternate stack: flags %d\n", stack.ss_flags);
    for (int signal = 1; signal <= 64; signal++) {
        struct sigaction action;
        if (sigaction(signal, NULL, &action) == 0 && (action.sa_handler || sigismember(&mask, signal) || sigismember(&pending, signal)))
            printf("signal %d: ignored %d, blocked %d, pending %d\n", signal, action.sa_handler == SIG_IGN,
                   sigismember(&mask, signal), sigismember(&pending, signal));
    }
}

static void entries(const char *directory, int with_targets)
{
    DIR *all = opendir(directory);
    struct dirent *entry;
    char *names[256];
    int count = 0;
    CHECK(all);
    while ((entry = readdir(all)) && count < 256) {
        char path[512], target[512];
        // Descriptors from 900 on are slimline's (docs/what-a-program-sees.md).
        if (entry->d_name[0] == '.' || atoi(entry->d_name) == dirfd(all) || (with_targets && atoi(entry->d_name) >= 900))
            continue;
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        ssize_t bytes = with_targets ? readlink(path, target, sizeof target - 1) : 0;
        char line[1100];
        // Where the standard streams go is the caller's business.
        snprintf(line, sizeof line, "%s %.*s", entry->d_name, atoi(entry->d_name) > 2 ? (int)bytes : 0, target);
        names[count++] = strdup(line);
    }
    closedir(all);
    qsort(names, count, sizeof *names, compared);
    printf("%s: %d\n", directory, count);
    for (int i = 0; with_targets && i < count; i++)
        printf("  %s\n", names[i]);
}

static void limits(void)
{
    for (int resource = 0; resource < RLIM_NLIMITS; resource++) {
        struct rlimit limit;
        if (getrlimit((enum __rlimit_resource)resource, &limit) == 0)
            printf("limit %d: %lx %lx\n", resource, (long)limit.rlim_cur, (long)limit.rlim_max);
    }
}

static void times(void)
{
    for (int which = 0; which < 3; which++) {
        struct itimerval timer;
        CHECK(getitimer((enum __itimer_which)which, &timer) == 0);
        printf("interval timer %d: %ld\n", which, timer.it_interval.tv_sec + timer.it_interval.tv_usec + timer.it_value.tv_usec);
    }
}

static void status(void)
{
    static const char *const shown[] = {"Name:", "Umask:", "State:", "TracerPid:", "Threads:", "SigQ", "SigPnd:", "ShdPnd:", "SigBlk:",
                                        "SigIgn:", "NoNewPrivs:", "Seccomp:", "CapEff:", "Uid:", "VmLck:", "Cpus_allowed:"};
    FILE *file = fopen("/proc/self/status", "r");
    char line[512];
    CHECK(file);
    while (fgets(line, sizeof line, file))
        for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
            if (i != 5 && strncmp(line, shown[i], strlen(shown[i])) == 0)
                fputs(line, stdout);
    fclose(file);
    printf("dumpable %d, subreaper %d, death signal %d, timer slack %d, securebits %d\n", prctl(PR_GET_DUMPABLE),
           prctl(PR_GET_CHILD_SUBREAPER, &(int){0}), prctl(PR_GET_PDEATHSIG, &(int){0}), prctl(PR_GET_TIMERSLACK), prctl(PR_GET_SECUREBITS));
    printf("process group is its own: %d, nice %d, children: %d\n", getpgrp() == getpid(), getpriority(PRIO_PROCESS, 0),
           waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD ? 0 : 1);
}

static void environment(void)
{
    int count = 0;
    while (environ[count])
        count++;
    qsort(environ, count, sizeof *environ, compared);
    for (int i = 0; i < count; i++)
        // Two variables are slimline's.
        if (strncmp(environ[i], "_=", 2) && strncmp(environ[i], "LD_PRELOAD=", 11) && strncmp(environ[i], "SLIMLINE_RUN=", 13))
            printf("%s\n", environ[i]);
}

int main(int argc, char **argv)
{
    uint64_t *table = calloc(1 << 12, 8), sum = 1;
    printf("%d arguments, %s\n", argc, strrchr(argv[0], '/') ? strrchr(argv[0], '/') : argv[0]);
    for (int round = 0; round < 3; round++) {
        sum = worked(table, 1 << 12, 2000000, sum);
        printf("%lx errno %d\n", sum, errno);
        signals();
        entries("/proc/self/fd", 1);
        entries("/proc/self/task", 0);
        times();
        status();
    }
    limits();
    environment();
    return 0;
}
