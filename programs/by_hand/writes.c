// What instrumented code does, by hand: a program that writes a trace of its own.
//   writes MODE [N]; segment 0: one load; segment 1: a load and a store; segment 2: 60 loads
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

__asm__(".pushsection slimline_sites,\"aR\",@progbits\n.incbin \"" SITES "\"\n.popsection");

extern __thread unsigned long *__slimline_cursor __attribute__((tls_model("initial-exec")));
__attribute__((preserve_all)) unsigned long *__slimline_next_chunk(unsigned long *);
int __slimline_sigaction(int, const struct sigaction *, struct sigaction *);
__sighandler_t __slimline_signal(int, __sighandler_t);
__sighandler_t __slimline_sysv_signal(int, __sighandler_t);
#define HEADER(segment) (1ul << 63 | MODULE << 24 | (segment))

static inline unsigned long *room(void) {
    unsigned long *cursor = __slimline_cursor;
    return (unsigned long)cursor & 1ul << 18 ? cursor : __slimline_next_chunk(cursor);
}
static __attribute__((noinline)) void one(unsigned long address) {
    unsigned long *cursor = room();
    cursor[0] = HEADER(0);
    cursor[1] = address;
    __slimline_cursor = cursor + 2;
}
static __attribute__((noinline)) void two(unsigned long from, unsigned long to) {
    unsigned long *cursor = room();
    cursor[0] = HEADER(1);
    cursor[1] = from;
    cursor[2] = to;
    __slimline_cursor = cursor + 3;
}
static __attribute__((noinline)) void sixty(unsigned long address) {
    unsigned long *cursor = room();
    cursor[0] = HEADER(2);
    for (int i = 1; i <= 60; i++) cursor[i] = address;
    __slimline_cursor = cursor + 61;
}
// A loop that keeps the cursor in a register.
static __attribute__((noinline)) void held(long n) {
    unsigned long *cursor = __slimline_cursor;
    for (long i = 1; i <= n; i++) {
        if (!((unsigned long)cursor & 1ul << 18)) cursor = __slimline_next_chunk(cursor);
        cursor[0] = HEADER(0);
        cursor[1] = i;
        cursor += 2;
    }
    __slimline_cursor = cursor;
}
static void many(long n) {
    for (long i = 1; i <= n; i++) {
        one(i);
        two(2 * i, 3 * i);
        if (i % 16 == 0) sixty(i);
    }
}
static void *thread(void *n) {
    many((long)n);
    return NULL;
}
static void threads(int count, long n) {
    pthread_t ids[1024];
    for (int i = 0; i < count; i++) pthread_create(&ids[i], NULL, thread, (void *)n);
    for (int i = 0; i < count; i++) pthread_join(ids[i], NULL);
}
static volatile sig_atomic_t ticks;
static void tick(int signal) {
    (void)signal;
    ticks++;
    many(64);
}
static void install(int signal, void handler(int), int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    if (__slimline_sigaction(signal, &action, NULL)) abort();
}
// Seven levels: main, and six handlers.
static void nest(int signal) {
    many(16);
    if (signal < SIGRTMIN + 6) raise(signal + 1);
    many(16);
}
static sigjmp_buf back;
static void jump(int signal) {
    (void)signal;
    many(16);
    siglongjmp(back, 1);
}
// Every second handler runs on a stack of its own.
static void jumps(long n) {
    static char memory[64 << 10];
    stack_t stack = {.ss_sp = memory, .ss_size = sizeof memory};
    if (sigaltstack(&stack, NULL)) abort();
    install(SIGUSR1, jump, 0);
    install(SIGUSR2, jump, SA_ONSTACK);
    for (volatile long i = 0; i < n; i++) {
        many(16);
        if (!sigsetjmp(back, 1)) raise(i % 2 ? SIGUSR2 : SIGUSR1);
        many(16);
    }
}
static pid_t forked = -1;
static void fork_here(int signal) {
    (void)signal;
    many(16);
    forked = fork();
    many(16);
}
static void with_info(int signal, siginfo_t *info, void *context) {
    if (info->si_signo == signal && info->si_pid == getpid() && context) ticks++;
}
// What a program sees of its handlers.
static int dispositions(void) {
    struct sigaction action = {.sa_sigaction = with_info, .sa_flags = SA_SIGINFO}, found;
    if (__slimline_sigaction(SIGUSR1, NULL, &found) || found.sa_handler != SIG_DFL) return 10;
    if (__slimline_sigaction(SIGUSR1, &action, &found) || found.sa_handler != SIG_DFL) return 11;
    if (__slimline_sigaction(SIGUSR1, NULL, &found) || found.sa_sigaction != with_info) return 12;
    if (!(found.sa_flags & SA_SIGINFO)) return 13;
    kill(getpid(), SIGUSR1);
    if (ticks != 1) return 14;
    // What a library that is not instrumented was told of it may come back, and may be called.
    struct sigaction raw;
    sigaction(SIGUSR1, NULL, &raw);
    if (__slimline_sigaction(SIGUSR1, &raw, NULL)) return 15;
    kill(getpid(), SIGUSR1);
    if (ticks != 2) return 16;
    if (__slimline_signal(SIGUSR1, SIG_IGN) != (__sighandler_t)with_info) return 17;
    if (__slimline_signal(SIGUSR1, tick) != SIG_IGN || __slimline_signal(SIGUSR1, tick) != tick) return 18;
    if (__slimline_sysv_signal(SIGUSR1, tick) != tick) return 19;
    raise(SIGUSR1);
    if (ticks != 3) return 20;
    if (__slimline_sigaction(SIGUSR1, NULL, &found) || found.sa_handler != SIG_DFL) return 21;
    if (__slimline_signal(SIGKILL, tick) != SIG_ERR || errno != EINVAL) return 22;
    if (__slimline_sigaction(1000, &action, NULL) != -1 || errno != EINVAL) return 23;
    errno = 77;
    return 0;
}

static pthread_barrier_t barrier;
static void *wait_for_all(void *n) {
    one((long)n);
    pthread_barrier_wait(&barrier);
    many((long)n);
    return NULL;
}
static __attribute__((used)) unsigned char before[64 * 32], after[64 * 32];
static __attribute__((used)) unsigned long general[32];
// Fills all registers, calls the stub, and compares: those it may change is rax alone.
static int registers(void) {
    for (int i = 0; i < 64 * 32; i++) before[i] = i * 7 + i / 256;
    int wide = __builtin_cpu_supports("avx512f"), middle = __builtin_cpu_supports("avx");
    for (int round = 0; round < 100000; round++) {
        unsigned long *cursor = __slimline_cursor;
#define CALL                                                                                                          \
    "mov %[cursor], %%rdi\nmov $11,%%rbx\nmov $12,%%rcx\nmov $13,%%rdx\nmov $14,%%rsi\nmov $15,%%r8\nmov $16,%%r9\n" \
    "mov $17,%%r10\nmov $18,%%r11\nmov $19,%%r12\nmov $20,%%r13\nmov $21,%%r14\nmov $22,%%r15\nfldpi\n"             \
    "mov %%rsp, general+128(%%rip)\nand $-16,%%rsp\ncall __slimline_next_chunk\nmov general+128(%%rip),%%rsp\n"       \
    "mov %%rbx,general(%%rip)\nmov %%rcx,general+8(%%rip)\nmov %%rdx,general+16(%%rip)\nmov %%rsi,general+24(%%rip)\n"\
    "mov %%r8,general+32(%%rip)\nmov %%r9,general+40(%%rip)\nmov %%r10,general+48(%%rip)\n"                           \
    "mov %%r11,general+56(%%rip)\nmov %%r12,general+64(%%rip)\nmov %%r13,general+72(%%rip)\n"                         \
    "mov %%r14,general+80(%%rip)\nmov %%r15,general+88(%%rip)\nfstpl general+96(%%rip)\n"
#define CLOBBERS "rax", "rdi", "rbx", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory", "cc"
#define LOAD(op, reg, i, size) op " before+" #i "*" #size "(%%rip), %%" reg #i "\n"
#define SAVE(op, reg, i, size) op " %%" reg #i ", after+" #i "*" #size "(%%rip)\n"
#define X16(M, op, reg, s) M(op, reg, 0, s) M(op, reg, 1, s) M(op, reg, 2, s) M(op, reg, 3, s) M(op, reg, 4, s)      \
    M(op, reg, 5, s) M(op, reg, 6, s) M(op, reg, 7, s) M(op, reg, 8, s) M(op, reg, 9, s) M(op, reg, 10, s)            \
    M(op, reg, 11, s) M(op, reg, 12, s) M(op, reg, 13, s) M(op, reg, 14, s) M(op, reg, 15, s)
#define X32(M, op, reg, s) X16(M, op, reg, s) M(op, reg, 16, s) M(op, reg, 17, s) M(op, reg, 18, s)                   \
    M(op, reg, 19, s) M(op, reg, 20, s) M(op, reg, 21, s) M(op, reg, 22, s) M(op, reg, 23, s) M(op, reg, 24, s)       \
    M(op, reg, 25, s) M(op, reg, 26, s) M(op, reg, 27, s) M(op, reg, 28, s) M(op, reg, 29, s) M(op, reg, 30, s)       \
    M(op, reg, 31, s)
        int bytes;
        if (wide) {
            __asm__ volatile(X32(LOAD, "vmovdqu64", "zmm", 64) "kmovw before(%%rip),%%k3\n" CALL
                             "kmovw %%k3,general+104(%%rip)\n" X32(SAVE, "vmovdqu64", "zmm", 64) "vzeroupper\n"
                             : : [cursor] "m"(cursor) : CLOBBERS);
            if (memcmp(&general[13], before, 2)) return 4;
            bytes = 64 * 32;
        } else if (middle) {
            __asm__ volatile(X16(LOAD, "vmovdqu", "ymm", 32) CALL X16(SAVE, "vmovdqu", "ymm", 32) "vzeroupper\n"
                             : : [cursor] "m"(cursor) : CLOBBERS);
            bytes = 32 * 16;
        } else {
            __asm__ volatile(X16(LOAD, "movdqu", "xmm", 16) CALL X16(SAVE, "movdqu", "xmm", 16)
                             : : [cursor] "m"(cursor) : CLOBBERS);
            bytes = 16 * 16;
        }
        if (memcmp(before, after, bytes)) return 2;
        for (int i = 0; i < 12; i++)
            if (general[i] != 11ul + i) return 3;
        many(100);
    }
    return 0;
}

int main(int argc, char **argv) {
    const char *mode = argv[1];
    long n = argc > 2 ? atol(argv[2]) : 1000;
    int status = 0;
    errno = 77;
    if (!strcmp(mode, "registers")) {
        status = registers();
    } else if (!strcmp(mode, "threads")) {
        threads(8, n);
        for (int i = 0; i < 50; i++) threads(4, 100);
    } else if (!strcmp(mode, "crowd")) {
        pthread_t ids[600];
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, 64 << 10);
        pthread_barrier_init(&barrier, NULL, 600);
        for (int i = 0; i < 600; i++)
            if (pthread_create(&ids[i], &attributes, wait_for_all, (void *)n)) return 9;
        for (int i = 0; i < 600; i++) pthread_join(ids[i], NULL);
    } else if (!strcmp(mode, "fork")) {
        many(n);
        pid_t child = fork();
        many(n);
        if (child == 0) _exit(5);
        waitpid(child, &status, 0);
        status = WEXITSTATUS(status);
        many(n);
    } else if (!strcmp(mode, "held")) {
        many(10);
        held(n);
        many(10);
    } else if (!strcmp(mode, "exec")) {
        many(n);
        execl("/proc/self/exe", "writes", "plain", argv[2], NULL);
    } else if (!strcmp(mode, "vfork")) {
        many(n);
        pid_t child = vfork();
        if (child == 0) {
            one(1);
            _exit(6);
        }
        waitpid(child, &status, 0);
        status = WEXITSTATUS(status);
        many(n);
    } else if (!strcmp(mode, "kill")) {
        many(n);
        kill(getpid(), SIGKILL);
    } else if (!strcmp(mode, "crash")) {
        many(n);
        *(volatile int *)8 = 1;
    } else if (!strcmp(mode, "abort")) {
        many(n);
        abort();
    } else if (!strcmp(mode, "_exit")) {
        many(n);
        _exit(3);
    } else if (!strcmp(mode, "signals")) {
        install(SIGALRM, tick, SA_RESTART);
        ualarm(300, 300);
        while (ticks < 200) many(n);
        ualarm(0, 0);
    } else if (!strcmp(mode, "nested")) {
        for (int signal = SIGRTMIN + 1; signal <= SIGRTMIN + 6; signal++) install(signal, nest, 0);
        for (long i = 0; i < n; i++) nest(SIGRTMIN);
    } else if (!strcmp(mode, "jumps")) {
        jumps(n);
    } else if (!strcmp(mode, "handler-forks")) {
        install(SIGUSR1, fork_here, 0);
        many(n);
        raise(SIGUSR1);
        if (forked == 0) _exit(0);
        waitpid(forked, &status, 0);
        many(n);
    } else if (!strcmp(mode, "dispositions")) {
        status = dispositions();
    } else {
        many(n);
    }
    if (errno != 77 && !strcmp(mode, "plain")) status = 99;
    printf("done\n");
    return status;
}
