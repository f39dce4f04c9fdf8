// Pages that another thread supplies through userfaultfd. Reading ahead must neither touch nor fill one: faults are counted.

#include "torture.h"
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

enum { PAGES = 512, ROUNDS = 40 };
static int faultfd;
static uint64_t served;

static void *server(void *argument)
{
    static char page[PAGE_BYTES];
    struct uffd_msg message;
    while (read(faultfd, &message, sizeof message) == sizeof message) {
        if (message.event != UFFD_EVENT_PAGEFAULT)
            break;
        served++;
        memset(page, (int)served, sizeof page);
        struct uffdio_copy copy = {.dst = message.arg.pagefault.address & ~(PAGE_BYTES - 1),
                                   .src = (uint64_t)page, .len = PAGE_BYTES};
        CHECK(ioctl(faultfd, UFFDIO_COPY, &copy) == 0);
    }
    return argument;
}

int main(void)
{
    faultfd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    if (faultfd < 0)
        skip("userfaultfd (the kernel refuses it)");
    struct uffdio_api api = {.api = UFFD_API};
    CHECK(ioctl(faultfd, UFFDIO_API, &api) == 0);
    char *memory = pages(PAGES, PROT_READ | PROT_WRITE);
    struct uffdio_register range = {.range = {(uint64_t)memory, PAGES * PAGE_BYTES}, .mode = UFFDIO_REGISTER_MODE_MISSING};
    CHECK(ioctl(faultfd, UFFDIO_REGISTER, &range) == 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, server, NULL) == 0);
    uint64_t sum = 1, *table = calloc(1 << 12, 8);
    for (int round = 0; round < ROUNDS; round++) {
        for (uint64_t page = 0; page < PAGES; page++) {
            sum = worked(table, 1 << 12, 500, sum);
            for (uint64_t i = 0; i < 100; i++)
                sum = mixed(sum, (unsigned char)memory[page * PAGE_BYTES + i * 40]);
        }
        CHECK(madvise(memory, PAGES * PAGE_BYTES, MADV_DONTNEED) == 0);
    }
    printf("%lx %lu served\n", sum, served);
    return 0;
}
