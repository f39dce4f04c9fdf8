// Rows that are looked up in a hash table by their keys, with one slot for all keys of a hash. With -DADVISED each slot is asked for 16 rows
// ahead.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct slot {
    uint64_t key, count;
};

static uint64_t hash(uint64_t key)
{
    key ^= key >> 33;
    key *= 0xff51afd7ed558ccdu;
    return key ^ key >> 33;
}

int main(int argc, char **argv)
{
    long passes = argc > 1 ? atol(argv[1]) : 3, rows = argc > 2 ? atol(argv[2]) : 1 << 21;
    uint64_t mask = (uint64_t)rows - 1, random = 88172645463325252u;
    struct slot *slots = calloc(mask + 1, sizeof *slots);
    uint64_t *keys = malloc((size_t)rows * sizeof *keys);
    for (long row = 0; row < rows; row++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        keys[row] = random | 1;
        // Every other key is there, but for those whose slot another one has got.
        if (row % 2 == 0) {
            uint64_t at = hash(keys[row]) & mask;
            slots[at].key = keys[row], slots[at].count = (uint64_t)row;
        }
    }
    uint64_t found = 0;
    for (long pass = 0; pass < passes; pass++)
        for (long row = 0; row < rows; row++) {
#ifdef ADVISED
            if (row + 16 < rows)
                __builtin_prefetch(&slots[hash(keys[row + 16]) & mask]);
#endif
            uint64_t key = keys[row];
            uint64_t at = hash(key) & mask;
            if (slots[at].key == key)
                found += slots[at].count;
        }
    printf("%lu\n", (unsigned long)found);
    return 0;
}
