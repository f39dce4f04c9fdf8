//! The stack that triggers come on, where the program has not given the kernel another one.
//!
//! The stack that a thread runs on may have no room for a frame of the kernel's: a coroutine's of one page, or none at all
//! while code pops data. Alone such code takes no signals. So each thread gets an alternate signal stack. The kernel takes
//! it away while a handler runs and gives it back when the handler returns (`SS_AUTODISARM`).
//!
//! The program does not see it through `sigaltstack`. A stack that it sets takes the place of ours, until it takes that back.
//! Handlers that ask for an alternate stack (`SA_ONSTACK`) in a thread that has none run on ours. A handler that is left by a
//! jump leaves the thread without ours: the kernel's frames then go where the thread runs, as without us.

use core::ptr::{null, null_mut};

use libc::stack_t;

use super::forward::Context;
use crate::{kernel, thread};

/// Room for the handlers of programs that count on an alternate stack without setting one. Touched as far as it is used.
const BYTES: usize = 128 << 10;
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
    if thread::alternate_stack() == 0
        && exchange(None).is_ok_and(|old| old.ss_flags & libc::SS_DISABLE != 0)
        && let Some(start) = kernel::map(BYTES)
    {
        let start = start.as_ptr();
        if exchange(Some(&ours(start.expose_provenance()))).is_ok() {
            thread::set_alternate_stack(start.addr());
        } else {
            // SAFETY: just mapped, and the kernel has refused it (before Linux 4.7).
            unsafe { kernel::unmap(start, BYTES) };
        }
    }
}

/// Takes the calling thread's back: it ends, or is that of a forked child, which begins anew. Not while a handler runs there,
/// after which the kernel gives it back to the thread.
pub(crate) fn take_back() {
    let start = thread::alternate_stack();
    if start == 0 {
        return;
    }
    let here = 0_u8;
    let is_in_use = (start..start + BYTES).contains(&(&raw const here).addr());
    if is_in_use {
        return;
    }
    thread::set_alternate_stack(0);
    let is_current = exchange(None).is_ok_and(|current| current.ss_sp.addr() == start);
    if !is_current || exchange(Some(&NONE)).is_ok() {
        // SAFETY: mapped by `set` in this size; neither the kernel nor this thread uses it.
        unsafe { kernel::unmap(core::ptr::with_exposed_provenance_mut(start), BYTES) };
    }
}

/// Whether the alternate stack that a handler's context tells of is ours. The program has none then.
pub(super) fn is_ours(stack: &stack_t) -> bool {
    let start = thread::alternate_stack();
    start != 0 && stack.ss_sp.addr() == start
}

/// Whether the kernel would use an alternate stack from its top on while a handler runs on a stack of ours, which the
/// interrupted frame may lie on.
pub(super) fn is_used_anew(context: &Context) -> bool {
    context.stack.ss_flags & (libc::SS_DISABLE | SS_AUTODISARM) == 0
}

#[cfg(feature = "preload")]
mod interpose {
    use core::ffi::c_int;

    use super::{NONE, exchange, is_ours, ours, stack_t};
    use crate::onward::{fail, onward};
    use crate::thread;

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
        if let Some(old) = old.filter(|old| is_ours(old)) {
            *old = NONE;
        }
        if new.is_some_and(|new| new.ss_flags & libc::SS_DISABLE != 0) {
            let _ = exchange(Some(&ours(own))); // the kernel has taken it before
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
    fn a_thread_has_one_until_it_is_taken_back_and_keeps_its_own() {
        std::thread::spawn(|| {
            exchange(Some(&NONE)).unwrap();
            set();
            let current = exchange(None).unwrap();
            assert!(is_ours(&current) && current.ss_size == BYTES && current.ss_flags == SS_AUTODISARM);
            take_back();
            assert!(!is_ours(&current));
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
