// Resampling of a particle filter, shaped like Rodinia's in the case study of MACPO: for each particle a linear search of CDF
// for the first element that is not less than its number, from the beginning each time, though the numbers only rise. With the
// second argument 2 each search begins where the one before ended; the sums are the same.

#include "truth.h"

enum { MOST = 16384 };

enum { RESAMPLE, LOOPS };
static struct truth loops[LOOPS] = {{"resample", 0}};

static double positions[MOST], moved[MOST];

__attribute__((noinline)) static long find(const double *CDF, long particles, double number, long from)
{
    for (long at = from; at < particles; at++)
        if (CDF[at] >= number)
            return at;
    return particles - 1;
}

int main(int argc, char **argv)
{
    long particles = argument(argc, argv, 1, 8192), how = argument(argc, argv, 2, 1);
    if (particles > MOST)
        particles = MOST;
    double *CDF = malloc(sizeof *CDF * (size_t)particles);
    if (!CDF)
        return 1;
    uint64_t state = 88172645463325252u;
    double sum = 0;
    for (long at = 0; at < particles; at++) {
        positions[at] = (double)at;
        sum += (double)(next_random(&state) & 255);
        CDF[at] = sum;
    }
    for (long at = 0; at < particles; at++)
        CDF[at] /= sum;
    uint64_t started = truth_now();
    long found = 0;
    for (long at = 0; at < particles; at++) {
        double number = ((double)at + 0.5) / (double)particles;
        found = find(CDF, particles, number, how == 1 ? 0 : found);
        moved[at] = positions[found];
    }
    truth_add(&loops[RESAMPLE], started);
    double total = 0;
    for (long at = 0; at < particles; at++)
        total += moved[at];
    printf("%.1f\n", total);
    truth_write(loops, LOOPS);
    free(CDF);
    return 0;
}
