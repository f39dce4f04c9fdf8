//! Address ranges that come and go: large blocks, and mappings that the program makes itself. Each is told as an event
//! in the thread's ring; one that finds the ring full waits for the thread's next chance.
#![allow(unsafe_code)] // calls the C library's functions

use crate::hooks::{self, tracker_of};
use crate::thread::{self, Thread};
use crate::{next, recorder};
use core::ffi::{c_int, c_void};
use slimline_trace::wire::{RangeEvent, RangeKind};

/// Events that found the thread's ring full. Zeroes are none.
pub(crate) struct Waiting {
    count: usize,
    events: [RangeEvent; MAX_WAITING],
}

/// A page of events. The collector drains a ring ten times a second: a thread that fills its ring and this in between
/// maps memory a hundred thousand times a second.
const MAX_WAITING: usize = 127;

impl Waiting {
    /// Writes the events that wait, as far as the ring has room.
    pub(crate) fn flush(&mut self, thread: &Thread) {
        let told = self.events[..self.count].iter().take_while(|event| recorder::emit_range(thread, event)).count();
        self.events.copy_within(told..self.count, 0);
        self.count -= told;
    }

    /// Counts as lost what still waits: the thread ends.
    pub(crate) fn give_up(&mut self, thread: &Thread) {
        (0..core::mem::take(&mut self.count)).for_each(|_| lost(thread));
    }
}

/// Tells an event, after those that wait. The thread is inside the agent.
pub(crate) fn tell(
    thread: &Thread,
    waiting: &mut Waiting,
    kind: RangeKind,
    base: u64,
    bytes: u64,
    stack: u32,
    time_ns: u64,
) {
    let event = RangeEvent { time_ns, base, bytes, stack, kind: kind as u32 };
    waiting.flush(thread);
    if waiting.count == 0 && recorder::emit_range(thread, &event) {
        return;
    }
    match waiting.events.get_mut(waiting.count) {
        Some(place) => {
            *place = event;
            waiting.count += 1;
        }
        None => lost(thread),
    }
}

/// Counts an event that could not be told.
pub(crate) fn lost(thread: &Thread) {
    thread.count_dropped();
}

fn mapping(kind: RangeKind, base: u64, bytes: u64, sp: u64, bp: u64, time_ns: u64) {
    let Some(thread) = thread::current() else { return };
    let Some(mut inside) = thread.enter() else { return lost(thread) };
    let Some(tracker) = tracker_of(&mut inside) else { return lost(thread) };
    let stack = tracker.call_path(sp, bp);
    tell(thread, &mut tracker.waiting, kind, base, bytes, stack, time_ns);
}

/// Recording `mmap`. The last two arguments are on the stack: see the entry function.
pub(crate) unsafe extern "C" fn mmap(
    start: *mut c_void,
    bytes: usize,
    protection: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
    sp: u64,
    bp: u64,
) -> *mut c_void {
    // SAFETY: the caller's own request.
    let mapped = unsafe { (next::MMAP.get())(start, bytes, protection, flags, file, offset) };
    if mapped != libc::MAP_FAILED {
        if flags & libc::MAP_FIXED != 0 {
            hooks::unmapped();
        }
        mapping(RangeKind::Mapped, mapped as u64, bytes as u64, sp, bp, recorder::now_ns());
    }
    mapped
}

/// Recording `munmap`. The time is taken before, the event told after: the place can be another thread's at once, and
/// a failure tells nothing.
pub(crate) unsafe extern "C" fn munmap(start: *mut c_void, bytes: usize, sp: u64, bp: u64) -> c_int {
    let time_ns = recorder::now_ns();
    // SAFETY: the caller's own request.
    let result = unsafe { (next::MUNMAP.get())(start, bytes) };
    if result == 0 {
        hooks::unmapped();
        mapping(RangeKind::Unmapped, start as u64, bytes as u64, sp, bp, time_ns);
    }
    result
}

/// Recording `mremap`: the old range goes, the new one comes.
pub(crate) unsafe extern "C" fn mremap(
    old: *mut c_void,
    old_bytes: usize,
    new_bytes: usize,
    flags: c_int,
    new: *mut c_void,
    _: usize,
    sp: u64,
    bp: u64,
) -> *mut c_void {
    let time_ns = recorder::now_ns();
    // SAFETY: the caller's own request.
    let mapped = unsafe { (next::MREMAP.get())(old, old_bytes, new_bytes, flags, new) };
    if mapped != libc::MAP_FAILED {
        hooks::unmapped();
        // With an old size of 0 the old mapping stays.
        if old_bytes != 0 && flags & libc::MREMAP_DONTUNMAP == 0 {
            mapping(RangeKind::Unmapped, old as u64, old_bytes as u64, sp, bp, time_ns);
        }
        mapping(RangeKind::Mapped, mapped as u64, new_bytes as u64, sp, bp, recorder::now_ns());
    }
    mapped
}
