// A program that answers its own system calls (PR_SET_SYSCALL_USER_DISPATCH), as emulators of other systems do, in two threads.

#include "torture.h"
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#define PR_SYS_DISPATCH_OFF 0
#define PR_SYS_DISPATCH_ON 1
#endif

static _Thread_local volatile char blocked;
static int answered, numbers;

static void answer(int signal, siginfo_t *info, void *context)
{
    blocked = 0;
    __atomic_fetch_add(&answered, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&numbers, info->si_syscall, __ATOMIC_RELAXED);
    (void)signal, (void)context;
}

static void *worker(void *argument)
{
    uint64_t *table = calloc(1 << 12, 8), sum = worked(table, 1 << 12, 1000000, 1);
    // The first thread by the C library's function, the other by number.
    long result = argument ? prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0, 0, &blocked)
                           : syscall(SYS_prctl, PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0, 0, &blocked);
    if (result)
        skip("PR_SET_SYSCALL_USER_DISPATCH (the kernel has none)");
    for (int i = 0; i < 10; i++) {
        blocked = 1;
        sum = worked(table, 1 << 12, 1000000, sum);
        free(malloc(100 + (sum & 0xfff)));
        syscall(SYS_getppid);
        blocked = 0;
    }
    prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF, 0, 0, 0);
    free(table);
    return (void *)sum;
}

int main(void)
{
    pthread_t thread;
    void *sum;
    handle(SIGSYS, answer, 0);
    CHECK(pthread_create(&thread, NULL, worker, NULL) == 0);
    uint64_t own = (uint64_t)worker(&thread);
    pthread_join(thread, &sum);
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(own & 63);
    CHECK(waitpid(child, &status, 0) == child);
    printf("%lx %lx %x %d calls, sum of numbers %d\n", own, (uint64_t)sum, status, answered, numbers);
    return 0;
}
