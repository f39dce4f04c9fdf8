// An allocator of the program's own that moves the break under a lock which is not recursive, as the one linked into rustc
// does: before any library's constructor, in handlers of signals and of forks, and in a child made by vfork.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_flag lock = ATOMIC_FLAG_INIT;
static char *next, *end;
static int blocks, early_blocks, in_handler, in_child;
static void *volatile made;

static void *carve(size_t bytes) {
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, &before);
    while (atomic_flag_test_and_set(&lock)) {
    }
    bytes = (bytes + 31) & ~15ul;
    if (!next || next + bytes > end) {
        size_t more = bytes > 1 << 16 ? bytes : 1 << 16;
        next = blocks % 2 ? mmap(0, more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : sbrk(more);
        if (next == MAP_FAILED) abort();
        end = next + more;
        madvise(next, more, MADV_NORMAL);
        mprotect(next, 4096, PROT_READ | PROT_WRITE);
    }
    char *block = next + 16;
    *(size_t *)next = bytes - 16;
    next += bytes;
    blocks++;
    atomic_flag_clear(&lock);
    sigprocmask(SIG_SETMASK, &before, 0);
    return block;
}

void *malloc(size_t bytes) { return carve(bytes); }
void free(void *block) { (void)block; }
void *calloc(size_t count, size_t bytes) { return memset(carve(count * bytes), 0, count * bytes); }
void *realloc(void *block, size_t bytes) {
    void *new = carve(bytes);
    if (block) {
        size_t old = ((size_t *)block)[-2];
        memcpy(new, block, old < bytes ? old : bytes);
    }
    return new;
}

static void handle(int signal) {
    (void)signal;
    made = malloc(3000);
    free(made);
    in_handler++;
}

static void install(void) {
    struct sigaction action = {.sa_handler = handle};
    sigaction(SIGUSR1, &action, 0);
    signal(SIGTRAP, SIG_IGN);
    signal(SIGTRAP, SIG_DFL);
}

static void child(void) {
    // A thread that is not here may have held it.
    atomic_flag_clear(&lock);
    install();
    made = malloc(5000);
    free(made);
    in_child = 1;
}

static void begin(void) {
    for (int i = 0; i < 100; i++) made = malloc(2000);
    early_blocks = blocks;
    install();
    pthread_atfork(0, 0, child);
}
__attribute__((section(".preinit_array"), used)) static void (*preinit)(void) = begin;

static void *work(void *unused) {
    (void)unused;
    for (int i = 0; i < 2000; i++) made = malloc(1500 + i % 7);
    return 0;
}

int main(void) {
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) pthread_create(threads + i, 0, work, 0);
    for (int i = 0; i < 20; i++) {
        raise(SIGUSR1);
        pid_t process = i % 2 ? fork() : vfork();
        if (process == 0) {
            if (i % 2) {
                made = malloc(4000);
                raise(SIGUSR1);
                _exit(in_child ? 0 : 1);
            }
            sigset_t none;
            sigemptyset(&none);
            sigprocmask(SIG_SETMASK, &none, 0);
            _exit(0);
        }
        int status;
        waitpid(process, &status, 0);
        if (status) printf("child %d: %x\n", i, status);
    }
    for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
    printf("%d early, %d in handlers\n", early_blocks, in_handler);
    return 0;
}
