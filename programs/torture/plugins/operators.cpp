// Has operators of its own, which it finds, and nobody else.

#include <cstdlib>
#include <new>
#include <vector>

static long made, unmade;

void *operator new(std::size_t bytes)
{
    made++;
    return static_cast<char *>(std::malloc(bytes + 16)) + 16;
}

void operator delete(void *block) noexcept
{
    if (block) {
        unmade++;
        std::free(static_cast<char *>(block) - 16);
    }
}

void operator delete(void *block, std::size_t) noexcept { operator delete(block); }

extern "C" long run()
{
    std::vector<int> numbers;
    for (int i = 0; i < 5000; i++)
        numbers.push_back(i);
    for (int i = 0; i < 100; i++) {
        int *volatile number = new int(i);
        delete number;
    }
    return made * 1000 + unmade;
}
