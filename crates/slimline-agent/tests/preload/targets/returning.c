// Forks in a signal handler, wherever that interrupts it, and returns from the handler in the child, which goes on.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 200 };
static volatile int children;
static volatile int is_child;

static void tick(int signal) {
    (void)signal;
    if (is_child || children == CHILDREN) return;
    pid_t pid = _Fork();
    if (pid == 0) is_child = 1;
    else if (pid > 0) children++;
}

int main(void) {
    struct sigaction action = { .sa_handler = tick, .sa_flags = SA_RESTART };
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = { { 0, 700 }, { 0, 700 } };
    setitimer(ITIMER_REAL, &often, NULL);
    static void *blocks[64];
    for (unsigned long i = 0; children < CHILDREN; i++) {
        free(blocks[i % 64]);
        blocks[i % 64] = malloc(16 + i * 37 % 3000);
        if (is_child) {
            for (int k = 0; k < 3000; k++) free(malloc(64 + k));
            _exit(7);
        }
    }
    struct itimerval never = { 0 };
    setitimer(ITIMER_REAL, &never, NULL);
    int right = 0, status;
    while (waitpid(-1, &status, 0) > 0) right += WIFEXITED(status) && WEXITSTATUS(status) == 7;
    printf("%d of %d\n", right, children);
    return 0;
}
