// A hash table of flows, each allocated by itself: who looks one up goes by keys and counts, and hardly ever reads the rest, and counts stay small.
// With -DADVISED counts are as narrow as what they hold allows, the rest is behind a pointer, and both parts come from arrays.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef ADVISED
struct flow_cold {
    char peer[56];
    long created;
};
#endif

struct flow {
#ifdef ADVISED
    uint64_t key;
    struct flow *next;
    struct flow_cold *cold;
    int32_t packets, bytes;
    int16_t errors;
    int8_t kind, retries, state;
#else
    uint64_t key;
    char peer[56];
    long packets, bytes, errors, kind, retries, state;
    long created;
    struct flow *next;
#endif
};

static uint64_t next(uint64_t *random)
{
    *random ^= *random << 13, *random ^= *random >> 7, *random ^= *random << 17;
    return *random;
}

int main(int argc, char **argv)
{
    long lookups = argc > 1 ? atol(argv[1]) : 4000000, n = argc > 2 ? atol(argv[2]) : 1 << 20;
    struct flow **buckets = calloc((size_t)n, sizeof *buckets);
#ifdef ADVISED
    struct flow *flows = calloc((size_t)n, sizeof *flows);
    struct flow_cold *cold = calloc((size_t)n, sizeof *cold);
#endif
    for (long i = 0; i < n; i++) {
#ifdef ADVISED
        struct flow *flow = &flows[i];
        flow->cold = &cold[i];
        flow->cold->created = i;
#else
        struct flow *flow = calloc(1, sizeof *flow);
        flow->created = i;
#endif
        flow->key = (uint64_t)i * 0x9e3779b97f4a7c15u;
        flow->kind = (int8_t)(i % 3), flow->state = (int8_t)(i % 5);
        struct flow **bucket = &buckets[(flow->key >> 20) % (uint64_t)n];
        flow->next = *bucket, *bucket = flow;
    }
    uint64_t random = 88172645463325252u;
    long sum = 0;
    for (long lookup = 0; lookup < lookups; lookup++) {
        uint64_t key = next(&random) % (uint64_t)n * 0x9e3779b97f4a7c15u;
        struct flow *flow = buckets[(key >> 20) % (uint64_t)n];
        while (flow->key != key)
            flow = flow->next;
        flow->packets += 1, flow->bytes += 40 + flow->kind;
        if (flow->state == 3)
            flow->errors += 1, flow->retries ^= 1;
        sum += flow->bytes + flow->errors + flow->retries;
    }
    printf("%ld\n", sum);
    return 0;
}
