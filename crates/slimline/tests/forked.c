#define _GNU_SOURCE
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
enum { N = 1000, LARGE = 1 << 20 };
struct entry { struct entry *next; long key, cold[6]; };
static struct entry *all;
static long *large;
__attribute__((noinline)) static struct entry *make(struct entry *next) {
    struct entry *entry = malloc(sizeof *entry);
    entry->next = next;
    return entry;
}
__attribute__((noinline)) static long *table(void) { return malloc(LARGE); }
__attribute__((noinline)) static int probe(void) {
    long sum = 0;
    for (struct entry *at = all; at; at = at->next) sum++;
    for (int i = 0; i < N; i++) sum += *(volatile long *)&large[i * 100];
    return sum > 0 ? 7 : 0;
}
static int child(void *unused) { (void)unused; _exit(probe()); }
static void wait_for(long pid) {
    int status;
    if (waitpid(pid, &status, __WALL) != pid || WEXITSTATUS(status) != 7) exit(9);
}
static void *in_thread(void *unused) {
    pid_t pid = fork();
    if (!pid) child(unused);
    wait_for(pid);
    return unused;
}
static void forks(int deep) {
    pid_t pid = fork();
    if (!pid) {
        if (deep) forks(deep - 1);
        child(0);
    }
    wait_for(pid);
}
int main(int argc, char **argv) {
    const char *how = argv[1];
    (void)argc;
    large = table();
    for (int i = 0; i < N; i++) all = make(all);
    if (!strcmp(how, "none")) {
        probe();
    } else if (!strcmp(how, "fork")) {
        forks(0);
    } else if (!strcmp(how, "deep")) {
        forks(2);
    } else if (!strcmp(how, "many")) {
        for (int i = 0; i < 300; i++) { pid_t pid = fork(); if (!pid) _exit(7); wait_for(pid); }
        forks(0);
    } else if (!strcmp(how, "thread")) {
        pthread_t thread;
        pthread_create(&thread, 0, in_thread, 0);
        pthread_join(thread, 0);
    } else if (!strcmp(how, "apart")) {
        // The child frees half of the entries and gets its memory anew; its parent has all of them still.
        pid_t pid = fork();
        if (!pid) {
            for (int i = 0; i < N / 2; i++) { struct entry *next = all->next; free(all); all = next; }
            for (int i = 0; i < N / 2; i++) *(volatile char *)strdup("12345678901234567890123456789012345678901234567890123456789") = 1;
            child(0);
        }
        wait_for(pid);
        probe();
    } else if (!strcmp(how, "raw")) {
        long pid = syscall(SYS_fork);
        if (!pid) child(0);
        wait_for(pid);
    } else if (!strcmp(how, "clone3")) {
        struct clone_args arguments;
        memset(&arguments, 0, sizeof arguments);
        arguments.exit_signal = SIGCHLD;
        long pid = syscall(SYS_clone3, &arguments, sizeof arguments);
        if (!pid) child(0);
        wait_for(pid);
    } else {
        char *stack = mmap(0, 1 << 18, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        wait_for(clone(child, stack + (1 << 18), SIGCHLD | (strcmp(how, "vm") ? 0 : CLONE_VM), 0));
        if (!strcmp(how, "vm")) for (int i = 0; i < 100; i++) probe();
    }
    return 0;
}
