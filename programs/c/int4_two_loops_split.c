// int4_two_loops.c after its split: {a, c} and {b, d} in arrays of their own. Prints the same checksum.

#include "truth.h"

struct quad_ac {
    int a;
    int c;
};

struct quad_bd {
    int b;
    int d;
};

enum { FILL, FIND_AC, PREFIX_BD, LOOPS };
static struct truth loops[LOOPS] = {{"fill", 0}, {"find_ac", 0}, {"prefix_bd", 0}};

static long find_ac(const struct quad_ac *quads, long n, int sum)
{
    long i = 0;
    while (i < n && quads[i].a + quads[i].c != sum)
        i++;
    return i;
}

static int prefix_bd(struct quad_bd *quads, long n, int start)
{
    for (long i = 0; i < n; i++) {
        start += quads[i].b;
        quads[i].d = start;
    }
    return start;
}

int main(int argc, char **argv)
{
    long passes = argument(argc, argv, 1, 100), n = argument(argc, argv, 2, 1 << 22);
    struct quad_ac *ac = malloc((size_t)n * sizeof *ac);
    struct quad_bd *bd = malloc((size_t)n * sizeof *bd);
    uint64_t started = truth_now();
    for (long i = 0; i < n; i++) {
        ac[i] = (struct quad_ac){(int)(i & 1023), (int)(i >> 10)};
        bd[i] = (struct quad_bd){(int)(i & 7), 0};
    }
    truth_add(&loops[FILL], started);

    long found = 0;
    int sum = 0;
    for (long pass = 0; pass < passes; pass++) {
        started = truth_now();
        found += find_ac(ac, n, -1 - (int)pass);
        truth_add(&loops[FIND_AC], started);
        started = truth_now();
        sum = prefix_bd(bd, n, sum & 0xffff);
        truth_add(&loops[PREFIX_BD], started);
    }
    printf("%ld %d %d\n", found, sum, bd[n - 1].d);
    free(ac);
    free(bd);
    truth_write(loops, LOOPS);
    return 0;
}
