// integer ROUNDS: mixes numbers and a table of 4 KiB, without a cache miss.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static uint32_t table[1024];

int main(int argc, char **argv) {
    long rounds = argc > 1 ? atol(argv[1]) : 100000000;
    uint64_t x = 88172645463325252ull;
    uint32_t sum = 0;
    for (int i = 0; i < 1024; i++) table[i] = i * 2654435761u;
    for (long i = 0; i < rounds; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        sum = sum * 31 + table[(x >> 20) & 1023];
        if (sum & 1) table[sum & 1023] += i;
    }
    printf("%u\n", sum);
    return 0;
}
