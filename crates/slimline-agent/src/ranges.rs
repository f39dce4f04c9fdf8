//! Address ranges that come and go: large blocks, and memory that the program has the kernel map: by `mmap`, by moving
//! the break, or a segment of System V shared memory. Each is told as an event in the thread's ring; one that finds the
//! ring full waits for the thread's next chance.
#![allow(unsafe_code)] // calls the C library's functions

use crate::hooks::{self, tracker_of};
use crate::text::Text;
use crate::thread::{self, Thread};
use crate::{kernel, maps, memory, next, recorder};
use core::ffi::{c_int, c_void};
use core::fmt::Write;
use slimline_trace::wire::{MAX_RANGE_NAME, RangeEvent, RangeKind};

/// What happened to a range, with the name of what lies there.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Event {
    head: RangeEvent,
    name: [u8; MAX_RANGE_NAME],
}

impl Event {
    /// With no name.
    pub(crate) fn new(kind: RangeKind, base: u64, bytes: u64, stack: u32, time_ns: u64) -> Self {
        let head = RangeEvent { time_ns, base, bytes, stack, kind: kind as u32, of: 0, is_shared: 0, name_bytes: 0 };
        Self { head, name: [0; MAX_RANGE_NAME] }
    }

    fn emit(&self, thread: &Thread) -> bool {
        let name = self.name.get(..self.head.name_bytes as usize).unwrap_or(&[]);
        recorder::emit_range(thread, &self.head, name)
    }

    /// Gives it a name; of a longer one the end is kept.
    fn set_name(&mut self, name: &[u8]) {
        let kept = &name[name.len().saturating_sub(MAX_RANGE_NAME)..];
        self.name[..kept.len()].copy_from_slice(kept);
        self.head.name_bytes = kept.len() as u32;
    }
}

/// Events that found the thread's ring full. Zeroes are none.
pub(crate) struct Waiting {
    count: usize,
    events: [Event; MAX_WAITING],
}

/// Some pages of events. The collector drains a ring ten times a second: a thread that fills its ring and this in between
/// maps memory tens of thousands of times a second.
const MAX_WAITING: usize = 127;

impl Waiting {
    /// Writes the events that wait, as far as the ring has room.
    pub(crate) fn flush(&mut self, thread: &Thread) {
        let told = self.events[..self.count].iter().take_while(|event| event.emit(thread)).count();
        if told > 0 {
            self.events.copy_within(told..self.count, 0);
            self.count -= told;
        }
    }

    /// Counts as lost what still waits: the thread ends.
    pub(crate) fn give_up(&mut self, thread: &Thread) {
        (0..core::mem::take(&mut self.count)).for_each(|_| lost(thread));
    }

    /// Tells an event, after those that wait. The thread is inside the agent.
    pub(crate) fn tell(&mut self, thread: &Thread, event: Event) {
        self.flush(thread);
        if self.count == 0 && event.emit(thread) {
            return;
        }
        match self.events.get_mut(self.count) {
            Some(place) => {
                *place = event;
                self.count += 1;
            }
            None => lost(thread),
        }
    }
}

/// Counts an event that could not be told.
pub(crate) fn lost(thread: &Thread) {
    thread.count_dropped();
}

/// Who called: stack pointer and frame pointer at the entry of our function.
#[derive(Clone, Copy)]
struct Caller {
    sp: u64,
    bp: u64,
}

impl Caller {
    /// Tells an event with the call path of it.
    fn tell(self, mut event: Event) {
        let Some(thread) = thread::current() else { return };
        let Some(mut inside) = thread.enter() else { return lost(thread) };
        let Some(tracker) = tracker_of(&mut inside) else { return lost(thread) };
        event.head.stack = tracker.call_path(self.sp, self.bp);
        tracker.waiting.tell(thread, event);
    }

    /// Tells that the memory from `base` on came, which is named as `describe` does.
    fn mapped(self, base: u64, bytes: u64, describe: impl FnOnce(&mut Event)) {
        let mut event = Event::new(RangeKind::Mapped, base, bytes, 0, recorder::now_ns());
        describe(&mut event);
        self.tell(event);
    }

    /// Tells that it went. The time is taken before, the event told after: the place can be another thread's at once,
    /// and a failure tells nothing.
    fn unmapped(self, base: u64, bytes: u64, time_ns: u64) {
        hooks::unmapped();
        self.tell(Event::new(RangeKind::Unmapped, base, bytes, 0, time_ns));
    }
}

/// What `mmap` maps, as the event tells it.
fn describe_mapping(event: &mut Event, flags: c_int, file: c_int, offset: i64) {
    event.head.is_shared = u32::from(flags & libc::MAP_SHARED != 0);
    if flags & libc::MAP_ANONYMOUS == 0 {
        event.head.of = offset as u64;
        let mut path = [0; libc::PATH_MAX as usize];
        let mut link = Text::<32>::new();
        let is_written = write!(link, "/proc/self/fd/{file}").is_ok();
        if let Some(link) = link.as_c_str().filter(|_| is_written)
            && let Ok(path) = kernel::read_link(link, &mut path)
        {
            event.set_name(path);
        }
    }
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
    if flags & libc::MAP_ANONYMOUS == 0 {
        memory::before_mapping(file);
    }
    // SAFETY: the caller's own request.
    let mapped = unsafe { (next::MMAP.get())(start, bytes, protection, flags, file, offset) };
    if mapped != libc::MAP_FAILED {
        if flags & libc::MAP_FIXED != 0 {
            hooks::unmapped();
        }
        let caller = Caller { sp, bp };
        caller.mapped(mapped as u64, bytes as u64, |event| describe_mapping(event, flags, file, offset));
        if flags & libc::MAP_SHARED != 0 {
            shared();
        }
    }
    mapped
}

/// Recording `munmap`.
pub(crate) unsafe extern "C" fn munmap(start: *mut c_void, bytes: usize, sp: u64, bp: u64) -> c_int {
    let time_ns = recorder::now_ns();
    // SAFETY: the caller's own request.
    let result = unsafe { (next::MUNMAP.get())(start, bytes) };
    if result == 0 {
        Caller { sp, bp }.unmapped(start as u64, bytes as u64, time_ns);
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
        let caller = Caller { sp, bp };
        // With an old size of 0 the old mapping stays.
        if old_bytes != 0 && flags & libc::MREMAP_DONTUNMAP == 0 {
            caller.unmapped(old as u64, old_bytes as u64, time_ns);
        } else {
            // What was at a fixed new place went.
            hooks::unmapped();
        }
        caller.mapped(mapped as u64, new_bytes as u64, |_| {});
    }
    mapped
}

/// Recording `mprotect`.
pub(crate) unsafe extern "C" fn mprotect(start: *mut c_void, bytes: usize, protection: c_int, _: u64, _: u64) -> c_int {
    // SAFETY: the caller's own request.
    let result = unsafe { (next::MPROTECT.get())(start, bytes, protection) };
    protected(protection);
    result
}

/// Recording `pkey_mprotect`.
pub(crate) unsafe extern "C" fn pkey_mprotect(
    start: *mut c_void,
    bytes: usize,
    protection: c_int,
    key: c_int,
    _: u64,
    _: u64,
) -> c_int {
    // SAFETY: the caller's own request.
    let result = unsafe { (next::PKEY_MPROTECT.get())(start, bytes, protection, key) };
    // A key may forbid what the protection allows.
    protected(libc::PROT_NONE);
    result
}

/// Memory was given this protection, or some of it before a failure.
fn protected(protection: c_int) {
    if protection & libc::PROT_READ == 0 {
        hooks::unmapped();
    }
}

/// Recording `madvise`.
pub(crate) unsafe extern "C" fn madvise(start: *mut c_void, bytes: usize, advice: c_int, _: u64, _: u64) -> c_int {
    // SAFETY: the caller's own request.
    let result = unsafe { (next::MADVISE.get())(start, bytes, advice) };
    if is_guarding(advice) {
        hooks::unmapped();
    }
    result
}

/// Whether loads fail after this advice.
fn is_guarding(advice: c_int) -> bool {
    const MADV_GUARD_INSTALL: c_int = 102;
    matches!(advice, MADV_GUARD_INSTALL | libc::MADV_HWPOISON)
}

/// A system call was made by its number: where it may take memory away, what threads know of their stacks may be wrong.
pub(crate) fn after_system_call(number: i64, [_, _, third, fourth]: [usize; 4]) {
    match number {
        libc::SYS_munmap | libc::SYS_mremap | libc::SYS_shmat | libc::SYS_shmdt | libc::SYS_brk => hooks::unmapped(),
        libc::SYS_pkey_mprotect => hooks::unmapped(),
        libc::SYS_mmap if fourth as c_int & libc::MAP_FIXED != 0 => hooks::unmapped(),
        libc::SYS_mprotect => protected(third as c_int),
        libc::SYS_madvise if is_guarding(third as c_int) => hooks::unmapped(),
        _ => {}
    }
}

/// Other processes may share what was just mapped: which memory it is, the kernel's list of mappings says.
fn shared() {
    if let Some(thread) = thread::current()
        && let Some(_inside) = thread.enter()
    {
        maps::snapshot_for(thread);
    }
}

/// Tells that the break was moved.
fn broken(old: u64, new: u64, time_ns: u64, caller: Caller) {
    if new > old {
        caller.mapped(old, new - old, |_| {});
    } else if new < old {
        caller.unmapped(new, old - new, time_ns);
    }
}

/// Recording `brk`. (The C library's allocator moves the break without it.)
pub(crate) unsafe extern "C" fn brk(end: *mut c_void, sp: u64, bp: u64) -> c_int {
    let time_ns = recorder::now_ns();
    // SAFETY: asks for the break, then the caller's own request.
    let (old, result) = unsafe { ((next::SBRK.get())(0), (next::BRK.get())(end)) };
    if result == 0 && old != libc::MAP_FAILED {
        broken(old as u64, end as u64, time_ns, Caller { sp, bp });
    }
    result
}

/// Recording `sbrk`.
pub(crate) unsafe extern "C" fn sbrk(more: isize, sp: u64, bp: u64) -> *mut c_void {
    let time_ns = recorder::now_ns();
    // SAFETY: the caller's own request.
    let old = unsafe { (next::SBRK.get())(more) };
    if old != libc::MAP_FAILED {
        broken(old as u64, (old as u64).wrapping_add_signed(more as i64), time_ns, Caller { sp, bp });
    }
    old
}

/// Recording `shmat`. Named as the kernel names it in `/proc/self/maps`.
pub(crate) unsafe extern "C" fn shmat(id: c_int, start: *const c_void, flags: c_int, sp: u64, bp: u64) -> *mut c_void {
    // SAFETY: the caller's own request.
    let attached = unsafe { (next::SHMAT.get())(id, start, flags) };
    if attached != libc::MAP_FAILED
        && let Ok(segment) = kernel::shared_segment(id)
    {
        Caller { sp, bp }.mapped(attached as u64, segment.shm_segsz as u64, |event| {
            event.head.is_shared = 1;
            let mut name = Text::<16>::new();
            if write!(name, "/SYSV{:08x}", segment.shm_perm.__key).is_ok() {
                event.set_name(name.bytes());
            }
        });
        shared();
    }
    attached
}

/// Recording `shmdt`, which is not told how much goes: the whole segment (0 bytes).
pub(crate) unsafe extern "C" fn shmdt(start: *const c_void, sp: u64, bp: u64) -> c_int {
    let time_ns = recorder::now_ns();
    // SAFETY: the caller's own request.
    let result = unsafe { (next::SHMDT.get())(start) };
    if result == 0 {
        Caller { sp, bp }.unmapped(start as u64, 0, time_ns);
    }
    result
}
