// Look-ups in a binary search tree whose nodes are a static array in order of insertion.
//
// truth:
// [[group]]
// name = "nodes"
// type = "node"
// element_bytes = 64
// kind = "static"
// fields = { key = 0, left = 8, right = 16, value = 24, created = 32, updated = 40, owner = 48, flags = 56 }
// split = [["key", "left", "right"], ["value"], ["created", "updated", "owner", "flags"]]
//
// [[loop]]
// name = "find"
// function = "find"
// lines = [42, 43]
// group = "nodes"
// fields = ["key", "left", "right"]

#include "truth.h"

#define MAX_NODES (1 << 18)
#define SEED 88172645463325252u

struct node {
    long key;
    struct node *left;
    struct node *right;
    long value;
    long created;
    long updated;
    long owner;
    long flags;
};

static struct node nodes[MAX_NODES];

enum { FILL, FIND, LOOPS };
static struct truth loops[LOOPS] = {{"fill", 0}, {"find", 0}};

static const struct node *find(const struct node *node, long key)
{
    while (node && node->key != key)
        node = key < node->key ? node->left : node->right;
    return node;
}

int main(int argc, char **argv)
{
    long lookups = argument(argc, argv, 1, 1 << 21), n = argument(argc, argv, 2, MAX_NODES);
    if (n > MAX_NODES)
        n = MAX_NODES;
    uint64_t random = SEED, started = truth_now();
    for (long i = 0; i < n; i++) {
        nodes[i].key = (long)(next_random(&random) >> 1);
        nodes[i].value = i;
        struct node **place = NULL;
        for (struct node *at = i ? nodes : NULL; at; at = *place)
            place = nodes[i].key < at->key ? &at->left : &at->right;
        if (place)
            *place = &nodes[i];
    }
    truth_add(&loops[FILL], started);

    // In order of insertion, the keys drawn once more: read from a random node, a key would cost as much as the last
    // steps of its look-up, outside the loop that is timed.
    long sum = 0;
    started = truth_now();
    for (long lookup = 0; lookup < lookups; lookup++) {
        if (lookup % n == 0)
            random = SEED;
        const struct node *node = find(nodes, (long)(next_random(&random) >> 1));
        sum += node ? node->value : -1;
    }
    truth_add(&loops[FIND], started);
    printf("%ld\n", sum);
    truth_write(loops, LOOPS);
    return 0;
}
