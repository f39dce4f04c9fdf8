// Writes over a word of the memory that the agent shares with its collector, if there is any, then forks: the child
// allocates, and ends.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    for (int i = 0; i < 1000; i++) free(malloc(100 + i));
    char line[4096];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps)) {
        unsigned long begin, end, offset;
        if (sscanf(line, "%lx-%lx %*s %lx", &begin, &end, &offset) == 3 && offset == 0 && strstr(line, ".ring"))
            *(volatile unsigned long *)(begin + strtoul(argv[1], NULL, 0)) = strtoul(argv[2], NULL, 0);
    }
    fclose(maps);
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 1000; i++) free(malloc(100 + i));
        _exit(7);
    }
    int status = -1;
    waitpid(child, &status, 0);
    printf("%#x\n", status);
    return 0;
}
