// A library with the plain operators only, of which the C++ library's others make use. Its blocks are none of malloc's.
#include <cstdlib>
#include <new>

void *operator new(std::size_t bytes) {
    if (char *block = static_cast<char *>(std::malloc(bytes + 16))) return block + 16;
    throw std::bad_alloc();
}

void operator delete(void *block) noexcept {
    if (block) std::free(static_cast<char *>(block) - 16);
}
