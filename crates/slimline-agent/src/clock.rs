//! The time, from the vDSO: 25 ns instead of a system call's 100, and past whatever stands before libc's clocks
//! (faketime).
#![allow(unsafe_code)] // reads the vDSO's tables

use core::ffi::CStr;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::kernel;

type ClockGettime = unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> i32;

/// `__vdso_clock_gettime`; 0 where there is none, or before [`prepare`].
static VDSO: AtomicUsize = AtomicUsize::new(0);
/// Where the vDSO begins; 0 where there is none.
static VDSO_START: AtomicUsize = AtomicUsize::new(0);

/// `CLOCK_MONOTONIC` in nanoseconds.
pub(crate) fn monotonic_ns() -> u64 {
    let address = VDSO.load(Relaxed);
    if address == 0 {
        return kernel::clock_ns(libc::CLOCK_MONOTONIC);
    }
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: found by `prepare` under this function's name; it writes to `time` only.
    unsafe { core::mem::transmute::<usize, ClockGettime>(address)(libc::CLOCK_MONOTONIC, &raw mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// Whether an address is in the vDSO.
pub(crate) fn is_vdso(address: u64) -> bool {
    /// More than any kernel's takes.
    const VDSO_BYTES: u64 = 16 << 10;
    let start = VDSO_START.load(Relaxed) as u64;
    start != 0 && address.wrapping_sub(start) < VDSO_BYTES
}

/// Finds the vDSO's clock.
pub(crate) fn prepare() {
    // SAFETY: no memory of ours is involved.
    let start = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) } as usize;
    VDSO_START.store(start, Relaxed);
    if start != 0 {
        // SAFETY: the kernel maps a valid ELF image there for the life of the process.
        let found = unsafe { symbol(start, c"__vdso_clock_gettime") };
        VDSO.store(found.unwrap_or(0), Relaxed);
    }
}

/// Run-time address of a function in a loaded image.
///
/// # Safety
/// A valid ELF image with a dynamic symbol table must be mapped at `start`.
unsafe fn symbol(start: usize, name: &CStr) -> Option<usize> {
    let (mut symbols, mut strings) = (0, 0);
    // SAFETY: reads the image's tables where its own headers say that they are.
    unsafe {
        let header = &*(start as *const libc::Elf64_Ehdr);
        let segments = (start + header.e_phoff as usize) as *const libc::Elf64_Phdr;
        let segments = core::slice::from_raw_parts(segments, header.e_phnum.into());
        let load = segments.iter().find(|segment| segment.p_type == libc::PT_LOAD)?;
        let bias = start.wrapping_add(load.p_offset as usize).wrapping_sub(load.p_vaddr as usize);
        let dynamic = segments.iter().find(|segment| segment.p_type == libc::PT_DYNAMIC)?;
        let mut entry = bias.wrapping_add(dynamic.p_vaddr as usize) as *const [u64; 2];
        while (*entry)[0] != 0 {
            match (*entry)[0] {
                5 => strings = bias.wrapping_add((*entry)[1] as usize),
                6 => symbols = bias.wrapping_add((*entry)[1] as usize),
                _ => {}
            }
            entry = entry.add(1);
        }
        // The table's length is said by the hash tables only; but linkers put the strings right behind it.
        if symbols == 0 || strings <= symbols {
            return None;
        }
        let count = (strings - symbols) / size_of::<libc::Elf64_Sym>();
        core::slice::from_raw_parts(symbols as *const libc::Elf64_Sym, count)
            .iter()
            .find(|symbol| CStr::from_ptr((strings + symbol.st_name as usize) as *const i8) == name)
            .map(|symbol| bias.wrapping_add(symbol.st_value as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_system_call() {
        prepare();
        assert_ne!(VDSO.load(Relaxed), 0, "every kernel this runs on has one");
        let before = kernel::clock_ns(libc::CLOCK_MONOTONIC);
        let between = monotonic_ns();
        let after = kernel::clock_ns(libc::CLOCK_MONOTONIC);
        assert!(before <= between && between <= after);
    }
}
