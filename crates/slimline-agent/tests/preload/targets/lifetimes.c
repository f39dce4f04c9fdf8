// Threads that end in every way, on small stacks, many after one another.
#define _GNU_SOURCE
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <threads.h>
#include <unistd.h>

static volatile unsigned long x;

static void spin(long n) {
    for (long i = 0; i < n; i++) x += i * i;
}

static void cleanup(void *what) { printf("cleanup %s\n", (char *)what); }

static void *returns(void *argument) {
    spin(20000000);
    return argument;
}

static void *exits(void *argument) {
    pthread_cleanup_push(cleanup, "exit");
    spin(20000000);
    pthread_exit(argument);
    pthread_cleanup_pop(0);
    return NULL;
}

static void *is_cancelled(void *argument) {
    pthread_cleanup_push(cleanup, "cancel");
    ppoll(NULL, 0, NULL, NULL);
    pthread_cleanup_pop(0);
    return argument;
}

static void *allocates(void *argument) {
    free(malloc(100));
    return argument;
}

static pthread_key_t key;
static void at_end(void *block) { free(block); free(malloc(10)); }
static void *with_key(void *argument) {
    pthread_setspecific(key, malloc(200));
    return argument;
}

static int c11(void *argument) {
    spin(20000000);
    return *(int *)argument;
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    pthread_t thread;
    void *result;
    int seven = 7;
    pthread_create(&thread, NULL, returns, &seven);
    pthread_join(thread, &result);
    printf("returned %d\n", result == &seven);
    pthread_create(&thread, NULL, exits, &seven);
    pthread_join(thread, &result);
    printf("exited %d\n", result == &seven);
    pthread_create(&thread, NULL, is_cancelled, &seven);
    usleep(100000);
    pthread_cancel(thread);
    pthread_join(thread, &result);
    printf("cancelled %d\n", result == PTHREAD_CANCELED);
    thrd_t c11_thread;
    int status = 0;
    thrd_create(&c11_thread, c11, &seven);
    thrd_join(c11_thread, &status);
    printf("C11 %d\n", status);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, PTHREAD_STACK_MIN);
    pthread_create(&thread, &small, returns, &seven);
    pthread_join(thread, &result);
    printf("small stack %d\n", result == &seven);
    pthread_key_create(&key, at_end);
    for (int i = 0; i < 2500; i++) {
        pthread_create(&thread, NULL, i % 2 ? allocates : with_key, &seven);
        pthread_join(thread, NULL);
    }
    printf("done\n");
    pthread_exit(NULL);
}
