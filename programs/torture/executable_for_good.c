// Memory that can run can't be written, and what could be written will never run (PR_SET_MDWE): so it is for the program
// that this one goes on to, for children, and for libraries that it loads.

#include "torture.h"
#include <dlfcn.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#endif

int main(int argc, char **argv)
{
    if (argc == 1) {
        if (prctl(PR_SET_MDWE, 1, 0, 0, 0) != 0)
            skip("the kernel has no PR_SET_MDWE");
        execl("/proc/self/exe", argv[0], "again", NULL);
        CHECK(0);
    }
    CHECK(mprotect(pages(1, PROT_READ | PROT_WRITE), PAGE_BYTES, PROT_READ | PROT_EXEC) != 0 && errno == EACCES);
    uint64_t *table = calloc(1 << 12, 8);
    uint64_t sum = worked(table, 1 << 12, 300000, 1);
    CHECK(dlopen("libm.so.6", RTLD_NOW) != NULL);
    pid_t child = fork();
    if (child == 0) {
        sum = worked(table, 1 << 12, 300000, sum);
        exit(sum & 1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    printf("%lx %x\n", worked(table, 1 << 12, 300000, sum), status);
    fflush(stdout);
    execl("/bin/echo", "echo", "done", NULL);
    return 3;
}
