//! What kernels don't tell of their machine: what caches and memory take, and how much of the last level is to be had.
//!
//! In a virtual machine, and beside other programs, that may be far less than all of it. Both are seen in how long loads take along lines
//! of some bytes again and again:
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
//!
//! Latencies are what loads take of which each waits for the one before. Who loads so slowly loses lines to neighbors that load faster, so
//! what is to be had is looked for by several chains of loads at once, as most programs have them. Neighbors take lines by chance: of more
//! than what is to be had not all is missed, as it would be by a cache that is that small and replaces what was used longest ago. The
//! last level replaces by chance then. Of N lines that are walked along again and again, C of which it holds, it has the part h with
//! h = exp(−(1 − h) N/C): each of (1 − h) N misses takes one of C places. A quarter is missed where N = 1.15 C; the sizes that are
//! looked at lie further apart than that.

use std::hint::black_box;
use std::time::{Duration, Instant};

use super::{Cache, Holds, Machine, MachineError, Replacement};
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
const LOADS: usize = 200_000;
/// Walks of the same, of which the median counts.
const WALKS: usize = 3;
/// Chains that are walked at once.
const CHAINS: usize = 8;
/// Of what is to be had this part is missed.
const MISSED: f64 = 0.25;
/// How often what is to be had is looked for: the median counts, as it changes from moment to moment.
const SEARCHES: usize = 3;

/// How loads follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loads {
    /// Each waits for the one before.
    InTurn,
    /// [`CHAINS`] at once.
    Together,
}

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
        self.measured_by(|bytes, loads| load_nanoseconds(bytes, line_bytes, loads) / cycle)
    }

    /// The same where `cycles` tells what a load takes along so many bytes.
    fn measured_by(&self, mut cycles: impl FnMut(u64, Loads) -> f64) -> Result<Measured, MachineError> {
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
            latency = cycles(walked, Loads::InTurn).max(latency);
            machine.caches[cache].latency_cycles = rounded(latency);
            before = bytes;
        }
        let Cache { bytes: told, latency_cycles: usual, .. } = self.caches[last];
        let usual_memory = self.memories[0].latency_cycles.first().copied().unwrap_or(usual);
        let most = (told * 4).clamp(LEAST_MEMORY_BYTES, MOST_BYTES);
        let memory = cycles(most, Loads::InTurn);
        let first = if nearer.is_empty() { told / 2 } else { before * 2 }.min(told);
        let near = cycles(first, Loads::InTurn).max(latency);
        let is_step = memory > near * LEAST_STEP;
        // Without a step all of that was memory, or none: a virtual machine may have more of a last level than its kernel tells.
        let has_memory = is_step || memory > f64::from(usual).midpoint(f64::from(usual_memory));
        let mut last_level = None;
        if has_memory {
            let ends = (first, told, most);
            let mut had: Vec<Option<u64>> =
                (0..SEARCHES).map(|_| had(ends, |bytes| cycles(bytes, Loads::Together))).collect();
            had.sort_unstable();
            // No more than what a nearer one has: even twice that is not there.
            let had = had[SEARCHES / 2].unwrap_or(before);
            machine.caches[last].bytes = self.whole_sets(last, had);
            if had < told {
                machine.caches[last].replacement = Replacement::Random { seed: 0 };
            }
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

/// How many bytes of a last level are to be had, of at least `first` and at most `told`, where `most` are memory's; none where not even
/// the first are.
fn had((first, told, most): (u64, u64, u64), mut cycles: impl FnMut(u64) -> f64) -> Option<u64> {
    let (near, memory) = (cycles(first), cycles(most));
    let mut is_there = |bytes: u64| cycles(bytes) < (memory - near).mul_add(MISSED, near);
    let most_had = told.min(most);
    // That the first of them is there was seen.
    let sizes = (1..).map(|half| (first << (half / 2)) * (2 + half % 2) / 2).take_while(|&bytes| bytes < most_had);
    let found = || match is_there(most_had) {
        true => told,
        false => sizes.take_while(|&bytes| is_there(bytes)).last().unwrap_or(first),
    };
    (memory > near * LEAST_STEP).then(found)
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
fn load_nanoseconds(bytes: u64, line_bytes: u64, loads: Loads) -> f64 {
    let (next, order) = chain(bytes, line_bytes);
    match loads {
        Loads::InTurn => median_walk::<1>(&next, &order),
        Loads::Together => median_walk::<CHAINS>(&next, &order),
    }
}

/// What a load takes where so many chains are followed at once, which begin evenly over all lines.
fn median_walk<const CHAINS: usize>(next: &[u32], order: &[u32]) -> f64 {
    let mut at = std::array::from_fn(|chain| order[order.len() * chain / CHAINS]);
    let mut take = |loads: usize| {
        let taken;
        (taken, at) = walk::<CHAINS>(next, at, loads / CHAINS);
        taken
    };
    // Each walk goes on where the one before ended: what it meets was met longest ago.
    take(order.len().max(LOADS));
    let mut walks = [(); WALKS].map(|()| take(LOADS));
    walks.sort_by(f64::total_cmp);
    walks[WALKS / 2]
}

/// Follows chains from here on, so many steps each; nanoseconds a load, and where they end.
fn walk<const CHAINS: usize>(next: &[u32], from: [u32; CHAINS], steps: usize) -> (f64, [u32; CHAINS]) {
    let start = Instant::now();
    let at = black_box((0..steps).fold(from, |at, _| at.map(|at| next[at as usize])));
    (start.elapsed().as_secs_f64() * 1e9 / (steps * CHAINS) as f64, at)
}

/// Lines that lead to each other in a circle: all of a block, then all of another one, in an order by chance. The word at the
/// beginning of each is the index of that of the next. With these indexes in that order.
fn chain(bytes: u64, line_bytes: u64) -> (Vec<u32>, Vec<u32>) {
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
    order.iter_mut().for_each(|line| *line *= words as u32);
    let mut next = vec![0; lines as usize * words];
    for (&line, &after) in order.iter().zip(order.iter().cycle().skip(1)) {
        next[line as usize] = after;
    }
    (next, order)
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
    fn curve(had: u64) -> impl Fn(u64, Loads) -> f64 {
        move |bytes, loads| match (bytes, loads) {
            (0..=32_768, _) => 5.2,
            (32_769..=524_288, _) => 13.4,
            // Who waits for each load has half as much.
            (_, Loads::InTurn) if bytes <= had / 2 => 43.6,
            (_, Loads::InTurn) => 400.3,
            (_, Loads::Together) if bytes <= had => 5.5,
            (_, Loads::Together) => 50.0,
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
        let slow = machine("32 MiB").measured_by(|bytes, _| if bytes <= 1 << 19 { 60.0 } else { 80.0 }).unwrap();
        assert_eq!((latencies(&slow.machine), slow.has_memory), (vec![60, 60, 60, 80, 200], false));
        let none = machine("32 MiB").measured_by(|bytes, _| if bytes <= 1 << 19 { 60.0 } else { 400.0 }).unwrap();
        assert_eq!(latencies(&none.machine), [60, 60, 60, 60, 400]);
    }

    #[test]
    fn walks_go_on_where_they_ended() {
        let (next, order) = chain(1 << 16, 64);
        let first = [order[0]];
        let (_, at) = walk(&next, first, 1000);
        let (_, end) = walk(&next, at, 24);
        assert!(at != first && end == first, "{at:?} {end:?}");
        // Two that begin evenly are each at the other's beginning when they met half of all.
        let (_, at) = walk(&next, [order[0], order[512]], 512);
        assert_eq!(at, [order[512], order[0]]);
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
            let (next, order) = chain(bytes, 64);
            let mut at = order[0];
            let mut passed = std::collections::BTreeSet::new();
            while passed.insert(at) {
                at = next[at as usize];
            }
            assert_eq!((passed.len() as u64, at), (bytes / 64, order[0]), "{bytes}");
            assert_eq!(passed, order.into_iter().collect(), "{bytes}");
        }
    }
}
