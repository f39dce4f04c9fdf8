// Uses every operator without an alignment, so often that a recording passes most blocks over.
#include <cstdio>
#include <new>

static char *volatile blocks[4];

int main() {
    long sum = 0;
    for (int i = 0; i < 1000000; i++) {
        blocks[0] = new char;
        blocks[1] = new char[8];
        blocks[2] = new (std::nothrow) char;
        blocks[3] = new (std::nothrow) char[8];
        for (int k = 0; k < 4; k++) *blocks[k] = (char)(i + k);
        sum += *blocks[0] + *blocks[3];
        delete blocks[0];
        delete[] blocks[1];
        delete blocks[2];
        delete[] blocks[3];
    }
    std::printf("%ld\n", sum);
    return 0;
}
