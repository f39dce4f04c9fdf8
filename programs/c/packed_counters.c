// Counters of four threads that lie in one line: none shares a counter with another, all share the line (false sharing). With
// the second argument 2 each has a line of its own. With 3 both run, on as many processors as there are, and the ratio of their
// times is printed:
//
//     gcc -O2 -pthread packed_counters.c -o packed_counters && ./packed_counters 50000000 3

#include "truth.h"

#include <pthread.h>

enum { THREADS = 4, ROUNDS = 50 };

static struct { volatile long count[THREADS]; } packed __attribute__((aligned(64)));
static struct { volatile long count; char pad[64 - sizeof(long)]; } padded[THREADS] __attribute__((aligned(64)));

static pthread_barrier_t barrier;
static long additions, is_padded;

static void *work(void *self)
{
    long own = (long)(intptr_t)self;
    // In rounds, so that none has ended before another begins.
    for (long round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&barrier);
        if (is_padded)
            for (long i = 0; i < additions / ROUNDS; i++)
                padded[own].count++;
        else
            for (long i = 0; i < additions / ROUNDS; i++)
                packed.count[own]++;
    }
    return NULL;
}

// Seconds that it took.
static double run(long how)
{
    is_padded = how == 2;
    struct timespec started, ended;
    clock_gettime(CLOCK_MONOTONIC, &started);
    pthread_t threads[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (long i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)(intptr_t)i))
            exit(1);
    for (long i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&barrier);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    return (double)(ended.tv_sec - started.tv_sec) + (double)(ended.tv_nsec - started.tv_nsec) / 1e9;
}

int main(int argc, char **argv)
{
    additions = argument(argc, argv, 1, 1000000);
    long how = argument(argc, argv, 2, 1);
    if (how == 3) {
        double in_one_line = run(1), apart = run(2);
        printf("one line %.3f s, a line each %.3f s: %.2f times\n", in_one_line, apart, in_one_line / apart);
    } else {
        run(how);
    }
    long sum = 0;
    for (long i = 0; i < THREADS; i++)
        sum += packed.count[i] + padded[i].count;
    printf("%ld\n", sum);
    return 0;
}
