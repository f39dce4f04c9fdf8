// mlockall for what is and what will be mapped, as real-time programs use it, under the limit that it has.

#include "torture.h"
#include <pthread.h>

static void *thread(void *seed)
{
    uint64_t *table = calloc(1 << 12, 8);
    return (void *)worked(table, 1 << 12, 3000000, (uint64_t)seed);
}

int main(void)
{
    int error = mlockall(MCL_CURRENT | MCL_FUTURE) ? errno : 0;
    pthread_t threads[2];
    void *sums[2];
    for (uint64_t i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, thread, (void *)i) == 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], &sums[i]);
    char *more = pages(64, PROT_READ | PROT_WRITE);
    unsigned char resident[64];
    CHECK(mincore(more, 64 * PAGE_BYTES, resident) == 0);
    int count = 0;
    for (int i = 0; i < 64; i++)
        count += resident[i] & 1;
    munlockall();
    printf("%s %d %lx %lx\n", strerror(error), count, (uint64_t)sums[0], (uint64_t)sums[1]);
    return 0;
}
