// SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGTRAP on an alternate stack: handlers leave by siglongjmp or change the registers.

#include "torture.h"
#include <setjmp.h>
#include <ucontext.h>

static sigjmp_buf back;
static volatile uint64_t counts[32];

static void leaves(int signal, siginfo_t *info, void *context)
{
    (void)info, (void)context;
    counts[signal]++;
    siglongjmp(back, signal);
}

static void steps_over(int signal, siginfo_t *info, void *context)
{
    (void)info;
    counts[signal]++;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    if (signal == SIGILL)
        registers[REG_RIP] += 2;
    registers[REG_EFL] &= ~0x100;
}

int main(void)
{
    char *alternate = pages(16, PROT_READ | PROT_WRITE);
    CHECK(sigaltstack(&(stack_t){.ss_sp = alternate, .ss_size = 16 * PAGE_BYTES}, NULL) == 0);
    handle(SIGSEGV, leaves, SA_ONSTACK);
    handle(SIGBUS, leaves, SA_ONSTACK);
    handle(SIGFPE, leaves, SA_ONSTACK | SA_NODEFER);
    handle(SIGILL, steps_over, SA_ONSTACK);
    handle(SIGTRAP, steps_over, SA_ONSTACK);
    int file = memfd_create("empty", 0);
    volatile uint64_t *nothing = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_SHARED, file, 0);
    CHECK(file >= 0 && nothing != MAP_FAILED);
    uint64_t *table = calloc(1 << 12, 8);
    volatile uint64_t sum = 1, zero = 0;
    for (volatile uint64_t round = 0; round < 24000; round++) {
        sum = worked(table, 1 << 12, 250, sum);
        if (sigsetjmp(back, 1) == 0)
            switch (round % 6) {
            case 0: sum += *(volatile uint64_t *)(round & 0xff0); break;
            case 1: sum += *nothing; break;
            case 2: sum /= zero; break;
            case 3: __asm__ volatile("ud2"); break;
            case 4: __asm__ volatile("int3"); break;
            // The trap flag: one instruction later comes a SIGTRAP.
            case 5: __asm__ volatile("sub $128, %%rsp; pushf; orl $0x100, (%%rsp); popf; nop; nop; add $128, %%rsp" ::: "cc", "memory"); break;
            }
    }
    printf("%lx", (uint64_t)sum);
    for (int signal = 1; signal < 32; signal++)
        if (counts[signal])
            printf(" %d:%lu", signal, counts[signal]);
    printf("\n");
    return 0;
}
