// Tasks that are scanned for those that may run: an identity and nine truths, a byte each. With -DADVISED these are bits of two bytes.

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct task {
    uint64_t id;
#ifdef ADVISED
    bool is_ready : 1, is_done : 1, is_blocked : 1, is_urgent : 1, is_batch : 1, is_traced : 1, is_pinned : 1, is_idle : 1;
    bool is_owned : 1;
#else
    bool is_ready, is_done, is_blocked, is_urgent, is_batch, is_traced, is_pinned, is_idle, is_owned;
#endif
};

int main(int argc, char **argv)
{
    long passes = argc > 1 ? atol(argv[1]) : 8, n = argc > 2 ? atol(argv[2]) : 1 << 21;
    struct task *tasks = malloc((size_t)n * sizeof *tasks);
    uint64_t random = 88172645463325252u;
    for (long i = 0; i < n; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        struct task *task = &tasks[i];
        task->id = random >> 9;
        task->is_ready = random & 1, task->is_done = false, task->is_blocked = random & 2, task->is_urgent = random & 4;
        task->is_batch = random & 8, task->is_traced = random & 16, task->is_pinned = random & 32;
        task->is_idle = random & 64, task->is_owned = random & 128;
    }
    uint64_t sum = 0;
    for (long pass = 0; pass < passes; pass++)
        for (long i = 0; i < n; i++) {
            struct task *task = &tasks[i];
            if (!task->is_ready || task->is_done)
                continue;
            if (!task->is_blocked && !task->is_idle)
                sum += task->is_urgent ? 2 * task->id : task->id;
            if (task->is_batch && task->is_pinned && task->is_owned && (task->id & 63) == (uint64_t)pass)
                task->is_done = true;
            sum += task->is_traced;
        }
    printf("%llu\n", (unsigned long long)sum);
    return 0;
}
