//! The interrupted thread's registers, from the signal frame to the emulator's state.
#![allow(unsafe_code)] // reads the signal frame

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Release};
use slimline_emulate::{State, XsaveLayout};

use crate::segments;
use crate::signals::forward::{Context, vectors_bytes};

/// The kernel's names of the general-purpose registers, in the instruction set's order.
const REGISTERS: [i32; 16] = [
    libc::REG_RAX,
    libc::REG_RCX,
    libc::REG_RDX,
    libc::REG_RBX,
    libc::REG_RSP,
    libc::REG_RBP,
    libc::REG_RSI,
    libc::REG_RDI,
    libc::REG_R8,
    libc::REG_R9,
    libc::REG_R10,
    libc::REG_R11,
    libc::REG_R12,
    libc::REG_R13,
    libc::REG_R14,
    libc::REG_R15,
];

struct LayoutCell(UnsafeCell<MaybeUninit<XsaveLayout>>);
// SAFETY: written once by `prepare`, before `PREPARED` is set.
unsafe impl Sync for LayoutCell {}
/// The same for every sample on this machine.
static LAYOUT: LayoutCell = LayoutCell(UnsafeCell::new(MaybeUninit::uninit()));
static PREPARED: AtomicBool = AtomicBool::new(false);

/// Asks the processor what it has: some twenty `cpuid`, each of which leaves a virtual machine. Once.
pub(crate) fn prepare() {
    // SAFETY: the only call, and `PREPARED` is not set.
    unsafe { (*LAYOUT.0.get()).write(XsaveLayout::of_this_cpu()) };
    PREPARED.store(true, Release);
}

/// The state at the interrupted instruction. What the frame does not hold stays unknown.
pub(crate) fn state_of(context: &Context) -> State {
    let mut state = State::unknown(context.register(libc::REG_RIP));
    for (number, name) in REGISTERS.into_iter().enumerate() {
        state.set_gpr(number, Some(context.register(name)));
    }
    state.set_flags(context.register(libc::REG_EFL));
    state.set_fs_base(segments::fs_base());
    state.set_gs_base(segments::gs_base());
    // SAFETY: see `LayoutCell`.
    let layout = PREPARED.load(Acquire).then(|| unsafe { (*LAYOUT.0.get()).assume_init_ref() });
    if context.vectors != 0
        && let Some(layout) = layout
    {
        // SAFETY: the kernel put the area there and wrote its size into it.
        let area = unsafe { core::slice::from_raw_parts(context.vectors as *const u8, vectors_bytes(context.vectors)) };
        state.set_xsave(area, layout);
    }
    state
}
