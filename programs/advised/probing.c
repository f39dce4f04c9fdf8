// A hash table with open addressing: look-ups of what is not there go along the keys, and values of 56 bytes lie between them. With
// -DADVISED keys have an array of their own.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct value {
    double numbers[7];
};

#ifdef ADVISED
static uint64_t *keys;
static struct value *values;
#define KEY(i) keys[i]
#define VALUE(i) values[i]
#else
struct slot {
    uint64_t key;
    struct value value;
};
static struct slot *slots;
#define KEY(i) slots[i].key
#define VALUE(i) slots[i].value
#endif

static uint64_t next(uint64_t *random)
{
    *random ^= *random << 13, *random ^= *random >> 7, *random ^= *random << 17;
    return *random;
}

int main(int argc, char **argv)
{
    long lookups = argc > 1 ? atol(argv[1]) : 3000000, log2 = argc > 2 ? atol(argv[2]) : 19;
    uint64_t mask = (1ul << log2) - 1, random = 88172645463325252u;
#ifdef ADVISED
    keys = calloc(mask + 1, sizeof *keys), values = calloc(mask + 1, sizeof *values);
#else
    slots = calloc(mask + 1, sizeof *slots);
#endif
    for (uint64_t filled = 0; filled < (mask + 1) / 5 * 4; filled++) {
        uint64_t key = next(&random) | 1, i = key >> 20 & mask;
        while (KEY(i) != 0)
            i = (i + 1) & mask;
        KEY(i) = key, VALUE(i).numbers[0] = (double)filled;
    }
    double sum = 0;
    for (long lookup = 0; lookup < lookups; lookup++) {
        uint64_t key = next(&random) & ~1ul, i = key >> 20 & mask;
        while (KEY(i) != 0 && KEY(i) != key)
            i = (i + 1) & mask;
        sum += KEY(i) == key ? VALUE(i).numbers[0] : (double)(i & 1);
    }
    printf("%.6e\n", sum);
    return 0;
}
