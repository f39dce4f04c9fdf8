//! Children that are made without the C library's `fork`, which would call our handler: by `clone`, `_Fork`, or a system call.
//!
//! Those with memory of their own are recorded as forked ones are. One that has its parent's memory has no place of its own to
//! record into; the collector sees it from outside.
#![allow(unsafe_code)] // the C library's functions

use core::ffi::c_long;

/// Whether a system call may make a child with memory of its own; its first argument is `a`.
pub(crate) fn may_fork(number: c_long, a: usize) -> bool {
    match number {
        libc::SYS_fork | libc::SYS_clone3 => true,
        libc::SYS_clone => a & SHARES == 0,
        _ => false,
    }
}

/// A child that shares memory with its parent has no place of its own to record into; one that shares descriptors would close
/// its parent's.
const SHARES: usize = (libc::CLONE_VM | libc::CLONE_FILES) as usize;

/// Whether the child that such a call has made, which is the caller, has its parent's memory or descriptors all the same.
///
/// # Safety
/// The kernel has accepted the call.
pub(crate) unsafe fn has_parents_memory(number: c_long, a: usize) -> bool {
    // SAFETY: the kernel has read the flags there, which come first.
    number == libc::SYS_clone3 && unsafe { *(a as *const u64) } & SHARES as u64 != 0
}

#[cfg(feature = "preload")]
mod interpose {
    use core::ffi::{c_int, c_void};
    use core::ptr::null_mut;

    use crate::onward::{fail, onward};
    use crate::{confine, handler, process};

    type Main = extern "C" fn(*mut c_void) -> c_int;

    /// What a child with memory of its own runs.
    struct Started {
        main: Main,
        argument: *mut c_void,
    }

    extern "C" fn in_child(started: *mut c_void) -> c_int {
        // SAFETY: the child's own copy of what `clone` has on its stack.
        let Started { main, argument } = unsafe { started.cast::<Started>().read() };
        begin_on_own_stack();
        main(argument)
    }

    /// Begins recording in a child that runs on a stack of the program's, which may have no room for that.
    fn begin_on_own_stack() {
        unsafe extern "C" fn begin(_: *mut u8) {
            // SAFETY: the child has one thread.
            unsafe { process::in_forked_child() };
        }
        if !confine::is_confined() {
            // SAFETY: nothing is passed on.
            unsafe { handler::on_fresh_stack(begin, null_mut()) };
        }
    }

    /// Declared with `...`: the last arguments are in the same places either way, and unused ones do no harm.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn clone(
        main: Main,
        stack: *mut c_void,
        flags: c_int,
        argument: *mut c_void,
        parent_tid: *mut c_int,
        tls: *mut c_void,
        child_tid: *mut c_int,
    ) -> c_int {
        let clone = onward!(
            c"clone",
            fn(Main, *mut c_void, c_int, *mut c_void, *mut c_int, *mut c_void, *mut c_int) -> c_int,
            or fail(libc::ENOSYS)
        );
        let mut started = Started { main, argument };
        let (main, argument): (Main, _) = match flags as usize & super::SHARES {
            0 => (in_child, (&raw mut started).cast()),
            _ => (main, argument),
        };
        // SAFETY: the caller's own call.
        unsafe { clone(main, stack, flags, argument, parent_tid, tls, child_tid) }
    }

    /// Calls no handlers by itself.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn _Fork() -> libc::pid_t {
        let fork = onward!(c"_Fork", fn() -> libc::pid_t, or fail(libc::ENOSYS));
        // SAFETY: the caller's own call.
        let result = unsafe { fork() };
        if result == 0 {
            // SAFETY: the child of a fork has one thread.
            unsafe { process::in_forked_child() };
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_copies_memory_forks() {
        let vm = libc::CLONE_VM as usize;
        assert!(may_fork(libc::SYS_fork, 0) && may_fork(libc::SYS_clone, 17) && may_fork(libc::SYS_clone3, 0));
        assert!(!may_fork(libc::SYS_clone, vm) && !may_fork(libc::SYS_vfork, 0) && !may_fork(libc::SYS_read, 0));
        let flags = [vm as u64, 0];
        // SAFETY: flags of our own.
        let has = |number| unsafe { has_parents_memory(number, flags.as_ptr() as usize) };
        assert!(has(libc::SYS_clone3) && !has(libc::SYS_fork));
    }
}
