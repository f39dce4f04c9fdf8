/* Tidy: an allocator that takes hints. What is allocated with the same hint lies side by side (that of many threads which
 * allocate with one hint for long, each one's by itself).
 *
 *   const size_t sizes[] = {64, 64};                      // two dimensions: x and y of a mesh, 64 strips each
 *   struct tidy_context *mesh = tidy_create(2, sizes);
 *   struct node *node = tidy_alloc(mesh, sizeof *node, (const size_t[]){x * 64 / width, y * 64 / height});
 *   tidy_free(mesh, node);
 *   tidy_destroy(mesh);                                    // and all that is left in it
 *
 * Functions may be called by any thread, and what one has allocated freed by another; tidy_destroy by the last one. Where
 * there is no memory, or an argument is not as it should be, they return NULL. Freeing what is no object of the context, or
 * freeing it twice, ends the program with a line on standard error where it is noticed. */
#ifndef TIDY_H
#define TIDY_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A context: dimensions, and an arena for each hint. */
struct tidy_context;

/* What is below a context. Both functions may be called by any thread. `alloc` returns memory of at least `size` bytes, at
 * a multiple of `alignment`, a power of two, or NULL; `free` gets what it returned with the same numbers. */
struct tidy_allocator {
    void *(*alloc)(void *user, size_t size, size_t alignment);
    void (*free)(void *user, void *memory, size_t size, size_t alignment);
    void *user;
};

/* What is in a context now. bytes + wasted_bytes are those of the buckets. */
struct tidy_statistics {
    size_t objects;       /* in buckets */
    size_t bytes;         /* theirs, each rounded up to a multiple of 8 */
    size_t buckets;       /* that arenas have */
    size_t arenas;        /* that have objects */
    size_t wasted_bytes;  /* of those buckets, in no object */
    size_t large_objects; /* larger than a bucket: of the allocator below */
    size_t large_bytes;   /* theirs */
    size_t held_bytes;    /* taken from the allocator below and not given back */
};

/* A context of as many dimensions, 16 at most, of these sizes, over malloc. NULL where a size is 0, or their product more
 * than 2^28. */
struct tidy_context *tidy_create(size_t dimensions, const size_t sizes[]);

/* The same with buckets of a power of two of bytes, 64 to 8192 (0: 4096), and over another allocator (NULL: malloc). */
struct tidy_context *tidy_create_over(size_t dimensions, const size_t sizes[], size_t bucket_bytes,
                              const struct tidy_allocator *allocator);

/* Gives all memory back, also that of objects that were not freed. NULL does nothing. */
void tidy_destroy(struct tidy_context *context);

/* Memory for an object, aligned for any type of that size. Of the hint, a value for each dimension, each counts modulo its
 * dimension. */
void *tidy_alloc(struct tidy_context *context, size_t size, const size_t hint[]);

/* Of `count` objects, all bytes 0. */
void *tidy_calloc(struct tidy_context *context, size_t count, size_t size, const size_t hint[]);

/* At a multiple of `alignment`, a power of two. */
void *tidy_aligned_alloc(struct tidy_context *context, size_t alignment, size_t size, const size_t hint[]);

/* Makes an object one of another size, aligned for that; its bytes are kept as far as they fit. It stays where it is if it
 * can, and moves among those of its hint. NULL: it is as it was. */
void *tidy_realloc(struct tidy_context *context, void *object, size_t size);

/* Frees an object. NULL does nothing. */
void tidy_free(struct tidy_context *context, void *object);

/* Bytes of an object that may be used: its size or a few more. */
size_t tidy_usable_bytes(struct tidy_context *context, void *object);

/* Gives back what no object needs. */
void tidy_trim(struct tidy_context *context);

/* Writes what there is now; 0, or -1 where `statistics` is NULL. */
int tidy_stats(struct tidy_context *context, struct tidy_statistics *statistics);

#ifdef __cplusplus
}
#endif

#endif
