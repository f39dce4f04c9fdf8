// Stacks that a few instructions of assembly switch. A page in the middle of one turns into a guard page, is counted when it
// is touched, and turns back; stacks are unmapped, and mapped again unreadable, once they were left.

#include "torture.h"

enum { STACK_PAGES = 32, MIDDLE = 16 };
static char *stack;
static uint64_t faults, table[1 << 12];

// Calls function(argument) on another stack.
uint64_t on_stack(void *top, uint64_t (*function)(uint64_t), uint64_t argument);
__asm__(".text\n.globl on_stack\n.type on_stack, @function\n"
        "on_stack:\n push %rbx\n mov %rsp, %rbx\n mov %rdi, %rsp\n mov %rdx, %rdi\n call *%rsi\n"
        " mov %rbx, %rsp\n pop %rbx\n ret\n.size on_stack, .-on_stack\n");

static void on_fault(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)context;
    char *middle = stack + MIDDLE * PAGE_BYTES;
    if ((char *)info->si_addr < middle || (char *)info->si_addr >= middle + PAGE_BYTES)
        _exit(4);
    faults++;
    mprotect(middle, PAGE_BYTES, PROT_READ | PROT_WRITE);
}

static uint64_t shallow(uint64_t sum)
{
    return worked(table, 1 << 12, 3000, sum);
}

// Uses more than half of the stack, so that the middle page holds frames.
static uint64_t deep(uint64_t sum)
{
    volatile uint64_t here[64];
    uint64_t depth = sum & 255;
    here[depth & 63] = sum;
    if (depth < 130)
        return mixed(deep(sum + 1), here[depth & 63]);
    return worked(table, 1 << 12, 1000, sum);
}

// Its frames lie above the middle page, which is guarded below them.
static uint64_t guarded(uint64_t sum)
{
    CHECK(mprotect(stack + MIDDLE * PAGE_BYTES, PAGE_BYTES, PROT_NONE) == 0);
    sum = shallow(sum);
    return deep(sum & ~255ul);
}

int main(void)
{
    char *alternate = pages(16, PROT_READ | PROT_WRITE);
    CHECK(sigaltstack(&(stack_t){.ss_sp = alternate, .ss_size = 16 * PAGE_BYTES}, NULL) == 0);
    handle(SIGSEGV, on_fault, SA_ONSTACK);
    uint64_t sum = 1;
    for (int round = 0; round < 3000; round++) {
        stack = pages(STACK_PAGES, PROT_READ | PROT_WRITE);
        char *top = stack + STACK_PAGES * PAGE_BYTES;
        sum = on_stack(top, deep, sum & ~255ul);
        sum = on_stack(top, guarded, sum);
        CHECK(munmap(stack, STACK_PAGES * PAGE_BYTES) == 0);
        char *again = mmap(stack, STACK_PAGES * PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        CHECK(again == stack);
        sum = shallow(sum);
        CHECK(munmap(again, STACK_PAGES * PAGE_BYTES) == 0);
    }
    printf("%lx %lu\n", sum, faults);
    return 0;
}
