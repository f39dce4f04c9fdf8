/* The least that an instrumented program needs: each thread's records go to a file of its own, TRACE.<n>. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHUNK (1ul << 18)

__thread char *__slimline_cursor __attribute__((tls_model("initial-exec")));
/* Open unless UNTRACED is set; read when the program begins. With STAMPS set, records have time stamps; with FLIP set, it is
 * closed and opened all the time. */
char __slimline_gate[16];
static __thread char *chunk;
static __thread int file;
static int threads;
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void write_out(char *end) {
    for (char *at = chunk; at < end;) {
        ssize_t done = write(file, at, end - at);
        if (done <= 0) abort();
        at += done;
    }
}

/* Records of destructors that come later are lost, so this one puts itself last. */
static void thread_ends(void *round) {
    if ((intptr_t)round < 4) {
        pthread_setspecific(key, (void *)((intptr_t)round + 1));
        return;
    }
    write_out(__slimline_cursor);
    __slimline_cursor = chunk;
}

static void make_key(void) { pthread_key_create(&key, thread_ends); }

static void begin(void) {
    char path[4096];
    snprintf(path, sizeof path, "%s.%d", getenv("TRACE"), __atomic_fetch_add(&threads, 1, __ATOMIC_RELAXED));
    file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    char *map = mmap(0, 4 * CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (file < 0 || map == MAP_FAILED) abort();
    /* The first place whose bit 18 is set and whose lower bits are clear. */
    chunk = (char *)(((uintptr_t)map + CHUNK - 1) & ~(CHUNK - 1));
    if (!((uintptr_t)chunk & CHUNK)) chunk += CHUNK;
    pthread_once(&once, make_key);
    pthread_setspecific(key, (void *)1);
}

/* Called by name from below. */
__attribute__((used, visibility("hidden"))) char *next_chunk(char *cursor) {
    if (cursor)
        write_out(cursor);
    else
        begin();
    return chunk;
}

/* Keeps every register but the result's, vectors and masks too, whatever this file is compiled for. */
__asm__(
    ".text; .globl __slimline_next_chunk; .type __slimline_next_chunk,@function; __slimline_next_chunk:"
    "push %rbp; mov %rsp, %rbp;"
    "push %rcx; push %rdx; push %rsi; push %rdi; push %r8; push %r9; push %r10; push %r11; push %rbx; push %rbx;"
    "sub $4096, %rsp; and $-64, %rsp;"
    "xor %eax, %eax; lea 512(%rsp), %rbx; mov $8, %ecx; 1: mov %rax, -8(%rbx,%rcx,8); dec %ecx; jnz 1b;"
    "mov $0xe7, %eax; xor %edx, %edx; xsave64 (%rsp);"
    "call next_chunk;"
    "mov %rax, %rbx; mov $0xe7, %eax; xor %edx, %edx; xrstor64 (%rsp); mov %rbx, %rax;"
    "lea -80(%rbp), %rsp; pop %rbx; pop %rbx; pop %r11; pop %r10; pop %r9; pop %r8; pop %rdi; pop %rsi; pop %rdx; pop %rcx;"
    "pop %rbp; ret; .size __slimline_next_chunk, . - __slimline_next_chunk");

/* Of allocators, also where nothing else is recorded. What callers record by themselves is always read. */
void __slimline_note(const uint64_t *words, size_t count, uint32_t recorded) {
    if (recorded) return;
    if (!((uintptr_t)__slimline_cursor & CHUNK)) __slimline_cursor = next_chunk(__slimline_cursor);
    for (size_t n = 0; n < count; n++) ((uint64_t *)__slimline_cursor)[n] = words[n];
    __slimline_cursor += 8 * count;
}

static void *flip(void *unused) {
    for (;;) {
        __atomic_fetch_xor(&__slimline_gate[0], 1, __ATOMIC_RELAXED);
        usleep(1);
    }
    return unused;
}

__attribute__((constructor(101))) static void process_begins(void) {
    if (getenv("UNTRACED")) __slimline_gate[0] = 1;
    if (getenv("STAMPS")) __slimline_gate[8] = 1;
    pthread_t flipper;
    if (getenv("FLIP")) pthread_create(&flipper, NULL, flip, NULL);
}

__attribute__((destructor)) static void process_ends(void) {
    if (chunk) write_out(__slimline_cursor);
}
