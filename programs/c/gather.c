// Structures fetched by an array of random indices: the indices stream, the structures miss.
//
// truth:
// [[group]]
// name = "records"
// type = "record"
// element_bytes = 48
// fields = { id = 0, price = 8, tax = 16, stock = 24, sold = 32, flags = 40 }
// allocated_at = { function = "main", line = 54 }
// split = [["price", "tax"], ["id", "stock", "sold", "flags"]]
//
// [[group]]
// name = "chosen"
// type = "unsigned int"
// element_bytes = 4
// allocated_at = { function = "main", line = 55 }
//
// [[loop]]
// name = "total"
// function = "total"
// lines = [43, 46]
// group = "records"
// fields = ["price", "tax"]
// also = ["chosen"]

#include "truth.h"

struct record {
    long id;
    long price;
    long tax;
    long stock;
    long sold;
    long flags;
};

enum { FILL, TOTAL, LOOPS };
static struct truth loops[LOOPS] = {{"fill", 0}, {"total", 0}};

static long total(const struct record *records, const unsigned *chosen, long n)
{
    long sum = 0;
    for (long i = 0; i < n; i++) {
        const struct record *record = &records[chosen[i]];
        // Each fetch waits for the one before, as a balance that decides the next step would.
        sum += record->price + (record->tax & sum);
    }
    return sum;
}

int main(int argc, char **argv)
{
    long passes = argument(argc, argv, 1, 60), n = argument(argc, argv, 2, 1 << 21);
    struct record *records = malloc((size_t)n * sizeof *records);
    unsigned *chosen = malloc((size_t)n * sizeof *chosen);
    uint64_t random = 88172645463325252u, started = truth_now();
    for (long i = 0; i < n; i++) {
        records[i] = (struct record){i, i & 255, i & 15, 1, 0, 3};
        chosen[i] = (unsigned)(next_random(&random) % (uint64_t)n);
    }
    truth_add(&loops[FILL], started);

    long sum = 0;
    for (long pass = 0; pass < passes; pass++) {
        started = truth_now();
        sum += total(records, chosen, n);
        truth_add(&loops[TOTAL], started);
    }
    printf("%ld\n", sum);
    free(records);
    free(chosen);
    truth_write(loops, LOOPS);
    return 0;
}
