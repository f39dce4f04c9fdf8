//! The functions of `include/tidy.h`, which says what each does.
#![allow(unsafe_code)] // what C gives is taken by its word
#![allow(clippy::missing_safety_doc)] // it is the header's

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::{c_int, c_void};
use std::ptr::{NonNull, null_mut};

use crate::{Context, DEFAULT_BUCKET_BYTES, MAX_DIMENSIONS, Statistics};

/// C's `max_align_t` here: no type that C allocates by its size alone needs more.
const MOST_ALIGNED: usize = 16;

/// `struct tidy_allocator`
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct CAllocator {
    alloc: extern "C" fn(*mut c_void, usize, usize) -> *mut c_void,
    free: extern "C" fn(*mut c_void, *mut c_void, usize, usize),
    user: *mut c_void,
}

/// What is below a context of C's.
#[derive(Debug)]
pub(crate) struct Below(Option<CAllocator>);

// SAFETY: the header asks that both functions can be called by any thread with `user`.
unsafe impl Send for Below {}
// SAFETY: as above.
unsafe impl Sync for Below {}

// SAFETY: either the system's, or what the header asks of a `tidy_allocator`: memory of that size and alignment, which is
// nobody else's until it is freed, or null.
unsafe impl GlobalAlloc for Below {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match &self.0 {
            // SAFETY: as the caller promises.
            None => unsafe { System.alloc(layout) },
            Some(of) => (of.alloc)(of.user, layout.size(), layout.align()).cast(),
        }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        match &self.0 {
            // SAFETY: as the caller promises.
            None => unsafe { System.dealloc(memory, layout) },
            Some(of) => (of.free)(of.user, memory.cast(), layout.size(), layout.align()),
        }
    }
}

/// `struct tidy_context`
pub(crate) type CContext = Context<Below>;

/// The alignment of what has this size: a type's size is a multiple of it.
fn natural(size: usize) -> usize {
    if size == 0 { 1 } else { (1 << size.trailing_zeros().min(4)).min(MOST_ALIGNED) }
}

/// # Safety
///
/// `count` values are at `values`, or it is 0.
unsafe fn values<'v>(values: *const usize, count: usize) -> &'v [usize] {
    // SAFETY: as the caller promises; of none the pointer may be null.
    if count == 0 { &[] } else { unsafe { std::slice::from_raw_parts(values, count) } }
}

/// # Safety
///
/// `hint` has a value for each dimension.
unsafe fn allocated(context: &CContext, size: usize, align: usize, hint: *const usize) -> Option<NonNull<u8>> {
    let layout = Layout::from_size_align(size, align).ok()?;
    // SAFETY: as the caller promises.
    let hint = unsafe { values(hint, context.dimensions().len()) };
    context.alloc(layout, hint).ok()
}

fn or_null<T>(found: Option<NonNull<T>>) -> *mut c_void {
    found.map_or(null_mut(), |found| found.as_ptr().cast())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tidy_create(dimensions: usize, sizes: *const usize) -> *mut CContext {
    // SAFETY: as the header asks.
    unsafe { tidy_create_over(dimensions, sizes, 0, std::ptr::null()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tidy_create_over(
    dimensions: usize,
    sizes: *const usize,
    bucket_bytes: usize,
    allocator: *const CAllocator,
) -> *mut CContext {
    // More are refused below: not so many need to be there.
    let dimensions = dimensions.min(MAX_DIMENSIONS + 1);
    // SAFETY: as the header asks, `sizes` are there, and an allocator if there is one.
    let (sizes, allocator) = unsafe { (values(sizes, dimensions), allocator.as_ref().copied()) };
    let bucket_bytes = if bucket_bytes == 0 { DEFAULT_BUCKET_BYTES } else { bucket_bytes };
    match Context::over(Below(allocator), sizes, bucket_bytes) {
        Ok(context) => Box::into_raw(Box::new(context)),
        Err(_) => null_mut(),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tidy_destroy(context: *mut CContext) {
    if !context.is_null() {
        // SAFETY: `tidy_create` made it so, and the header asks that nobody uses it any more.
        drop(unsafe { Box::from_raw(context) });
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tidy_alloc(context: &CContext, size: usize, hint: *const usize) -> *mut c_void {
    // SAFETY: as the header asks.
    or_null(unsafe { allocated(context, size, natural(size), hint) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tidy_calloc(context: &CContext, count: usize, size: usize, hint: *const usize) -> *mut c_void {
    let Some(bytes) = count.checked_mul(size) else { return null_mut() };
    let Ok(layout) = Layout::from_size_align(bytes, natural(size)) else { return null_mut() };
    // SAFETY: as the header asks.
    let hint = unsafe { values(hint, context.dimensions().len()) };
    or_null(context.alloc_zeroed(layout, hint).ok())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tidy_aligned_alloc(
    context: &CContext,
    alignment: usize,
    size: usize,
    hint: *const usize,
) -> *mut c_void {
    // SAFETY: as the header asks.
    or_null(unsafe { allocated(context, size, alignment, hint) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tidy_realloc(context: &CContext, object: *mut c_void, size: usize) -> *mut c_void {
    let Some(object) = NonNull::new(object.cast::<u8>()) else { return null_mut() };
    let align = natural(size);
    // SAFETY: the header asks for an object of this context. Where it is, it is aligned as its address tells.
    unsafe {
        if object.addr().get().is_multiple_of(align) {
            return or_null(context.realloc_to(object, align, size, None));
        }
        // It was smaller, and aligned for that.
        let Ok(layout) = Layout::from_size_align(size, align) else { return null_mut() };
        let Some(new) = context.alloc_in(layout, context.arena_of(object)) else { return null_mut() };
        new.copy_from_nonoverlapping(object, context.usable_bytes(object).min(size));
        context.free(object);
        or_null(Some(new))
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tidy_free(context: &CContext, object: *mut c_void) {
    if let Some(object) = NonNull::new(object.cast::<u8>()) {
        // SAFETY: the header asks for an object of this context that nobody uses any more.
        unsafe { context.free(object) };
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tidy_usable_bytes(context: &CContext, object: *mut c_void) -> usize {
    // SAFETY: the header asks for an object of this context.
    NonNull::new(object.cast::<u8>()).map_or(0, |object| unsafe { context.usable_bytes(object) })
}

#[unsafe(no_mangle)]
extern "C" fn tidy_trim(context: &CContext) {
    context.trim();
}

#[unsafe(no_mangle)]
unsafe extern "C" fn tidy_stats(context: &CContext, statistics: *mut Statistics) -> c_int {
    let Some(statistics) = NonNull::new(statistics) else { return -1 };
    // SAFETY: the header asks for room for one.
    unsafe { statistics.write(context.statistics()) };
    0
}
