// Handlers of pthread_atfork that allocate, lock and start threads, in a process whose other threads allocate all the time.

#include "torture.h"
#include <pthread.h>
#include <sys/wait.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int over, prepared, parents, children;
static void *kept[64];

static void allocate(int *count)
{
    free(kept[*count & 63]);
    kept[*count & 63] = malloc(100 + (size_t)*count * 13 % 70000);
    (*count)++;
}

static void before(void)
{
    pthread_mutex_lock(&lock);
    allocate(&prepared);
}

static void after_in_parent(void)
{
    allocate(&parents);
    pthread_mutex_unlock(&lock);
}

static void *nothing(void *argument)
{
    free(malloc(1000));
    return argument;
}

static void after_in_child(void)
{
    pthread_t thread;
    allocate(&children);
    pthread_mutex_unlock(&lock);
    CHECK(pthread_create(&thread, NULL, nothing, NULL) == 0);
    pthread_join(thread, NULL);
}

static void *allocator(void *unused)
{
    void *blocks[64] = {0};
    for (uint64_t i = 0; !__atomic_load_n(&over, __ATOMIC_ACQUIRE); i++) {
        free(blocks[i & 63]);
        blocks[i & 63] = malloc(i * 37 % 5000);
    }
    for (int i = 0; i < 64; i++)
        free(blocks[i]);
    return unused;
}

int main(void)
{
    pthread_t threads[2];
    CHECK(pthread_atfork(before, after_in_parent, after_in_child) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, allocator, NULL) == 0);
    uint64_t *table = calloc(1 << 12, 8), sum = 1;
    int right = 0;
    for (int i = 0; i < 100; i++) {
        int status;
        sum = worked(table, 1 << 12, 2000, sum);
        pid_t child = fork();
        if (child == 0)
            _exit(children == 1 && prepared == i + 1 ? 0 : 1);
        CHECK(child > 0 && waitpid(child, &status, 0) == child);
        right += status == 0;
    }
    __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("%lx %d %d %d\n", sum, prepared, parents, right);
    return 0;
}
