// Elements that are picked by an array of indexes, with some computing for each. With -DADVISED each is asked for 16 steps ahead.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static double weighed(double at)
{
    double sum = 0;
    for (int term = 0; term < 24; term++)
        sum = sum * at + 1.0 / (term + 1);
    return sum;
}

int main(int argc, char **argv)
{
    long passes = argc > 1 ? atol(argv[1]) : 3, n = argc > 2 ? atol(argv[2]) : 1 << 22;
    double *values = malloc((size_t)n * sizeof *values);
    uint32_t *picks = malloc((size_t)n * sizeof *picks);
    uint64_t random = 88172645463325252u;
    for (long i = 0; i < n; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        values[i] = (double)i / (double)n;
        picks[i] = (uint32_t)(random % (uint64_t)n);
    }
    double sum = 0;
    for (long pass = 0; pass < passes; pass++)
        for (long i = 0; i < n; i++) {
#ifdef ADVISED
            if (i + 16 < n)
                __builtin_prefetch(&values[picks[i + 16]]);
#endif
            sum += weighed(values[picks[i]]);
        }
    printf("%.6e\n", sum);
    return 0;
}
