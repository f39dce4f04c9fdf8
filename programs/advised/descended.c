// A search tree, whose nodes are each found by the one before: nothing can be asked for so many steps ahead. With -DADVISED both of a node's
// children are asked for as soon as it is there.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct node {
    struct node *children[2];
    uint64_t key;
};

static uint64_t next(uint64_t *random)
{
    *random ^= *random << 13, *random ^= *random >> 7, *random ^= *random << 17;
    return *random;
}

int main(int argc, char **argv)
{
    long searches = argc > 1 ? atol(argv[1]) : 1000000, nodes = argc > 2 ? atol(argv[2]) : 1 << 19;
    struct node *root = NULL;
    uint64_t random = 88172645463325252u;
    for (long i = 0; i < nodes; i++) {
        struct node **at = &root, *node = calloc(1, sizeof *node);
        node->key = next(&random);
        while (*at)
            at = &(*at)->children[(*at)->key < node->key];
        *at = node;
    }
    uint64_t near = 0;
    for (long i = 0; i < searches; i++) {
        uint64_t key = next(&random);
        for (const struct node *at = root; at; at = at->children[at->key < key]) {
#ifdef ADVISED
            __builtin_prefetch(at->children[0]);
            __builtin_prefetch(at->children[1]);
#endif
            near += at->key & 1;
        }
    }
    printf("%lu\n", (unsigned long)near);
    return 0;
}
