//! The system's allocator, which counts what is held of it and refuses more than a limit.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Debug)]
pub(crate) struct Counted {
    pub(crate) held_bytes: AtomicUsize,
    pub(crate) limit_bytes: AtomicUsize,
}

impl Counted {
    pub(crate) fn new() -> Self {
        Self { held_bytes: AtomicUsize::new(0), limit_bytes: AtomicUsize::new(usize::MAX) }
    }

    pub(crate) fn held(&self) -> usize {
        self.held_bytes.load(Ordering::Relaxed)
    }
}

// SAFETY: the system's allocator does it all.
unsafe impl GlobalAlloc for &Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if self.held() + layout.size() > self.limit_bytes.load(Ordering::Relaxed) {
            return null_mut();
        }
        self.held_bytes.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        self.held_bytes.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(memory, layout) }
    }
}
