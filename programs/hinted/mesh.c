/* A walk over a mesh of triangles, each step to the neighbour that was visited least. Nodes and triangles come in the order of a
 * file that knows nothing of where they are. */
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
    double x, y;
    double value;
    long touched;
};
struct triangle {
    struct node *points[3];
    struct triangle *neighbours[3];
    long visits;
};

static unsigned long long state = 88172645463325252ULL;
static unsigned drawn(unsigned end) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (unsigned)((state >> 20) % end);
}

static void shuffle(unsigned *order, unsigned count) {
    for (unsigned at = 0; at < count; at++) order[at] = at;
    for (unsigned at = count - 1; at > 0; at--) {
        unsigned other = drawn(at + 1), moved = order[at];
        order[at] = order[other], order[other] = moved;
    }
}

__attribute__((noinline)) static double walk(struct triangle *triangle, long steps) {
    double sum = 0;
    while (steps-- > 0) {
        struct triangle *next = NULL;
        for (int side = 0; side < 3; side++) {
            struct triangle *other = triangle->neighbours[side];
            if (other && (!next || other->visits < next->visits)) next = other;
        }
        triangle->visits++;
        triangle = next;
        for (int corner = 0; corner < 3; corner++) {
            struct node *node = triangle->points[corner];
            sum += node->x + node->y;
            node->touched++;
        }
    }
    return sum;
}

int main(int argc, char **argv) {
    unsigned side = argc > 1 ? atoi(argv[1]) : 60;
    long steps = argc > 2 ? atol(argv[2]) : 4L * side * side;
    unsigned nodes = side * side, squares = (side - 1) * (side - 1), triangles = 2 * squares;
    struct node **node = malloc(nodes * sizeof *node);
    struct triangle **triangle = malloc(triangles * sizeof *triangle);
    unsigned *order = malloc((nodes > triangles ? nodes : triangles) * sizeof *order);
#ifdef TIDY
    size_t cells[2] = {side / 8 + 1, side / 8 + 1};
    struct tidy_context *context = tidy_create(2, cells);
    struct tidy_context *of_triangles = tidy_create(2, cells);
#endif
    shuffle(order, nodes);
    for (unsigned at = 0; at < nodes; at++) {
        unsigned number = order[at];
        double x = number % side + drawn(1000) / 2000.0, y = number / side + drawn(1000) / 2000.0;
#ifdef TIDY
        size_t hint[2] = {(size_t)x / 8, (size_t)y / 8};
        struct node *made = tidy_alloc(context, sizeof *made, hint);
#else
        struct node *made = malloc(sizeof *made);
#endif
        made->x = x, made->y = y, made->value = 0, made->touched = 0;
        node[number] = made;
    }
    shuffle(order, triangles);
    for (unsigned at = 0; at < triangles; at++) {
        unsigned number = order[at], square = number / 2, column = square % (side - 1), row = square / (side - 1);
#ifdef TIDY
        size_t hint[2] = {column / 8, row / 8};
        struct triangle *made = tidy_alloc(of_triangles, sizeof *made, hint);
#else
        struct triangle *made = malloc(sizeof *made);
#endif
        struct node **corner = &node[row * side + column];
        made->points[0] = number % 2 ? corner[side + 1] : corner[0];
        made->points[1] = corner[1], made->points[2] = corner[side];
        made->visits = 0;
        triangle[number] = made;
    }
    for (unsigned number = 0; number < triangles; number++) {
        unsigned square = number / 2, column = square % (side - 1), row = square / (side - 1);
        struct triangle *at = triangle[number];
        at->neighbours[0] = triangle[number ^ 1];
        if (number % 2) {
            at->neighbours[1] = column + 2 < side ? triangle[number + 1] : NULL;
            at->neighbours[2] = row + 2 < side ? triangle[number - 1 + 2 * (side - 1)] : NULL;
        } else {
            at->neighbours[1] = column > 0 ? triangle[number - 1] : NULL;
            at->neighbours[2] = row > 0 ? triangle[number + 1 - 2 * (side - 1)] : NULL;
        }
    }
    slimline_start();
    printf("%.3f\n", walk(triangle[0], steps));
    return 0;
}
