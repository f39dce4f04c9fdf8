//! What reuse distances cost: of a walk over arrays and of random accesses, exact and sampled.
//!
//! `cargo bench -p slimline-simulate --bench reuse`. Times depend on the machine: beside each is how often a plain sum over
//! the addresses fits into it.

mod processor;

use std::hint::black_box;
use std::time::Duration;

use slimline_simulate::reuse::{CoreSets, Estimate, Histogram, ReuseDistances, SampledDistances};

const ACCESSES: usize = 1 << 23;
const ROUNDS: u32 = 5;
const LINE_BITS: u32 = 6;
/// Accesses that are told ahead.
const TOGETHER: usize = 32;
/// Chosen lines at most.
const CHOSEN: usize = 8192;
/// Of all lines.
const SHARE: f64 = 0.01;

fn main() {
    println!("| accesses | lines | sum, ns | exact, ns | ÷ sum | M/s | sampled, M/s |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: |");
    // c[i] += a[i] * b[i] over 8 MiB each.
    let arrays = (0..ACCESSES as u64).map(|at| ((at % 3) << 30) + (at / 3 % (1 << 20)) * 8).collect();
    measure("arrays", arrays);
    let blocked = (0..ACCESSES as u64).map(|at| (at / 65_536 % 16 * 32_768) + at % 4096 * 8).collect();
    measure("blocks of 32 KiB", blocked);
    let mut state = 88_172_645_463_325_252_u64;
    let random = (0..ACCESSES).map(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % (64 << 20)
    });
    measure("random in 64 MiB", random.collect());
}

fn measure(name: &str, addresses: Vec<u64>) {
    let sum = best(|| addresses.iter().fold(0_u64, |sum, address| sum.wrapping_add(black_box(*address) >> LINE_BITS)));
    let core_sets = || CoreSets::new(1, &[]).unwrap();
    let mut lines = 0;
    let exact = best(|| {
        let mut distances = ReuseDistances::new(core_sets());
        // As `Locality` keeps them.
        let mut histogram = Histogram::coarse();
        for together in addresses.chunks(TOGETHER) {
            let next: Vec<(u32, u64)> = together.iter().map(|address| (0, address >> LINE_BITS)).collect();
            distances.read_ahead(&next);
            for &(core, line) in &next {
                match distances.access(core, line, 0).unwrap() {
                    Some(reuse) => histogram.add(reuse.distance.into(), 1.0),
                    None => histogram.add_first(1.0),
                }
            }
        }
        lines = distances.lines();
        histogram.first() as u64
    });
    let sampled = best(|| {
        let mut distances = SampledDistances::new(core_sets(), CHOSEN, SHARE);
        let mut estimate = Estimate::default();
        for address in &addresses {
            if let Some(found) = distances.access(0, address >> LINE_BITS, 0) {
                estimate.add(&found);
            }
        }
        distances.bytes() as u64
    });
    let each = |time: Duration| time.as_secs_f64() * 1e9 / ACCESSES as f64;
    println!(
        "| {name} | {lines} | {:.2} | {:.1} | {:.0} | {:.1} | {:.1} |",
        each(sum),
        each(exact),
        exact.as_secs_f64() / sum.as_secs_f64(),
        1e3 / each(exact),
        1e3 / each(sampled),
    );
}

fn best(work: impl FnMut() -> u64) -> Duration {
    processor::best(ROUNDS, work)
}
