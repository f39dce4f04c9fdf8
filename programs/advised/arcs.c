// The scan of arcs of a network simplex (SPEC's mcf): `ident` is looked at of each, `cost` and both ends of some, the lists and the
// original cost hardly ever. With -DADVISED what is cold is behind a pointer.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct node {
    long potential;
    long flow;
};

#ifdef ADVISED
struct arc_cold {
    struct arc *nextout, *nextin;
    long org_cost;
};
#endif

struct arc {
    long cost;
    struct node *tail, *head;
    int ident;
#ifdef ADVISED
    struct arc_cold *cold;
#else
    struct arc *nextout, *nextin;
    long org_cost;
#endif
};

#ifdef ADVISED
#define COLD(arc) ((arc)->cold)
#else
#define COLD(arc) (arc)
#endif

int main(int argc, char **argv)
{
    long passes = argc > 1 ? atol(argv[1]) : 12, n = argc > 2 ? atol(argv[2]) : 1 << 20, nodes_count = 1 << 10;
    struct node *nodes = calloc((size_t)nodes_count, sizeof *nodes);
    struct arc *arcs = malloc((size_t)n * sizeof *arcs);
#ifdef ADVISED
    struct arc_cold *cold = malloc((size_t)n * sizeof *cold);
    for (long i = 0; i < n; i++)
        arcs[i].cold = &cold[i];
#endif
    uint64_t random = 88172645463325252u;
    for (long i = 0; i < n; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        struct arc *arc = &arcs[i];
        arc->cost = (long)(random % 1000);
        arc->tail = &nodes[random % (uint64_t)nodes_count], arc->head = &nodes[(random >> 20) % (uint64_t)nodes_count];
        arc->ident = random & 4 ? 1 : 0;
        COLD(arc)->nextout = i ? arc - 1 : NULL, COLD(arc)->nextin = NULL, COLD(arc)->org_cost = arc->cost;
    }
    long sum = 0;
    for (long pass = 0; pass < passes; pass++) {
        for (struct arc *arc = arcs; arc < arcs + n; arc++)
            if (arc->ident > 0)
                sum += arc->cost - arc->tail->potential + arc->head->potential;
        nodes[pass % nodes_count].potential++;
    }
    for (long i = 0; i < n; i += n / 64)
        sum += COLD(&arcs[i])->org_cost;
    printf("%ld\n", sum);
    return 0;
}
