// Has its own malloc and free, which the C++ library's operators must use: another's free would not know the blocks.
#include <cstddef>

static char memory[64 << 20];
static std::size_t used;
struct Free {
    Free *next;
};
static Free *free_blocks;

extern "C" void *malloc(std::size_t bytes) {
    if (bytes <= 32 && free_blocks) {
        Free *block = free_blocks;
        free_blocks = block->next;
        return block;
    }
    std::size_t room = bytes <= 32 ? 48 : bytes + 31;
    char *block = memory + ((used + 31) & ~std::size_t{15});
    used = std::size_t(block - memory) + room;
    if (used > sizeof memory) return nullptr;
    reinterpret_cast<std::size_t *>(block)[-1] = bytes;
    return block;
}

extern "C" void free(void *pointer) {
    if (!pointer || static_cast<std::size_t *>(pointer)[-1] > 32) return;
    Free *block = static_cast<Free *>(pointer);
    block->next = free_blocks;
    free_blocks = block;
}

extern "C" void *calloc(std::size_t count, std::size_t bytes) {
    char *block = static_cast<char *>(malloc(count * bytes));
    for (std::size_t i = 0; block && i < count * bytes; i++) block[i] = 0;
    return block;
}

extern "C" void *realloc(void *old, std::size_t bytes) {
    char *block = static_cast<char *>(malloc(bytes));
    std::size_t before = old ? static_cast<std::size_t *>(old)[-1] : 0;
    for (std::size_t i = 0; block && i < before && i < bytes; i++) block[i] = static_cast<char *>(old)[i];
    free(old);
    return block;
}

#include "operators.cpp"
