//! `cargo xtask bench overhead`: what recording costs at the default settings.

use anyhow::Result;

use crate::measure::{Pair, median};
use crate::slimline::Slimline;
use crate::workload::{for_overhead, select, shortest};

/// Bounds of issue 2: over all programs, and of each.
const MEDIAN_AT_MOST: f64 = 1.03;
const WORST_AT_MOST: f64 = 1.08;
/// Programs whose ratio is known less well than this are run again, up to [`MOST_TIMES`] as often as asked: the noise of
/// the machine differs from minute to minute.
const WANTED_INTERVAL: f64 = 0.03;
const MOST_TIMES: usize = 4;
/// Pairs of runs of the program that does nothing.
const SHORTEST_RUNS: usize = 41;

/// Measures native and recorded runs in turn; prints a Markdown table. Whether the bounds hold.
pub(crate) fn run(runs: usize, only: &[String]) -> Result<bool> {
    let slimline = Slimline::build()?;
    let workloads = select(for_overhead()?, only)?;
    println!(
        "| program | kind | native, s | recorded, s | ratio | 95 % interval | of CPU time | pairs |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- |"
    );
    let mut ratios = Vec::new();
    for workload in &workloads {
        let session = slimline.session("overhead");
        let pair = Pair::measure_until(
            runs,
            || workload.with_input(workload.command()),
            || workload.with_input(slimline.record(&workload.command(), &session, &[])),
            |pair| {
                let (least, most) = pair.wall_ratio().interval;
                pair.len() >= MOST_TIMES * runs || most - least <= WANTED_INTERVAL
            },
        )?;
        let wall = pair.wall_ratio();
        println!(
            "| {} | {} | {:.2} | {:.2} | {:.3} | {:.3} to {:.3} | {:.3} | {} |",
            workload.name,
            workload.kind,
            pair.first_seconds(),
            pair.second_seconds(),
            wall.median,
            wall.interval.0,
            wall.interval.1,
            pair.cpu_ratio().median,
            pair.len()
        );
        ratios.push(wall.median);
    }
    let (middle, worst) = (median(ratios.clone()), ratios.iter().copied().fold(0.0, f64::max));
    println!("\nMedians of pairs. {}", fixed_cost(&slimline)?);
    println!("\nmedian {middle:.3} (bound {MEDIAN_AT_MOST}), worst {worst:.3} (bound {WORST_AT_MOST})");
    Ok(middle <= MEDIAN_AT_MOST && worst <= WORST_AT_MOST)
}

/// What a recording costs that the length of the run does not change.
fn fixed_cost(slimline: &Slimline) -> Result<String> {
    let session = slimline.session("shortest");
    let native = || Ok(shortest());
    let pair = Pair::measure(SHORTEST_RUNS, native, || Ok(slimline.record(&shortest(), &session, &[])))?;
    let extra = pair.wall_difference();
    Ok(format!(
        "Starting and ending a recording takes {:.1} ms of wall time ({:.1} to {:.1}, {SHORTEST_RUNS} pairs).",
        extra.median * 1e3,
        extra.least * 1e3,
        extra.most * 1e3
    ))
}
