// Two threads that each count what they find in an element of one array of numbers: both elements are on one line. With -DADVISED each has a line of
// its own.

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 2 };

#ifdef ADVISED
struct found_line {
    _Alignas(64) long found;
};
static struct found_line found[THREADS];
#define FOUND(thread) found[thread].found
#else
static long found[THREADS];
#define FOUND(thread) found[thread]
#endif

static long steps;

static void *look(void *argument)
{
    long thread = (long)(intptr_t)argument;
    uint64_t random = 88172645463325252u + (uint64_t)thread;
    for (long step = 0; step < steps; step++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        if (random & 7)
            FOUND(thread) += (long)(random >> 60);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    steps = argc > 1 ? atol(argv[1]) : 20000000;
    pthread_t threads[THREADS];
    for (long thread = 0; thread < THREADS; thread++)
        if (pthread_create(&threads[thread], NULL, look, (void *)(intptr_t)thread))
            return 1;
    for (long thread = 0; thread < THREADS; thread++)
        pthread_join(threads[thread], NULL);
    long sum = 0;
    for (long thread = 0; thread < THREADS; thread++)
        sum += FOUND(thread);
    printf("%ld\n", sum);
    return 0;
}
