// Closes every descriptor it can, in every way, and works on.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static void spin(void) {
    static volatile unsigned long x;
    for (long i = 0; i < 60000000; i++) x += i * i;
}

int main(void) {
    int closed = 0;
    for (int i = 3; i < 1024; i++) closed += close(i) == 0;
    printf("closed %d\n", closed);
    int first = open("/dev/null", O_RDONLY);
    printf("next %d\n", first);
    spin();
    printf("range %d\n", close_range(3, ~0u, 0));
    spin();
    closefrom(3);
    // Whatever is in the way of the numbers that it wants goes elsewhere.
    int moved = 0;
    for (int i = 880; i < 1000; i++) moved += dup2(1, i) == i;
    printf("moved %d\n", moved);
    spin();
    return 0;
}
