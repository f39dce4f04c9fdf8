// The program break grows and shrinks below blocks that were in use, while malloc takes its memory from mappings.

#include "torture.h"
#include <malloc.h>

int main(void)
{
    mallopt(M_MMAP_THRESHOLD, 0);
    mallopt(M_TOP_PAD, 0);
    uint64_t sum = 1;
    char *start = sbrk(0);
    CHECK(start != (char *)-1);
    start = (char *)(((uint64_t)start + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1));
    for (int round = 0; round < 3000; round++) {
        uint64_t count = 1ul << (round * 7 % 6);
        CHECK(brk(start + count * PAGE_BYTES) == 0);
        sum = worked((uint64_t *)start, count * PAGE_BYTES / 8, 700, sum);
        CHECK(brk(start) == 0);
        CHECK(sbrk(0) == start);
    }
    printf("%lx\n", sum);
    return 0;
}
