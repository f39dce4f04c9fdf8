//! Programs that confine themselves: by seccomp, by asking to be traced, by taking their system calls or the time stamp counter
//! away from themselves.
//!
//! Behind a seccomp filter the kernel may kill the process for a system call that it would not make alone: the clock that a
//! sample reads, memory for a table. What it will allow is the filter's to say. Under a tracer (`PTRACE_TRACEME`) each signal
//! stops the process and is reported, the agent's too. A program that dispatches its system calls itself gets the agent's as
//! `SIGSYS`. One that may not read the time stamp counter dies of the kernel's clocks, which read it. So the agent gives up
//! before any of these calls, in all threads. The collector samples the process from outside.
//!
//! A filter is inherited, so the programs that the process starts from then on have no agent. The others are not: the agent of
//! the next program asks at its start whether it is traced, as below a debugger. So the environment stays as it is, and what
//! the process starts by `exec` is recorded. (The ban on the counter is inherited, but glibc's dynamic linker dies of it.)
//!
//! Seen are `prctl`, `ptrace` and `syscall` of the C library ([`crate::system_call`]). A filter without a program is a question
//! whether there are filters.
#![allow(unsafe_code)] // the C library's functions, the target's environment

use core::ffi::{CStr, c_char};
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use slimline_trace::wire::RUN_DIRECTORY_VARIABLE;

use crate::{hooks, kernel, process, recorder, signals, thread, trigger};

static CONFINED: AtomicBool = AtomicBool::new(false);
/// How far the thread that ends recording has come: nobody, or [`ENDING`], or [`ENDED`].
static END: AtomicU32 = AtomicU32::new(0);
const ENDING: u32 = 1;
const ENDED: u32 = 2;
/// How many [`Busy`] there are.
static BUSY: AtomicU64 = AtomicU64::new(0);

/// While it lives, the calling thread may make system calls of the agent's: whoever confines the process waits for that.
pub(crate) struct Busy(());

impl Busy {
    /// None once the process is confined.
    pub(crate) fn begin() -> Option<Self> {
        thread::set_busy(thread::busy() + 1);
        BUSY.fetch_add(1, SeqCst);
        let busy = Self(());
        (!is_confined()).then_some(busy)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        BUSY.fetch_sub(1, SeqCst);
        thread::set_busy(thread::busy() - 1);
    }
}

/// The same for the handler of a trigger, which may find no thread-local storage. As no handler of the program's interrupts it
/// and none leaves it by a jump, its thread can't confine the process meanwhile.
pub(crate) struct HandlerBusy(());

impl HandlerBusy {
    /// None once the process is confined.
    pub(crate) fn begin() -> Option<Self> {
        BUSY.fetch_add(1, SeqCst);
        let busy = Self(());
        (!is_confined()).then_some(busy)
    }
}

impl Drop for HandlerBusy {
    fn drop(&mut self) {
        BUSY.fetch_sub(1, SeqCst);
    }
}

/// In a forked child: other threads that were busy are not here.
pub(crate) fn forget_others() {
    BUSY.store(thread::busy(), Relaxed);
    END.store(0, Relaxed);
}

/// Waits until no other thread is busy, but not for ever: a debugger may have stopped one, or a signal handler has left the agent
/// by a jump.
fn wait_for_others() {
    // The caller is not busy, but for what a signal handler of the program's interrupted, or left by a jump.
    let own = thread::busy();
    wait_while(|| BUSY.load(SeqCst) > own);
}

/// Waits for other threads. Gives up after a tenth of a second.
fn wait_while(is_early: impl Fn() -> bool) {
    const LONGEST_NS: u64 = 100_000_000;
    let began_ns = recorder::now_ns();
    while is_early() && recorder::now_ns().saturating_sub(began_ns) < LONGEST_NS {
        kernel::yield_now();
    }
}

/// Whether this process confined itself, or one that it was forked from did.
pub(crate) fn is_confined() -> bool {
    CONFINED.load(SeqCst)
}

/// By what a process is confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Confinement {
    /// Seccomp.
    Filter,
    /// The parent, from `PTRACE_TRACEME` on.
    Tracer,
    /// Its own handler of `SIGSYS`.
    Dispatch,
    /// `SIGSEGV` for who reads the time stamp counter.
    Counter,
}

impl Confinement {
    /// What a system call confines the caller by; None where it does not.
    fn by(number: i64, [first, second, third]: [usize; 3]) -> Option<Self> {
        const PR_SET_SECCOMP: usize = 22;
        const PR_SET_TSC: usize = 26;
        const PR_TSC_SIGSEGV: usize = 2;
        const PR_SET_SYSCALL_USER_DISPATCH: usize = 59;
        const PR_SYS_DISPATCH_OFF: usize = 0;
        const SECCOMP_MODE_STRICT: usize = 1;
        const SECCOMP_MODE_FILTER: usize = 2;
        const SECCOMP_SET_MODE_STRICT: usize = 0;
        const SECCOMP_SET_MODE_FILTER: usize = 1;
        match (number, first, second) {
            (libc::SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_STRICT) => Some(Self::Filter),
            (libc::SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER) if third != 0 => Some(Self::Filter),
            (libc::SYS_seccomp, SECCOMP_SET_MODE_STRICT, _) => Some(Self::Filter),
            (libc::SYS_seccomp, SECCOMP_SET_MODE_FILTER, _) if third != 0 => Some(Self::Filter),
            (libc::SYS_prctl, PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF) => None,
            (libc::SYS_prctl, PR_SET_SYSCALL_USER_DISPATCH, _) => Some(Self::Dispatch),
            (libc::SYS_prctl, PR_SET_TSC, PR_TSC_SIGSEGV) => Some(Self::Counter),
            (libc::SYS_ptrace, request, _) if request == libc::PTRACE_TRACEME as usize => Some(Self::Tracer),
            _ => None,
        }
    }

    /// Why recording ends.
    fn reason(self) -> &'static str {
        match self {
            Self::Filter => "it confined itself (seccomp)",
            Self::Tracer => "it asked to be traced (ptrace), and its tracer would see the signals of sampling",
            Self::Dispatch => {
                "it dispatches its system calls itself (PR_SET_SYSCALL_USER_DISPATCH), and would get those of sampling"
            }
            Self::Counter => "it forbade itself the time stamp counter (PR_SET_TSC), which sampling reads",
        }
    }
}

/// Ends recording if a system call confines the process, which the caller is about to make.
pub(crate) fn before_system_call(number: i64, arguments: [usize; 3]) {
    if let Some(confinement) = Confinement::by(number, arguments) {
        before(confinement);
    }
}

#[cold]
fn before(confinement: Confinement) {
    if !process::is_ours() {
        return;
    }
    match END.compare_exchange(0, ENDING, SeqCst, SeqCst) {
        Ok(_) => {
            end(confinement.reason());
            END.store(ENDED, SeqCst);
        }
        // Another thread confines itself, too: until it is done, triggers may come to this one.
        Err(_) => wait_while(|| END.load(SeqCst) == ENDING),
    }
    // Also where recording ended before: a tracer may come before the filter.
    if confinement == Confinement::Filter {
        // SAFETY: as `setenv` may be called here: by a program that does so while other threads look, at its own risk.
        unsafe { take_out_of_environment(libc_environment()) };
    }
}

/// Ends recording for good, without a trace that a filter or a tracer would see. Also where it is over, as triggers may be left.
fn end(reason: &str) {
    hooks::flush();
    hooks::stop();
    thread::end();
    if recorder::is_open() {
        recorder::fail(format_args!("{reason}; what it did until then is here"));
    }
    // Other threads may be confined, too.
    CONFINED.store(true, SeqCst);
    wait_for_others();
    trigger::stop_everywhere();
    signals::release();
}

fn libc_environment() -> *mut *mut c_char {
    unsafe extern "C" {
        static environ: *mut *mut c_char;
    }
    // SAFETY: the C library's own, null or a NULL-terminated array.
    unsafe { environ }
}

/// Takes out what made us part of this process: programs started with it are not recorded.
///
/// # Safety
/// `environment` must be null or a NULL-terminated array of C strings, which nobody else changes.
unsafe fn take_out_of_environment(environment: *mut *mut c_char) {
    if environment.is_null() {
        return;
    }
    let (mut from, mut to) = (environment, environment);
    // SAFETY: promised by the caller; `to` never passes `from`.
    unsafe {
        while !(*from).is_null() {
            if stays(*from) {
                *to = *from;
                to = to.add(1);
            }
            from = from.add(1);
        }
        *to = core::ptr::null_mut();
    }
}

/// Whether an entry of the environment stays; takes the agent, which comes first, out of a list of libraries.
///
/// # Safety
/// It must be a C string that can be written to.
unsafe fn stays(entry: *mut c_char) -> bool {
    // SAFETY: promised by the caller.
    let text = unsafe { CStr::from_ptr(entry) }.to_bytes();
    if text.strip_prefix(RUN_DIRECTORY_VARIABLE.as_bytes()).is_some_and(|rest| rest.starts_with(b"=")) {
        return false;
    }
    let Some(libraries) = text.strip_prefix(b"LD_PRELOAD=") else { return true };
    let Some(first) = libraries.split(|byte| matches!(byte, b':' | b' ')).next() else { return true };
    if !first.ends_with(b"/libslimline_agent.so") {
        return true;
    }
    let list = text.len() - libraries.len();
    let left = list + first.len() + 1;
    if left > text.len() {
        return false;
    }
    // SAFETY: inside the string, its end included.
    unsafe { core::ptr::copy(entry.add(left), entry.add(list), text.len() - left + 1) };
    true
}

#[cfg(feature = "preload")]
mod interpose {
    use core::ffi::{c_int, c_long, c_uint};

    use super::before_system_call;
    use crate::onward::{fail, onward};

    /// Declared with `...`: arguments are in the same registers either way, and unused ones do no harm.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int {
        let prctl = onward!(c"prctl", fn(c_int, usize, usize, usize, usize) -> c_int, or fail(libc::ENOSYS));
        before_system_call(libc::SYS_prctl, [option as usize, a, b]);
        // SAFETY: the caller's own call.
        unsafe { prctl(option, a, b, c, d) }
    }

    /// Declared with `...`: as above.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn ptrace(request: c_uint, a: usize, b: usize, c: usize) -> c_long {
        let ptrace = onward!(c"ptrace", fn(c_uint, usize, usize, usize) -> c_long, or fail(libc::ENOSYS).into());
        before_system_call(libc::SYS_ptrace, [request as usize, a, b]);
        // SAFETY: the caller's own call.
        unsafe { ptrace(request, a, b, c) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::borrow::ToOwned;
    use std::ffi::CString;
    use std::vec;
    use std::vec::Vec;

    #[test]
    fn questions_are_not_confinement() {
        let filters = [(157, [22, 1, 0]), (157, [22, 2, 0x1000]), (317, [0, 0, 0]), (317, [1, 0, 0x1000])];
        for (number, arguments) in filters {
            assert_eq!(Confinement::by(number, arguments), Some(Confinement::Filter), "{number} {arguments:?}");
        }
        assert_eq!(Confinement::by(101, [0, 0, 0]), Some(Confinement::Tracer), "PTRACE_TRACEME");
        assert_eq!(Confinement::by(157, [59, 1, 0]), Some(Confinement::Dispatch), "PR_SYS_DISPATCH_ON");
        assert_eq!(Confinement::by(157, [59, 0, 0]), None, "PR_SYS_DISPATCH_OFF");
        assert_eq!(Confinement::by(157, [26, 2, 0]), Some(Confinement::Counter), "PR_TSC_SIGSEGV");
        assert_eq!(Confinement::by(157, [26, 1, 0]), None, "PR_TSC_ENABLE");
        assert_eq!(Confinement::by(157, [22, 2, 0]), None, "are there filters?");
        assert_eq!(Confinement::by(157, [15, 1, 0]), None, "PR_SET_NAME");
        assert_eq!(Confinement::by(317, [1, 1, 0]), None, "are there filters?");
        assert_eq!(Confinement::by(317, [2, 0, 0x1000]), None, "SECCOMP_GET_ACTION_AVAIL");
        assert_eq!(Confinement::by(101, [16, 7, 0]), None, "PTRACE_ATTACH");
        assert_eq!(Confinement::by(1, [22, 1, 1]), None, "write");
    }

    fn left(entries: &[&str]) -> Vec<CString> {
        let owned: Vec<_> = entries.iter().map(|entry| CString::new(*entry).unwrap().into_raw()).collect();
        let mut environment: Vec<_> = owned.iter().copied().chain([core::ptr::null_mut()]).collect();
        // SAFETY: strings and an array of our own.
        unsafe { take_out_of_environment(environment.as_mut_ptr()) };
        let left = environment.iter().take_while(|entry| !entry.is_null());
        // SAFETY: as above.
        let left = left.map(|&entry| unsafe { CStr::from_ptr(entry) }.to_owned()).collect();
        // SAFETY: each was made by `into_raw`; a shorter string lies in the same room, whose size is not asked for.
        owned.into_iter().for_each(|entry| unsafe { libc::free(entry.cast()) });
        left
    }

    #[test]
    fn the_agent_leaves_the_environment_and_nothing_else_does() {
        let agent = "/dev/shm/slimline-1-x/libslimline_agent.so";
        let kept = |entries: &[&str]| left(entries).into_iter().map(|e| e.into_string().unwrap()).collect::<Vec<_>>();
        let preload = |libraries: &str| std::format!("LD_PRELOAD={libraries}");
        assert_eq!(kept(&["A=1", &preload(agent), "SLIMLINE_RUN=/dev/shm/x", "B=2"]), vec!["A=1", "B=2"]);
        assert_eq!(kept(&[&preload(&std::format!("{agent}:/lib/a.so /b.so"))]), vec!["LD_PRELOAD=/lib/a.so /b.so"]);
        assert_eq!(kept(&["LD_PRELOAD=/lib/a.so", "SLIMLINE_RUNS=1"]), vec!["LD_PRELOAD=/lib/a.so", "SLIMLINE_RUNS=1"]);
        assert!(kept(&[]).is_empty());
    }
}
