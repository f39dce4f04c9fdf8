//! The C library's functions that install actions, change masks or wait for signals.
//!
//! For signals that we have not taken over they are the C library's own, with masks translated. Covered: `sigaction`,
//! `signal`, `bsd_signal`, `ssignal`, `sysv_signal`, `__sysv_signal`, `sigset`, `sighold`, `sigrelse`, `sigignore`,
//! `siginterrupt`; `sigprocmask`, `pthread_sigmask`, `sigblock`, `sigsetmask`, `siggetmask`, `sigpending`;
//! `sigsuspend`, `sigpause`, `__xpg_sigpause`, `pselect`, `ppoll`, `__ppoll_chk`, `epoll_pwait`, `epoll_pwait2`;
//! `sigwait`, `sigwaitinfo`, `sigtimedwait`; `signalfd`.

use core::ffi::{c_int, c_void};
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;
use libc::{sigset_t, timespec};

use super::action::{exchange, row};
use super::mask::{from_kernel, to_kernel};
use super::{action_of, bit, faults, forward, kernel_of_libc, libc_of_kernel, ours, shadow};
use crate::kernel;
use crate::onward::{fail, onward};
use crate::trigger::{SignalInfo, Trigger};

/// First word of a set: the kernel knows 64 signals.
unsafe fn word(set: *const sigset_t) -> u64 {
    // SAFETY: the caller of a C library function passes a set.
    unsafe { set.cast::<u64>().read() }
}

/// A copy of a set for the kernel, `None` for null.
unsafe fn translated(set: *const sigset_t) -> Option<sigset_t> {
    if set.is_null() {
        return None;
    }
    // SAFETY: as in `word`.
    let mut copy = unsafe { set.read() };
    // SAFETY: a set is larger than its first word.
    unsafe { (&raw mut copy).cast::<u64>().write(to_kernel(word(&copy))) };
    Some(copy)
}

fn pointer(set: &Option<sigset_t>) -> *const sigset_t {
    set.as_ref().map_or(core::ptr::null(), core::ptr::from_ref)
}

unsafe fn translate_back(set: *mut sigset_t) {
    if !set.is_null() {
        // SAFETY: as in `word`.
        unsafe { set.cast::<u64>().write(from_kernel(word(set))) };
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sigaction(signal: c_int, new: *const libc::sigaction, old: *mut libc::sigaction) -> c_int {
    faults::leave_to_program(signal);
    // SAFETY: null or an action, by the caller's promise.
    let wanted = unsafe { new.as_ref() };
    if row(signal).is_some()
        && let Some(was) = exchange(signal, wanted.map(kernel_of_libc))
    {
        if !old.is_null() {
            // SAFETY: the caller's place for an action.
            unsafe { libc_of_kernel(&was, old) };
        }
        return 0;
    }
    type Old = *mut libc::sigaction;
    let next = onward!(c"sigaction", fn(c_int, *const libc::sigaction, Old) -> c_int, or fail(libc::ENOSYS));
    let copy = wanted.map(|action| {
        let mut copy = *action;
        // SAFETY: a set in the caller's action.
        copy.sa_mask = unsafe { translated(&action.sa_mask) }.unwrap_or(action.sa_mask);
        copy
    });
    let new = copy.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
    // SAFETY: the caller's own call, with a translated mask.
    let result = unsafe { next(signal, new, old) };
    if result == 0 && !old.is_null() {
        // SAFETY: filled by the call.
        unsafe { translate_back(&raw mut (*old).sa_mask) };
    }
    result
}

/// Rows of [`super::action`] for which `siginterrupt` asked that calls be interrupted.
static INTERRUPTING: AtomicU32 = AtomicU32::new(0);

/// Installs a handler for a signal that we have taken over; None where it is none, or the caller a `vfork` child.
fn install(signal: c_int, handler: usize, flags: c_int, mask: u64) -> Option<usize> {
    faults::leave_to_program(signal);
    row(signal)?;
    if handler == libc::SIG_ERR {
        fail(libc::EINVAL);
        return Some(libc::SIG_ERR);
    }
    exchange(signal, Some(action_of(handler, flags, mask))).map(|old| old.handler)
}

fn install_bsd(signal: c_int, handler: usize) -> Option<usize> {
    faults::leave_to_program(signal);
    let interrupting = INTERRUPTING.load(Relaxed) & 1 << row(signal)? != 0;
    install(signal, handler, if interrupting { 0 } else { libc::SA_RESTART }, bit(signal))
}

macro_rules! handler_setters {
    ($($function:ident as $symbol:literal by $install:expr;)*) => { $(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $function(signal: c_int, handler: usize) -> usize {
            match $install(signal, handler) {
                Some(old) => old,
                None => {
                    let next = onward!($symbol, fn(c_int, usize) -> usize, or libc::SIG_ERR);
                    // SAFETY: the caller's own call.
                    unsafe { next(signal, handler) }
                }
            }
        }
    )* };
}

fn install_system_v(signal: c_int, handler: usize) -> Option<usize> {
    install(signal, handler, libc::SA_RESETHAND | libc::SA_NODEFER, 0)
}

handler_setters! {
    signal as c"signal" by install_bsd;
    bsd_signal as c"bsd_signal" by install_bsd;
    ssignal as c"ssignal" by install_bsd;
    sysv_signal as c"sysv_signal" by install_system_v;
    __sysv_signal as c"__sysv_signal" by install_system_v;
    sigset as c"sigset" by set_disposition;
}

/// `sigset`: an action or `SIG_HOLD`, and the mask with it.
fn set_disposition(signal: c_int, disposition: usize) -> Option<usize> {
    const SIG_HOLD: usize = 2;
    faults::leave_to_program(signal);
    row(signal)?;
    let (_, before) = kernel::set_mask(libc::SIG_BLOCK, 0);
    let held = before & bit(shadow()) != 0;
    let old = if disposition == SIG_HOLD {
        let old = exchange(signal, None)?.handler;
        kernel::set_mask(libc::SIG_BLOCK, bit(shadow()));
        old
    } else {
        let old = install(signal, disposition, 0, 0)?;
        kernel::set_mask(libc::SIG_UNBLOCK, bit(shadow()));
        old
    };
    Some(if held && old != libc::SIG_ERR { SIG_HOLD } else { old })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn siginterrupt(signal: c_int, interrupting: c_int) -> c_int {
    faults::leave_to_program(signal);
    if let Some(row) = row(signal)
        && let Some(mut action) = exchange(signal, None)
    {
        if interrupting == 0 {
            INTERRUPTING.fetch_and(!(1 << row), Relaxed);
            action.flags |= libc::SA_RESTART as u64;
        } else {
            INTERRUPTING.fetch_or(1 << row, Relaxed);
            action.flags &= !(libc::SA_RESTART as u64);
        }
        exchange(signal, Some(action));
        return 0;
    }
    let next = onward!(c"siginterrupt", fn(c_int, c_int) -> c_int, or fail(libc::ENOSYS));
    // SAFETY: the caller's own call.
    unsafe { next(signal, interrupting) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sigignore(signal: c_int) -> c_int {
    if install(signal, libc::SIG_IGN, 0, 0).is_some() {
        return 0;
    }
    let next = onward!(c"sigignore", fn(c_int) -> c_int, or fail(libc::ENOSYS));
    // SAFETY: the caller's own call.
    unsafe { next(signal) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sighold(signal: c_int) -> c_int {
    if row(signal).is_some() {
        kernel::set_mask(libc::SIG_BLOCK, bit(shadow()));
        return 0;
    }
    let next = onward!(c"sighold", fn(c_int) -> c_int, or fail(libc::ENOSYS));
    // SAFETY: the caller's own call.
    unsafe { next(signal) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sigrelse(signal: c_int) -> c_int {
    if row(signal).is_some() {
        kernel::set_mask(libc::SIG_UNBLOCK, bit(shadow()));
        return 0;
    }
    let next = onward!(c"sigrelse", fn(c_int) -> c_int, or fail(libc::ENOSYS));
    // SAFETY: the caller's own call.
    unsafe { next(signal) }
}

macro_rules! mask_setters {
    ($($function:ident as $symbol:literal else $missing:expr;)*) => { $(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $function(how: c_int, new: *const sigset_t, old: *mut sigset_t) -> c_int {
            let next = onward!($symbol, fn(c_int, *const sigset_t, *mut sigset_t) -> c_int, or $missing);
            // SAFETY: the caller's own call, with a translated mask.
            unsafe {
                let new = translated(new);
                let result = next(how, pointer(&new), old);
                if result == 0 {
                    translate_back(old);
                }
                result
            }
        }
    )* };
}

mask_setters! {
    sigprocmask as c"sigprocmask" else fail(libc::ENOSYS);
    pthread_sigmask as c"pthread_sigmask" else libc::ENOSYS;
}

/// A set of the first 32 signals, as the oldest functions have it.
fn change_old_mask(how: c_int, mask: c_int) -> c_int {
    let (_, before) = kernel::set_mask(libc::SIG_BLOCK, 0);
    let mask = to_kernel(u64::from(mask as u32));
    let mask = if how == libc::SIG_SETMASK { mask } else { mask | before };
    kernel::set_mask(libc::SIG_SETMASK, mask);
    from_kernel(before) as c_int
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sigblock(mask: c_int) -> c_int {
    change_old_mask(libc::SIG_BLOCK, mask)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sigsetmask(mask: c_int) -> c_int {
    change_old_mask(libc::SIG_SETMASK, mask)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn siggetmask() -> c_int {
    change_old_mask(libc::SIG_BLOCK, 0)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sigpending(set: *mut sigset_t) -> c_int {
    let next = onward!(c"sigpending", fn(*mut sigset_t) -> c_int, or fail(libc::ENOSYS));
    // SAFETY: the caller's own call.
    let result = unsafe { next(set) };
    if result == 0 {
        // What waits as the shadow is one of ours that waits. (Or the target's own shadow: both are told.)
        // SAFETY: filled by the call.
        unsafe { translate_back(set) };
    }
    result
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sigsuspend(mask: *const sigset_t) -> c_int {
    let next = onward!(c"sigsuspend", fn(*const sigset_t) -> c_int, or fail(libc::ENOSYS));
    // SAFETY: the caller's own call, with a translated mask.
    unsafe {
        let mask = translated(mask);
        next(pointer(&mask))
    }
}

/// Waits with a mask made from the first 32 signals.
#[unsafe(no_mangle)]
unsafe extern "C" fn sigpause(mask: c_int) -> c_int {
    suspend(to_kernel(u64::from(mask as u32)))
}

/// Waits with one signal unblocked.
#[unsafe(no_mangle)]
unsafe extern "C" fn __xpg_sigpause(signal: c_int) -> c_int {
    if !(1..=64).contains(&signal) {
        return fail(libc::EINVAL);
    }
    let (_, before) = kernel::set_mask(libc::SIG_BLOCK, 0);
    suspend(before & !to_kernel(bit(signal)))
}

fn suspend(mask: u64) -> c_int {
    // SAFETY: a set is plain words.
    let mut set: sigset_t = unsafe { core::mem::zeroed() };
    // SAFETY: a set is larger than its first word.
    unsafe { (&raw mut set).cast::<u64>().write(mask) };
    let next = onward!(c"sigsuspend", fn(*const sigset_t) -> c_int, or fail(libc::ENOSYS));
    // SAFETY: a set of ours.
    unsafe { next(&set) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pselect(
    count: c_int,
    read: *mut c_void,
    write: *mut c_void,
    except: *mut c_void,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    type Set = *mut c_void;
    let next = onward!(
        c"pselect", fn(c_int, Set, Set, Set, *const timespec, *const sigset_t) -> c_int, or fail(libc::ENOSYS));
    // SAFETY: the caller's own call, with a translated mask.
    unsafe {
        let mask = translated(mask);
        next(count, read, write, except, timeout, pointer(&mask))
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ppoll(files: *mut c_void, count: u64, timeout: *const timespec, mask: *const sigset_t) -> c_int {
    let next =
        onward!(c"ppoll", fn(*mut c_void, u64, *const timespec, *const sigset_t) -> c_int, or fail(libc::ENOSYS));
    // SAFETY: the caller's own call, with a translated mask.
    unsafe {
        let mask = translated(mask);
        next(files, count, timeout, pointer(&mask))
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __ppoll_chk(
    files: *mut c_void,
    count: u64,
    timeout: *const timespec,
    mask: *const sigset_t,
    room: usize,
) -> c_int {
    let next = onward!(
        c"__ppoll_chk", fn(*mut c_void, u64, *const timespec, *const sigset_t, usize) -> c_int, or fail(libc::ENOSYS));
    // SAFETY: the caller's own call, with a translated mask.
    unsafe {
        let mask = translated(mask);
        next(files, count, timeout, pointer(&mask), room)
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn epoll_pwait(
    poll: c_int,
    events: *mut c_void,
    count: c_int,
    timeout: c_int,
    mask: *const sigset_t,
) -> c_int {
    let next = onward!(
        c"epoll_pwait", fn(c_int, *mut c_void, c_int, c_int, *const sigset_t) -> c_int, or fail(libc::ENOSYS));
    // SAFETY: the caller's own call, with a translated mask.
    unsafe {
        let mask = translated(mask);
        next(poll, events, count, timeout, pointer(&mask))
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn epoll_pwait2(
    poll: c_int,
    events: *mut c_void,
    count: c_int,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let next = onward!(
        c"epoll_pwait2", fn(c_int, *mut c_void, c_int, *const timespec, *const sigset_t) -> c_int, or fail(libc::ENOSYS));
    // SAFETY: the caller's own call, with a translated mask.
    unsafe {
        let mask = translated(mask);
        next(poll, events, count, timeout, pointer(&mask))
    }
}

/// Waits for a signal of `set`. The signal, or minus an `errno`.
///
/// # Safety
/// `set` must be a set and `timeout` null or a time.
unsafe fn wait(set: *const sigset_t, timeout: *const timespec) -> Result<SignalInfo, c_int> {
    let next = onward!(
        c"sigtimedwait", fn(*const sigset_t, *mut SignalInfo, *const timespec) -> c_int, or Err(libc::ENOSYS));
    // SAFETY: promised by the caller.
    let (wanted, mut left) = unsafe { (word(set), timeout.as_ref().copied()) };
    // Ours itself, unblocked in truth, comes straight to who waits for it; what came before waits as the shadow.
    let also = if wanted & bit(ours()) != 0 { bit(shadow()) } else { 0 };
    // SAFETY: as above.
    let mut kernel_set = unsafe { set.read() };
    // SAFETY: a set is larger than its first word.
    unsafe { (&raw mut kernel_set).cast::<u64>().write(wanted | also) };
    let started = kernel::clock_ns(libc::CLOCK_MONOTONIC);
    loop {
        let mut info = SignalInfo::NONE;
        let timeout = left.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
        // SAFETY: our own set, place and time.
        if unsafe { next(&kernel_set, &raw mut info, timeout) } < 0 {
            // SAFETY: the calling thread's own `errno`.
            return Err(unsafe { *libc::__errno_location() });
        }
        if info.signal == shadow() {
            forward::unmark(&mut info);
        }
        if Trigger::of(&info).is_none() {
            return Ok(info);
        }
        // A trigger of ours (a timer's; perf's come in user mode only): go on waiting.
        // SAFETY: promised by the caller.
        if let Some(whole) = unsafe { timeout.as_ref() } {
            let whole_ns = (whole.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(whole.tv_nsec as u64);
            let left_ns = whole_ns.saturating_sub(kernel::clock_ns(libc::CLOCK_MONOTONIC).saturating_sub(started));
            left =
                Some(timespec { tv_sec: (left_ns / 1_000_000_000) as i64, tv_nsec: (left_ns % 1_000_000_000) as i64 });
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sigtimedwait(set: *const sigset_t, info: *mut SignalInfo, timeout: *const timespec) -> c_int {
    // SAFETY: the caller's own arguments.
    match unsafe { wait(set, timeout) } {
        Ok(found) => {
            if !info.is_null() {
                // SAFETY: the caller's place.
                unsafe { info.write(found) };
            }
            found.signal
        }
        Err(error) => fail(error),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sigwaitinfo(set: *const sigset_t, info: *mut SignalInfo) -> c_int {
    // SAFETY: the caller's own arguments.
    unsafe { sigtimedwait(set, info, core::ptr::null()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn sigwait(set: *const sigset_t, signal: *mut c_int) -> c_int {
    loop {
        // SAFETY: the caller's own arguments.
        match unsafe { wait(set, core::ptr::null()) } {
            Ok(found) => {
                // SAFETY: the caller's place.
                unsafe { signal.write(found.signal) };
                return 0;
            }
            Err(libc::EINTR) => {}
            Err(error) => return error,
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn signalfd(file: c_int, mask: *const sigset_t, flags: c_int) -> c_int {
    let next = onward!(c"signalfd", fn(c_int, *const sigset_t, c_int) -> c_int, or fail(libc::ENOSYS));
    // SAFETY: the caller's own call, with a translated mask.
    unsafe {
        let mask = translated(mask);
        next(file, pointer(&mask), flags)
    }
}
