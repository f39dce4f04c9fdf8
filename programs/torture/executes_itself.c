// A program that becomes itself again: from a thread, with an empty environment, by descriptor, from memory without a name.

#include "torture.h"
#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>

extern char **environ;
static char *path = "/proc/self/exe";

static void *from_thread(void *next)
{
    execl(path, "thread", (char *)next, NULL);
    return NULL;
}

int main(int argc, char **argv)
{
    uint64_t *table = calloc(1 << 12, 8), sum = worked(table, 1 << 12, 1000000, 1);
    int stage = argc > 1 ? atoi(argv[1]) : 0;
    char next[16], *const arguments[] = {argv[0], next, NULL}, *const nothing[] = {NULL};
    snprintf(next, sizeof next, "%d", stage + 1);
    printf("%d %lx\n", stage, sum);
    fflush(stdout);
    switch (stage) {
    case 0:
        execv(path, arguments);
        break;
    case 1: {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, from_thread, next) == 0);
        pthread_join(thread, NULL);
        break;
    }
    case 2:
        execve(path, arguments, nothing);
        break;
    case 3:
        fexecve(open(path, O_RDONLY | O_CLOEXEC), arguments, environ);
        break;
    case 4: {
        int memory = memfd_create("program", 0), file = open(path, O_RDONLY);
        char buffer[4096];
        for (ssize_t bytes; (bytes = read(file, buffer, sizeof buffer)) > 0;)
            CHECK(write(memory, buffer, bytes) == bytes);
        fexecve(memory, arguments, environ);
        break;
    }
    case 5:
        if (vfork() == 0) {
            execv(path, arguments);
            _exit(1);
        }
        wait(NULL);
        printf("%d\n", environ && environ[0] ? 1 : 0);
        return 6;
    default:
        return 0;
    }
    return 1;
}
