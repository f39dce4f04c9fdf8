// gcc: -fsplit-stack -fuse-ld=gold
// Split stacks: frames lie in segments that are allocated as recursion gets deeper and are left again.

#include "torture.h"
#include <pthread.h>

static uint64_t deep(int depth, uint64_t sum)
{
    volatile uint64_t here[200];
    for (int i = 0; i < 200; i += 16)
        here[i] = sum + i;
    if (depth)
        sum = deep(depth - 1, mixed(sum, here[depth % 13 * 16]));
    return mixed(sum, here[depth % 12 * 16]);
}

static void *thread(void *argument)
{
    uint64_t sum = (uint64_t)argument;
    for (int i = 0; i < 3600; i++)
        sum = deep(i % 900, sum);
    return (void *)sum;
}

int main(void)
{
    pthread_t threads[2];
    void *sums[2];
    for (uint64_t i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, thread, (void *)i) == 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], &sums[i]);
    printf("%lx %lx\n", (uint64_t)sums[0], (uint64_t)sums[1]);
    return 0;
}
