//! Each thread's two words, in executables: `slimline_collect`'s build script makes an object of this file alone, which is in the
//! archive beside the runtime's.
#![no_std]

core::arch::global_asm!(
    ".pushsection .tbss.slimline, \"awT\", @nobits",
    ".p2align 3",
    ".globl __slimline_cursor",
    ".type __slimline_cursor, @object",
    ".size __slimline_cursor, 8",
    "__slimline_cursor: .zero 8",
    ".globl __slimline_thread",
    ".type __slimline_thread, @object",
    ".size __slimline_thread, 8",
    "__slimline_thread: .zero 8",
    ".popsection",
);
