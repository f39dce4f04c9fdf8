/* slimline.h: which part of a program `slimline trace` traces.
 *
 *     slimline header > slimline.h
 *     slimline trace --paused --live -- ./program
 *
 * Both functions hold for the calling process and all of its threads: functions that begin afterwards are traced, or
 * not, and loops from the next time that they go round. In programs that are not traced they do nothing; nothing has to be
 * linked. Programs that were not compiled by slimline cc say it by an instruction that does nothing, for those who run
 * them by slimline trace --collector translate. */
#ifndef SLIMLINE_H
#define SLIMLINE_H

#ifdef __cplusplus
extern "C" {
#endif

extern void __slimline_start(void) __attribute__((weak));
extern void __slimline_stop(void) __attribute__((weak));

#ifdef __x86_64__
#define SLIMLINE_SAYS(what) __asm__ volatile(".byte 0x0f, 0x1f, 0x80, 'S', 'L', 'M', " #what : : : "memory")
#else
#define SLIMLINE_SAYS(what) ((void)0)
#endif

/* Trace from now on. */
static inline __attribute__((always_inline)) void slimline_start(void) {
    if (__slimline_start) __slimline_start();
    else SLIMLINE_SAYS(1);
}

/* Trace nothing from now on, until slimline_start(). */
static inline __attribute__((always_inline)) void slimline_stop(void) {
    if (__slimline_stop) __slimline_stop();
    else SLIMLINE_SAYS(2);
}

#ifdef __cplusplus
}
#endif

#endif
