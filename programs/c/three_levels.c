// Three arrays read in turn by one dependent chain: one fits L1, one L2, one neither. Each is then chased alone, which
// says how the chain's time divides.
//
// truth:
// [[group]]
// name = "in_l1"
// type = "unsigned int"
// element_bytes = 4
// allocated_at = { function = "main", line = 87 }
//
// [[group]]
// name = "in_l2"
// type = "unsigned int"
// element_bytes = 4
// allocated_at = { function = "main", line = 88 }
//
// [[group]]
// name = "in_memory"
// type = "unsigned int"
// element_bytes = 4
// allocated_at = { function = "main", line = 89 }
//
// [[loop]]
// name = "chain"
// function = "chain"
// lines = [57, 60]
// divide = { in_l1 = "alone_l1", in_l2 = "alone_l2", in_memory = "alone_memory" }
//
// [[loop]]
// name = "alone_l1"
// group = "in_l1"
//
// [[loop]]
// name = "alone_l2"
// group = "in_l2"
//
// [[loop]]
// name = "alone_memory"
// group = "in_memory"

#include "truth.h"

#define L1_ITEMS (1u << 12)
#define L2_ITEMS (1u << 15)

enum { FILL, CHAIN, ALONE_L1, ALONE_L2, ALONE_MEMORY, LOOPS };
static struct truth loops[LOOPS] = {{"fill", 0}, {"chain", 0}, {"alone_l1", 0}, {"alone_l2", 0}, {"alone_memory", 0}};

static unsigned scatter(unsigned x)
{
    return (x * 2654435761u) ^ (x >> 15);
}

static unsigned chain(const unsigned *in_l1, const unsigned *in_l2, const unsigned *in_memory, unsigned mask, long n)
{
    unsigned x = 0;
    for (long i = 0; i < n; i++) {
        x = in_l1[scatter(x) & (L1_ITEMS - 1)] + (unsigned)i;
        x = in_l2[scatter(x) & (L2_ITEMS - 1)] + (unsigned)i * 40503u;
        x = in_memory[scatter(x) & mask];
    }
    return x;
}

static unsigned alone(const unsigned *items, unsigned mask, long n)
{
    unsigned x = 0;
    for (long i = 0; i < n; i++)
        x = items[scatter(x) & mask] + (unsigned)i;
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

    started = truth_now();
    unsigned sum = chain(in_l1, in_l2, in_memory, items - 1, steps);
    truth_add(&loops[CHAIN], started);
    // As many steps each would double the run; a tenth is enough to time them.
    started = truth_now();
    sum += alone(in_l1, L1_ITEMS - 1, steps / 10 + 1);
    truth_add(&loops[ALONE_L1], started);
    started = truth_now();
    sum += alone(in_l2, L2_ITEMS - 1, steps / 10 + 1);
    truth_add(&loops[ALONE_L2], started);
    started = truth_now();
    sum += alone(in_memory, items - 1, steps / 10 + 1);
    truth_add(&loops[ALONE_MEMORY], started);
    printf("%u\n", sum);
    free(in_l1);
    free(in_l2);
    free(in_memory);
    truth_write(loops, LOOPS);
    return 0;
}
