/* A small allocator to be preloaded below the agent: blocks at every multiple of 8, also while the dynamic linker and
   other constructors run. It never reuses memory unless it is of the same size. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *at, *end;
static long calls;

struct block { struct block *next; };
static struct block *lists[64];

long below_calls(void) { return calls; }

static size_t *size_of(void *block) { return (size_t *)block - 1; }

static void *carve(size_t align, size_t bytes) {
    if (bytes > (size_t)1 << 40) { errno = ENOMEM; return NULL; }
    bytes = bytes < 8 ? 8 : (bytes + 7) & ~(size_t)7;
    void *result;
    pthread_mutex_lock(&lock);
    calls++;
    if (align <= 8 && bytes / 8 < 64 && lists[bytes / 8]) {
        struct block *first = lists[bytes / 8];
        lists[bytes / 8] = first->next;
        result = first;
    } else {
        uintptr_t start = ((uintptr_t)at + 8 + align - 1) & ~(align - 1);
        if (!at || start + bytes > (uintptr_t)end) {
            size_t room = (bytes + align + (64 << 20)) & ~(size_t)4095;
            at = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            if (at == MAP_FAILED) { at = NULL; pthread_mutex_unlock(&lock); errno = ENOMEM; return NULL; }
            end = at + room;
            start = ((uintptr_t)at + 8 + align - 1) & ~(align - 1);
        }
        at = (char *)start + bytes;
        result = (void *)start;
        *size_of(result) = bytes;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

void *malloc(size_t bytes) { return carve(8, bytes); }

void free(void *block) {
    if (!block || *size_of(block) / 8 >= 64) return;
    pthread_mutex_lock(&lock);
    struct block *freed = block;
    freed->next = lists[*size_of(block) / 8];
    lists[*size_of(block) / 8] = freed;
    pthread_mutex_unlock(&lock);
}

void *calloc(size_t count, size_t bytes) {
    size_t total;
    if (__builtin_mul_overflow(count, bytes, &total)) { errno = ENOMEM; return NULL; }
    void *block = carve(8, total);
    return block ? memset(block, 0, total) : NULL;
}

void *realloc(void *block, size_t bytes) {
    void *new = carve(8, bytes);
    if (new && block) {
        memcpy(new, block, *size_of(block) < bytes ? *size_of(block) : bytes);
        free(block);
    }
    return new;
}

void *reallocarray(void *block, size_t count, size_t bytes) {
    size_t total;
    if (__builtin_mul_overflow(count, bytes, &total)) { errno = ENOMEM; return NULL; }
    return realloc(block, total);
}

void *memalign(size_t align, size_t bytes) { return carve(align < 8 ? 8 : align, bytes); }
void *aligned_alloc(size_t align, size_t bytes) { return memalign(align, bytes); }
void *valloc(size_t bytes) { return carve(4096, bytes); }
void *pvalloc(size_t bytes) { return carve(4096, (bytes + 4095) & ~(size_t)4095); }
size_t malloc_usable_size(void *block) { return block ? *size_of(block) : 0; }

int posix_memalign(void **place, size_t align, size_t bytes) {
    if (align < sizeof(void *) || align & (align - 1)) return EINVAL;
    int error = errno;
    void *block = carve(align, bytes);
    errno = error;
    if (!block) return ENOMEM;
    *place = block;
    return 0;
}

static void hold(void) { pthread_mutex_lock(&lock); }
static void release(void) { pthread_mutex_unlock(&lock); }

static void *kept;
__attribute__((constructor)) static void start(void) {
    pthread_atfork(hold, release, release);
    kept = malloc(100);
    free(malloc(200));
    kept = realloc(kept, 3000);
}
