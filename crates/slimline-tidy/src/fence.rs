//! A fence of two sides, of which one costs nothing: what is often done is ordered by the compiler only, and who comes seldom
//! has the kernel make all threads of the process have passed a whole fence (membarrier(2); Dice et al., Asymmetric Dekker
//! Synchronization, 2001).
//!
//! Of a store before [`light`] and a load behind it in one thread, and a store before [`heavy`] and a load behind it in another,
//! at least one load sees the other's store.
#![allow(unsafe_code)] // a system call

use std::sync::atomic::{AtomicU8, Ordering, compiler_fence, fence};

/// The side that costs nothing.
#[inline(always)]
pub(crate) fn light() {
    if cfg!(miri) {
        // It knows of no kernel, and makes up for each thread what it may see.
        fence(Ordering::SeqCst);
    } else {
        compiler_fence(Ordering::SeqCst);
    }
}

/// Whether there is the other side. What it says once it says always.
pub(crate) fn is_there() -> bool {
    const UNKNOWN: u8 = 0;
    const NO: u8 = 1;
    const YES: u8 = 2;
    static KNOWN: AtomicU8 = AtomicU8::new(UNKNOWN);
    match KNOWN.load(Ordering::Acquire) {
        UNKNOWN => {
            let found = if cfg!(miri) || membarrier::register() { YES } else { NO };
            // Two threads may find out at the same time, and not the same; the first one's word is kept.
            let known = KNOWN.compare_exchange(UNKNOWN, found, Ordering::AcqRel, Ordering::Acquire);
            known.err().unwrap_or(found) == YES
        }
        known => known == YES,
    }
}

/// Said where it was there, and is not any more.
const REFUSED: &str = "the kernel refuses membarrier(2), which it did before: a seccomp filter that came later? Make the first \
    allocation of any context after the filter, or have it allow membarrier";

/// The side that costs a microsecond or some. Only where it [`is_there`].
#[cold]
pub(crate) fn heavy() {
    fence(Ordering::SeqCst);
    if cfg!(miri) {
        return;
    }
    // A process that was forked may have to register anew.
    let done = membarrier::all_threads() || (membarrier::register() && membarrier::all_threads());
    if !done {
        // What it has to order is half done, and can't be without it.
        crate::corruption(REFUSED);
    }
}

/// All architectures' numbers of the call would do; these are tried.
#[cfg(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"),
    not(miri)
))]
mod membarrier {
    use std::ffi::{c_int, c_long};

    const NUMBER: c_long = if cfg!(target_arch = "x86_64") { 324 } else { 283 };
    const PRIVATE_EXPEDITED: c_int = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: c_int = 1 << 4;

    // The C library is there: std needs it.
    unsafe extern "C" {
        fn syscall(number: c_long, ...) -> c_long;
    }

    fn call(command: c_int) -> bool {
        // SAFETY: membarrier(2) takes a command, flags, and a processor that these commands don't look at; it reads and
        // writes no memory of the program's.
        unsafe { syscall(NUMBER, command, 0, 0) == 0 }
    }

    pub(super) fn register() -> bool {
        call(REGISTER_PRIVATE_EXPEDITED)
    }

    pub(super) fn all_threads() -> bool {
        call(PRIVATE_EXPEDITED)
    }
}

#[cfg(not(all(
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"),
    not(miri)
)))]
mod membarrier {
    pub(super) fn register() -> bool {
        false
    }

    pub(super) fn all_threads() -> bool {
        false
    }
}
