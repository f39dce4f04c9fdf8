// Has the plain operators of its own, which the library's others must call. (As one array, so that none is optimized away.)
#include <cstdio>
#include <cstdlib>
#include <new>

static long allocated, freed;

void *operator new(std::size_t bytes) {
    allocated++;
    if (void *block = std::malloc(bytes)) return block;
    throw std::bad_alloc();
}

void operator delete(void *block) noexcept {
    freed++;
    std::free(block);
}

static char *volatile blocks[4];

int main() {
    // Enough that a recording passes most over.
    for (int i = 0; i < 1000000; i++) {
        blocks[0] = new char;
        blocks[1] = new char[8];
        blocks[2] = new (std::nothrow) char;
        blocks[3] = new (std::nothrow) char[8];
        delete blocks[0];
        delete[] blocks[1];
        delete blocks[2];
        delete[] blocks[3];
    }
    std::printf("%ld %ld\n", allocated, freed);
    return 0;
}
