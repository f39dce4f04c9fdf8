// Records with holes, looked up at random: 48 bytes where 32 would do. With -DADVISED the wide fields come first.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct quote {
#ifdef ADVISED
    double price, bid;
    long volume;
    int flags;
    char kind, side;
#else
    char kind;
    double price;
    char side;
    double bid;
    int flags;
    long volume;
#endif
};

int main(int argc, char **argv)
{
    long lookups = argc > 1 ? atol(argv[1]) : 4000000, n = argc > 2 ? atol(argv[2]) : 1 << 21;
    struct quote *quotes = malloc((size_t)n * sizeof *quotes);
    for (long i = 0; i < n; i++)
        quotes[i] = (struct quote){
            .kind = (char)(i % 3), .price = (double)i, .side = 1, .bid = 2, .flags = (int)i, .volume = i % 100};
    uint64_t random = 88172645463325252u;
    double sum = 0;
    for (long lookup = 0; lookup < lookups; lookup++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        const struct quote *quote = &quotes[random % (uint64_t)n];
        sum += quote->price * (double)quote->volume + quote->bid * quote->kind + (double)(quote->flags & quote->side);
    }
    printf("%.6e\n", sum);
    return 0;
}
