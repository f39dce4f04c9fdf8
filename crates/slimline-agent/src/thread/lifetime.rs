//! When threads begin and end.
//!
//! Begin: through our `pthread_create`, or at the first allocation or trigger of a thread that was made in another way.
//! End: a thread-specific value's destructor, which the C library also runs for `pthread_exit` and cancellation.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use crate::confine::Busy;
use crate::signals::alternate;

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
        _ => {
            super::end();
            if let Some(_busy) = Busy::begin() {
                alternate::unmap();
            }
        }
    }
}

#[cfg(feature = "preload")]
mod interpose {
    use core::arch::naked_asm;
    use core::cell::UnsafeCell;
    use core::ffi::{c_int, c_void};
    use core::ptr::{from_ref, null_mut};
    use core::sync::atomic::AtomicBool;
    use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

    use crate::onward::onward;
    use crate::recorder;

    type Routine = unsafe extern "C" fn(*mut c_void) -> *mut c_void;

    /// What a thread is to run, from its maker to itself; in registers on the way back.
    #[repr(C)]
    struct Start {
        routine: usize,
        argument: *mut c_void,
    }

    /// From its maker to a new thread. Not memory that is mapped for it: the new thread may begin behind a filter that
    /// allows no system call.
    struct Place {
        is_taken: AtomicBool,
        start: UnsafeCell<Start>,
    }

    // SAFETY: only the thread that has taken the place uses `start`, and then the new thread that gets it.
    unsafe impl Sync for Place {}

    /// As many threads as may be about to begin at a time; others begin at their first allocation or trigger.
    const PLACES: usize = 256;
    static STARTS: [Place; PLACES] = [const {
        Place { is_taken: AtomicBool::new(false), start: UnsafeCell::new(Start { routine: 0, argument: null_mut() }) }
    }; PLACES];

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

    unsafe extern "C" fn begin(place: &Place) -> Start {
        // SAFETY: `make` filled it for us alone.
        let start = unsafe { place.start.get().read() };
        place.is_taken.store(false, Release);
        super::super::current();
        start
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
        let take = |place: &&Place| place.is_taken.compare_exchange(false, true, Acquire, Relaxed).is_ok();
        let place = STARTS.iter().find(take)?;
        // SAFETY: taken.
        unsafe { place.start.get().write(Start { routine, argument }) };
        let result = create(run, from_ref(place).cast_mut().cast());
        if result != 0 {
            // No thread came for it.
            place.is_taken.store(false, Release);
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
