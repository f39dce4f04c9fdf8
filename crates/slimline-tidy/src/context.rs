//! A context: dimensions, and the arenas of their hints.
#![allow(unsafe_code)] // an allocator

use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::AtomicUsize;

use crate::arena::{Arena, Supply};
use crate::below::Below;
use crate::bucket::Shape;
use crate::dimensions::Dimensions;
use crate::lanes::Arenas;
use crate::large::Large;
use crate::occupancy::UNIT_BYTES;
use crate::page_map::PageMap;
use crate::slab::Slabs;
use crate::{DEFAULT_BUCKET_BYTES, Error, MAX_BUCKET_BYTES, MIN_BUCKET_BYTES, Statistics};

/// Hands out memory by hints: what is allocated with the same hint, modulo the dimensions, lies side by side.
///
/// All of its memory comes from the allocator below and goes back there when the context is dropped, whether it was freed
/// or not. Any thread may allocate, and free what another one allocated.
///
/// ```
/// use std::alloc::Layout;
/// use slimline_tidy::Context;
///
/// let context = Context::new(&[16, 16])?;
/// let layout = Layout::new::<[u64; 3]>();
/// let first = context.alloc(layout, &[3, 5])?;
/// let other = context.alloc(layout, &[9, 9])?;
/// let second = context.alloc(layout, &[3, 5 + 16])?;
/// assert_eq!(second.addr().get() - first.addr().get(), 24);
/// for object in [first, other, second] {
///     // SAFETY: it is of this context, and used no longer.
///     unsafe { context.free(object) };
/// }
/// # Ok::<(), slimline_tidy::Error>(())
/// ```
pub struct Context<A: GlobalAlloc = System> {
    dimensions: Dimensions,
    large: Large,
    supply: Supply<A>,
}

// SAFETY: all that its pointers refer to is the context's own memory, which goes with it.
unsafe impl<A: GlobalAlloc + Send> Send for Context<A> {}
// SAFETY: arenas, slabs and the list of large objects are each behind a lock, the map and the tables are atomic, and lanes' tables not
// written once they can be found; the allocator below can be called from any thread. Without an arena's lock is read: of a bucket with an object its arena
// (`owner`) and its data (`put_off`), which are written before the object is handed out, and not again as long as it is there;
// and, under the slabs' lock, what statistics count, which is atomic.
unsafe impl<A: GlobalAlloc + Sync> Sync for Context<A> {}

impl Context {
    /// One over the system's allocator, with buckets of [`DEFAULT_BUCKET_BYTES`]. No dimension at all is one arena.
    ///
    /// # Errors
    ///
    /// Dimensions that are too many, too large or 0; no memory.
    pub fn new(dimensions: &[usize]) -> Result<Self, Error> {
        Self::over(System, dimensions, DEFAULT_BUCKET_BYTES)
    }

    /// One over the system's allocator, with buckets of so many bytes: a power of two from [`MIN_BUCKET_BYTES`] to
    /// [`MAX_BUCKET_BYTES`].
    ///
    /// # Errors
    ///
    /// As for [`new`](Self::new); another size of buckets.
    pub fn with_bucket_bytes(dimensions: &[usize], bucket_bytes: usize) -> Result<Self, Error> {
        Self::over(System, dimensions, bucket_bytes)
    }
}

impl<A: GlobalAlloc> Context<A> {
    /// One over any allocator. It must not be one that comes back to this context.
    ///
    /// # Errors
    ///
    /// As for [`Context::with_bucket_bytes`].
    pub fn over(allocator: A, dimensions: &[usize], bucket_bytes: usize) -> Result<Self, Error> {
        let dimensions = Dimensions::new(dimensions)?;
        if !bucket_bytes.is_power_of_two() || !(MIN_BUCKET_BYTES..=MAX_BUCKET_BYTES).contains(&bucket_bytes) {
            return Err(Error::BucketBytes(bucket_bytes));
        }
        let shape = Shape::new(bucket_bytes.trailing_zeros());
        let below = Below::new(allocator);
        let arenas = Arenas::new(dimensions.arenas(), &below).ok_or(Error::OutOfMemory)?;
        let slabs = Slabs::new(shape);
        let supply = Supply { shape, arenas, slabs, map: PageMap::new(), below, keepers: AtomicUsize::new(0) };
        Ok(Self { dimensions, large: Large::default(), supply })
    }

    /// Sizes of the dimensions.
    pub fn dimensions(&self) -> &[usize] {
        self.dimensions.sizes()
    }

    /// Bytes of a bucket: larger objects are the allocator below's.
    pub fn bucket_bytes(&self) -> usize {
        self.supply.shape.bytes()
    }

    /// The number of a hint's arena: each value modulo its dimension, the last one fastest.
    ///
    /// # Errors
    ///
    /// A hint of more or fewer values than there are dimensions.
    #[inline]
    pub fn arena(&self, hint: &[usize]) -> Result<usize, Error> {
        self.dimensions.arena(hint)
    }

    /// Memory for an object. A size of 0 is taken as one byte.
    ///
    /// # Errors
    ///
    /// A hint of more or fewer values than there are dimensions; no memory.
    #[inline(always)]
    pub fn alloc(&self, layout: Layout, hint: &[usize]) -> Result<NonNull<u8>, Error> {
        self.alloc_in(layout, self.dimensions.arena(hint)?).ok_or(Error::OutOfMemory)
    }

    /// The same, of zero bytes.
    ///
    /// # Errors
    ///
    /// As for [`alloc`](Self::alloc).
    pub fn alloc_zeroed(&self, layout: Layout, hint: &[usize]) -> Result<NonNull<u8>, Error> {
        self.alloc_zeroed_in(layout, self.dimensions.arena(hint)?).ok_or(Error::OutOfMemory)
    }

    /// In an arena that [`arena`](Self::arena) gave.
    #[inline(always)]
    pub(crate) fn alloc_in(&self, layout: Layout, arena: usize) -> Option<NonNull<u8>> {
        if !self.is_small(layout) {
            return self.large.alloc(layout, false, arena, &self.supply.below);
        }
        let (units, align) = units_of(layout);
        self.supply.arenas.get(arena, &self.supply.below)?.alloc(units, align, &self.supply)
    }

    pub(crate) fn alloc_zeroed_in(&self, layout: Layout, arena: usize) -> Option<NonNull<u8>> {
        if !self.is_small(layout) {
            return self.large.alloc(layout, true, arena, &self.supply.below);
        }
        let object = self.alloc_in(layout, arena)?;
        // SAFETY: that many bytes were just allocated, and nobody else knows of them.
        unsafe { object.write_bytes(0, layout.size()) };
        Some(object)
    }

    #[inline(always)]
    fn is_small(&self, layout: Layout) -> bool {
        layout.size() <= self.bucket_bytes() && layout.align() <= self.bucket_bytes()
    }

    /// Frees an object.
    ///
    /// What is no object of a context, or is freed twice, ends the program where that is noticed, with a line that says so.
    ///
    /// # Safety
    ///
    /// It is of this context, and nobody uses it from now on.
    #[inline(always)]
    pub unsafe fn free(&self, object: NonNull<u8>) {
        match self.owner(object) {
            // SAFETY: the owner of an object is the arena of its bucket; the caller promises the rest.
            Some((arena, bucket)) => unsafe { arena.free(object, bucket, &self.supply) },
            // SAFETY: an object that is in no slab is a large one.
            None => unsafe { self.large.free(object, &self.supply.below) },
        }
    }

    /// The arena and bucket that a small object is in.
    #[inline(always)]
    fn owner(&self, object: NonNull<u8>) -> Option<(&Arena, NonNull<crate::bucket::Bucket>)> {
        let address = object.addr().get();
        let first = NonNull::new(self.supply.map.first(address))?;
        // SAFETY: headers that the map finds for an address are there as long as an object in its slab is. A bucket with an
        // object has an arena, which is in the context's table; it was written before the object was handed out, and stays
        // until the object is freed.
        unsafe {
            let bucket = self.supply.shape.bucket(first, address);
            let arena = (*bucket.as_ptr()).arena.as_ref();
            Some((arena.unwrap_or_else(|| crate::corruption("free of what is no object")), bucket))
        }
    }

    /// Makes an object one of another size, with the alignment of `layout`, perhaps elsewhere. Contents are kept up to the
    /// smaller size. It stays where it is when it becomes smaller or there is room behind it, and with its hint else.
    ///
    /// # Errors
    ///
    /// No memory: the object stays as it was.
    ///
    /// # Safety
    ///
    /// It is of this context, of this layout; where another address is returned, nobody uses the former from now on.
    pub unsafe fn realloc(&self, object: NonNull<u8>, layout: Layout, size: usize) -> Result<NonNull<u8>, Error> {
        // SAFETY: as the caller promises.
        unsafe { self.realloc_to(object, layout.align(), size, None) }.ok_or(Error::OutOfMemory)
    }

    /// The same; where the object has to move, into that arena, or `None` its own.
    ///
    /// # Safety
    ///
    /// As for [`realloc`](Self::realloc); `align` is no more than the object's.
    pub(crate) unsafe fn realloc_to(
        &self,
        object: NonNull<u8>,
        align: usize,
        size: usize,
        to: Option<usize>,
    ) -> Option<NonNull<u8>> {
        let layout = Layout::from_size_align(size, align).ok()?;
        let small = self.is_small(layout);
        let (old_bytes, own) = match self.owner(object) {
            Some((arena, bucket)) => {
                // SAFETY: the arena owns the bucket that the object is in.
                let old_units = unsafe {
                    if small {
                        let (old_units, done) = arena.resize(object, bucket, units_of(layout).0, &self.supply);
                        if done {
                            return Some(object);
                        }
                        old_units
                    } else {
                        arena.units_of(object, bucket, &self.supply)
                    }
                };
                (old_units * UNIT_BYTES, arena.number())
            }
            None => {
                // SAFETY: an object that is in no slab is a large one.
                unsafe {
                    let old = Large::layout(object);
                    if !small && align <= old.align() {
                        return self.large.realloc(object, size, &self.supply.below);
                    }
                    (old.size(), Large::arena(object))
                }
            }
        };
        let new = self.alloc_in(layout, to.unwrap_or(own))?;
        // SAFETY: both are valid for as many bytes, and are two; the caller uses the former no longer.
        unsafe {
            new.copy_from_nonoverlapping(object, old_bytes.min(size));
            self.free(object);
        }
        Some(new)
    }

    /// The number of an object's arena.
    ///
    /// # Safety
    ///
    /// It is of this context.
    #[cfg(feature = "c")]
    pub(crate) unsafe fn arena_of(&self, object: NonNull<u8>) -> usize {
        match self.owner(object) {
            Some((arena, _)) => arena.number(),
            // SAFETY: an object that is in no slab is a large one.
            None => unsafe { Large::arena(object) },
        }
    }

    /// Bytes that an object may use: its size or a few more.
    ///
    /// # Safety
    ///
    /// It is of this context.
    pub unsafe fn usable_bytes(&self, object: NonNull<u8>) -> usize {
        match self.owner(object) {
            // SAFETY: the arena owns the bucket that the object is in.
            Some((arena, bucket)) => unsafe { arena.units_of(object, bucket, &self.supply) * UNIT_BYTES },
            // SAFETY: an object that is in no slab is a large one.
            None => unsafe { Large::layout(object).size() },
        }
    }

    /// Gives back to the allocator below what no object needs: buckets that arenas keep, and slabs without objects. Tables
    /// stay, and arenas their threads': another thread's arena that keeps a bucket costs some microseconds.
    pub fn trim(&self) {
        for arena in self.supply.arenas.present() {
            arena.trim(&self.supply);
        }
        self.supply.slabs.trim(&self.supply.map, &self.supply.below);
    }

    /// What there is now. It is read beside other threads that allocate, without their arenas' locks, and then is of no single
    /// moment.
    pub fn statistics(&self) -> Statistics {
        let mut all = Statistics::default();
        self.supply.arenas.present().for_each(|arena| arena.settle(&self.supply));
        let slabs = self.supply.slabs.stay();
        for (first, own) in self.supply.arenas.by_number() {
            let mut has_objects = false;
            for arena in std::iter::once(first).chain(own) {
                let (buckets, objects) = arena.contents(&slabs);
                all.buckets += buckets;
                has_objects |= objects;
            }
            all.arenas += usize::from(has_objects);
        }
        let (objects, units) = self.supply.slabs.contents(&slabs);
        drop(slabs);
        all.objects = objects;
        all.bytes = units * UNIT_BYTES;
        // Others may have made objects since the buckets were counted.
        all.wasted_bytes = (all.buckets * self.bucket_bytes()).saturating_sub(all.bytes);
        (all.large_objects, all.large_bytes) = self.large.contents();
        all.held_bytes = self.supply.below.held_bytes();
        all
    }
}

/// Units of an object, and of what it is aligned to.
#[inline(always)]
fn units_of(layout: Layout) -> (usize, usize) {
    (layout.size().div_ceil(UNIT_BYTES).max(1), layout.align().div_ceil(UNIT_BYTES))
}

impl<A: GlobalAlloc> fmt::Debug for Context<A> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("Context");
        shown.field("dimensions", &self.dimensions()).field("bucket_bytes", &self.bucket_bytes());
        shown.finish_non_exhaustive()
    }
}

impl<A: GlobalAlloc> Drop for Context<A> {
    fn drop(&mut self) {
        let below = &self.supply.below;
        // SAFETY: the context is borrowed by nobody, so neither are handles, owners and what they have of it. Raw pointers
        // to objects are no longer valid from here on, as the documentation of the type says.
        unsafe {
            self.large.clear(below);
            self.supply.slabs.clear(below);
            self.supply.arenas.clear(below);
        }
        self.supply.map.clear(below);
    }
}

#[cfg(test)]
mod tests;
