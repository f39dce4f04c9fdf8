/* Allocates large blocks (they are told as events) from frames of many shapes, and says from where: for each the return
   addresses that the C compiler's own unwinder finds, and where their functions begin. One line each: thread, block,
   and pairs of these. */
#define _GNU_SOURCE
#include <alloca.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>

enum { LIMIT = 600, THREADS = 3, FRAMES = 48 };

struct note {
    void *block;
    int frames;
    uintptr_t path[FRAMES], function[FRAMES];
};

struct thread {
    pthread_t id;
    long tid;
    uint64_t random;
    int notes, depth;
    struct note note[LIMIT];
};

static struct thread threads[THREADS];
static __thread struct thread *self;

static unsigned rnd(unsigned below) {
    self->random = self->random * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(self->random >> 33) % below;
}

static _Unwind_Reason_Code frame(struct _Unwind_Context *context, void *data) {
    struct note *note = data;
    if (note->frames == FRAMES) return _URC_END_OF_STACK;
    note->function[note->frames] = _Unwind_GetRegionStart(context);
    note->path[note->frames++] = _Unwind_GetIP(context);
    return _URC_NO_REASON;
}

__attribute__((noinline)) static void allocate(void) {
    size_t bytes = (1 << 20) + 16 * rnd(1000);
    void *block = NULL;
    switch (rnd(7)) {
    case 0: block = malloc(bytes); break;
    case 1: block = calloc(bytes / 16, 16); break;
    case 2: block = realloc(malloc(100), bytes); break;
    case 3: if (posix_memalign(&block, 64, bytes)) abort(); break;
    case 4: block = aligned_alloc(4096, bytes & ~4095u); break;
    case 5: block = reallocarray(NULL, bytes / 16, 16); break;
    case 6: block = valloc(bytes); break;
    }
    struct note *note = &self->note[self->notes++];
    note->block = block;
    _Unwind_Backtrace(frame, note);
    free(block);
}

static int any(void);

__attribute__((noinline)) static int wide(void) {
    volatile char room[3000];
    room[rnd(3000)] = 1;
    return any() + room[0];
}

__attribute__((noinline)) static int variable(void) {
    size_t bytes = 16 + rnd(500);
    volatile char *room = alloca(bytes);
    room[bytes - 1] = 1;
    return any() + room[bytes - 1];
}

__attribute__((noinline)) static int aligned(void) {
    volatile long room[16] __attribute__((aligned(64)));
    room[rnd(16)] = 1;
    return any() + (int)((uintptr_t)room & 63);
}

__attribute__((noinline)) static int aligned_and_variable(void) {
    volatile long room[8] __attribute__((aligned(64)));
    size_t bytes = 16 + rnd(500);
    volatile char *more = alloca(bytes);
    room[3] = more[bytes - 1] = 2;
    return any() + (int)room[3] + more[bytes - 1];
}

__attribute__((noinline)) static int busy(void) {
    int a = (int)rnd(9), b = (int)rnd(9), c = (int)rnd(9), d = (int)rnd(9), e = (int)rnd(9), f = (int)rnd(9);
    for (int i = 0; i < 2; i++) {
        a += any() + b; b ^= c; c += d; d -= e; e += f; f ^= a;
    }
    return a + b + c + d + e + f;
}

static int compare(const void *left, const void *right) {
    if (rnd(4) == 0) any();
    return *(const int *)left - *(const int *)right;
}

__attribute__((noinline)) static int through_the_library(void) {
    int numbers[4] = {(int)rnd(9), (int)rnd(9), (int)rnd(9), (int)rnd(9)};
    qsort(numbers, 4, sizeof *numbers, compare);
    return numbers[0];
}

__attribute__((noinline)) static int deep(int more) {
    return more ? deep(more - 1) + 1 : any() + 1;
}

/* Two calls of one function at one stack depth: only the return address differs. */
__attribute__((noinline)) static int one_of_two(void) {
    if (rnd(2)) return any() * 3;
    return any() * 5;
}

static int deep_one(void) { return deep((int)rnd(30)); }

static int any(void) {
    static int (*const all[])(void) = {wide, variable, aligned, aligned_and_variable, busy, through_the_library,
                                       deep_one, one_of_two};
    int result = 0;
    if (self->notes < LIMIT) allocate();
    if (self->depth < 12 && self->notes < LIMIT) {
        self->depth++;
        result = all[rnd(8)]() + 1;
        self->depth--;
    }
    return result;
}

static void *run(void *data) {
    self = data;
    self->tid = syscall(SYS_gettid);
    while (self->notes < LIMIT) any();
    return NULL;
}

int main(void) {
    for (int i = 0; i < THREADS; i++) {
        threads[i].random = 77 + (unsigned)i;
        if (i > 0) pthread_create(&threads[i].id, NULL, run, &threads[i]);
    }
    run(&threads[0]);
    for (int i = 1; i < THREADS; i++) pthread_join(threads[i].id, NULL);
    for (int i = 0; i < THREADS; i++)
        for (int j = 0; j < LIMIT; j++) {
            struct note *note = &threads[i].note[j];
            printf("%ld %lx", threads[i].tid, (unsigned long)note->block);
            for (int k = 0; k < note->frames; k++) printf(" %lx %lx", (unsigned long)note->path[k], (unsigned long)note->function[k]);
            putchar('\n');
        }
    return 0;
}
