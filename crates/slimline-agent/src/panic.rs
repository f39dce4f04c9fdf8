//! The end of the agent where it finds itself wrong: the target must not go on with half a record in the ring.
#![allow(unsafe_code)] // a symbol of a fixed name

/// Says why in the process file and stops recording. A sample is given up and the target goes on unrecorded; elsewhere
/// (in an allocation call) there is no way back, and the process ends as a crash.
#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    crate::recorder::fail(format_args!("{info}"));
    crate::handler::give_up_sample();
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
