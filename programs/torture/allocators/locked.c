// A simple allocator: blocks of powers of two, from memory that it asks sbrk for while it holds its own lock.

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

enum { CLASSES = 40, SMALLEST = 32, HEAD = 16, STEP = 1 << 16 };
typedef struct block {
    uint64_t class;
    struct block *next;
} block;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static block *released[CLASSES];
static char *unused, *end;

static void *malloc_of_class(uint64_t class)
{
    size_t bytes = (size_t)SMALLEST << class;
    pthread_mutex_lock(&lock);
    block *found = released[class];
    if (found) {
        released[class] = found->next;
    } else {
        if ((size_t)(end - unused) < bytes) {
            size_t step = bytes > STEP ? bytes : STEP;
            char *more = sbrk((intptr_t)step);
            if (more == (char *)-1) {
                pthread_mutex_unlock(&lock);
                errno = ENOMEM;
                return NULL;
            }
            if (more != end)
                unused = (char *)(((uintptr_t)more + 15) & ~(uintptr_t)15);
            end = more + step;
        }
        if ((size_t)(end - unused) < bytes) {
            pthread_mutex_unlock(&lock);
            return malloc_of_class(class);
        }
        found = (block *)unused;
        unused += bytes;
    }
    pthread_mutex_unlock(&lock);
    found->class = class;
    return (char *)found + HEAD;
}

void *malloc(size_t bytes)
{
    uint64_t class = 0;
    while (((size_t)SMALLEST << class) < bytes + HEAD)
        class++;
    return malloc_of_class(class);
}

// What lies before a block that is aligned more than malloc aligns: a head with the distance to the true block.
static block *head_of(void *pointer)
{
    block *head = (block *)((char *)pointer - HEAD);
    return head->class >= 1000 ? (block *)((char *)pointer - HEAD - (head->class - 1000)) : head;
}

void free(void *pointer)
{
    if (!pointer)
        return;
    block *head = head_of(pointer);
    pthread_mutex_lock(&lock);
    head->next = released[head->class];
    released[head->class] = head;
    pthread_mutex_unlock(&lock);
}

size_t malloc_usable_size(void *pointer)
{
    block *head = head_of(pointer);
    return pointer ? ((size_t)SMALLEST << head->class) - (size_t)((char *)pointer - (char *)head) : 0;
}

void *calloc(size_t count, size_t bytes)
{
    void *pointer = malloc(count * bytes);
    return pointer ? memset(pointer, 0, count * bytes) : NULL;
}

void *realloc(void *pointer, size_t bytes)
{
    if (!pointer)
        return malloc(bytes);
    size_t old = malloc_usable_size(pointer);
    if (bytes <= old)
        return pointer;
    void *grown = malloc(bytes);
    if (grown) {
        memcpy(grown, pointer, old);
        free(pointer);
    }
    return grown;
}

void *memalign(size_t alignment, size_t bytes)
{
    if (alignment <= 16)
        return malloc(bytes);
    char *pointer = malloc(bytes + alignment);
    if (!pointer)
        return NULL;
    char *aligned = (char *)(((uintptr_t)pointer + alignment - 1) & ~(uintptr_t)(alignment - 1));
    if (aligned != pointer)
        ((block *)(aligned - HEAD))->class = 1000 + (uint64_t)(aligned - pointer);
    return aligned;
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
    return memalign(alignment, bytes);
}

int posix_memalign(void **pointer, size_t alignment, size_t bytes)
{
    void *found = memalign(alignment, bytes);
    if (!found)
        return ENOMEM;
    *pointer = found;
    return 0;
}
