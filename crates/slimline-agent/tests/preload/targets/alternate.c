// Alternate signal stacks as the program sees them, and code on stacks that have no room for a signal's frame.
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, STACK = 64 << 10 };
static sigjmp_buf before;
static volatile int is_on_own;
static char *own;

static void show(const char *when, const stack_t *stack) {
    printf("%s: %s, %d, %zu\n", when, stack->ss_sp == NULL ? "none" : stack->ss_sp == (void *)own ? "own" : "another",
           stack->ss_flags, stack->ss_size);
    fflush(stdout);
}

static void ask(const char *when) {
    stack_t now;
    memset(&now, 1, sizeof now);
    if (sigaltstack(NULL, &now)) perror("sigaltstack");
    show(when, &now);
}

static unsigned long spin(unsigned long rounds) {
    unsigned long x = 1;
    for (unsigned long i = 0; i < rounds; i++) x = x * 6364136223846793005u + 1442695040888963407u;
    return x;
}

// Runs on a stack of 128 bytes, with a page that can't be touched below.
unsigned long on_little(void *top, unsigned long rounds);
__asm__(".text\n.globl on_little\n.type on_little, @function\n"
        "on_little:\n push %rbx\n mov %rsp, %rbx\n mov %rdi, %rsp\n mov $1, %eax\n"
        "1: push %rax\n pop %rdx\n imul $1103515245, %rdx, %rax\n dec %rsi\n jnz 1b\n"
        " mov %rbx, %rsp\n pop %rbx\n ret\n.size on_little, .-on_little\n");

static void handler(int signal) {
    char here;
    is_on_own = &here >= own && &here < own + STACK;
    if (signal == SIGUSR2) siglongjmp(before, 1);
    ask("in a handler");
    if (signal == SIGHUP) {
        pid_t child = fork();
        if (child == 0) return;
        int status;
        waitpid(child, &status, 0);
        printf("child %#x\n", status);
    }
}

static void *thread(void *argument) {
    ask("thread");
    char *pages = argument;
    printf("%lx %lx\n", on_little(pages + PAGE + 128, 40000000), spin(20000000));
    raise(SIGUSR1);
    stack_t set = { .ss_sp = own, .ss_size = STACK }, old;
    memset(&old, 1, sizeof old);
    sigaltstack(&set, &old);
    show("before", &old);
    ask("set");
    raise(SIGUSR1);
    printf("on it: %d\n", is_on_own);
    set.ss_flags = SS_DISABLE;
    sigaltstack(&set, &old);
    show("taken back", &old);
    ask("after");
    printf("%lx\n", on_little(pages + PAGE + 128, 20000000));
    if (!sigsetjmp(before, 1)) raise(SIGUSR2);
    ask("after a jump");
    stack_t raw;
    memset(&raw, 1, sizeof raw);
    syscall(SYS_sigaltstack, NULL, &raw);
    show("by number", &raw);
    set.ss_flags = 0;
    set.ss_size = 16;
    printf("too small: %d\n", sigaltstack(&set, NULL));
    return NULL;
}

int main(void) {
    own = malloc(STACK);
    char *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(pages, PAGE, PROT_NONE);
    struct sigaction action = { .sa_handler = handler, .sa_flags = SA_ONSTACK };
    sigaction(SIGUSR1, &action, NULL);
    sigaction(SIGUSR2, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    ask("main");
    printf("%lx\n", on_little(pages + PAGE + 128, 40000000));
    pid_t self = getpid();
    raise(SIGHUP);
    ask("forked in a handler");
    printf("%lx %lx\n", on_little(pages + PAGE + 128, 20000000), spin(20000000));
    if (getpid() != self) return 3;
    for (int i = 0; i < 2; i++) {
        pthread_t id;
        pthread_create(&id, NULL, thread, pages);
        pthread_join(id, NULL);
    }
    return 0;
}
