//! Objects of one type, with owners that free them.
#![allow(unsafe_code)] // an owner is a pointer

use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use crate::{Context, Error};

/// Allocates values of one type in a context, which others may share.
///
/// ```
/// use slimline_tidy::{Context, Pool};
///
/// let context = Context::new(&[64])?;
/// let names = Pool::new(&context);
/// let mut name = names.alloc(String::from("Fiedler"), &[7])?;
/// name.push_str(", M.");
/// assert_eq!(*name, "Fiedler, M.");
/// drop(name);
/// assert_eq!(context.statistics().objects, 0);
/// # Ok::<(), slimline_tidy::Error>(())
/// ```
pub struct Pool<'c, T, A: GlobalAlloc = System> {
    context: &'c Context<A>,
    values: PhantomData<fn(T) -> T>,
}

impl<'c, T, A: GlobalAlloc> Pool<'c, T, A> {
    /// One in that context.
    pub fn new(context: &'c Context<A>) -> Self {
        Self { context, values: PhantomData }
    }

    /// The context.
    pub fn context(&self) -> &'c Context<A> {
        self.context
    }

    /// Puts a value where the hint says.
    ///
    /// # Errors
    ///
    /// A hint of more or fewer values than there are dimensions; no memory. The value is dropped.
    pub fn alloc(&self, value: T, hint: &[usize]) -> Result<Box<'c, T, A>, Error> {
        let pointer: NonNull<T> = self.context.alloc(Layout::new::<T>(), hint)?.cast();
        // SAFETY: it was just allocated for one `T`, and nobody else has it.
        unsafe { pointer.write(value) };
        Ok(Box { pointer, context: self.context, value: PhantomData })
    }

    /// The owner that [`Box::into_raw`] gave up.
    ///
    /// # Safety
    ///
    /// The pointer came from there, of the same context and type, and nobody else has made an owner of it or uses it.
    pub unsafe fn from_raw(&self, pointer: NonNull<T>) -> Box<'c, T, A> {
        Box { pointer, context: self.context, value: PhantomData }
    }
}

impl<T, A: GlobalAlloc> Clone for Pool<'_, T, A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, A: GlobalAlloc> Copy for Pool<'_, T, A> {}

impl<T, A: GlobalAlloc> fmt::Debug for Pool<'_, T, A> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Pool").field(&self.context).finish()
    }
}

/// Owns a value in a context: two words, the value and where it is freed. Structures that hold many links and need them
/// short have [`leak`](Self::leak) and [`into_raw`](Self::into_raw).
pub struct Box<'c, T, A: GlobalAlloc = System> {
    pointer: NonNull<T>,
    context: &'c Context<A>,
    value: PhantomData<T>,
}

// SAFETY: it owns its value, as std's `Box` does, and a context may be used by any thread that may have a reference to it.
unsafe impl<T: Send, A: GlobalAlloc + Sync> Send for Box<'_, T, A> {}
// SAFETY: of a shared owner only a shared value can be had.
unsafe impl<T: Sync, A: GlobalAlloc + Sync> Sync for Box<'_, T, A> {}

impl<'c, T, A: GlobalAlloc> Box<'c, T, A> {
    /// The value itself; its memory is freed.
    pub fn into_inner(self) -> T {
        let (pointer, context) = (self.pointer, self.context);
        let _ = ManuallyDrop::new(self);
        // SAFETY: the value is moved out once, as the owner is no more, and the memory came from this context.
        unsafe {
            let value = pointer.read();
            context.free(pointer.cast());
            value
        }
    }

    /// The value for as long as the context is there. Its memory goes with the context; the value is never dropped.
    pub fn leak(self) -> &'c mut T
    where
        A: 'c,
    {
        // SAFETY: nobody else has the value, and its memory is there as long as the context is.
        unsafe { Self::into_raw(self).as_mut() }
    }

    /// A pointer to the value, which nobody owns then.
    pub fn into_raw(self) -> NonNull<T> {
        ManuallyDrop::new(self).pointer
    }
}

impl<T, A: GlobalAlloc> Deref for Box<'_, T, A> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the owner's value is there as long as the owner.
        unsafe { self.pointer.as_ref() }
    }
}

impl<T, A: GlobalAlloc> DerefMut for Box<'_, T, A> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as in `deref`, and the owner is borrowed mutably.
        unsafe { self.pointer.as_mut() }
    }
}

impl<T, A: GlobalAlloc> Drop for Box<'_, T, A> {
    fn drop(&mut self) {
        /// Frees the memory even where the value's own `drop` panics.
        struct Free<'c, A: GlobalAlloc>(NonNull<u8>, &'c Context<A>);
        impl<A: GlobalAlloc> Drop for Free<'_, A> {
            fn drop(&mut self) {
                // SAFETY: it came from this context, and its value is dropped.
                unsafe { self.1.free(self.0) };
            }
        }
        let _free = Free(self.pointer.cast(), self.context);
        // SAFETY: the value is dropped once, with its owner.
        unsafe { self.pointer.drop_in_place() };
    }
}

impl<T: fmt::Debug, A: GlobalAlloc> fmt::Debug for Box<'_, T, A> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(formatter)
    }
}

impl<T: fmt::Display, A: GlobalAlloc> fmt::Display for Box<'_, T, A> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(formatter)
    }
}

impl<T: PartialEq, A: GlobalAlloc> PartialEq for Box<'_, T, A> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl<T: Eq, A: GlobalAlloc> Eq for Box<'_, T, A> {}
