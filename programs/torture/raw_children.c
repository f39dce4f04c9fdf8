// Children by system calls of the program's own: fork, vfork, clone with CLONE_VM and stacks, clone3, and threads in children.

#include "torture.h"
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static uint64_t table[1 << 12];

static int work(void *seed)
{
    return (int)(worked(table, 1 << 12, 400000, (uint64_t)seed) & 63);
}

static void *thread(void *seed)
{
    return (void *)(uint64_t)work(seed);
}

static int waited(pid_t child)
{
    int status;
    CHECK(child > 0 && waitpid(child, &status, __WALL) == child);
    return status;
}

int main(void)
{
    uint64_t sum = 1;
    for (uint64_t i = 0; i < 8; i++) {
        pid_t child = (pid_t)syscall(SYS_fork);
        if (child == 0)
            syscall(SYS_exit_group, work((void *)i));
        sum = mixed(sum, waited(child));
        struct clone_args arguments = {.exit_signal = SIGCHLD};
        child = (pid_t)syscall(SYS_clone3, &arguments, sizeof arguments);
        if (child == 0) {
            free(malloc(10000));
            _exit(work((void *)i));
        }
        sum = mixed(sum, waited(child));
        char *stack = pages(16, PROT_READ | PROT_WRITE);
        sum = mixed(sum, waited(clone(work, stack + 16 * PAGE_BYTES, CLONE_VM | SIGCHLD, (void *)i)));
        sum = mixed(sum, waited(clone(work, stack + 16 * PAGE_BYTES, CLONE_VM | CLONE_VFORK | SIGCHLD, (void *)i)));
        sum = mixed(sum, waited(clone(work, stack + 16 * PAGE_BYTES, CLONE_FILES | CLONE_FS | SIGCHLD, (void *)i)));
        CHECK(munmap(stack, 16 * PAGE_BYTES) == 0);
        child = fork();
        if (child == 0) {
            pthread_t started;
            void *result;
            CHECK(pthread_create(&started, NULL, thread, (void *)i) == 0);
            pthread_join(started, &result);
            child = fork();
            if (child == 0)
                _exit(work(result));
            _exit(waited(child) >> 8);
        }
        sum = mixed(sum, waited(child));
    }
    printf("%lx %lx\n", sum, worked(table, 1 << 12, 100000, 1));
    return 0;
}
