//! The allocator below, and how much memory is held of it.
#![allow(unsafe_code)] // calls an allocator

use std::alloc::{GlobalAlloc, Layout};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::biased::within;

/// Counts what it is asked for.
#[derive(Debug)]
pub(crate) struct Below<A> {
    allocator: A,
    held_bytes: AtomicUsize,
}

impl<A: GlobalAlloc> Below<A> {
    pub(crate) fn new(allocator: A) -> Self {
        Self { allocator, held_bytes: AtomicUsize::new(0) }
    }

    pub(crate) fn held_bytes(&self) -> usize {
        self.held_bytes.load(Ordering::Relaxed)
    }

    /// Memory of that layout, whose size is not 0.
    pub(crate) fn alloc(&self, layout: Layout) -> Option<NonNull<u8>> {
        assert_ne!(layout.size(), 0);
        // SAFETY: the size is not 0, as was just asserted; nothing else is asked of the caller.
        let memory = within(|| unsafe { self.allocator.alloc(layout) });
        self.count(layout, memory)
    }

    /// The same, of zero bytes.
    pub(crate) fn alloc_zeroed(&self, layout: Layout) -> Option<NonNull<u8>> {
        assert_ne!(layout.size(), 0);
        // SAFETY: as in `alloc`.
        let memory = within(|| unsafe { self.allocator.alloc_zeroed(layout) });
        self.count(layout, memory)
    }

    fn count(&self, layout: Layout, memory: *mut u8) -> Option<NonNull<u8>> {
        let memory = NonNull::new(memory)?;
        self.held_bytes.fetch_add(layout.size(), Ordering::Relaxed);
        Some(memory)
    }

    /// Gives memory back.
    ///
    /// # Safety
    ///
    /// It came from this allocator with this layout, and is used no longer.
    pub(crate) unsafe fn dealloc(&self, memory: NonNull<u8>, layout: Layout) {
        // SAFETY: that is what the caller promises.
        within(|| unsafe { self.allocator.dealloc(memory.as_ptr(), layout) });
        self.held_bytes.fetch_sub(layout.size(), Ordering::Relaxed);
    }

    /// Memory of another size with the same contents. `None`: it stays as it was.
    ///
    /// # Safety
    ///
    /// It came from this allocator with this layout; `size`, rounded up to the alignment, is not 0 and no more than
    /// `isize::MAX`. Where another address is returned, the former is used no longer.
    pub(crate) unsafe fn realloc(&self, memory: NonNull<u8>, layout: Layout, size: usize) -> Option<NonNull<u8>> {
        // SAFETY: that is what the caller promises.
        let moved = NonNull::new(within(|| unsafe { self.allocator.realloc(memory.as_ptr(), layout, size) }))?;
        self.held_bytes.fetch_add(size, Ordering::Relaxed);
        self.held_bytes.fetch_sub(layout.size(), Ordering::Relaxed);
        Some(moved)
    }
}
