// Children of vfork, posix_spawn and fork+exec by the thousand, some of which allocate, write to their parent's memory and fail.

#include "torture.h"
#include <pthread.h>
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

static void *spawner(void *argument)
{
    volatile uint64_t sum = (uint64_t)argument;
    uint64_t *table = calloc(1 << 12, 8);
    for (volatile int i = 0; i < 60; i++) {
        volatile uint64_t written = 0;
        int status;
        sum = worked(table, 1 << 12, 5000, sum);
        pid_t child = vfork();
        if (child == 0) {
            written = sum;
            _exit(i & 63);
        }
        CHECK(child > 0 && waitpid(child, &status, 0) == child && WEXITSTATUS(status) == (i & 63) && written == sum);
        child = vfork();
        if (child == 0) {
            execl("/bin/true", "true", NULL);
            _exit(9);
        }
        CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
        child = vfork();
        if (child == 0) {
            execl("/nowhere/at/all", "nothing", NULL);
            _exit(9);
        }
        CHECK(child > 0 && waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 9);
        char *const arguments[] = {"sh", "-c", "exit 3", NULL};
        CHECK(posix_spawn(&child, "/bin/sh", NULL, NULL, arguments, environ) == 0);
        CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 3);
    }
    free(table);
    return (void *)sum;
}

int main(void)
{
    pthread_t threads[2];
    void *sums[2];
    for (uint64_t i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, spawner, (void *)i) == 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], &sums[i]);
    printf("%lx %lx\n", (uint64_t)sums[0], (uint64_t)sums[1]);
    return 0;
}
