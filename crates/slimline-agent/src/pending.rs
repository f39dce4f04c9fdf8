//! Programs that queue signals and make timers near the limit on pending signals (`RLIMIT_SIGPENDING`): what they get
//! alone, they get here.
//!
//! Each of the agent's timers takes one of the signals that may wait. Where the kernel refuses the program one, threads'
//! timers are given back, one by one, until it does not: see [`trigger::give_back_timer`].
#![allow(unsafe_code)] // the C library's functions

use crate::trigger;

/// Calls `ask` again as long as it `is_refused` and there is a timer to give back.
pub(crate) fn ask<T: Copy>(mut ask: impl FnMut() -> T, is_refused: impl Fn(T) -> bool) -> T {
    loop {
        let answer = ask();
        if !is_refused(answer) || !trigger::give_back_timer() {
            return answer;
        }
    }
}

mod interpose {
    use core::ffi::{c_int, c_void};

    use super::ask;
    use crate::onward::{fail, onward};

    fn is_refused(result: c_int) -> bool {
        // SAFETY: the address of the calling thread's own `errno`.
        result == -1 && unsafe { *libc::__errno_location() } == libc::EAGAIN
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn timer_create(clock: c_int, event: *mut c_void, timer: *mut c_void) -> c_int {
        let create = onward!(c"timer_create", fn(c_int, *mut c_void, *mut c_void) -> c_int, or fail(libc::ENOSYS));
        // SAFETY: the caller's own call.
        ask(|| unsafe { create(clock, event, timer) }, is_refused)
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn sigqueue(process: c_int, signal: c_int, value: *mut c_void) -> c_int {
        let queue = onward!(c"sigqueue", fn(c_int, c_int, *mut c_void) -> c_int, or fail(libc::ENOSYS));
        // SAFETY: the caller's own call.
        ask(|| unsafe { queue(process, signal, value) }, is_refused)
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn pthread_sigqueue(thread: usize, signal: c_int, value: *mut c_void) -> c_int {
        let queue = onward!(c"pthread_sigqueue", fn(usize, c_int, *mut c_void) -> c_int, or libc::ENOSYS);
        // SAFETY: the caller's own call.
        ask(|| unsafe { queue(thread, signal, value) }, |result| result == libc::EAGAIN)
    }
}
