//! The process's begin, its forks, and whichever way it ends by.
#![allow(unsafe_code)] // entry points called by the C library, and signals

use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Once;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};
use std::time::Duration;

use crate::format::{DIRECTORY_VARIABLE, STEPS_VARIABLE};
use crate::{functions, live, written};

/// The process that is profiled: a `vfork` child shares our memory but is another.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// The `_exit` that comes after ours: the agent's has a record to end, too. 0 before it is looked for.
static NEXT_END: AtomicUsize = AtomicUsize::new(0);

/// Signals that end a process by default, but for the one that nobody can have.
const FATAL: [i32; 20] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGUSR1,
    libc::SIGSEGV,
    libc::SIGUSR2,
    libc::SIGPIPE,
    libc::SIGALRM,
    libc::SIGTERM,
    libc::SIGXCPU,
    libc::SIGXFSZ,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGIO,
    libc::SIGSYS,
];

/// How long who ends the process waits for another thread that is writing.
const WRITTEN_WITHIN: Duration = Duration::from_secs(2);

/// The kernel's number of the thread that writes, and whether it is through.
static WRITER: AtomicU32 = AtomicU32::new(0);
static IS_WRITTEN: AtomicBool = AtomicBool::new(false);

unsafe extern "C" {
    fn __register_atfork(
        prepare: Option<unsafe extern "C" fn()>,
        parent: Option<unsafe extern "C" fn()>,
        child: Option<unsafe extern "C" fn()>,
        library: *mut u8,
    ) -> i32;
    fn __cxa_at_quick_exit(function: Option<unsafe extern "C" fn(*mut u8)>, library: *mut u8) -> i32;
}

/// The calling thread's number in the kernel.
pub(crate) fn thread_id() -> u32 {
    // SAFETY: takes nothing.
    (unsafe { libc::gettid() }).cast_unsigned()
}

/// `CLOCK_MONOTONIC`, which others who look at the process go by, too.
pub(crate) fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes a structure of ours. That clock is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec.cast_unsigned().saturating_mul(1_000_000_000).saturating_add(now.tv_nsec.cast_unsigned())
}

/// Writes the profile. Once; from whichever way the process ends by. Where another thread is at it, that is waited for.
fn finish() {
    let Some(live) = live::begun().filter(|_| PROCESS.load(Relaxed) == std::process::id()) else { return };
    if live.close() {
        WRITER.store(thread_id(), Relaxed);
        written::write(live, std::process::id());
        IS_WRITTEN.store(true, Release);
        return;
    }
    let since_ns = monotonic_ns();
    let is_late = || u128::from(monotonic_ns().saturating_sub(since_ns)) > WRITTEN_WITHIN.as_nanos();
    // Who writes may have met its end in that.
    while !IS_WRITTEN.load(Acquire) && WRITER.load(Relaxed) != thread_id() && !is_late() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Runs when the library is loaded, before `main`.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = at_start;

/// Runs when the process exits in the ordinary way, after its own exit handlers.
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = at_end;

extern "C" fn at_start() {
    // A program with more rights than its caller, linked to us: what the caller wrote is not to be followed.
    // SAFETY: a look into the auxiliary vector.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        return;
    }
    let Some(directory) = std::env::var_os(DIRECTORY_VARIABLE).filter(|path| path.as_bytes().starts_with(b"/")) else {
        return;
    };
    // SAFETY: the name ends in NUL.
    let next_end = unsafe { libc::dlsym(libc::RTLD_NEXT, c"_exit".as_ptr()) };
    NEXT_END.store(next_end as usize, Relaxed);
    PROCESS.store(std::process::id(), Relaxed);
    functions::begin();
    live::begin(PathBuf::from(directory), std::env::var_os(STEPS_VARIABLE).is_some());
    run_in_forked_children(in_forked_child);
    // SAFETY: a plain function; it lives as long as we do, and we are never unloaded.
    unsafe {
        __cxa_at_quick_exit(Some(at_quick_exit), std::ptr::null_mut());
    }
}

/// Has a function run in forked children, after those that asked before.
pub(crate) fn run_in_forked_children(function: unsafe extern "C" fn()) {
    // SAFETY: a plain function of ours that takes nothing; it lives as long as we do, and we are never unloaded.
    unsafe { __register_atfork(None, None, Some(function), std::ptr::null_mut()) };
}

extern "C" fn at_end() {
    finish();
}

unsafe extern "C" fn at_quick_exit(_: *mut u8) {
    finish();
}

unsafe extern "C" fn in_forked_child() {
    PROCESS.store(0, Relaxed);
    WRITER.store(0, Relaxed);
    if let Some(live) = live::live() {
        if live.begin_again() {
            PROCESS.store(std::process::id(), Relaxed);
        } else {
            live.close();
        }
    }
}

/// Has the profile written before a signal ends the process, where it would. Not before there is any: programs that look at the actions of signals do
/// so when they begin, and are to find them as they would alone. They may set actions of their own later: then that is what happens.
pub(crate) fn write_before_fatal_signals() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| FATAL.into_iter().for_each(finish_on));
}

fn finish_on(signal: i32) {
    // SAFETY: a structure of integers and a pointer, for which zeros are the default action.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: asks for the action only.
    let asked = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    if asked != 0 || action.sa_sigaction != libc::SIG_DFL {
        return;
    }
    action.sa_sigaction = at_fatal_signal as extern "C" fn(i32) as usize;
    // On the alternate stack, as the other may be full; it may be raised again, to do what it would have done.
    action.sa_flags = libc::SA_ONSTACK | libc::SA_NODEFER;
    // SAFETY: the handler allocates nothing, and waits for no lock that the thread it interrupts may hold.
    unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
}

/// Several threads may meet their ends at once: each comes here, and the first one writes.
extern "C" fn at_fatal_signal(signal: i32) {
    finish();
    // SAFETY: the default action, for which zeros stand; then this ends the process.
    unsafe {
        let default: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, &raw const default, std::ptr::null_mut());
        libc::raise(signal);
    }
}

/// `_exit` runs no exit handlers: the profile ends here.
#[unsafe(no_mangle)]
extern "C" fn _exit(status: i32) -> ! {
    end(status)
}

/// As [`_exit`].
#[unsafe(no_mangle)]
extern "C" fn _Exit(status: i32) -> ! {
    end(status)
}

fn end(status: i32) -> ! {
    finish();
    type End = unsafe extern "C" fn(i32) -> !;
    let next = NEXT_END.load(Relaxed);
    if next != 0 {
        // SAFETY: the next `_exit`, found by its name.
        unsafe { std::mem::transmute::<usize, End>(next)(status) }
    }
    loop {
        // SAFETY: ends the process, whatever the status is.
        unsafe { libc::syscall(libc::SYS_exit_group, status) };
    }
}
