// gcc: -lm
// State of the processor that a handler must leave as it was: rounding, flushing, x87, MMX, wide vectors, masks, direction flag.

#include "torture.h"
#include <fenv.h>
#include <immintrin.h>

#pragma GCC diagnostic ignored "-Wpsabi"

__attribute__((target("avx2"))) static uint64_t wide(uint64_t sum, int steps)
{
    __m256i a = _mm256_set_epi64x((long long)sum, 2, 3, 4), b = _mm256_set1_epi64x(0x9e3779b97f4a7c15ll);
    for (int i = 0; i < steps; i++) {
        a = _mm256_add_epi64(_mm256_xor_si256(a, _mm256_slli_epi64(a, 13)), b);
        a = _mm256_xor_si256(a, _mm256_srli_epi64(a, 7));
        b = _mm256_permute4x64_epi64(a, 0x39);
    }
    return (uint64_t)_mm256_extract_epi64(a, 0) ^ (uint64_t)_mm256_extract_epi64(b, 2);
}

__attribute__((target("avx512f"))) static uint64_t wider(uint64_t sum, int steps)
{
    __m512i a = _mm512_set1_epi64((long long)sum), b = _mm512_set1_epi64(0x9e3779b97f4a7c15ll);
    __mmask8 mask = 0x55;
    for (int i = 0; i < steps; i++) {
        a = _mm512_mask_add_epi64(a, mask, _mm512_rol_epi64(a, 13), b);
        b = _mm512_xor_epi64(b, _mm512_ror_epi64(a, 9));
        mask = (__mmask8)(mask << 1 | mask >> 7);
    }
    return (uint64_t)_mm512_reduce_add_epi64(_mm512_xor_epi64(a, b));
}

static uint64_t rounded(int steps)
{
    static const int ways[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO, FE_TONEAREST};
    uint64_t sum = 1;
    for (int way = 0; way < 4; way++) {
        fesetround(ways[way]);
        volatile double x = 1.0;
        volatile long double y = 1.0L;
        for (int i = 1; i < steps; i++) {
            x = x / 3.0 + 1.0 / i;
            y = y / 7.0L + 1.0L / i;
        }
        uint64_t bits;
        double narrowed = (double)y;
        memcpy(&bits, (double *)&x, 8);
        sum = mixed(sum, bits);
        memcpy(&bits, &narrowed, 8);
        sum = mixed(sum, bits);
    }
    fesetround(FE_TONEAREST);
    return sum;
}

// Copies backwards, and keeps a value in an MMX register, while both are in use for long.
static uint64_t backwards(uint64_t *to, const uint64_t *from, uint64_t words, int rounds)
{
    uint64_t kept = 0x1234567, result;
    for (int i = 0; i < rounds; i++) {
        uint64_t count = words, *last = to + words - 1;
        const uint64_t *source = from + words - 1;
        __asm__ volatile("movq %[kept], %%mm3\n std\n rep movsq\n cld\n movq %%mm3, %[result]\n emms"
                         : "+c"(count), "+D"(last), "+S"(source), [result] "=r"(result)
                         : [kept] "r"(kept + i)
                         : "memory", "cc", "mm3");
        if (result != kept + i)
            return 0;
    }
    return result;
}

int main(void)
{
    static uint64_t from[1 << 13], to[1 << 13];
    uint64_t sum = 1;
    for (int round = 0; round < 12; round++) {
        sum = mixed(sum, rounded(60000));
        _mm_setcsr(_mm_getcsr() | 0x8040);
        volatile float tiny = 1e-38f;
        for (int i = 0; i < 200000; i++)
            sum += (tiny * 0.25f) != 0;
        _mm_setcsr(_mm_getcsr() & ~0x8040u);
        sum = worked(from, 1 << 13, 30000, sum);
        sum = mixed(sum, backwards(to, from, 1 << 13, 200) + to[sum & 8191]);
        if (__builtin_cpu_supports("avx2"))
            sum = mixed(sum, wide(sum, 1000000));
        if (__builtin_cpu_supports("avx512f"))
            sum = mixed(sum, wider(sum, 1000000));
    }
    printf("%lx\n", sum);
    return 0;
}
