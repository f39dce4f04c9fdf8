//! The known program that calibration samples: one load that misses every cache, at a known address.
#![allow(unsafe_code)] // the load's address must be known and what follows it fixed, which takes assembly

use std::arch::naked_asm;
use std::arch::x86_64::{_mm_clflush, _mm_mfence};
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// Lines in the chain: 256 KiB, few enough that the flushes don't dominate, enough that none comes back by itself.
const LINES: usize = 4096;

/// Length in bytes of the chase's load.
pub(crate) const LOAD_BYTES: u64 = 3;
/// One-byte instructions after the load: as far as a sample's distance from it can be told.
pub(crate) const NOPS: u64 = 6;

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line {
    next: *const Line,
    rest: [u64; 7],
}

/// Follows `count` > 0 links from `line`. Begins with the load, so the function's address is the load's.
///
/// # Safety
/// `line` must lead to at least `count` valid lines.
#[unsafe(naked)]
unsafe extern "C" fn chase(line: *const Line, count: u64) -> *const Line {
    naked_asm!(
        "2:",
        "mov rdi, [rdi]", // 48 8b 3f
        "nop",
        "nop",
        "nop",
        "nop",
        "nop",
        "nop",
        "dec rsi",
        "jnz 2b",
        "mov rax, rdi",
        "ret",
    )
}

/// Prints the address of the stalled load to standard output (hex, one line), then stalls on it for `duration`.
///
/// # Errors
/// Where standard output can't be written.
pub fn run_stall_kernel(duration: Duration) -> io::Result<()> {
    let mut output = io::stdout();
    writeln!(output, "{:#x}", chase as *const () as usize)?;
    output.flush()?;

    let mut lines = vec![Line { next: std::ptr::null(), rest: [0; 7] }; LINES];
    let base = lines.as_ptr();
    // A full cycle in an order that no prefetcher follows: i → 5·i + 1 mod 2^k visits all (Hull and Dobell 1962); the
    // bits are then reversed, so that neighbours lie far apart.
    let place = |index: usize| index.reverse_bits() >> (usize::BITS - LINES.ilog2());
    for index in 0..LINES {
        let next = (5 * index + 1) % LINES;
        lines[place(index)].next = base.wrapping_add(place(next));
    }
    let begin = Instant::now();
    while begin.elapsed() < duration {
        for line in &lines {
            // SAFETY: every x86-64 CPU has these instructions, and they change no value.
            unsafe { _mm_clflush(std::ptr::from_ref(line).cast()) };
        }
        // SAFETY: as above. No flush may be under way when the chase begins.
        unsafe { _mm_mfence() };
        // SAFETY: the links form a cycle of `LINES` lines of `lines`, which lives until the end of this function.
        std::hint::black_box(unsafe { chase(base, LINES as u64) });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_comes_first_and_is_as_long_as_said() {
        let code = chase as *const u8;
        // SAFETY: the function's code is readable and longer than this.
        let bytes = unsafe { std::slice::from_raw_parts(code, (LOAD_BYTES + NOPS) as usize) };
        assert_eq!(bytes[..3], [0x48, 0x8b, 0x3f]);
        assert!(bytes[3..].iter().all(|&byte| byte == 0x90), "{bytes:x?}");
    }
}
