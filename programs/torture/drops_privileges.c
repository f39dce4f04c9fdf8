// A server's start as root: changes its root directory, gives up groups, users and capabilities, then forks and works on.

#include "torture.h"
#include <grp.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

static void *thread(void *sum)
{
    uint64_t *table = calloc(1 << 12, 8);
    return (void *)worked(table, 1 << 12, 2000000, (uint64_t)sum);
}

int main(void)
{
    if (getuid() != 0)
        skip("changing users (not root)");
    uint64_t *table = calloc(1 << 12, 8), sum = worked(table, 1 << 12, 2000000, 1);
    CHECK(mkdir("root", 0755) == 0 && chroot("root") == 0 && chdir("/") == 0);
    CHECK(setgroups(0, NULL) == 0 && setgid(65534) == 0 && setuid(65534) == 0);
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_DUMPABLE, 0) == 0);
    struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
    struct __user_cap_data_struct none[2] = {0};
    CHECK(syscall(SYS_capset, &head, none) == 0);
    sum = worked(table, 1 << 12, 2000000, sum);
    pthread_t started;
    void *result;
    CHECK(pthread_create(&started, NULL, thread, (void *)sum) == 0);
    pthread_join(started, &result);
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit((int)((uint64_t)thread(result) & 63));
    CHECK(waitpid(child, &status, 0) == child);
    printf("%lx %x %d %d %d\n", (uint64_t)result, status, getuid(), access("/etc", F_OK), prctl(PR_GET_DUMPABLE));
    return 0;
}
