//! Memory that the program has watched, by a call.
#![allow(unsafe_code)] // called by the program

use std::ffi::{CStr, c_char, c_void};
use std::sync::{Mutex, MutexGuard};

use crate::live::{Counting, held, live, locked};
use crate::profile::Watched;
use crate::traced;

/// What was ever watched.
pub(crate) struct Watches {
    /// By their numbers.
    pub(crate) all: Vec<Watched>,
    /// Ends of what was not watched.
    pub(crate) unknown_ends: u64,
}

static WATCHES: Mutex<Watches> = Mutex::new(Watches { all: Vec::new(), unknown_ends: 0 });

/// They, where the thread that a signal has interrupted is not at them.
pub(crate) fn watches() -> Option<MutexGuard<'static, Watches>> {
    held(&WATCHES)
}

/// Tells the stream of a forked child what its parent watches.
pub(crate) fn tell_again() {
    let Some(watches) = watches() else { return };
    for (number, watched) in (0..).zip(&watches.all).filter(|(_, watched)| watched.until_ns == u64::MAX) {
        traced::watch(watched.start, watched.bytes, number);
    }
}

/// Accesses to these bytes are told by this name from here on.
///
/// # Safety
/// `name` must be null, which stands for none, or end in NUL.
#[unsafe(no_mangle)]
unsafe extern "C" fn slimline_watch(start: *const c_void, bytes: usize, name: *const c_char) {
    let Some(live) = live() else { return };
    let Some(_counting) = Counting::begin(live) else { return };
    // Before anything is locked: whoever loads a library may watch, and the loader has a lock of its own.
    traced::look_for_listeners();
    let name = match name.is_null() {
        true => String::new(),
        // SAFETY: promised by the caller.
        false => unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned(),
    };
    let (start, bytes, from_ns) = (start as u64, bytes as u64, live.monotonic_ns());
    let watched = Watched { start, bytes, name, from_ns, until_ns: u64::MAX };
    let mut watches = locked(&WATCHES);
    let number = watches.all.len() as u32;
    traced::watch(watched.start, watched.bytes, number);
    watches.all.push(watched);
}

/// What begins there is not watched any more; of several the one that was watched last.
#[unsafe(no_mangle)]
extern "C" fn slimline_unwatch(start: *const c_void) {
    let Some(live) = live() else { return };
    let Some(_counting) = Counting::begin(live) else { return };
    let Watches { all, unknown_ends } = &mut *locked(&WATCHES);
    match all.iter().rposition(|watched| watched.until_ns == u64::MAX && watched.start == start as u64) {
        Some(number) => {
            all[number].until_ns = live.monotonic_ns();
            traced::unwatch(number as u32);
        }
        None => *unknown_ends += 1,
    }
}
