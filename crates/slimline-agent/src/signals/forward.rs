//! What arrives for the target on a signal that we have taken over.
//!
//! The target's handler is not called from ours: ours is gone by then. Its frame is left as the kernel made it (or
//! copied to where the kernel would have made it for the target's flags), the mask is set as the kernel would have, and
//! control jumps to the handler. It returns to the kernel by itself, may be left by `siglongjmp`, and debuggers see the
//! stack that they would see without us.

use super::action::{mask_during, take_for_delivery};
use super::{KernelAction, action, bit, ours, shadow};
use crate::kernel;
use crate::trigger::SignalInfo;

/// In a shadow's `rest`: that it stands for one of ours. The kernel carries this part of a queued signal unread.
const STANDS_FOR_OURS: u64 = u64::from_le_bytes(*b"slimshad");
/// Word of [`SignalInfo::fields`] that says so.
const MARK: usize = 3;

/// The kernel's `ucontext`: what of `libc::ucontext_t` it fills.
#[repr(C)]
pub(crate) struct Context {
    pub(crate) flags: u64,
    pub(crate) link: usize,
    pub(crate) stack: libc::stack_t,
    /// In the order of `libc::REG_R8` and so on.
    pub(crate) registers: [u64; 23],
    /// The XSAVE area, or 0.
    pub(crate) vectors: usize,
    pub(crate) reserved: [u64; 8],
    pub(crate) mask: u64,
}

const _: () = assert!(core::mem::offset_of!(Context, mask) == 296);

impl Context {
    /// A register, by its number in `libc`.
    pub(crate) fn register(&self, number: i32) -> u64 {
        self.registers[number as usize]
    }
}

/// Where the entry code is to jump to.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Jump {
    pub(crate) handler: usize,
    pub(crate) signal: u64,
    pub(crate) info: usize,
    /// The stack pointer is to be 8 below it, at the return address.
    pub(crate) context: usize,
}

/// Decides what happens to a signal that is no trigger of ours. The jump to make, or None to return.
///
/// # Safety
/// The arguments must be those of a signal handler that runs right now with all signals blocked.
pub(crate) unsafe fn deliver(signal: i32, info: *mut SignalInfo, context: *mut Context) -> Option<Jump> {
    // SAFETY: promised by the caller.
    let (told, interrupted) = unsafe { (&mut *info, (*context).mask) };
    let mut meant = signal;
    if signal == shadow() && unmark(told) {
        meant = ours();
    }
    // Faults and breakpoints: the kernel does not take no for an answer.
    let forced = told.code > 0 && signal == ours() && crate::trigger::is_trap(told.code);
    if signal == ours() && interrupted & bit(shadow()) != 0 {
        if forced {
            die(meant, told);
        } else {
            postpone(told);
        }
        return None;
    }
    let action = take_for_delivery(meant);
    match action.handler {
        libc::SIG_IGN if !forced => None,
        libc::SIG_IGN | libc::SIG_DFL => {
            die(meant, told);
            None
        }
        handler => {
            let mask = mask_during(&action, meant, interrupted);
            // SAFETY: as promised by the caller.
            let (info, context) = unsafe { place_frame(&action, info, context) };
            kernel::set_mask(libc::SIG_SETMASK, mask);
            Some(Jump { handler, signal: meant as u64, info: info as usize, context: context as usize })
        }
    }
}

/// Ends the process by `signal` as soon as our handler returns: the default action, at the instruction where it would
/// have happened, so that a core dump is the target's own.
fn die(signal: i32, info: &SignalInfo) {
    if action::kernel_action(signal, Some(&KernelAction::DEFAULT)).is_ok() {
        queue_to_self(signal, info);
    }
}

/// Keeps one of ours until the target unblocks it.
fn postpone(info: &SignalInfo) {
    let (_, pending) = kernel::pending();
    if ours() < 32 && pending & bit(shadow()) != 0 {
        return; // an ordinary signal waits once
    }
    let mut marked = *info;
    mark(&mut marked);
    // What was sent to the process may be taken by any thread that does not block it.
    let to_the_process = matches!(info.code, libc::SI_USER | libc::SI_QUEUE | libc::SI_TIMER | libc::SI_MESGQ);
    if to_the_process && kernel::queue_signal(kernel::process_id(), None, shadow(), info_address(&marked)) {
        return;
    }
    queue_to_self(shadow(), &marked);
}

/// Sends a signal with these contents to the calling thread.
pub(super) fn queue_to_self(signal: i32, info: &SignalInfo) {
    let mut info = *info;
    info.signal = signal;
    kernel::queue_signal(kernel::process_id(), Some(kernel::thread_id()), signal, info_address(&info));
}

fn info_address(info: &SignalInfo) -> usize {
    core::ptr::from_ref(info) as usize
}

fn mark(info: &mut SignalInfo) {
    info.signal = shadow();
    info.fields[MARK] = STANDS_FOR_OURS;
}

/// Makes a marked shadow one of ours again; false for any other signal.
pub(super) fn unmark(info: &mut SignalInfo) -> bool {
    if info.fields[MARK] != STANDS_FOR_OURS {
        return false;
    }
    info.fields[MARK] = 0;
    info.signal = ours();
    true
}

/// The frame of the handler, on the stack on which the kernel would have made it for the target's flags: ours says
/// SA_ONSTACK, the target's may not.
///
/// # Safety
/// As [`deliver`].
unsafe fn place_frame(
    action: &KernelAction,
    info: *mut SignalInfo,
    context: *mut Context,
) -> (*mut SignalInfo, *mut Context) {
    // SAFETY: promised by the caller.
    let shown = unsafe { &*context };
    let alternate = &shown.stack;
    let stack = alternate.ss_sp as usize..(alternate.ss_sp as usize).saturating_add(alternate.ss_size);
    let enabled = alternate.ss_flags & libc::SS_DISABLE == 0 && alternate.ss_size != 0;
    let interrupted_at = shown.register(libc::REG_RSP) as usize;
    let moved = enabled && stack.contains(&(context as usize)) && !stack.contains(&interrupted_at);
    if action.flags & libc::SA_ONSTACK as u64 != 0 || !moved {
        return (info, context);
    }
    const RED_ZONE_BYTES: usize = 128;
    const FRAME_BYTES: usize = 8 + size_of::<Context>() + size_of::<SignalInfo>();
    // SAFETY: below the interrupted stack pointer and its red zone nothing is in use; the kernel itself would have
    // written there. The vector area lies where the kernel put it, as long as it says.
    unsafe {
        let vectors_bytes = vectors_bytes(shown.vectors);
        let vectors = (interrupted_at - RED_ZONE_BYTES - vectors_bytes) & !63;
        // As after a call: the stack pointer plus 8 is a multiple of 16.
        let frame = ((vectors - FRAME_BYTES) & !15) - 8;
        let new_context = (frame + 8) as *mut Context;
        let new_info = (frame + 8 + size_of::<Context>()) as *mut SignalInfo;
        let return_address = *(context as *const usize).sub(1);
        (frame as *mut usize).write(return_address);
        new_context.write(core::ptr::read(context));
        new_info.write(*info);
        if shown.vectors != 0 {
            core::ptr::copy_nonoverlapping(shown.vectors as *const u8, vectors as *mut u8, vectors_bytes);
            (*new_context).vectors = vectors;
        }
        (new_info, new_context)
    }
}

/// Size of a signal frame's vector area, as the kernel left it written there (`struct _fpx_sw_bytes`).
///
/// # Safety
/// `vectors` must be 0 or the address of one.
pub(crate) unsafe fn vectors_bytes(vectors: usize) -> usize {
    const LEGACY_BYTES: usize = 512;
    const MAGIC_AT: usize = 464;
    const MAGIC: u32 = 0x4650_5853;
    if vectors == 0 {
        return 0;
    }
    // SAFETY: promised by the caller.
    let (magic, bytes) = unsafe { *((vectors + MAGIC_AT) as *const (u32, u32)) };
    if magic == MAGIC { bytes as usize } else { LEGACY_BYTES }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marked_signal_becomes_what_it_was() {
        let sent = SignalInfo { signal: 0, error: 0, code: -6, padding: 0, fields: [1, 2, 3, 0], rest: [0; 10] };
        let mut carried = sent;
        mark(&mut carried);
        assert!(unmark(&mut carried));
        assert_eq!(carried, sent);
        assert!(!unmark(&mut carried));
    }
}
