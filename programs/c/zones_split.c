// zones.c after its split into {value, nextZone} and {zoneId, partId}. Prints the same checksum.

#include "truth.h"

#include <pthread.h>

#define THREADS 2

struct zone {
    double value;
    struct zone *nextZone;
};

// The rest of the zone with the same index.
struct zone_header {
    long zoneId;
    long partId;
};

struct part {
    struct zone *firstZone;
    double deposit;
};

struct share {
    struct part *parts;
    long count;
    long passes;
    double sum;
};

enum { FILL, UPDATE_PART, LOOPS };
static struct truth loops[LOOPS] = {{"fill", 0}, {"update_part", 0}};

static void update_part(struct part *part)
{
    double deposit = part->deposit;
    for (struct zone *zone = part->firstZone; zone; zone = zone->nextZone)
        zone->value += deposit;
}

static void *work(void *argument)
{
    struct share *share = argument;
    for (long pass = 0; pass < share->passes; pass++) {
        uint64_t started = truth_now();
        for (long p = 0; p < share->count; p++)
            update_part(&share->parts[p]);
        truth_add(&loops[UPDATE_PART], started);
    }
    for (long p = 0; p < share->count; p++)
        share->sum += share->parts[p].firstZone->value;
    return NULL;
}

int main(int argc, char **argv)
{
    long passes = argument(argc, argv, 1, 300), zones_per_part = argument(argc, argv, 2, 1 << 15), parts_count = 64;
    long n = parts_count * zones_per_part;
    struct part *parts = malloc((size_t)parts_count * sizeof *parts);
    struct zone *zones = malloc((size_t)n * sizeof *zones);
    struct zone_header *headers = malloc((size_t)n * sizeof *headers);
    uint64_t started = truth_now();
    for (long i = 0; i < n; i++) {
        long p = i / zones_per_part, last = (i + 1) % zones_per_part == 0;
        zones[i] = (struct zone){1.0, last ? NULL : &zones[i + 1]};
        headers[i] = (struct zone_header){i, p};
    }
    for (long p = 0; p < parts_count; p++)
        parts[p] = (struct part){&zones[p * zones_per_part], 0.5 + (double)p};
    truth_add(&loops[FILL], started);

    pthread_t threads[THREADS];
    struct share shares[THREADS];
    for (long t = 0; t < THREADS; t++) {
        shares[t] = (struct share){parts + t * parts_count / THREADS, parts_count / THREADS, passes, 0};
        if (pthread_create(&threads[t], NULL, work, &shares[t]))
            return 1;
    }
    double sum = 0;
    for (long t = 0; t < THREADS; t++) {
        pthread_join(threads[t], NULL);
        sum += shares[t].sum;
    }
    printf("%.6e %ld %ld\n", sum, headers[n - 1].zoneId, headers[n - 1].partId);
    free(zones);
    free(headers);
    free(parts);
    truth_write(loops, LOOPS);
    return 0;
}
