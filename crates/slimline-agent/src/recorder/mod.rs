//! The process file: what the collector sees of this process. Layout in [`slimline_trace::wire`].
//!
//! The header page and the slot headers are mapped while the process is recorded, the areas of call paths as far as they
//! are used, and each ring while its thread runs. Disk room is taken before it is written to: a full disk must end the
//! recording, not the target (writing to a mapping without room is SIGBUS).
#![allow(unsafe_code)] // shared memory

mod ring;
mod stacks;

use core::fmt::{self, Write};
use core::ptr::{NonNull, null_mut};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64};
use slimline_trace::wire::{
    FILE_BYTES, LEAST_ADDRESS_SPACE, LEAST_DESCRIPTORS, MAGIC, MessageKind, PROCESS_FILE_EXTENSION, ProcessHeader,
    ProcessState, RING_BYTES, RINGS_OFFSET, RangeEvent, SLOTS, SLOTS_OFFSET, STACKS_OFFSET, SlotHeader, SlotState,
    VERSION,
};

use crate::text::Path;
use crate::thread::Thread;
use crate::{kernel, own_memory};
pub(crate) use ring::{Ring, bytes_of};
pub(crate) use stacks::{append_stack, copy_stack_words, path_totals, used_stack_words};

/// The header; null while nothing is recorded.
static HEADER: AtomicPtr<ProcessHeader> = AtomicPtr::new(null_mut());
/// The file, for mapping rings; -1 while nothing is recorded.
static FILE: AtomicI32 = AtomicI32::new(-1);
/// Which file that is.
static DEVICE: AtomicU64 = AtomicU64::new(0);
static INODE: AtomicU64 = AtomicU64::new(0);
/// 1 from the moment on that nothing more may be written.
static SEALED: AtomicU32 = AtomicU32::new(0);

/// Makes this process's file in `directory` and maps what all threads share. The `errno` where that is impossible;
/// the process then goes unrecorded, and the collector sees that no file came.
pub(crate) fn create(directory: &[u8]) -> Result<&'static ProcessHeader, i32> {
    let file = create_file(directory)?;
    // A file over this limit would be answered by SIGXFSZ, which kills. Left empty it tells the collector.
    if kernel::limit(libc::RLIMIT_FSIZE) < FILE_BYTES as u64 {
        kernel::close(file);
        return Err(libc::EFBIG);
    }
    let shared = (|| {
        if kernel::address_space_limit() < LEAST_ADDRESS_SPACE {
            return Err(libc::ENOMEM);
        }
        if kernel::limit(libc::RLIMIT_NOFILE) < LEAST_DESCRIPTORS {
            return Err(libc::EMFILE);
        }
        kernel::truncate(file, FILE_BYTES)?;
        if !kernel::allocate(file, 0, STACKS_OFFSET) {
            return Err(libc::ENOSPC);
        }
        kernel::map_file(file, 0, STACKS_OFFSET)
    })();
    let start = match shared {
        Ok(start) => start,
        Err(error) => {
            // There may be no room for a word; see `LONGEST_REFUSAL`.
            let _ = kernel::truncate(file, error.unsigned_abs() as usize);
            kernel::close(file);
            return Err(error);
        }
    };
    let header = start.cast::<ProcessHeader>();
    // SAFETY: a fresh mapping, zero, larger than the header and mapped until [`Parents`] goes.
    let shown = unsafe { header.as_ref() };
    shown.version.store(VERSION, Relaxed);
    shown.pid.store(kernel::process_id(), Relaxed);
    shown.parent_pid.store(kernel::parent_id(), Relaxed);
    shown.pid_namespace.store(kernel::pid_namespace(), Relaxed);
    shown.started_ns.store(now_ns(), Relaxed);
    shown.magic.store(MAGIC, Release);
    SEALED.store(0, Relaxed);
    let [device, inode] = kernel::identity(file).unwrap_or_default();
    DEVICE.store(device, Relaxed);
    INODE.store(inode, Relaxed);
    FILE.store(kernel::hide(file), Relaxed);
    HEADER.store(header.as_ptr(), Release);
    Ok(shown)
}

fn create_file(directory: &[u8]) -> Result<i32, i32> {
    let pid = kernel::process_id();
    for number in 0..1000_u32 {
        let mut path = Path::new();
        let written = path.push(directory).and_then(|()| write!(path, "/{pid}-{number}.{PROCESS_FILE_EXTENSION}"));
        let path = written.ok().and(path.as_c_str()).ok_or(libc::ENAMETOOLONG)?;
        match kernel::open(path, libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_NOFOLLOW, 0o600) {
            Err(libc::EEXIST) => {}
            result => return result,
        }
    }
    Err(libc::EEXIST)
}

/// The file of a forked child's parent, until it is dropped.
pub(crate) struct Parents(*mut ProcessHeader);

impl Parents {
    /// Tells there that the child is not recorded.
    pub(crate) fn count_unrecorded_child(&self) {
        // SAFETY: null, or mapped by the parent's `create` and not yet unmapped.
        if let Some(header) = unsafe { self.0.as_ref() } {
            header.children_unrecorded.fetch_add(1, Relaxed);
        }
    }
}

/// The process that a child was forked from, as its header names it, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fork {
    pub(crate) time_ns: u64,
    pub(crate) pid: u32,
    pub(crate) pid_namespace: u64,
}

impl Fork {
    /// In a forked child that has still its parent's file.
    pub(crate) fn now() -> Option<Self> {
        let header = header()?;
        let (pid, pid_namespace) = (header.pid.load(Relaxed), header.pid_namespace.load(Relaxed));
        Some(Self { time_ns: now_ns(), pid, pid_namespace })
    }

    /// Notes it in the child's own file.
    pub(crate) fn note(self, header: &ProcessHeader) {
        header.forked_from.store(self.pid, Relaxed);
        header.forked_from_namespace.store(self.pid_namespace, Relaxed);
        header.forked_ns.store(self.time_ns, Relaxed);
    }
}

impl Drop for Parents {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: mapped by `create` in this size; nobody else is left who uses it.
            unsafe { kernel::unmap(self.0.cast(), STACKS_OFFSET) };
        }
    }
}

/// Where a forked child finds its parent's file: lets go of it, so that nothing of the child's goes there.
///
/// # Safety
/// No other thread may exist, and the calling one must have no [`Ring`].
pub(crate) unsafe fn leave() -> Parents {
    let file = FILE.swap(-1, Relaxed);
    if file >= 0 {
        kernel::close(file);
    }
    // SAFETY: promised by the caller.
    unsafe { stacks::forget() };
    Parents(HEADER.swap(null_mut(), Relaxed))
}

/// The header of this process's file; None where nothing is (or may be) recorded.
#[inline]
pub(crate) fn header() -> Option<&'static ProcessHeader> {
    // SAFETY: null, or mapped by `create` until [`Parents`] goes, which is when no other thread exists.
    unsafe { HEADER.load(Acquire).as_ref() }
}

/// The descriptor that the target must not see; -1 for none.
pub(crate) fn file() -> i32 {
    FILE.load(Relaxed)
}

/// Whether the descriptor is still that of our file. Who closes it by the bare system call may open another one there.
pub(crate) fn has_file() -> bool {
    let is_same =
        kernel::identity(file()).is_some_and(|found| found == [&DEVICE, &INODE].map(|word| word.load(Relaxed)));
    if !is_same {
        FILE.store(-1, Relaxed);
    }
    is_same
}

/// Moves the file to another descriptor, if it is `descriptor`.
pub(crate) fn move_file(descriptor: i32) {
    if file() == descriptor {
        FILE.store(kernel::hide(descriptor), Relaxed);
    }
}

/// Whether this process will write no more, whatever it does: nothing is recorded, or recording is over.
pub(crate) fn is_sealed() -> bool {
    header().is_none() || SEALED.load(Relaxed) != 0
}

/// Whether anything may still be written.
pub(crate) fn is_open() -> bool {
    SEALED.load(Relaxed) == 0 && header().is_some_and(|header| header.stop.load(Relaxed) == 0)
}

/// `CLOCK_MONOTONIC` now.
#[inline]
pub(crate) fn now_ns() -> u64 {
    crate::clock::monotonic_ns()
}

/// In a forked child that keeps its parent's file: nothing more is written there.
pub(crate) fn seal() {
    SEALED.store(1, Relaxed);
}

/// Declares that the process ran to its end and that nothing more will be written.
pub(crate) fn finish() {
    let Some(header) = header() else { return };
    if SEALED.swap(1, Relaxed) == 1 {
        return;
    }
    let (user_ns, system_ns) = kernel::process_times_ns();
    header.user_ns.store(user_ns, Relaxed);
    header.system_ns.store(system_ns, Relaxed);
    header.exited_ns.store(now_ns(), Relaxed);
    header.state.store(ProcessState::Exited as u32, Release);
}

/// Gives up, and says why.
pub(crate) fn fail(why: fmt::Arguments<'_>) {
    SEALED.store(1, Relaxed);
    let Some(header) = header() else { return };
    let mut text = Failure { header, length: 0 };
    let _ = text.write_fmt(why); // what does not fit is cut
    header.state.store(ProcessState::Failed as u32, Release);
}

struct Failure {
    header: &'static ProcessHeader,
    length: usize,
}

impl Write for Failure {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.header.failure.len() - 1 - self.length;
        let part = &text.as_bytes()[..text.floor_char_boundary(room)];
        // SAFETY: inside `failure`, which nothing but this process's failing thread writes and which the collector
        // reads only once the state says so.
        unsafe {
            let to = self.header.failure.as_ptr().cast_mut().add(self.length);
            core::ptr::copy_nonoverlapping(part.as_ptr(), to, part.len());
        }
        self.length += part.len();
        if part.len() < text.len() { Err(fmt::Error) } else { Ok(()) }
    }
}

/// The slot headers.
fn slots(header: &'static ProcessHeader) -> &'static [SlotHeader] {
    let start = core::ptr::from_ref(header).cast::<u8>();
    // SAFETY: `create` maps them behind the header; all that changes in them is atomic.
    unsafe { core::slice::from_raw_parts(start.add(SLOTS_OFFSET).cast(), SLOTS) }
}

/// Maps a part of the file that lies behind the slot headers; None where there is no room for it, on the disk or here.
fn map_part(offset: usize, bytes: usize) -> Option<NonNull<u8>> {
    let first = HEADER.load(Acquire).cast::<u8>();
    if first.is_null() || !has_file() || !kernel::allocate(file(), offset, bytes) {
        return None;
    }
    if own_memory::is_apart() {
        // SAFETY: `create` mapped the file there from its start on.
        return unsafe { kernel::map_file_like(first, offset, bytes) };
    }
    kernel::map_file(file(), offset, bytes).ok()
}

/// Takes the first free ring for thread `tid`. None, and counted, where there is none or no room for it.
pub(crate) fn take_ring(tid: u32) -> Option<Ring> {
    let header = header()?;
    let taken = slots(header).iter().enumerate().find(|(_, slot)| {
        slot.state.load(Relaxed) == SlotState::Free as u32
            && slot.state.compare_exchange(SlotState::Free as u32, SlotState::Owned as u32, Acquire, Relaxed).is_ok()
    });
    let ring = taken.and_then(|(index, slot)| {
        slot.tid.store(tid, Relaxed);
        match map_part(RINGS_OFFSET + index * RING_BYTES, RING_BYTES) {
            // SAFETY: slot and ring are mapped as long as a thread of this process uses them, and the exchange above
            // made this thread their only writer.
            Some(ring) => Some(unsafe { Ring::new(slot, ring.as_ptr()) }),
            None => {
                slot.state.store(SlotState::Free as u32, Release);
                None
            }
        }
    });
    if ring.is_none() {
        header.threads_without_ring.fetch_add(1, Relaxed);
    }
    ring
}

/// Hands a ring over to the collector, which drains it and makes its slot free again.
pub(crate) fn release_ring(ring: Ring) {
    ring.slot().state.store(SlotState::Ended as u32, Release);
    // SAFETY: mapped by `take_ring` in this size, and `ring`, the only user, is consumed.
    unsafe { kernel::unmap(ring.start(), RING_BYTES) };
}

/// Tells what happened to a range; false, and not counted, where the ring is full for now.
pub(crate) fn emit_range(thread: &Thread, event: &RangeEvent, name: &[u8]) -> bool {
    thread.try_write(MessageKind::Range, &[bytes_of(core::slice::from_ref(event)), name])
}
