//! The end of the agent where it finds itself wrong: the target must not go on with half a record in the ring.
#![allow(unsafe_code)] // a trap

/// Says why in the process file, stops recording and ends the process as a crash: a panic here is a bug of the agent
/// that must not pass for the target's own behaviour.
#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    crate::recorder::fail(format_args!("{info}"));
    crate::kernel::abort()
}

// The precompiled core refers to it in unwind tables that nobody follows. Hidden, so that no Rust program finds ours.
core::arch::global_asm!(
    ".pushsection .text.rust_eh_personality,\"ax\",@progbits",
    ".globl rust_eh_personality",
    ".hidden rust_eh_personality",
    "rust_eh_personality:",
    "ud2",
    ".popsection",
);
