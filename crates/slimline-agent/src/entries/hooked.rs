//! What happens around a hooked function whose block is followed, or may be. (Of others see [`super::passed_over`].)
//!
//! A compiler that sees a function and its callers together may rely on registers that the function leaves alone, also
//! such as the ABI lets any function change (`-fipa-ra`). So all of them are as the function itself leaves them, vector
//! registers included.

use core::arch::naked_asm;
use core::arch::x86_64::__cpuid;
use core::ffi::c_void;
use core::mem::{ManuallyDrop, MaybeUninit, offset_of};

use slimline_trace::wire::{AllocatorFunction, AllocatorRole};

use super::{pools, role};
use crate::blocks::INNER;
use crate::hooks::{self, Inner, Outer, Reallocation};

/// A hooked function. Read by [`common`].
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Hook {
    /// Its first instructions.
    pub(super) moved: u64,
    /// Whether something is to be done before it runs, and after.
    before: u8,
    after: u8,
    pub(super) role: AllocatorRole,
    pub(super) is_inner: bool,
    pub(super) size: u8,
    pub(super) count: u8,
    pub(super) block: u8,
    pub(super) place: u8,
    pool: u8,
    pub(super) unit_bytes: u32,
}

impl Hook {
    /// None where it is not one that can be hooked. [`Self::moved`] is to be filled in.
    pub(super) fn of(function: &AllocatorFunction) -> Option<Self> {
        let role = role(function.role)?;
        let AllocatorFunction { size, count, block, place, pool, unit_bytes, .. } = *function;
        if [size, count, block, place, pool].iter().any(|&argument| usize::from(argument) > ARGUMENTS) {
            return None;
        }
        let is_inner = function.is_inner != 0;
        let (before, after) = match role {
            AllocatorRole::Allocate => (0, 1),
            AllocatorRole::Resize => (1, 1),
            AllocatorRole::Free | AllocatorRole::Reset => (1, 0),
        };
        Some(Self { moved: 0, before, after, role, is_inner, size, count, block, place, pool, unit_bytes })
    }
}

/// Those in registers (System V).
const ARGUMENTS: usize = 6;

/// A call of a hooked function, on the stack.
#[repr(C)]
struct Call {
    arguments: [u64; ARGUMENTS],
    results: [u64; 2],
    /// Between `before` and `after`: see [`Kept`].
    kept: MaybeUninit<Kept>,
    r11: u64,
    /// Whether `kept` was filled in: recording may begin in between.
    is_begun: u64,
    hook: *const Hook,
    /// Where the stack pointer points when the function is entered.
    return_address: u64,
}

#[repr(C, align(8))]
union Kept {
    outer: ManuallyDrop<Reallocation<Outer>>,
    inner: ManuallyDrop<Reallocation<Inner>>,
    bytes: [u64; 8],
}

const FRAME_BYTES: usize = offset_of!(Call, hook);
// Calls are made from a stack that is aligned so.
const _: () = assert!(FRAME_BYTES.is_multiple_of(16) && size_of::<Kept>() == 64);

/// Room for the vector registers in the standard format: x87 and SSE, the header, AVX, and AVX-512 up to where other
/// components begin.
pub(super) const STATE_BYTES: usize = 2688;
pub(super) const STATE_HEADER: usize = 512;
/// SSE, AVX, and the three parts of AVX-512.
pub(super) const COMPONENTS: u32 = 1 << 1 | 1 << 2 | 1 << 5 | 1 << 6 | 1 << 7;

/// Whether the processor and the kernel can save vector registers in one instruction.
pub(super) fn can_save_registers() -> bool {
    const OSXSAVE: u32 = 1 << 27;
    __cpuid(1).ecx & OSXSAVE != 0
}

/// Calls `$function` with the [`Call`] that begins at the stack pointer, and the frame pointer; leaves all registers as
/// they are.
macro_rules! outside {
    ($function:literal) => {
        concat!(
            "push rax
            push rcx
            push rdx
            push rsi
            push rdi
            push r8
            push r9
            push r10
            push r11
            push rbx
            .cfi_adjust_cfa_offset 80
            .cfi_rel_offset rbx, 0
            mov rbx, rsp
            .cfi_def_cfa_register rbx
            lea rdi, [rsp + 80]
            mov rsi, rbp
            sub rsp, {state_bytes}
            and rsp, -64
            xor eax, eax
            mov qword ptr [rsp + {state_header}], rax
            mov qword ptr [rsp + {state_header} + 8], rax
            mov qword ptr [rsp + {state_header} + 16], rax
            mov qword ptr [rsp + {state_header} + 24], rax
            mov qword ptr [rsp + {state_header} + 32], rax
            mov qword ptr [rsp + {state_header} + 40], rax
            mov qword ptr [rsp + {state_header} + 48], rax
            mov qword ptr [rsp + {state_header} + 56], rax
            mov eax, {components}
            xor edx, edx
            xsave64 [rsp]
            call ",
            $function,
            "
            mov eax, {components}
            xor edx, edx
            xrstor64 [rsp]
            mov rsp, rbx
            .cfi_def_cfa_register rsp
            pop rbx
            pop r11
            pop r10
            pop r9
            pop r8
            pop rdi
            pop rsi
            pop rdx
            pop rcx
            pop rax
            .cfi_adjust_cfa_offset -80
            .cfi_restore rbx"
        )
    };
}
pub(super) use outside;

/// Where stubs go on, the [`Hook`] on the stack above the return address.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn common() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_def_cfa_offset 16",
        "sub rsp, {frame}",
        ".cfi_adjust_cfa_offset {frame}",
        "mov qword ptr [rsp], rdi",
        "mov qword ptr [rsp + 8], rsi",
        "mov qword ptr [rsp + 16], rdx",
        "mov qword ptr [rsp + 24], rcx",
        "mov qword ptr [rsp + 32], r8",
        "mov qword ptr [rsp + 40], r9",
        "mov qword ptr [rsp + {r11}], r11",
        "mov qword ptr [rsp + {is_begun}], 0",
        "mov r11, qword ptr [rsp + {hook}]",
        "cmp byte ptr [r11 + {before}], 0",
        "je 3f",
        outside!("{do_before}"),
        "3:",
        "call qword ptr [r11 + {moved}]",
        "mov qword ptr [rsp + {results}], rax",
        "mov qword ptr [rsp + {results} + 8], rdx",
        "mov r11, qword ptr [rsp + {hook}]",
        "cmp byte ptr [r11 + {after}], 0",
        "je 4f",
        outside!("{do_after}"),
        "4:",
        "mov r11, qword ptr [rsp + {r11}]",
        "add rsp, {frame} + 8",
        ".cfi_adjust_cfa_offset -{frame} - 8",
        "ret",
        ".cfi_endproc",
        frame = const FRAME_BYTES,
        r11 = const offset_of!(Call, r11),
        is_begun = const offset_of!(Call, is_begun),
        hook = const offset_of!(Call, hook),
        results = const offset_of!(Call, results),
        moved = const offset_of!(Hook, moved),
        before = const offset_of!(Hook, before),
        after = const offset_of!(Hook, after),
        do_before = sym before,
        do_after = sym after,
        state_bytes = const STATE_BYTES,
        state_header = const STATE_HEADER,
        components = const COMPONENTS,
    )
}

impl Call {
    fn hook(&self) -> Hook {
        // SAFETY: put there by the stub; hooks are never unmapped.
        unsafe { *self.hook }
    }

    /// An argument by its number from 1.
    fn argument(&self, number: u8) -> Option<u64> {
        self.arguments.get(usize::from(number).checked_sub(1)?).copied()
    }

    fn bytes(&self, hook: Hook) -> u64 {
        let size = self.argument(hook.size).unwrap_or(1);
        let count = self.argument(hook.count).unwrap_or(1);
        size.saturating_mul(count).saturating_mul(hook.unit_bytes.into())
    }

    /// The block to free or to resize.
    fn old_block(&self, hook: Hook) -> *mut c_void {
        self.argument(hook.block).unwrap_or(0) as *mut c_void
    }

    /// The new block; null where there is none.
    fn new_block(&self, hook: Hook) -> *mut c_void {
        match self.argument(hook.place) {
            None => self.results[0] as *mut c_void,
            // A status of 0 is success, as `posix_memalign`'s.
            // SAFETY: then the function has stored it there.
            Some(place) if place != 0 && self.results[0] as u32 == 0 => unsafe { *(place as *const *mut c_void) },
            Some(_) => core::ptr::null_mut(),
        }
    }

    fn stack_pointer(&self) -> u64 {
        &raw const self.return_address as u64
    }
}

extern "C" fn before(call: &mut Call, bp: u64) {
    if !hooks::is_recording() {
        return;
    }
    let hook = call.hook();
    let (block, sp) = (call.old_block(hook), call.stack_pointer());
    match (hook.role, hook.is_inner) {
        (AllocatorRole::Resize, is_inner) => {
            let kept = if is_inner {
                Kept { inner: ManuallyDrop::new(Reallocation::begin(block)) }
            } else {
                Kept { outer: ManuallyDrop::new(Reallocation::begin(block)) }
            };
            call.kept.write(kept);
            call.is_begun = 1;
        }
        (AllocatorRole::Free, true) => hooks::freed::<Inner>(block, sp, bp),
        (AllocatorRole::Free, false) => hooks::freed::<Outer>(block, sp, bp),
        (AllocatorRole::Reset, _) => {
            pools::take(call.argument(hook.pool).unwrap_or(0), |block| hooks::ended(block, sp, bp));
        }
        (AllocatorRole::Allocate, _) => {}
    }
}

extern "C" fn after(call: &mut Call, bp: u64) {
    if !hooks::is_recording() {
        return;
    }
    let hook = call.hook();
    let (block, bytes, sp) = (call.new_block(hook), call.bytes(hook), call.stack_pointer());
    match (hook.role, hook.is_inner) {
        (AllocatorRole::Resize, is_inner) if call.is_begun != 0 => {
            // SAFETY: `before` wrote it, of this layer, and nobody else reads it.
            unsafe {
                let kept = call.kept.assume_init_read();
                if is_inner {
                    ManuallyDrop::into_inner(kept.inner).end(block, bytes as usize, sp, bp);
                } else {
                    ManuallyDrop::into_inner(kept.outer).end(block, bytes as usize, sp, bp);
                }
            }
        }
        (_, true) => hooks::made::<Inner>(block, bytes, sp, bp),
        (_, false) => hooks::made::<Outer>(block, bytes, sp, bp),
    }
    if let Some(pool) = call.argument(hook.pool)
        && INNER.is_entered(block as u64)
    {
        pools::note(pool, block as u64);
    }
}
