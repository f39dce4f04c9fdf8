//! The interrupted thread's registers, from the signal frame to the emulator's state.
#![allow(unsafe_code)] // reads the signal frame and the segment bases

use core::arch::asm;
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::{Acquire, Release};
use slimline_emulate::{State, XsaveLayout};

use crate::kernel;
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

/// What is the same for every sample on this machine.
struct Machine {
    /// `rdfsbase` may be used.
    segment_bases: bool,
    layout: XsaveLayout,
}

struct MachineCell(UnsafeCell<MaybeUninit<Machine>>);
// SAFETY: written once by `prepare`, before `PREPARED` is set.
unsafe impl Sync for MachineCell {}
static MACHINE: MachineCell = MachineCell(UnsafeCell::new(MaybeUninit::uninit()));
static PREPARED: AtomicBool = AtomicBool::new(false);

/// Asks the processor what it has: some twenty `cpuid`, each of which leaves a virtual machine. Once.
pub(crate) fn prepare() {
    const HWCAP2_FSGSBASE: u64 = 1 << 1;
    // SAFETY: no memory is involved.
    let segment_bases = unsafe { libc::getauxval(libc::AT_HWCAP2) } & HWCAP2_FSGSBASE != 0;
    // SAFETY: the only call, and `PREPARED` is not set.
    unsafe { (*MACHINE.0.get()).write(Machine { segment_bases, layout: XsaveLayout::of_this_cpu() }) };
    PREPARED.store(true, Release);
}

/// The state at the interrupted instruction. What the frame does not hold stays unknown.
pub(crate) fn state_of(context: &Context) -> State {
    let mut state = State::unknown(context.register(libc::REG_RIP));
    for (number, name) in REGISTERS.into_iter().enumerate() {
        state.set_gpr(number, Some(context.register(name)));
    }
    state.set_flags(context.register(libc::REG_EFL));
    // SAFETY: see `MachineCell`.
    let Some(machine) = PREPARED.load(Acquire).then(|| unsafe { (*MACHINE.0.get()).assume_init_ref() }) else {
        return state;
    };
    let (fs, gs) = segment_bases(machine.segment_bases);
    state.set_fs_base(fs);
    state.set_gs_base(gs);
    if context.vectors != 0 {
        // SAFETY: the kernel put the area there and wrote its size into it.
        let area = unsafe { core::slice::from_raw_parts(context.vectors as *const u8, vectors_bytes(context.vectors)) };
        state.set_xsave(area, &machine.layout);
    }
    state
}

/// Bases of `fs` and `gs`: a handler runs with those of the interrupted code.
fn segment_bases(by_instruction: bool) -> (Option<u64>, Option<u64>) {
    const ARCH_GET_FS: usize = 0x1003;
    const ARCH_GET_GS: usize = 0x1004;
    if by_instruction {
        let (fs, gs);
        // SAFETY: the kernel says that these instructions are allowed.
        unsafe { asm!("rdfsbase {0}", "rdgsbase {1}", out(reg) fs, out(reg) gs, options(nomem, nostack)) };
        return (Some(fs), Some(gs));
    }
    let get = |which| {
        let mut base = 0_u64;
        // SAFETY: the kernel writes 8 bytes.
        let result = unsafe { kernel::call(libc::SYS_arch_prctl, [which, &raw mut base as usize, 0, 0, 0, 0]) };
        (result == 0).then_some(base)
    };
    (get(ARCH_GET_FS), get(ARCH_GET_GS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_to_the_segment_bases_agree() {
        // SAFETY: no memory is involved.
        if unsafe { libc::getauxval(libc::AT_HWCAP2) } & 2 != 0 {
            assert_eq!(segment_bases(true), segment_bases(false));
        }
    }
}
