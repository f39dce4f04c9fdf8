// The strictest sandbox: after seccomp's strict mode any system call but read, write, exit and sigreturn kills the process.

#include "torture.h"
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

int main(void)
{
    static char line[64];
    uint64_t *table = calloc(1 << 14, 8), sum = worked(table, 1 << 14, 1000000, 1);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT))
        skip("seccomp (the kernel has none)");
    sum = worked(table, 1 << 14, 10000000, sum);
    int bytes = snprintf(line, sizeof line, "%lx\n", sum);
    if (write(1, line, bytes) != bytes)
        syscall(SYS_exit, 3);
    syscall(SYS_exit, 0);
}
