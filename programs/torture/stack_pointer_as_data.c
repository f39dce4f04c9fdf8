// Hand-written code that reads an array with pop: its stack pointer walks over data. The program takes no signals meanwhile,
// so that nothing below the stack pointer may change.

#include "torture.h"

enum { WORDS = 1 << 12 };

uint64_t popped(const uint64_t *words, uint64_t count);
__asm__(".text\n.globl popped\n.type popped, @function\n"
        "popped:\n push %rbx\n mov %rsp, %rbx\n mov %rdi, %rsp\n xor %eax, %eax\n"
        "1: pop %rdx\n rol $5, %rax\n xor %rdx, %rax\n dec %rsi\n jnz 1b\n"
        " mov %rbx, %rsp\n pop %rbx\n ret\n.size popped, .-popped\n");

int main(void)
{
    // Room before the array: a frame of the kernel's would overwrite what lies there.
    uint64_t *memory = calloc(WORDS * 2, 8), *words = memory + WORDS, sum = 1;
    for (int i = 0; i < 2 * WORDS; i++)
        memory[i] = mixed(1, i);
    for (int round = 0; round < 60000; round++)
        sum = mixed(sum, popped(words, WORDS));
    for (int i = 0; i < 2 * WORDS; i++)
        sum = mixed(sum, memory[i]);
    printf("%lx\n", sum);
    return 0;
}
