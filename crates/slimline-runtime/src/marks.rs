//! What directives of a source say (`#pragma omp inst data(…)`), which compilers of ours make calls of: handed on to the library that is
//! preloaded for it, if any is.
//!
//! It is asked for when the first directive is met, of the dynamic linker, as that knows who defines the function in this process. Programs
//! may be linked without `dlsym`, which C libraries before glibc 2.34 do not have: then nobody listens.
#![allow(unsafe_code)] // called by the program, and functions that are looked for by their names

use core::ffi::{CStr, c_char, c_void};
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

use crate::weak::weak_address;

/// A function of the library.
struct Mark {
    name: &'static CStr,
    /// Its address; 0 where nobody has asked, [`NOBODY`] where it is not there.
    known: AtomicUsize,
}

const NOBODY: usize = usize::MAX;

static WATCH: Mark = Mark::new(c"slimline_watch");
static REGION_BEGIN: Mark = Mark::new(c"slimline_region_begin");
static REGION_END: Mark = Mark::new(c"slimline_region_end");

type Lookup = unsafe extern "C" fn(*mut c_void, *const c_char) -> usize;

impl Mark {
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
    let address = weak_address!("dlsym");
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

/// `inst data`: accesses to these bytes are counted by this name.
///
/// # Safety
/// `name` must be null or end in NUL.
#[unsafe(no_mangle)]
unsafe extern "C" fn __slimline_watch(start: *const c_void, bytes: usize, name: *const c_char) {
    type Watch = unsafe extern "C" fn(*const c_void, usize, *const c_char);
    if let Some(address) = WATCH.address() {
        // SAFETY: the library's function of that name is of this type; the name is promised by the caller.
        unsafe { core::mem::transmute::<usize, Watch>(address)(start, bytes, name) };
    }
}

/// `inst begin`: the calling thread enters a region.
///
/// # Safety
/// As of [`__slimline_watch`].
#[unsafe(no_mangle)]
unsafe extern "C" fn __slimline_region_begin(name: *const c_char) {
    if let Some(address) = REGION_BEGIN.address() {
        // SAFETY: as above.
        unsafe { core::mem::transmute::<usize, unsafe extern "C" fn(*const c_char)>(address)(name) };
    }
}

/// `inst end`: it leaves the region that it entered last.
#[unsafe(no_mangle)]
extern "C" fn __slimline_region_end() {
    if let Some(address) = REGION_END.address() {
        // SAFETY: the library's function of that name is of this type.
        unsafe { core::mem::transmute::<usize, extern "C" fn()>(address)() };
    }
}

/// The same of Fortran, where names can't begin with `_`, arguments are references, and lengths of strings come last.
///
/// # Safety
/// As of [`__slimline_watch`]: the source's string has a NUL behind it.
#[unsafe(no_mangle)]
unsafe extern "C" fn slimline_inst_data_(start: &usize, bytes: &i64, name: *const c_char, _length: usize) {
    // SAFETY: promised by the caller.
    unsafe { __slimline_watch(*start as *const c_void, bytes.cast_unsigned() as usize, name) };
}

/// As [`slimline_inst_data_`].
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
unsafe extern "C" fn slimline_inst_begin_(name: *const c_char, _length: usize) {
    // SAFETY: promised by the caller.
    unsafe { __slimline_region_begin(name) };
}

/// As [`slimline_inst_data_`].
#[unsafe(no_mangle)]
extern "C" fn slimline_inst_end_() {
    __slimline_region_end();
}
