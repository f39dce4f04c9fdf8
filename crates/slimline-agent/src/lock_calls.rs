//! The C library's functions that lock all memory of a process.
#![allow(unsafe_code)] // functions with the C library's names

use core::ffi::c_int;

use crate::locks::{lock_all, unlock_all};
use crate::onward::fail;

fn told(result: isize) -> c_int {
    if result == 0 { 0 } else { fail(-result as i32) }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn mlockall(flags: c_int) -> c_int {
    told(lock_all(flags))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn munlockall() -> c_int {
    told(unlock_all())
}
