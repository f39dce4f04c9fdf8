// Pages that userfaultfd protects against writes: another thread lifts the protection, and counts how often.

#include "torture.h"
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

enum { PAGES = 256, ROUNDS = 100 };
static int faultfd;
static uint64_t served;

static int protect(uint64_t start, uint64_t bytes, int on)
{
    struct uffdio_writeprotect change = {.range = {start, bytes}, .mode = on ? UFFDIO_WRITEPROTECT_MODE_WP : 0};
    return ioctl(faultfd, UFFDIO_WRITEPROTECT, &change);
}

static void *server(void *argument)
{
    struct uffd_msg message;
    while (read(faultfd, &message, sizeof message) == sizeof message) {
        served++;
        CHECK(protect(message.arg.pagefault.address & ~(PAGE_BYTES - 1), PAGE_BYTES, 0) == 0);
    }
    return argument;
}

int main(void)
{
    faultfd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    if (faultfd < 0)
        skip("userfaultfd (the kernel refuses it)");
    struct uffdio_api api = {.api = UFFD_API, .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP};
    if (ioctl(faultfd, UFFDIO_API, &api))
        skip("write protection by userfaultfd (the kernel has none)");
    char *memory = pages(PAGES, PROT_READ | PROT_WRITE);
    memset(memory, 1, PAGES * PAGE_BYTES);
    struct uffdio_register range = {.range = {(uint64_t)memory, PAGES * PAGE_BYTES}, .mode = UFFDIO_REGISTER_MODE_WP};
    CHECK(ioctl(faultfd, UFFDIO_REGISTER, &range) == 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, server, NULL) == 0);
    uint64_t sum = 1;
    for (int round = 0; round < ROUNDS; round++) {
        CHECK(protect((uint64_t)memory, PAGES * PAGE_BYTES, 1) == 0);
        for (uint64_t page = 0; page < PAGES; page++) {
            uint64_t *words = (uint64_t *)(memory + page * PAGE_BYTES);
            for (uint64_t i = 0; i < 512; i++)
                sum = mixed(sum, words[i]);
            for (uint64_t i = 0; i < 512; i++)
                words[i] += sum;
        }
    }
    printf("%lx %lu served\n", sum, served);
    return 0;
}
