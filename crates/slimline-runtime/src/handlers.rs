//! The program's signal handlers: each runs inside a function of ours, so that its records go into a stream of its own.
//!
//! Instrumented code that installs a handler by `sigaction` or `signal` calls the functions here in their place. The
//! kernel is given [`run`], the program is told of its own handlers only. Handlers that code without instrumentation
//! installs are not seen; their records, if they write any, may be written over.
#![allow(unsafe_code)] // the C library's functions, and handlers, which are plain addresses

use core::arch::global_asm;
use core::ffi::c_int;
use core::ptr::null;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::kernel::Signals;
use crate::thread::{self, Handler, Stack};
use crate::{copies, process};

/// Signals there can be, and 0.
const SIGNALS: usize = 65;

/// The program's handler of each signal that the kernel gives to [`run`].
static HANDLERS: [AtomicUsize; SIGNALS] = [const { AtomicUsize::new(0) }; SIGNALS];

unsafe extern "C" {
    /// What the kernel calls. An exception, the end of the thread or a jump may leave it: nothing has to be done then. Not in
    /// Rust, whose functions end the process where somebody unwinds through them.
    #[link_name = "slimline_run"]
    fn run();
}

global_asm!(
    ".pushsection .text.slimline_run, \"ax\", @progbits",
    ".hidden slimline_run",
    ".globl slimline_run",
    ".type slimline_run, @function",
    ".p2align 4",
    "slimline_run:",
    ".cfi_startproc",
    "push rbx",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset rbx, -16",
    "push r12",
    ".cfi_def_cfa_offset 24",
    ".cfi_offset r12, -24",
    "push r13",
    ".cfi_def_cfa_offset 32",
    ".cfi_offset r13, -32",
    // The three arguments, whatever the program asked for.
    "mov ebx, edi",
    "mov r12, rsi",
    "mov r13, rdx",
    "call {enter}",
    "mov edi, ebx",
    "mov rsi, r12",
    "mov rbx, rdx",
    "mov rdx, r13",
    "call rax",
    "mov rdi, rbx",
    "call {leave}",
    "pop r13",
    ".cfi_def_cfa_offset 24",
    "pop r12",
    ".cfi_def_cfa_offset 16",
    "pop rbx",
    ".cfi_def_cfa_offset 8",
    "ret",
    ".cfi_endproc",
    ".size slimline_run, . - slimline_run",
    ".popsection",
    enter = sym enter,
    leave = sym thread::leave_handler,
);

/// A handler that is to be called, as two registers.
#[repr(C)]
struct Entered {
    handler: usize,
    here: Handler,
}

extern "C" fn enter(signal: c_int) -> Entered {
    // The kernel calls us for signals that have a handler only.
    let handler = place_of(signal).map_or(0, |handler| handler.load(Acquire));
    Entered { handler, here: thread::enter_handler(Stack::now()) }
}

fn ours() -> usize {
    run as *const () as usize
}

fn place_of(signal: c_int) -> Option<&'static AtomicUsize> {
    usize::try_from(signal).ok().and_then(|signal| HANDLERS.get(signal))
}

/// `sigaction`, for instrumented code.
#[unsafe(no_mangle)]
unsafe extern "C" fn __slimline_sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    let ours = sigaction as unsafe extern "C" fn(_, _, _) -> _;
    // SAFETY: as the C library's, whose contract is the caller's.
    unsafe { (copies::other().map_or(ours, |first| first.sigaction))(signal, new, old) }
}

/// `signal`, for instrumented code.
#[unsafe(no_mangle)]
extern "C" fn __slimline_signal(number: c_int, handler: usize) -> usize {
    (copies::other().map_or(signal as extern "C" fn(_, _) -> _, |first| first.signal))(number, handler)
}

/// [`__slimline_sigaction`] of the process's copy.
pub(crate) unsafe extern "C" fn sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    // SAFETY: as the C library's `sigaction`, whose contract is the caller's: null, or a whole structure.
    unsafe {
        let mut given = (!new.is_null()).then(|| *new);
        let wanted = given.as_ref().map_or(libc::SIG_DFL, |new| new.sa_sigaction);
        exchange(signal, wanted, |handler| {
            if let Some(given) = &mut given {
                given.sa_sigaction = handler;
            }
            let given = given.as_ref().map_or(null(), |given| &raw const *given);
            let result = libc::sigaction(signal, given, old);
            let before = if result == 0 && !old.is_null() { Some(&mut (*old).sa_sigaction) } else { None };
            (result, result == 0, before)
        })
    }
}

/// [`__slimline_signal`] of the process's copy.
pub(crate) extern "C" fn signal(signal: c_int, handler: usize) -> usize {
    let mut before = 0;
    exchange(signal, handler, |handler| {
        // SAFETY: as the C library's, whose contract is the caller's.
        before = unsafe { libc::signal(signal, handler) };
        ((), before != libc::SIG_ERR, Some(&mut before))
    });
    before
}

/// `signal` as System V has it, for instrumented code: the handler runs once, and may be interrupted by its own signal.
#[unsafe(no_mangle)]
unsafe extern "C" fn __slimline_sysv_signal(signal: c_int, handler: usize) -> usize {
    // SAFETY: all zeros is a `sigaction`.
    let mut action: libc::sigaction = unsafe { core::mem::zeroed() };
    action.sa_sigaction = handler;
    action.sa_flags = libc::SA_RESETHAND | libc::SA_NODEFER;
    // SAFETY: as above.
    let mut old: libc::sigaction = unsafe { core::mem::zeroed() };
    // SAFETY: whole structures.
    if unsafe { __slimline_sigaction(signal, &raw const action, &raw mut old) } == 0 {
        old.sa_sigaction
    } else {
        libc::SIG_ERR
    }
}

/// Has `install` install the handler that the kernel is to call where the program wants `wanted`. It gives its result, whether
/// that is success, and where it tells the handler before, which becomes the program's.
fn exchange<'a, T>(signal: c_int, wanted: usize, install: impl FnOnce(usize) -> (T, bool, Option<&'a mut usize>)) -> T {
    let _signals = Signals::block();
    let place = place_of(signal);
    let program_before = place.map_or(0, |place| place.load(Relaxed));
    let is_function = ![libc::SIG_DFL, libc::SIG_IGN, libc::SIG_ERR].contains(&wanted);
    // Ours comes back to us where something that was told of it by the kernel passes it on. A child by `vfork` has handlers of
    // its own in its parent's memory.
    let is_replaced = is_function && wanted != ours() && process::ring().is_some() && process::is_ours();
    let place = place.filter(|_| is_replaced);
    if let Some(place) = place {
        // First: the signal may come in another thread as soon as it is installed.
        place.store(wanted, Release);
    }
    let (result, is_installed, before) = install(if place.is_some() { ours() } else { wanted });
    if let (Some(place), false) = (place, is_installed) {
        place.store(program_before, Release);
    }
    if let Some(before) = before.filter(|before| **before == ours()) {
        *before = program_before;
    }
    result
}
