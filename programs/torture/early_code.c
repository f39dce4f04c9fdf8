// Code that runs before any library is set up: preinit functions, indirect functions and first constructors, which allocate,
// fork and start threads; and destructors and atexit handlers that do the same at the end.

#include "torture.h"
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>

static uint64_t steps[8];
static void *kept[8];

static void *thread(void *step)
{
    for (int i = 0; i < 1000; i++)
        free(realloc(malloc(i), i * 2));
    return step;
}

static void does_all(int step)
{
    pthread_t started;
    int status = 1;
    kept[step] = calloc(1000, step + 1);
    CHECK(mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
    CHECK(dlsym(RTLD_DEFAULT, "malloc") != NULL);
    CHECK(pthread_create(&started, NULL, thread, NULL) == 0);
    pthread_join(started, NULL);
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    steps[step]++;
}

static void first(void)
{
    does_all(0);
}

__attribute__((section(".preinit_array"), used)) static void (*const preinit)(void) = first;

__attribute__((constructor(101))) static void second(void)
{
    does_all(1);
}

static uint64_t by_indirection(uint64_t value)
{
    return value * 3;
}

static uint64_t (*chosen(void))(uint64_t)
{
    return by_indirection;
}

uint64_t indirect(uint64_t value) __attribute__((ifunc("chosen")));

static void at_exit(void)
{
    does_all(3);
}

__attribute__((destructor(101))) static void last(void)
{
    does_all(4);
    printf("%lu%lu%lu%lu%lu\n", steps[0], steps[1], steps[2], steps[3], steps[4]);
    fflush(stdout);
}

int main(void)
{
    uint64_t *table = calloc(1 << 12, 8), sum = 1;
    atexit(at_exit);
    for (int i = 0; i < 400; i++)
        sum = indirect(worked(table, 1 << 12, 10000, sum));
    does_all(2);
    printf("%lx\n", sum);
    return 0;
}
