//! Calls of allocators: which blocks there are, and where in the program each was asked for.
//!
//! ```text
//!   call malloc        ─► entered: arguments, and where on the stack the return address is
//!     …  calls inside     (an allocator that calls another one is told once, as the program calls it)
//!   ret                ─► returned: the load of that address; the block is in rax
//! ```
//!
//! Allocators are functions by their names, wherever they are linked: those of the C library, of a static program, and a program's own.
//! Of what is left by other ways than its end (an exception, `longjmp`) nothing is told: it returned no block.
#![allow(unsafe_code)] // what the runtime exports, and the program's memory

use std::ffi::{c_uint, c_void};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicPtr, AtomicU64};

use slimline_trace::stream::record::{Header, SiteKind};
use slimline_trace::stream::ring::NOTED_ALWAYS;

use crate::access::{CPUS, Kind, access, stamp};
use crate::allocators::{Allocator, Does};
use crate::registers::{self, Registers};
use crate::translation::{call_site, guest_base};

unsafe extern "C" {
    fn __slimline_note(words: *const u64, count: usize, recorded: u32);
}

/// A call of an allocator that a virtual CPU is in: used by one thread at a time.
struct Call {
    /// Where the return address is, in the program; 0: none.
    slot: AtomicU64,
    allocator: AtomicPtr<Allocator>,
    return_address: AtomicU64,
    /// Bytes that are asked for.
    bytes: AtomicU64,
    /// Where the block is stored, of what does not return it.
    place: AtomicU64,
}

static CALLS: [Call; CPUS] = [const {
    Call {
        slot: AtomicU64::new(0),
        allocator: AtomicPtr::new(std::ptr::null_mut()),
        return_address: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
        place: AtomicU64::new(0),
    }
}; CPUS];

/// Headers of call sites that a virtual CPU found last.
struct Known {
    return_address: AtomicU64,
    /// The allocator, and in its lowest bits which of its records.
    what: AtomicU64,
    header: AtomicU64,
}

/// Of each virtual CPU, a power of two.
const MOST_KNOWN: usize = 128;
static KNOWN: [[Known; MOST_KNOWN]; CPUS] = [const {
    [const { Known { return_address: AtomicU64::new(0), what: AtomicU64::new(0), header: AtomicU64::new(0) } };
        MOST_KNOWN]
}; CPUS];

/// A virtual CPU begins anew, with another thread.
pub(crate) fn forget(cpu: usize) {
    if let Some(call) = CALLS.get(cpu) {
        call.slot.store(0, Relaxed);
    }
}

/// A word of the program's memory.
///
/// # Safety
/// The program has one there.
unsafe fn word(address: u64) -> u64 {
    // SAFETY: promised by the caller; where the program has it is known since its first block was translated.
    unsafe { (address.wrapping_add(guest_base()) as *const u64).read_unaligned() }
}

/// Called for the first instruction of an allocator, by way of [`crate::registers`].
pub(crate) extern "C" fn entered(cpu: c_uint, allocator: *mut c_void, rbp: *const u64) {
    let Some(call) = CALLS.get(cpu as usize).filter(|_| registers::are_known()) else { return };
    let registers = Registers::at(rbp);
    let (slot, running) = (registers.stack_pointer(), call.slot.load(Relaxed));
    // It is called by the one that runs, or is what that goes on as.
    if running != 0 && slot <= running {
        return;
    }
    // SAFETY: what was asked for at this instruction, which is never freed.
    let of = unsafe { &*allocator.cast::<Allocator>() };
    // SAFETY: where the stack pointer leads at a function's beginning.
    let return_address = unsafe { word(slot) };
    call.slot.store(slot, Relaxed);
    call.allocator.store(allocator.cast(), Relaxed);
    call.return_address.store(return_address, Relaxed);
    call.bytes.store(of.bytes(|number| registers.argument(number)), Relaxed);
    call.place.store(registers.argument(of.place), Relaxed);
    let block = registers.argument(of.block);
    match of.does {
        Does::Frees => tell(cpu, of, return_address, SiteKind::Free, &[block]),
        Does::Resizes => tell(cpu, of, return_address, SiteKind::ResizeBegins, &[block]),
        Does::Allocates => {}
    }
}

/// Called for the load of an instruction that returns, likewise.
///
/// # Safety
/// As of [`access`].
pub(crate) unsafe extern "C" fn returned(cpu: c_uint, _: u32, address: u64, asked: *mut c_void, rbp: *const u64) {
    // SAFETY: promised by the caller.
    unsafe { access::<false>(Kind { is_store: false, size_shift: 3 }, 0, address, asked) };
    let registers = Registers::at(rbp);
    if !registers::are_known() && !registers::look(registers, address) {
        return;
    }
    let Some(call) = CALLS.get(cpu as usize) else { return };
    let slot = call.slot.load(Relaxed);
    if slot == 0 || address < slot {
        return;
    }
    call.slot.store(0, Relaxed);
    // It was left for something further out.
    if address != slot {
        return;
    }
    // SAFETY: never freed.
    let Some(of) = (unsafe { call.allocator.load(Relaxed).as_ref() }) else { return };
    let (bytes, place) = (call.bytes.load(Relaxed), call.place.load(Relaxed));
    let block = match (of.place, registers.result()) {
        (0, block) => block,
        // SAFETY: it has just stored a block there.
        (_, 0) => unsafe { word(place) },
        (_, _) => 0,
    };
    let kind = match of.does {
        Does::Allocates => SiteKind::Allocate,
        Does::Resizes => SiteKind::Resize,
        Does::Frees => return,
    };
    tell(cpu, of, call.return_address.load(Relaxed), kind, &[stamp(), block, bytes]);
}

/// Writes a record of these words: also while nothing else is recorded.
fn tell(cpu: c_uint, of: &'static Allocator, return_address: u64, kind: SiteKind, words: &[u64]) {
    let Some(header) = header(cpu as usize, of, return_address, kind) else { return };
    let mut record = [header.word(), 0, 0, 0];
    record[1..=words.len()].copy_from_slice(words);
    // SAFETY: a whole record, and the calling thread is one that runs the program's code.
    unsafe { __slimline_note(record.as_ptr(), 1 + words.len(), NOTED_ALWAYS) };
}

/// The header of a call site's records.
fn header(cpu: usize, of: &'static Allocator, return_address: u64, kind: SiteKind) -> Option<Header> {
    let what = std::ptr::from_ref(of) as u64 | u64::from(kind == SiteKind::ResizeBegins);
    let index = (return_address ^ return_address >> 7) as usize % MOST_KNOWN;
    let known = &KNOWN.get(cpu)?[index];
    if known.return_address.load(Relaxed) == return_address && known.what.load(Relaxed) == what {
        return Header::from_word(known.header.load(Relaxed));
    }
    let header = call_site(return_address, of, kind)?;
    known.return_address.store(return_address, Relaxed);
    known.what.store(what, Relaxed);
    known.header.store(header.word(), Relaxed);
    Some(header)
}
