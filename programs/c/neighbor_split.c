// neighbor.c after its split into {dist} and {entry}. Prints the same checksum.

#include "truth.h"

#include <string.h>

#define REC_LENGTH 56

struct neighbor_dist {
    double dist;
};

struct neighbor_entry {
    char entry[REC_LENGTH];
};

enum { FILL, FARTHEST, LOOPS };
static struct truth loops[LOOPS] = {{"fill", 0}, {"farthest", 0}};

static long farthest(const struct neighbor_dist *neighbors, long n)
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
    struct neighbor_dist *dists = malloc((size_t)n * sizeof *dists);
    struct neighbor_entry *entries = malloc((size_t)n * sizeof *entries);
    uint64_t random = 88172645463325252u, started = truth_now();
    for (long j = 0; j < n; j++) {
        memset(entries[j].entry, 'a' + (int)(j % 26), REC_LENGTH);
        dists[j].dist = (double)(next_random(&random) >> 11);
    }
    truth_add(&loops[FILL], started);

    double sum = 0;
    for (long record = 0; record < records; record++) {
        started = truth_now();
        long j = farthest(dists, n);
        truth_add(&loops[FARTHEST], started);
        sum += dists[j].dist + entries[j].entry[0];
        memset(entries[j].entry, 'A' + (int)(record % 26), REC_LENGTH);
        dists[j].dist = (double)(next_random(&random) >> 12);
    }
    printf("%.6e\n", sum);
    free(dists);
    free(entries);
    truth_write(loops, LOOPS);
    return 0;
}
