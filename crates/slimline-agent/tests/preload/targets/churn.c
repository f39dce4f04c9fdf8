// Allocates so much that not all blocks can be followed, then walks over small and large ones. Those that it allocates
// and frees are of argument 1 bytes or a little more.
#include <stdio.h>
#include <stdlib.h>

// What lies behind a block that was shrunk in place is another block's.
enum { SHRUNK = 500, SHRUNK_BYTES = 3000 };
static long *shrunk[SHRUNK], *behind[SHRUNK * 40];

enum { CHURNED = 3000000, LIVE = 16384, SMALL = 100000, LARGE = 200, SMALL_BYTES = 48, LARGE_BYTES = 2000 };

static long *blocks[LIVE], *small[SMALL], *large[LARGE];

__attribute__((noinline)) static long *make(size_t bytes) {
    long *block = malloc(bytes);
    block[0] = block[1] = 1;
    return block;
}

__attribute__((noinline)) static long walk(long **which, int count, int times) {
    long sum = 0;
    for (int time = 0; time < times; time++)
        for (int i = 0; i < count; i++) sum += which[i][1] += 1;
    return sum;
}

int main(int argc, char **argv) {
    long bytes = argc > 1 ? atol(argv[1]) : 101;
    long allocations = 0;
    for (long i = 0; i < CHURNED; i++, allocations++) {
        long **place = &blocks[i * 2654435761 % LIVE];
        free(*place);
        *place = make(bytes + i % 98);
    }
    for (int i = 0; i < SMALL; i++, allocations++) small[i] = make(SMALL_BYTES);
    for (int i = 0; i < LARGE; i++, allocations++) large[i] = make(LARGE_BYTES);
    for (int i = 0; i < SHRUNK; i++, allocations++) shrunk[i] = make(SHRUNK_BYTES);
    for (int i = 0; i < SHRUNK; i++, allocations++) shrunk[i] = realloc(shrunk[i], 40);
    for (int i = 0; i < SHRUNK * 40; i++, allocations++) behind[i] = make(SMALL_BYTES);
    long sum = walk(behind, SHRUNK * 40, 4000) + walk(small, SMALL, 2000) + walk(large, LARGE, 200000);
    printf("%ld %ld %d %d %d\n", allocations, sum & 1, SMALL_BYTES, LARGE_BYTES, SHRUNK_BYTES);
    return 0;
}
