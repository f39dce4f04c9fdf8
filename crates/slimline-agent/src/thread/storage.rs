//! Where a thread's static thread-local storage is: one block for each module that was loaded when the process started,
//! all at fixed distances below the thread pointer, and above it the C library's control block.
//!
//! The dynamic linker says where the first thread's blocks are, and so how far below. Blocks of modules that are loaded
//! later (`dlopen`) are allocated when a thread first uses them: as heap blocks, which the hooks see.
#![allow(unsafe_code)] // reads the thread pointer

use core::arch::asm;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU64, AtomicUsize};

use slimline_trace::wire::{NO_MODULE, RangeEvent, RangeKind};

use super::Thread;
use crate::{recorder, unwind};

/// Size of `tcbhead_t`, which glibc keeps for ever because sanitizers rely on it. Behind it `struct pthread` goes on,
/// whose size is the library's own.
const CONTROL_BYTES: u64 = 704;
/// Static storage is small: a block farther away is none of it.
const MAX_STATIC_BYTES: u64 = 64 << 20;

/// A module's block: how far it begins below the thread pointer, its size, what was added to the module's addresses.
struct Block {
    below: AtomicU64,
    bytes: AtomicU64,
    bias: AtomicU64,
}

/// As many modules with storage of their own as are told; most programs have three or four.
const MAX_BLOCKS: usize = 128;
static BLOCKS: [Block; MAX_BLOCKS] =
    [const { Block { below: AtomicU64::new(0), bytes: AtomicU64::new(0), bias: AtomicU64::new(0) } }; MAX_BLOCKS];
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// The first word of the control block is its own address.
fn thread_pointer() -> u64 {
    let pointer;
    // SAFETY: the ABI's own: `fs:0` holds the thread pointer.
    unsafe { asm!("mov {}, qword ptr fs:[0]", out(reg) pointer, options(nostack, readonly, preserves_flags)) };
    pointer
}

/// Asks the dynamic linker. While there is one thread.
pub(super) fn prepare() {
    let pointer = thread_pointer();
    let mut count = 0;
    unwind::each_object(&mut |info| {
        // SAFETY: the linker's headers.
        let segments = unsafe { core::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
        let bytes = segments.iter().find(|segment| segment.p_type == libc::PT_TLS).map_or(0, |segment| segment.p_memsz);
        let below = pointer.wrapping_sub(info.dlpi_tls_data as u64);
        if !info.dlpi_tls_data.is_null() && bytes > 0 && (bytes..MAX_STATIC_BYTES).contains(&below) {
            let block = &BLOCKS[count];
            block.below.store(below, Relaxed);
            block.bytes.store(bytes, Relaxed);
            block.bias.store(info.dlpi_addr, Relaxed);
            count += 1;
        }
        count == MAX_BLOCKS
    });
    COUNT.store(count, Release);
}

fn blocks() -> &'static [Block] {
    &BLOCKS[..COUNT.load(Acquire)]
}

fn tell(thread: &Thread, kind: RangeKind, base: u64, bytes: u64, of: u64) {
    let time_ns = recorder::now_ns();
    let event = RangeEvent { time_ns, base, bytes, stack: 0, kind: kind as u32, of, is_shared: 0, name_bytes: 0 };
    if !recorder::emit_range(thread, &event, &[]) {
        thread.count_dropped();
    }
}

/// Tells of the calling thread's storage. Safe in a signal handler.
pub(super) fn tell_begin(thread: &Thread) {
    let pointer = thread_pointer();
    for block in blocks() {
        let base = pointer.wrapping_sub(block.below.load(Relaxed));
        tell(thread, RangeKind::ThreadLocal, base, block.bytes.load(Relaxed), block.bias.load(Relaxed));
    }
    tell(thread, RangeKind::ThreadLocal, pointer, CONTROL_BYTES, NO_MODULE);
}

/// Tells that it went with the calling thread.
pub(super) fn tell_end(thread: &Thread) {
    let below = blocks().iter().map(|block| block.below.load(Relaxed)).max().unwrap_or(0);
    tell(thread, RangeKind::ThreadLocalGone, thread_pointer().wrapping_sub(below), below + CONTROL_BYTES, 0);
}
