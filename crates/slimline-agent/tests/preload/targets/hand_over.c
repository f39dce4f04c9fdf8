/* Threads allocate, resize and free each other's blocks and check their content; meanwhile the process forks, and the
   children go on likewise with one thread. Then one thread walks over small blocks for a while, and so does a child. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SLOTS = 512, THREADS = 4, ROUNDS = 60000 };

static struct { pthread_mutex_t lock; unsigned char *block; size_t bytes; } slots[SLOTS];

static void work(uint64_t random, int rounds) {
    for (int i = 0; i < rounds; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        int slot = (int)(random >> 33) % SLOTS;
        size_t bytes = (random >> 20) % ((random >> 44) % 64 == 0 ? 3 << 20 : 600);
        if (pthread_mutex_trylock(&slots[slot].lock)) continue;
        unsigned char *block = slots[slot].block;
        if (block && slots[slot].bytes && (block[0] != (unsigned char)slot || block[slots[slot].bytes - 1] != (unsigned char)slot))
            abort();
        if (block && random >> 63) {
            free(block);
            block = NULL;
            bytes = 0;
        } else {
            block = realloc(block, bytes ? bytes : 1);
        }
        if (bytes) block[0] = block[bytes - 1] = (unsigned char)slot;
        slots[slot].block = block;
        slots[slot].bytes = bytes;
        pthread_mutex_unlock(&slots[slot].lock);
    }
}

static void *run(void *seed) { work((uintptr_t)seed, ROUNDS); return NULL; }

struct node { struct node *next; long value[5]; };

__attribute__((noinline)) static struct node *make(struct node *next) {
    struct node *node = malloc(sizeof *node);
    node->next = next;
    node->value[0] = 1;
    return node;
}

static long walk(struct node *list) {
    struct timespec now, start;
    long sum = 0;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
    do {
        for (struct node *node = list; node; node = node->next) sum += node->value[0];
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    } while (now.tv_sec * 1000 + now.tv_nsec / 1000000 < start.tv_sec * 1000 + start.tv_nsec / 1000000 + 300);
    return sum;
}

int main(void) {
    for (int i = 0; i < SLOTS; i++) pthread_mutex_init(&slots[i].lock, NULL);
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, run, (void *)(i + 1));
    for (int i = 0; i < 10; i++) {
        pid_t child = fork();
        if (child == 0) {
            work((uint64_t)i + 100, 2000);
            _exit(i);
        }
        int status;
        waitpid(child, &status, 0);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != i) abort();
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    struct node *list = NULL;
    for (int i = 0; i < 20000; i++) list = make(list);
    walk(list);
    pid_t child = fork();
    if (child == 0) {
        walk(list);
        _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    printf("%zu %d\n", sizeof(struct node), status);
    return 0;
}
