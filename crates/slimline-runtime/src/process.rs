//! The process: whether it is traced, and what happens when it begins and forks.
#![allow(unsafe_code)] // the C library's functions, and statics that are written once

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::ops::Range;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};

use slimline_trace::stream::ring::{
    CLOSED_BY_PROGRAM, CLOSED_WITHOUT_READER, DIRECTORY_VARIABLE, GATE_BYTES, PAUSED_VARIABLE,
};

use crate::entry::__slimline_gate;
use crate::gate::Gate;
use crate::objects::{self, Path};
use crate::ring::{self, Fork, Ring};
use crate::{copies, entry, kernel, own_memory, shared_mappings, thread};

unsafe extern "C" {
    static environ: *const *const c_char;
    /// What the C library's `pthread_atfork` calls, which is in another archive that not all programs are linked with, and says whose
    /// handlers these are, so that they go with that object: ours stay.
    fn __register_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
        object: *const c_void,
    ) -> c_int;
}

/// Nobody has asked yet, or a child was just forked.
const UNKNOWN: u32 = 0;
/// A thread is finding out.
const BUSY: u32 = 1;
/// It is traced, or not.
const KNOWN: u32 = 2;

static STATE: AtomicU32 = AtomicU32::new(UNKNOWN);
/// Address of the ring; 0 where there is none.
static RING: AtomicUsize = AtomicUsize::new(0);
/// In a forked child that has no ring yet: its parent's.
static PARENTS: AtomicUsize = AtomicUsize::new(0);
/// The process that the ring is of: a `vfork` child has our memory but is another.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// Which fork made the process, or the one that it inherits everything from: the time stamp, 0 for none, and the process.
static FORKED_AT: AtomicU64 = AtomicU64::new(0);
static FORKED_FROM: AtomicU32 = AtomicU32::new(0);
/// Address of a page that the kernel clears in forked children, with a word that is not 0; 0 where there is none.
static WIPED: AtomicUsize = AtomicUsize::new(0);
/// 1 + the key whose destructor ends threads; 0 where there is none.
static KEY: AtomicU32 = AtomicU32::new(0);
/// Whether [`watch`] was called; children inherit what it asked for.
static IS_WATCHED: AtomicBool = AtomicBool::new(false);

struct Paths {
    directory: Path,
    file: Path,
}

struct ObjectCell(UnsafeCell<Path>);
// SAFETY: used while an object's constructors run, of which the dynamic linker runs one after the other.
unsafe impl Sync for ObjectCell {}

/// Of the object that is being loaded. Not on the stack, where it would have to be cleared by `memset`.
static OBJECT: ObjectCell = ObjectCell(UnsafeCell::new(Path::new()));

struct PathsCell(UnsafeCell<Paths>);
// SAFETY: written by the one thread that has set `STATE` to `BUSY`, read once it is `KNOWN`.
unsafe impl Sync for PathsCell {}

static PATHS: PathsCell = PathsCell(UnsafeCell::new(Paths { directory: Path::new(), file: Path::new() }));

/// The ring to write into, if the process is traced. Signals must be blocked.
pub(crate) fn ring() -> Option<Ring> {
    loop {
        match STATE.load(Acquire) {
            KNOWN => break,
            UNKNOWN if STATE.compare_exchange(UNKNOWN, BUSY, AcqRel, Relaxed).is_ok() => {
                // SAFETY: see `PathsCell`.
                let ring = begin(unsafe { &mut *PATHS.0.get() });
                RING.store(ring.map_or(0, Ring::address), Relaxed);
                PROCESS.store(kernel::process_id(), Relaxed);
                STATE.store(KNOWN, Release);
                break;
            }
            _ => kernel::yield_now(),
        }
    }
    // SAFETY: it is unmapped in forked children only, which have another one by then, or none.
    unsafe { Ring::at(RING.load(Relaxed)) }
}

/// Whether the caller is the process that the ring is of.
pub(crate) fn is_ours() -> bool {
    PROCESS.load(Relaxed) == kernel::process_id()
}

/// Whether the caller is a child with memory of its own that was made by a system call which nobody saw.
pub(crate) fn is_unseen_fork() -> bool {
    // SAFETY: mapped for good by `mark`.
    unsafe { (WIPED.load(Relaxed) as *const usize).as_ref() }.is_some_and(|word| *word == 0)
}

/// In such a child: it goes on as any forked child, but nobody noted what its parent had then.
pub(crate) fn adopt() {
    thread::forget_fork();
    FORKED_AT.store(0, Relaxed);
    in_forked_child();
}

/// Has [`is_unseen_fork`] know this process.
fn mark() {
    const BYTES: usize = 4096;
    if WIPED.load(Relaxed) == 0
        && let Some(page) = kernel::map(BYTES)
    {
        if kernel::wipe_on_fork(page, BYTES) {
            WIPED.store(page, Relaxed);
        } else {
            // SAFETY: just mapped.
            unsafe { kernel::unmap(page, BYTES) };
        }
    }
    let page = WIPED.load(Relaxed) as *mut usize;
    if !page.is_null() {
        // SAFETY: our own page.
        unsafe { page.write(1) };
    }
}

/// Nothing is to be recorded any more: functions that begin from now on do not try.
pub(crate) fn close_gate() {
    gates().for_each(|gate| _ = gate.close(CLOSED_WITHOUT_READER));
}

/// All that code of this process asks: this copy's, and those of others that hand everything on to it.
fn gates() -> impl Iterator<Item = &'static Gate> {
    core::iter::once(&__slimline_gate).chain(copies::other_gates())
}

/// Has another copy's gate be as this one's, now; later [`gates`] sees to that.
pub(crate) fn share_gate(gate: &Gate) {
    // SAFETY: as in `ring`; a gate is a page of its own.
    let is_mapped = unsafe { Ring::at(RING.load(Relaxed)) }.is_some_and(|ring| ring.map_gate(gate));
    for reason in [CLOSED_BY_PROGRAM, CLOSED_WITHOUT_READER].into_iter().filter(|_| !is_mapped) {
        _ = if __slimline_gate.is_closed_by(reason) { gate.close(reason) } else { gate.open(reason) };
    }
}

/// Whether nothing is to be recorded at this moment.
pub(crate) fn is_paused() -> bool {
    __slimline_gate.is_closed()
}

/// The program wants nothing recorded, or that it is again. Signals must be blocked.
pub(crate) fn pause(is_paused: bool) {
    let mut is_new = false;
    // Those of one ring are one page.
    for gate in gates() {
        is_new |= if is_paused { gate.close(CLOSED_BY_PROGRAM) } else { gate.open(CLOSED_BY_PROGRAM) };
    }
    // SAFETY: as in `ring`, which would make one here.
    if let Some(ring) = unsafe { Ring::at(RING.load(Relaxed)) }.filter(|_| is_new && is_ours()) {
        ring.note_pause(is_paused);
    }
}

/// The directory of rings, and this one's file. After [`ring`] returned one.
pub(crate) fn paths() -> (Option<&'static CStr>, Option<&'static CStr>) {
    // SAFETY: see `PathsCell`.
    let paths = unsafe { &*PATHS.0.get() };
    (paths.directory.get(), paths.file.get())
}

/// The key whose destructor is to end the calling thread; none where it would need memory from the heap.
pub(crate) fn key() -> Option<libc::pthread_key_t> {
    KEY.load(Relaxed).checked_sub(1)
}

fn begin(paths: &mut Paths) -> Option<Ring> {
    let has_words = entry::cursor_offset() != 0 && entry::state_offset() != 0;
    watch();
    if paths.directory.get().is_none() {
        if !find_directory(&mut paths.directory) {
            return None;
        }
        if variable(PAUSED_VARIABLE).is_some_and(|value| !value.is_empty()) {
            gates().for_each(|gate| _ = gate.close(CLOSED_BY_PROGRAM));
        }
    }
    // SAFETY: a look into the auxiliary vector: 16 bytes that the kernel has chosen for this program.
    let image = unsafe {
        let random = libc::getauxval(libc::AT_RANDOM) as *const u64;
        if random.is_null() { 0 } else { random.read_unaligned() }
    };
    let paused = if __slimline_gate.is_closed_by(CLOSED_BY_PROGRAM) { CLOSED_BY_PROGRAM } else { 0 };
    let ring = Ring::create(paths.directory.bytes(), image, &mut paths.file, &__slimline_gate, paused);
    if let Some(ring) = ring {
        copies::other_gates().for_each(|gate| _ = ring.map_gate(gate));
        ring.header().has_no_words.store((!has_words).into(), Relaxed);
    }
    // Without them there is nobody to write into it; it tells why.
    if ring.is_none() || !has_words {
        close_gate();
    }
    // SAFETY: in a forked child it stays mapped up to here.
    if let Some(parents) = unsafe { Ring::at(PARENTS.swap(0, Relaxed)) } {
        match ring {
            Some(ring) => {
                ring.inherit_objects(parents);
                ring.inherit_allocations(Fork { stamp: FORKED_AT.load(Relaxed), process: FORKED_FROM.load(Relaxed) });
            }
            None => {
                parents.header().untraced_children.fetch_add(1, Relaxed);
            }
        }
        // SAFETY: nothing in this process leads there any more but cursors in registers, of what a handler that forked has
        // interrupted.
        unsafe { parents.leave(thread::is_in_handler()) };
    }
    ring.inspect(|ring| {
        mark();
        tell_shared(*ring, 0..usize::MAX, ring::stamp());
        ring.begin();
    })
}

/// Tells the reader of mappings in these addresses that other processes may share.
fn tell_shared(ring: Ring, addresses: Range<usize>, since: u64) {
    let is_ours = |address| ring.contains(address) || gates().any(|gate| gate.address() == address);
    shared_mappings::tell(ring, addresses, is_ours, since);
}

/// The program has mapped or unmapped these addresses.
pub(crate) extern "C" fn mapped(start: usize, bytes: usize) {
    let _signals = kernel::Signals::block();
    // SAFETY: as in `ring`, which tells of all mappings when it makes one.
    if let Some(ring) = unsafe { Ring::at(RING.load(Relaxed)) }.filter(|_| is_ours()) {
        let since = thread::writes_since(ring).unwrap_or_else(ring::stamp);
        tell_shared(ring, start..start.saturating_add(bytes), since);
    }
}

/// Whether the reader knows of a shared mapping in these addresses.
pub(crate) extern "C" fn has_shared(start: usize, bytes: usize) -> bool {
    // SAFETY: as in `ring`.
    let ring = unsafe { Ring::at(RING.load(Relaxed)) };
    ring.is_some_and(|ring| ring.has_shared_in(&(start..start.saturating_add(bytes))))
}

/// Those below have their place in the thread's own memory.
pub(crate) const KEYS_WITHOUT_HEAP: u32 = 32;

/// Has us told of threads that end and of forks.
pub(crate) fn watch() {
    if IS_WATCHED.swap(true, Relaxed) {
        return;
    }
    let mut key = 0;
    // SAFETY: plain functions, which live as long as the object that they are in.
    unsafe {
        if libc::pthread_key_create(&raw mut key, Some(at_thread_end)) == 0 && key < KEYS_WITHOUT_HEAP {
            KEY.store(key + 1, Relaxed);
        }
        __register_atfork(Some(before_fork), None, Some(in_forked_child), core::ptr::null());
    }
}

unsafe extern "C" fn at_thread_end(state: *mut c_void) {
    thread::end(state);
}

/// Notes the fork in the trace: the child inherits the allocations that are known there.
pub(crate) extern "C" fn before_fork() {
    // SAFETY: as in `ring`, which would make one here: a process without one has nothing to hand on but what it inherited.
    let ring = unsafe { Ring::at(RING.load(Relaxed)) };
    if let Some(ring) = ring.filter(|ring| !ring.is_stopped() && is_ours()) {
        {
            // Code that is not traced may have mapped some.
            let _signals = kernel::Signals::block();
            tell_shared(ring, 0..usize::MAX, thread::writes_since(ring).unwrap_or_else(ring::stamp));
        }
        thread::note_fork();
    }
}

/// In a forked child.
pub(crate) extern "C" fn in_forked_child() {
    let _signals = kernel::Signals::block();
    thread::forget();
    own_memory::in_forked_child();
    if let Some(Fork { stamp, process }) = thread::fork() {
        FORKED_AT.store(stamp, Relaxed);
        FORKED_FROM.store(process, Relaxed);
    }
    forget_gate();
    // A child that has made no ring yet still has its own parent's.
    let parents = RING.swap(0, Relaxed);
    if parents != 0 {
        PARENTS.store(parents, Relaxed);
    }
    STATE.store(UNKNOWN, Release);
}

/// In a forked child: the gate is its parent's, and gets a page of its own. It is open, so that the child makes a ring as
/// soon as it records anything, unless the program wants nothing recorded, or is not traced.
fn forget_gate() {
    let gate = &__slimline_gate;
    if gate.is_closed_by(CLOSED_WITHOUT_READER) {
        return;
    }
    let is_paused = gate.is_closed_by(CLOSED_BY_PROGRAM);
    for gate in gates() {
        // SAFETY: a gate is a page of its own; no other thread of this process is there yet.
        let is_own = unsafe { kernel::replace_page(gate.address(), GATE_BYTES, None) };
        if is_own && is_paused {
            gate.close(CLOSED_BY_PROGRAM);
        }
    }
}

/// Finds the value of [`DIRECTORY_VARIABLE`]. Whether the process has it and may follow it.
fn find_directory(directory: &mut Path) -> bool {
    // A program with more rights than its caller: what the caller wrote is not to be followed.
    // SAFETY: a look into the auxiliary vector.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        return false;
    }
    let Some(value) = variable(DIRECTORY_VARIABLE) else { return false };
    directory.push_all(value);
    value.first() == Some(&b'/') && directory.get().is_some()
}

/// The value of an environment variable.
fn variable(name: &str) -> Option<&'static [u8]> {
    // SAFETY: the C library's array of strings, ended by null, which the program does not change at this moment.
    unsafe {
        let mut at = environ;
        while !at.is_null() && !(*at).is_null() {
            if let Some(value) = value_of(name, *at) {
                return Some(value);
            }
            at = at.add(1);
        }
    }
    None
}

/// What is behind the `=` where `entry` is of this variable. Not by the C library, whose functions a program may replace.
///
/// # Safety
/// `entry` must be a string that lives on.
unsafe fn value_of(name: &str, entry: *const c_char) -> Option<&'static [u8]> {
    // SAFETY: promised by the caller; each byte is read before the next one.
    unsafe {
        let entry: *const u8 = entry.cast();
        let start = name.as_bytes().iter().chain(b"=");
        if !(0..).zip(start).all(|(at, &byte)| *entry.add(at) == byte) {
            return None;
        }
        let value = entry.add(name.len() + 1);
        let length = (0..objects::PATH_BYTES).find(|&at| value.add(at).read_volatile() == 0)?;
        Some(core::slice::from_raw_parts(value, length))
    }
}

/// An object with instrumented code was loaded, which lies around `inside`.
pub(crate) extern "C" fn object_loaded(inside: usize) {
    let _signals = kernel::Signals::block();
    let Some(ring) = ring() else { return };
    // SAFETY: see `ObjectCell`.
    let path = unsafe { &mut *OBJECT.0.get() };
    path.clear();
    let mapping = objects::find(inside, path);
    let block_below = copies::block_below(inside);
    ring.add_object(mapping, block_below, path.bytes());
    if block_below == 0 {
        copies::follow_blocks(inside);
    }
}
