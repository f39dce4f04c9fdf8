// Threads by the thousand, detached and joined, cancelled at once and at points, with data and destructors of their own.

#include "torture.h"
#include <pthread.h>
#include <sched.h>

static pthread_key_t key;
static uint64_t destroyed, cleaned, ended;
static __thread uint64_t own[512];

static void destroy(void *value)
{
    __atomic_fetch_add(&destroyed, 1, __ATOMIC_RELAXED);
    free(value);
}

static void clean(void *unused)
{
    (void)unused;
    __atomic_fetch_add(&cleaned, 1, __ATOMIC_RELAXED);
}

static void *short_lived(void *seed)
{
    pthread_setspecific(key, malloc(100));
    uint64_t sum = worked(own, 512, 20000, (uint64_t)seed);
    __atomic_fetch_add(&ended, 1, __ATOMIC_RELAXED);
    return (void *)sum;
}

static void *cancelled(void *asynchronous)
{
    int old;
    pthread_setspecific(key, malloc(100));
    pthread_cleanup_push(clean, NULL);
    if (asynchronous)
        pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
    for (;;) {
        worked(own, 512, 100, 1);
        if (!asynchronous)
            pthread_testcancel();
    }
    pthread_cleanup_pop(0);
    return NULL;
}

int main(void)
{
    uint64_t sum = 1;
    pthread_key_create(&key, destroy);
    for (uint64_t i = 0; i < 1500; i++) {
        pthread_t thread;
        void *result;
        CHECK(pthread_create(&thread, NULL, short_lived, (void *)i) == 0);
        if (i % 3 == 0) {
            pthread_detach(thread);
            continue;
        }
        pthread_join(thread, &result);
        sum = mixed(sum, (uint64_t)result);
    }
    for (uint64_t i = 0; i < 200; i++) {
        pthread_t thread;
        void *result;
        CHECK(pthread_create(&thread, NULL, cancelled, (void *)(i & 1)) == 0);
        for (volatile int k = 0; k < 3000; k++)
            ;
        pthread_cancel(thread);
        pthread_join(thread, &result);
        CHECK(result == PTHREAD_CANCELED);
    }
    while (__atomic_load_n(&ended, __ATOMIC_RELAXED) < 1500)
        sched_yield();
    printf("%lx %lu %lu\n", sum, ended, cleaned);
    return 0;
}
