//! What growing a forest and voting cost, by number of samples, of classes, and of distinct values.
//!
//! `cargo bench -p slimline-learn --bench forest`. Times depend on the machine, so look at ratios: growing takes n · log n for n samples,
//! and a thousand times as many classes should cost little where trees are as deep.

#[path = "../../slimline-simulate/benches/processor/mod.rs"]
mod processor;

use slimline_learn::forest::{Forest, Options};
use slimline_learn::samples::Samples;

const FEATURES: usize = 9;
const ROUNDS: u32 = 3;

fn main() {
    println!(
        "| samples | values | classes | labels | nodes a tree | grown, ns a sample | ÷ log₂ n | voted, ns a sample and tree |"
    );
    println!("| ---: | ---: | ---: | --- | ---: | ---: | ---: | ---: |");
    for (samples, trees) in [(10_000, 20), (100_000, 4), (1_000_000, 1)] {
        for values in [16, u32::MAX] {
            for classes in [4, 4000] {
                for is_told in [true, false] {
                    measure((samples, trees), values, classes, is_told);
                }
            }
        }
    }
}

/// Labels are told by two of the features, whose 16 or 64 levels are as many cells squared, or by nothing.
fn measure((count, trees): (usize, usize), values: u32, classes: u32, is_told: bool) {
    let mut random = fastrand::Rng::with_seed(1);
    let columns: Vec<Vec<f64>> =
        (0..FEATURES).map(|_| (0..count).map(|_| f64::from(random.u32(..values))).collect()).collect();
    let levels = values.min(64);
    let level = |feature: usize, at: usize| (columns[feature][at] / f64::from(values) * f64::from(levels)) as u32;
    let told = |at: usize| (level(2, at) * levels + level(5, at)) * classes / (levels * levels);
    let labels: Vec<u32> = (0..count).map(|at| if is_told { told(at) } else { random.u32(..classes) }).collect();
    let samples = Samples::new(columns, &labels).unwrap();
    let everyone: Vec<u32> = (0..count as u32).collect();
    let options = Options { trees, threads: 1, ..Options::default() };
    let mut forest = None;
    let grown =
        processor::best(ROUNDS, || forest.insert(Forest::learn(&samples, &everyone, &options)).node_count() as u64);
    let forest = forest.unwrap();
    // One tree over fewer would be done before the clock moves on.
    let asked = &everyone[..count.min(100_000)];
    let voted = processor::best(ROUNDS, || (forest.accuracy(&samples, asked, 5, 1).first * 1e9) as u64);
    let grown = grown.as_nanos() as f64 / (count * trees) as f64;
    println!(
        "| {count} | {} | {classes} | {} | {} | {grown:.0} | {:.1} | {:.0} |",
        values.min(count as u32),
        if is_told { "told" } else { "noise" },
        forest.node_count() / trees,
        grown / (count as f64).log2(),
        voted.as_nanos() as f64 / (asked.len() * trees) as f64,
    );
}
