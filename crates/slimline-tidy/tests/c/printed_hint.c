/* What `slimline learn` prints for C and C++: the lines between the marks are what a test of slimline-report (hint_code) has printed. */
#include <stdio.h>
#include "tidy.h"

struct inner {
    unsigned group;
};
struct owner {
    struct inner in;
};
struct node {
    const struct owner *owner;
    double x;
    long id;
};

int main(void) {
    const struct owner owners[] = {{{1}}, {{2}}, {{60}}};
    // Printed from here on.
    // In this run x: -1 to 1, id: -10 to 40, owner->in.group: 0 to 6399.
    const size_t node_sizes[] = {64, 64, 64};
    struct tidy_context *node_context = tidy_create(3, node_sizes);
    // Up to here, and then, of each object:
    const double xs[] = {-1.0, -0.99, 1.0};
    const long ids[] = {-10, -10, 40};
    for (int at = 0; at < 3; at++) {
        const struct owner *owner = &owners[at];
        const double x = xs[at];
        const long id = ids[at];
        struct node *object;
        // Printed from here on.
        const size_t hint[] = {
            (size_t)((x - -1 + 0.00000200002) * 31.9997),
            (size_t)(id + 10),
            (size_t)(owner->in.group / 100),
        };
        object = tidy_alloc(node_context, sizeof *object, hint);
        // Up to here.
        if (!object) return 1;
        *object = (struct node){owner, x, id};
    }
    struct tidy_statistics statistics;
    if (tidy_stats(node_context, &statistics)) return 1;
    printf("%zu objects in %zu arenas\n", (size_t)statistics.objects, (size_t)statistics.arenas);
    tidy_destroy(node_context);
    return 0;
}
