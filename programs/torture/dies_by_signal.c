// Children that end by each deadly signal, by abort, by stack overflow and by a fault in their own handler, and then the same
// end for the program itself: the status is that of the signal.

#include "torture.h"
#include <sys/resource.h>
#include <sys/wait.h>

static uint64_t table[1 << 12];
static volatile int *volatile nowhere = (volatile int *)8;

static void again(int signal, siginfo_t *info, void *context)
{
    (void)info, (void)context;
    raise(signal);
    *nowhere = 1;
}

static uint64_t endless(volatile uint64_t *above)
{
    volatile uint64_t here[64];
    here[*above & 63] = *above + 1;
    if (here[*above & 63] == 0)
        return 0;
    return mixed(endless(&here[*above & 63]), here[*above & 63]);
}

int main(void)
{
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    setrlimit(RLIMIT_STACK, &(struct rlimit){1 << 20, 1 << 20});
    for (int way = 1; way < 40; way++) {
        int status;
        // Stopping signals end nothing.
        if (way == SIGSTOP || way == SIGTSTP || way == SIGTTIN || way == SIGTTOU)
            continue;
        pid_t child = fork();
        if (child == 0) {
            worked(table, 1 << 12, 100000, way);
            if (way < 35)
                raise(way);
            if (way == 35)
                abort();
            if (way == 36)
                *nowhere = 1;
            if (way == 37)
                endless(&(volatile uint64_t){5});
            if (way == 38)
                handle(SIGSEGV, again, SA_RESETHAND), *nowhere = 1;
            if (way == 39)
                ((void (*)(void))table)();
            _exit(7);
        }
        CHECK(waitpid(child, &status, 0) == child);
        printf("%d %x\n", way, status);
    }
    fflush(stdout);
    worked(table, 1 << 12, 2000000, 1);
    *nowhere = 1;
    return 0;
}
