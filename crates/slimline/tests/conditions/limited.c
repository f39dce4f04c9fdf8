// A program at its resource limits: what it prints must be the same recorded as alone.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long status_kb(const char *name) {
  char line[256];
  long found = -1;
  FILE *file = fopen("/proc/self/status", "r");
  while (fgets(line, sizeof line, file))
    if (!strncmp(line, name, strlen(name))) found = atol(line + strlen(name));
  fclose(file);
  return found;
}

static volatile long sink;
static void *work(void *seed) {
  volatile long *cells = malloc(50000);
  long sum = (long)seed;
  for (long i = 0; i < 40000000; i++) sum += cells[i * 7 % 6000] = i;
  free((void *)cells);
  sink = sum;
  return 0;
}

static void tell(const char *what, long failed) {
  printf("%s: %s\n", what, failed ? strerror(errno) : "done");
}

// lock FLAGS WAY: all memory is locked, then more is mapped.
static int lock(int flags, const char *way) {
  int raw = !strcmp(way, "raw");
  tell("mlockall", raw ? syscall(SYS_mlockall, flags) : mlockall(flags));
  long before = status_kb("VmLck:");
  char *more = mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  printf("mmap: %s\n", more == MAP_FAILED ? strerror(errno) : "done");
  long after = status_kb("VmLck:");
  pthread_t thread;
  if (!pthread_create(&thread, 0, work, 0)) pthread_join(thread, 0);
  work(0);
  long end = status_kb("VmLck:");
  tell("munlockall", raw ? syscall(SYS_munlockall) : munlockall());
  printf("locked kB: %ld %ld %ld %ld\n", before, after, end, status_kb("VmLck:"));
  return 0;
}

// pending: as many timers and queued signals as the limit allows.
static int pending(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGRTMIN);
  sigprocmask(SIG_BLOCK, &set, 0);
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN};
  timer_t timer;
  int timers = 0, queued = 0;
  while (timers < 3 && !timer_create(CLOCK_MONOTONIC, &event, &timer)) timers++;
  while (queued < 1000 && !sigqueue(getpid(), SIGRTMIN, (union sigval){.sival_int = queued})) queued++;
  printf("%d timers, %d signals, then %s\n", timers, queued, strerror(errno));
  work(0);
  return 0;
}

// threads N
static int threads(int count) {
  pthread_t made[64];
  for (long i = 0; i < count; i++)
    if (pthread_create(&made[i], 0, work, (void *)i)) return 1;
  for (int i = 0; i < count; i++) pthread_join(made[i], 0);
  return puts("done") < 0;
}

// space MIB: as many blocks as fit into the address space that it leaves itself.
static int space(long mib) {
  struct rlimit limit = {mib << 20, mib << 20};
  setrlimit(RLIMIT_AS, &limit);
  long blocks = 0;
  while (blocks < mib * 600 && malloc(1000)) blocks++;
  printf("%ld blocks\n", blocks);
  work(0);
  return 0;
}

int main(int count, char **argument) {
  if (count > 2 && !strcmp(argument[1], "space")) return space(atol(argument[2]));
  if (count > 3 && !strcmp(argument[1], "lock")) return lock(atoi(argument[2]), argument[3]);
  if (count > 1 && !strcmp(argument[1], "pending")) return pending();
  if (count > 2 && !strcmp(argument[1], "threads")) return threads(atoi(argument[2]));
  return 1;
}
