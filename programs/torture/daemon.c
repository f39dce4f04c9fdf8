// A daemon: forks twice, starts a session of its own, outlives its parent, and reports through a pipe when it has worked.

#include "torture.h"
#include <fcntl.h>
#include <sys/wait.h>

int main(void)
{
    int ends[2], status;
    uint64_t *table = calloc(1 << 12, 8), sum = 0;
    CHECK(pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        CHECK(setsid() > 0);
        if (fork() == 0) {
            close(ends[0]);
            CHECK(chdir("/") == 0);
            int null = open("/dev/null", O_RDWR);
            dup2(null, 0), dup2(null, 1), dup2(null, 2);
            sum = worked(table, 1 << 12, 30000000, 1);
            CHECK(write(ends[1], &sum, sizeof sum) == sizeof sum);
            _exit(0);
        }
        _exit(5);
    }
    close(ends[1]);
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(read(ends[0], &sum, sizeof sum) == sizeof sum && read(ends[0], &sum, 1) == 0);
    printf("%x %lx\n", status, sum);
    return 0;
}
