//! A context and one hint: an allocator as collections take it.

use std::alloc::{GlobalAlloc, System};
use std::fmt;

use crate::{Context, Error};

/// Allocates in the arena of one hint. With the feature `allocator-api2` it is an `Allocator`, for collections of
/// `allocator_api2`, `hashbrown` and others that take one.
pub struct Hinted<'c, A: GlobalAlloc = System> {
    context: &'c Context<A>,
    arena: usize,
}

impl<A: GlobalAlloc> Context<A> {
    /// An allocator in the arena of that hint.
    ///
    /// # Errors
    ///
    /// A hint of more or fewer values than there are dimensions.
    pub fn hinted(&self, hint: &[usize]) -> Result<Hinted<'_, A>, Error> {
        Ok(Hinted { context: self, arena: self.arena(hint)? })
    }
}

impl<'c, A: GlobalAlloc> Hinted<'c, A> {
    /// The context.
    pub fn context(&self) -> &'c Context<A> {
        self.context
    }

    /// The number of its arena.
    pub fn arena(&self) -> usize {
        self.arena
    }
}

impl<A: GlobalAlloc> Clone for Hinted<'_, A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A: GlobalAlloc> Copy for Hinted<'_, A> {}

impl<A: GlobalAlloc> fmt::Debug for Hinted<'_, A> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Hinted").field("context", &self.context).field("arena", &self.arena).finish()
    }
}

#[cfg(feature = "allocator-api2")]
mod allocator {
    #![allow(unsafe_code)] // an unsafe trait

    use std::alloc::{GlobalAlloc, Layout};
    use std::ptr::NonNull;

    use allocator_api2::alloc::{AllocError, Allocator};

    use super::Hinted;

    // SAFETY: memory of a context stays valid where it is until it is freed or the context is dropped, which the handle
    // borrows; a copy of the handle frees what another one allocated.
    unsafe impl<A: GlobalAlloc> Allocator for Hinted<'_, A> {
        fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
            sized(layout, |layout| self.context.alloc_in(layout, self.arena))
        }

        fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
            sized(layout, |layout| self.context.alloc_zeroed_in(layout, self.arena))
        }

        unsafe fn deallocate(&self, memory: NonNull<u8>, layout: Layout) {
            if layout.size() != 0 {
                // SAFETY: memory of a size that is not 0 came from the context; the caller promises the rest.
                unsafe { self.context.free(memory) };
            }
        }

        unsafe fn grow(&self, memory: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
            // SAFETY: as the caller promises.
            unsafe { self.resize(memory, old, new) }
        }

        unsafe fn grow_zeroed(
            &self,
            memory: NonNull<u8>,
            old: Layout,
            new: Layout,
        ) -> Result<NonNull<[u8]>, AllocError> {
            // SAFETY: as the caller promises; what is behind the old size is within the new one.
            unsafe {
                let grown = self.resize(memory, old, new)?;
                grown.cast::<u8>().add(old.size()).write_bytes(0, new.size() - old.size());
                Ok(grown)
            }
        }

        unsafe fn shrink(&self, memory: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
            // SAFETY: as the caller promises.
            unsafe { self.resize(memory, old, new) }
        }
    }

    impl<A: GlobalAlloc> Hinted<'_, A> {
        /// # Safety
        ///
        /// `memory` is of `old`, of this allocator.
        unsafe fn resize(&self, memory: NonNull<u8>, old: Layout, new: Layout) -> Result<NonNull<[u8]>, AllocError> {
            // In place only where it already is aligned as the new one must be.
            if old.size() != 0 && new.size() != 0 && new.align() <= old.align() {
                // SAFETY: as the caller promises; the alignment is no more than the object's.
                let moved = unsafe { self.context.realloc_to(memory, old.align(), new.size(), Some(self.arena)) };
                return sized(new, |_| moved);
            }
            let moved = self.allocate(new)?;
            // SAFETY: both are valid for as many bytes, and are two; the former is freed once.
            unsafe {
                moved.cast::<u8>().copy_from_nonoverlapping(memory, old.size().min(new.size()));
                self.deallocate(memory, old);
            }
            Ok(moved)
        }
    }

    /// Nothing is allocated for a size of 0.
    fn sized(layout: Layout, alloc: impl FnOnce(Layout) -> Option<NonNull<u8>>) -> Result<NonNull<[u8]>, AllocError> {
        let memory = if layout.size() == 0 {
            NonNull::without_provenance(std::num::NonZero::new(layout.align()).ok_or(AllocError)?)
        } else {
            alloc(layout).ok_or(AllocError)?
        };
        Ok(NonNull::slice_from_raw_parts(memory, layout.size()))
    }
}
