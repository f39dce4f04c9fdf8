// Weights of a layer of a neural network, shaped like Rodinia's backpropagation in the case study of MACPO: w and oldw have a
// row for each unit below, and are walked down their columns, 1,028 bytes a step. With the second argument 2 the loops are
// interchanged; the sums are the same.

#include "truth.h"

enum { BELOW = 256, ABOVE = 256, WIDTH = ABOVE + 1 };

enum { FORWARD, ADJUST, LOOPS };
static struct truth loops[LOOPS] = {{"forward", 0}, {"adjust", 0}};

static float unit[BELOW], sum[WIDTH], delta[WIDTH];

static inline void adjust(float *w, float *oldw, long below, long above)
{
    float change = 0.3f * delta[above] * unit[below] + 0.3f * oldw[below * WIDTH + above];
    w[below * WIDTH + above] += change;
    oldw[below * WIDTH + above] = change;
}

__attribute__((noinline)) static void adjust_by_columns(float *w, float *oldw)
{
    for (long above = 1; above <= ABOVE; above++)
        for (long below = 0; below < BELOW; below++)
            adjust(w, oldw, below, above);
}

__attribute__((noinline)) static void adjust_by_rows(float *w, float *oldw)
{
    for (long below = 0; below < BELOW; below++)
        for (long above = 1; above <= ABOVE; above++)
            adjust(w, oldw, below, above);
}

int main(int argc, char **argv)
{
    long passes = argument(argc, argv, 1, 100), order = argument(argc, argv, 2, 1);
    float *w = malloc(sizeof *w * BELOW * WIDTH);
    float *oldw = malloc(sizeof *oldw * BELOW * WIDTH);
    if (!w || !oldw)
        return 1;
    uint64_t state = 88172645463325252u;
    for (long below = 0; below < BELOW; below++) {
        unit[below] = (float)(next_random(&state) & 255) / 256;
        for (long above = 0; above <= ABOVE; above++) {
            w[below * WIDTH + above] = (float)(next_random(&state) & 255) / 4096;
            oldw[below * WIDTH + above] = 0;
        }
    }
    for (long pass = 0; pass < passes; pass++) {
        uint64_t started = truth_now();
        for (long above = 1; above <= ABOVE; above++)
            sum[above] = 0;
        for (long below = 0; below < BELOW; below++)
            for (long above = 1; above <= ABOVE; above++)
                sum[above] += w[below * WIDTH + above] * unit[below];
        for (long above = 1; above <= ABOVE; above++)
            delta[above] = (1 - sum[above]) / BELOW;
        truth_add(&loops[FORWARD], started);
        started = truth_now();
        if (order == 1)
            adjust_by_columns(w, oldw);
        else
            adjust_by_rows(w, oldw);
        truth_add(&loops[ADJUST], started);
    }
    double total = 0;
    for (long above = 1; above <= ABOVE; above++)
        total += sum[above];
    printf("%.4f\n", total);
    truth_write(loops, LOOPS);
    free(oldw);
    free(w);
    return 0;
}
