// A daemon's start: closes all descriptors in each way there is, takes low and high numbers, and checks what it gets.

#include "torture.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>

static void use(uint64_t *table, uint64_t *sum)
{
    *sum = worked(table, 1 << 12, 300000, *sum);
    for (int i = 0; i < 200; i++)
        free(malloc(1000 + i * 5000));
}

int main(void)
{
    struct rlimit limit;
    uint64_t *table = calloc(1 << 12, 8), sum = 1;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    for (int round = 0; round < 5; round++) {
        use(table, &sum);
        if (round == 0)
            closefrom(3);
        else if (round == 1)
            CHECK(close_range(3, ~0u, 0) == 0);
        else if (round == 2)
            for (int fd = 3; fd < 4096; fd++)
                close(fd);
        else if (round == 3)
            CHECK(close_range(3, ~0u, CLOSE_RANGE_UNSHARE) == 0);
        else
            CHECK(close_range(3, ~0u, CLOSE_RANGE_CLOEXEC) == 0);
        int first = open("/dev/null", O_RDWR), second = dup(first), high = fcntl(first, F_DUPFD, 800);
        // Descriptors from 900 on are slimline's (docs/what-a-program-sees.md), unless the program takes them by number.
        CHECK(dup2(first, 950) == 950 && dup2(first, 901) == 901);
        printf("%d %d %d\n", first, second, high);
        use(table, &sum);
        close(first), close(second), close(high), close(950), close(901);
        pid_t child = fork();
        int status;
        if (child == 0) {
            use(table, &sum);
            _exit((int)(sum & 63));
        }
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
        printf("%d\n", WEXITSTATUS(status));
    }
    // All descriptors that the limit allows, taken and given back.
    limit.rlim_cur = 64;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    int count = 0;
    while (open("/dev/null", O_RDONLY) >= 0)
        count++;
    use(table, &sum);
    printf("%d %s %lx\n", count, strerror(errno), sum);
    return 0;
}
