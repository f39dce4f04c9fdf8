//! The memory that sampling a thread needs: a stack for the handler, and what it keeps between samples.

use core::ptr::NonNull;

use crate::burst::Sampler;
use crate::kernel;

const GUARD_BYTES: usize = 4096;
/// The deepest path takes 20 KiB, most of it the emulator's state and a page of unwinding.
const STACK_BYTES: usize = 64 << 10;

/// ```text
///   guard │ stack ◄── │ Work
/// ```
#[repr(C, align(4096))]
pub(crate) struct Work {
    pub(crate) sampler: Sampler,
}

const MAPPED_BYTES: usize = GUARD_BYTES + STACK_BYTES + size_of::<Work>();

impl Work {
    /// Maps a fresh one.
    pub(super) fn new() -> Option<NonNull<Self>> {
        let start = kernel::map_beyond_share(MAPPED_BYTES)?;
        // SAFETY: our own mapping; its lowest page stays unused. A child has its own, or none.
        unsafe {
            kernel::keep_from_children(start.as_ptr(), MAPPED_BYTES);
            kernel::guard(start.as_ptr());
            Some(start.byte_add(GUARD_BYTES + STACK_BYTES).cast())
        }
    }

    /// Gives it back.
    ///
    /// # Safety
    /// From [`Self::new`]; nothing may use it, or run on its stack, any more.
    pub(super) unsafe fn unmap(work: NonNull<Self>) {
        // SAFETY: promised by the caller; `new` mapped from here on.
        unsafe { kernel::unmap(work.as_ptr().byte_sub(GUARD_BYTES + STACK_BYTES).cast(), MAPPED_BYTES) };
    }

    /// Where its stack begins: the highest address, 16-aligned.
    pub(crate) fn stack_top(work: NonNull<Self>) -> usize {
        work.as_ptr().addr()
    }
}
