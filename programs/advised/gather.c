// Positions of points in an array each, looked up at random by the list of each point's neighbors. With -DADVISED they are one array of structures.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef ADVISED
struct x_y_z {
    double x;
    double y, z;
};
#define X(i) points[i].x
#define Y(i) points[i].y
#define Z(i) points[i].z
#else
#define X(i) x[i]
#define Y(i) y[i]
#define Z(i) z[i]
#endif

int main(int argc, char **argv)
{
    long passes = argc > 1 ? atol(argv[1]) : 3, n = argc > 2 ? atol(argv[2]) : 1 << 21;
#ifdef ADVISED
    struct x_y_z *points = aligned_alloc(32, (size_t)n * sizeof *points);
#else
    double *x = malloc((size_t)n * sizeof *x), *y = malloc((size_t)n * sizeof *y), *z = malloc((size_t)n * sizeof *z);
#endif
    uint32_t *neighbors = malloc((size_t)n * sizeof *neighbors);
    uint64_t random = 88172645463325252u;
    for (long i = 0; i < n; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        X(i) = (double)(random % 1000), Y(i) = (double)(random % 1009), Z(i) = (double)(random % 1013);
        neighbors[i] = (uint32_t)(random >> 20) % (uint32_t)n;
    }
    double sum = 0;
    for (long pass = 0; pass < passes; pass++)
        for (long i = 0; i < n; i++) {
            long j = (neighbors[i] + pass * 77777) % n;
            double dx = X(i) - X(j), dy = Y(i) - Y(j), dz = Z(i) - Z(j);
            sum += dx * dx + dy * dy + dz * dz;
        }
    printf("%.6e\n", sum);
    return 0;
}
