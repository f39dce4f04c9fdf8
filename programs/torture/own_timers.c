// A program that profiles and times itself: ITIMER_PROF, ITIMER_REAL, POSIX timers by signal and by thread, alarm.

#include "torture.h"
#include <pthread.h>
#include <sys/time.h>
#include <time.h>

static volatile int profiled, ticked, queued, threaded, alarmed;

static void on_signal(int signal, siginfo_t *info, void *context)
{
    (void)context;
    if (signal == SIGPROF)
        profiled++;
    else if (signal == SIGVTALRM)
        ticked++;
    else if (signal == SIGALRM)
        alarmed++;
    else if (info->si_code == SI_TIMER && info->si_value.sival_int == 77)
        queued++;
}

static void by_thread(union sigval value)
{
    __atomic_fetch_add(&threaded, value.sival_int == 78, __ATOMIC_RELAXED);
}

int main(void)
{
    struct itimerval often = {{0, 3000}, {0, 3000}}, none = {0};
    struct itimerspec interval = {{0, 5000000}, {0, 5000000}}, stopped = {0};
    struct sigevent by_signal = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 1, .sigev_value.sival_int = 77};
    struct sigevent in_thread = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = by_thread, .sigev_value.sival_int = 78};
    timer_t timers[2];
    handle(SIGPROF, on_signal, SA_RESTART);
    handle(SIGVTALRM, on_signal, SA_RESTART);
    handle(SIGALRM, on_signal, SA_RESTART);
    handle(SIGRTMIN + 1, on_signal, SA_RESTART);
    CHECK(setitimer(ITIMER_PROF, &often, NULL) == 0 && setitimer(ITIMER_VIRTUAL, &often, NULL) == 0);
    CHECK(timer_create(CLOCK_THREAD_CPUTIME_ID, &by_signal, &timers[0]) == 0 && timer_settime(timers[0], 0, &interval, NULL) == 0);
    CHECK(timer_create(CLOCK_MONOTONIC, &in_thread, &timers[1]) == 0 && timer_settime(timers[1], 0, &interval, NULL) == 0);
    uint64_t *table = calloc(1 << 12, 8), sum = 1, rounds = 0;
    ualarm(20000, 0);
    while (profiled < 20 || ticked < 20 || queued < 20 || __atomic_load_n(&threaded, __ATOMIC_RELAXED) < 20 || alarmed < 1) {
        sum = worked(table, 1 << 12, 10000, rounds == 0 ? 1 : sum);
        rounds++;
    }
    CHECK(setitimer(ITIMER_PROF, &none, NULL) == 0 && setitimer(ITIMER_VIRTUAL, &none, NULL) == 0);
    struct itimerspec left;
    CHECK(timer_gettime(timers[0], &left) == 0 && left.it_interval.tv_nsec == 5000000 && timer_getoverrun(timers[0]) >= 0);
    CHECK(timer_settime(timers[0], 0, &stopped, NULL) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(timer_delete(timers[i]) == 0);
    CHECK(timer_delete(timers[0]) == -1 && errno == EINVAL);
    printf("all came, alarms %d\n", alarmed);
    return 0;
}
