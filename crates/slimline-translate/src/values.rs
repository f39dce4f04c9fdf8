//! What was loaded or stored: asked of QEMU where it tells (`qemu_plugin_mem_get_value`, since 9.2), else looked up in the program's memory.
//!
//! Versions before tell addresses only, but call behind the access: what was stored is there, and what was loaded, unless another thread
//! has stored something since. Between the two another thread may take the memory back, or protect it, as garbage collectors do to have
//! all threads stop: programs that are right do that to pages that others load from. So reads may fail, without a system call for each:
//!
//! ```text
//!   mov eax, [rdi]   ─ fault ─►  kernel ─► on_fault: is it one of these four? goes on at `failed`
//!   mov edx, 1                             else QEMU's own handler, of the program's faults
//! ```
#![allow(unsafe_code)] // assembly, a handler of signals, and what QEMU exports

use std::arch::global_asm;
use std::env;
use std::ffi::{c_int, c_void};
use std::io;
use std::mem::{MaybeUninit, transmute};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use slimline_trace::stream::ring::VALUES_VARIABLE;

use crate::qemu::{TellValue, tells_values};
use crate::translation::guest_base;

/// Known once values are wanted and can be told: by QEMU's function, if it has one.
static TOLD_BY: OnceLock<Option<TellValue>> = OnceLock::new();

/// QEMU's handlers of `SIGSEGV` and of `SIGBUS`.
static QEMUS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
/// Memory is not there, or what it is mapped from is not.
const FAULTS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

type Handler = unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// A value, zeros above it, and 1; or two zeros.
#[repr(C)]
struct Read {
    value: u64,
    is_there: u64,
}

// Nothing is on the stack yet where they may fault.
global_asm!(
    ".pushsection .text.slimline_read, \"ax\", @progbits",
    ".hidden slimline_read_1",
    ".globl slimline_read_1",
    "slimline_read_1:",
    "movzx eax, byte ptr [rdi]",
    "mov edx, 1",
    "ret",
    ".hidden slimline_read_2",
    ".globl slimline_read_2",
    "slimline_read_2:",
    "movzx eax, word ptr [rdi]",
    "mov edx, 1",
    "ret",
    ".hidden slimline_read_4",
    ".globl slimline_read_4",
    "slimline_read_4:",
    "mov eax, dword ptr [rdi]",
    "mov edx, 1",
    "ret",
    ".hidden slimline_read_8",
    ".globl slimline_read_8",
    "slimline_read_8:",
    "mov rax, qword ptr [rdi]",
    "mov edx, 1",
    "ret",
    ".hidden slimline_read_failed",
    ".globl slimline_read_failed",
    "slimline_read_failed:",
    "xor eax, eax",
    "xor edx, edx",
    "ret",
    ".popsection",
);

unsafe extern "C" {
    fn slimline_read_1(address: u64) -> Read;
    fn slimline_read_2(address: u64) -> Read;
    fn slimline_read_4(address: u64) -> Read;
    fn slimline_read_8(address: u64) -> Read;
    fn slimline_read_failed() -> Read;
}

/// Whether values are wanted.
pub(crate) fn are_wanted() -> bool {
    env::var_os(VALUES_VARIABLE).is_some_and(|value| !value.is_empty())
}

/// Sees to that values can be told, from here on. QEMU has begun to run the program.
///
/// # Errors
/// QEMU handles no faults, which it does in all versions.
pub(crate) fn prepare() -> io::Result<()> {
    if TOLD_BY.get().is_none() {
        let told_by = tells_values();
        if told_by.is_none() {
            catch_faults()?;
        }
        TOLD_BY.get_or_init(|| told_by);
    }
    Ok(())
}

/// The value of an access that QEMU tells just now, as it tells its kind, of 1, 2, 4 or 8 bytes; none where it can't be read any more.
#[inline]
pub(crate) fn value(kind: u32, address: u64, bytes: u32) -> Option<u64> {
    if let Some(Some(tells)) = TOLD_BY.get() {
        // SAFETY: QEMU's, called where it calls us for an access.
        return unsafe { tells(kind) }.word();
    }
    let place = address.wrapping_add(guest_base());
    // SAFETY: what is not there is caught.
    let Read { value, is_there } = unsafe {
        match bytes {
            1 => slimline_read_1(place),
            2 => slimline_read_2(place),
            4 => slimline_read_4(place),
            _ => slimline_read_8(place),
        }
    };
    (is_there != 0).then_some(value)
}

/// Has faults of our reads handled here, and all others as before.
fn catch_faults() -> io::Result<()> {
    for (signal, before) in FAULTS.into_iter().zip(&QEMUS) {
        let mut action = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: room for what there is.
        if unsafe { libc::sigaction(signal, ptr::null(), action.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: all of it may be zeros.
        let mut action = unsafe { action.assume_init() };
        if action.sa_flags & libc::SA_SIGINFO == 0 {
            return Err(io::Error::other("QEMU handles no faults of the program"));
        }
        before.store(action.sa_sigaction, Relaxed);
        action.sa_sigaction = on_fault as *const () as usize;
        // SAFETY: with QEMU's own flags and mask; its handler is called with what ours is.
        if unsafe { libc::sigaction(signal, &raw const action, ptr::null_mut()) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// QEMU's handler may leave it by `siglongjmp`: nothing is to be done then.
unsafe extern "C" fn on_fault(signal: c_int, information: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: what the kernel gives to handlers.
    let place = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_RIP as usize] };
    let at = place.cast_unsigned() as usize;
    let reads = [slimline_read_1, slimline_read_2, slimline_read_4, slimline_read_8];
    if reads.into_iter().any(|read| read as *const () as usize == at) {
        *place = (slimline_read_failed as *const () as usize as u64).cast_signed();
        return;
    }
    let before = QEMUS[usize::from(signal == libc::SIGBUS)].load(Relaxed);
    // SAFETY: it was the signal's handler before, of this kind.
    unsafe { transmute::<usize, Handler>(before)(signal, information, context) };
}
