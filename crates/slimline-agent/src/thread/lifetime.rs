//! When threads begin and end.
//!
//! Begin: through our `pthread_create`, or at the first allocation or trigger of a thread that was made in another way.
//! End: a thread-specific value's destructor, which the C library also runs for `pthread_exit` and cancellation.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

/// The key of the value; `NO_KEY` where there is none.
static KEY: AtomicU32 = AtomicU32::new(NO_KEY);
const NO_KEY: u32 = u32::MAX;

/// Makes the key. While there is one thread.
pub(crate) fn prepare() {
    let mut key = 0;
    // SAFETY: a destructor that may be called with any value.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(at_end)) } == 0 {
        KEY.store(key, Relaxed);
    }
}

/// Destructors of other keys may still allocate, and are called in rounds until no values are left: ours asks for
/// further rounds, to be among the last.
const ROUNDS: usize = 4;
/// The values of so many keys lie in the thread's own block: setting one is a store.
const INLINE_KEYS: u32 = 32;

/// Has [`super::end`] called when the calling thread ends.
pub(super) fn watch() {
    set(1);
}

fn set(round: usize) {
    let key = KEY.load(Relaxed);
    if key < INLINE_KEYS {
        // SAFETY: the value is never looked into.
        unsafe { libc::pthread_setspecific(key, core::ptr::without_provenance(round)) };
    }
}

unsafe extern "C" fn at_end(round: *mut core::ffi::c_void) {
    match round.addr() {
        round if round < ROUNDS => set(round + 1),
        _ => super::end(),
    }
}

#[cfg(feature = "preload")]
mod interpose {
    use core::arch::naked_asm;
    use core::ffi::{c_int, c_void};
    use core::ptr::NonNull;

    use crate::onward::onward;
    use crate::{kernel, recorder};

    type Routine = unsafe extern "C" fn(*mut c_void) -> *mut c_void;

    /// What a thread is to run, from its maker to itself; in registers on the way back.
    #[repr(C)]
    struct Start {
        routine: usize,
        argument: *mut c_void,
    }

    /// Runs in the new thread: tells of it, then *jumps* to its routine, so that the stack looks as it would without us
    /// and `pthread_exit` finds nothing of ours to unwind.
    #[unsafe(naked)]
    unsafe extern "C" fn run(start: *mut c_void) -> *mut c_void {
        naked_asm!(
            "sub rsp, 8",
            "call {begin}",
            "add rsp, 8",
            "mov rdi, rdx",
            "jmp rax",
            begin = sym begin,
        )
    }

    unsafe extern "C" fn begin(start: *mut Start) -> Start {
        // SAFETY: `make` filled a page of its own for us alone.
        let taken = unsafe { start.read() };
        // SAFETY: mapped by `make`; the content was taken.
        unsafe { kernel::unmap(start.cast(), size_of::<Start>()) };
        super::super::current();
        taken
    }

    /// Makes a thread with `create`, which gets the routine and its argument.
    fn make(
        routine: usize,
        argument: *mut c_void,
        create: impl FnOnce(Routine, *mut c_void) -> c_int,
    ) -> Option<c_int> {
        if recorder::is_sealed() {
            return None;
        }
        let start: NonNull<Start> = kernel::map(size_of::<Start>())?.cast();
        // SAFETY: fresh memory of ours, large enough.
        unsafe { start.write(Start { routine, argument }) };
        let result = create(run, start.as_ptr().cast());
        if result != 0 {
            // SAFETY: no thread came to take it.
            unsafe { kernel::unmap(start.as_ptr().cast(), size_of::<Start>()) };
        }
        Some(result)
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn pthread_create(
        thread: *mut libc::pthread_t,
        attributes: *const libc::pthread_attr_t,
        routine: usize,
        argument: *mut c_void,
    ) -> c_int {
        type Attributes = *const libc::pthread_attr_t;
        let create = onward!(c"pthread_create", fn(*mut libc::pthread_t, Attributes, usize, *mut c_void) -> c_int, or libc::EAGAIN);
        // SAFETY: the caller's arguments, or ours in the place of its routine's.
        make(routine, argument, |run, start| unsafe { create(thread, attributes, run as usize, start) })
            .unwrap_or_else(|| unsafe { create(thread, attributes, routine, argument) })
    }

    #[unsafe(no_mangle)]
    unsafe extern "C" fn thrd_create(thread: *mut c_void, routine: usize, argument: *mut c_void) -> c_int {
        /// `thrd_error`
        const FAILED: c_int = 2;
        let create = onward!(c"thrd_create", fn(*mut c_void, usize, *mut c_void) -> c_int, or FAILED);
        // SAFETY: as above.
        make(routine, argument, |run, start| unsafe { create(thread, run as usize, start) })
            .unwrap_or_else(|| unsafe { create(thread, routine, argument) })
    }
}
