//! Objects that are larger than a bucket: each by itself from the allocator below, with a header before it.
//!
//! ```text
//!   ◄───────── lead ─────────►
//!   (unused)  │ header       │ object …
//! ```
#![allow(unsafe_code)] // headers before objects

use std::alloc::{GlobalAlloc, Layout};
use std::cell::UnsafeCell;
use std::ptr::{NonNull, null_mut};

use crate::below::Below;
use crate::corruption;
use crate::lock::Lock;

/// What the mark of a header is made of, and the object's address.
const MARK: usize = 0x7469_6479_u32 as usize;

/// Before each large object.
#[derive(Debug)]
#[repr(C)]
struct Header {
    /// Tells an object from a pointer that is none of ours.
    mark: usize,
    layout: Layout,
    /// The number of its arena, which it goes to should it become small.
    arena: usize,
    next: *mut Header,
    prev: *mut Header,
}

const HEADER_BYTES: usize = size_of::<Header>();
const _: () = assert!(HEADER_BYTES == 48 && align_of::<Header>() <= 16);

/// All large objects of a context.
#[derive(Debug, Default)]
pub(crate) struct Large {
    lock: Lock,
    list: UnsafeCell<List>,
}

#[derive(Debug, Default)]
struct List {
    first: Option<NonNull<Header>>,
    objects: usize,
    bytes: usize,
}

/// From where memory for an object begins to the object, and the layout of all.
fn whole(object: Layout) -> Option<(usize, Layout)> {
    let align = object.align().max(align_of::<Header>());
    let lead = HEADER_BYTES.next_multiple_of(align);
    let whole = Layout::from_size_align(object.size().checked_add(lead)?, align).ok()?;
    Some((lead, whole))
}

impl Large {
    /// Memory for an object. `None`: the allocator below has none.
    #[inline(never)]
    pub(crate) fn alloc<A: GlobalAlloc>(
        &self,
        layout: Layout,
        zeroed: bool,
        arena: usize,
        below: &Below<A>,
    ) -> Option<NonNull<u8>> {
        let (lead, whole) = whole(layout)?;
        let memory = if zeroed { below.alloc_zeroed(whole) } else { below.alloc(whole) }?;
        // SAFETY: `lead` is within the memory, and a multiple of an alignment that is at least the header's.
        let object = unsafe { memory.add(lead) };
        // SAFETY: there is room for a header before the object, in memory that nobody knows of yet.
        unsafe { self.enter(object, layout, arena) };
        Some(object)
    }

    /// Writes the header of an object and puts it into the list.
    ///
    /// # Safety
    ///
    /// [`whole`] memory of this layout is around `object`, and nobody uses the part before it.
    unsafe fn enter(&self, object: NonNull<u8>, layout: Layout, arena: usize) {
        let header: NonNull<Header> = header(object);
        let _held = self.lock.lock();
        // SAFETY: the lock is held, and this is the only reference made under it. Headers of the list are valid.
        unsafe {
            let list = &mut *self.list.get();
            let next = list.first.map_or(null_mut(), NonNull::as_ptr);
            header.write(Header { mark: MARK ^ object.addr().get(), layout, arena, next, prev: null_mut() });
            if let Some(next) = list.first {
                (*next.as_ptr()).prev = header.as_ptr();
            }
            list.first = Some(header);
            list.objects += 1;
            list.bytes += layout.size();
        }
    }

    /// Takes an object out of the list. Its layout.
    ///
    /// # Safety
    ///
    /// `object` is one of this list.
    unsafe fn leave(&self, object: NonNull<u8>) -> Layout {
        let header = header(object).as_ptr();
        let _held = self.lock.lock();
        // SAFETY: as in `enter`.
        unsafe {
            if (*header).mark != MARK ^ object.addr().get() {
                corruption("free of what is no object");
            }
            // The next time it is freed it is none.
            (*header).mark = 0;
            let list = &mut *self.list.get();
            let (next, prev) = ((*header).next, (*header).prev);
            match NonNull::new(prev) {
                Some(prev) => (*prev.as_ptr()).next = next,
                None => list.first = NonNull::new(next),
            }
            if let Some(next) = NonNull::new(next) {
                (*next.as_ptr()).prev = prev;
            }
            list.objects -= 1;
            list.bytes -= (*header).layout.size();
            (*header).layout
        }
    }

    /// Frees an object.
    ///
    /// # Safety
    ///
    /// It is one of these, and used no longer.
    #[inline(never)]
    pub(crate) unsafe fn free<A: GlobalAlloc>(&self, object: NonNull<u8>, below: &Below<A>) {
        // SAFETY: as the caller promises; then nobody refers to it, and its memory is as it was made for its layout.
        unsafe {
            let layout = self.leave(object);
            if let Some((lead, whole)) = whole(layout) {
                below.dealloc(object.sub(lead), whole);
            }
        }
    }

    /// Makes an object one of `size`, the alignment kept, perhaps elsewhere. `None`: it stays as it was.
    ///
    /// # Safety
    ///
    /// It is one of these; where another address is returned, the former is used no longer.
    pub(crate) unsafe fn realloc<A: GlobalAlloc>(
        &self,
        object: NonNull<u8>,
        size: usize,
        below: &Below<A>,
    ) -> Option<NonNull<u8>> {
        // SAFETY: as the caller promises.
        let arena = unsafe { Self::arena(object) };
        // SAFETY: it is out of the list as long as it may move, and in again wherever it then is. Its memory is whole, of
        // its layout.
        unsafe {
            let layout = self.leave(object);
            let moved = Layout::from_size_align(size, layout.align()).ok().and_then(|new| {
                let ((lead, before), (_, after)) = (whole(layout)?, whole(new)?);
                Some((below.realloc(object.sub(lead), before, after.size())?.add(lead), new))
            });
            let (now, layout) = moved.unwrap_or((object, layout));
            self.enter(now, layout, arena);
            moved.map(|(object, _)| object)
        }
    }

    /// The layout of an object.
    ///
    /// # Safety
    ///
    /// It is one of these.
    pub(crate) unsafe fn layout(object: NonNull<u8>) -> Layout {
        let header = header(object);
        // SAFETY: a header is before each of them; these parts of it change only where the object is freed or moved, which
        // its owner does.
        unsafe {
            if (*header.as_ptr()).mark != MARK ^ object.addr().get() {
                corruption("size of what is no object");
            }
            (*header.as_ptr()).layout
        }
    }

    /// The number of an object's arena.
    ///
    /// # Safety
    ///
    /// It is one of these.
    pub(crate) unsafe fn arena(object: NonNull<u8>) -> usize {
        // SAFETY: as in `layout`.
        unsafe { (*header(object).as_ptr()).arena }
    }

    /// Objects, and their bytes.
    pub(crate) fn contents(&self) -> (usize, usize) {
        let _held = self.lock.lock();
        // SAFETY: the lock is held.
        let list = unsafe { &*self.list.get() };
        (list.objects, list.bytes)
    }

    /// Frees all.
    ///
    /// # Safety
    ///
    /// None of them is used any more.
    pub(crate) unsafe fn clear<A: GlobalAlloc>(&mut self, below: &Below<A>) {
        while let Some(first) = self.list.get_mut().first {
            // SAFETY: the object of a header in the list is behind it; the caller promises that nobody uses it.
            unsafe { self.free(first.add(1).cast(), below) };
        }
    }
}

fn header(object: NonNull<u8>) -> NonNull<Header> {
    // No dereference: `object` may be anything that somebody wants to free.
    NonNull::new(object.as_ptr().wrapping_sub(HEADER_BYTES)).unwrap_or(NonNull::dangling()).cast()
}
