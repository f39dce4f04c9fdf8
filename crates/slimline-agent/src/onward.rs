//! The functions that ours stand before: the next ones of the same name, found once.
#![allow(unsafe_code)] // symbols have no types

use core::ffi::CStr;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// One such function.
pub(crate) struct Onward {
    name: &'static CStr,
    address: AtomicUsize,
}

impl Onward {
    /// Not looked for yet.
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self { name, address: AtomicUsize::new(0) }
    }

    /// Its address; 0 where nothing of that name follows us.
    #[inline]
    pub(crate) fn address(&self) -> usize {
        match self.address.load(Relaxed) {
            0 => self.find(),
            address => address,
        }
    }

    #[cold]
    fn find(&self) -> usize {
        // SAFETY: the name ends in NUL.
        let address = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) } as usize;
        self.address.store(address, Relaxed);
        address
    }
}

/// Calls the next function of a name: `onward!(c"close", fn(file: i32) -> i32)`. Evaluates to a function pointer, or
/// returns `$missing` from the surrounding function where there is none.
macro_rules! onward {
    ($name:literal, fn($($argument:ty),*) -> $result:ty, or $missing:expr) => {{
        static ONWARD: $crate::onward::Onward = $crate::onward::Onward::new($name);
        let address = ONWARD.address();
        if address == 0 {
            return $missing;
        }
        // SAFETY: the C library declares the function of this name so.
        unsafe { core::mem::transmute::<usize, unsafe extern "C" fn($($argument),*) -> $result>(address) }
    }};
}
pub(crate) use onward;

/// Fails as the C library's functions do.
pub(crate) fn fail(error: i32) -> i32 {
    // SAFETY: the address of the calling thread's own `errno`.
    unsafe { *libc::__errno_location() = error };
    -1
}
