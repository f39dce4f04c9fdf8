// Pages that are code, then unreadable, then data, then code again, as compilers at run time use them. Counts the faults.

#include "torture.h"

static unsigned char *page;
static uint64_t faults;

static void on_fault(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)context;
    if ((unsigned char *)info->si_addr < page || (unsigned char *)info->si_addr >= page + PAGE_BYTES)
        _exit(4);
    faults++;
    mprotect(page, PAGE_BYTES, PROT_READ | PROT_WRITE);
}

int main(void)
{
    page = (unsigned char *)pages(1, PROT_READ | PROT_WRITE);
    uint64_t *table = calloc(1 << 14, 8), sum = 1;
    handle(SIGSEGV, on_fault, 0);
    for (uint32_t round = 0; round < 2000; round++) {
        // mov $round, %eax; add %rdi, %rax; ret
        unsigned char code[] = {0xb8, 0, 0, 0, 0, 0x48, 0x01, 0xf8, 0xc3};
        memcpy(code + 1, &round, sizeof round);
        CHECK(mprotect(page, PAGE_BYTES, PROT_READ | PROT_WRITE) == 0);
        memcpy(page, code, sizeof code);
        CHECK(mprotect(page, PAGE_BYTES, PROT_READ | PROT_EXEC) == 0);
        for (int i = 0; i < 300; i++)
            sum = mixed(sum, ((uint64_t (*)(uint64_t))page)(sum));
        CHECK(mprotect(page, PAGE_BYTES, PROT_NONE) == 0);
        sum = worked(table, 1 << 14, 500, sum);
        // Unreadable for some instructions only, so that what runs ahead of the program meets it.
        for (int i = 0; i < 4; i++) {
            CHECK(mprotect(page, PAGE_BYTES, PROT_READ | PROT_EXEC) == 0);
            sum = mixed(sum, ((uint64_t (*)(uint64_t))page)(sum));
            CHECK(mprotect(page, PAGE_BYTES, PROT_NONE) == 0);
            sum = worked(table, 1 << 14, 60, sum);
            sum += *(volatile unsigned char *)page;
        }
        CHECK(mprotect(page, PAGE_BYTES, PROT_NONE) == 0);
        sum = worked(table, 1 << 14, 60, sum);
        for (int i = 0; i < 500; i++)
            sum = mixed(sum, ((volatile unsigned char *)page)[i & 7]);
        memset(page, (int)round, PAGE_BYTES);
    }
    printf("%lx %lu\n", sum, faults);
    return 0;
}
