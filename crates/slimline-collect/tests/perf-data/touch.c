#include <stdlib.h>
char block[40 * 4096];
int main(void) {
    char *heap = malloc(8 << 20);
    for (int i = 0; i < 40; i++) block[i * 4096] = 1;
    for (int i = 0; i < 60; i++) heap[i * 4096] = 1;
    for (volatile int i = 0; i < 20000000; i++);
    return heap[5] + block[7];
}
