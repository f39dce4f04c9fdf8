// Ends or goes on by a fault, in the way that the argument names, after some time in which it is sampled.
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static char *page;
static sigjmp_buf back;
static volatile int handled;
static volatile long sum;

static void spin(void) {
    long *table = calloc(1 << 16, sizeof *table);
    for (long i = 0; i < 30000000; i++) sum += table[i * 977 & 0xffff];
    free(table);
}

static void handle(int signal, siginfo_t *info, void *context) {
    (void)signal;
    (void)context;
    handled++;
    if (info->si_code <= 0) return;
    if (info->si_addr != page) _exit(77);
    mprotect(page, 4096, PROT_READ | PROT_WRITE);
}

static void leave(int signal) { siglongjmp(back, signal); }

static int recurse(int depth) {
    volatile char room[4096];
    memset((char *)room, depth, sizeof room);
    return recurse(depth + 1) + room[depth % 4096];
}

static void *work(void *unused) {
    for (int i = 0; i < 10; i++) spin();
    return unused;
}

int main(int count, char **arguments) {
    const char *way = count > 1 ? arguments[1] : "";
    page = mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_t thread;
    pthread_create(&thread, 0, work, 0);
    spin();
    if (!strcmp(way, "null")) *(volatile int *)8 = 1;
    if (!strcmp(way, "overflow")) return recurse(0);
    if (!strcmp(way, "sent")) kill(getpid(), SIGSEGV);
    if (!strcmp(way, "raised")) raise(SIGBUS);
    if (!strcmp(way, "blocked")) {
        sigset_t all;
        sigfillset(&all);
        sigprocmask(SIG_BLOCK, &all, 0);
        spin();
        *page = 1;
    }
    if (!strcmp(way, "file")) {
        FILE *file = tmpfile();
        ftruncate(fileno(file), 8192);
        char *start = mmap(0, 8192, PROT_READ, MAP_SHARED, fileno(file), 0);
        ftruncate(fileno(file), 4096);
        spin();
        return start[4096];
    }
    struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO};
    struct sigaction before;
    if (!strcmp(way, "handled") || !strcmp(way, "raw")) {
        if (way[0] == 'h') {
            sigaction(SIGSEGV, 0, &before);
            printf("default %d\n", before.sa_handler == SIG_DFL);
            sigaction(SIGSEGV, &action, &before);
            printf("default %d\n", before.sa_handler == SIG_DFL);
        } else {
            struct { void *handler; unsigned long flags; void *restorer; unsigned long mask; } raw;
            syscall(SYS_rt_sigaction, SIGUSR1, 0, &raw, 8);
            sigaction(SIGUSR1, &action, 0);
            syscall(SYS_rt_sigaction, SIGUSR1, 0, &raw, 8);
            long result;
            register long size __asm__("r10") = 8;
            __asm__ volatile("syscall" : "=a"(result) : "a"(SYS_rt_sigaction), "D"(SIGSEGV), "S"(&raw), "d"(0), "r"(size) : "rcx", "r11", "memory");
        }
        for (int i = 0; i < 100; i++) {
            mprotect(page, 4096, PROT_NONE);
            for (int k = 0; k < 300000; k++) sum += k;
            *(volatile char *)page = i;
        }
        raise(SIGSEGV);
        printf("handled %d\n", handled);
    }
    if (!strcmp(way, "left")) {
        printf("default %d\n", signal(SIGSEGV, leave) == SIG_DFL);
        for (int i = 0; i < 50; i++) {
            if (sigsetjmp(back, 1) == 0) {
                for (int k = 0; k < 300000; k++) sum += k;
                *(volatile char *)page = i;
            } else {
                handled++;
            }
        }
        signal(SIGSEGV, SIG_DFL);
        printf("left %d\n", handled);
        fflush(stdout);
        *(volatile char *)page = 1;
    }
    pthread_join(thread, 0);
    printf("end\n");
    return 0;
}
