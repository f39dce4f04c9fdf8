// Works, forbids itself perf, and has a child that works as well.
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void spin(void) {
    static volatile unsigned long x;
    for (long i = 0; i < 100000000; i++) x += i * i;
}

// Not the C library's: with those that are seen to confine the process, recording ends.
static long call(long number, long first, long second, const void *third) {
    long result;
    register long fourth __asm__("r10") = 0, fifth __asm__("r8") = 0;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(first), "S"(second), "d"(third), "r"(fourth), "r"(fifth)
                     : "rcx", "r11", "memory");
    return result;
}

int main(void) {
    spin();
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_perf_event_open, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof code / sizeof *code, code};
    if (call(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0) || call(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
        abort();
    if (fork() == 0) {
        spin();
        return 3;
    }
    int status = -1;
    wait(&status);
    printf("%#x\n", status);
    return 0;
}
