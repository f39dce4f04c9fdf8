// A binary tree of records, each allocated by itself: a look-up goes by keys, and reads the rest of one record in a thousand. With -DADVISED the rest
// is behind a pointer, in an array of its own, and nodes come from one, too.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#ifdef ADVISED
struct Record_cold {
    char note[64];
    long created, owner;
};
#endif

struct Record {
    std::uint64_t key;
    Record *left, *right;
#ifdef ADVISED
    Record_cold *cold;
#else
    char note[64];
    long created, owner;
#endif
};

static std::uint64_t next(std::uint64_t &random)
{
    random ^= random << 13, random ^= random >> 7, random ^= random << 17;
    return random;
}

int main(int argc, char **argv)
{
    long lookups = argc > 1 ? std::atol(argv[1]) : 400000, n = argc > 2 ? std::atol(argv[2]) : 1 << 18;
    std::uint64_t random = 88172645463325252u;
    Record *root = nullptr;
#ifdef ADVISED
    auto *records = static_cast<Record *>(std::calloc(static_cast<std::size_t>(n), sizeof(Record)));
    auto *cold = static_cast<Record_cold *>(std::calloc(static_cast<std::size_t>(n), sizeof(Record_cold)));
#endif
    for (long i = 0; i < n; i++) {
#ifdef ADVISED
        Record *record = &records[i];
        record->cold = &cold[i];
        Record_cold *rest = record->cold;
#else
        auto *record = static_cast<Record *>(std::calloc(1, sizeof(Record)));
        Record *rest = record;
#endif
        record->key = next(random), rest->created = i, rest->owner = i % 7;
        Record **place = &root;
        while (*place)
            place = record->key < (*place)->key ? &(*place)->left : &(*place)->right;
        *place = record;
    }
    long sum = 0;
    std::uint64_t keys = random;
    for (long lookup = 0; lookup < lookups; lookup++) {
        std::uint64_t key = next(keys);
        const Record *at = root, *last = nullptr;
        while (at)
            last = at, at = key < at->key ? at->left : at->right;
        sum += static_cast<long>(last->key & 1);
        if (lookup % 1000 == 0) {
#ifdef ADVISED
            sum += last->cold->created;
#else
            sum += last->created;
#endif
        }
    }
    std::printf("%ld\n", sum);
    return 0;
}
