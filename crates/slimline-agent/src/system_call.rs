//! The C library's `syscall`: calls by number of what we stand before by name, where the difference matters. And its
//! `ioctl`, by which a program may begin to serve its own page faults.
#![allow(unsafe_code)] // the C library's functions

use core::ffi::{c_int, c_long, c_ulong};

use crate::descriptors::interpose::{close, close_range, dup2, dup3};
use crate::onward::{fail, onward};
use crate::signals::{alternate, faults};
use crate::{children, confine, lock_calls, memory, pending, process, ranges};

/// Declared with `...`: arguments are in the same places either way, and unused ones do no harm.
#[unsafe(no_mangle)]
unsafe extern "C" fn syscall(number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize) -> c_long {
    // SAFETY: the caller's own calls.
    unsafe {
        match number {
            libc::SYS_close => return close(a as c_int).into(),
            libc::SYS_close_range => return close_range(a as u32, b as u32, c as c_int).into(),
            libc::SYS_dup2 => return dup2(a as c_int, b as c_int).into(),
            libc::SYS_dup3 => return dup3(a as c_int, b as c_int, c as c_int).into(),
            libc::SYS_mlockall => return lock_calls::mlockall(a as c_int).into(),
            libc::SYS_munlockall => return lock_calls::munlockall().into(),
            libc::SYS_sigaltstack => return alternate::sigaltstack(a as *const _, b as *mut _).into(),
            _ => {}
        }
        confine::before_system_call(number, [a, b, c]);
        memory::before_system_call(number, b);
        match number {
            libc::SYS_rt_sigaction => faults::leave_to_program(a as c_int),
            libc::SYS_mmap if d as c_int & libc::MAP_ANONYMOUS == 0 => memory::before_mapping(e as c_int),
            _ => {}
        }
        let forks = children::may_fork(number, a);
        let next = onward!(
            c"syscall",
            fn(c_long, usize, usize, usize, usize, usize, usize) -> c_long,
            or fail(libc::ENOSYS).into()
        );
        let result = match number {
            libc::SYS_timer_create | libc::SYS_rt_sigqueueinfo | libc::SYS_rt_tgsigqueueinfo | libc::SYS_tgkill => {
                let is_refused = |result| result == -1 && *libc::__errno_location() == libc::EAGAIN;
                pending::ask(|| next(number, a, b, c, d, e, f), is_refused)
            }
            _ => next(number, a, b, c, d, e, f),
        };
        ranges::after_system_call(number, [a, b, c, d]);
        if forks && result == 0 && !children::has_parents_memory(number, a) {
            process::in_forked_child();
        }
        result
    }
}

/// Declared with `...`: as above.
#[unsafe(no_mangle)]
unsafe extern "C" fn ioctl(file: c_int, request: c_ulong, argument: usize) -> c_int {
    memory::before_system_call(libc::SYS_ioctl, request as usize);
    let next = onward!(c"ioctl", fn(c_int, c_ulong, usize) -> c_int, or fail(libc::ENOSYS));
    // SAFETY: the caller's own call.
    unsafe { next(file, request, argument) }
}
