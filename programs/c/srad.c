// Speckle-reducing anisotropic diffusion, shaped like Rodinia's SRAD in the case study of MACPO: both loops over the image
// are inverted, so that the innermost one goes down a column, 1,024 bytes a step. With the second argument 2 they are
// interchanged; the sums are the same.

#include "truth.h"

enum { ROWS = 256, COLUMNS = 256 };

static float image[ROWS][COLUMNS], coefficient[ROWS][COLUMNS];
static float north[ROWS][COLUMNS], west[ROWS][COLUMNS];
static long above[ROWS], below[ROWS], before[COLUMNS], behind[COLUMNS];

enum { DIFFUSE, LOOPS };
static struct truth loops[LOOPS] = {{"diffuse", 0}};

// How much a place differs from its neighbors.
static inline void differ(long row, long column)
{
    float here = image[row][column];
    float up = image[above[row]][column] - here, left = image[row][before[column]] - here;
    float change = (up * up + left * left) / (here * here + 1);
    north[row][column] = up;
    west[row][column] = left;
    coefficient[row][column] = 1 / (1 + change);
}

// Flattens what hardly differs.
static inline void flatten(long row, long column)
{
    float down = coefficient[below[row]][column], right = coefficient[row][behind[column]];
    image[row][column] += (down * north[row][column] + right * west[row][column]) / 4;
}

__attribute__((noinline)) static void by_columns(void)
{
    for (long column = 0; column < COLUMNS; column++)
        for (long row = 0; row < ROWS; row++)
            differ(row, column);
    for (long column = 0; column < COLUMNS; column++)
        for (long row = 0; row < ROWS; row++)
            flatten(row, column);
}

__attribute__((noinline)) static void by_rows(void)
{
    for (long row = 0; row < ROWS; row++)
        for (long column = 0; column < COLUMNS; column++)
            differ(row, column);
    for (long row = 0; row < ROWS; row++)
        for (long column = 0; column < COLUMNS; column++)
            flatten(row, column);
}

int main(int argc, char **argv)
{
    long passes = argument(argc, argv, 1, 100), order = argument(argc, argv, 2, 1);
    for (long row = 0; row < ROWS; row++) {
        above[row] = row > 0 ? row - 1 : 0;
        below[row] = row < ROWS - 1 ? row + 1 : ROWS - 1;
    }
    for (long column = 0; column < COLUMNS; column++) {
        before[column] = column > 0 ? column - 1 : 0;
        behind[column] = column < COLUMNS - 1 ? column + 1 : COLUMNS - 1;
    }
    uint64_t state = 88172645463325252u;
    for (long row = 0; row < ROWS; row++)
        for (long column = 0; column < COLUMNS; column++)
            image[row][column] = (float)(next_random(&state) & 255) / 256;
    for (long pass = 0; pass < passes; pass++) {
        uint64_t started = truth_now();
        if (order == 1)
            by_columns();
        else
            by_rows();
        truth_add(&loops[DIFFUSE], started);
    }
    double sum = 0;
    for (long row = 0; row < ROWS; row++)
        for (long column = 0; column < COLUMNS; column++)
            sum += image[row][column];
    printf("%.4f\n", sum);
    truth_write(loops, LOOPS);
    return 0;
}
