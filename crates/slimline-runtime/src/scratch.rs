//! Chunks that nobody reads: for programs that run by themselves, and where there is no other.
#![allow(unsafe_code)] // memory that instrumented code writes into

use core::cell::UnsafeCell;

use slimline_trace::stream::ring::{CHUNK_BYTES, OVERFLOW_BYTES, ROOM_BIT, SLOT_BYTES};

use crate::{kernel, own_memory};

/// Holds a chunk, wherever it begins: less than two halves until one has the bit.
const BYTES: usize = SLOT_BYTES + CHUNK_BYTES + OVERFLOW_BYTES;

#[repr(C, align(4096))]
struct Shared(UnsafeCell<[u8; BYTES]>);
// SAFETY: threads write there all at once, and nobody ever reads.
unsafe impl Sync for Shared {}

/// For those that get no memory of their own. Takes none until it is used.
static SHARED: Shared = Shared(UnsafeCell::new([0; BYTES]));

/// A chunk for all.
pub(crate) fn shared() -> usize {
    chunk_in(SHARED.0.get() as usize)
}

/// A chunk for one thread; none where the system refuses. To be given back with [`free`].
pub(crate) fn private() -> Option<usize> {
    let mapped = kernel::map(BYTES)?;
    let chunk = chunk_in(mapped);
    // SAFETY: just mapped; a mapping's parts can be given back one by one.
    unsafe {
        kernel::unmap(mapped, chunk - mapped);
        kernel::unmap(chunk + CHUNK_BYTES + OVERFLOW_BYTES, mapped + BYTES - (chunk + CHUNK_BYTES + OVERFLOW_BYTES));
    }
    own_memory::note(chunk, CHUNK_BYTES + OVERFLOW_BYTES);
    Some(chunk)
}

/// Gives a chunk from [`private`] back.
///
/// # Safety
/// Nobody may write there any more.
pub(crate) unsafe fn free(chunk: usize) {
    // SAFETY: promised by the caller; this is what `private` has left.
    unsafe { kernel::unmap(chunk, CHUNK_BYTES + OVERFLOW_BYTES) };
}

/// The first chunk in [`BYTES`] of memory, the beginning of a page.
fn chunk_in(start: usize) -> usize {
    (start + CHUNK_BYTES - 1) & !(CHUNK_BYTES - 1) | ROOM_BIT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_inside_and_has_the_bit() {
        for start in (0..4 * SLOT_BYTES).step_by(4096).map(|offset| (1 << 40) + offset) {
            let chunk = chunk_in(start);
            assert!(chunk >= start && chunk + CHUNK_BYTES + OVERFLOW_BYTES <= start + BYTES, "{start:#x}");
            assert!(
                chunk & ROOM_BIT != 0 && chunk.is_multiple_of(CHUNK_BYTES) && (chunk + CHUNK_BYTES) & ROOM_BIT == 0
            );
        }
    }

    #[test]
    fn all_of_a_private_chunk_can_be_written() {
        let chunk = private().unwrap();
        for at in (chunk..chunk + CHUNK_BYTES + OVERFLOW_BYTES).step_by(8) {
            // SAFETY: ours.
            unsafe { (at as *mut u64).write_volatile(1) };
        }
        // SAFETY: as above, and not used again.
        unsafe { free(chunk) };
    }
}
