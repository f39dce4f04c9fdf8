// Alignment of two sequences by dynamic programming, shaped like Rodinia's Needleman-Wunsch: the table is filled diagonal by
// diagonal, down each from the right to the left, one row less one element a step. With the second argument 2 it is filled
// row by row; the scores are the same.

#include "truth.h"

enum { LENGTH = 256, WIDTH = LENGTH + 1, PENALTY = 10 };

enum { ALIGN, LOOPS };
static struct truth loops[LOOPS] = {{"align", 0}};

static inline void fill(int *itemsets, const int *reference, long at)
{
    int both = itemsets[at - WIDTH - 1] + reference[at];
    int left = itemsets[at - 1] - PENALTY, up = itemsets[at - WIDTH] - PENALTY;
    int best = both > left ? both : left;
    itemsets[at] = best > up ? best : up;
}

__attribute__((noinline)) static void by_diagonals(int *itemsets, const int *reference)
{
    // Those that begin in the first row, then those that begin in the last one, ever shorter.
    for (long diagonal = 0; diagonal < LENGTH; diagonal++)
        for (long step = 0; step <= diagonal; step++)
            fill(itemsets, reference, (step + 1) * WIDTH + diagonal + 1 - step);
    for (long diagonal = LENGTH - 2; diagonal >= 0; diagonal--)
        for (long step = 0; step <= diagonal; step++)
            fill(itemsets, reference, (LENGTH - step) * WIDTH + LENGTH - diagonal + step);
}

__attribute__((noinline)) static void by_rows(int *itemsets, const int *reference)
{
    for (long row = 1; row <= LENGTH; row++)
        for (long column = 1; column <= LENGTH; column++)
            fill(itemsets, reference, row * WIDTH + column);
}

int main(int argc, char **argv)
{
    long passes = argument(argc, argv, 1, 100), order = argument(argc, argv, 2, 1);
    int *itemsets = malloc(sizeof *itemsets * WIDTH * WIDTH);
    int *reference = malloc(sizeof *reference * WIDTH * WIDTH);
    if (!itemsets || !reference)
        return 1;
    uint64_t state = 88172645463325252u;
    for (long at = 0; at < WIDTH * WIDTH; at++) {
        reference[at] = (int)(next_random(&state) % 21) - 10;
        itemsets[at] = 0;
    }
    for (long at = 1; at <= LENGTH; at++)
        itemsets[at] = itemsets[at * WIDTH] = (int)-at * PENALTY;
    for (long pass = 0; pass < passes; pass++) {
        uint64_t started = truth_now();
        if (order == 1)
            by_diagonals(itemsets, reference);
        else
            by_rows(itemsets, reference);
        truth_add(&loops[ALIGN], started);
    }
    printf("%d\n", itemsets[WIDTH * WIDTH - 1]);
    truth_write(loops, LOOPS);
    free(reference);
    free(itemsets);
    return 0;
}
