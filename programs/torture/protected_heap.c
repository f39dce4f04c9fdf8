// A heap of its own, all of it unreadable between phases, with write barriers by faults: each page faults once a phase.

#include "torture.h"

enum { PAGES = 256 };
static char *heap;
static uint64_t faults;

static void on_fault(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)context;
    char *page = (char *)((uint64_t)info->si_addr & ~(PAGE_BYTES - 1));
    if (page < heap || page >= heap + PAGES * PAGE_BYTES)
        _exit(4);
    faults++;
    mprotect(page, PAGE_BYTES, PROT_READ | PROT_WRITE);
}

int main(void)
{
    heap = pages(PAGES, PROT_READ | PROT_WRITE);
    handle(SIGSEGV, on_fault, 0);
    uint64_t *table = calloc(1 << 12, 8), sum = 1;
    for (int phase = 0; phase < 50; phase++) {
        sum = worked((uint64_t *)heap, PAGES * PAGE_BYTES / 8, 15000, sum);
        CHECK(mprotect(heap, PAGES * PAGE_BYTES, phase & 1 ? PROT_NONE : PROT_READ) == 0);
        sum = worked(table, 1 << 12, 5000, sum);
    }
    printf("%lx %lu\n", sum, faults);
    return 0;
}
