// Checks against debuggers: nobody traces the program, a child can attach to its parent, and a traced child runs step by step.

#include "torture.h"
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

static uint64_t table[1 << 12], polled[1 << 12];

int main(void)
{
    worked(table, 1 << 12, 3000000, 1);
    int status, attached = 0, steps = 0;
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    for (int i = 0; i < 20; i++) {
        pid_t parent = getpid(), child = fork();
        if (child == 0) {
            if (ptrace(PTRACE_ATTACH, parent, NULL, NULL))
                _exit(1);
            // Other signals may stop the parent first; they are handed on, as debuggers do.
            while (waitpid(parent, &status, 0) == parent && WIFSTOPPED(status) && WSTOPSIG(status) != SIGSTOP)
                ptrace(PTRACE_CONT, parent, NULL, (void *)(long)WSTOPSIG(status));
            _exit(ptrace(PTRACE_DETACH, parent, NULL, NULL) ? 2 : 0);
        }
        while (waitpid(child, &status, WNOHANG) == 0)
            worked(polled, 1 << 12, 100, 1);
        attached += status == 0;
    }
    pid_t child = fork();
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        raise(SIGSTOP);
        _exit((int)(worked(table, 1 << 12, 100, 1) & 63));
    }
    CHECK(waitpid(child, &status, 0) == child && WIFSTOPPED(status));
    while (WIFSTOPPED(status)) {
        // Signals are handed on, as debuggers do.
        int signal = WSTOPSIG(status) == SIGTRAP || WSTOPSIG(status) == SIGSTOP ? 0 : WSTOPSIG(status);
        CHECK(ptrace(steps < 2000 ? PTRACE_SINGLESTEP : PTRACE_CONT, child, NULL, (void *)(long)signal) == 0);
        steps++;
        CHECK(waitpid(child, &status, 0) == child);
    }
    printf("%lx attached %d, exit %d, signal %d\n", worked(table, 1 << 12, 3000000, 1), attached, WEXITSTATUS(status),
           WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    return 0;
}
