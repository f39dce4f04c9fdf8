// Memory that another thread unmaps, protects, truncates or drops once no thread reads it. What a burst writes
// reaches no other thread, so that the memory may be gone while the burst reads on.

#include "torture.h"
#include <pthread.h>

enum { WORDS = 4096, BLOCKS = 1500 };
static uint64_t *volatile current;
static int reading[2], over;
static uint64_t wrong;

static void *reader(void *is_reading)
{
    while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
        __atomic_store_n((int *)is_reading, 1, __ATOMIC_SEQ_CST);
        uint64_t *block = current, first = block[0];
        for (int i = 0; i < WORDS; i += 3)
            wrong += block[i] != first;
        __atomic_store_n((int *)is_reading, 0, __ATOMIC_SEQ_CST);
        for (volatile int i = 0; i < 200; i++)
            ;
    }
    return NULL;
}

static uint64_t *filled(int way, int file, uint64_t value)
{
    int flags = way == 2 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
    if (way == 2)
        CHECK(ftruncate(file, WORDS * 8) == 0);
    uint64_t *block = mmap(NULL, WORDS * 8, PROT_READ | PROT_WRITE, flags, way == 2 ? file : -1, 0);
    CHECK(block != MAP_FAILED);
    for (int i = 0; i < WORDS; i++)
        block[i] = value;
    return block;
}

int main(void)
{
    pthread_t threads[2];
    int files[2] = {memfd_create("blocks", 0), memfd_create("blocks", 0)};
    current = filled(0, -1, 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, reader, &reading[i]) == 0);
    int way_of_old = 0;
    for (int block = 1; block < BLOCKS; block++) {
        int way = block % 4;
        uint64_t *old = current;
        current = filled(way, files[block / 4 & 1], block);
        for (int i = 0; i < 2; i++)
            while (__atomic_load_n(&reading[i], __ATOMIC_SEQ_CST))
                ;
        if (way_of_old == 1)
            CHECK(mprotect(old, WORDS * 8, PROT_NONE) == 0);
        else if (way_of_old == 2)
            CHECK(ftruncate(files[(block - 1) / 4 & 1], 0) == 0);
        else if (way_of_old == 3)
            CHECK(madvise(old, WORDS * 8, MADV_DONTNEED) == 0);
        for (volatile int i = 0; i < 2000; i++)
            ;
        CHECK(munmap(old, WORDS * 8) == 0);
        way_of_old = way;
    }
    __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("%d blocks, %lu wrong words\n", BLOCKS, wrong);
    return 0;
}
