// Coroutines of makecontext and swapcontext on mapped stacks with guard pages; finished ones lose their stacks at once.

#include "torture.h"
#include <ucontext.h>

enum { COROUTINES = 8, STACK_PAGES = 16 };
static ucontext_t scheduler, contexts[COROUTINES];
static uint64_t sums[COROUTINES], table[1 << 12];

static uint64_t deep(int depth, uint64_t sum, int number)
{
    if (depth == 0) {
        swapcontext(&contexts[number], &scheduler);
        return worked(table, 1 << 12, 40, sum);
    }
    volatile uint64_t here[12];
    for (int i = 0; i < 12; i++)
        here[i] = sum + i;
    return mixed(deep(depth - 1, sum, number), here[depth % 12]);
}

static void coroutine(int number)
{
    for (int i = 0; i < 20; i++)
        sums[number] = deep(20, sums[number] + i, number);
}

int main(void)
{
    volatile uint64_t sum = 0;
    for (volatile int round = 0; round < 1500; round++) {
        char *stacks[COROUTINES];
        for (int i = 0; i < COROUTINES; i++) {
            stacks[i] = pages(STACK_PAGES, PROT_READ | PROT_WRITE);
            mprotect(stacks[i], PAGE_BYTES, PROT_NONE);
            getcontext(&contexts[i]);
            contexts[i].uc_stack.ss_sp = stacks[i] + PAGE_BYTES;
            contexts[i].uc_stack.ss_size = (STACK_PAGES - 1) * PAGE_BYTES;
            contexts[i].uc_link = &scheduler;
            makecontext(&contexts[i], (void (*)(void))coroutine, 1, i);
        }
        for (int turn = 0; turn < 21; turn++)
            for (int i = 0; i < COROUTINES; i++)
                swapcontext(&scheduler, &contexts[i]);
        for (int i = 0; i < COROUTINES; i++) {
            CHECK(munmap(stacks[i], STACK_PAGES * PAGE_BYTES) == 0);
            sum = mixed(sum, sums[i]);
        }
    }
    printf("%lx\n", sum);
    return 0;
}
