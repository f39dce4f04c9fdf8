// mremap that grows, shrinks and moves mappings, also onto fixed places and leaving the old one behind, and realloc of large blocks.

#include "torture.h"

int main(void)
{
    uint64_t sum = 1, count = 16;
    char *reserved = pages(512, PROT_NONE), *arena = pages(count, PROT_READ | PROT_WRITE), *block = calloc(1, 1 << 18);
    for (int round = 0; round < 2000; round++) {
        uint64_t next = 1 << (4 + round % 4);
        if (round % 3 == 0) {
            char *place = reserved + (round % 4) * 128 * PAGE_BYTES;
            char *moved = mremap(arena, count * PAGE_BYTES, next * PAGE_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, place);
            CHECK(moved == place);
            arena = moved;
        } else if (round % 3 == 1) {
            char *moved = mremap(arena, count * PAGE_BYTES, count * PAGE_BYTES, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
            CHECK(moved != MAP_FAILED);
            sum = mixed(sum, *(uint64_t *)arena);
            munmap(arena, count * PAGE_BYTES);
            arena = moved;
            next = count;
        } else {
            arena = mremap(arena, count * PAGE_BYTES, next * PAGE_BYTES, MREMAP_MAYMOVE);
            CHECK(arena != MAP_FAILED);
        }
        if (arena < reserved || arena >= reserved + 512 * PAGE_BYTES)
            CHECK(mmap(reserved, 512 * PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == reserved);
        count = next;
        sum = worked((uint64_t *)arena, count * PAGE_BYTES / 8, 1200, sum);
        block = realloc(block, (size_t)(1 + round % 7) << 18);
        CHECK(block);
        sum = worked((uint64_t *)block, 1 << 15, 300, sum);
    }
    printf("%lx\n", sum);
    return 0;
}
