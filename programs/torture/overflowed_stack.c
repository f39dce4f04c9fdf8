// Stack overflow handled on an alternate stack, which siglongjmp leaves; the alternate stack moves and is unmapped between.

#include "torture.h"
#include <pthread.h>
#include <setjmp.h>

static __thread sigjmp_buf back;
static __thread uint64_t faults;

static void on_fault(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info, (void)context;
    faults++;
    siglongjmp(back, 1);
}

static uint64_t endless(volatile uint64_t *above)
{
    volatile uint64_t here[100];
    here[*above % 100] = *above + 1;
    if (here[*above % 100] == 0)
        return 0;
    return mixed(endless(&here[*above % 100]), here[*above % 100]);
}

static void *overflow(void *argument)
{
    uint64_t *table = calloc(1 << 12, 8);
    for (volatile int i = 0; i < 400; i++) {
        char *alternate = pages(16, PROT_READ | PROT_WRITE);
        CHECK(sigaltstack(&(stack_t){.ss_sp = alternate, .ss_size = 16 * PAGE_BYTES}, NULL) == 0);
        if (sigsetjmp(back, 1) == 0)
            endless(&(volatile uint64_t){i});
        worked(table, 1 << 12, 20000, i);
        CHECK(sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL) == 0);
        CHECK(munmap(alternate, 16 * PAGE_BYTES) == 0);
    }
    *(uint64_t *)argument = faults;
    free(table);
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    pthread_attr_t attributes;
    uint64_t counts[2];
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 << 10);
    handle(SIGSEGV, on_fault, SA_ONSTACK);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], &attributes, overflow, &counts[i]) == 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("%lu %lu\n", counts[0], counts[1]);
    return 0;
}
