//! Accesses as they happen: each goes on in its block's record, or begins one, where the thread's cursor leads.
#![allow(unsafe_code)] // what the runtime exports, memory that it hands out, and a register

use std::arch::x86_64::_rdtsc;
use std::arch::{asm, global_asm};
use std::ffi::{c_uint, c_void};
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::atomic::{AtomicU8, AtomicU64, compiler_fence};

use slimline_trace::stream::record::{Header, NO_STAMP, REGION, SiteKind, UNWATCH, ValueKind, WATCH};
use slimline_trace::stream::ring::{GATE_BYTES, NOTED_ALWAYS, ROOM_BIT, SEVERAL_OFFSET};
use slimline_trace::stream::translated::{Counter, MOST_NOTED};

use crate::code_file::count;
use crate::translation;
use crate::values;

unsafe extern "C" {
    static __slimline_gate: [AtomicU8; GATE_BYTES];
    fn __slimline_next_chunk(cursor: usize) -> usize;
    fn __slimline_loaded(inside: usize);
    fn __slimline_start();
    fn __slimline_stop();
    fn __slimline_note(words: *const u64, count: usize, recorded: u32);
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

/// The program tells something of itself, by words that are where it has just loaded from.
pub(crate) unsafe extern "C" fn on_note(_: c_uint, _: u32, address: u64, _: *mut c_void) {
    let words = address.wrapping_add(translation::guest_base()) as *const u64;
    // SAFETY: the program has loaded that word.
    let count = unsafe { words.read_unaligned() };
    let mut record = [0; MOST_NOTED];
    let Some(record) = usize::try_from(count).ok().and_then(|count| record.get_mut(..count)) else { return };
    for (place, word) in record.iter_mut().enumerate() {
        // SAFETY: the marker says that these lie behind it; who writes one lies to itself.
        *word = unsafe { words.add(1 + place).read_unaligned() };
    }
    let is_known = |header: &Header| record.first() == Some(&header.word());
    if [REGION, WATCH, UNWATCH].iter().any(is_known) {
        // SAFETY: of the runtime; whole records, on a thread that runs the program's code and whose cursor is in its place.
        unsafe { __slimline_note(record.as_ptr(), record.len(), NOTED_ALWAYS) };
    }
}

/// Virtual CPUs whose calls of allocators are followed; QEMU gives out numbers anew, so these are as many as threads run at a time.
pub(crate) const CPUS: usize = 4096;

/// Accesses of an instruction, as they are asked for. Never freed, as QEMU may run the code as long as there is a process.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    pub(crate) load: Option<Told>,
    pub(crate) store: Option<Told>,
}

/// A load or a store that is asked for, or an update, which is told as the store.
#[derive(Debug)]
pub(crate) struct Told {
    /// What its record has for a header once it is told.
    pub(crate) header: u64,
    /// What the record that it goes on in has before; 0: it begins one.
    pub(crate) before: u64,
    /// Bytes of that.
    pub(crate) before_bytes: u32,
    /// Of an update's record the first word is a time stamp.
    pub(crate) kind: SiteKind,
    /// Bytes that it accesses, which may come in pieces.
    pub(crate) bytes: u32,
    /// Its address is told by a word.
    pub(crate) has_word: bool,
    /// What its value is, which is told by the next one.
    pub(crate) value: Option<ValueKind>,
    /// The header of a record of it alone, where it goes on in one that was not begun; 0: not described yet.
    pub(crate) alone: AtomicU64,
    /// The same without its value.
    pub(crate) alone_unread: AtomicU64,
    /// Where its instruction is in QEMU's process.
    pub(crate) place: u64,
}

/// What a thread told last.
#[repr(C)]
struct Last {
    /// Where its record begins that may go on; null: nowhere.
    record: *mut u64,
    /// Of an access in pieces, which one it is, where its next piece is, and bytes of the rest.
    told: *const Told,
    next: u64,
    rest: u64,
}

global_asm!(
    ".pushsection .tbss.slimline_last, \"awT\", @nobits",
    ".balign 8",
    ".type slimline_last, @object",
    "slimline_last:",
    ".zero {bytes}",
    ".size slimline_last, {bytes}",
    ".popsection",
    bytes = const size_of::<Last>(),
);

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

/// The calling thread's.
fn last() -> *mut Last {
    let last: *mut Last;
    // SAFETY: the plugin's own thread-local variable, by its offset from the thread pointer, which stands where that leads.
    unsafe {
        asm!("mov {0}, qword ptr [rip + slimline_last@GOTTPOFF]", "add {0}, fs:[0]", out(reg) last,
            options(nostack, readonly));
    }
    last
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

/// QEMU calls it for each piece of an access that was asked for with an [`Asked`], of which any may have values, or none. On version 7.2
/// pieces of vectors have 8 bytes, later 16.
///
/// # Safety
/// `asked` is an [`Asked`] that lives on.
pub(crate) unsafe extern "C" fn on_access<const VALUES: bool>(_: c_uint, kind: u32, address: u64, asked: *mut c_void) {
    // SAFETY: promised by the caller.
    unsafe { access::<VALUES>(Kind::inline(kind), kind, address, asked) };
}

/// The same where that is in other bits.
///
/// # Safety
/// Likewise.
pub(crate) unsafe extern "C" fn on_access_elsewhere<const VALUES: bool>(
    _: c_uint,
    kind: u32,
    address: u64,
    asked: *mut c_void,
) {
    // SAFETY: promised by the caller.
    unsafe { access::<VALUES>(translation::ask(kind), kind, address, asked) };
}

/// QEMU calls it where an instruction makes one access, of at most eight bytes and no update.
///
/// # Safety
/// `told` is a [`Told`] that lives on.
pub(crate) unsafe extern "C" fn on_one<const VALUES: bool>(_: c_uint, kind: u32, address: u64, told: *mut c_void) {
    // SAFETY: promised by the caller.
    tell::<VALUES>(unsafe { &*told.cast::<Told>() }, kind, address);
}

/// An access of that kind, which QEMU tells by a number.
///
/// # Safety
/// `asked` is an [`Asked`] that lives on.
#[inline(always)]
pub(crate) unsafe fn access<const VALUES: bool>(kind: Kind, number: u32, address: u64, asked: *mut c_void) {
    // SAFETY: promised by the caller.
    let Asked { load, store } = unsafe { &*asked.cast::<Asked>() };
    let Some(told) = (if kind.is_store { store } else { load }) else { return };
    if told.bytes <= 8 || !goes_on(told, 1 << kind.size_shift, address) {
        tell::<VALUES>(told, number, address);
    }
}

/// Whether what is accessed now goes into the trace.
#[inline(always)]
pub(crate) fn is_traced() -> bool {
    // SAFETY: of the runtime.
    let gate = unsafe { &__slimline_gate };
    gate[0].load(Relaxed) == 0
}

/// Has an access in the trace, with its value if it has one that is told.
#[inline(always)]
fn tell<const VALUES: bool>(told: &Told, kind: u32, address: u64) {
    if !is_traced() {
        return;
    }
    let has_value = VALUES && told.value.is_some();
    let value = if has_value { values::value(kind, address, told.bytes) } else { None };
    if has_value && value.is_none() {
        return tell_unread(told, address);
    }
    let (at, last) = (cursor(), last());
    // SAFETY: only the calling thread has it.
    let record = unsafe { (*last).record };
    // Where the cursor is right behind what is asked for, that is a record of this thread's last chunk, and no other one is behind it.
    // SAFETY: it began there, in memory that the cursor leads into.
    let goes_on = record.wrapping_byte_add(told.before_bytes as usize) as usize == at
        && told.before != 0
        && unsafe { record.read() } == told.before;
    if !goes_on {
        let header = if told.before == 0 { told.header } else { alone(told) };
        return begin(header, told.kind, [Some(address), value], (at, last));
    }
    if told.has_word {
        // SAFETY: a record that begins where there is room may end beyond it, in memory that is the chunk's, too.
        unsafe { (at as *mut u64).write(address) };
        let mut end = at + size_of::<u64>();
        if let Some(value) = value {
            // SAFETY: likewise.
            unsafe { (end as *mut u64).write(value) };
            end += size_of::<u64>();
        }
        set_cursor(end);
        // Readers who see the header see all of its words.
        compiler_fence(Release);
    }
    // SAFETY: as above.
    unsafe { record.write_volatile(told.header) };
}

/// Begins a record of an access with these words, where the thread's cursor leads; not where its header, 0, could not be described.
#[inline(always)]
fn begin(header: u64, kind: SiteKind, words: [Option<u64>; 2], (mut at, last): (usize, *mut Last)) {
    if header == 0 {
        return;
    }
    if at & ROOM_BIT == 0 {
        // SAFETY: that is what the thread's cursor is.
        at = unsafe { __slimline_next_chunk(at) };
    }
    let begins = at as *mut u64;
    // SAFETY: only the calling thread has it.
    unsafe { (*last).record = begins };
    let mut write = |word: u64| {
        // SAFETY: a record that begins where there is room may end beyond it, in memory that is the chunk's, too.
        unsafe { (at as *mut u64).write(word) };
        at += size_of::<u64>();
    };
    write(header);
    if kind == SiteKind::Update {
        write(stamp());
    }
    words.into_iter().flatten().for_each(write);
    set_cursor(at);
}

/// Has an access in the trace whose value can't be told.
#[cold]
fn tell_unread(told: &Told, address: u64) {
    count(Counter::UnreadValues);
    let header = described(&told.alone_unread, || translation::alone(told, None));
    begin(header, told.kind, [Some(address), None], (cursor(), last()));
}

/// The header of a record that begins with what else goes on in one; 0 where it can't be described.
#[cold]
fn alone(told: &Told) -> u64 {
    described(&told.alone, || translation::alone(told, told.value))
}

/// A header that is described when it is needed first; 0 where it can't be.
fn described(known: &AtomicU64, describe: impl FnOnce() -> Option<Header>) -> u64 {
    match known.load(Relaxed) {
        0 => {
            let header = describe().map_or(0, Header::word);
            known.store(header, Relaxed);
            header
        }
        known => known,
    }
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
fn goes_on(told: &Told, piece: u64, address: u64) -> bool {
    // SAFETY: only the calling thread has it.
    let last = unsafe { &mut *last() };
    let is_rest = last.rest > 0 && std::ptr::eq(last.told, told) && last.next == address;
    let rest = if is_rest { last.rest } else { told.bytes.into() };
    (last.told, last.next, last.rest) = (told, address.wrapping_add(piece), rest.saturating_sub(piece));
    is_rest
}
