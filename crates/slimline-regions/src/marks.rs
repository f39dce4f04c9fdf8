//! Marks in the source: regions by a call, and functions that the compiler instrumented (`-finstrument-functions`).
#![allow(unsafe_code)] // called by the program

use std::ffi::{CStr, c_char, c_void};

use crate::functions::is_region;
use crate::kind::{Kind, Phase};
use crate::live::event;
use crate::path::{Place, Region};
use crate::stack::Entry;

/// Enters the region of a name on the calling thread.
///
/// # Safety
/// `name` must be null, which is nothing, or end in NUL.
#[unsafe(no_mangle)]
unsafe extern "C" fn slimline_region_begin(name: *const c_char) {
    if name.is_null() {
        return;
    }
    // SAFETY: promised by the caller.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    if let Some(mut event) = event() {
        let region = Region { kind: Kind::User, place: Place::Name(event.name(&name)) };
        event.enter_region(region, Entry::Execution, Phase::Body);
    }
}

/// Leaves the region that the calling thread marked last.
#[unsafe(no_mangle)]
extern "C" fn slimline_region_end() {
    if let Some(mut event) = event() {
        event.end_marked();
    }
}

/// Called by instrumented functions when they begin.
#[unsafe(no_mangle)]
extern "C" fn __cyg_profile_func_enter(function: *const c_void, _: *const c_void) {
    if is_region(function as u64)
        && let Some(mut event) = event()
    {
        event.enter(Kind::Function, function as u64, Phase::Body);
    }
}

/// Called by instrumented functions when they return.
#[unsafe(no_mangle)]
extern "C" fn __cyg_profile_func_exit(function: *const c_void, _: *const c_void) {
    if is_region(function as u64)
        && let Some(mut event) = event()
    {
        event.exit(Kind::Function, 0);
    }
}
