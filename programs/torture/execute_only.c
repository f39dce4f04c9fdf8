// Execute-only mapping: code whose page has PROT_EXEC alone. Counts the faults of reading it, which only some processors raise.

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
    // lea 1(%rdi,%rdi,2), %rax; xor %rsi, %rax; ret
    static const unsigned char code[] = {0x48, 0x8d, 0x44, 0x7f, 0x01, 0x48, 0x31, 0xf0, 0xc3};
    unsigned char *page = (unsigned char *)pages(1, PROT_READ | PROT_WRITE);
    memcpy(page, code, sizeof code);
    CHECK(mprotect(page, PAGE_BYTES, PROT_EXEC) == 0);
    uint64_t (*function)(uint64_t, uint64_t) = (uint64_t (*)(uint64_t, uint64_t))page;
    uint64_t *table = calloc(1 << 16, 8), sum = 1;
    volatile int faults = 0;
    handle(SIGSEGV, on_fault, 0);
    for (int i = 0; i < 4000000; i++)
        sum = function(worked(table, 1 << 16, 6, sum), i);
    for (volatile int i = 0; i < 1000; i++) {
        if (sigsetjmp(back, 1))
            faults++;
        else
            (void)*(volatile unsigned char *)page;
    }
    printf("%lx %d\n", sum, faults);
    return 0;
}
