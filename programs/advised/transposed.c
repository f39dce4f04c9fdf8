// A matrix is transposed, row by row of what is written. With -DADVISED by tiles of 16 rows and columns.

#include <stdio.h>
#include <stdlib.h>

#ifdef ADVISED
__attribute__((noinline)) static void transpose(long n, const double *from, double *to)
{
    for (long ii = 0; ii < n; ii += 16)
        for (long jj = 0; jj < n; jj += 16)
            for (long i = ii; i < n && i < ii + 16; i++)
                for (long j = jj; j < n && j < jj + 16; j++)
                    to[i * n + j] = from[j * n + i];
}
#else
__attribute__((noinline)) static void transpose(long n, const double *from, double *to)
{
    for (long i = 0; i < n; i++)
        for (long j = 0; j < n; j++)
            to[i * n + j] = from[j * n + i];
}
#endif

int main(int argc, char **argv)
{
    long passes = argc > 1 ? atol(argv[1]) : 2, n = argc > 2 ? atol(argv[2]) : 4000;
    double *from = malloc((size_t)(n * n) * sizeof *from), *to = malloc((size_t)(n * n) * sizeof *to);
    for (long at = 0; at < n * n; at++)
        from[at] = (double)(at % 1000), to[at] = 0;
    double total = 0;
    for (long pass = 0; pass < passes; pass++) {
        transpose(n, from, to);
        total += to[(pass * 4711) % (n * n)];
    }
    printf("%.6e\n", total);
    return 0;
}
