// A linked list whose nodes lie in random order: a node's address is known only from the node before.
//
// truth:
// [[group]]
// name = "items"
// type = "item"
// element_bytes = 16
// fields = { key = 0, next = 8 }
// allocated_at = { function = "main", line = 40 }
// split = [["key", "next"]]
//
// [[loop]]
// name = "chase"
// function = "chase"
// lines = [32, 33]
// group = "items"
// fields = ["key", "next"]

#include "truth.h"

struct item {
    long key;
    struct item *next;
};

enum { FILL, CHASE, LOOPS };
static struct truth loops[LOOPS] = {{"fill", 0}, {"chase", 0}};

static long chase(const struct item *item)
{
    long sum = 0;
    for (; item; item = item->next)
        sum += item->key;
    return sum;
}

int main(int argc, char **argv)
{
    long passes = argument(argc, argv, 1, 60), n = argument(argc, argv, 2, 1 << 19);
    struct item *items = malloc((size_t)n * sizeof *items);
    uint64_t random = 88172645463325252u, started = truth_now();
    // Sattolo's shuffle of the identity is one cycle through all items; the cycle is cut before item 0.
    for (long i = 0; i < n; i++)
        items[i] = (struct item){i, &items[i]};
    for (long i = n - 1; i > 0; i--) {
        long j = (long)(next_random(&random) % (uint64_t)i);
        struct item *next = items[i].next;
        items[i].next = items[j].next;
        items[j].next = next;
    }
    for (long i = 0; i < n; i++)
        if (items[i].next == &items[0])
            items[i].next = NULL;
    truth_add(&loops[FILL], started);

    long sum = 0;
    for (long pass = 0; pass < passes; pass++) {
        started = truth_now();
        sum += chase(items);
        items[pass % n].key ^= sum & 1;
        truth_add(&loops[CHASE], started);
    }
    printf("%ld\n", sum);
    free(items);
    truth_write(loops, LOOPS);
    return 0;
}
