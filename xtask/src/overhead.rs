//! `cargo xtask bench overhead`: what recording costs at the default settings.

use std::process::Command;

use anyhow::Result;

use crate::measure::{Pair, Spread, median, timed};
use crate::selection::select;
use crate::slimline::Slimline;
use crate::workload::{ALLOCATING, Workload, for_overhead, shortest};
use crate::{root, target_dir};

/// Bounds of issue 2: over all programs, and of each.
const MEDIAN_AT_MOST: f64 = 1.03;
const WORST_AT_MOST: f64 = 1.08;
/// Programs whose ratio is known less well than this are run again, up to [`MOST_TIMES`] as often as asked: the noise of
/// the machine differs from minute to minute.
const WANTED_INTERVAL: f64 = 0.03;
const MOST_TIMES: usize = 4;
/// Pairs of runs of the program that does nothing.
const SHORTEST_RUNS: usize = 41;

const HEAD: &str = "| program | kind | native, s | recorded, s | ratio | 95 % interval | of CPU time | pairs |\n\
                    | --- | --- | --- | --- | --- | --- | --- | --- |";

/// Measures native and recorded runs in turn; prints a Markdown table. Whether the bounds hold.
pub(crate) fn run(runs: usize, only: &[String]) -> Result<bool> {
    let slimline = Slimline::build()?;
    let workloads = select(for_overhead()?, |workload| &workload.name, only)?;
    println!("{HEAD}");
    let mut ratios = Vec::new();
    for workload in &workloads {
        let session = slimline.session("overhead");
        let pair = measure(runs, workload, || Ok(slimline.record(&workload.command(), &session, &[])))?;
        println!("{}", row(workload, &pair));
        ratios.push(pair.wall_ratio().median);
    }
    let (middle, worst) = (median(ratios.clone()), ratios.iter().copied().fold(0.0, f64::max));
    println!("\nMedians of pairs. {}", fixed_cost(&slimline)?);
    interposing(runs, &workloads)?;
    println!("\nmedian {middle:.3} (bound {MEDIAN_AT_MOST}), worst {worst:.3} (bound {WORST_AT_MOST})");
    Ok(middle <= MEDIAN_AT_MOST && worst <= WORST_AT_MOST)
}

/// A workload's native runs and those of a command that runs it otherwise, in turn, until their ratio is known.
fn measure(runs: usize, workload: &Workload, otherwise: impl Fn() -> Result<Command>) -> Result<Pair> {
    Pair::measure_until(
        runs,
        || workload.with_input(workload.command()),
        || workload.with_input(otherwise()?),
        |pair| {
            let (least, most) = pair.wall_ratio().interval;
            pair.len() >= MOST_TIMES * runs || most - least <= WANTED_INTERVAL
        },
    )
}

fn row(workload: &Workload, pair: &Pair) -> String {
    let Spread { median, interval: (least, most), .. } = pair.wall_ratio();
    format!(
        "| {} | {} | {:.2} | {:.2} | {median:.3} | {least:.3} to {most:.3} | {:.3} | {} |",
        workload.name,
        workload.kind,
        pair.first_seconds(),
        pair.second_seconds(),
        pair.cpu_ratio().median,
        pair.len()
    )
}

/// Prints what standing before `malloc` and `free` costs at the least, of the programs that allocate: no recording of
/// theirs can be had for less.
fn interposing(runs: usize, workloads: &[Workload]) -> Result<()> {
    let mut allocating = workloads.iter().filter(|workload| workload.kind.starts_with(ALLOCATING)).peekable();
    if allocating.peek().is_none() {
        return Ok(());
    }
    let library = target_dir()?.join("counting_allocator.so");
    let mut compile = Command::new("cc");
    compile.args(["-O2", "-shared", "-fPIC", "-o"]).arg(&library).arg(root().join("xtask/src/counting_allocator.c"));
    timed(compile)?;
    println!("\nWith a library in place of the agent that counts malloc and free and passes on:\n\n{HEAD}");
    for workload in allocating {
        let pair = measure(runs, workload, || {
            let mut command = workload.command();
            command.env("LD_PRELOAD", &library);
            Ok(command)
        })?;
        println!("{}", row(workload, &pair));
    }
    Ok(())
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
