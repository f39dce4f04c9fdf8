//! The functions of the library that slimline preloads, where it is.
//!
//! The dynamic linker is asked for them as the program runs: of symbols that nobody defines when it is linked, linkers may decide
//! for good that they are not there.
#![allow(unsafe_code)]

use core::arch::asm;
use core::ffi::{CStr, c_char, c_void};
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

type Lookup = unsafe extern "C" fn(*mut c_void, *const c_char) -> usize;

/// A function of the library.
struct Preloaded {
    name: &'static CStr,
    /// Its address; 0 where nobody has asked, [`NOBODY`] where it is not there.
    known: AtomicUsize,
}

const NOBODY: usize = usize::MAX;

static REGION_BEGIN: Preloaded = Preloaded::new(c"slimline_region_begin");
static REGION_END: Preloaded = Preloaded::new(c"slimline_region_end");
static WATCH: Preloaded = Preloaded::new(c"slimline_watch");
static UNWATCH: Preloaded = Preloaded::new(c"slimline_unwatch");

impl Preloaded {
    const fn new(name: &'static CStr) -> Self {
        Self { name, known: AtomicUsize::new(0) }
    }

    fn address(&self) -> Option<usize> {
        let mut known = self.known.load(Relaxed);
        if known == 0 {
            known = lookup().and_then(|lookup| find(lookup, self.name)).unwrap_or(NOBODY);
            self.known.store(known, Relaxed);
        }
        (known != NOBODY).then_some(known)
    }
}

/// `dlsym`, where the process has it.
fn lookup() -> Option<Lookup> {
    let address: usize;
    // SAFETY: the linker makes the entry of the global offset table, and leaves it 0 where nobody defines the symbol. It is only
    // read. By another name, it makes no reference of the program's to `dlsym` weak.
    unsafe {
        asm!(
            ".weakref slimline_dlsym, dlsym",
            "mov {}, qword ptr [rip + slimline_dlsym@GOTPCREL]",
            out(reg) address,
            options(pure, readonly, nostack, preserves_flags)
        );
    }
    // SAFETY: the C library's function of that name is of this type.
    (address != 0).then(|| unsafe { core::mem::transmute::<usize, Lookup>(address) })
}

/// A function of the process. That there is none is no error of the program's, which `dlerror` would tell it.
fn find(lookup: Lookup, name: &CStr) -> Option<usize> {
    let everywhere = core::ptr::null_mut();
    // SAFETY: names that end in NUL; null stands for all of the process's objects.
    let found = |name: &CStr| Some(unsafe { lookup(everywhere, name.as_ptr()) }).filter(|address| *address != 0);
    let function = found(name);
    if function.is_none()
        && let Some(error) = found(c"dlerror")
    {
        // SAFETY: the C library's function of that name is of this type.
        unsafe { core::mem::transmute::<usize, extern "C" fn() -> *const c_char>(error)() };
    }
    function
}

pub(crate) fn region_begin(name: &CStr) {
    if let Some(address) = REGION_BEGIN.address() {
        // SAFETY: the library's function of that name is of this type; the name ends in NUL.
        unsafe { core::mem::transmute::<usize, unsafe extern "C" fn(*const c_char)>(address)(name.as_ptr()) };
    }
}

pub(crate) fn region_end() {
    if let Some(address) = REGION_END.address() {
        // SAFETY: the library's function of that name is of this type.
        unsafe { core::mem::transmute::<usize, extern "C" fn()>(address)() };
    }
}

/// Of the memory only where it is is taken.
pub(crate) fn watch(start: *const c_void, bytes: usize, name: &CStr) {
    type Watch = unsafe extern "C" fn(*const c_void, usize, *const c_char);
    if let Some(address) = WATCH.address() {
        // SAFETY: the library's function of that name is of this type; the name ends in NUL.
        unsafe { core::mem::transmute::<usize, Watch>(address)(start, bytes, name.as_ptr()) };
    }
}

/// As [`watch`].
pub(crate) fn unwatch(start: *const c_void) {
    if let Some(address) = UNWATCH.address() {
        // SAFETY: the library's function of that name is of this type.
        unsafe { core::mem::transmute::<usize, extern "C" fn(*const c_void)>(address)(start) };
    }
}
