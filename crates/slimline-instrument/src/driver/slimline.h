/* slimline.h: what a program says to slimline: which part of it is traced, which regions it is timed by, and whose
 * accesses are counted by a name of their own.
 *
 *     slimline header > slimline.h
 *     slimline trace --paused --live -- ./program
 *
 * Where nobody listens all of this does nothing. Nothing has to be linked. */
#ifndef SLIMLINE_H
#define SLIMLINE_H

/* Programs are compiled with warnings of their choice. */
#pragma GCC system_header

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Which part is traced. Both hold for the calling process and all of its threads: functions that begin afterwards are
 * traced, or not, and loops from the next time that they go round. Programs that were not compiled by slimline cc say it
 * by an instruction that does nothing, for those who run them by slimline trace --collector translate. */

extern void __slimline_start(void) __attribute__((weak));
extern void __slimline_stop(void) __attribute__((weak));

#ifdef __x86_64__
#define SLIMLINE_SAYS(what) __asm__ volatile(".byte 0x0f, 0x1f, 0x80, 'S', 'L', 'M', " #what : : : "memory")
#else
#define SLIMLINE_SAYS(what) ((void)0)
#endif

/* Trace from now on. */
static __inline__ __attribute__((always_inline)) void slimline_start(void) {
    if (__slimline_start) __slimline_start();
    else SLIMLINE_SAYS(1);
}

/* Trace nothing from now on, until slimline_start(). */
static __inline__ __attribute__((always_inline)) void slimline_stop(void) {
    if (__slimline_stop) __slimline_stop();
    else SLIMLINE_SAYS(2);
}

/* Regions and watched memory. What follows calls a library that slimline preloads. Which functions that has is asked once,
 * when the program runs: linkers may decide for good that a weak symbol is not there, where they make a program that is not
 * position-independent. dlsym is asked for, which is part of the C library from glibc 2.34 on; with an older one, and linked
 * by other linkers than GNU's, a program that is not position-independent needs -ldl. Elsewhere nothing is needed. */

typedef void *(*__slimline_lookup)(void *, const char *);

#if defined(__x86_64__) && defined(__LP64__)
/* Through the table that the dynamic linker fills in. As a reference by another name, it makes no other one weak. */
#define SLIMLINE_LOOKUP(lookup) \
    __asm__(".weakref __slimline_dlsym, dlsym\n\tmovq __slimline_dlsym@GOTPCREL(%%rip), %0" : "=r"(lookup))
#else
static void *__slimline_dlsym(void *, const char *) __attribute__((weakref("dlsym")));
#define SLIMLINE_LOOKUP(lookup) ((void)((lookup) = __slimline_dlsym))
#endif

/* The library's function of a name; none where it is not preloaded. Functions of this beginning are not traced. */
static __attribute__((noinline, unused, no_instrument_function)) void *__slimline_find(void **known, const char *name) {
    void *const none = (void *)-1;
    void *found = __atomic_load_n(known, __ATOMIC_RELAXED);
    if (!found) {
        union { void *found; char *(*call)(void); } error;
        __slimline_lookup lookup;
        SLIMLINE_LOOKUP(lookup);
        if (lookup && !(found = lookup(NULL, name))) {
            /* It is no error of the program's. */
            error.found = lookup(NULL, "dlerror");
            if (error.found) error.call();
        }
        if (!found) found = none;
        __atomic_store_n(known, found, __ATOMIC_RELAXED);
    }
    return found == none ? NULL : found;
}

/* The calling thread enters a region of that name, within those that it is in. */
static __inline__ __attribute__((no_instrument_function)) void slimline_region_begin(const char *name) {
    static void *known;
    union { void *found; void (*call)(const char *); } begin;
    begin.found = __slimline_find(&known, "slimline_region_begin");
    if (begin.found) begin.call(name);
}

/* It leaves the region that it entered last. */
static __inline__ __attribute__((no_instrument_function)) void slimline_region_end(void) {
    static void *known;
    union { void *found; void (*call)(void); } end;
    end.found = __slimline_find(&known, "slimline_region_end");
    if (end.found) end.call();
}

/* Accesses to these bytes are counted by this name from here on. */
static __inline__ __attribute__((no_instrument_function)) void
slimline_watch(const volatile void *start, size_t bytes, const char *name) {
    static void *known;
    union { void *found; void (*call)(const volatile void *, size_t, const char *); } watch;
    watch.found = __slimline_find(&known, "slimline_watch");
    if (watch.found) watch.call(start, bytes, name);
}

/* Those to what begins there no longer: before the memory is freed, or becomes another's. */
static __inline__ __attribute__((no_instrument_function)) void slimline_unwatch(const volatile void *start) {
    static void *known;
    union { void *found; void (*call)(const volatile void *); } unwatch;
    unwatch.found = __slimline_find(&known, "slimline_unwatch");
    if (unwatch.found) unwatch.call(start);
}

#ifdef __cplusplus
}

namespace slimline {

/* A region that lasts as long as this, on the thread that made it: slimline::region sorting("sorting"); */
class region {
  public:
    explicit region(const char *name) { slimline_region_begin(name); }
    ~region() { slimline_region_end(); }

  private:
    region(const region &);
    region &operator=(const region &);
};

/* Memory that is watched as long as this lasts. */
class watch {
  public:
    watch(const volatile void *start, size_t bytes, const char *name) : start_(start) { slimline_watch(start, bytes, name); }
    ~watch() { slimline_unwatch(start_); }

  private:
    watch(const watch &);
    watch &operator=(const watch &);
    const volatile void *start_;
};

} // namespace slimline
#endif

#endif
