//! `cargo bench -p slimline-simulate`: three levels with counts by key against a plain pass over the same accesses, on one
//! core.
//!
//! Arguments choose accesses and machine by how their names begin: `cargo bench -p slimline-simulate -- loops large`. The
//! ratio of the two is what to watch: it does not depend on the machine as the times do.

mod processor;

use std::time::Duration;

use slimline_simulate::access::{Access, AccessKind, Consumer as _, Work};
use slimline_simulate::machine::{Counting, Machine};
use slimline_simulate::simulation::{Options, Simulation};

/// As many as a pass takes at a time.
const BATCH: usize = 1 << 12;
/// Long enough that what is made once for a machine (hundreds of MiB of caches) is little of it.
const ACCESSES: usize = 1 << 23;
const RUNS: u32 = 3;
const KEYS: u32 = 1000;

fn main() {
    // Cargo adds options of its own.
    let mut only = std::env::args().skip(1).filter(|argument| !argument.starts_with('-'));
    let (only_accesses, only_machine) = (only.next().unwrap_or_default(), only.next().unwrap_or_default());
    let (one, large) = (three_levels(1), large(2));
    let plain = Options::default();
    let classes = Options { classes: true, ..Options::default() };
    let machines = [
        ("three levels", &one, &plain),
        ("large ones", &large, &plain),
        ("with a TLB", &with_tlb(&one), &plain),
        ("with classes", &one, &classes),
    ];
    let coherent = [("coherent", &three_levels(4), &plain)];
    let cases: [(&str, Vec<Access>, &[_]); 3] = [
        ("loops", loops(1), &machines),
        ("random chase", chase(), &machines),
        ("four cores' loops", loops(4), &coherent),
    ];
    for (name, accesses, machines) in cases.iter().filter(|(name, ..)| name.starts_with(&only_accesses)) {
        let bare = best(|| accesses.chunks(BATCH).map(sum).fold(0u64, u64::wrapping_add));
        println!("{name}: {ACCESSES} accesses, best of {RUNS}; in brackets without what the plain pass takes");
        println!("  {:<14} {:8.1} M/s", "plain pass", rate(bare));
        for (name, machine, options) in machines.iter().filter(|(name, ..)| name.starts_with(&only_machine)) {
            show(name, best(|| simulate(machine, options, accesses)), bare);
        }
    }
}

fn show(what: &str, time: Duration, bare: Duration) {
    let (all, own) = (rate(time), rate(time.saturating_sub(bare)));
    println!(
        "  {what:<14} {all:8.1} M/s ({own:.1}) {:8.1} times the plain pass",
        time.as_secs_f64() / bare.as_secs_f64()
    );
}

/// Millions of accesses a second.
fn rate(time: Duration) -> f64 {
    ACCESSES as f64 / time.as_secs_f64() / 1e6
}

fn best(run: impl FnMut() -> u64) -> Duration {
    processor::best(RUNS, run)
}

/// Reads every column once.
fn sum(accesses: &[Access]) -> u64 {
    let one = |access: &Access| {
        access.address ^ u64::from(access.key) << 32 ^ u64::from(access.bytes + access.thread) ^ access.kind as u64
    };
    accesses.iter().map(one).fold(0, u64::wrapping_add)
}

fn simulate(machine: &Machine, options: &Options, accesses: &[Access]) -> u64 {
    let mut simulation = Simulation::new(machine, options).expect("a machine as it should be");
    accesses.chunks(BATCH).for_each(|batch| simulation.take(batch));
    simulation.finish().total().cycles
}

/// As many machines of today have them.
fn three_levels(cores: u32) -> Machine {
    let text = format!(
        r#"
        name = "three levels"
        cores = {cores}
        cache = [
            {{ name = "L1", level = 1, holds = "data", size = "32 KiB", line = 64, ways = 8, latency = 4 }},
            {{ name = "L2", level = 2, size = "1 MiB", line = 64, ways = 16, latency = 14 }},
            {{ name = "L3", level = 3, size = 37486592, line = 64, ways = 11, latency = 50, shared_by = "all" }},
        ]
        memory = [{{ name = "DRAM", latency = 200 }}]
        "#
    );
    Machine::parse(&text).expect("a machine as it should be")
}

/// As a server has them: 480 MiB for all cores.
fn large(cores: u32) -> Machine {
    let text = format!(
        r#"
        name = "large"
        cores = {cores}
        cache = [
            {{ name = "L1d", level = 1, holds = "data", size = "48 KiB", line = 64, ways = 12, latency = 4 }},
            {{ name = "L1i", level = 1, holds = "instructions", size = "64 KiB", line = 64, ways = 16, latency = 4 }},
            {{ name = "L2", level = 2, size = "2 MiB", line = 64, ways = 16, latency = 14 }},
            {{ name = "L3", level = 3, size = "480 MiB", line = 64, ways = 16, latency = 50, shared_by = "all" }},
        ]
        memory = [{{ name = "DRAM", latency = 200 }}]
        "#
    );
    Machine::parse(&text).expect("a machine as it should be")
}

fn with_tlb(machine: &Machine) -> Machine {
    let tlbs = Machine::named("dinero-i5").map(|machine| machine.tlbs).unwrap_or_default();
    Machine { tlbs, counting: Counting::Lines, ..machine.clone() }
}

fn access(address: u64, key: u32, kind: AccessKind) -> Access {
    Access { address, key: key % KEYS, bytes: 8, thread: 0, kind, work: Work::USUAL }
}

/// Passes over arrays of 64 KiB to 4 MiB with three fields of elements of 24 bytes each, and a sum on the stack.
fn loops(cores: u32) -> Vec<Access> {
    let mut accesses = Vec::with_capacity(ACCESSES);
    let mut pass = 0_u32;
    while accesses.len() < ACCESSES {
        let array = u64::from(pass % 7);
        let core = pass % cores;
        for element in 0..(64_u64 << 10 << array) / 24 {
            let at = (array << 32) + element * 24;
            let four = [
                access(at, pass * 4, AccessKind::Load),
                access(at + 8, pass * 4 + 1, AccessKind::Load),
                access(at + 16, pass * 4 + 2, AccessKind::Store),
                access((99 << 32) + u64::from(core) * 4096, pass * 4 + 3, AccessKind::Store),
            ];
            accesses.extend(four.map(|access| Access { thread: core, ..access }));
        }
        pass += 1;
    }
    accesses.truncate(ACCESSES);
    accesses
}

/// Elements of 64 bytes anywhere in 256 MiB.
fn chase() -> Vec<Access> {
    let mut state = 88_172_645_463_325_252_u64;
    let mut random = move |limit: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % limit
    };
    (0..ACCESSES).map(|_| access(random(4 << 20) * 64, 7, AccessKind::Load)).collect()
}
