//! The program's calls of `mlockall` and `munlockall`: our memory stays out of them.
#![allow(unsafe_code)] // functions that instrumented code calls by name, and `errno`

use core::ffi::c_int;

use crate::{copies, locks};

/// `mlockall`, for instrumented code.
#[unsafe(no_mangle)]
extern "C" fn __slimline_mlockall(flags: c_int) -> c_int {
    (copies::other().map_or(lock_all as extern "C" fn(_) -> _, |first| first.lock_all))(flags)
}

/// `munlockall`, for instrumented code.
#[unsafe(no_mangle)]
extern "C" fn __slimline_munlockall() -> c_int {
    (copies::other().map_or(unlock_all as extern "C" fn() -> _, |first| first.unlock_all))()
}

/// [`__slimline_mlockall`] of the process's copy.
pub(crate) extern "C" fn lock_all(flags: c_int) -> c_int {
    told(locks::lock_all(flags))
}

/// [`__slimline_munlockall`] of the process's copy.
pub(crate) extern "C" fn unlock_all() -> c_int {
    told(locks::unlock_all())
}

fn told(result: isize) -> c_int {
    if result == 0 {
        return 0;
    }
    // SAFETY: the address of the calling thread's own `errno`.
    unsafe { *libc::__errno_location() = -result as c_int };
    -1
}
