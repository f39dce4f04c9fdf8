//! Entry points before those of libgomp: who called, and with what.
//!
//! Each is a few instructions that hand on the six arguments in registers, the return address, which is the code address of
//! the construct, and, as they lie on the stack behind it, up to four further arguments. All arguments are integers and
//! pointers; functions that have fewer ignore what is too much.

use std::ffi::CStr;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

/// A call of an entry point.
#[derive(Clone, Copy)]
pub(super) struct Call {
    pub(super) arguments: [usize; 10],
    /// What it returns to.
    pub(super) site: u64,
    /// The runtime's function.
    next: usize,
}

/// A function of the runtime, found once.
pub(super) struct Next {
    name: &'static CStr,
    address: AtomicUsize,
}

impl Next {
    /// Not looked for yet.
    pub(super) const fn new(name: &'static CStr) -> Self {
        Self { name, address: AtomicUsize::new(0) }
    }

    /// Its address; 0 where there is none.
    pub(super) fn address(&self) -> usize {
        match self.address.load(Relaxed) {
            0 => self.find(),
            address => address,
        }
    }

    /// A runtime that came with a plugin is not among the objects that follow us.
    #[cold]
    fn find(&self) -> usize {
        // SAFETY: the names end in NUL; a library that is loaded already runs no code by being opened.
        let address = unsafe {
            let next = libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr());
            if next.is_null() {
                let library = libc::dlopen(c"libgomp.so.1".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
                if library.is_null() { next } else { libc::dlsym(library, self.name.as_ptr()) }
            } else {
                next
            }
        };
        self.address.store(address as usize, Relaxed);
        address as usize
    }
}

impl Call {
    /// # Safety
    /// The arguments must be those that the program called the function of `next` with, behind us or changed so that it may
    /// be called with them.
    pub(super) unsafe fn new(next: &Next, arguments: [usize; 10], site: usize) -> Self {
        let address = next.address();
        if address == 0 {
            // There is nothing to call, and nothing to return: the program found only us by that name.
            std::process::abort();
        }
        Self { arguments, site: site as u64, next: address }
    }

    /// Calls the runtime's function, and returns what it returns.
    pub(super) fn forward(&self) -> usize {
        type Function =
            unsafe extern "C" fn(usize, usize, usize, usize, usize, usize, usize, usize, usize, usize) -> usize;
        let [a, b, c, d, e, f, g, h, i, j] = self.arguments;
        // SAFETY: promised to `new`. Arguments that it doesn't have are in registers and on the stack, where it doesn't look.
        unsafe { std::mem::transmute::<usize, Function>(self.next)(a, b, c, d, e, f, g, h, i, j) }
    }
}

/// The entry point of a name, which calls a function of a [`Call`] that returns what it is to return.
macro_rules! entry {
    ($($name:ident => $counted:expr;)*) => {
        $(
            #[unsafe(naked)]
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name() -> usize {
                #[allow(clippy::too_many_arguments)] // the runtime's
                unsafe extern "C" fn called(
                    a: usize, b: usize, c: usize, d: usize, e: usize, f: usize,
                    site: usize, _: usize, g: usize, h: usize, i: usize, j: usize,
                ) -> usize {
                    static NEXT: $crate::gomp::entry::Next = {
                        // SAFETY: `concat` puts a NUL behind a name that has none.
                        let name = unsafe {
                            std::ffi::CStr::from_bytes_with_nul_unchecked(concat!(stringify!($name), "\0").as_bytes())
                        };
                        $crate::gomp::entry::Next::new(name)
                    };
                    // SAFETY: as the program called us.
                    let call = unsafe {
                        $crate::gomp::entry::Call::new(&NEXT, [a, b, c, d, e, f, g, h, i, j], site)
                    };
                    $crate::gomp::counted(call, $counted)
                }
                // Behind the pushed copy lie the return address itself and the caller's further arguments.
                std::arch::naked_asm!(
                    ".cfi_startproc",
                    "push qword ptr [rsp]",
                    ".cfi_adjust_cfa_offset 8",
                    "call {called}",
                    "add rsp, 8",
                    ".cfi_adjust_cfa_offset -8",
                    "ret",
                    ".cfi_endproc",
                    called = sym called,
                )
            }
        )*
    };
}
pub(super) use entry;
