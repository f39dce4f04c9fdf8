#include "tidy.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what) \
    do { \
        if (!(what)) { \
            printf("%d: %s\n", __LINE__, #what); \
            return 1; \
        } \
    } while (0)

static size_t taken;

static void *counted_alloc(void *user, size_t size, size_t alignment)
{
    *(size_t *)user += size;
    return aligned_alloc(alignment < sizeof(void *) ? sizeof(void *) : alignment, (size + alignment - 1) / alignment * alignment);
}

static void counted_free(void *user, void *memory, size_t size, size_t alignment)
{
    (void)alignment;
    *(size_t *)user -= size;
    free(memory);
}

int main(void)
{
    const size_t sizes[] = {4, 4}, many[17] = {0}, empty[] = {4, 0}, here[] = {1, 2}, same[] = {5, 6}, there[] = {3, 3};
    const struct tidy_allocator counted = {counted_alloc, counted_free, &taken};
    CHECK(!tidy_create(2, empty) && !tidy_create(17, many) && !tidy_create_over(2, sizes, 100, NULL));
    struct tidy_context *context = tidy_create_over(2, sizes, 1024, &counted);
    CHECK(context && taken > 0);
    char *a = tidy_alloc(context, 24, here), *other = tidy_alloc(context, 24, there), *b = tidy_alloc(context, 24, same);
    CHECK(b == a + 24 && (uintptr_t)other / 1024 != (uintptr_t)a / 1024);
    memset(a, 1, 24);
    memset(b, 2, 24);
    /* Aligned for 32 bytes, and what it had is there. */
    char *grown = tidy_realloc(context, b, 32);
    CHECK(grown && (uintptr_t)grown % 16 == 0 && grown[0] == 2 && grown[23] == 2 && tidy_usable_bytes(context, grown) >= 32);
    char *zero = tidy_calloc(context, 5, 7, here);
    CHECK(zero && !memcmp(zero, (char[35]){0}, 35) && !tidy_calloc(context, SIZE_MAX, 2, here));
    char *aligned = tidy_aligned_alloc(context, 256, 100, here);
    CHECK((uintptr_t)aligned % 256 == 0 && !tidy_aligned_alloc(context, 3, 100, here));
    char *large = tidy_alloc(context, 100000, there);
    large = tidy_realloc(context, large, 200000);
    large[199999] = 7;
    struct tidy_statistics now;
    CHECK(!tidy_stats(context, &now) && tidy_stats(context, NULL) == -1);
    printf("%zu objects, %zu large of %zu bytes, %zu arenas, %d\n", now.objects, now.large_objects, now.large_bytes, now.arenas,
           now.bytes + now.wasted_bytes == now.buckets * 1024 && now.held_bytes == taken);
    tidy_free(context, a);
    tidy_free(context, NULL);
    tidy_free(context, grown);
    tidy_trim(context);
    /* With what was not freed. */
    tidy_destroy(context);
    tidy_destroy(NULL);
    printf("%zu bytes left\n", taken);
    return 0;
}
