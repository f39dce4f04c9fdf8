//! What maps and unmaps memory, for instrumented code: the reader learns which memory other processes may share.
#![allow(unsafe_code)] // called by the program in the place of the C library's functions

use core::ffi::{c_int, c_void};

use crate::{copies, process};

/// Tells of these addresses, if they are shared now or were.
fn changed(start: usize, bytes: usize, is_shared: bool) {
    let (has_shared, mapped) = copies::other()
        .map_or((process::has_shared as extern "C" fn(_, _) -> _, process::mapped as extern "C" fn(_, _)), |first| {
            (first.has_shared, first.mapped)
        });
    if is_shared || has_shared(start, bytes) {
        mapped(start, bytes);
    }
}

/// `mmap`.
#[unsafe(no_mangle)]
unsafe extern "C" fn __slimline_mmap(
    start: *mut c_void,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: libc::off_t,
) -> *mut c_void {
    // SAFETY: the caller's own request.
    let mapped = unsafe { libc::mmap(start, bytes, protection, flags, file, offset) };
    if mapped != libc::MAP_FAILED {
        changed(mapped as usize, bytes, flags & libc::MAP_SHARED != 0);
    }
    mapped
}

/// `munmap`.
#[unsafe(no_mangle)]
unsafe extern "C" fn __slimline_munmap(start: *mut c_void, bytes: usize) -> c_int {
    // SAFETY: the caller's own request.
    let result = unsafe { libc::munmap(start, bytes) };
    if result == 0 {
        changed(start as usize, bytes, false);
    }
    result
}

/// `mremap`.
#[unsafe(no_mangle)]
unsafe extern "C" fn __slimline_mremap(
    old: *mut c_void,
    old_bytes: usize,
    new_bytes: usize,
    flags: c_int,
    new: *mut c_void,
) -> *mut c_void {
    // SAFETY: the caller's own request.
    let mapped = unsafe { libc::mremap(old, old_bytes, new_bytes, flags, new) };
    if mapped != libc::MAP_FAILED {
        changed(mapped as usize, new_bytes, old_bytes == 0);
        // What was shared there may have moved.
        changed(old as usize, old_bytes, false);
    }
    mapped
}

/// `shmat`.
#[unsafe(no_mangle)]
unsafe extern "C" fn __slimline_shmat(id: c_int, start: *const c_void, flags: c_int) -> *mut c_void {
    // SAFETY: the caller's own request.
    let attached = unsafe { libc::shmat(id, start, flags) };
    if attached != libc::MAP_FAILED {
        // How much it is, the kernel's list says.
        changed(attached as usize, 1, true);
    }
    attached
}

/// `shmdt`.
#[unsafe(no_mangle)]
unsafe extern "C" fn __slimline_shmdt(start: *const c_void) -> c_int {
    // SAFETY: the caller's own request.
    let result = unsafe { libc::shmdt(start) };
    if result == 0 {
        changed(start as usize, 1, false);
    }
    result
}
