// Statistics that all threads add to, as a server counts what it did: each request is an atomic addition to one counter, which
// goes from core to core (true sharing, by all alike). With the second argument 2 each thread counts for itself and adds its
// sum at the end.

#include "truth.h"

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 4, ROUNDS = 50 };

static struct { atomic_long requests; long others[7]; } statistics __attribute__((aligned(64)));

static pthread_barrier_t barrier;
static long requests, is_private;

static void *serve(void *self)
{
    (void)self;
    long own = 0;
    for (long round = 0; round < ROUNDS; round++) {
        pthread_barrier_wait(&barrier);
        for (long i = 0; i < requests / ROUNDS; i++)
            if (is_private)
                own++;
            else
                statistics.requests += 1;
    }
    if (own)
        statistics.requests += own;
    return NULL;
}

int main(int argc, char **argv)
{
    requests = argument(argc, argv, 1, 1000000);
    is_private = argument(argc, argv, 2, 1) == 2;
    pthread_t threads[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (long i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, serve, NULL))
            return 1;
    for (long i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    printf("%ld\n", atomic_load(&statistics.requests));
    return 0;
}
