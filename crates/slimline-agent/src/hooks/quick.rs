//! What the entry functions do for most blocks of a program that allocates so much that few are followed: pass them
//! over, an allocation in eight instructions and a release in ten, each with one branch, and jump to the function below. (The
//! branches cost more than the rest: they push others out of the processor's history.)
//!
//! Where they lie matters more than how many instructions they have. What counts is the place of the jump to the function
//! below within its line of 64 bytes: at bad places `alloc_churn` takes 5 to 7 % longer. The page and the library's address make
//! no difference. Which prediction of the processor fails is not known, so the places are those that measured well
//! (docs/overhead.md). Each function begins a line, and a `nop` moves its jump.
//!
//! In assembly, because they jump to the function below and leave its arguments where they are. What they read is
//! described at [`crate::blocks::layout`], what they count in at [`super::Counts`].

/// The first instruction of a function whose jump must lie well in its line.
macro_rules! begin_line {
    () => {
        ".nops 4"
    };
}
pub(super) use begin_line;

/// At the end of that function: its section, in which it is alone, begins a line.
macro_rules! end_line {
    () => {
        ".p2align 6"
    };
}
pub(super) use end_line;

/// A function in assembly that returns a block, with what [`unless_followed`] refers to. The function below may be called
/// from it, so there is a frame, and unwind information for it: rustc itself emits none for functions in assembly where
/// panics abort.
macro_rules! naked_asm_of_new_block {
    ($($template:expr),*; $($operands:tt)*) => {
        core::arch::naked_asm!(
            ".cfi_startproc",
            $crate::hooks::quick::begin_line!(),
            $($template,)*
            ".cfi_endproc",
            $crate::hooks::quick::end_line!(),
            always = sym $crate::follow::FOLLOWED_BYTES,
            round = const $crate::thread::ROUND_OFFSET,
            bytes = const $crate::thread::BYTES_OFFSET,
            $($operands)*
        )
    };
}
pub(super) use naked_asm_of_new_block;

/// Before a block of rax bytes is allocated: falls through where it is passed over, having counted it; else jumps to label
/// 7, where [`uncounted`] takes that back. What is added to the round is -1 for a small block and 0 for one that is
/// followed for its size: there is no carry where that is 0, nor where the round is over or, as when nothing is recorded,
/// was never begun. Uses r10 and r11.
macro_rules! unless_followed {
    () => {
        "mov r11, qword ptr [rip + slimline_thread@GOTTPOFF]
        add qword ptr fs:[r11 + {bytes}], rax
        cmp rax, qword ptr [rip + {always}]
        sbb r10, r10
        add qword ptr fs:[r11 + {round}], r10
        jnc 7f"
    };
}
pub(crate) use unless_followed;

/// At label 7: counts are what they were before the block of rax bytes. The round is below -1 where a signal handler
/// allocated in between. Uses r11.
macro_rules! uncounted {
    () => {
        "mov r11, qword ptr [rip + slimline_thread@GOTTPOFF]
        sub qword ptr fs:[r11 + {bytes}], rax
        cmp qword ptr fs:[r11 + {round}], 0
        jge 8f
        mov qword ptr fs:[r11 + {round}], 0
        8:"
    };
}
pub(crate) use uncounted;

/// Where a block of rax bytes was counted, and there is none: counts are what they were before. Uses r10 and r11.
macro_rules! not_allocated {
    () => {
        "mov r11, qword ptr [rip + slimline_thread@GOTTPOFF]
        sub qword ptr fs:[r11 + {bytes}], rax
        cmp rax, qword ptr [rip + {always}]
        sbb r10, r10
        sub qword ptr fs:[r11 + {round}], r10"
    };
}
pub(super) use not_allocated;

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
            $size,
            $crate::hooks::quick::uncounted!(),
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
            $crate::hooks::quick::begin_line!(),
            $($template,)*
            ".cfi_endproc",
            $crate::hooks::quick::end_line!(),
            blocks = sym $crate::blocks::BLOCKS,
            entered = const $crate::blocks::layout::ENTERED_OFFSET,
            entered_mask = const $crate::blocks::layout::ENTERED_MASK,
            page_shift = const $crate::blocks::layout::PAGE_SHIFT,
            pair_shift = const $crate::blocks::layout::PAIR_SHIFT,
            $($operands)*
        )
    };
}
pub(super) use naked_asm_of_old_block;

/// Before a block is freed whose address has `$low` as its lower half: falls through where it is not in the index, else
/// jumps to `$entered`. Uses r10 and r11.
macro_rules! unless_entered {
    () => {
        $crate::hooks::quick::unless_entered!("edi", "7f")
    };
    ($low:literal, $entered:literal) => {
        concat!(
            "mov r10d, ",
            $low,
            "
            shr r10d, {page_shift}
            and r10d, {entered_mask}
            lea r11, [rip + {blocks}]
            mov r10d, dword ptr [r11 + r10 * 8 + {entered}]
            mov r11d, ",
            $low,
            "
            shr r11d, {pair_shift}
            bt r10d, r11d
            jc ",
            $entered
        )
    };
}
pub(crate) use unless_entered;
