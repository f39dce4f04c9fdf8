//! The functions below us: what the target would have called without the agent.
//!
//! Found by name among the objects behind us ([`resolve`]), so another preloaded or linked allocator (jemalloc, tcmalloc,
//! mimalloc) stays the target's allocator. A slot holds a function of ours at first, which finds this one function and
//! goes on to it: it takes no lock and allocates nothing, since an allocator may be in the middle of its own start, or
//! hold its own lock.
#![allow(unsafe_code)] // calls the allocator below

use core::ffi::{CStr, c_int, c_void};
use core::marker::PhantomData;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering::Relaxed};

use crate::resolve;

/// A function below us. Also read by the entry functions' assembly: one pointer.
#[repr(transparent)]
pub(crate) struct Next<F>(AtomicPtr<c_void>, PhantomData<F>);

impl<F: Copy> Next<F> {
    const fn new(first: *mut c_void) -> Self {
        Self(AtomicPtr::new(first), PhantomData)
    }

    /// The function itself, or the one that finds it.
    #[inline(always)]
    pub(crate) fn get(&self) -> F {
        // SAFETY: the slot holds a function of this type: ours from the start, the C library's of the same name later.
        unsafe { Self::typed(self.0.load(Relaxed)) }
    }

    /// Finds the function; `stand_in` where nobody below has it. As long as the linker shows no objects that is no answer to
    /// keep: the slot's next call looks again.
    ///
    /// # Safety
    /// Functions of that name, and `stand_in`, must be of this type.
    #[cold]
    unsafe fn find(&self, name: &CStr, stand_in: *mut c_void) -> F {
        let is_final = resolve::has_objects();
        let found = resolve::next(name).map_or(stand_in, |found| found.address.cast_mut().cast());
        if is_final {
            self.0.store(found, Relaxed);
        }
        // SAFETY: promised by the caller.
        unsafe { Self::typed(found) }
    }

    /// # Safety
    /// It must be the address of a function of this type.
    #[inline(always)]
    unsafe fn typed(function: *mut c_void) -> F {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        // SAFETY: of this size, and promised by the caller.
        unsafe { core::mem::transmute_copy(&function) }
    }
}

/// Slots, each with the name to look for and what stands in for a function that nobody below has.
macro_rules! next {
    ($($slot:ident: $name:ident($($argument:ident: $type:ty),*) -> $result:ty, without $without:expr;)*) => {
        $(
            pub(crate) static $slot: Next<unsafe extern "C" fn($($type),*) -> $result> = {
                unsafe extern "C" fn first($($argument: $type),*) -> $result {
                    // SAFETY: the same call, passed on.
                    unsafe { find::$name()($($argument),*) }
                }
                Next::new(first as *const () as *mut c_void)
            };
        )*

        /// Finds one function each.
        mod find {
            use super::*;
            $(
                pub(super) fn $name() -> unsafe extern "C" fn($($type),*) -> $result {
                    const NAME: &CStr = match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                        Ok(name) => name,
                        Err(_) => panic!("a name with NUL"),
                    };
                    // SAFETY: the C library declares it so, as the stand-in is.
                    unsafe { $slot.find(NAME, $without as *const () as *mut c_void) }
                }
            )*
        }

        /// Finds all functions. When the process starts, so that later calls find none of ours.
        pub(crate) fn prepare() {
            $(find::$name();)*
        }
    };
}

next! {
    MALLOC: malloc(bytes: usize) -> *mut c_void, without none::of_size;
    CALLOC: calloc(count: usize, bytes: usize) -> *mut c_void, without none::of_sizes;
    REALLOC: realloc(block: *mut c_void, bytes: usize) -> *mut c_void, without none::of_block;
    REALLOCARRAY: reallocarray(block: *mut c_void, count: usize, bytes: usize) -> *mut c_void, without reallocarray_of_realloc;
    FREE: free(block: *mut c_void) -> (), without none::freed;
    FREE_SIZED: free_sized(block: *mut c_void, bytes: usize) -> (), without free_of_sized;
    FREE_ALIGNED_SIZED: free_aligned_sized(block: *mut c_void, align: usize, bytes: usize) -> (), without free_of_aligned_sized;
    ALIGNED_ALLOC: aligned_alloc(align: usize, bytes: usize) -> *mut c_void, without none::of_sizes;
    MEMALIGN: memalign(align: usize, bytes: usize) -> *mut c_void, without none::of_sizes;
    POSIX_MEMALIGN: posix_memalign(place: *mut *mut c_void, align: usize, bytes: usize) -> c_int, without none::at_place;
    VALLOC: valloc(bytes: usize) -> *mut c_void, without none::of_size;
    PVALLOC: pvalloc(bytes: usize) -> *mut c_void, without none::of_size;
    MMAP: mmap(start: *mut c_void, bytes: usize, protection: c_int, flags: c_int, file: c_int, offset: i64) -> *mut c_void,
        without none::mapped;
    MUNMAP: munmap(start: *mut c_void, bytes: usize) -> c_int, without none::unmapped;
    MREMAP: mremap(old: *mut c_void, old_bytes: usize, new_bytes: usize, flags: c_int, new: *mut c_void) -> *mut c_void,
        without none::moved;
    MPROTECT: mprotect(start: *mut c_void, bytes: usize, protection: c_int) -> c_int, without none::protected;
    PKEY_MPROTECT: pkey_mprotect(start: *mut c_void, bytes: usize, protection: c_int, key: c_int) -> c_int,
        without none::protected_by_key;
    MADVISE: madvise(start: *mut c_void, bytes: usize, advice: c_int) -> c_int, without none::protected;
    BRK: brk(end: *mut c_void) -> c_int, without none::broken;
    SBRK: sbrk(more: isize) -> *mut c_void, without none::broken_by;
    SHMAT: shmat(id: c_int, start: *const c_void, flags: c_int) -> *mut c_void, without none::attached;
    SHMDT: shmdt(start: *const c_void) -> c_int, without none::detached;
    DLCLOSE: dlclose(handle: *mut c_void) -> c_int, without none::closed;
}

unsafe extern "C" fn reallocarray_of_realloc(block: *mut c_void, count: usize, bytes: usize) -> *mut c_void {
    let Some(total) = count.checked_mul(bytes) else { return none::of_size(bytes) };
    // SAFETY: the same request.
    unsafe { (REALLOC.get())(block, total) }
}

unsafe extern "C" fn free_of_sized(block: *mut c_void, _: usize) {
    // SAFETY: the same block.
    unsafe { (FREE.get())(block) }
}

unsafe extern "C" fn free_of_aligned_sized(block: *mut c_void, _: usize, _: usize) {
    // SAFETY: the same block.
    unsafe { (FREE.get())(block) }
}

/// What stands in for functions that nobody below has. The target was linked with a definition of what it calls, so
/// nobody calls these; but a slot needs something.
mod none {
    use super::*;

    fn fail(error: c_int) -> c_int {
        // SAFETY: this thread's variable.
        unsafe { *libc::__errno_location() = error };
        -1
    }

    fn no_memory() -> *mut c_void {
        fail(libc::ENOMEM);
        null_mut()
    }

    fn not_mapped() -> *mut c_void {
        fail(libc::ENOSYS);
        libc::MAP_FAILED
    }

    pub(super) extern "C" fn of_size(_: usize) -> *mut c_void {
        no_memory()
    }
    pub(super) extern "C" fn of_sizes(_: usize, _: usize) -> *mut c_void {
        no_memory()
    }
    pub(super) extern "C" fn of_block(_: *mut c_void, _: usize) -> *mut c_void {
        no_memory()
    }
    pub(super) extern "C" fn at_place(_: *mut *mut c_void, _: usize, _: usize) -> c_int {
        libc::ENOMEM
    }
    pub(super) extern "C" fn freed(_: *mut c_void) {}
    pub(super) extern "C" fn mapped(_: *mut c_void, _: usize, _: c_int, _: c_int, _: c_int, _: i64) -> *mut c_void {
        not_mapped()
    }
    pub(super) extern "C" fn unmapped(_: *mut c_void, _: usize) -> c_int {
        fail(libc::ENOSYS)
    }
    pub(super) extern "C" fn moved(_: *mut c_void, _: usize, _: usize, _: c_int, _: *mut c_void) -> *mut c_void {
        not_mapped()
    }
    pub(super) extern "C" fn protected(_: *mut c_void, _: usize, _: c_int) -> c_int {
        fail(libc::ENOSYS)
    }
    pub(super) extern "C" fn protected_by_key(_: *mut c_void, _: usize, _: c_int, _: c_int) -> c_int {
        fail(libc::ENOSYS)
    }
    pub(super) extern "C" fn broken(_: *mut c_void) -> c_int {
        fail(libc::ENOMEM)
    }
    pub(super) extern "C" fn broken_by(_: isize) -> *mut c_void {
        fail(libc::ENOMEM);
        libc::MAP_FAILED
    }
    pub(super) extern "C" fn attached(_: c_int, _: *const c_void, _: c_int) -> *mut c_void {
        not_mapped()
    }
    pub(super) extern "C" fn detached(_: *const c_void) -> c_int {
        fail(libc::ENOSYS)
    }
    pub(super) extern "C" fn closed(_: *mut c_void) -> c_int {
        fail(libc::ENOSYS)
    }
}
