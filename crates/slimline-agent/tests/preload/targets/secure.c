// Says whether the kernel runs it in secure mode.
#include <stdio.h>
#include <sys/auxv.h>

int main(void) {
    printf("%lu\n", getauxval(AT_SECURE));
    return 0;
}
