// MADV_DONTNEED, MADV_FREE and MADV_REMOVE while other threads read: each word is what was stored, or zero.

#include "torture.h"
#include <pthread.h>

enum { PAGES = 64 };
static uint64_t *memory, *shared, wrong;
static int over;

static void *reader(void *unused)
{
    while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE))
        for (uint64_t i = 0; i < PAGES * PAGE_BYTES / 8; i += 5) {
            uint64_t one = __atomic_load_n(&memory[i], __ATOMIC_RELAXED), other = __atomic_load_n(&shared[i], __ATOMIC_RELAXED);
            if ((one && one != i) || (other && other != i))
                __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
        }
    return unused;
}

int main(void)
{
    int file = memfd_create("pages", 0);
    CHECK(file >= 0 && ftruncate(file, PAGES * PAGE_BYTES) == 0);
    memory = (uint64_t *)pages(PAGES, PROT_READ | PROT_WRITE);
    shared = mmap(NULL, PAGES * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(shared != MAP_FAILED);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, reader, NULL) == 0);
    for (int round = 0; round < 700; round++) {
        for (uint64_t i = 0; i < PAGES * PAGE_BYTES / 8; i++) {
            __atomic_store_n(&memory[i], i, __ATOMIC_RELAXED);
            __atomic_store_n(&shared[i], i, __ATOMIC_RELAXED);
        }
        CHECK(madvise(memory, PAGES * PAGE_BYTES, round & 1 ? MADV_DONTNEED : MADV_FREE) == 0);
        CHECK(madvise(shared, PAGES * PAGE_BYTES, MADV_REMOVE) == 0);
    }
    __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("%lu wrong\n", wrong);
    return 0;
}
