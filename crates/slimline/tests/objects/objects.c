// Spends its time in one sort of object, named by the first argument. What each is made of stands where it is made.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

struct item {
    double value;
    long key;
    char rest[48];
};

enum { ITEMS = 1 << 12, PASSES = 20000, PARTS = 4, THREADS = 3 };
static const size_t BYTES = ITEMS * sizeof(struct item);

// Each pass over all parts in turn: some 0.5 s.
static __attribute__((noinline)) double walk(struct item **parts, int count) {
    double sum = 0;
    for (int pass = 0; pass < PASSES / count; pass++)
        for (int part = 0; part < count; part++)
            for (long i = 0; i < ITEMS; i++) {
                parts[part][i].value += 1;
                sum += parts[part][i].key;
            }
    return sum;
}

static __thread struct item per_thread[ITEMS];

static void *walk_per_thread(void *unused) {
    (void)unused;
    struct item *own = per_thread;
    double sum = 0;
    for (int pass = 0; pass < PASSES / THREADS; pass++)
        for (long i = 0; i < ITEMS; i++) {
            own[i].value += 1;
            sum += own[i].key;
        }
    static __thread double result;
    result = sum;
    return result == 1 ? &result : NULL;
}

static double of_threads(void) {
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, walk_per_thread, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}

// An arena of the program's own, from the break.
static __attribute__((noinline)) struct item *from_break(void) {
    void *start = sbrk(BYTES);
    return start == (void *)-1 ? NULL : start;
}

static __attribute__((noinline)) struct item *from_mmap(int flags, int file, off_t offset) {
    void *start = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, flags, file, offset);
    return start == MAP_FAILED ? NULL : start;
}

static __attribute__((noinline)) struct item *table(void) {
    return from_mmap(MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static __attribute__((noinline)) struct item *common(void) {
    return from_mmap(MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

static double of_four(struct item *(*make)(void)) {
    struct item *parts[PARTS];
    for (int i = 0; i < PARTS; i++)
        if (!(parts[i] = make()))
            return -1;
    return walk(parts, PARTS);
}

static double of_file(int file, int flags, off_t offset) {
    if (file < 0 || ftruncate(file, offset + BYTES))
        return -1;
    struct item *items = from_mmap(flags, file, offset);
    close(file);
    return items ? walk(&items, 1) : -1;
}

static double of_segment(void) {
    int id = shmget(0x51311e, BYTES, IPC_CREAT | 0600);
    struct item *items = shmat(id, NULL, 0);
    if (items == (void *)-1)
        return -1;
    shmctl(id, IPC_RMID, NULL);
    double sum = walk(&items, 1);
    shmdt(items);
    return sum;
}

int main(int count, char **arguments) {
    const char *what = count > 1 ? arguments[1] : "";
    double result = -1;
    if (!strcmp(what, "thread-local")) result = of_threads();
    if (!strcmp(what, "break")) result = of_four(from_break);
    if (!strcmp(what, "anonymous")) result = of_four(table);
    if (!strcmp(what, "shared")) result = of_four(common);
    if (!strcmp(what, "shm")) {
        char name[40];
        snprintf(name, sizeof name, "/slimline-objects-%d", (int)getpid());
        result = of_file(shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600), MAP_SHARED, 0);
        shm_unlink(name);
    }
    if (!strcmp(what, "memfd")) result = of_file(memfd_create("pool", 0), MAP_SHARED, 0);
    if (!strcmp(what, "sysv")) result = of_segment();
    if (!strcmp(what, "file")) result = of_file(open("items.bin", O_RDWR | O_CREAT, 0600), MAP_PRIVATE, 1 << 16);
    printf("%g\n", result);
    return result < 0;
}
