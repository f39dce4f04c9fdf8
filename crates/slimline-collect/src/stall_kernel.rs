//! The known program that calibration samples: one load that misses the core's caches, at a known address.
#![allow(unsafe_code)] // the load's address must be known and what follows it fixed, which takes assembly

use std::arch::naked_asm;
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// Nodes in the chain. They fill 8 MiB: flushing a smaller one between walks takes ten times as long as the walks.
const NODES: usize = 16 << 10;

/// Length in bytes of the chase's load.
pub(crate) const LOAD_BYTES: u64 = 3;
/// One-byte instructions after the load: as far as a sample's distance from it can be told.
pub(crate) const NOPS: u64 = 6;

/// One of every eight lines: all fall into an eighth of a cache's sets, where an eighth of a second-level cache's capacity
/// is theirs. And few stores set the chain up.
#[repr(C, align(512))]
struct Node {
    next: *const Node,
}

/// Follows `count` > 0 links from `node`. Begins with the load, so the function's address is the load's.
///
/// # Safety
/// `node` must lead to at least `count` valid nodes.
#[unsafe(naked)]
unsafe extern "C" fn chase(node: *const Node, count: u64) -> *const Node {
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

    let mut nodes: Vec<Node> = Vec::with_capacity(NODES);
    let base = nodes.as_ptr();
    // A full cycle in an order that no prefetcher follows: i → 5·i + 1 mod 2^k visits all (Hull and Dobell 1962); the
    // bits are then reversed, so that neighbours lie far apart.
    let place = |index: usize| index.reverse_bits() >> (usize::BITS - NODES.ilog2());
    // Reversing twice gives the index back.
    nodes.extend((0..NODES).map(|at| Node { next: base.wrapping_add(place((5 * place(at) + 1) % NODES)) }));
    let begin = Instant::now();
    let mut node = base;
    while begin.elapsed() < duration {
        // SAFETY: the links form a cycle of `nodes`, which live until the end of this function; `node` is one of them.
        node = std::hint::black_box(unsafe { chase(node, NODES as u64 / 8) });
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
