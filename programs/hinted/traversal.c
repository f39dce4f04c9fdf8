/* Searches through a graph that a file has, breadth first or depth first, each from another node: nodes lie in memory as the file has them.
 *
 *   traversal make NODES > graph                 a grid with some long edges, whose numbers say nothing of who is near
 *   traversal bfs graph [ROUNDS]                 or dfs
 *   traversal reorder graph ids > other          the same graph, its nodes in this order: a number a line
 *
 * Of a graph the first line says how many nodes there are, each other one is a node: its number, how many neighbours it has, and theirs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef SLIMLINE
#include "slimline.h"
#else
#define slimline_start()
#endif

struct node {
    unsigned id, degree;
    unsigned seen;
    struct node **neighbours;
};

static struct node **waiting;

__attribute__((noinline)) static unsigned long breadth_first(struct node *start, unsigned round) {
    unsigned long first = 0, last = 0, sum = 0;
    waiting[last++] = start, start->seen = round;
    while (first < last) {
        struct node *at = waiting[first++];
        sum += at->id * first;
        for (unsigned i = 0; i < at->degree; i++)
            if (at->neighbours[i]->seen != round) at->neighbours[i]->seen = round, waiting[last++] = at->neighbours[i];
    }
    return sum;
}

__attribute__((noinline)) static unsigned long depth_first(struct node *start, unsigned round) {
    unsigned long left = 0, met = 0, sum = 0;
    waiting[left++] = start, start->seen = round;
    while (left > 0) {
        struct node *at = waiting[--left];
        sum += at->id * ++met;
        for (unsigned i = 0; i < at->degree; i++)
            if (at->neighbours[i]->seen != round) at->neighbours[i]->seen = round, waiting[left++] = at->neighbours[i];
    }
    return sum;
}

static unsigned drawn(unsigned end) {
    static unsigned long state = 7;
    state = state * 6364136223846793005ul + 1442695040888963407ul;
    return (unsigned)((state >> 33) % end);
}

/* A line of a graph's node: its number and its neighbours. */
struct line {
    unsigned id, degree, *neighbours;
};

static struct line *read_graph(const char *path, unsigned *nodes) {
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%u", nodes) != 1) fprintf(stderr, "%s: no graph\n", path), exit(2);
    struct line *lines = malloc(*nodes * sizeof *lines);
    for (unsigned at = 0; at < *nodes; at++) {
        struct line *line = &lines[at];
        int read = fscanf(file, "%u %u", &line->id, &line->degree) == 2;
        line->neighbours = malloc((line->degree + 1) * sizeof(unsigned));
        for (unsigned i = 0; read && i < line->degree; i++) read = fscanf(file, "%u", &line->neighbours[i]) == 1;
        if (!read) fprintf(stderr, "%s: it ends early\n", path), exit(2);
    }
    fclose(file);
    return lines;
}

static void write_line(const struct line *line) {
    printf("%u %u", line->id, line->degree);
    for (unsigned i = 0; i < line->degree; i++) printf(" %u", line->neighbours[i]);
    putchar('\n');
}

static int make(unsigned nodes) {
    unsigned side = 1, *names = malloc(nodes * sizeof *names), *places = malloc(nodes * sizeof *places);
    while (side * side < nodes) side++;
    for (unsigned at = 0; at < nodes; at++) names[at] = at;
    for (unsigned at = nodes; at > 1; at--) {
        unsigned other = drawn(at), name = names[at - 1];
        names[at - 1] = names[other], names[other] = name;
    }
    struct line *lines = calloc(nodes, sizeof *lines);
    for (unsigned at = 0; at < nodes; at++) {
        places[names[at]] = at, lines[at].id = names[at];
        lines[at].neighbours = malloc(64 * sizeof(unsigned));
    }
    for (unsigned at = 0; at < nodes; at++) {
        unsigned others[3] = {at + 1, at + side, drawn(50) ? nodes : drawn(nodes)};
        for (int i = 0; i < 3; i++) {
            if (others[i] >= nodes || others[i] == at) continue;
            struct line *one = &lines[at], *other = &lines[others[i]];
            if (one->degree == 64 || other->degree == 64) continue;
            one->neighbours[one->degree++] = other->id, other->neighbours[other->degree++] = one->id;
        }
    }
    printf("%u\n", nodes);
    for (unsigned name = 0; name < nodes; name++) write_line(&lines[places[name]]);
    return 0;
}

static int reorder(const char *path, const char *ids) {
    unsigned nodes, id;
    struct line *lines = read_graph(path, &nodes), **of = calloc(nodes, sizeof *of);
    for (unsigned at = 0; at < nodes; at++) of[lines[at].id] = &lines[at];
    FILE *file = fopen(ids, "r");
    if (!file) return fprintf(stderr, "%s: no numbers\n", ids), 2;
    printf("%u\n", nodes);
    while (fscanf(file, "%u", &id) == 1)
        if (id < nodes && of[id]) write_line(of[id]), of[id] = NULL;
    /* Those that were never met. */
    for (unsigned at = 0; at < nodes; at++)
        if (of[at]) write_line(of[at]);
    return 0;
}

static int search(int is_deep, const char *path, unsigned rounds) {
    unsigned nodes;
    struct line *lines = read_graph(path, &nodes);
    struct node **graph = calloc(nodes, sizeof *graph);
    for (unsigned at = 0; at < nodes; at++) {
        struct node *made = malloc(sizeof *made);
        made->id = lines[at].id, made->degree = lines[at].degree, made->seen = 0;
        made->neighbours = malloc((made->degree + 1) * sizeof(struct node *));
        graph[made->id] = made;
    }
    for (unsigned at = 0; at < nodes; at++)
        for (unsigned i = 0; i < lines[at].degree; i++)
            graph[lines[at].id]->neighbours[i] = graph[lines[at].neighbours[i]];
    waiting = malloc(nodes * sizeof *waiting);
    slimline_start();
    unsigned long sum = 0;
    for (unsigned round = 1; round <= rounds; round++) {
        struct node *start = graph[drawn(nodes)];
        sum += is_deep ? depth_first(start, round) : breadth_first(start, round);
    }
    printf("%lu\n", sum);
    return 0;
}

int main(int argc, char **argv) {
    const char *what = argc > 2 ? argv[1] : "";
    if (!strcmp(what, "make")) return make(atoi(argv[2]));
    if (!strcmp(what, "reorder") && argc > 3) return reorder(argv[2], argv[3]);
    if (!strcmp(what, "bfs") || !strcmp(what, "dfs"))
        return search(*what == 'd', argv[2], argc > 3 ? atoi(argv[3]) : 10);
    return fprintf(stderr, "traversal make NODES | bfs|dfs GRAPH [ROUNDS] | reorder GRAPH IDS\n"), 2;
}
