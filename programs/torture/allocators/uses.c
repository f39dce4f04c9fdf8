// Allocates wherever a program may: in constructors and destructors, threads, thread-local destructors, handlers of
// pthread_atfork, forked and exec'd children, and a signal handler that interrupts no allocation. Its checksum is of contents.

#include "../torture.h"
#include <malloc.h>
#include <pthread.h>
#include <sys/wait.h>

enum { THREADS = 3, SLOTS = 256, STEPS = 60000 };
static void *from_constructor, *from_handler[64], *from_fork[3];
static volatile int handled;
static pthread_key_t key;

__attribute__((constructor(101))) static void constructed(void)
{
    from_constructor = calloc(100, 77);
    for (int i = 1; i < 1000; i++)
        free(realloc(malloc(i), i * 3));
}

__attribute__((destructor(101))) static void destroyed(void)
{
    for (int i = 1; i < 1000; i++)
        free(aligned_alloc(64, 64 * i));
    free(from_constructor);
}

static void on_signal(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info, (void)context;
    free(from_handler[handled & 63]);
    from_handler[handled & 63] = malloc(handled * 11 % 3000 + 1);
    handled++;
}

static void prepare(void)
{
    from_fork[0] = realloc(from_fork[0], 5000);
}

static void in_parent(void)
{
    from_fork[1] = realloc(from_fork[1], 6000);
}

static void in_child(void)
{
    from_fork[2] = realloc(from_fork[2], 7000);
}

static void *allocating(void *seed)
{
    unsigned char *blocks[SLOTS] = {0};
    uint64_t random = (uint64_t)seed * 2 + 1, sum = (uint64_t)seed;
    pthread_setspecific(key, malloc(500));
    for (int i = 0; i < STEPS; i++) {
        random = mixed(random, i);
        unsigned char **slot = &blocks[random % SLOTS];
        size_t bytes = random >> 20 & (random & 0x3f000000 ? 1023 : 0x3ffff);
        if (*slot)
            sum = mixed(sum, (*slot)[0]);
        switch (random >> 60) {
        case 0: case 1: case 2: *slot = realloc(*slot, bytes + 1); break;
        case 3: free(*slot); CHECK(posix_memalign((void **)slot, 128, bytes + 1) == 0); break;
        case 4: free(*slot); *slot = calloc(bytes + 1, 1); sum += (*slot)[bytes]; break;
        default: free(*slot); *slot = malloc(bytes + 1); break;
        }
        CHECK(*slot && malloc_usable_size(*slot) > bytes);
        (*slot)[0] = (unsigned char)random, (*slot)[bytes] = (unsigned char)sum, (*slot)[0] = (unsigned char)random;
        if (i % 5000 == 0)
            raise(SIGUSR1);
    }
    for (int i = 0; i < SLOTS; i++)
        free(blocks[i]);
    return (void *)sum;
}

static uint64_t all_threads(void)
{
    static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
    pthread_t threads[THREADS];
    uint64_t sum = 1;
    void *result;
    pthread_mutex_lock(&one);
    for (uint64_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, allocating, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &result);
        sum = mixed(sum, (uint64_t)result);
    }
    pthread_mutex_unlock(&one);
    return sum;
}

int main(int argc, char **argv)
{
    sigset_t usr1;
    if (argc > 1)
        return (int)((uint64_t)allocating((void *)7) & 63);
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    CHECK(pthread_key_create(&key, free) == 0 && pthread_atfork(prepare, in_parent, in_child) == 0);
    // Only this thread takes them, between allocations.
    pthread_sigmask(SIG_BLOCK, &usr1, NULL);
    handle(SIGUSR1, on_signal, 0);
    uint64_t sum = all_threads();
    pthread_sigmask(SIG_UNBLOCK, &usr1, NULL);
    for (int i = 0; i < 8; i++) {
        int status;
        raise(SIGUSR1);
        pid_t child = i & 1 ? fork() : vfork();
        if (child == 0) {
            if (i & 1)
                _exit((int)((uint64_t)allocating((void *)(uint64_t)i) & 63));
            execl("/proc/self/exe", argv[0], "child", NULL);
            _exit(99);
        }
        CHECK(child > 0 && waitpid(child, &status, 0) == child);
        sum = mixed(sum, status);
    }
    printf("%lx handled %d\n", mixed(sum, all_threads()), handled);
    return 0;
}
