// Prints what it sees of its own signals. The same with and without the agent, or the agent shows.
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/select.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int S; // the signal under test
static volatile sig_atomic_t calls, profiles;
static char *alternate;
static const size_t alternate_bytes = 64 << 10;
static sigjmp_buf back;

// Long enough for several triggers.
static void spin(void) {
    static volatile unsigned long x;
    for (long i = 0; i < 4000000; i++) x += i * i;
}

static int on_alternate(void) {
    char here;
    return (uintptr_t)&here - (uintptr_t)alternate < alternate_bytes;
}

static const char *blocked(int signal) {
    sigset_t now;
    pthread_sigmask(SIG_BLOCK, NULL, &now);
    return sigismember(&now, signal) ? "blocked" : "open";
}

static void full(int signal, siginfo_t *info, void *context) {
    spin();
    ucontext_t *interrupted = context;
    int own = info->si_pid == getpid();
    printf("  handler: signal %d code %d own pid %d value %d, alternate %d, itself %s, USR1 %s, rip %d\n", signal == S,
           info->si_code, own, info->si_code == SI_QUEUE ? info->si_value.sival_int : 0, on_alternate(), blocked(S),
           blocked(SIGUSR1), interrupted->uc_mcontext.gregs[REG_RIP] != 0);
    calls++;
}

static void plain(int signal) {
    spin();
    printf("  plain handler: signal %d, alternate %d, itself %s\n", signal == S, on_alternate(), blocked(S));
    calls++;
}

static void jump(int signal) {
    (void)signal;
    siglongjmp(back, 1);
}

static void count(int signal) {
    (void)signal;
    profiles++;
}

static void install(void (*handler)(int, siginfo_t *, void *), int flags, int also) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = flags};
    sigemptyset(&action.sa_mask);
    if (also) sigaddset(&action.sa_mask, also);
    printf("sigaction: %d\n", sigaction(S, &action, NULL));
}

static void show_action(void) {
    struct sigaction action;
    memset(&action, 0x55, sizeof action);
    int result = sigaction(S, NULL, &action);
    const char *name = action.sa_handler == SIG_DFL                     ? "default"
                       : action.sa_handler == SIG_IGN                   ? "ignore"
                       : action.sa_sigaction == full                    ? "full"
                       : action.sa_handler == plain                     ? "plain"
                                                                        : "?";
    printf("action: %d %s flags %#x USR1 %d itself %d\n", result, name, action.sa_flags,
           sigismember(&action.sa_mask, SIGUSR1), sigismember(&action.sa_mask, S));
}

static void change(int how) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, S);
    printf("mask change: %d, now %s\n", sigprocmask(how, &set, NULL), blocked(S));
}

static void pending(void) {
    sigset_t set;
    int result = sigpending(&set);
    printf("pending: %d %d\n", result, sigismember(&set, S));
}

static void child(const char *what, void (*act)(void)) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        struct timespec none = {0};
        (void)none;
        act();
        fflush(stdout);
        _exit(7);
    }
    int status = 0;
    waitpid(pid, &status, 0);
    if (WIFSIGNALED(status))
        printf("%s: child died by %s\n", what, WTERMSIG(status) == S ? "it" : strsignal(WTERMSIG(status)));
    else
        printf("%s: child exited with %d\n", what, WEXITSTATUS(status));
}

static void by_default(void) { signal(S, SIG_DFL); spin(); raise(S); }
static void ignored(void) { signal(S, SIG_IGN); spin(); raise(S); }
static void breakpoint(void) { signal(S, SIG_DFL); __asm__ volatile("int3"); }
static void ignored_breakpoint(void) { signal(S, SIG_IGN); __asm__ volatile("int3"); }
static void blocked_breakpoint(void) { install(full, SA_SIGINFO, 0); change(SIG_BLOCK); __asm__ volatile("int3"); }
static void reset(void) { install(full, SA_SIGINFO | SA_RESETHAND, 0); raise(S); show_action(); raise(S); }
static void blocked_default(void) { signal(S, SIG_DFL); change(SIG_BLOCK); raise(S); pending(); change(SIG_UNBLOCK); }

static void *other(void *unused) {
    (void)unused;
    spin();
    printf("thread: %s\n", blocked(S));
    change(SIG_UNBLOCK);
    pthread_kill(pthread_self(), S);
    return NULL;
}

static void *sender(void *target) {
    usleep(50000);
    pthread_kill(*(pthread_t *)target, S);
    return NULL;
}

int main(int argc, char **argv) {
    S = argc > 1 ? atoi(argv[1]) : SIGTRAP;
    setvbuf(stdout, NULL, _IONBF, 0);
    stack_t stack = {.ss_sp = alternate = malloc(alternate_bytes), .ss_size = alternate_bytes}, seen;
    sigaltstack(&stack, NULL);
    struct sigaction profiling = {.sa_handler = count, .sa_flags = SA_RESTART};
    sigaction(SIGPROF, &profiling, NULL);
    struct itimerval every = {{0, 2000}, {0, 2000}}, stopped;
    setitimer(ITIMER_PROF, &every, NULL);

    show_action();
    install(full, SA_SIGINFO, SIGUSR1);
    show_action();
    spin();
    printf("raise: %d\n", raise(S));
    install(full, SA_SIGINFO | SA_ONSTACK | SA_NODEFER, 0);
    raise(S);
    if (S == SIGTRAP) {
        __asm__ volatile("int3");
        printf("after int3\n");
    }
    union sigval value = {.sival_int = 42};
    printf("sigqueue: %d\n", sigqueue(getpid(), S, value));
    printf("signal: %d\n", signal(S, plain) != SIG_ERR);
    show_action();
    raise(S);
    printf("was plain: %d\n", signal(S, SIG_IGN) == plain);
    raise(S);
    show_action();
    printf("was ignore: %d\n", signal(S, plain) == SIG_IGN);

    change(SIG_BLOCK);
    raise(S);
    raise(S);
    spin();
    pending();
    printf("calls before: %d\n", calls);
    change(SIG_UNBLOCK);
    printf("calls after: %d\n", calls);

    sigset_t all, was;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    spin();
    sigprocmask(SIG_SETMASK, NULL, &was);
    int missing = 0;
    for (int i = 1; i <= 64; i++) missing += sigismember(&all, i) == 1 && sigismember(&was, i) == 0;
    printf("missing of all: %d\n", missing); // KILL and STOP
    raise(S);
    sigset_t none;
    sigemptyset(&none);
    struct timespec second = {1, 0};
    errno = 0;
    int result = ppoll(NULL, 0, &second, &none);
    printf("ppoll: %d %d\n", result, errno == EINTR);
    raise(S);
    result = pselect(0, NULL, NULL, NULL, &second, &none);
    printf("pselect: %d %d\n", result, errno == EINTR);
    raise(S);
    result = sigsuspend(&none);
    printf("sigsuspend: %d %d, then %s\n", result, errno == EINTR, blocked(S));
    raise(S);
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, S);
    int got = 0;
    result = sigwait(&only, &got);
    printf("sigwait: %d %d\n", result, got == S);
    siginfo_t info;
    sigqueue(getpid(), S, value);
    result = sigwaitinfo(&only, &info);
    printf("sigwaitinfo: %d %d code %d value %d\n", result == S, info.si_signo == S, info.si_code, info.si_value.sival_int);
    pthread_t self = pthread_self(), thread;
    pthread_create(&thread, NULL, sender, &self);
    result = sigtimedwait(&only, &info, &second);
    printf("sigtimedwait: %d %d\n", result == S, info.si_code);
    pthread_join(thread, NULL);
    struct timespec soon = {0, 1000000};
    result = sigtimedwait(&only, &info, &soon);
    printf("sigtimedwait: %d %d\n", result, errno == EAGAIN);
    sigemptyset(&none);
    sigaddset(&none, S);
    sigprocmask(SIG_SETMASK, &none, NULL);
    pthread_create(&thread, NULL, other, NULL);
    pthread_join(thread, NULL);
    printf("main: %s\n", blocked(S));
    change(SIG_UNBLOCK);

    signal(S, jump);
    for (int i = 0; i < 3; i++) {
        if (sigsetjmp(back, 1) == 0) {
            spin();
            raise(S);
            printf("not reached\n");
        } else {
            printf("jumped, %s\n", blocked(S));
        }
    }
    install(full, SA_SIGINFO, 0);
    child("default", by_default);
    child("ignored", ignored);
    child("reset", reset);
    child("blocked, default", blocked_default);
    if (S == SIGTRAP) {
        child("int3", breakpoint);
        child("int3 ignored", ignored_breakpoint);
        child("int3 blocked", blocked_breakpoint);
    }
    raise(S);
    struct sigaction last;
    sigaction(SIGPROF, NULL, &last);
    spin(), spin(), spin();
    getitimer(ITIMER_PROF, &stopped);
    sigaltstack(NULL, &seen);
    printf("SIGPROF: %d %d, timer %ld\n", profiles > 0, last.sa_handler == count, stopped.it_interval.tv_usec);
    printf("alternate stack: %d %zu %d\n", seen.ss_sp == (void *)alternate, seen.ss_size, seen.ss_flags);
    return 3;
}
