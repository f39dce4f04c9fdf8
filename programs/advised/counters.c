// Counters in 64 bits each that stay small, looked up at random: 48 bytes where 16 would do. With -DADVISED they are as narrow as what they
// hold allows.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct counter {
#ifdef ADVISED
    int32_t hits, bytes;
    float weight;
    int16_t errors;
    int8_t kind, retries;
#else
    long hits, bytes, errors, retries, kind;
    double weight;
#endif
};

int main(int argc, char **argv)
{
    long lookups = argc > 1 ? atol(argv[1]) : 8000000, n = argc > 2 ? atol(argv[2]) : 1 << 22;
    struct counter *counters = malloc((size_t)n * sizeof *counters);
    for (long i = 0; i < n; i++) {
        struct counter *counter = &counters[i];
        counter->hits = (int32_t)i;
        counter->bytes = (int32_t)(i * 40);
        counter->errors = (int16_t)(i % 100);
        counter->retries = (int8_t)(i % 7);
        counter->kind = (int8_t)(i % 3);
        counter->weight = (float)(i % 64) / 4;
    }
    uint64_t random = 88172645463325252u;
    double sum = 0;
    for (long lookup = 0; lookup < lookups; lookup++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        const struct counter *counter = &counters[random % (uint64_t)n];
        sum += (double)(counter->hits + counter->bytes) * counter->weight;
        if (counter->kind == 2)
            sum -= (double)(counter->errors * counter->retries);
    }
    printf("%.6e\n", sum);
    return 0;
}
