/* What the allocation functions answer at the edges, errno included. The same under every preload of one allocator. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

extern long below_calls(void) __attribute__((weak));

static void *volatile hidden;

static void tell(const char *what, void *block, size_t align) {
    int error = errno;
    hidden = block;
    printf("%s: %s, aligned %d, errno %d\n", what, block ? "block" : "null", ((uintptr_t)block & (align - 1)) == 0, error);
    errno = 77;
}

int main(void) {
    const volatile size_t huge = SIZE_MAX / 2 + 1;
    setvbuf(stdout, NULL, _IONBF, 0);
    errno = 77;
    tell("malloc", malloc(10), 8);
    tell("malloc of nothing", malloc(0), 8);
    tell("malloc too large", malloc(huge), 8);
    tell("calloc", calloc(3, 7), 8);
    tell("calloc of nothing", calloc(0, 7), 8);
    tell("calloc overflow", calloc(huge, 4), 8);
    for (size_t bytes = 1; bytes < 5u << 20; bytes *= 3) {
        unsigned char *zero = calloc(1, bytes);
        for (size_t i = 0; i < bytes; i++) if (zero[i]) { puts("not zero"); break; }
        memset(zero, 7, bytes);
        zero = realloc(zero, bytes * 2);
        for (size_t i = 0; i < bytes; i++) if (zero[i] != 7) { puts("lost"); break; }
        zero = realloc(zero, bytes / 2 + 1);
        if (zero[bytes / 2] != 7) puts("lost");
        if (malloc_usable_size(zero) < bytes / 2 + 1) puts("unusable");
        free(zero);
    }
    char *block = malloc(100);
    strcpy(block, "kept");
    tell("realloc too large", realloc(block, huge), 8);
    tell("reallocarray overflow", reallocarray(block, huge, 4), 8);
    puts(block);
    block = reallocarray(block, 1000, 3000);
    puts(block);
    tell("reallocarray", block, 8);
    tell("large realloc too large", realloc(block, huge), 8);
    puts(block);
    block = realloc(block, 20);
    puts(block);
    tell("realloc to nothing", realloc(block, 0), 8);
    tell("realloc of null", realloc(NULL, 30), 8);
    tell("reallocarray of null", reallocarray(NULL, 3, 5), 8);
    void *place = (void *)1;
    printf("%d %d\n", posix_memalign(&place, 3, 8), place == (void *)1);
    printf("%d %d\n", posix_memalign(&place, 24, 8), place == (void *)1);
    printf("%d\n", posix_memalign(&place, 64, huge));
    tell("after failures of posix_memalign", NULL, 8);
    for (size_t align = 8; align <= 1 << 16; align *= 2) {
        printf("%d ", posix_memalign(&place, align, align / 2 + 1));
        tell("posix_memalign", place, align);
        free(place);
        tell("aligned_alloc", place = aligned_alloc(align, 3 * align), align);
        free(place);
        tell("memalign", place = memalign(align, 100), align);
        place = realloc(place, 300000);
        free(place);
    }
    tell("aligned_alloc too large", aligned_alloc(64, huge), 64);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    tell("valloc", valloc(10), page);
    tell("pvalloc", pvalloc(10), page);
    tell("valloc too large", valloc(huge), page);
    free(NULL);
    free(malloc(5));
    free(malloc(3 << 20));
    tell("free", NULL, 8);
    tell("mmap of nothing", mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? NULL : "", 1);
    char *mapped = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    tell("mmap", mapped, page);
    mapped[page] = 9;
    printf("%d\n", munmap(mapped + 1, page));
    tell("munmap of no page", NULL, 8);
    printf("%d\n", munmap(mapped + 2 * page, page));
    mapped = mremap(mapped, 2 * page, 500 * page, MREMAP_MAYMOVE);
    printf("%d\n", mapped[page]);
    char *fixed = mmap(NULL, 500 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    printf("%d\n", mremap(mapped, 500 * page, 500 * page, MREMAP_MAYMOVE | MREMAP_FIXED, fixed) == (void *)fixed);
    printf("%d\n", fixed[page]);
    tell("mremap too large", mremap(fixed, page, huge & -page, 0) == MAP_FAILED ? NULL : "", 1);
    printf("%d\n", munmap(fixed, 500 * page));
    tell("mmap64", mmap64(NULL, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), page);
    if (below_calls) printf("below was called: %d\n", below_calls() > 50);
    return 0;
}
