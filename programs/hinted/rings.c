/* Rings of 64 objects each, which lie anywhere: OBJECTS of them are made, and gone through ring by ring, ROUNDS times.
 *
 *   rings OBJECTS ROUNDS           two loads an object and round
 */
#include <stdio.h>
#include <stdlib.h>

enum { RING = 64 };

struct node {
    struct node *next;
    unsigned long value;
};

static unsigned long long state = 88172645463325252ULL;
static unsigned long drawn(unsigned long end) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state % end;
}

int main(int argc, char **argv) {
    unsigned long count = (argc > 1 ? strtoul(argv[1], 0, 10) : 6400) / RING * RING, rounds = argc > 2 ? strtoul(argv[2], 0, 10) : 50;
    struct node **nodes = malloc(count * sizeof *nodes);
    if (!nodes) return 1;
    for (unsigned long at = 0; at < count; at++) {
        nodes[at] = malloc(sizeof **nodes);
        if (!nodes[at]) return 1;
        nodes[at]->value = at;
    }
    for (unsigned long at = count - 1; at > 0; at--) {
        unsigned long other = drawn(at + 1);
        struct node *moved = nodes[at];
        nodes[at] = nodes[other], nodes[other] = moved;
    }
    for (unsigned long at = 0; at < count; at++) nodes[at]->next = nodes[at / RING * RING + (at + 1) % RING];
    unsigned long sum = 0;
    for (unsigned long round = 0; round < rounds; round++)
        for (unsigned long ring = 0; ring < count; ring += RING) {
            struct node *at = nodes[ring];
            do sum += at->value, at = at->next;
            while (at != nodes[ring]);
        }
    printf("%lu\n", sum);
    return 0;
}
