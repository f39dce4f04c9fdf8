//! What the entry functions do for most blocks of a program that allocates so much that few are followed: pass them
//! over, in some twenty instructions, without a frame and without a call but that of the function below.
//!
//! In assembly, because they must jump to the function below and leave its arguments where they are. What they read is
//! described at [`crate::blocks::layout`], what they count in at [`super::Counts`].

/// The whole of a function that returns a block of so many bytes as `$push` pushes, by the function below that is at
/// `$next`, with the operands named there. The function below is called from here, so there is a frame, and unwind
/// information for it: rustc itself emits none for functions in assembly where panics abort.
macro_rules! new_block {
    ($push:literal, $next:literal, $($operands:tt)*) => {
        core::arch::naked_asm!(
            ".cfi_startproc",
            "cmp dword ptr [rip + {generation}], 0",
            "je 2f",
            $push,
            ".cfi_adjust_cfa_offset 8",
            concat!("call qword ptr [rip + ", $next, "]"),
            "pop rcx",
            ".cfi_adjust_cfa_offset -8",
            $crate::hooks::quick::return_if_passed_over!(),
            "mov rdi, rax",
            "mov rsi, rcx",
            "mov rdx, rsp",
            "mov rcx, rbp",
            "jmp {recording}",
            "2:",
            concat!("jmp qword ptr [rip + ", $next, "]"),
            ".cfi_endproc",
            generation = sym $crate::hooks::GENERATION,
            recording = sym $crate::hooks::record::allocated,
            always = sym $crate::follow::FOLLOWED_BYTES,
            blocks = sym $crate::blocks::BLOCKS,
            region_bits = const $crate::blocks::layout::REGION_BITS,
            regions = const $crate::blocks::layout::REGIONS,
            no_leaf = const $crate::blocks::layout::HIGHEST_NO_LEAF,
            flag_shift = const $crate::blocks::layout::FLAG_SHIFT,
            flag_mask = const $crate::blocks::layout::FLAG_MASK,
            flags = const $crate::blocks::layout::FLAGS_OFFSET,
            round = const $crate::thread::ROUND_OFFSET,
            round_shift = const $crate::hooks::counts::ROUND_SHIFT,
            $($operands)*
        )
    };
}
pub(super) use new_block;

/// A function in assembly that frees a block, with what [`unless_entered`] and [`look_at_eighth`] refer to.
macro_rules! naked_asm_of_old_block {
    ($($template:expr),*; $($operands:tt)*) => {
        core::arch::naked_asm!(
            $($template,)*
            generation = sym $crate::hooks::GENERATION,
            blocks = sym $crate::blocks::BLOCKS,
            region_bits = const $crate::blocks::layout::REGION_BITS,
            regions = const $crate::blocks::layout::REGIONS,
            no_leaf = const $crate::blocks::layout::HIGHEST_NO_LEAF,
            flag_shift = const $crate::blocks::layout::FLAG_SHIFT,
            flag_mask = const $crate::blocks::layout::FLAG_MASK,
            flags = const $crate::blocks::layout::FLAGS_OFFSET,
            eighth_shift = const $crate::blocks::layout::EIGHTH_SHIFT,
            frees = const $crate::thread::FREES_OFFSET,
            $($operands)*
        )
    };
}
pub(super) use naked_asm_of_old_block;

/// After the function below has returned block rax of rcx bytes: returns where the block is passed over, having counted
/// it. Else it falls through, with both as they were. Uses rdx and rsi; its label is 7.
macro_rules! return_if_passed_over {
    () => {
        "cmp rcx, qword ptr [rip + {always}]
        jae 7f
        mov rdx, rax
        shr rdx, {region_bits}
        cmp rdx, {regions}
        jae 7f
        lea rsi, [rip + {blocks}]
        mov rdx, qword ptr [rsi + rdx * 8]
        cmp rdx, {no_leaf}
        jbe 7f
        mov esi, eax
        shr esi, {flag_shift}
        and esi, {flag_mask}
        test byte ptr [rdx + rsi + {flags} + 1], 1
        jz 7f
        bts rcx, {round_shift}
        mov rdx, qword ptr [rip + slimline_thread@GOTTPOFF]
        sub qword ptr fs:[rdx + {round}], rcx
        jb 6f
        ret
        6:
        add qword ptr fs:[rdx + {round}], rcx
        btr rcx, {round_shift}
        7:"
    };
}
pub(super) use return_if_passed_over;

/// Before a block at rdi is freed: falls through where it is not in the index, having counted it; else jumps to label 7.
/// Uses r10 and r11; its labels are 8 and 9.
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
        cmp byte ptr [r10 + r11 + {flags}], 0
        jnz 9f
        8:
        mov r10, qword ptr [rip + slimline_thread@GOTTPOFF]
        inc qword ptr fs:[r10 + {frees}]"
    };
}
pub(super) use unless_entered;

/// The rest of [`unless_entered`], out of its way: something is in the index on this page, but maybe in another eighth.
macro_rules! look_at_eighth {
    () => {
        "9:
        movzx r10d, byte ptr [r10 + r11 + {flags}]
        mov r11d, edi
        shr r11d, {eighth_shift}
        and r11d, 7
        bt r10d, r11d
        jnc 8b"
    };
}
pub(super) use look_at_eighth;
