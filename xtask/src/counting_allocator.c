/* Counts malloc and free and passes on: the least that a tool which stands before them can cost. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

static void *(*next_malloc)(size_t);
static void (*next_free)(void *);
static __thread long calls __attribute__((tls_model("initial-exec")));

/* Before the program's own code; the C library's own functions serve what comes earlier. */
extern void *__libc_malloc(size_t);
extern void __libc_free(void *);

__attribute__((constructor)) static void find(void)
{
    next_malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    next_free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
}

void *malloc(size_t bytes)
{
    calls++;
    return next_malloc ? next_malloc(bytes) : __libc_malloc(bytes);
}

void free(void *block)
{
    calls++;
    if (next_free)
        next_free(block);
    else
        __libc_free(block);
}
