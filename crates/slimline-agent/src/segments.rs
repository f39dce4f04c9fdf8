//! The bases of `fs` and `gs` in the calling thread. A signal handler runs with those of the code that it interrupted.
#![allow(unsafe_code)] // instructions and system calls

use core::arch::asm;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

use crate::kernel;

/// Whether the kernel allows the instructions that read them.
static HAS_INSTRUCTIONS: AtomicBool = AtomicBool::new(false);

/// Asks the kernel what it allows: until then, a system call answers.
pub(crate) fn prepare() {
    const HWCAP2_FSGSBASE: u64 = 1 << 1;
    // SAFETY: no memory is involved.
    let capabilities = unsafe { libc::getauxval(libc::AT_HWCAP2) };
    HAS_INSTRUCTIONS.store(capabilities & HWCAP2_FSGSBASE != 0, Relaxed);
}

/// The base of `fs`: the thread pointer, unless the program has set another one.
pub(crate) fn fs_base() -> Option<u64> {
    if HAS_INSTRUCTIONS.load(Relaxed) {
        let base;
        // SAFETY: the kernel says that this instruction is allowed.
        unsafe { asm!("rdfsbase {0}", out(reg) base, options(nomem, nostack, preserves_flags)) };
        return Some(base);
    }
    const ARCH_GET_FS: usize = 0x1003;
    ask(ARCH_GET_FS)
}

/// The base of `gs`.
pub(crate) fn gs_base() -> Option<u64> {
    if HAS_INSTRUCTIONS.load(Relaxed) {
        let base;
        // SAFETY: as above.
        unsafe { asm!("rdgsbase {0}", out(reg) base, options(nomem, nostack, preserves_flags)) };
        return Some(base);
    }
    const ARCH_GET_GS: usize = 0x1004;
    ask(ARCH_GET_GS)
}

fn ask(which: usize) -> Option<u64> {
    let mut base = 0_u64;
    // SAFETY: the kernel writes 8 bytes.
    let result = unsafe { kernel::call(libc::SYS_arch_prctl, [which, &raw mut base as usize, 0, 0, 0, 0]) };
    (result == 0).then_some(base)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_to_the_bases_agree() {
        let asked = [fs_base(), gs_base()];
        prepare();
        assert_eq!(asked, [fs_base(), gs_base()]);
        assert!(asked[0].is_some_and(|base| base != 0));
    }
}
