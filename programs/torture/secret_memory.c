// Memory of memfd_secret, which the kernel itself can't read: neither process_vm_readv nor a write from it works.

#include "torture.h"
#include <sys/syscall.h>

#ifndef SYS_memfd_secret
#define SYS_memfd_secret 447
#endif

int main(void)
{
    enum { PAGES = 16 };
    int file = (int)syscall(SYS_memfd_secret, 0);
    if (file < 0)
        skip("memfd_secret (the kernel has none)");
    CHECK(ftruncate(file, PAGES * PAGE_BYTES) == 0);
    uint64_t *secret = mmap(NULL, PAGES * PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (secret == MAP_FAILED)
        skip("memfd_secret (no memory may be locked)");
    memset(secret, 1, PAGES * PAGE_BYTES);
    printf("%lx\n", worked(secret, PAGES * PAGE_BYTES / 8, 8000000, 1));
    return 0;
}
