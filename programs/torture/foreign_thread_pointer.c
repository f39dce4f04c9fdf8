// Code without the C library that points FS at memory of its own, or nowhere, as emulators and loaders of other systems do.

#include "torture.h"
#include <asm/prctl.h>
#include <pthread.h>
#include <sys/syscall.h>

// Nothing of the C library may run meanwhile, the stack protector's check included.
#define BARE __attribute__((noinline, optimize("no-stack-protector")))

static int signals;

static BARE long call(long number, long first, long second, long third)
{
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "0"(number), "D"(first), "S"(second), "d"(third) : "rcx", "r11", "memory");
    return result;
}

static BARE void count(int signal)
{
    __atomic_fetch_add(&signals, signal, __ATOMIC_RELAXED);
}

// Works with FS at `base`, and gets a signal of the program's own meanwhile.
static BARE uint64_t worked_at(uint64_t base, uint64_t *words, uint64_t sum)
{
    uint64_t own;
    call(SYS_arch_prctl, ARCH_GET_FS, (long)&own, 0);
    call(SYS_arch_prctl, ARCH_SET_FS, (long)base, 0);
    sum = worked(words, 1 << 12, 2000000, sum);
    call(SYS_tgkill, call(SYS_getpid, 0, 0, 0), call(SYS_gettid, 0, 0, 0), SIGTRAP);
    sum = worked(words, 1 << 12, 2000000, sum);
    call(SYS_arch_prctl, ARCH_SET_FS, (long)own, 0);
    return sum;
}

static void *worker(void *argument)
{
    uint64_t *area = (uint64_t *)pages(16, PROT_READ | PROT_WRITE) + 8 * 512, sum = 1;
    // As in an area of another C library.
    area[0] = area[2] = (uint64_t)area;
    uint64_t *words = calloc(1 << 12, 8);
    for (int i = 0; i < 6; i++) {
        sum = worked_at((uint64_t)area, words, sum);
        sum = worked_at(0, words, sum);
        sum = worked_at(8, words, sum);
        sum = worked(words, 1 << 12, 200000, sum);
    }
    for (int i = -8 * 512; i < 8 * 512; i++)
        sum += area[i] != 0;
    free(words);
    *(uint64_t *)argument = sum;
    return argument;
}

int main(void)
{
    pthread_t thread;
    uint64_t sums[2];
    signal(SIGTRAP, count);
    CHECK(pthread_create(&thread, NULL, worker, &sums[0]) == 0);
    worker(&sums[1]);
    pthread_join(thread, NULL);
    printf("%lx %lx %d\n", sums[0], sums[1], signals);
    return 0;
}
