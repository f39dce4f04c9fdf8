//! Memory that the program has watched, by a call.
#![allow(unsafe_code)] // called by the program

use std::ffi::{CStr, c_char, c_void};
use std::sync::{Mutex, MutexGuard, Once};

use crate::live::{held, live, locked};
use crate::process::run_in_forked_children;
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

/// A forked child's stream is a new one, which is told what is watched. To be called once the runtime's own handler is there, which begins
/// that stream: handlers of children run in the order in which they came.
fn tell_forked_children() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| run_in_forked_children(in_forked_child));
}

unsafe extern "C" fn in_forked_child() {
    let Some(watches) = live().and_then(|_| watches()) else { return };
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
    let name = match name.is_null() {
        true => String::new(),
        // SAFETY: promised by the caller.
        false => unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned(),
    };
    let (start, bytes, from_ns) = (start as u64, bytes as u64, live.monotonic_ns());
    let watched = Watched { start, bytes, name, from_ns, until_ns: u64::MAX };
    let mut watches = locked(&WATCHES);
    let number = watches.all.len() as u32;
    traced::look_for_listeners();
    tell_forked_children();
    traced::watch(watched.start, watched.bytes, number);
    watches.all.push(watched);
}

/// What begins there is not watched any more; of several the one that was watched last.
#[unsafe(no_mangle)]
extern "C" fn slimline_unwatch(start: *const c_void) {
    let Some(live) = live() else { return };
    let Watches { all, unknown_ends } = &mut *locked(&WATCHES);
    match all.iter().rposition(|watched| watched.until_ns == u64::MAX && watched.start == start as u64) {
        Some(number) => {
            all[number].until_ns = live.monotonic_ns();
            traced::unwatch(number as u32);
        }
        None => *unknown_ends += 1,
    }
}
