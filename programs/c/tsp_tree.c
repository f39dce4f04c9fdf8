// Nodes of a tree, each from its own malloc, chained into a tour: of seven fields the tour's loop reads three
// (Olden's TSP).
//
// truth:
// [[group]]
// name = "tree"
// type = "tree"
// element_bytes = 56
// fields = { sz = 0, x = 8, y = 16, left = 24, right = 32, next = 40, prev = 48 }
// allocated_at = { function = "build_tree", line = 44 }
// split = [["x", "y", "next"], ["sz", "left", "right", "prev"]]
//
// [[loop]]
// name = "build"
// allocates = true
//
// [[loop]]
// name = "tour_length"
// function = "tour_length"
// lines = [69, 71]
// group = "tree"
// fields = ["x", "y", "next"]

#include "truth.h"

struct tree {
    int sz;
    double x, y;
    struct tree *left, *right;
    struct tree *next;
    struct tree *prev;
};

enum { BUILD, LINK, TOUR_LENGTH, LOOPS };
static struct truth loops[LOOPS] = {{"build", 0}, {"link", 0}, {"tour_length", 0}};

static uint64_t random_state = 88172645463325252u;

// A balanced tree of `n` cities.
static struct tree *build_tree(long n)
{
    if (n == 0)
        return NULL;
    struct tree *t = malloc(sizeof *t);
    t->sz = (int)n;
    t->x = (double)(next_random(&random_state) >> 40);
    t->y = (double)(next_random(&random_state) >> 40);
    t->next = t->prev = NULL;
    t->left = build_tree((n - 1) / 2);
    t->right = build_tree(n - 1 - (n - 1) / 2);
    return t;
}

// Chains the nodes of `t` in order behind `last`; returns the new last one.
static struct tree *link_tour(struct tree *t, struct tree *last)
{
    if (!t)
        return last;
    last = link_tour(t->left, last);
    last->next = t;
    t->prev = last;
    return link_tour(t->right, t);
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
    free_tree(t->left);
    free_tree(t->right);
    free(t);
}

int main(int argc, char **argv)
{
    long passes = argument(argc, argv, 1, 60), n = argument(argc, argv, 2, 1 << 20);
    uint64_t started = truth_now();
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
    printf("%.6e %d\n", sum, root->sz);
    free_tree(root);
    truth_write(loops, LOOPS);
    return 0;
}
