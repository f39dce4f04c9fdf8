// Records of 48 bytes, all of which a look-up reads: every other one lies across two lines. With -DADVISED each has a line.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct material {
#ifdef ADVISED
    _Alignas(64)
#endif
    double density;
    double energy, total, elastic, absorbed, fission;
};

int main(int argc, char **argv)
{
    long lookups = argc > 1 ? atol(argv[1]) : 4000000, n = argc > 2 ? atol(argv[2]) : 1 << 20;
    struct material *materials = aligned_alloc(64, (size_t)n * sizeof *materials);
    for (long i = 0; i < n; i++)
        materials[i] = (struct material){1, (double)(i % 7), 3, 4, 5, (double)i};
    uint64_t random = 88172645463325252u;
    double sum = 0;
    for (long lookup = 0; lookup < lookups; lookup++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        const struct material *of = &materials[random % (uint64_t)n];
        // The next look-up depends on this one, as a particle's next place does.
        random += (uint64_t)of->energy;
        sum += of->density * (of->total + of->elastic + of->absorbed) + of->fission;
    }
    printf("%.6e\n", sum);
    return 0;
}
