// A sandbox as browsers make it: a filter that kills for any system call but those that the program itself needs, in threads.

#include "torture.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define ALLOW(number)                                          \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1),       \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static pthread_barrier_t barrier;

static void *worker(void *argument)
{
    uint64_t *table = calloc(1 << 12, 8), sum = (uint64_t)argument;
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 60; i++) {
        sum = worked(table, 1 << 12, 100000, sum);
        free(malloc(100000 + (sum & 0xfffff)));
    }
    return (void *)sum;
}

int main(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOW(SYS_write), ALLOW(SYS_futex), ALLOW(SYS_mmap), ALLOW(SYS_munmap), ALLOW(SYS_mprotect), ALLOW(SYS_brk),
        ALLOW(SYS_madvise), ALLOW(SYS_getrandom), ALLOW(SYS_sched_yield),
        ALLOW(SYS_set_robust_list), ALLOW(SYS_rseq), ALLOW(SYS_newfstatat), ALLOW(SYS_exit), ALLOW(SYS_exit_group), ALLOW(SYS_rt_sigreturn), ALLOW(SYS_rt_sigprocmask),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
    pthread_t threads[2];
    void *sums[2];
    pthread_barrier_init(&barrier, NULL, 3);
    for (uint64_t i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, worker, (void *)(i + 1)) == 0);
    // glibc opens standard output's buffer before the filter forbids fstat.
    printf("filtered\n");
    fflush(stdout);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program))
        skip("seccomp (the kernel has none)");
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], &sums[i]);
    printf("%lx %lx\n", (uint64_t)sums[0], (uint64_t)sums[1]);
    return 0;
}
