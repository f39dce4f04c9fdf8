// An array of 4-int structures and two loops that share no field (StructSlim, Figure 1).
//
// truth:
// [[group]]
// name = "quads"
// type = "quad"
// element_bytes = 16
// fields = { a = 0, b = 4, c = 8, d = 12 }
// allocated_at = { function = "main", line = 62 }
// split = [["a", "c"], ["b", "d"]]
//
// [[loop]]
// name = "find_ac"
// function = "find_ac"
// lines = [44, 45]
// group = "quads"
// fields = ["a", "c"]
// stride_bytes = 16
//
// [[loop]]
// name = "prefix_bd"
// function = "prefix_bd"
// lines = [52, 54]
// group = "quads"
// fields = ["b", "d"]
// stride_bytes = 16

#include "truth.h"

struct quad {
    int a;
    int b;
    int c;
    int d;
};

enum { FILL, FIND_AC, PREFIX_BD, LOOPS };
static struct truth loops[LOOPS] = {{"fill", 0}, {"find_ac", 0}, {"prefix_bd", 0}};

// Index of the first element whose a + c is `sum`, else `n`. An early exit keeps the compiler from vectorizing it.
static long find_ac(const struct quad *quads, long n, int sum)
{
    long i = 0;
    while (i < n && quads[i].a + quads[i].c != sum)
        i++;
    return i;
}

// d becomes the running sum of b.
static int prefix_bd(struct quad *quads, long n, int start)
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
    struct quad *quads = malloc((size_t)n * sizeof *quads);
    uint64_t started = truth_now();
    for (long i = 0; i < n; i++)
        quads[i] = (struct quad){(int)(i & 1023), (int)(i & 7), (int)(i >> 10), 0};
    truth_add(&loops[FILL], started);

    long found = 0;
    int sum = 0;
    for (long pass = 0; pass < passes; pass++) {
        started = truth_now();
        found += find_ac(quads, n, -1 - (int)pass);
        truth_add(&loops[FIND_AC], started);
        started = truth_now();
        sum = prefix_bd(quads, n, sum & 0xffff);
        truth_add(&loops[PREFIX_BD], started);
    }
    printf("%ld %d %d\n", found, sum, quads[n - 1].d);
    free(quads);
    truth_write(loops, LOOPS);
    return 0;
}
