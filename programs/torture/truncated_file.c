// A file that is truncated under its mapping: the program counts its SIGBUS and maps memory in the place of what is gone.

#include "torture.h"

enum { PAGES = 32 };
static uint64_t faults;

static void on_bus(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)context;
    faults++;
    void *page = (void *)((uint64_t)info->si_addr & ~(PAGE_BYTES - 1));
    if (mmap(page, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
        _exit(4);
}

int main(void)
{
    FILE *file = tmpfile();
    CHECK(file);
    uint64_t sum = 1;
    handle(SIGBUS, on_bus, 0);
    for (int round = 0; round < 900; round++) {
        CHECK(ftruncate(fileno(file), PAGES * PAGE_BYTES) == 0);
        uint64_t *map = mmap(NULL, PAGES * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
        CHECK(map != MAP_FAILED);
        for (uint64_t i = 0; i < PAGES * PAGE_BYTES / 8; i += 8)
            map[i] = i * round;
        CHECK(ftruncate(fileno(file), (round % PAGES) * PAGE_BYTES) == 0);
        for (uint64_t i = 0; i < PAGES * PAGE_BYTES / 8; i += 2)
            sum = mixed(sum, map[i]);
        CHECK(munmap(map, PAGES * PAGE_BYTES) == 0);
    }
    printf("%lx %lu\n", sum, faults);
    return 0;
}
