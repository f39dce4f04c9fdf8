// Calls that a handler of somebody else would interrupt: poll, nanosleep, epoll_wait, futexes, semaphores, connect, recv with
// a time limit. None may end with EINTR, as the program has no handler.

#include "torture.h"
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>

static uint64_t interrupted;

static void *caller(void *argument)
{
    uint64_t *table = calloc(1 << 12, 8), sum = 1;
    int ends[2], epoll = epoll_create1(0);
    sem_t semaphore;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 && sem_init(&semaphore, 0, 0) == 0);
    setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){.tv_usec = 1}, sizeof(struct timeval));
    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &(struct epoll_event){.events = EPOLLIN}) == 0);
    for (int i = 0; i < 1500; i++) {
        sum = worked(table, 1 << 12, 250, sum);
        int result = 0;
        struct timespec until;
        char byte;
        fd_set set;
        errno = 0;
        switch (i % 6) {
        case 0: result = poll(&(struct pollfd){.fd = ends[0], .events = POLLIN}, 1, 0); break;
        case 1: result = nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL); break;
        case 2: result = epoll_wait(epoll, &(struct epoll_event){0}, 1, 0); break;
        case 3: result = (int)recv(ends[0], &byte, 1, 0); break;
        case 4:
            clock_gettime(CLOCK_REALTIME, &until);
            result = sem_timedwait(&semaphore, &until);
            break;
        case 5:
            FD_ZERO(&set);
            FD_SET(ends[0], &set);
            result = select(ends[0] + 1, &set, NULL, NULL, &(struct timeval){.tv_usec = 20});
            break;
        }
        if (result == -1 && errno == EINTR)
            __atomic_fetch_add(&interrupted, 1, __ATOMIC_RELAXED);
    }
    free(table);
    return argument;
}

int main(void)
{
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], NULL, caller, NULL) == 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    printf("%lu interrupted\n", interrupted);
    return 0;
}
