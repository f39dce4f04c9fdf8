// restart SIGNAL: whether a read that the signal interrupts is restarted, with a handler that asks for that or not.
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int S, ends[2];
static volatile sig_atomic_t calls;
static pthread_t reader;

static void handler(int signal) {
    (void)signal;
    calls++;
}

// Sends the signal until the read must have seen it, and then something to read.
static void *send(void *unused) {
    (void)unused;
    for (int before = calls; calls < before + 100;) {
        pthread_kill(reader, S);
        usleep(2000);
    }
    if (write(ends[1], "x", 1) != 1) abort();
    return NULL;
}

static void try(int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    if (sigaction(S, &action, NULL)) abort();
    pthread_t sender;
    pthread_create(&sender, NULL, send, NULL);
    char byte;
    ssize_t result = read(ends[0], &byte, 1);
    printf("%s\n", result == 1 ? "restarted" : strerror(errno));
    pthread_join(sender, NULL);
    if (result != 1)
        while (read(ends[0], &byte, 1) != 1) {
        }
}

int main(int argc, char **argv) {
    S = argc > 1 ? atoi(argv[1]) : SIGTRAP;
    reader = pthread_self();
    if (pipe(ends)) abort();
    try(0);
    try(SA_RESTART);
    return 0;
}
