// spin THREADS ROUNDS: each thread walks its own list and adds up what it finds.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct node {
    long value;
    struct node *next;
    long more[6];
};

enum { NODES = 1 << 14 };
static long rounds;

static void *walk(void *result) {
    struct node *nodes = malloc(NODES * sizeof *nodes);
    for (long i = 0; i < NODES; i++) {
        nodes[i].value = i;
        nodes[i].next = &nodes[(i * 7919 + 13) % NODES];
    }
    long sum = 0;
    struct node *node = nodes;
    for (long i = 0; i < rounds * NODES; i++) {
        sum += node->value;
        node = node->next;
    }
    free(nodes);
    *(long *)result = sum;
    return NULL;
}

int main(int argc, char **argv) {
    int threads = argc > 1 ? atoi(argv[1]) : 1;
    rounds = argc > 2 ? atol(argv[2]) : 1000;
    pthread_t made[64];
    long sums[64];
    for (int i = 1; i < threads; i++) pthread_create(&made[i], NULL, walk, &sums[i]);
    walk(&sums[0]);
    for (int i = 1; i < threads; i++) pthread_join(made[i], NULL);
    for (int i = 0; i < threads; i++) printf("%ld\n", sums[i]);
    return 0;
}
