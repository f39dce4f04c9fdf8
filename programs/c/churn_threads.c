// Threads that allocate and free blocks, a third of them another thread's, while others come and go, for so many seconds.
// Prints its number, then each second how many blocks it has allocated and the CPU time that it has taken. For the soak.

#include "truth.h"

#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define SLOTS 16384
#define WORKERS 2
#define SHORT_LIVED_BLOCKS 20000

static void *shared[SLOTS];
static uint64_t allocated;
static int is_over;

// Some blocks: most in slots of the thread's own, some in those of all threads.
static void churn(void **own, uint64_t *random, long blocks)
{
    for (long i = 0; i < blocks; i++) {
        uint64_t bits = next_random(random);
        size_t size = 16 + (bits & 63 ? bits >> 20 & 255 : bits >> 20 & 65535);
        char *block = malloc(size);
        memset(block, (int)(bits & 255), size < 64 ? size : 64);
        size_t slot = bits >> 40 & (SLOTS - 1);
        if (bits >> 56 < 85) {
            free(__atomic_exchange_n(&shared[slot], block, __ATOMIC_ACQ_REL));
        } else {
            free(own[slot]);
            own[slot] = block;
        }
    }
    __atomic_fetch_add(&allocated, (uint64_t)blocks, __ATOMIC_RELAXED);
}

static void *short_lived(void *seed)
{
    uint64_t random = (uint64_t)(uintptr_t)seed;
    void **own = calloc(SLOTS, sizeof *own);
    churn(own, &random, SHORT_LIVED_BLOCKS);
    for (long i = 0; i < SLOTS; i++)
        free(own[i]);
    free(own);
    return NULL;
}

static void *work(void *seed)
{
    uint64_t random = 88172645463325252u + (uint64_t)(uintptr_t)seed;
    void **own = calloc(SLOTS, sizeof *own);
    while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
        churn(own, &random, 200000);
        pthread_t child;
        if (pthread_create(&child, NULL, short_lived, (void *)(uintptr_t)(next_random(&random) | 1)) == 0)
            pthread_join(child, NULL);
    }
    for (long i = 0; i < SLOTS; i++)
        free(own[i]);
    free(own);
    return NULL;
}

int main(int argc, char **argv)
{
    long seconds = argument(argc, argv, 1, 10);
    pthread_t workers[WORKERS];
    printf("%ld\n", (long)getpid());
    for (uintptr_t i = 0; i < WORKERS; i++)
        if (pthread_create(&workers[i], NULL, work, (void *)i))
            return 1;
    for (long second = 0; second < seconds; second++) {
        struct timespec t;
        sleep(1);
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
        printf("%llu %.6f\n", (unsigned long long)__atomic_load_n(&allocated, __ATOMIC_RELAXED),
               (double)t.tv_sec + (double)t.tv_nsec / 1e9);
        fflush(stdout);
    }
    __atomic_store_n(&is_over, 1, __ATOMIC_RELAXED);
    for (long i = 0; i < WORKERS; i++)
        pthread_join(workers[i], NULL);
    for (long i = 0; i < SLOTS; i++)
        free(shared[i]);
    return 0;
}
