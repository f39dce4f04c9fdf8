//! The end where the runtime finds itself wrong.
#![allow(unsafe_code)] // symbols of fixed names

/// Never reached: nothing here indexes, unwraps or divides by what could be zero. If it were, the process must not go on.
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    crate::kernel::abort()
}

// The precompiled core refers to it in unwind tables that nobody follows. Hidden, and weak: Rust programs have their own.
core::arch::global_asm!(
    ".pushsection .text.rust_eh_personality,\"ax\",@progbits",
    ".weak rust_eh_personality",
    ".hidden rust_eh_personality",
    "rust_eh_personality:",
    "ud2",
    ".popsection",
);
