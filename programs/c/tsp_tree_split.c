// tsp_tree.c after its split: {x, y, next} hot, the rest behind a pointer, in an array of its own (two
// mallocs a node would interleave hot and cold again). Prints the same checksum.

#include "truth.h"

struct tree_cold {
    int sz;
    struct tree *left, *right;
    struct tree *prev;
};

struct tree {
    double x, y;
    struct tree *next;
    struct tree_cold *cold;
};

enum { BUILD, LINK, TOUR_LENGTH, LOOPS };
static struct truth loops[LOOPS] = {{"build", 0}, {"link", 0}, {"tour_length", 0}};

static struct tree_cold *cold_pool;
static uint64_t random_state = 88172645463325252u;

// A balanced tree of `n` cities.
static struct tree *build_tree(long n)
{
    if (n == 0)
        return NULL;
    struct tree *t = malloc(sizeof *t);
    t->cold = cold_pool++;
    t->cold->sz = (int)n;
    t->x = (double)(next_random(&random_state) >> 40);
    t->y = (double)(next_random(&random_state) >> 40);
    t->next = t->cold->prev = NULL;
    t->cold->left = build_tree((n - 1) / 2);
    t->cold->right = build_tree(n - 1 - (n - 1) / 2);
    return t;
}

// Chains the nodes of `t` in order behind `last`; returns the new last one.
static struct tree *link_tour(struct tree *t, struct tree *last)
{
    if (!t)
        return last;
    last = link_tour(t->cold->left, last);
    last->next = t;
    t->cold->prev = last;
    return link_tour(t->cold->right, t);
}

// Length of the tour as the sum of its legs in x and in y.
static double tour_length(const struct tree *first)
{
    double length = 0;
    for (const struct tree *t = first; t->next; t = t->next) {
        double dx = t->x - t->next->x, dy = t->y - t->next->y;
        length += (dx < 0 ? -dx : dx) + (dy < 0 ? -dy : dy);
    }
    return length;
}

static void free_tree(struct tree *t)
{
    if (!t)
        return;
    free_tree(t->cold->left);
    free_tree(t->cold->right);
    free(t);
}

int main(int argc, char **argv)
{
    long passes = argument(argc, argv, 1, 60), n = argument(argc, argv, 2, 1 << 20);
    uint64_t started = truth_now();
    struct tree_cold *colds = malloc((size_t)n * sizeof *colds);
    cold_pool = colds;
    struct tree *root = build_tree(n);
    truth_add(&loops[BUILD], started);
    struct tree head = {0};
    started = truth_now();
    link_tour(root, &head);
    truth_add(&loops[LINK], started);

    double sum = 0;
    for (long pass = 0; pass < passes; pass++) {
        started = truth_now();
        sum += tour_length(head.next);
        truth_add(&loops[TOUR_LENGTH], started);
        root->x += 1;
    }
    printf("%.6e %d\n", sum, root->cold->sz);
    free_tree(root);
    free(colds);
    truth_write(loops, LOOPS);
    return 0;
}
