//! The stack that triggers come on, where the program has not given the kernel another one.
//!
//! The stack that a thread runs on may have no room for a frame of the kernel's: a coroutine's of one page, or none at all
//! while code pops data. Alone such code takes no signals. So each thread gets an alternate signal stack. The kernel takes
//! it away while a handler runs and gives it back when the handler returns (`SS_AUTODISARM`).
//!
//! The program does not see it through `sigaltstack`. A stack that the program sets replaces ours; when the program disables
//! its stack, ours comes back. Handlers with `SA_ONSTACK` run on ours in threads where the program has set none. A handler that
//! ends by `siglongjmp` leaves the thread without ours: the kernel's frames then go to the thread's own stack.
//!
//! The kernel puts the stack back from the frame of whatever handler returns. So a thread keeps its mapping until it ends, and
//! a forked child keeps that of its parent.

use core::ptr::{null, null_mut};

use libc::stack_t;

use super::forward::Context;
use crate::{kernel, thread};

/// Room for the handlers of programs that count on an alternate stack without setting one. Touched as far as it is used.
const BYTES: usize = 1 << 20;
/// Below it, inaccessible.
const GUARD_BYTES: usize = 4096;
const SS_AUTODISARM: i32 = 1 << 31;
/// What a thread has before it sets any.
const NONE: stack_t = stack_t { ss_sp: null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };

/// The kernel's alternate stack of the calling thread, and perhaps a new one. The `errno` where it refuses.
fn exchange(new: Option<&stack_t>) -> Result<stack_t, i32> {
    let mut old = NONE;
    let new = new.map_or(null(), core::ptr::from_ref);
    // SAFETY: the kernel reads `new`, a stack of ours or null, and writes `old`.
    let result = unsafe { kernel::call(libc::SYS_sigaltstack, [new as usize, &raw mut old as usize, 0, 0, 0, 0]) };
    kernel::check(result).map(|_| old)
}

fn ours(start: usize) -> stack_t {
    stack_t { ss_sp: core::ptr::with_exposed_provenance_mut(start), ss_flags: SS_AUTODISARM, ss_size: BYTES }
}

/// Gives the calling thread one, if it has none.
pub(crate) fn set() {
    if thread::alternate_stack() != 0 || exchange(None).is_ok_and(|old| old.ss_flags & libc::SS_DISABLE == 0) {
        return;
    }
    let Some(guard) = kernel::map(GUARD_BYTES + BYTES) else { return };
    // SAFETY: the lowest page of a fresh mapping, which stays unused.
    unsafe { kernel::guard(guard.as_ptr()) };
    let start = guard.as_ptr().expose_provenance() + GUARD_BYTES;
    if exchange(Some(&ours(start))).is_ok() {
        thread::set_alternate_stack(start);
    } else {
        // SAFETY: just mapped, and the kernel has refused it (before Linux 4.7).
        unsafe { kernel::unmap(guard.as_ptr(), GUARD_BYTES + BYTES) };
    }
}

/// Has the handler of a trigger give the thread its stack when it returns: [`set`] does not outlast a handler.
pub(crate) fn set_on_return(context: &mut Context) {
    let start = thread::alternate_stack();
    if start != 0 && context.stack.ss_flags & libc::SS_DISABLE != 0 {
        context.stack = ours(start);
    }
}

/// Whether the caller runs on the stack that begins there.
fn is_on(start: usize) -> bool {
    let here = 0_u8;
    (start..start + BYTES).contains(&(&raw const here).addr())
}

/// The calling thread ends, and no handler of it returns any more.
pub(crate) fn unmap() {
    let start = thread::alternate_stack();
    if start == 0 || is_on(start) {
        return;
    }
    thread::set_alternate_stack(0);
    let is_set = exchange(None).is_ok_and(|set| set.ss_sp.addr() == start);
    if !is_set || exchange(Some(&NONE)).is_ok() {
        let guard = core::ptr::with_exposed_provenance_mut(start - GUARD_BYTES);
        // SAFETY: mapped by `set` in this size. The kernel does not have it, and the thread runs elsewhere.
        unsafe { kernel::unmap(guard, GUARD_BYTES + BYTES) };
    }
}

/// Whether the kernel would begin anew at the top of the alternate stack that the interrupted code may be on.
pub(super) fn is_reused(context: &Context) -> bool {
    let set = &context.stack;
    set.ss_flags & (libc::SS_DISABLE | SS_AUTODISARM) == 0 && set.ss_size != 0
}

#[cfg(feature = "preload")]
mod interpose {
    use core::ffi::c_int;

    use super::{NONE, exchange, is_on, ours, stack_t};
    use crate::onward::{fail, onward};
    use crate::{kernel, thread};

    #[unsafe(no_mangle)]
    pub(crate) unsafe extern "C" fn sigaltstack(new: *const stack_t, old: *mut stack_t) -> c_int {
        let next = onward!(c"sigaltstack", fn(*const stack_t, *mut stack_t) -> c_int, or fail(libc::ENOSYS));
        // SAFETY: the caller's own call.
        let result = unsafe { next(new, old) };
        let own = thread::alternate_stack();
        if result != 0 || own == 0 {
            return result;
        }
        // SAFETY: the kernel has read and written them.
        let (new, old) = unsafe { (new.as_ref(), old.as_mut()) };
        if let Some(old) = old.filter(|old| old.ss_sp.addr() == own) {
            *old = NONE;
        }
        // A thread that was cloned without thread-local storage of its own has that of another.
        let is_own = || thread::existing().is_some_and(|thread| thread.tid.get() == kernel::thread_id());
        if new.is_some_and(|new| new.ss_flags & libc::SS_DISABLE != 0) && !is_on(own) && is_own() {
            let _ = exchange(Some(&ours(own))); // the kernel has accepted it before
        }
        result
    }
}
#[cfg(feature = "preload")]
pub(crate) use interpose::sigaltstack;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_one_until_it_ends_unless_it_has_set_one() {
        std::thread::spawn(|| {
            exchange(Some(&NONE)).unwrap();
            set();
            let current = exchange(None).unwrap();
            assert_eq!((current.ss_sp.addr(), current.ss_size), (thread::alternate_stack(), BYTES));
            assert_eq!(current.ss_flags, SS_AUTODISARM);
            unmap();
            assert_eq!(thread::alternate_stack(), 0);
            let none = exchange(None).unwrap();
            assert_eq!((none.ss_sp.addr(), none.ss_flags, none.ss_size), (0, libc::SS_DISABLE, 0));
            let mut room = std::vec![0_u8; BYTES];
            let own = stack_t { ss_sp: room.as_mut_ptr().cast(), ss_flags: 0, ss_size: BYTES };
            exchange(Some(&own)).unwrap();
            set();
            assert_eq!(thread::alternate_stack(), 0);
            assert_eq!(exchange(Some(&NONE)).unwrap().ss_sp, own.ss_sp);
        })
        .join()
        .unwrap();
    }
}
