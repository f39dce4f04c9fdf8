//! What kernels don't tell of their machine: what caches and memory take, and how much of the last level is to be had.
//!
//! In a virtual machine, and beside other programs, that may be far less than all of it. Both are seen in how long loads take, each of
//! which waits for the one before, along lines of some bytes again and again:
//!
//! ```text
//!   cycles │                         ●──●──●  memory
//!          │                      ●
//!          │          ●──●──●──●            L3: so much is to be had
//!          │    ●──●                        L2
//!          │ ●                              L1
//!          └──────────────────────────────
//!            bytes
//! ```

use std::hint::black_box;
use std::time::{Duration, Instant};

use super::{Cache, Holds, Machine, MachineError};
use crate::chance::splitmix;

/// Bytes that are walked in one go: as many pages as any first TLB holds, and more lines than a prefetcher sees an order in.
const BLOCK_BYTES: u64 = 1 << 16;
/// The most bytes that are walked, for memory.
const MOST_BYTES: u64 = 256 << 20;
/// The fewest for memory.
const LEAST_MEMORY_BYTES: u64 = 64 << 20;
/// Memory takes so many times what the last level does, or what was seen is no memory.
const LEAST_STEP: f64 = 1.5;
/// Loads of one walk.
const LOADS: u32 = 200_000;
/// Walks of the same, of which the median counts.
const WALKS: usize = 3;

/// What was found of a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// With what was found.
    pub machine: Machine,
    /// Of the last level: bytes that are to be had, and bytes that the kernel tells. None where no end of them was seen.
    pub last_level: Option<(u64, u64)>,
    /// Whether the last level's latency was seen; else it is as before, or as that of the one before it.
    pub has_last_latency: bool,
    /// Whether memory was reached; else its latency is as before.
    pub has_memory: bool,
}

impl Machine {
    /// This machine as it is now, by loads on the core that runs this; takes a second or two. Its latencies, those of caches of
    /// data and of one memory, are in cycles of this core's clock while it loads.
    ///
    /// # Errors
    /// It has no caches of data or several memories, whose latencies one core can't tell; or as [`Machine::check`].
    pub fn measured(&self) -> Result<Measured, MachineError> {
        let cycle = cycle_nanoseconds();
        let line_bytes = u64::from(self.line_bytes());
        self.measured_by(|bytes| load_nanoseconds(bytes, line_bytes) / cycle)
    }

    /// The same where `cycles` tells what a load takes along so many bytes.
    fn measured_by(&self, mut cycles: impl FnMut(u64) -> f64) -> Result<Measured, MachineError> {
        let way = self.path(false);
        let [_] = self.memories[..] else {
            return Err(MachineError(format!("it has {} memories, and one core measures one", self.memories.len())));
        };
        let Some((&last, nearer)) = way.split_last() else {
            return Err(MachineError("it has no cache for data".to_owned()));
        };
        let mut machine = self.clone();
        machine.name = "measured".to_owned();
        let mut before = 0;
        let mut latency = 0.0;
        for &cache in nearer {
            let bytes = self.caches[cache].bytes;
            // Far more than the nearer one has, and so little that its pages do not all lie in a few sets.
            let walked = (bytes / 4).max(before * 2).min(bytes);
            latency = cycles(walked).max(latency);
            machine.caches[cache].latency_cycles = rounded(latency);
            before = bytes;
        }
        let Cache { bytes: told, latency_cycles: usual, .. } = self.caches[last];
        let usual_memory = self.memories[0].latency_cycles.first().copied().unwrap_or(usual);
        let most = (told * 4).clamp(LEAST_MEMORY_BYTES, MOST_BYTES);
        let memory = cycles(most);
        let first = if nearer.is_empty() { told / 2 } else { before * 2 };
        let near = cycles(first.min(told)).max(latency);
        let is_step = memory > near * LEAST_STEP;
        // Without a step all of that was memory, or none: a virtual machine may have more of a last level than its kernel tells.
        let has_memory = is_step || memory > f64::from(usual).midpoint(f64::from(usual_memory));
        let mut last_level = None;
        if has_memory {
            let most_had = told.min(most);
            let mut is_there = |bytes: u64| cycles(bytes) < near.midpoint(memory);
            // That the first of them is there was seen.
            let sizes =
                (1..).map(|half| (first << (half / 2)) * (2 + half % 2) / 2).take_while(|&bytes| bytes < most_had);
            let had = if !is_step {
                // No more than what a nearer one has: even twice that is not there.
                before
            } else if is_there(most_had) {
                told
            } else {
                sizes.take_while(|&bytes| is_there(bytes)).last().unwrap_or(first.min(told))
            };
            machine.caches[last].bytes = self.whole_sets(last, had);
            last_level = Some((machine.caches[last].bytes, told));
            machine.memories[0].latency_cycles = vec![rounded(memory)];
        }
        // Where there is nothing of it to be had nobody sees how long it takes.
        let is_seen = is_step || !has_memory;
        let seen = rounded(if is_seen { near } else { latency });
        machine.caches[last].latency_cycles = if is_seen { seen } else { usual.max(seen) };
        // Caches of instructions are taken to be as fast as those of data beside them.
        for cache in 0..machine.caches.len() {
            let Cache { holds, level, .. } = self.caches[cache];
            if let Some(&of_data) =
                way.iter().find(|&&data| holds == Holds::Instructions && self.caches[data].level == level)
            {
                machine.caches[cache].latency_cycles = machine.caches[of_data].latency_cycles;
            }
        }
        machine.check()?;
        Ok(Measured { machine, last_level, has_last_latency: is_seen, has_memory })
    }

    /// The most bytes up to these of which a cache with that many ways can be.
    fn whole_sets(&self, cache: usize, bytes: u64) -> u64 {
        let set = u64::from(self.caches[cache].ways) * u64::from(self.caches[cache].line_bytes);
        (bytes / set * set).max(set)
    }
}

fn rounded(cycles: f64) -> u32 {
    cycles.round().max(1.0) as u32
}

/// What a cycle takes: a multiplication takes three of them and what is done with its result one, on all cores of today.
fn cycle_nanoseconds() -> f64 {
    const CYCLES: f64 = 4.0;
    const ROUNDS: u32 = 1_000_000;
    // Not known to the compiler, which would else do several rounds as one.
    let (factor, bit) = (black_box(0x9e37_79b9_7f4a_7c15_u64), black_box(1));
    let round = || {
        let start = Instant::now();
        let mut value = 1_u64;
        for _ in 0..ROUNDS {
            value = value.wrapping_mul(factor) ^ bit;
        }
        black_box(value);
        start.elapsed()
    };
    let best = (0..10).map(|_| round()).min().unwrap_or(Duration::ZERO);
    best.as_secs_f64() * 1e9 / f64::from(ROUNDS) / CYCLES
}

/// What a load takes along so many bytes.
fn load_nanoseconds(bytes: u64, line_bytes: u64) -> f64 {
    let next = chain(bytes, line_bytes);
    let lines = u32::try_from(bytes / line_bytes).unwrap_or(u32::MAX);
    // Each walk goes on where the one before ended: what it meets was met longest ago.
    let (_, mut at) = walk(&next, 0, lines.max(LOADS));
    let mut walks = [0.0; WALKS];
    for taken in &mut walks {
        (*taken, at) = walk(&next, at, LOADS);
    }
    walks.sort_by(f64::total_cmp);
    walks[WALKS / 2]
}

/// Follows a chain from here on; nanoseconds a load, and where it ends.
fn walk(next: &[u32], from: u32, loads: u32) -> (f64, u32) {
    let start = Instant::now();
    let at = black_box((0..loads).fold(from, |at, _| next[at as usize]));
    (start.elapsed().as_secs_f64() * 1e9 / f64::from(loads), at)
}

/// Lines that lead to each other in a circle: all of a block, then all of another one, in an order by chance. The word at the
/// beginning of each is the index of that of the next.
fn chain(bytes: u64, line_bytes: u64) -> Vec<u32> {
    let words = (line_bytes / 4).max(1) as usize;
    let lines = (bytes / line_bytes).max(1) as u32;
    let of_block = (BLOCK_BYTES / line_bytes).max(1) as u32;
    let mut state = 1;
    let mut blocks: Vec<u32> = (0..lines.div_ceil(of_block)).collect();
    shuffle(&mut blocks, &mut state);
    let mut order = Vec::with_capacity(lines as usize);
    for block in blocks {
        let begin = order.len();
        order.extend(block * of_block..((block + 1) * of_block).min(lines));
        shuffle(&mut order[begin..], &mut state);
    }
    let mut next = vec![0; lines as usize * words];
    for (&line, &after) in order.iter().zip(order.iter().cycle().skip(1)) {
        next[line as usize * words] = after * words as u32;
    }
    next
}

/// Fisher's and Yates's.
fn shuffle(all: &mut [u32], state: &mut u64) {
    for last in (1..all.len()).rev() {
        all.swap(last, (splitmix(state) % (last as u64 + 1)) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(last_level: &str) -> Machine {
        Machine::parse(&format!(
            "name = \"m\"\ncores = 2\n[[cache]]\nname = \"L1d\"\nlevel = 1\nholds = \"data\"\nsize = \"32 KiB\"\nline = 64\n\
             ways = 8\nlatency = 4\n[[cache]]\nname = \"L1i\"\nlevel = 1\nholds = \"instructions\"\nsize = \"32 KiB\"\n\
             line = 64\nways = 8\nlatency = 4\n[[cache]]\nname = \"L2\"\nlevel = 2\nsize = \"512 KiB\"\nline = 64\nways = 8\n\
             latency = 14\n[[cache]]\nname = \"L3\"\nlevel = 3\nsize = \"{last_level}\"\nline = 64\nways = 16\nlatency = 50\n\
             shared_by = \"all\"\n[[memory]]\nname = \"DRAM\"\nlatency = 200\n"
        ))
        .unwrap()
    }

    /// Of a machine of which so much of the last level is to be had.
    fn curve(had: u64) -> impl Fn(u64) -> f64 {
        move |bytes| match bytes {
            0..=32_768 => 5.2,
            32_769..=524_288 => 13.4,
            _ if bytes <= had => 43.6,
            _ => 400.3,
        }
    }

    fn latencies(machine: &Machine) -> Vec<u32> {
        machine
            .caches
            .iter()
            .map(|cache| cache.latency_cycles)
            .chain(machine.memories[0].latency_cycles.clone())
            .collect()
    }

    #[test]
    fn what_is_to_be_had_ends_where_loads_take_longer() {
        let told = machine("32 MiB");
        let measured = told.measured_by(curve(7 << 20)).unwrap();
        // 1, 1.5, 2, 3, 4, 6 and 8 MiB.
        assert_eq!(measured.last_level, Some((6 << 20, 32 << 20)));
        assert_eq!(latencies(&measured.machine), [5, 5, 13, 44, 400]);
        assert!(measured.has_memory);
        assert_eq!(measured.machine.name, "measured");
        let all = told.measured_by(curve(32 << 20)).unwrap();
        assert_eq!(all.last_level, Some((32 << 20, 32 << 20)));
    }

    #[test]
    fn where_others_have_it_all_there_is_as_much_as_was_looked_at() {
        let measured = machine("32 MiB").measured_by(curve(0)).unwrap();
        assert_eq!(measured.last_level, Some((512 << 10, 32 << 20)));
        assert_eq!(latencies(&measured.machine), [5, 5, 13, 50, 400]);
        assert!(!measured.has_last_latency && measured.has_memory);
        // Less than twice the next one.
        let small = machine("768 KiB").measured_by(curve(0)).unwrap();
        assert_eq!(small.last_level, Some((512 << 10, 768 << 10)));
    }

    #[test]
    fn what_is_not_reached_stays_as_told() {
        let measured = machine("512 MiB").measured_by(curve(512 << 20)).unwrap();
        assert_eq!((measured.last_level, measured.has_memory), (None, false));
        assert_eq!(latencies(&measured.machine), [5, 5, 13, 44, 200]);
    }

    /// A virtual machine's kernel tells of 32 MiB where there are hundreds.
    #[test]
    fn more_than_is_told_hides_memory() {
        let measured = machine("32 MiB").measured_by(curve(512 << 20)).unwrap();
        assert_eq!((measured.last_level, measured.has_memory), (None, false));
        assert_eq!(latencies(&measured.machine), [5, 5, 13, 44, 200]);
        // Nearer ones that take longer than usual leave none behind them that takes less.
        let slow = machine("32 MiB").measured_by(|bytes| if bytes <= 1 << 19 { 60.0 } else { 80.0 }).unwrap();
        assert_eq!((latencies(&slow.machine), slow.has_memory), (vec![60, 60, 60, 80, 200], false));
        let none = machine("32 MiB").measured_by(|bytes| if bytes <= 1 << 19 { 60.0 } else { 400.0 }).unwrap();
        assert_eq!(latencies(&none.machine), [60, 60, 60, 60, 400]);
    }

    #[test]
    fn walks_go_on_where_they_ended() {
        let next = chain(1 << 16, 64);
        let (_, at) = walk(&next, 0, 1000);
        let (_, end) = walk(&next, at, 24);
        assert!(at != 0 && end == 0, "{at} {end}");
    }

    #[test]
    fn one_core_measures_one_memory() {
        let mut two = machine("32 MiB");
        two.memories.push(two.memories[0].clone());
        let error = two.measured_by(curve(0)).unwrap_err();
        assert_eq!(error.to_string(), "it has 2 memories, and one core measures one");
    }

    #[test]
    fn a_chain_passes_each_line_once() {
        for bytes in [64, 640, 1 << 16, (1 << 16) + 64, 1 << 18] {
            let next = chain(bytes, 64);
            let mut at = 0;
            let mut passed = std::collections::BTreeSet::new();
            while passed.insert(at) {
                at = next[at as usize];
            }
            assert_eq!((passed.len() as u64, at), (bytes / 64, 0), "{bytes}");
        }
    }
}
