// Lists of zones, one list a part, walked by two threads or more that touch two of a zone's four fields (CLOMP).
//
// truth:
// [[group]]
// name = "zones"
// type = "zone"
// element_bytes = 32
// fields = { zoneId = 0, partId = 8, value = 16, nextZone = 24 }
// allocated_at = { function = "main", line = 74 }
// split = [["value", "nextZone"], ["zoneId", "partId"]]
//
// [[loop]]
// name = "update_part"
// function = "update_part"
// lines = [51, 52]
// group = "zones"
// fields = ["value", "nextZone"]
// stride_bytes = 32

#include "truth.h"

#include <pthread.h>

#define DEFAULT_THREADS 2

struct zone {
    long zoneId;
    long partId;
    double value;
    struct zone *nextZone;
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
    long n = parts_count * zones_per_part, count = argument(argc, argv, 3, DEFAULT_THREADS);
    struct part *parts = malloc((size_t)parts_count * sizeof *parts);
    struct zone *zones = malloc((size_t)n * sizeof *zones);
    uint64_t started = truth_now();
    for (long i = 0; i < n; i++) {
        long p = i / zones_per_part, last = (i + 1) % zones_per_part == 0;
        zones[i] = (struct zone){i, p, 1.0, last ? NULL : &zones[i + 1]};
    }
    for (long p = 0; p < parts_count; p++)
        parts[p] = (struct part){&zones[p * zones_per_part], 0.5 + (double)p};
    truth_add(&loops[FILL], started);

    pthread_t threads[count];
    struct share shares[count];
    for (long t = 0; t < count; t++) {
        shares[t] = (struct share){parts + t * parts_count / count, parts_count / count, passes, 0};
        if (pthread_create(&threads[t], NULL, work, &shares[t]))
            return 1;
    }
    double sum = 0;
    for (long t = 0; t < count; t++) {
        pthread_join(threads[t], NULL);
        sum += shares[t].sum;
    }
    printf("%.6e %ld %ld\n", sum, zones[n - 1].zoneId, zones[n - 1].partId);
    free(zones);
    free(parts);
    truth_write(loops, LOOPS);
    return 0;
}
