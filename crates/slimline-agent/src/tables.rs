//! Memory for what is built once when the agent starts: the decoder's tables. Whatever else needs memory maps it.
#![allow(unsafe_code)] // GlobalAlloc

use core::alloc::{GlobalAlloc, Layout};
use core::ptr::null_mut;
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

use crate::kernel;

/// What may be asked for in all. The decoder's tables take 100 KiB.
const AREA_BYTES: usize = 1 << 20;

/// Never gives anything back.
struct Tables {
    /// 0 before the first use.
    start: AtomicUsize,
    used: AtomicUsize,
}

#[cfg_attr(all(feature = "preload", not(test)), global_allocator)]
static TABLES: Tables = Tables { start: AtomicUsize::new(0), used: AtomicUsize::new(0) };

/// Maps the memory; false where there is none. Later there may be none left.
pub(crate) fn prepare() -> bool {
    TABLES.area().is_some()
}

impl Tables {
    fn area(&self) -> Option<usize> {
        if self.start.load(Relaxed) == 0 {
            let area = kernel::map(AREA_BYTES)?;
            if self.start.compare_exchange(0, area.as_ptr().expose_provenance(), Relaxed, Relaxed).is_err() {
                // SAFETY: nobody has seen it.
                unsafe { kernel::unmap(area.as_ptr(), AREA_BYTES) };
            }
        }
        Some(self.start.load(Relaxed))
    }
}

// SAFETY: each block is carved off once.
unsafe impl GlobalAlloc for Tables {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let Some(start) = self.area() else { return null_mut() };
        let carved = self.used.fetch_update(Relaxed, Relaxed, |used| {
            let end = used.checked_next_multiple_of(layout.align())?.checked_add(layout.size())?;
            (end <= AREA_BYTES).then_some(end)
        });
        match carved {
            Ok(used) => core::ptr::with_exposed_provenance_mut(start + used.next_multiple_of(layout.align())),
            Err(_) => null_mut(),
        }
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}
