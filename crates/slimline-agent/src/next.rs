//! The functions below us: what the target would have called without the agent.
//!
//! Found by name with `RTLD_NEXT`, so another preloaded or linked allocator (jemalloc, tcmalloc, mimalloc) stays the
//! target's allocator. Until they are found each slot holds a function of ours that finds them all first. That may
//! allocate (`dlsym`, a lower allocator's own start); such calls come back to the same slots in the same thread and are
//! served from a small area that is never given back, and whose blocks `free` and `realloc` recognise.
#![allow(unsafe_code)] // calls the allocator below

use crate::blocks::BLOCKS;
use crate::kernel;
use core::cell::UnsafeCell;
use core::ffi::{CStr, c_int, c_void};
use core::marker::PhantomData;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

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
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        let function = self.0.load(Relaxed);
        // SAFETY: the slot holds a function of this type: ours from the start, the C library's of the same name later.
        unsafe { core::mem::transmute_copy(&function) }
    }
}

/// What a slot holds at first. `during`: what looks for the names. `until`: what serves a call until that was done, because
/// an allocator may be in the middle of its own start, and a look-up may allocate.
macro_rules! at_first {
    (during, $first:expr, $during:expr) => {
        $first as *const () as *mut c_void
    };
    (until, $first:expr, $during:expr) => {
        $during as *const () as *mut c_void
    };
}

/// Slots, each with the name to look for, what serves a call while the names are being looked for, and what stands in
/// for a function that nobody below has.
macro_rules! next {
    ($($slot:ident: $name:ident($($argument:ident: $type:ty),*) -> $result:ty, $how:ident $during:expr, without $without:expr;)*) => {
        $(
            pub(crate) static $slot: Next<unsafe extern "C" fn($($type),*) -> $result> = {
                #[allow(dead_code)] // where the names are not looked for
                unsafe extern "C" fn first($($argument: $type),*) -> $result {
                    if find_all() {
                        // SAFETY: the same call, passed on.
                        unsafe { ($slot.get())($($argument),*) }
                    } else {
                        // SAFETY: as above.
                        unsafe { ($during)($($argument),*) }
                    }
                }
                Next::new(at_first!($how, first, $during))
            };
        )*

        fn look_up_all() {
            // All first: a call that a look-up makes must find either none or all of them.
            let found = [$((look_up(stringify!($name)), $without as *const () as *mut c_void)),*];
            let slots = [$(&$slot.0),*];
            for (slot, (function, stand_in)) in slots.into_iter().zip(found) {
                slot.store(if function.is_null() { stand_in } else { function }, Relaxed);
            }
        }
    };
}

next! {
    MALLOC: malloc(bytes: usize) -> *mut c_void, during early::malloc, without early::none_of_size;
    CALLOC: calloc(count: usize, bytes: usize) -> *mut c_void, during early::calloc, without early::none_of_sizes;
    REALLOC: realloc(block: *mut c_void, bytes: usize) -> *mut c_void, during early::realloc, without early::none_of_block;
    REALLOCARRAY: reallocarray(block: *mut c_void, count: usize, bytes: usize) -> *mut c_void,
        during early::reallocarray, without reallocarray_of_realloc;
    FREE: free(block: *mut c_void) -> (), during early::free, without early::free;
    FREE_SIZED: free_sized(block: *mut c_void, bytes: usize) -> (), during early::free_sized, without free_of_sized;
    FREE_ALIGNED_SIZED: free_aligned_sized(block: *mut c_void, align: usize, bytes: usize) -> (),
        during early::free_aligned_sized, without free_of_aligned_sized;
    ALIGNED_ALLOC: aligned_alloc(align: usize, bytes: usize) -> *mut c_void, during early::aligned, without early::none_of_sizes;
    MEMALIGN: memalign(align: usize, bytes: usize) -> *mut c_void, during early::aligned, without early::none_of_sizes;
    POSIX_MEMALIGN: posix_memalign(place: *mut *mut c_void, align: usize, bytes: usize) -> c_int,
        during early::posix_memalign, without early::posix_memalign;
    VALLOC: valloc(bytes: usize) -> *mut c_void, during early::page_aligned, without early::none_of_size;
    PVALLOC: pvalloc(bytes: usize) -> *mut c_void, during early::page_aligned, without early::none_of_size;
    MMAP: mmap(start: *mut c_void, bytes: usize, protection: c_int, flags: c_int, file: c_int, offset: i64) -> *mut c_void,
        until early::mmap, without early::mmap;
    MUNMAP: munmap(start: *mut c_void, bytes: usize) -> c_int, until early::munmap, without early::munmap;
    MREMAP: mremap(old: *mut c_void, old_bytes: usize, new_bytes: usize, flags: c_int, new: *mut c_void) -> *mut c_void,
        until early::mremap, without early::mremap;
    BRK: brk(end: *mut c_void) -> c_int, during early::no_break, without early::no_break;
    SBRK: sbrk(more: isize) -> *mut c_void, during early::no_break_by, without early::no_break_by;
    SHMAT: shmat(id: c_int, start: *const c_void, flags: c_int) -> *mut c_void,
        during early::no_segment, without early::no_segment;
    SHMDT: shmdt(start: *const c_void) -> c_int, during early::no_attached, without early::no_attached;
    DLCLOSE: dlclose(handle: *mut c_void) -> c_int, during early::dlclose, without early::dlclose;
}

fn look_up(name: &str) -> *mut c_void {
    let mut terminated = [0; 32];
    terminated[..name.len()].copy_from_slice(name.as_bytes());
    let Ok(name) = CStr::from_bytes_until_nul(&terminated) else { return null_mut() };
    // SAFETY: a NUL-terminated name; the call is made from this object, so "next" is relative to it.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }
}

const NOT_FOUND: u32 = 0;
const FINDING: u32 = 1;
const FOUND: u32 = 2;
static STATE: AtomicU32 = AtomicU32::new(NOT_FOUND);
/// Kernel's number of the thread that looks for them.
static FINDER: AtomicU32 = AtomicU32::new(0);

/// Where the `malloc` below is.
pub(crate) fn malloc_below() -> *mut c_void {
    find_all();
    MALLOC.0.load(Relaxed)
}

/// Finds all functions. When the process starts, before an allocator of the program's own can be in the middle of anything.
pub(crate) fn prepare() {
    find_all();
}

/// Finds all functions, unless this thread is doing so already: then false.
#[cold]
fn find_all() -> bool {
    let this = kernel::thread_id();
    if FINDER.load(Relaxed) == this {
        return false;
    }
    if STATE.compare_exchange(NOT_FOUND, FINDING, Acquire, Acquire).is_ok() {
        FINDER.store(this, Relaxed);
        look_up_all();
        FINDER.store(0, Relaxed);
        STATE.store(FOUND, Release);
    }
    while STATE.load(Acquire) != FOUND {
        kernel::yield_now();
    }
    true
}

unsafe extern "C" fn reallocarray_of_realloc(block: *mut c_void, count: usize, bytes: usize) -> *mut c_void {
    let Some(total) = count.checked_mul(bytes) else { return early::out_of_memory() };
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

/// Size of the area for early blocks. glibc's and jemalloc's start need none of it today.
pub(crate) const EARLY_BYTES: usize = 64 << 10;

/// Blocks that were needed before there was an allocator. The entry functions compare addresses with it.
#[repr(C, align(4096))]
pub(crate) struct EarlyArea(UnsafeCell<[u8; EARLY_BYTES]>);

// SAFETY: each byte belongs to the one block that was carved there.
unsafe impl Sync for EarlyArea {}

/// See [`EarlyArea`].
pub(crate) static EARLY: EarlyArea = EarlyArea(UnsafeCell::new([0; EARLY_BYTES]));

/// Whether a block comes from the early area.
#[inline(always)]
pub(crate) fn is_early(block: *mut c_void) -> bool {
    (block as usize).wrapping_sub(&raw const EARLY as usize) < EARLY_BYTES
}

/// `realloc` of an early block: its content moves to the allocator below.
///
/// # Safety
/// As `realloc`; the block must be early.
#[cold]
pub(crate) unsafe extern "C" fn realloc_early(block: *mut c_void, bytes: usize) -> *mut c_void {
    // SAFETY: an early block's size stands before it; the areas are different ones.
    unsafe {
        let old_bytes = block.cast::<usize>().sub(2).read();
        let new = (MALLOC.get())(bytes);
        if !new.is_null() {
            core::ptr::copy_nonoverlapping(block.cast::<u8>(), new.cast::<u8>(), old_bytes.min(bytes));
        }
        new
    }
}

/// `reallocarray` of an early block.
///
/// # Safety
/// As `reallocarray`; the block must be early.
#[cold]
pub(crate) unsafe extern "C" fn reallocarray_early(block: *mut c_void, count: usize, bytes: usize) -> *mut c_void {
    // SAFETY: promised by the caller.
    count.checked_mul(bytes).map_or_else(early::out_of_memory, |total| unsafe { realloc_early(block, total) })
}

/// `free` of an early block: it stays.
#[cold]
pub(crate) extern "C" fn free_early(_: *mut c_void) {}

/// What serves calls that the look-up itself makes.
mod early {
    use super::*;

    static USED: AtomicUsize = AtomicUsize::new(0);

    pub(super) fn out_of_memory() -> *mut c_void {
        // SAFETY: this thread's variable.
        unsafe { *libc::__errno_location() = libc::ENOMEM };
        null_mut()
    }

    fn carve(align: usize, bytes: usize) -> *mut c_void {
        let base = &raw const EARLY as usize;
        let carved = USED.fetch_update(Relaxed, Relaxed, |used| {
            let start = (base + used).checked_add(16)?.checked_next_multiple_of(align.max(16))? - base;
            start.checked_add(bytes).filter(|end| *end <= EARLY_BYTES)
        });
        let Ok(used) = carved else { return out_of_memory() };
        let start = (base + used + 16).next_multiple_of(align.max(16));
        // SAFETY: from `used` on the bytes were nobody's; the size goes into the 16 before the block.
        unsafe { (start as *mut usize).sub(2).write(bytes) };
        // Before it can be freed: no function below must see it.
        BLOCKS.set_apart(start as u64);
        start as *mut c_void
    }

    pub(super) unsafe extern "C" fn malloc(bytes: usize) -> *mut c_void {
        carve(16, bytes)
    }

    pub(super) unsafe extern "C" fn calloc(count: usize, bytes: usize) -> *mut c_void {
        count.checked_mul(bytes).map_or_else(out_of_memory, |total| carve(16, total))
    }

    pub(super) unsafe extern "C" fn realloc(block: *mut c_void, bytes: usize) -> *mut c_void {
        if !is_early(block) {
            return if block.is_null() { carve(16, bytes) } else { out_of_memory() };
        }
        let new = carve(16, bytes);
        if !new.is_null() {
            // SAFETY: both are early blocks with their sizes before them.
            unsafe {
                let old_bytes = block.cast::<usize>().sub(2).read();
                core::ptr::copy_nonoverlapping(block.cast::<u8>(), new.cast::<u8>(), old_bytes.min(bytes));
            }
        }
        new
    }

    pub(super) unsafe extern "C" fn reallocarray(block: *mut c_void, count: usize, bytes: usize) -> *mut c_void {
        // SAFETY: passed on.
        count.checked_mul(bytes).map_or_else(out_of_memory, |total| unsafe { realloc(block, total) })
    }

    pub(super) unsafe extern "C" fn aligned(align: usize, bytes: usize) -> *mut c_void {
        carve(align, bytes)
    }

    pub(super) unsafe extern "C" fn page_aligned(bytes: usize) -> *mut c_void {
        carve(4096, bytes)
    }

    pub(super) unsafe extern "C" fn posix_memalign(place: *mut *mut c_void, align: usize, bytes: usize) -> c_int {
        if !align.is_power_of_two() || !align.is_multiple_of(size_of::<usize>()) {
            return libc::EINVAL;
        }
        let block = carve(align, bytes);
        if block.is_null() {
            return libc::ENOMEM;
        }
        // SAFETY: the caller's place.
        unsafe { place.write(block) };
        0
    }

    pub(super) unsafe extern "C" fn free(_: *mut c_void) {}
    pub(super) unsafe extern "C" fn free_sized(_: *mut c_void, _: usize) {}
    pub(super) unsafe extern "C" fn free_aligned_sized(_: *mut c_void, _: usize, _: usize) {}

    // No such function below: nobody can have called it, but a slot needs something.
    pub(super) unsafe extern "C" fn none_of_size(_: usize) -> *mut c_void {
        out_of_memory()
    }
    pub(super) unsafe extern "C" fn none_of_sizes(_: usize, _: usize) -> *mut c_void {
        out_of_memory()
    }
    pub(super) unsafe extern "C" fn none_of_block(_: *mut c_void, _: usize) -> *mut c_void {
        out_of_memory()
    }

    fn result(of_kernel: isize) -> *mut c_void {
        if (-4095..0).contains(&of_kernel) {
            // SAFETY: this thread's variable.
            unsafe { *libc::__errno_location() = -of_kernel as c_int };
            return libc::MAP_FAILED;
        }
        of_kernel as *mut c_void
    }

    pub(super) unsafe extern "C" fn mmap(
        start: *mut c_void,
        bytes: usize,
        protection: c_int,
        flags: c_int,
        file: c_int,
        offset: i64,
    ) -> *mut c_void {
        // SAFETY: the caller's own request.
        result(unsafe {
            kernel::mmap([start as usize, bytes, protection as usize, flags as usize, file as usize, offset as usize])
        })
    }

    pub(super) unsafe extern "C" fn munmap(start: *mut c_void, bytes: usize) -> c_int {
        // SAFETY: the caller's own request.
        if result(unsafe { kernel::munmap(start as usize, bytes) }) == libc::MAP_FAILED { -1 } else { 0 }
    }

    pub(super) unsafe extern "C" fn mremap(
        old: *mut c_void,
        old_bytes: usize,
        new_bytes: usize,
        flags: c_int,
        new: *mut c_void,
    ) -> *mut c_void {
        // SAFETY: the caller's own request.
        result(unsafe { kernel::mremap([old as usize, old_bytes, new_bytes, flags as usize, new as usize]) })
    }

    fn fail(error: c_int) -> c_int {
        // SAFETY: this thread's variable.
        unsafe { *libc::__errno_location() = error };
        -1
    }

    // A look-up calls none of these.
    pub(super) unsafe extern "C" fn no_break(_: *mut c_void) -> c_int {
        fail(libc::ENOMEM)
    }
    pub(super) unsafe extern "C" fn no_break_by(_: isize) -> *mut c_void {
        fail(libc::ENOMEM) as isize as *mut c_void
    }
    pub(super) unsafe extern "C" fn no_segment(_: c_int, _: *const c_void, _: c_int) -> *mut c_void {
        fail(libc::EINVAL) as isize as *mut c_void
    }
    pub(super) unsafe extern "C" fn no_attached(_: *const c_void) -> c_int {
        fail(libc::EINVAL)
    }

    pub(super) unsafe extern "C" fn dlclose(_: *mut c_void) -> c_int {
        0
    }
}
