// A list of 64-byte records of which the loop that takes the time reads one double (Rodinia's nearest neighbour).
//
// truth:
// [[group]]
// name = "neighbors"
// type = "neighbor"
// element_bytes = 64
// fields = { entry = 0, dist = 56 }
// allocated_at = { function = "main", line = 50 }
// split = [["dist"], ["entry"]]
//
// [[loop]]
// name = "farthest"
// function = "farthest"
// lines = [39, 42]
// group = "neighbors"
// fields = ["dist"]
// stride_bytes = 64

#include "truth.h"

#include <string.h>

#define REC_LENGTH 56

struct neighbor {
    char entry[REC_LENGTH];
    double dist;
};

enum { FILL, FARTHEST, LOOPS };
static struct truth loops[LOOPS] = {{"fill", 0}, {"farthest", 0}};

// Index of the neighbour that a nearer record would replace.
static long farthest(const struct neighbor *neighbors, long n)
{
    double max_dist = -1;
    long max_idx = 0;
    for (long j = 0; j < n; j++)
        if (neighbors[j].dist > max_dist) {
            max_dist = neighbors[j].dist;
            max_idx = j;
        }
    return max_idx;
}

int main(int argc, char **argv)
{
    long records = argument(argc, argv, 1, 400), n = argument(argc, argv, 2, 1 << 20);
    struct neighbor *neighbors = malloc((size_t)n * sizeof *neighbors);
    uint64_t random = 88172645463325252u, started = truth_now();
    for (long j = 0; j < n; j++) {
        memset(neighbors[j].entry, 'a' + (int)(j % 26), REC_LENGTH);
        neighbors[j].dist = (double)(next_random(&random) >> 11);
    }
    truth_add(&loops[FILL], started);

    double sum = 0;
    for (long record = 0; record < records; record++) {
        started = truth_now();
        long j = farthest(neighbors, n);
        truth_add(&loops[FARTHEST], started);
        sum += neighbors[j].dist + neighbors[j].entry[0];
        memset(neighbors[j].entry, 'A' + (int)(record % 26), REC_LENGTH);
        neighbors[j].dist = (double)(next_random(&random) >> 12);
    }
    printf("%.6e\n", sum);
    free(neighbors);
    truth_write(loops, LOOPS);
    return 0;
}
