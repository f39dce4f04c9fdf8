// Threads on the least stacks that the C library allows, and coroutines on stacks of 4 KiB that take no signals of their own.

#include "torture.h"
#include <limits.h>
#include <pthread.h>

static uint64_t tables[2][1 << 12];

uint64_t on_stack(void *top, uint64_t (*function)(uint64_t), uint64_t argument);
__asm__(".text\n.globl on_stack\n.type on_stack, @function\n"
        "on_stack:\n push %rbx\n mov %rsp, %rbx\n mov %rdi, %rsp\n mov %rdx, %rdi\n call *%rsi\n"
        " mov %rbx, %rsp\n pop %rbx\n ret\n.size on_stack, .-on_stack\n");

static uint64_t work(uint64_t sum)
{
    return worked(tables[sum & 1], 1 << 12, 40000, sum);
}

static void *thread(void *argument)
{
    // Most of what the C library leaves of it.
    volatile char used[2048];
    used[0] = 1;
    return (void *)(work((uint64_t)argument) + used[0]);
}

int main(void)
{
    pthread_attr_t attributes;
    uint64_t sum = 1;
    char *stack = pages(3, PROT_READ | PROT_WRITE);
    CHECK(mprotect(stack, PAGE_BYTES, PROT_NONE) == 0);
    pthread_attr_init(&attributes);
    CHECK(pthread_attr_setstacksize(&attributes, (size_t)sysconf(_SC_THREAD_STACK_MIN)) == 0);
    for (int i = 0; i < 300; i++) {
        pthread_t threads[2];
        void *result[2];
        for (int t = 0; t < 2; t++)
            CHECK(pthread_create(&threads[t], &attributes, thread, (void *)(sum << 1 | t)) == 0);
        for (int t = 0; t < 2; t++)
            pthread_join(threads[t], &result[t]);
        sum = mixed((uint64_t)result[0], (uint64_t)result[1]);
        sum = on_stack(stack + 2 * PAGE_BYTES, work, sum);
    }
    printf("%lx\n", sum);
    return 0;
}
