// Walks over nodes in an order that no cache foresees, each with a value in a block of its own: 512 instructions touch more
// blocks than a sample has room for, and none of them twice. Prints the size of a value's block.
#include <stdio.h>
#include <stdlib.h>

struct value {
    long number;
    long rest[23];
};

struct node {
    struct node *next;
    struct value *value;
};

enum { NODES = 100000 };

int main(void) {
    static struct node *nodes[NODES];
    for (int i = 0; i < NODES; i++) {
        nodes[i] = malloc(sizeof **nodes);
        nodes[i]->value = calloc(1, sizeof(struct value));
        nodes[i]->value->number = i;
    }
    unsigned long random = 1;
    for (int i = NODES - 1; i > 0; i--) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        int j = (random >> 33) % (i + 1);
        struct node *other = nodes[i];
        nodes[i] = nodes[j];
        nodes[j] = other;
    }
    for (int i = 0; i < NODES; i++) nodes[i]->next = nodes[(i + 1) % NODES];
    long sum = 0;
    struct node *at = nodes[0];
    for (long i = 0; i < 60L * NODES; i++) {
        sum += at->value->number;
        at = at->next;
    }
    printf("%zu %ld\n", sizeof(struct value), sum);
    return 0;
}
