/* slimline.h: which part of a program `slimline trace` traces.
 *
 *     slimline header > slimline.h
 *     slimline trace --paused --live -- ./program
 *
 * Both functions hold for the calling process and all of its threads: functions that begin afterwards are traced, or
 * not, and loops from the next time that they go round. In programs that are not traced, or were not compiled by slimline
 * cc, they do nothing; nothing has to be linked. */
#ifndef SLIMLINE_H
#define SLIMLINE_H

#ifdef __cplusplus
extern "C" {
#endif

extern void __slimline_start(void) __attribute__((weak));
extern void __slimline_stop(void) __attribute__((weak));

/* Trace from now on. */
static inline __attribute__((always_inline)) void slimline_start(void) {
    if (__slimline_start) __slimline_start();
}

/* Trace nothing from now on, until slimline_start(). */
static inline __attribute__((always_inline)) void slimline_stop(void) {
    if (__slimline_stop) __slimline_stop();
}

#ifdef __cplusplus
}
#endif

#endif
