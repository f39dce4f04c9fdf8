// Regions that begin and end within a signal's handler, wherever that finds its thread: also where it is counted. Prints "done".
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>

extern void slimline_region_begin(const char *name) __attribute__((weak));
extern void slimline_region_end(void) __attribute__((weak));

static void region(const char *name) {
    if (slimline_region_begin) {
        slimline_region_begin(name);
        slimline_region_end();
    }
}

static void tick(int signal) {
    (void)signal;
    region("in a handler");
}

int main(void) {
    struct itimerval each = {{0, 1000}, {0, 1000}}, none = {{0, 0}, {0, 0}};
    signal(SIGALRM, tick);
    setitimer(ITIMER_REAL, &each, 0);
    for (int i = 0; i < 2000000; i++)
        region("again and again");
    setitimer(ITIMER_REAL, &none, 0);
    puts("done");
    return 0;
}
