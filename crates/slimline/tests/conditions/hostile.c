/* What programs do that a profiler may trip over. `hostile CONDITION [NUMBER]` prints what it finds and sums that take a
   while; alone and recorded it must print the same. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

struct item { double value; long key; char rest[48]; };

/* Walks an array of structures that is on the heap. */
static double walk(long items, int passes)
{
    struct item *array = calloc(items, sizeof *array);
    double sum = 0;
    for (int pass = 0; pass < passes; pass++)
        for (long i = 0; i < items; i++)
            sum += array[i].value + array[i].key++;
    free(array);
    return sum;
}

static void work(void) { printf("%.0f\n", walk(1 << 18, 60)); }

static void fail(const char *what) { perror(what); exit(9); }

/* --- threads --- */

static void *short_thread(void *argument)
{
    char *block = malloc(100);
    memset(block, (int)(long)argument, 100);
    long sum = block[50];
    free(block);
    return (void *)sum;
}

static void short_threads(long number)
{
    long sum = 0;
    for (long i = 0; i < number; i += 8) {
        pthread_t threads[8];
        for (int k = 0; k < 8; k++)
            if (pthread_create(&threads[k], NULL, short_thread, (void *)(i + k & 63))) fail("pthread_create");
        for (int k = 0; k < 8; k++) {
            void *result;
            pthread_join(threads[k], &result);
            sum += (long)result;
        }
    }
    printf("%ld\n", sum);
}

static pthread_barrier_t barrier;

static void *live_thread(void *argument)
{
    pthread_barrier_wait(&barrier);
    double *sum = malloc(sizeof *sum);
    *sum = walk(1 << 10, (int)(long)argument);
    pthread_barrier_wait(&barrier);
    return sum;
}

static void live_threads(long number)
{
    pthread_t *threads = calloc(number, sizeof *threads);
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 << 10);
    pthread_barrier_init(&barrier, NULL, number);
    for (long i = 0; i < number; i++)
        if (pthread_create(&threads[i], &small, live_thread, (void *)200)) fail("pthread_create");
    double sum = 0;
    for (long i = 0; i < number; i++) {
        void *result;
        pthread_join(threads[i], &result);
        sum += *(double *)result;
        free(result);
    }
    printf("%.0f\n", sum);
}

/* --- heap --- */

static void allocations(long number)
{
    static char *blocks[1024];
    unsigned long random = 1, sum = 0;
    for (long i = 0; i < number; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        char **block = &blocks[random >> 54];
        if (*block) sum += (unsigned char)**block;
        free(*block);
        *block = malloc(1 + (random >> 40 & 63));
        **block = (char)i;
    }
    printf("%lu\n", sum);
}

/* --- processes --- */

static void fork_storm(long number)
{
    long sum = 0, running = 0;
    for (long i = 0; i < number; i++) {
        if (running == 16) {
            int status;
            if (wait(&status) < 0) fail("wait");
            sum += WEXITSTATUS(status);
            running--;
        }
        pid_t child = fork();
        if (child < 0) fail("fork");
        if (!child) {
            if (i % 3 == 0) {
                pid_t grandchild = fork();
                if (!grandchild) _exit(walk(100, 10) < 0);
                waitpid(grandchild, NULL, 0);
            }
            _exit((int)((long)walk(100, 3 + i % 5) & 63));
        }
        running++;
    }
    for (int status; wait(&status) > 0;) sum += WEXITSTATUS(status);
    printf("%ld\n", sum);
}

extern char **environ;

static void spawn_storm(long number)
{
    long failed = 0;
    for (long i = 0; i < number; i++) {
        pid_t child;
        char *arguments[] = {"true", NULL};
        int status = -1;
        if (posix_spawn(&child, "/bin/true", NULL, NULL, arguments, environ)) fail("posix_spawn");
        waitpid(child, &status, 0);
        failed += status != 0;
        child = vfork();
        if (!child) { execl("/bin/false", "false", NULL); _exit(99); }
        waitpid(child, &status, 0);
        failed += status != 1 << 8;
    }
    printf("%ld failed\n", failed);
}

/* --- libraries --- */

static void libraries(long number)
{
    long sum = 0;
    for (long i = 0; i < number; i++) {
        void *library = dlopen("./libplugin.so", RTLD_NOW | RTLD_LOCAL);
        if (!library) { fprintf(stderr, "%s\n", dlerror()); exit(9); }
        long (*plugin)(long) = (long (*)(long))dlsym(library, "plugin");
        sum += plugin(i);
        dlclose(library);
    }
    printf("%ld\n", sum);
}

/* --- descriptors, identity, root --- */

static void close_all(long unused)
{
    (void)unused;
    for (int descriptor = 3; descriptor < 1024; descriptor++) close(descriptor);
    printf("%d\n", open("/dev/null", O_RDONLY));
    syscall(SYS_close_range, 3, ~0u, 0);
    printf("%d\n", open("/dev/null", O_RDONLY));
    work();
}

static void drop_user(long unused)
{
    (void)unused;
    if (setgid(65534) || setuid(65534)) fail("setuid");
    printf("%d %d\n", getuid(), geteuid());
    work();
    pid_t child = fork();
    if (!child) { work(); exit(3); }
    int status;
    waitpid(child, &status, 0);
    printf("%d\n", WEXITSTATUS(status));
}

static void change_root(long unused)
{
    (void)unused;
    if (chroot(".") || chdir("/")) fail("chroot");
    printf("%d\n", access("/proc", F_OK));
    work();
    fflush(stdout);
    pid_t child = fork();
    if (!child) { work(); exit(3); }
    int status;
    waitpid(child, &status, 0);
    printf("%d\n", WEXITSTATUS(status));
}

/* --- signals --- */

static void reset_signals(long unused)
{
    (void)unused;
    int changed = 0;
    for (int number = 1; number < 65; number++) {
        struct sigaction action;
        if (!sigaction(number, NULL, &action) && action.sa_handler != SIG_DFL) changed++;
        signal(number, SIG_DFL);
    }
    sigset_t all, old;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &old);
    printf("%d %d\n", changed, sigismember(&old, SIGTRAP));
    work();
    sigprocmask(SIG_SETMASK, &old, NULL);
    work();
}

static volatile sig_atomic_t alarms;
static void on_alarm(int number) { (void)number; alarms++; }

static void own_timers(long unused)
{
    (void)unused;
    signal(SIGPROF, on_alarm);
    signal(SIGALRM, on_alarm);
    signal(SIGRTMIN, on_alarm);
    struct itimerval every = {{0, 2000}, {0, 2000}};
    setitimer(ITIMER_PROF, &every, NULL);
    setitimer(ITIMER_REAL, &every, NULL);
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN};
    struct itimerspec spec = {{0, 2000000}, {0, 2000000}};
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &spec, NULL)) fail("timer");
    work();
    printf("%s\n", alarms > 3 ? "alarms" : "no alarms");
}

static sigjmp_buf after_fault;
static void on_fault(int number) { (void)number; siglongjmp(after_fault, 1); }

static void faults(long number)
{
    static char alternate[64 << 10];
    stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    sigaltstack(&stack, NULL);
    struct sigaction action = {.sa_handler = on_fault, .sa_flags = SA_ONSTACK};
    sigaction(SIGSEGV, &action, NULL);
    char *forbidden = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    volatile long caught = 0;
    for (volatile long i = 0; i < number; i++)
        if (sigsetjmp(after_fault, 1)) caught++;
        else *(volatile char *)forbidden = 1;
    printf("%ld\n", caught);
    work();
}

/* --- stacks --- */

static ucontext_t main_context, contexts[64];
static long coroutine_sum;

static void coroutine(int number)
{
    for (int round = 0; round < 2000; round++) {
        long buffer[64];
        for (int i = 0; i < 64; i++) buffer[i] = (long)number * i + round;
        for (int i = 0; i < 64; i++) coroutine_sum += buffer[(i * 7 + round) & 63];
        if (number + 1 < 64) swapcontext(&contexts[number], &contexts[number + 1]);
        else swapcontext(&contexts[number], &contexts[0]);
    }
}

static void coroutines(long unused)
{
    (void)unused;
    for (int number = 0; number < 64; number++) {
        getcontext(&contexts[number]);
        contexts[number].uc_stack.ss_sp = mmap(NULL, 16 << 10, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        contexts[number].uc_stack.ss_size = 16 << 10;
        contexts[number].uc_link = &main_context;
        makecontext(&contexts[number], (void (*)(void))coroutine, 1, number);
    }
    swapcontext(&main_context, &contexts[0]);
    printf("%ld\n", coroutine_sum);
}

/* --- confinement --- */

/* From now on the kernel kills the process at any system call but these. */
static void confine(long unused)
{
    (void)unused;
    static const int allowed[] = {SYS_read, SYS_write, SYS_exit, SYS_exit_group, SYS_brk, SYS_mmap, SYS_munmap,
        SYS_rt_sigreturn, SYS_newfstatat, SYS_fstat};
    struct sock_filter program[2 * sizeof allowed / sizeof *allowed + 2];
    int length = 0;
    program[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (unsigned i = 0; i < sizeof allowed / sizeof *allowed; i++) {
        program[length++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], 0, 1);
        program[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    }
    program[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    struct sock_fprog filter = {length, program};
    work();
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) fail("seccomp");
    work();
    work();
}

/* The kernel kills the process at any system call but read, write, exit and sigreturn. */
static void confine_strictly(long unused)
{
    (void)unused;
    double sum = walk(1 << 12, 100);
    struct item *array = calloc(1 << 12, sizeof *array);
    printf("before\n");
    fflush(stdout);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)) fail("seccomp");
    for (int pass = 0; pass < 20000; pass++)
        for (long i = 0; i < 1 << 12; i++) sum += array[i].value + array[i].key++;
    char text[64];
    int length = snprintf(text, sizeof text, "%.0f\n", sum);
    syscall(SYS_write, 1, text, length);
    syscall(SYS_exit, 0);
}

static const struct { const char *name; void (*run)(long); } conditions[] = {
    {"short-threads", short_threads}, {"live-threads", live_threads}, {"allocations", allocations},
    {"fork-storm", fork_storm}, {"spawn-storm", spawn_storm}, {"libraries", libraries}, {"close-all", close_all},
    {"drop-user", drop_user}, {"change-root", change_root}, {"reset-signals", reset_signals},
    {"own-timers", own_timers}, {"faults", faults}, {"coroutines", coroutines}, {"confine", confine},
    {"confine-strictly", confine_strictly},
};

int main(int argc, char **argv)
{
    for (unsigned i = 0; argc > 1 && i < sizeof conditions / sizeof *conditions; i++)
        if (!strcmp(argv[1], conditions[i].name)) {
            conditions[i].run(argc > 2 ? atol(argv[2]) : 0);
            return 0;
        }
    fprintf(stderr, "no such condition\n");
    return 8;
}
