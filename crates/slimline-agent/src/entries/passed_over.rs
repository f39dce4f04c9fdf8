//! What happens around a hooked function for most blocks of a program that makes so many that few are followed: they are
//! passed over, as by the entry functions of the C library's ([`crate::hooks::quick`]), and no register is saved but the
//! three that this takes.
//!
//! A hooked function is called where it makes a block, since one that was seen before may lie there, of a pool that was
//! emptied unseen or of a function of the same allocator that called this one. Where it frees one its stub goes on to it.
#![allow(unsafe_code)] // functions in assembly

use core::arch::naked_asm;
use core::ffi::c_void;
use core::mem::offset_of;

use super::hooked::{COMPONENTS, Hook, STATE_BYTES, STATE_HEADER, common, outside};
use crate::blocks::{BLOCKS, INNER, layout};
use crate::follow::FOLLOWED_BYTES;
use crate::hooks::quick::{uncounted, unless_entered, unless_followed};
use crate::hooks::{self, GENERATION, Inner, Layer, Outer};
use crate::thread::{BYTES_OFFSET, ROUND_OFFSET};

/// On the stack where a function made a block that the index has one around: what its stub and [`made_inner`] put there.
#[repr(C)]
struct Made {
    block: u64,
    r10: u64,
    r11: u64,
    hook: *const Hook,
    /// Where the stack pointer points when the function is entered.
    return_address: u64,
}

/// The same where one is to free a block.
#[repr(C)]
struct Freeing {
    block: u64,
    to_stub: u64,
    registers: [u64; 3],
    hook: *const Hook,
    return_address: u64,
}

extern "C" fn made_again<L: Layer>(call: &Made, bp: u64) {
    if hooks::is_recording() {
        hooks::replaced::<L>(call.block as *mut c_void, &raw const call.return_address as u64, bp);
    }
}

extern "C" fn freeing<L: Layer>(call: &Freeing, bp: u64) {
    if hooks::is_recording() {
        hooks::freed::<L>(call.block as *mut c_void, &raw const call.return_address as u64, bp);
    }
}

/// Both functions of a layer. Those that make blocks come with rax, r10, r11, the [`Hook`] and the return address on the
/// stack, and the block's size in rax; what frees them is called with the same on the stack, and the block in rax.
macro_rules! of_layer {
    ($layer:ident, $blocks:ident, $made:ident, $freed:ident) => {
        #[unsafe(naked)]
        pub(super) unsafe extern "C" fn $made() {
            naked_asm!(
                ".cfi_startproc",
                ".cfi_def_cfa_offset 40",
                unless_followed!(),
                "mov r11, qword ptr [rsp + 24]",
                "pop rax",
                ".cfi_def_cfa_offset 32",
                "mov r10, qword ptr [rsp]",
                "call qword ptr [r11 + {moved}]",
                unless_entered!("eax", "6f"),
                "5:",
                "pop r10",
                ".cfi_def_cfa_offset 24",
                "pop r11",
                ".cfi_def_cfa_offset 16",
                "lea rsp, [rsp + 8]",
                ".cfi_def_cfa_offset 8",
                "ret",
                "6:",
                "push rax",
                ".cfi_def_cfa_offset 40",
                outside!("{made_again}"),
                "pop rax",
                ".cfi_def_cfa_offset 32",
                "jmp 5b",
                "7:",
                ".cfi_def_cfa_offset 40",
                uncounted!(),
                "pop rax",
                ".cfi_def_cfa_offset 32",
                "pop r10",
                ".cfi_def_cfa_offset 24",
                "pop r11",
                ".cfi_def_cfa_offset 16",
                "jmp {common}",
                ".cfi_endproc",
                always = sym FOLLOWED_BYTES,
                round = const ROUND_OFFSET,
                bytes = const BYTES_OFFSET,
                moved = const offset_of!(Hook, moved),
                blocks = sym $blocks,
                entered = const layout::ENTERED_OFFSET,
                entered_mask = const layout::ENTERED_MASK,
                page_shift = const layout::PAGE_SHIFT,
                pair_shift = const layout::PAIR_SHIFT,
                made_again = sym made_again::<$layer>,
                common = sym common,
                state_bytes = const STATE_BYTES,
                state_header = const STATE_HEADER,
                components = const COMPONENTS,
            )
        }

        #[unsafe(naked)]
        pub(super) unsafe extern "C" fn $freed() {
            naked_asm!(
                ".cfi_startproc",
                ".cfi_def_cfa_offset 48",
                unless_entered!("eax", "7f"),
                "ret",
                "7:",
                "cmp dword ptr [rip + {generation}], 0",
                "je 8f",
                "push rax",
                ".cfi_def_cfa_offset 56",
                outside!("{freeing}"),
                "pop rax",
                ".cfi_def_cfa_offset 48",
                "8:",
                "ret",
                ".cfi_endproc",
                generation = sym GENERATION,
                blocks = sym $blocks,
                entered = const layout::ENTERED_OFFSET,
                entered_mask = const layout::ENTERED_MASK,
                page_shift = const layout::PAGE_SHIFT,
                pair_shift = const layout::PAIR_SHIFT,
                freeing = sym freeing::<$layer>,
                state_bytes = const STATE_BYTES,
                state_header = const STATE_HEADER,
                components = const COMPONENTS,
            )
        }
    };
}

of_layer!(Outer, BLOCKS, made_outer, freed_outer);
of_layer!(Inner, INNER, made_inner, freed_inner);
