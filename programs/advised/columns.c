// Sums of a matrix's columns, one column after the other. With -DADVISED the loops are exchanged: row by row, into all sums.

#include <stdio.h>
#include <stdlib.h>

#ifdef ADVISED
__attribute__((noinline)) static void sum_columns(long rows, long columns, const double *matrix, double *sums)
{
    for (long column = 0; column < columns; column++)
        sums[column] = 0;
    for (long row = 0; row < rows; row++)
        for (long column = 0; column < columns; column++)
            sums[column] += matrix[row * columns + column];
}
#else
__attribute__((noinline)) static void sum_columns(long rows, long columns, const double *matrix, double *sums)
{
    for (long column = 0; column < columns; column++) {
        double sum = 0;
        for (long row = 0; row < rows; row++)
            sum += matrix[row * columns + column];
        sums[column] = sum;
    }
}
#endif

int main(int argc, char **argv)
{
    long passes = argc > 1 ? atol(argv[1]) : 4, rows = argc > 2 ? atol(argv[2]) : 20000, columns = 400;
    double *matrix = malloc((size_t)(rows * columns) * sizeof *matrix);
    double *sums = calloc((size_t)columns, sizeof *sums);
    for (long at = 0; at < rows * columns; at++)
        matrix[at] = (double)(at % 1000);
    double total = 0;
    for (long pass = 0; pass < passes; pass++) {
        sum_columns(rows, columns, matrix, sums);
        total += sums[pass % columns];
    }
    printf("%.6e\n", total);
    return 0;
}
