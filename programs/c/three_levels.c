// Three arrays read in turn by one dependent chain: one fits L1, one L2, one neither. In between, some steps are taken with
// a clock read around each load, which says how the chain's time divides: loads that wait for memory put the others out
// of the caches and the TLB, so what each array costs alone says less.
//
// truth:
// [[group]]
// name = "in_l1"
// type = "unsigned int"
// element_bytes = 4
// allocated_at = { function = "main", line = 109 }
//
// [[group]]
// name = "in_l2"
// type = "unsigned int"
// element_bytes = 4
// allocated_at = { function = "main", line = 110 }
//
// [[group]]
// name = "in_memory"
// type = "unsigned int"
// element_bytes = 4
// allocated_at = { function = "main", line = 111 }
//
// [[loop]]
// name = "chain"
// function = "chain"
// lines = [54, 57]
// divide = { in_l1 = "part_l1", in_l2 = "part_l2", in_memory = "part_memory" }
//
// [[loop]]
// name = "timed"
// divide = { in_l1 = "part_l1", in_l2 = "part_l2", in_memory = "part_memory" }

#include "truth.h"
#include <x86intrin.h>

#define L1_ITEMS (1u << 12)
#define L2_ITEMS (1u << 15)
#define TURNS 20

// The parts are no loops: only how they relate to each other counts.
enum { FILL, CHAIN, TIMED, PART_L1, PART_L2, PART_MEMORY, LOOPS };
static struct truth loops[LOOPS] = {{"fill", 0}, {"chain", 0}, {"timed", 0}, {"part_l1", 0}, {"part_l2", 0},
    {"part_memory", 0}};

static unsigned scatter(unsigned x)
{
    return (x * 2654435761u) ^ (x >> 15);
}

static unsigned chain(const unsigned *in_l1, const unsigned *in_l2, const unsigned *in_memory, unsigned mask, long n,
    unsigned x)
{
    for (long i = 0; i < n; i++) {
        x = in_l1[scatter(x) & (L1_ITEMS - 1)] + (unsigned)i;
        x = in_l2[scatter(x) & (L2_ITEMS - 1)] + (unsigned)i * 40503u;
        x = in_memory[scatter(x) & mask];
    }
    return x;
}

// Time when everything before is done, and nothing behind has begun.
static uint64_t between(void)
{
    _mm_lfence();
    uint64_t now = __rdtsc();
    _mm_lfence();
    return now;
}

// The same, timed: cycles beyond those of the clock itself go to the parts.
static unsigned timed(const unsigned *in_l1, const unsigned *in_l2, const unsigned *in_memory, unsigned mask, long n,
    unsigned x)
{
    uint64_t clock = 0, l1 = 0, l2 = 0, memory = 0;
    for (long i = 0; i < n; i++) {
        uint64_t start = between(), empty = between();
        x = in_l1[scatter(x) & (L1_ITEMS - 1)] + (unsigned)i;
        uint64_t after_l1 = between();
        x = in_l2[scatter(x) & (L2_ITEMS - 1)] + (unsigned)i * 40503u;
        uint64_t after_l2 = between();
        x = in_memory[scatter(x) & mask];
        uint64_t after_memory = between();
        clock += empty - start;
        l1 += after_l1 - empty;
        l2 += after_l2 - after_l1;
        memory += after_memory - after_l2;
    }
    loops[PART_L1].ns += l1 > clock ? l1 - clock : 0;
    loops[PART_L2].ns += l2 > clock ? l2 - clock : 0;
    loops[PART_MEMORY].ns += memory > clock ? memory - clock : 0;
    return x;
}

static unsigned *random_items(unsigned *items, unsigned count, uint64_t *random)
{
    for (unsigned i = 0; i < count; i++)
        items[i] = (unsigned)next_random(random);
    return items;
}

int main(int argc, char **argv)
{
    long steps = argument(argc, argv, 1, 10000000), log2_items = argument(argc, argv, 2, 24);
    if (log2_items > 30)
        log2_items = 30;
    unsigned items = 1u << log2_items;
    uint64_t random = 88172645463325252u, started = truth_now();
    unsigned *in_l1 = malloc(L1_ITEMS * sizeof *in_l1);
    unsigned *in_l2 = malloc(L2_ITEMS * sizeof *in_l2);
    unsigned *in_memory = malloc((size_t)items * sizeof *in_memory);
    random_items(in_l1, L1_ITEMS, &random);
    random_items(in_l2, L2_ITEMS, &random);
    random_items(in_memory, items, &random);
    truth_add(&loops[FILL], started);

    unsigned x = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        started = truth_now();
        x = chain(in_l1, in_l2, in_memory, items - 1, steps / TURNS, x);
        truth_add(&loops[CHAIN], started);
        started = truth_now();
        x = timed(in_l1, in_l2, in_memory, items - 1, steps / TURNS / 20 + 1, x);
        truth_add(&loops[TIMED], started);
    }
    printf("%u\n", x);
    free(in_l1);
    free(in_l2);
    free(in_memory);
    truth_write(loops, LOOPS);
    return 0;
}
