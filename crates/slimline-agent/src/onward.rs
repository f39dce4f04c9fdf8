//! The functions that ours stand before: the next ones of the same name, found once.
#![allow(unsafe_code)] // symbols have no types

use core::ffi::CStr;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::resolve;

/// One such function.
pub(crate) struct Onward {
    name: &'static CStr,
    address: AtomicUsize,
}

/// In place of an address: nothing of that name follows us.
const MISSING: usize = usize::MAX;

impl Onward {
    /// Not looked for yet.
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self { name, address: AtomicUsize::new(0) }
    }

    /// Its address; None where nothing of that name follows us.
    #[inline]
    pub(crate) fn address(&self) -> Option<usize> {
        let known = match self.address.load(Relaxed) {
            0 => self.find(),
            address => address,
        };
        (known != MISSING).then_some(known)
    }

    #[cold]
    fn find(&self) -> usize {
        let is_final = resolve::has_objects();
        let known = resolve::next(self.name).map_or(MISSING, |found| found.address.expose_provenance());
        if is_final {
            self.address.store(known, Relaxed);
        }
        known
    }
}

/// Calls the next function of a name: `onward!(c"close", fn(file: i32) -> i32)`. Evaluates to a function pointer, or
/// returns `$missing` from the surrounding function where there is none.
macro_rules! onward {
    ($name:literal, fn($($argument:ty),*) -> $result:ty, or $missing:expr) => {{
        static ONWARD: $crate::onward::Onward = $crate::onward::Onward::new($name);
        let Some(address) = ONWARD.address() else { return $missing };
        #[allow(unused_unsafe)] // where the call stands in such a block
        // SAFETY: the C library declares the function of this name so.
        unsafe {
            core::mem::transmute::<usize, unsafe extern "C" fn($($argument),*) -> $result>(address)
        }
    }};
}
pub(crate) use onward;

/// Fails as the C library's functions do.
pub(crate) fn fail(error: i32) -> i32 {
    // SAFETY: the address of the calling thread's own `errno`.
    unsafe { *libc::__errno_location() = error };
    -1
}
