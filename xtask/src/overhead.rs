//! `cargo xtask bench overhead`: what recording costs at the default settings.

use anyhow::Result;

use crate::measure::{Pair, median};
use crate::slimline::Slimline;
use crate::workload::{for_overhead, select};

/// Bounds of issue 2: over all programs, and of each.
const MEDIAN_AT_MOST: f64 = 1.03;
const WORST_AT_MOST: f64 = 1.08;

/// Measures native and recorded runs in turn; prints a Markdown table. Whether the bounds hold.
pub(crate) fn run(runs: usize, only: &[String]) -> Result<bool> {
    let slimline = Slimline::build()?;
    let workloads = select(for_overhead()?, only)?;
    println!(
        "| program | kind | native, s | recorded, s | ratio | of CPU time |\n| --- | --- | --- | --- | --- | --- |"
    );
    let mut ratios = Vec::new();
    for workload in &workloads {
        let session = slimline.session("overhead");
        let pair = Pair::measure(
            runs,
            || workload.with_input(workload.command()),
            || workload.with_input(slimline.record(&workload.command(), &session)),
        )?;
        println!(
            "| {} | {} | {:.2} | {:.2} | {:.3} | {:.3} |",
            workload.name,
            workload.kind,
            pair.first_seconds(),
            pair.second_seconds(),
            pair.wall_ratio(),
            pair.cpu_ratio()
        );
        ratios.push(pair.wall_ratio());
    }
    let (middle, worst) = (median(ratios.clone()), ratios.iter().copied().fold(0.0, f64::max));
    println!("\nmedian {middle:.3} (bound {MEDIAN_AT_MOST}), worst {worst:.3} (bound {WORST_AT_MOST})");
    Ok(middle <= MEDIAN_AT_MOST && worst <= WORST_AT_MOST)
}
