// Small nodes of many lists that are walked again and again; each takes 32 bytes of malloc's where it has 24. With -DADVISED they
// come from chunks, side by side.

#include <stdio.h>
#include <stdlib.h>

struct edge {
    struct edge *next;
    long to;
    double weight;
};

static struct edge *new_edge(void)
{
#ifdef ADVISED
    static struct edge *chunk;
    static long left;
    if (left == 0)
        chunk = malloc((left = 4096) * sizeof *chunk);
    return &chunk[--left];
#else
    return malloc(sizeof(struct edge));
#endif
}

int main(int argc, char **argv)
{
    long passes = argc > 1 ? atol(argv[1]) : 6, n = argc > 2 ? atol(argv[2]) : 1 << 21, lists = 1 << 10;
    struct edge **heads = calloc((size_t)lists, sizeof *heads);
    for (long i = 0; i < n; i++) {
        struct edge *edge = new_edge();
        edge->to = i % 1001, edge->weight = 1.0 / (double)(i + 1);
        // One list after the other.
        struct edge **head = &heads[i * lists / n];
        edge->next = *head, *head = edge;
    }
    double sum = 0;
    for (long pass = 0; pass < passes; pass++)
        for (long list = 0; list < lists; list++)
            for (const struct edge *edge = heads[list]; edge; edge = edge->next)
                sum += edge->weight * (double)(edge->to + pass);
    printf("%.6e\n", sum);
    return 0;
}
