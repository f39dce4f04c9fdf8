// A static matrix walked down its columns: each access is one row, 32,768 bytes, after the one before.
//
// truth:
// [[group]]
// name = "grid"
// type = "double"
// element_bytes = 8
// kind = "static"
//
// [[loop]]
// name = "column_sum"
// function = "column_sum"
// lines = [29, 30]
// group = "grid"
// stride_bytes = 32768

#include "truth.h"

#define N 4096

static double grid[N][N];

enum { FILL, COLUMN_SUM, LOOPS };
static struct truth loops[LOOPS] = {{"fill", 0}, {"column_sum", 0}};

static double column_sum(long j, long rows)
{
    double sum = 0;
    for (long i = 0; i < rows; i++)
        sum += grid[i][j];
    return sum;
}

int main(int argc, char **argv)
{
    long passes = argument(argc, argv, 1, 6), rows = argument(argc, argv, 2, N);
    if (rows > N)
        rows = N;
    uint64_t started = truth_now();
    for (long i = 0; i < rows; i++)
        for (long j = 0; j < N; j++)
            grid[i][j] = (double)((i * 31 + j) & 255);
    truth_add(&loops[FILL], started);

    double sum = 0;
    for (long pass = 0; pass < passes; pass++) {
        started = truth_now();
        for (long j = 0; j < N; j++)
            sum += column_sum(j, rows);
        truth_add(&loops[COLUMN_SUM], started);
    }
    printf("%.1f\n", sum);
    truth_write(loops, LOOPS);
    return 0;
}
