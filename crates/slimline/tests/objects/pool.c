// A pool that cuts blocks out of what malloc gives it. Time is spent in nodes that were made after the pool was emptied
// (first argument "again"), else in those made before.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct node {
    struct node *next;
    long key;
    double value;
    char rest[40];
};

struct leaf {
    struct leaf *next;
    double weight;
    long count;
    long spare;
};

struct pool {
    char *at, *end;
    struct chunk {
        struct chunk *next;
    } *chunks, *empty;
};

enum { CHUNK_BYTES = 1 << 16, COUNT = 20000, PASSES = 1500 };

static void refill(struct pool *pool) {
    struct chunk *chunk = pool->empty;
    if (chunk)
        pool->empty = chunk->next;
    else if (!(chunk = malloc(CHUNK_BYTES)))
        exit(1);
    chunk->next = pool->chunks;
    pool->chunks = chunk;
    pool->at = (char *)(chunk + 1) + 8;
    pool->end = (char *)chunk + CHUNK_BYTES;
}

static __attribute__((noinline, noclone)) void *pool_take(struct pool *pool, size_t bytes) {
    if (pool->end - pool->at < (long)bytes)
        refill(pool);
    void *block = pool->at;
    pool->at += bytes;
    return block;
}

// Chunks are kept, and blocks of other sizes come to lie in them.
static __attribute__((noinline, noclone)) void pool_empty(struct pool *pool) {
    while (pool->chunks) {
        struct chunk *next = pool->chunks->next;
        pool->chunks->next = pool->empty;
        pool->empty = pool->chunks;
        pool->chunks = next;
    }
    pool->at = pool->end = NULL;
}

static __attribute__((noinline)) struct node *make_nodes(struct pool *pool) {
    struct node *first = NULL;
    for (int i = 0; i < COUNT; i++) {
        struct node *node = pool_take(pool, sizeof *node);
        node->next = first, node->key = i, node->value = 0;
        first = node;
    }
    return first;
}

static __attribute__((noinline)) struct leaf *make_leaves(struct pool *pool) {
    struct leaf *first = NULL;
    for (int i = 0; i < COUNT; i++) {
        struct leaf *leaf = pool_take(pool, sizeof *leaf);
        leaf->next = first, leaf->weight = i, leaf->count = 0;
        first = leaf;
    }
    return first;
}

int main(int count, char **arguments) {
    struct pool pool = {0};
    double sum = 0;
    struct node *nodes = make_nodes(&pool);
    if (count > 1 && !strcmp(arguments[1], "again")) {
        pool_empty(&pool);
        struct leaf *leaves = make_leaves(&pool);
        for (int pass = 0; pass < PASSES; pass++)
            for (struct leaf *leaf = leaves; leaf; leaf = leaf->next)
                leaf->count++, sum += leaf->weight;
    } else {
        for (int pass = 0; pass < PASSES; pass++)
            for (struct node *node = nodes; node; node = node->next)
                node->value += node->key, sum += node->value;
    }
    printf("%g\n", sum);
    return 0;
}
