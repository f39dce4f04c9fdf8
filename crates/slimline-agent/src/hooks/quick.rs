//! What the entry functions do for most blocks of a program that allocates so much that few are followed: pass them
//! over, in some twenty instructions, without a frame and without a call but that of the function below.
//!
//! In assembly, because they must jump to the function below and leave its arguments where they are. What they read is
//! described at [`crate::blocks::layout`], what they count in at [`super::Counts`].

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
