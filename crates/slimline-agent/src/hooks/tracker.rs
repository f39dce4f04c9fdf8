//! What the allocation side keeps for each thread.
#![allow(unsafe_code)] // memory of its own for each thread

use super::{CODE_GENERATION, GENERATION};
use crate::context::{Cache, PATHS, StackArea};
use crate::ranges::Waiting;
use crate::recorder;
use crate::thread::{Inside, Thread};
use crate::unwind::Window;
use crate::{kernel, thread};
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// A thread's state; a little more than 1 MiB, touched as far as used. Its own thread's alone: whoever wants it must be inside the
/// agent ([`Thread::enter`]), so that no signal handler of this thread finds it in the middle of a change.
#[repr(C)]
pub(crate) struct Tracker {
    cache: Cache,
    /// For which `window` holds.
    generation: u32,
    /// For which `cache` holds.
    code_generation: u32,
    /// The thread's stack.
    pub(crate) window: Window,
    /// Events that found the ring full.
    pub(crate) waiting: Waiting,
}

/// The stack area of the process file.
struct SharedArea;

impl StackArea for SharedArea {
    fn append(&self, frames: &[u64], cut: u8) -> Option<u32> {
        let number = recorder::append_stack(frames, cut);
        (number != 0).then_some(number)
    }
}

/// Trackers of threads that ended, for those to come.
static SPARE: [AtomicPtr<Tracker>; 64] = [const { AtomicPtr::new(null_mut()) }; 64];
/// Trackers in use or spare.
static TRACKERS: AtomicU32 = AtomicU32::new(0);
/// If every entry of each was touched, 0.5 GiB. Blocks of threads beyond have no call paths.
const MAX_TRACKERS: u32 = 512;

fn take() -> Option<NonNull<Tracker>> {
    let spare = SPARE.iter().filter(|place| !place.load(Relaxed).is_null());
    if let Some(tracker) = spare.map(|place| place.swap(null_mut(), Acquire)).find_map(NonNull::new) {
        return Some(tracker);
    }
    if TRACKERS.fetch_add(1, Relaxed) < MAX_TRACKERS
        && let Some(memory) = kernel::map(size_of::<Tracker>())
    {
        let tracker = memory.cast::<Tracker>();
        // SAFETY: fresh zeroes, a page or more aligned, ours.
        unsafe { Cache::init(&raw mut (*tracker.as_ptr()).cache, &PATHS, &SharedArea) };
        return Some(tracker);
    }
    TRACKERS.fetch_sub(1, Relaxed);
    None
}

fn give_back(tracker: NonNull<Tracker>) {
    let filled =
        |place: &AtomicPtr<Tracker>| place.compare_exchange(null_mut(), tracker.as_ptr(), Release, Relaxed).is_ok();
    if !SPARE.iter().any(filled) {
        // SAFETY: the thread that used it has ended.
        unsafe { kernel::unmap(tracker.as_ptr().cast(), size_of::<Tracker>()) };
        TRACKERS.fetch_sub(1, Relaxed);
    }
}

/// In a forked child: no thread has a tracker. Those of the parent stay mapped and untouched, and take no memory.
///
/// # Safety
/// There must be one thread, and the fork must not have interrupted the agent.
pub(super) unsafe fn forget_all() {
    SPARE.iter().for_each(|place| place.store(null_mut(), Relaxed));
    TRACKERS.store(0, Relaxed);
    if let Some(thread) = thread::existing() {
        thread.contexts.set(null_mut());
    }
}

/// The calling thread ends: adds its counts to the process's and leaves its memory to a later thread. Before
/// [`thread::end`].
pub(crate) fn end_thread(thread: &Thread) {
    let Some(_inside) = thread.enter() else { return };
    thread.counts.tell(thread);
    let Some(mut tracker) = NonNull::new(thread.contexts.replace(null_mut()).cast::<Tracker>()) else { return };
    // SAFETY: the thread's own, and no longer to be found.
    let state = unsafe { tracker.as_mut() };
    state.waiting.flush(thread);
    state.waiting.give_up(thread);
    state.generation = 0;
    give_back(tracker);
}

/// Has the thread confirm anew what it may read of its stack, before it reads it again. The caller is inside the agent.
pub(crate) fn distrust_stack(inside: &mut Inside<'_>) {
    if let Some(tracker) = existing(inside) {
        tracker.generation = 0;
    }
}

/// Adds what the calling thread counted since the last time to the process's counts, and tells what waits to be told.
pub(crate) fn flush() {
    let Some(thread) = thread::current() else { return };
    let Some(mut inside) = thread.enter() else { return };
    if !recorder::is_open() {
        super::stop();
    }
    thread.counts.tell(thread);
    if let Some(tracker) = existing(&mut inside) {
        tracker.waiting.flush(thread);
    }
}

/// The thread's tracker, if it has one.
#[inline]
fn existing<'a>(inside: &'a mut Inside<'_>) -> Option<&'a mut Tracker> {
    // SAFETY: null, or mapped for this thread alone until its end. There is one `Inside` a thread, and it is borrowed.
    unsafe { inside.thread().contexts.get().cast::<Tracker>().as_mut() }
}

/// The thread's tracker, if it has one and nothing has changed since it was used.
#[inline(always)]
pub(super) fn up_to_date<'a>(inside: &'a mut Inside<'_>) -> Option<&'a mut Tracker> {
    existing(inside).filter(|tracker| tracker.generation == GENERATION.load(Acquire))
}

/// The thread's tracker, brought up to date; None where there can be none.
pub(crate) fn of<'a>(inside: &'a mut Inside<'_>) -> Option<&'a mut Tracker> {
    if up_to_date(inside).is_none() {
        refresh(inside, GENERATION.load(Acquire))?;
    }
    existing(inside)
}

#[cold]
fn refresh(inside: &mut Inside<'_>, generation: u32) -> Option<()> {
    let thread = inside.thread();
    if thread.contexts.get().is_null() {
        // A child that was forked behind our back has a thread without a ring: it must not write to its parent's file.
        if !thread.is_recorded() {
            return None;
        }
        thread.contexts.set(take()?.as_ptr().cast());
    }
    let tracker = existing(inside)?;
    tracker.generation = generation;
    tracker.window.close();
    let code_generation = CODE_GENERATION.load(Acquire);
    if tracker.code_generation != code_generation {
        tracker.code_generation = code_generation;
        tracker.cache.forget();
    }
    Some(())
}

impl Tracker {
    /// Number of the call path of the function that was entered with these registers, if it is known.
    ///
    /// # Safety
    /// `sp` must be the stack pointer at the entry of a function that the calling thread is in.
    #[inline(always)]
    pub(super) unsafe fn known_path(&mut self, sp: u64, bp: u64) -> Option<u32> {
        // SAFETY: promised by the caller.
        unsafe { self.cache.known(sp, bp, &self.window) }
    }

    /// Number of the call path of the function that was entered with these registers; 0 if it has none.
    pub(crate) fn call_path(&mut self, sp: u64, bp: u64) -> u32 {
        self.cache.number(sp, bp, &mut self.window)
    }
}
