//! The known program that calibration samples: one load that misses the core's caches, at a known address.
#![allow(unsafe_code)] // the load's address must be known and what follows it fixed, which takes assembly

use std::arch::naked_asm;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::time::Duration;

use memmap2::MmapOptions;
use rustix::process::configure_performance_counters;

use crate::clock::{monotonic_ns, thread_cpu_ns};
use crate::trigger::MIN_PAIRS;

/// Nodes in the chain. They span 1 MiB: no first-level cache holds them, and few second-level ones. Measured: from 64 KiB
/// to 8 MiB the samples point at the same instruction, but the memory for 8 MiB takes longer to get than all the rest.
const NODES: usize = 2 << 10;
/// CPU time of a slice without interrupts: with them it has two or three.
const SLICE_NS: u64 = 80_000;

/// Length in bytes of the chase's load.
pub(crate) const LOAD_BYTES: u64 = 3;
/// One-byte instructions after the load: as far as a sample's distance from it can be told.
pub(crate) const NOPS: u64 = 6;

/// One of every eight lines: all fall into an eighth of a cache's sets, where an eighth of its capacity is theirs. And
/// few stores set the chain up.
const NODE_BYTES: usize = 512;

/// Follows `count` > 0 links from `node`. Begins with the load, so the function's address is the load's.
///
/// # Safety
/// `node` must lead to at least `count` valid nodes.
#[unsafe(naked)]
unsafe extern "C" fn chase(node: *const u8, count: u64) -> *const u8 {
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

/// Stalls on the load for `duration` of CPU time or a little longer, in slices that are sampled by turns, and prints what
/// [`parse`](StallKernel::parse) reads.
///
/// # Errors
/// Where there is no memory, or standard output can't be written.
pub fn run_stall_kernel(duration: Duration) -> io::Result<()> {
    // Setting up would take twice as long under the calibration's fast trigger.
    // Where that is refused (a sandbox, or a trigger that is none of perf's), all slices are sampled: then they tell of no
    // price, but still of the skid.
    let sample = |sample| {
        let _ = configure_performance_counters(sample);
    };
    sample(false);
    // Page faults one by one would take longer than all the slices.
    let mut memory = MmapOptions::new().len(NODES * NODE_BYTES).populate().map_anon()?;
    let base = memory.as_mut_ptr();
    // A full cycle in an order that no prefetcher follows: i → 5·i + 1 mod 2^k visits all (Hull and Dobell 1962); the
    // bits are then reversed, so that neighbours lie far apart.
    let address =
        |index: usize| base.wrapping_add((index.reverse_bits() >> (usize::BITS - NODES.ilog2())) * NODE_BYTES);
    for index in 0..NODES {
        let next = address((5 * index + 1) % NODES);
        // SAFETY: `address` gives the NODES multiples of NODE_BYTES in the mapping, which is aligned to pages.
        unsafe { address(index).cast::<*const u8>().write(next) };
    }

    let mut node = base.cast_const();
    // SAFETY: the links form a cycle within `memory`, which lives until the end of this function; `node` is on it.
    let mut follow = |links| node = unsafe { chase(node, links) };
    follow(NODES as u64);
    let walk_ns = timed(|| follow(NODES as u64));
    let links = (NODES as u64 * SLICE_NS / walk_ns.max(1)).max(1);
    let mut slice = || follow(links);
    let mut output = format!("{:#x}\n", chase as *const () as usize);
    let begin_ns = thread_cpu_ns();
    let mut pairs = 0;
    while pairs < MIN_PAIRS || thread_cpu_ns() - begin_ns < duration.as_nanos() as u64 {
        pairs += 1;
        let calm_ns = timed(&mut slice);
        sample(true);
        let begin_ns = monotonic_ns();
        let sampled_ns = timed(&mut slice);
        let end_ns = monotonic_ns();
        sample(false);
        writeln!(output, "{calm_ns} {sampled_ns} {begin_ns} {end_ns}").map_err(io::Error::other)?;
    }
    io::stdout().write_all(output.as_bytes())
}

/// CPU time that `work` takes.
fn timed(work: impl FnOnce()) -> u64 {
    let begin_ns = thread_cpu_ns();
    work();
    thread_cpu_ns() - begin_ns
}

/// What the kernel's process says of itself.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct StallKernel {
    /// Address of the stalled load.
    pub(crate) load: u64,
    pub(crate) slices: Vec<Slices>,
}

/// The same work without the trigger, then with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slices {
    /// CPU time.
    pub(crate) calm_ns: u64,
    pub(crate) sampled_ns: u64,
    /// `CLOCK_MONOTONIC` around the sampled one.
    pub(crate) begin_ns: u64,
    pub(crate) end_ns: u64,
}

impl StallKernel {
    /// Reads what [`run_stall_kernel`] prints: the load's address in hexadecimal digits, and a line of four numbers
    /// for each two slices.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let load = u64::from_str_radix(lines.next()?.strip_prefix("0x")?, 16).ok()?;
        let slices = lines.map(|line| {
            let mut numbers = line.split(' ').map(|number| number.parse::<u64>().ok());
            let mut next = || numbers.next().flatten();
            Some(Slices { calm_ns: next()?, sampled_ns: next()?, begin_ns: next()?, end_ns: next()? })
        });
        Some(Self { load, slices: slices.collect::<Option<_>>()? })
    }
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

    #[test]
    fn what_it_prints_is_read_back() {
        let slices = Slices { calm_ns: 100, sampled_ns: 150, begin_ns: 7, end_ns: 9 };
        let read = StallKernel::parse("0x1f\n100 150 7 9\n");
        assert_eq!(read, Some(StallKernel { load: 0x1f, slices: vec![slices] }));
        assert_eq!(StallKernel::parse("0x1f\n"), Some(StallKernel { load: 0x1f, slices: Vec::new() }));
        for damaged in ["", "1f\n", "0x1f\n1 2 3\n", "0x1f\n1 2 x 4\n"] {
            assert_eq!(StallKernel::parse(damaged), None, "{damaged:?}");
        }
    }
}
