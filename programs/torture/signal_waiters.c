// Signals that are waited for: signalfd, sigwaitinfo, sigtimedwait and sigsuspend in a program that blocks every signal.

#include "torture.h"
#include <poll.h>
#include <pthread.h>
#include <sys/signalfd.h>

static volatile uint64_t handled;
static pthread_t waiting;

static void on_signal(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info, (void)context;
    handled++;
}

static void *sender(void *unused)
{
    for (int i = 0; i < 2000; i++)
        CHECK(pthread_sigqueue(waiting, SIGRTMIN + 5, (union sigval){.sival_int = i}) == 0);
    return unused;
}

int main(void)
{
    sigset_t all, none, queued;
    sigfillset(&all);
    sigemptyset(&none);
    sigemptyset(&queued);
    sigaddset(&queued, SIGRTMIN + 5);
    handle(SIGUSR2, on_signal, 0);
    CHECK(pthread_sigmask(SIG_SETMASK, &all, NULL) == 0);
    uint64_t *table = calloc(1 << 12, 8), sum = 1, waited = 0, read_from_file = 0;
    pthread_t thread;
    waiting = pthread_self();
    CHECK(pthread_create(&thread, NULL, sender, NULL) == 0);
    for (int i = 0; i < 2000; i++) {
        siginfo_t info;
        CHECK(sigwaitinfo(&queued, &info) == SIGRTMIN + 5 && info.si_value.sival_int == i);
        waited++;
        sum = worked(table, 1 << 12, 4000, sum);
    }
    pthread_join(thread, NULL);
    int file = signalfd(-1, &all, SFD_CLOEXEC);
    CHECK(file >= 0);
    for (int i = 0; i < 1000; i++) {
        struct signalfd_siginfo info;
        raise(SIGUSR1);
        CHECK(poll(&(struct pollfd){.fd = file, .events = POLLIN}, 1, 1000) == 1);
        CHECK(read(file, &info, sizeof info) == sizeof info);
        read_from_file += info.ssi_signo == SIGUSR1;
        sum = worked(table, 1 << 12, 800, sum);
    }
    sigset_t usr2_open = all;
    sigdelset(&usr2_open, SIGUSR2);
    for (int i = 0; i < 1000; i++) {
        raise(SIGUSR2);
        CHECK(sigsuspend(&usr2_open) == -1 && errno == EINTR);
        sum = worked(table, 1 << 12, 800, sum);
    }
    struct timespec short_while = {0, 1000000};
    int error = sigtimedwait(&queued, NULL, &short_while) == -1 ? errno : 0;
    sigset_t pending, mask;
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, NULL, &mask);
    int blocked = 0, left = 0;
    for (int signal = 1; signal <= 64; signal++) {
        blocked += sigismember(&mask, signal) == 1;
        left += sigismember(&pending, signal) == 1;
    }
    printf("%lx waited %lu, read %lu, handled %lu, %s, %d blocked, %d pending\n", sum, waited, read_from_file, handled,
           strerror(error), blocked, left);
    return 0;
}
