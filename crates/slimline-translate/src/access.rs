//! Accesses as they happen: a record each, where the thread's cursor leads.
#![allow(unsafe_code)] // what the runtime exports, memory that it hands out, and a register

use std::arch::asm;
use std::arch::x86_64::_rdtsc;
use std::ffi::{c_uint, c_void};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64};

use slimline_trace::stream::record::{Header, NO_STAMP};
use slimline_trace::stream::ring::{GATE_BYTES, ROOM_BIT, SEVERAL_OFFSET};

unsafe extern "C" {
    static __slimline_gate: [AtomicU8; GATE_BYTES];
    fn __slimline_next_chunk(cursor: usize) -> usize;
    fn __slimline_loaded(inside: usize);
    fn __slimline_start();
    fn __slimline_stop();
}

/// The program says that it is to be traced from here on.
pub(crate) extern "C" fn on_start(_: c_uint, _: *mut c_void) {
    // SAFETY: of the runtime; the calling thread is one that runs the program's code.
    unsafe { __slimline_start() };
}

/// That it is not.
pub(crate) extern "C" fn on_stop(_: c_uint, _: *mut c_void) {
    // SAFETY: likewise.
    unsafe { __slimline_stop() };
}

/// Virtual CPUs whose accesses are put together; QEMU gives out numbers anew, so these are as many as threads run at a time.
pub(crate) const CPUS: usize = 4096;

/// Accesses of an instruction, as they are asked for. Never freed, as QEMU may run the code as long as there is a process.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    pub(crate) load: Option<Described>,
    pub(crate) store: Option<Described>,
    /// The store is a load, too, and its record has a time stamp.
    pub(crate) is_atomic: bool,
}

/// A load or a store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Described {
    /// Of its record.
    pub(crate) header: Header,
    /// Bytes of it, which may come in pieces.
    pub(crate) bytes: u32,
}

/// What is left of an access of a virtual CPU: used by one thread at a time.
struct Left {
    /// The header of its record.
    header: AtomicU64,
    /// Where its next piece is.
    next: AtomicU64,
    /// Bytes of the rest; 0: none.
    bytes: AtomicU32,
}

static LEFT: [Left; CPUS] =
    [const { Left { header: AtomicU64::new(0), next: AtomicU64::new(0), bytes: AtomicU32::new(0) } }; CPUS];

/// Tells the reader of the object that has this address in QEMU's process; of the first one also that there is a process.
pub(crate) fn object_loaded(inside: usize) {
    // SAFETY: of the runtime; it looks for the address in `/proc/self/maps`.
    unsafe { __slimline_loaded(inside) };
}

/// Where the calling thread's next word goes.
fn cursor() -> usize {
    let cursor: usize;
    // SAFETY: the runtime's thread-local variable of that name, by its offset from the thread pointer.
    unsafe {
        asm!("mov {0}, qword ptr [rip + __slimline_cursor@GOTTPOFF]", "mov {0}, fs:[{0}]", out(reg) cursor,
            options(nostack, preserves_flags, readonly));
    }
    cursor
}

fn set_cursor(cursor: usize) {
    // SAFETY: as above.
    unsafe {
        asm!("mov {0}, qword ptr [rip + __slimline_cursor@GOTTPOFF]", "mov fs:[{0}], {1}", out(reg) _, in(reg) cursor,
            options(nostack, preserves_flags));
    }
}

/// What QEMU tells of an access beside its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) is_store: bool,
    /// The binary logarithm of its bytes.
    pub(crate) size_shift: u32,
}

impl Kind {
    /// As 7.2 and 10.0 keep it; whether this one does is found out before ([`is_inline`]).
    fn inline(kind: u32) -> Self {
        Self { is_store: kind >> 17 & 1 != 0, size_shift: kind >> 4 & 7 }
    }
}

/// Whether QEMU keeps it in the bits where [`Kind::inline`] looks; `ask` is what its functions say.
pub(crate) fn is_inline(ask: impl Fn(u32) -> Kind) -> bool {
    (0..32).map(|bit| 1 << bit).chain([0x70, 0x2_0070]).all(|kind| ask(kind) == Kind::inline(kind))
}

/// QEMU calls it for each piece of an access that was asked for with an [`Asked`]. On version 7.2 pieces of vectors have 8 bytes, later 16.
///
/// # Safety
/// `asked` is an [`Asked`] that lives on.
pub(crate) unsafe extern "C" fn on_access(cpu: c_uint, kind: u32, address: u64, asked: *mut c_void) {
    // SAFETY: promised by the caller.
    unsafe { access(cpu, Kind::inline(kind), address, asked) };
}

/// The same where that is in other bits.
///
/// # Safety
/// Likewise.
pub(crate) unsafe extern "C" fn on_access_elsewhere(cpu: c_uint, kind: u32, address: u64, asked: *mut c_void) {
    // SAFETY: promised by the caller.
    unsafe { access(cpu, super::translation::ask(kind), address, asked) };
}

/// An access of that kind.
///
/// # Safety
/// `asked` is an [`Asked`] that lives on.
#[inline(always)]
pub(crate) unsafe fn access(cpu: c_uint, kind: Kind, address: u64, asked: *mut c_void) {
    // SAFETY: promised by the caller.
    let Asked { load, store, is_atomic } = unsafe { &*asked.cast::<Asked>() };
    // SAFETY: of the runtime.
    let gate = unsafe { &__slimline_gate };
    let Some(Described { header, bytes }) = *(if kind.is_store { store } else { load }) else { return };
    if gate[0].load(Relaxed) != 0 {
        return;
    }
    if bytes > 8 && goes_on(cpu as usize, 1 << kind.size_shift, address, (header.word(), bytes)) {
        return;
    }
    let mut at = cursor();
    if at & ROOM_BIT == 0 {
        // SAFETY: that is what the thread's cursor is.
        at = unsafe { __slimline_next_chunk(at) };
    }
    let mut write = |word: u64| {
        // SAFETY: a record that begins where there is room may end beyond it, in memory that is the chunk's, too.
        unsafe { (at as *mut u64).write(word) };
        at += size_of::<u64>();
    };
    write(header.word());
    if *is_atomic {
        write(stamp());
    }
    write(address);
    set_cursor(at);
}

/// The time for a record that needs it.
pub(crate) fn stamp() -> u64 {
    // SAFETY: of the runtime.
    let gate = unsafe { &__slimline_gate };
    // SAFETY: every x86-64 processor has it.
    if gate[SEVERAL_OFFSET].load(Relaxed) == 0 { NO_STAMP } else { unsafe { _rdtsc() } }
}

/// Whether a piece belongs to the access before it.
#[inline]
fn goes_on(cpu: usize, piece: u32, address: u64, (header, bytes): (u64, u32)) -> bool {
    let Some(left) = LEFT.get(cpu) else { return false };
    let rest = left.bytes.load(Relaxed);
    let is_rest = rest > 0 && left.header.load(Relaxed) == header && left.next.load(Relaxed) == address;
    left.next.store(address.wrapping_add(u64::from(piece)), Relaxed);
    left.header.store(header, Relaxed);
    left.bytes.store(if is_rest { rest } else { bytes }.saturating_sub(piece), Relaxed);
    is_rest
}
