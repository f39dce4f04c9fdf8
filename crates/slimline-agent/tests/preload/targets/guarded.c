// A program that runs on a stack of its own and later has a page in the middle of it guarded, in different ways. Below the
// guard it calls allocation functions with a frame pointer that leads into the guard, from code without unwind information.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096
#define PAGES 64
static char *stack;
static volatile long sum;

__attribute__((noinline)) static void allocate(void) {
    for (int i = 0; i < 200; i++) {
        char *block = malloc(20000);
        memset(block, i, 20000);
        sum += block[i];
        free(block);
    }
}

// run_on(top, function, frame_pointer)
void run_on(char *top, void (*function)(void), char *frame_pointer);
__asm__(".text\n.globl run_on\nrun_on:\n"
        "push %rbp\npush %rbx\nmov %rsp, %rbx\n"
        "mov %rdi, %rsp\nmov %rdx, %rbp\ncall *%rsi\n"
        "mov %rbx, %rsp\npop %rbx\npop %rbp\nret\n");

static void guard(int way, char *page) {
    switch (way) {
    case 0: mprotect(page, PAGE, PROT_NONE); break;
    case 1: syscall(SYS_mprotect, page, PAGE, PROT_NONE); break;
    case 2: munmap(page, PAGE); break;
    case 3: syscall(SYS_munmap, page, PAGE); break;
    case 4: mprotect(page, PAGE, PROT_WRITE * 0 + PROT_EXEC); break;
    // MADV_GUARD_INSTALL; where the kernel has none, a guard as before.
    case 5: if (madvise(page, PAGE, 102)) mprotect(page, PAGE, PROT_NONE); break;
    // Where it can't be seen: by the next sample it is.
    case 6: {
        long result;
        __asm__ volatile("syscall" : "=a"(result) : "a"(SYS_mprotect), "D"(page), "S"(PAGE), "d"(PROT_NONE) : "rcx", "r11", "memory");
        for (volatile long i = 0; i < 60000000; i++) {}
    } break;
    }
}

int main(void) {
    for (int way = 0; way < 7; way++) {
        stack = mmap(0, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(stack, 0, PAGES * PAGE);
        char *middle = stack + PAGES / 2 * PAGE;
        // What leads from the lower half to the upper one.
        char *low = middle - PAGE, *high = stack + PAGES * PAGE - 64;
        ((char **)(middle + 64))[0] = high;
        run_on(low, allocate, middle + 64);
        run_on(high, allocate, high);
        run_on(low, allocate, middle + 64);
        guard(way, middle);
        run_on(low, allocate, middle + 64);
        run_on(low - 512, allocate, middle + 64);
        printf("way %d\n", way);
    }
    return 0;
}
