// Another process attaches to a busy one as debuggers do, steps it, looks at it for a while, and lets it go.

#include "torture.h"
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

// Stops a process and waits until it has stopped. Other signals may stop it first: they are handed on.
static void attach(pid_t process)
{
    int status;
    CHECK(ptrace(PTRACE_ATTACH, process, NULL, NULL) == 0);
    while (waitpid(process, &status, __WALL) == process && WIFSTOPPED(status) && WSTOPSIG(status) != SIGSTOP)
        CHECK(ptrace(PTRACE_CONT, process, NULL, (void *)(long)WSTOPSIG(status)) == 0);
    CHECK(WIFSTOPPED(status));
    // As long as a debugger takes to read symbols.
    usleep(60000);
}

static void step(pid_t process, int steps)
{
    int status;
    for (int i = 0; i < steps; i++) {
        CHECK(ptrace(PTRACE_SINGLESTEP, process, NULL, NULL) == 0);
        CHECK(waitpid(process, &status, __WALL) == process && WIFSTOPPED(status));
    }
}

// Runs it under the tracer's eyes; how often SIGTRAP stops it before SIGUSR1 does.
static int watch(pid_t process)
{
    int status, traps = 0;
    // A person looks around meanwhile.
    usleep(400000);
    CHECK(ptrace(PTRACE_CONT, process, NULL, NULL) == 0);
    usleep(100000);
    kill(process, SIGUSR1);
    while (waitpid(process, &status, __WALL) == process && WIFSTOPPED(status) && WSTOPSIG(status) != SIGUSR1) {
        traps += WSTOPSIG(status) == SIGTRAP;
        int signal = WSTOPSIG(status) == SIGTRAP || WSTOPSIG(status) == SIGSTOP ? 0 : WSTOPSIG(status);
        CHECK(ptrace(PTRACE_CONT, process, NULL, (void *)(long)signal) == 0);
    }
    return traps;
}

int main(void)
{
    static uint64_t table[1 << 12];
    int status, traps = 0;
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            worked(table, 1 << 12, 1000000, 1);
    }
    for (int i = 0; i < 20; i++) {
        usleep(10000 + i * 1000);
        attach(child);
        step(child, i * 200);
        if (i % 5 == 0)
            traps += watch(child);
        CHECK(ptrace(PTRACE_DETACH, child, NULL, NULL) == 0);
    }
    usleep(100000);
    kill(child, SIGTERM);
    CHECK(waitpid(child, &status, 0) == child);
    printf("ended by %d, %d traps\n", WIFSIGNALED(status) ? WTERMSIG(status) : 0, traps);
    return 0;
}
