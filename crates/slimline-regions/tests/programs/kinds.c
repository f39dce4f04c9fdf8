// One of each construct, and calls of every way to end a process: argv[1] is exit, _exit, quick_exit, abort,
// kill or fork.
#include <omp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern void slimline_region_begin(const char *name) __attribute__((weak));
extern void slimline_region_end(void) __attribute__((weak));

static long fibonacci(int n) {
    long a, b;
    if (n < 2)
        return n;
#pragma omp task shared(a)
    a = fibonacci(n - 1);
#pragma omp task shared(b)
    b = fibonacci(n - 2);
#pragma omp taskwait
    return a + b;
}

static void constructs(void) {
    long ordered = 0, counted = 0, copied = 0, result = 0;
#pragma omp parallel num_threads(3) private(copied)
    {
#pragma omp for schedule(dynamic) ordered
        for (int i = 0; i < 6; i++) {
#pragma omp ordered
            ordered = ordered * 10 + i;
        }
#pragma omp for schedule(guided) nowait
        for (int i = 0; i < 6; i++) {
#pragma omp critical(named)
            counted++;
        }
#pragma omp barrier
#pragma omp masked
        counted += 100;
#pragma omp single copyprivate(copied)
        copied = 7;
#pragma omp critical
        counted += copied;
#pragma omp single
        {
#pragma omp taskgroup
            {
#pragma omp task shared(result)
                result = fibonacci(10);
            }
        }
    }
    printf("%ld %ld %ld\n", ordered, counted, result);
    fflush(stdout);
}

int main(int argc, char **argv) {
    const char *end = argc > 1 ? argv[1] : "exit";
    if (slimline_region_begin)
        slimline_region_begin("all of it");
    constructs();
    if (slimline_region_end)
        slimline_region_end();
    if (!strcmp(end, "_exit"))
        _exit(3);
    if (!strcmp(end, "quick_exit"))
        quick_exit(3);
    if (!strcmp(end, "abort"))
        abort();
    if (!strcmp(end, "kill"))
        kill(getpid(), SIGTERM);
    if (!strcmp(end, "fork") && fork() == 0)
        _exit(0);
    wait(NULL);
    return 3;
}
