//! What the agent knows of each thread.
//!
//! One [`Thread`] in memory of its own, found through a thread-local pointer in the static TLS block (`.tdata`, initial
//! exec): two instructions, safe in a signal handler and before `main`, where `__tls_get_addr` might allocate. Beside the
//! pointer are the words in which allocation functions count ([`crate::hooks`]), so that those need not follow it.
//!
//! The memory is wiped in forked children, whichever way they were forked: a wiped thread is one without a ring, so
//! a child that we do not know of writes nothing into its parent's file.
#![allow(unsafe_code)] // thread-local storage by hand, memory shared with signal handlers

mod area;
mod lifetime;
mod storage;
mod work;

use core::arch::{asm, global_asm};
use core::cell::{Cell, UnsafeCell};
use core::mem::MaybeUninit;
use core::ptr::{NonNull, with_exposed_provenance_mut, without_provenance_mut};
use slimline_trace::wire::{MessageKind, ThreadEvent};

use crate::alignment::Unchecked;
use crate::confine::Busy;
use crate::hooks::{self, Counts};
use crate::recorder::{self, Ring, bytes_of};
use crate::signals::alternate;
use crate::{kernel, segments, trigger};
pub(crate) use area::is_ours as has_our_area;
pub(crate) use work::Work;

/// Before the first thread is made. Not async-signal-safe.
pub(crate) fn prepare() {
    segments::prepare();
    lifetime::prepare();
    storage::prepare();
}

global_asm!(
    ".section .tdata.slimline_thread,\"awT\",@progbits",
    ".balign 8",
    // Unit tests are compiled in several parts.
    ".globl slimline_thread",
    ".hidden slimline_thread",
    ".type slimline_thread,@object",
    ".size slimline_thread,64",
    "slimline_thread:",
    ".zero 56",
    ".quad {cookie}",
    ".text",
    cookie = const COOKIE,
);

/// In each thread-local area with our words, see [`area`].
const COOKIE: u64 = u64::from_le_bytes(*b"slimarea");

/// In place of the pointer: this thread ended, or is not to be recorded.
const GONE: *mut Thread = without_provenance_mut(1);

/// Where each word is, behind `slimline_thread`.
const POINTER_OFFSET: usize = 0;
pub(crate) const ROUND_OFFSET: usize = 8;
pub(crate) const BYTES_OFFSET: usize = 16;
const REGION_OFFSET: usize = 24;
const INSIDE_OFFSET: usize = 32;
const ALTERNATE_OFFSET: usize = 40;
const BUSY_OFFSET: usize = 48;
const COOKIE_OFFSET: usize = 56;

/// How far behind the thread pointer `slimline_thread` is: a negative number.
fn first_word_offset() -> u64 {
    let offset;
    // SAFETY: reads what the dynamic linker wrote; the offset of a preloaded library is fixed when the process starts.
    unsafe {
        asm!("mov {0}, qword ptr [rip + slimline_thread@GOTTPOFF]", out(reg) offset,
            options(nostack, readonly, preserves_flags));
    }
    offset
}

/// One of the calling thread's words.
#[inline(always)]
fn word<const OFFSET: usize>() -> u64 {
    let word;
    // SAFETY: reads our own thread-local word; the offset of a preloaded library is fixed when the process starts.
    unsafe {
        asm!("mov {0}, qword ptr [rip + slimline_thread@GOTTPOFF]", "mov {0}, qword ptr fs:[{0} + {1}]", out(reg) word,
            const OFFSET, options(nostack, readonly, preserves_flags));
    }
    word
}

#[inline(always)]
fn set_word<const OFFSET: usize>(word: u64) {
    // SAFETY: writes our own thread-local word.
    unsafe {
        asm!("mov {0}, qword ptr [rip + slimline_thread@GOTTPOFF]", "mov qword ptr fs:[{0} + {1}], {2}", out(reg) _,
            const OFFSET, in(reg) word, options(nostack, preserves_flags));
    }
}

#[inline(always)]
fn pointer() -> *mut Thread {
    with_exposed_provenance_mut(word::<POINTER_OFFSET>() as usize)
}

fn set_pointer(thread: *mut Thread) {
    set_word::<POINTER_OFFSET>(thread.expose_provenance() as u64);
}

/// How many allocations of the calling thread's round come before the one that is followed; 0 also where none was begun.
/// [`Counts`] says how it is used.
#[inline(always)]
pub(crate) fn round() -> u64 {
    word::<ROUND_OFFSET>()
}

/// Changes it.
#[inline(always)]
pub(crate) fn set_round(round: u64) {
    set_word::<ROUND_OFFSET>(round);
}

/// Bytes that the calling thread allocated since they were last added to its process's.
#[inline(always)]
pub(crate) fn allocated_bytes() -> u64 {
    word::<BYTES_OFFSET>()
}

/// Changes it.
#[inline(always)]
pub(crate) fn set_allocated_bytes(bytes: u64) {
    set_word::<BYTES_OFFSET>(bytes);
}

/// Whether the calling thread is inside the agent. Not part of [`Thread`], which a forked child finds wiped.
#[inline(always)]
pub(crate) fn is_inside() -> bool {
    word::<INSIDE_OFFSET>() != 0
}

/// How many [`Busy`] the calling thread has.
#[inline(always)]
pub(crate) fn busy() -> u64 {
    word::<BUSY_OFFSET>()
}

/// Changes it.
#[inline(always)]
pub(crate) fn set_busy(count: u64) {
    set_word::<BUSY_OFFSET>(count);
}

/// Where the signal stack begins that the agent has given the calling thread; 0 for none.
pub(crate) fn alternate_stack() -> usize {
    word::<ALTERNATE_OFFSET>() as usize
}

/// Changes it.
pub(crate) fn set_alternate_stack(start: usize) {
    set_word::<ALTERNATE_OFFSET>(start as u64);
}

/// The path of regions that the calling thread is on, as the library says that tells them; 0 where there is none.
pub(crate) fn region() -> u32 {
    word::<REGION_OFFSET>() as u32
}

/// The calling thread goes on along that path. Called by the library that times regions, which looks for it by its name.
#[cfg(feature = "preload")]
#[unsafe(no_mangle)]
extern "C" fn __slimline_sampled_region(path: u32) {
    set_word::<REGION_OFFSET>(path.into());
}

/// A thread's state. Its own thread's alone, and the signal handlers' that interrupt it: hence the cells.
pub(crate) struct Thread {
    /// Valid where `has_ring`.
    ring: UnsafeCell<MaybeUninit<Ring>>,
    has_ring: Cell<bool>,
    /// Kernel's number.
    pub(crate) tid: Cell<u32>,
    /// What it allocated and freed.
    pub(crate) counts: Counts,
    /// The allocation side's cache of call paths: whatever it puts there. Null at first; to be given back by
    /// [`hooks::end_thread`].
    pub(crate) contexts: Cell<*mut u8>,
    /// One more than the place of the thread's timer among all, see [`trigger`]; 0 for none.
    pub(crate) timer: Cell<usize>,
    /// Where the handler comes back to from its own stack; 0 while it is not on it.
    pub(crate) way_out: Cell<usize>,
    /// The collector has mappings of a time when the thread ran, and so its stack.
    pub(crate) is_mapped: Cell<bool>,
    /// What sampling needs, made at the first trigger; null before.
    work: Cell<*mut Work>,
}

/// While it lives, the thread is inside the agent: triggers are counted instead of sampled, and hooks pass through.
pub(crate) struct Inside<'a> {
    thread: &'a Thread,
    _busy: Busy,
    _unchecked: Unchecked,
}

impl<'a> Inside<'a> {
    /// The thread that is inside.
    #[inline]
    pub(crate) fn thread(&self) -> &'a Thread {
        self.thread
    }
}

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
        set_word::<INSIDE_OFFSET>(0);
    }
}

impl Thread {
    /// Enters the agent; None where the thread is inside already, or the process is confined.
    #[inline]
    pub(crate) fn enter(&self) -> Option<Inside<'_>> {
        if is_inside() {
            return None;
        }
        let _busy = Busy::begin()?;
        set_word::<INSIDE_OFFSET>(1);
        core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
        Some(Inside { thread: self, _busy, _unchecked: Unchecked::begin() })
    }

    /// Whether the thread has a ring: not in a forked child that we were not told of, nor beyond the last slot.
    #[inline]
    pub(crate) fn is_recorded(&self) -> bool {
        self.has_ring.get()
    }

    fn ring(&self) -> Option<&Ring> {
        // SAFETY: `has_ring` says that it is there; it is changed only while the thread begins and ends.
        self.has_ring.get().then(|| unsafe { (*self.ring.get()).assume_init_ref() })
    }

    /// Writes a message; false where it was dropped (and counted). Only inside the agent.
    pub(crate) fn write(&self, kind: MessageKind, parts: &[&[u8]]) -> bool {
        recorder::is_open() && self.ring().is_some_and(|ring| ring.write(kind, parts))
    }

    /// As [`Self::write`], but counts nothing: for who comes again.
    pub(crate) fn try_write(&self, kind: MessageKind, parts: &[&[u8]]) -> bool {
        recorder::is_open() && self.ring().is_some_and(|ring| ring.try_write(kind, parts))
    }

    /// Counts a message that will not be written.
    pub(crate) fn count_dropped(&self) {
        if let Some(ring) = self.ring() {
            ring.count_dropped();
        }
    }

    /// Writes a sample, or counts it and its weight as dropped.
    pub(crate) fn write_sample(&self, weight_ns: u64, parts: &[&[u8]]) {
        let Some(ring) = self.ring().filter(|_| recorder::is_open()) else { return };
        if !ring.write(MessageKind::Sample, parts) {
            ring.count_dropped_sample(weight_ns);
        }
    }

    /// What sampling the thread needs; None where there is no memory for it. Only inside the agent.
    pub(crate) fn work(&self) -> Option<NonNull<Work>> {
        if self.work.get().is_null() {
            self.work.set(Work::new()?.as_ptr());
        }
        NonNull::new(self.work.get())
    }

    fn tell(&self, ended: u32) {
        let event = ThreadEvent {
            time_ns: recorder::now_ns(),
            cpu_ns: kernel::clock_ns(libc::CLOCK_THREAD_CPUTIME_ID),
            tid: self.tid.get(),
            ended,
            name: kernel::thread_name(),
        };
        self.write(MessageKind::Thread, &[bytes_of(&[event])]);
    }
}

/// The calling thread, if it was made already.
#[inline(always)]
pub(crate) fn existing() -> Option<&'static Thread> {
    let thread = pointer();
    // SAFETY: as in [`current`].
    (thread.addr() > GONE.addr()).then(|| unsafe { &*thread })
}

/// The calling thread, made on first use. None where nothing is recorded, or the thread has ended.
#[inline]
pub(crate) fn current() -> Option<&'static Thread> {
    let thread = pointer();
    if thread.addr() <= GONE.addr() {
        return if thread.is_null() { begin() } else { None };
    }
    // SAFETY: made by `begin`, and alive until `end` sets the pointer to `GONE`.
    Some(unsafe { &*thread })
}

/// Makes the calling thread's state and tells of its begin. Safe in a signal handler.
#[cold]
pub(crate) fn begin() -> Option<&'static Thread> {
    let _busy = Busy::begin()?;
    if recorder::is_sealed() {
        return None;
    }
    // Until the state stands, a handler that comes in between must not make a second one.
    set_pointer(GONE);
    let Some(memory) = kernel::map(size_of::<Thread>()) else {
        set_pointer(core::ptr::null_mut());
        return None;
    };
    // SAFETY: just mapped, and private.
    unsafe { kernel::wipe_on_fork(memory.as_ptr(), size_of::<Thread>()) };
    let thread: NonNull<Thread> = memory.cast();
    // SAFETY: fresh zeros are a valid `Thread` without a ring.
    let thread = unsafe { thread.as_ref() };
    thread.tid.set(kernel::thread_id());
    set_word::<INSIDE_OFFSET>(1);
    set_pointer(core::ptr::from_ref(thread).cast_mut());
    if let Some(ring) = recorder::take_ring(thread.tid.get()) {
        // SAFETY: `inside` keeps handlers of this thread away.
        unsafe { (*thread.ring.get()).write(ring) };
        thread.has_ring.set(true);
    }
    thread.tell(0);
    storage::tell_begin(thread);
    lifetime::watch();
    alternate::set();
    trigger::start_thread(thread);
    set_word::<INSIDE_OFFSET>(0);
    Some(thread)
}

/// Tells of the calling thread's end and gives its ring to the collector. After it the thread is not recorded.
pub(crate) fn end() {
    let thread = pointer();
    let busy = Busy::begin();
    if thread.addr() <= GONE.addr() || busy.is_none() {
        set_pointer(GONE);
        return;
    }
    // SAFETY: made by `begin`; from the pointer's end on nobody comes here again.
    let state = unsafe { &*thread };
    hooks::end_thread(state);
    set_pointer(GONE);
    set_round(0);
    trigger::stop_thread(state);
    storage::tell_end(state);
    state.tell(1);
    if state.has_ring.take() {
        // SAFETY: `has_ring` said that it is there, and won't again.
        recorder::release_ring(unsafe { (*state.ring.get()).assume_init_read() });
    }
    if let Some(work) = NonNull::new(state.work.get()) {
        // SAFETY: the thread's own, which nobody finds any more.
        unsafe { Work::unmap(work) };
    }
    // SAFETY: mapped by `begin` in this size; the last use was above.
    unsafe { kernel::unmap(thread.cast(), size_of::<Thread>()) };
}

/// In a forked child: the calling thread begins anew. Its state was wiped, and what it led to was not inherited.
pub(crate) fn forget() {
    let thread = pointer();
    set_pointer(core::ptr::null_mut());
    set_round(0);
    set_allocated_bytes(0);
    if thread.addr() > GONE.addr() {
        // SAFETY: mapped by `begin` in this size; nobody finds it any more.
        unsafe { kernel::unmap(thread.cast(), size_of::<Thread>()) };
    }
}
