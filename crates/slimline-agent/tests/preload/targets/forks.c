// Makes children in every way; each does some work, prints a line and ends.
#define _GNU_SOURCE
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

extern char **environ;

static void spin(void) {
    static volatile unsigned long x;
    for (long i = 0; i < 60000000; i++) x += i * i;
}

static void work(const char *name) {
    for (int i = 0; i < 100; i++) free(malloc(100 + i));
    spin();
    printf("%s\n", name);
    fflush(stdout);
}

static void await(pid_t child) {
    int status = -1;
    waitpid(child, &status, 0);
    printf("status %#x\n", status);
    fflush(stdout);
}

static void *busy(void *stop) {
    while (!*(volatile int *)stop) free(malloc(64));
    return NULL;
}

int main(int argc, char **argv) {
    if (argc > 1) {
        work(argv[1]);
        return 5;
    }
    int stop = 0;
    pthread_t thread;
    pthread_create(&thread, NULL, busy, &stop);
    pid_t child = fork();
    if (child == 0) {
        work("fork");
        exit(1);
    }
    await(child);
    child = fork();
    if (child == 0) {
        child = fork();
        if (child == 0) {
            work("fork of fork");
            _exit(2);
        }
        await(child);
        _exit(3);
    }
    await(child);
    child = syscall(SYS_fork);
    if (child == 0) {
        work("raw fork");
        syscall(SYS_exit_group, 4);
    }
    await(child);
    child = vfork();
    if (child == 0) {
        signal(SIGTRAP, SIG_IGN);
        signal(SIGTRAP, SIG_DFL);
        execl(argv[0], argv[0], "vfork", NULL);
        _exit(9);
    }
    await(child);
    child = vfork();
    if (child == 0) _exit(6);
    await(child);
    char *arguments[] = {argv[0], "posix_spawn", NULL};
    posix_spawn(&child, argv[0], NULL, NULL, arguments, environ);
    await(child);
    fflush(stdout);
    char command[4096];
    snprintf(command, sizeof command, "%s system", argv[0]);
    int status = system(command);
    printf("system %d\n", WEXITSTATUS(status));
    fflush(stdout);
    stop = 1;
    pthread_join(thread, NULL);
    work("parent");
    return 0;
}
