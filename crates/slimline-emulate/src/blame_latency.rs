//! Instructions that take long without waiting for memory.

use iced_x86::Mnemonic as M;

/// Whether an instruction takes about ten cycles or more on every CPU of the last decade, wherever its operands are: more
/// than what reads a register, and more than a load from the nearest cache. `mfence` and `sfence` are not among them: what
/// they wait for is that stores reach the cache.
pub(crate) fn is_slow(mnemonic: M) -> bool {
    is_division(mnemonic) || is_x87_function(mnemonic) || is_system(mnemonic)
}

fn is_division(mnemonic: M) -> bool {
    matches!(
        mnemonic,
        M::Div
            | M::Idiv
            | M::Divss
            | M::Divsd
            | M::Divps
            | M::Divpd
            | M::Vdivss
            | M::Vdivsd
            | M::Vdivps
            | M::Vdivpd
            | M::Vdivsh
            | M::Vdivph
            | M::Sqrtss
            | M::Sqrtsd
            | M::Sqrtps
            | M::Sqrtpd
            | M::Vsqrtss
            | M::Vsqrtsd
            | M::Vsqrtps
            | M::Vsqrtpd
            | M::Vsqrtsh
            | M::Vsqrtph
    )
}

fn is_x87_function(mnemonic: M) -> bool {
    matches!(
        mnemonic,
        M::Fdiv
            | M::Fdivp
            | M::Fdivr
            | M::Fdivrp
            | M::Fidiv
            | M::Fidivr
            | M::Fsqrt
            | M::Fprem
            | M::Fprem1
            | M::Fscale
            | M::F2xm1
            | M::Fyl2x
            | M::Fyl2xp1
            | M::Fsin
            | M::Fcos
            | M::Fsincos
            | M::Fptan
            | M::Fpatan
    )
}

/// What asks the CPU for something, serializes it or lets it rest.
fn is_system(mnemonic: M) -> bool {
    matches!(
        mnemonic,
        M::Cpuid
            | M::Rdtsc
            | M::Rdtscp
            | M::Rdpmc
            | M::Rdrand
            | M::Rdseed
            | M::Xgetbv
            | M::Pause
            | M::Tpause
            | M::Lfence
            | M::Serialize
    )
}
