//! What the entry functions do for most blocks of a program that allocates so much that few are followed: pass them
//! over, an allocation in nine instructions and a release in sixteen, and jump to the function below.
//!
//! In assembly, because they jump to the function below and leave its arguments where they are. What they read is
//! described at [`crate::blocks::layout`], what they count in at [`super::Counts`].

/// A function in assembly that returns a block, with what [`unless_followed`] refers to. The function below may be called
/// from it, so there is a frame, and unwind information for it: rustc itself emits none for functions in assembly where
/// panics abort.
macro_rules! naked_asm_of_new_block {
    ($($template:expr),*; $($operands:tt)*) => {
        core::arch::naked_asm!(
            ".cfi_startproc",
            $($template,)*
            ".cfi_endproc",
            always = sym $crate::follow::FOLLOWED_BYTES,
            round = const $crate::thread::ROUND_OFFSET,
            round_shift = const $crate::hooks::counts::ROUND_SHIFT,
            $($operands)*
        )
    };
}
pub(super) use naked_asm_of_new_block;

/// Before a block of rax bytes is allocated: falls through where it is passed over, having counted it; else jumps to label
/// 7. Without a round, as when nothing is recorded, the subtraction borrows too. What a signal handler allocates in
/// between is not counted; the round itself is whole at any time. Uses rax, r10 and r11.
macro_rules! unless_followed {
    () => {
        "cmp rax, qword ptr [rip + {always}]
        jae 7f
        bts rax, {round_shift}
        mov r11, qword ptr [rip + slimline_thread@GOTTPOFF]
        mov r10, qword ptr fs:[r11 + {round}]
        sub r10, rax
        jb 7f
        mov qword ptr fs:[r11 + {round}], r10"
    };
}
pub(super) use unless_followed;

/// The whole of a function that returns a block of so many bytes as `$size` leaves in rax, by the function below that is
/// at `$next`, with the operands named there.
macro_rules! new_block {
    ($size:literal, $next:literal, $($operands:tt)*) => {
        $crate::hooks::quick::naked_asm_of_new_block!(
            $size,
            $crate::hooks::quick::unless_followed!(),
            "2:",
            concat!("jmp qword ptr [rip + ", $next, "]"),
            "7:",
            "cmp dword ptr [rip + {generation}], 0",
            "je 2b",
            $size,
            "push rax",
            ".cfi_adjust_cfa_offset 8",
            concat!("call qword ptr [rip + ", $next, "]"),
            "pop rsi",
            ".cfi_adjust_cfa_offset -8",
            "mov rdi, rax",
            "mov rdx, rsp",
            "mov rcx, rbp",
            "jmp {recording}";
            generation = sym $crate::hooks::GENERATION,
            recording = sym $crate::hooks::record::allocated,
            $($operands)*
        )
    };
}
pub(super) use new_block;

/// A function in assembly that frees a block, with what [`unless_entered`] refers to.
macro_rules! naked_asm_of_old_block {
    ($($template:expr),*; $($operands:tt)*) => {
        core::arch::naked_asm!(
            ".cfi_startproc",
            $($template,)*
            ".cfi_endproc",
            blocks = sym $crate::blocks::BLOCKS,
            region_bits = const $crate::blocks::layout::REGION_BITS,
            regions = const $crate::blocks::layout::REGIONS,
            no_leaf = const $crate::blocks::layout::HIGHEST_NO_LEAF,
            flag_shift = const $crate::blocks::layout::FLAG_SHIFT,
            flag_mask = const $crate::blocks::layout::FLAG_MASK,
            flags = const $crate::blocks::layout::FLAGS_OFFSET,
            pair_shift = const $crate::blocks::layout::PAIR_SHIFT,
            $($operands)*
        )
    };
}
pub(super) use naked_asm_of_old_block;

/// Before a block at rdi is freed: falls through where it is not in the index; else, and where nothing is recorded, jumps
/// to label 7. Uses r10 and r11.
macro_rules! unless_entered {
    () => {
        "mov r10, rdi
        shr r10, {region_bits}
        cmp r10, {regions}
        jae 7f
        lea r11, [rip + {blocks}]
        mov r10, qword ptr [r11 + r10 * 8]
        cmp r10, {no_leaf}
        jbe 7f
        mov r11d, edi
        shr r11d, {flag_shift}
        and r11d, {flag_mask}
        mov r10d, dword ptr [r10 + r11 + {flags}]
        mov r11d, edi
        shr r11d, {pair_shift}
        bt r10d, r11d
        jc 7f"
    };
}
pub(super) use unless_entered;
