// A guard page that moves through an array while it is read: each fault moves it on by one page, and faults are counted.

#include "torture.h"

enum { PAGES = 64 };
static char *array;
static int guarded;
static uint64_t faults;

static void on_fault(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)context;
    char *guard = array + guarded * PAGE_BYTES;
    if ((char *)info->si_addr < guard || (char *)info->si_addr >= guard + PAGE_BYTES)
        _exit(4);
    faults++;
    mprotect(guard, PAGE_BYTES, PROT_READ | PROT_WRITE);
    guarded = (guarded + 1) % PAGES;
    mprotect(array + guarded * PAGE_BYTES, PAGE_BYTES, PROT_NONE);
}

int main(void)
{
    array = pages(PAGES, PROT_READ | PROT_WRITE);
    uint64_t sum = 1;
    handle(SIGSEGV, on_fault, 0);
    for (uint64_t i = 0; i < PAGES * PAGE_BYTES / 8; i++)
        ((uint64_t *)array)[i] = i;
    mprotect(array, PAGE_BYTES, PROT_NONE);
    for (int round = 0; round < 300; round++)
        for (uint64_t i = 0; i < PAGES * PAGE_BYTES / 8; i += 4)
            sum = mixed(sum, ((uint64_t *)array)[i]);
    printf("%lx %lu\n", sum, faults);
    return 0;
}
