// Memory behind a protection key that is closed most of the time: the program opens it for its own reads, and counts faults.

#include "torture.h"
#include <setjmp.h>

static sigjmp_buf back;

static void on_fault(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info, (void)context;
    siglongjmp(back, 1);
}

int main(void)
{
    int key = pkey_alloc(0, PKEY_DISABLE_ACCESS);
    if (key < 0)
        skip("protection keys (the processor has none)");
    uint64_t *memory = (uint64_t *)pages(16, PROT_READ | PROT_WRITE), *table = calloc(1 << 12, 8), sum = 1;
    CHECK(pkey_mprotect(memory, 16 * PAGE_BYTES, PROT_READ | PROT_WRITE, key) == 0);
    handle(SIGSEGV, on_fault, 0);
    volatile int faults = 0;
    for (volatile int round = 0; round < 3000; round++) {
        pkey_set(key, 0);
        sum = worked(memory, 16 * PAGE_BYTES / 8, 500, sum);
        pkey_set(key, PKEY_DISABLE_ACCESS);
        sum = worked(table, 1 << 12, 500, sum);
        if (sigsetjmp(back, 1))
            faults++;
        else
            sum += *(volatile uint64_t *)memory;
    }
    printf("%lx %d\n", sum, faults);
    return 0;
}
