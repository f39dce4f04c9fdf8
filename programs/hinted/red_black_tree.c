/* A red-black tree of numbers by chance, and look-ups of them by chance. */
#include <stdio.h>
#include <stdlib.h>
#ifdef TIDY
#include "tidy.h"
#endif
#ifdef SLIMLINE
#include "slimline.h"
#else
#define slimline_start()
#endif

struct node {
    struct node *left, *right, *parent;
    double payload;
    int is_red;
};

static struct node nil = {&nil, &nil, &nil, 0, 0}, *root = &nil;

static void rotate(struct node *x, int to_left) {
    struct node *y = to_left ? x->right : x->left;
    if (to_left) {
        x->right = y->left;
        if (y->left != &nil) y->left->parent = x;
    } else {
        x->left = y->right;
        if (y->right != &nil) y->right->parent = x;
    }
    y->parent = x->parent;
    if (x->parent == &nil) root = y;
    else if (x == x->parent->left) x->parent->left = y;
    else x->parent->right = y;
    if (to_left) y->left = x;
    else y->right = x;
    x->parent = y;
}

static void insert(struct node *made) {
    struct node *parent = &nil, *at = root;
    while (at != &nil) parent = at, at = made->payload < at->payload ? at->left : at->right;
    made->parent = parent, made->left = made->right = &nil, made->is_red = 1;
    if (parent == &nil) root = made;
    else if (made->payload < parent->payload) parent->left = made;
    else parent->right = made;
    while (made->parent->is_red) {
        struct node *grand = made->parent->parent;
        int is_left = made->parent == grand->left;
        struct node *uncle = is_left ? grand->right : grand->left;
        if (uncle->is_red) {
            made->parent->is_red = uncle->is_red = 0, grand->is_red = 1, made = grand;
        } else {
            if (made == (is_left ? made->parent->right : made->parent->left)) made = made->parent, rotate(made, is_left);
            made->parent->is_red = 0, grand->is_red = 1;
            rotate(grand, !is_left);
        }
    }
    root->is_red = 0;
}

__attribute__((noinline)) static int find(double wanted) {
    struct node *at = root;
    int depth = 0;
    while (at != &nil && at->payload != wanted) at = wanted < at->payload ? at->left : at->right, depth++;
    return depth;
}

static unsigned long long state = 88172645463325252ULL;
static double drawn(void) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (state >> 11) * (1.0 / 9007199254740992.0);
}

int main(int argc, char **argv) {
    unsigned nodes = argc > 1 ? atoi(argv[1]) : 4000;
    long lookups = argc > 2 ? atol(argv[2]) : 4L * nodes, depth = 0;
    double *payloads = malloc(nodes * sizeof *payloads);
#ifdef TIDY
    size_t cells = nodes * sizeof(struct node) / 4096 + 1;
    struct tidy_context *context = tidy_create(1, &cells);
#endif
    for (unsigned at = 0; at < nodes; at++) {
        double payload = drawn() * 1e6;
#ifdef TIDY
        size_t hint = (size_t)(payload / 1e6 * cells);
        struct node *made = tidy_alloc(context, sizeof *made, &hint);
#else
        struct node *made = malloc(sizeof *made);
#endif
        made->payload = payloads[at] = payload;
        insert(made);
    }
    slimline_start();
    for (long at = 0; at < lookups; at++) depth += find(payloads[(unsigned)(drawn() * nodes)]);
    printf("%ld\n", depth);
    return 0;
}
