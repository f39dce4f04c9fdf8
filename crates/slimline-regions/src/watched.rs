//! Memory that the program has watched, by a call.
#![allow(unsafe_code)] // called by the program

use std::ffi::{CStr, c_char, c_void};
use std::sync::{Mutex, PoisonError};

use crate::live::{held, live};
use crate::profile::Watched;
use crate::traced;

/// All that were ever watched, by their numbers, with whether they still are.
#[derive(Default)]
pub(crate) struct Watches {
    pub(crate) all: Vec<Watched>,
    is_open: Vec<bool>,
    /// Ends of what was not watched.
    pub(crate) unknown_ends: u64,
}

static WATCHES: Mutex<Watches> = Mutex::new(Watches { all: Vec::new(), is_open: Vec::new(), unknown_ends: 0 });

/// They, where the thread that a signal has interrupted is not at them.
pub(crate) fn watches() -> Option<std::sync::MutexGuard<'static, Watches>> {
    held(&WATCHES)
}

/// Accesses to these bytes are told by this name from here on.
///
/// # Safety
/// `name` must be null, which stands for none, or end in NUL.
#[unsafe(no_mangle)]
unsafe extern "C" fn slimline_watch(start: *const c_void, bytes: usize, name: *const c_char) {
    if live().is_none() {
        return;
    }
    let name = match name.is_null() {
        true => String::new(),
        // SAFETY: promised by the caller.
        false => unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned(),
    };
    let watched = Watched { start: start as u64, bytes: bytes as u64, name };
    let mut watches = WATCHES.lock().unwrap_or_else(PoisonError::into_inner);
    let number = watches.all.len() as u32;
    traced::look_for_runtime();
    traced::watch(watched.start, watched.bytes, number);
    watches.all.push(watched);
    watches.is_open.push(true);
}

/// What begins there is not watched any more; of several the one that was watched last.
#[unsafe(no_mangle)]
extern "C" fn slimline_unwatch(start: *const c_void) {
    if live().is_none() {
        return;
    }
    let mut watches = WATCHES.lock().unwrap_or_else(PoisonError::into_inner);
    let Watches { all, is_open, unknown_ends } = &mut *watches;
    let is_it = |(watched, is_open): (&Watched, &bool)| *is_open && watched.start == start as u64;
    match all.iter().zip(is_open.iter()).rposition(is_it) {
        Some(number) => {
            is_open[number] = false;
            traced::unwatch(number as u32);
        }
        None => *unknown_ends += 1,
    }
}
