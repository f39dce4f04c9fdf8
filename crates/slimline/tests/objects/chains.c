// A hash table of chains. Each lookup reads one bucket and walks its chain to the end. Entries are allocated among others that
// are freed at once, so that few are followed.
#include <stdio.h>
#include <stdlib.h>

struct entry { struct entry *next; long key; };
struct bucket { long filled[10]; struct entry first; long spare[5]; };

__attribute__((noinline)) static long sum(const struct entry *e) {
    long s = 0;
    for (; e; e = e->next)
        s += e->key;
    return s;
}

int main(void) {
    enum { BUCKETS = 100000, CHAIN = 16, LOOKUPS = 6 };
    struct bucket **table = malloc(BUCKETS * sizeof *table);
    for (int i = 0; i < BUCKETS; i++)
        table[i] = calloc(1, sizeof **table);
    for (int k = 0; k < CHAIN; k++)
        for (int i = 0; i < BUCKETS; i++) {
            struct entry *e = malloc(sizeof *e);
            e->key = k;
            e->next = table[i]->first.next;
            table[i]->first.next = e;
            free(malloc(30 + (i & 3) * 16));
            free(malloc(300));
        }
    long s = 0;
    for (int r = 0; r < LOOKUPS; r++)
        for (int i = 0; i < BUCKETS; i++)
            s += sum(&table[i * 7919L % BUCKETS]->first);
    printf("%ld\n", s);
}
