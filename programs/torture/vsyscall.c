// Execute-only page of the kernel: calls time() by its address on the vsyscall page, whose code nobody can read.

#include "torture.h"
#include <time.h>

int main(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512];
    int present = 0;
    CHECK(maps);
    while (fgets(line, sizeof line, maps))
        present |= strstr(line, "[vsyscall]") != NULL;
    if (!present)
        skip("vsyscall (the kernel has none)");
    time_t (*vsyscall_time)(time_t *) = (time_t (*)(time_t *))0xffffffffff600400ul;
    uint64_t *table = calloc(1 << 18, 8), sum = 1, ordered = 0;
    time_t last = 0;
    for (int i = 0; i < 40000; i++) {
        sum = worked(table, 1 << 18, 20, sum);
        time_t now = vsyscall_time(NULL);
        ordered += now >= last;
        last = now;
    }
    printf("%lx %lu\n", sum, ordered);
    return 0;
}
