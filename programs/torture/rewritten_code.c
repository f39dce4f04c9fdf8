// Code that one thread rewrites through a second mapping while others run it: each result is of the old or the new code.

#include "torture.h"
#include <pthread.h>

static int over;
static uint64_t wrong, calls[2];

static void *caller(void *function)
{
    uint64_t table[64] = {0}, count = 0;
    while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
        uint64_t result = ((uint64_t (*)(void))function)();
        if (result >> 8 != 0x123456)
            __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
        table[result & 63]++;
        count++;
    }
    __atomic_fetch_add(&calls[count > 1000], 1, __ATOMIC_RELAXED);
    return NULL;
}

int main(void)
{
    int file = memfd_create("code", 0);
    CHECK(file >= 0 && ftruncate(file, PAGE_BYTES) == 0);
    unsigned char *writable = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    unsigned char *code = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_EXEC, MAP_SHARED, file, 0);
    CHECK(writable != MAP_FAILED && code != MAP_FAILED);
    // mov $0x123456NN, %eax; ret; nop; nop: eight bytes that one store replaces.
    uint64_t word = 0x9090c312345600b8ul;
    *(volatile uint64_t *)writable = word;
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, caller, code) == 0);
    uint64_t *table = calloc(1 << 12, 8), sum = 1;
    for (uint64_t i = 0; i < 40000; i++) {
        __atomic_store_n((uint64_t *)writable, word | (i & 255) << 8, __ATOMIC_SEQ_CST);
        sum = worked(table, 1 << 12, 400, sum);
    }
    __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("%lx %lu wrong, %lu threads ran it\n", sum, wrong, calls[1]);
    return 0;
}
