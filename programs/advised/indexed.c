// A binary search tree of small nodes, each allocated by itself: 24 bytes, of which malloc makes 32. With -DADVISED they come from one array, and what
// leads from one to the next is its number in there: 16 bytes.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct node {
    long key;
#ifdef ADVISED
    uint32_t left, right; // an index, 0: none
#else
    struct node *left, *right;
#endif
};

#ifdef ADVISED
typedef uint32_t link;
static struct node *nodes;
static link nodes_count = 1;
#define NODE(link) (&nodes[link])
#else
typedef struct node *link;
#define NODE(link) (link)
#endif

static link new_node(long key)
{
#ifdef ADVISED
    link node = nodes_count++;
#else
    link node = malloc(sizeof(struct node));
#endif
    *NODE(node) = (struct node){.key = key};
    return node;
}

static long next(uint64_t *random)
{
    *random ^= *random << 13, *random ^= *random >> 7, *random ^= *random << 17;
    return (long)(*random >> 1);
}

int main(int argc, char **argv)
{
    long lookups = argc > 1 ? atol(argv[1]) : 1000000, n = argc > 2 ? atol(argv[2]) : 1 << 19;
    uint64_t random = 88172645463325252u;
#ifdef ADVISED
    nodes = malloc((size_t)(n + 1) * sizeof *nodes);
#endif
    link root = 0;
    for (long i = 0; i < n; i++) {
        link *place = &root, node = new_node(next(&random));
        long key = NODE(node)->key;
        while (*place)
            place = key < NODE(*place)->key ? &NODE(*place)->left : &NODE(*place)->right;
        *place = node;
    }
    long sum = 0;
    for (long lookup = 0; lookup < lookups; lookup++) {
        long key = next(&random), last = 0;
        for (link at = root; at; at = key < last ? NODE(at)->left : NODE(at)->right)
            last = NODE(at)->key;
        sum += last & 1;
    }
    printf("%ld\n", sum);
    return 0;
}
