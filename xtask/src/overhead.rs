//! `cargo xtask bench overhead`: what recording costs at the default settings.

use std::process::Command;

use anyhow::Result;

use crate::measure::{Pair, Spread, median, timed};
use crate::selection::select;
use crate::side_by_side::{Counted, SideBySide};
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

/// How native and recorded runs are compared.
#[derive(Clone, Copy)]
struct Way {
    /// CPU times of both at once on one processor; else wall times in turn.
    is_side_by_side: bool,
    /// Pairs of each program, at the least.
    runs: usize,
}

/// Measures native and recorded runs; prints a Markdown table. Whether the bounds hold.
pub(crate) fn run(is_side_by_side: bool, runs: usize, only: &[String]) -> Result<bool> {
    let way = Way { is_side_by_side, runs };
    let slimline = Slimline::build()?;
    let workloads = select(for_overhead()?, |workload| &workload.name, only)?;
    println!("{}", way.head());
    let mut ratios = Vec::new();
    for workload in &workloads {
        let session = slimline.session("overhead");
        let recorded = || Ok(slimline.record(&workload.command(), &session, &[]));
        let (row, ratio) = way.measure(workload, Counted::Started, recorded)?;
        println!("{row}");
        ratios.push(ratio.median);
    }
    if let Some(first) = workloads.first() {
        let (row, _) = way.measure(first, Counted::Whole, || Ok(first.command()))?;
        println!("\nHow far two native runs are apart, which is how far to trust the others:\n\n{}\n{row}", way.head());
    }
    let (middle, worst) = (median(ratios.clone()), ratios.iter().copied().fold(0.0, f64::max));
    println!("\nMedians of pairs. {}", fixed_cost(&slimline)?);
    interposing(way, &workloads)?;
    println!("\nmedian {middle:.3} (bound {MEDIAN_AT_MOST}), worst {worst:.3} (bound {WORST_AT_MOST})");
    Ok(middle <= MEDIAN_AT_MOST && worst <= WORST_AT_MOST)
}

impl Way {
    fn head(self) -> &'static str {
        if self.is_side_by_side {
            "| program | kind | native, s of CPU | recorded, s of CPU | ratio | 95 % interval | with slimline's own | pairs |\n\
             | --- | --- | --- | --- | --- | --- | --- | --- |"
        } else {
            "| program | kind | native, s | recorded, s | ratio | 95 % interval | of CPU time | pairs |\n\
             | --- | --- | --- | --- | --- | --- | --- | --- |"
        }
    }

    /// Compares a workload's native runs with those of a command that runs it otherwise, until their ratio is known: a row
    /// of the table, and the ratio. Side by side that is of the program's own CPU time, which its wall time follows where
    /// slimline has another processor.
    fn measure(
        self,
        workload: &Workload,
        counted: Counted,
        otherwise: impl Fn() -> Result<Command>,
    ) -> Result<(String, Spread)> {
        let is_enough = |pairs: usize, ratio: Spread| {
            let (least, most) = ratio.interval;
            pairs >= MOST_TIMES * self.runs || most - least <= WANTED_INTERVAL
        };
        let native = || workload.with_input(workload.command());
        let recorded = || workload.with_input(otherwise()?);
        let (seconds, ratio, cpu, pairs) = if self.is_side_by_side {
            let is_known = |pairs: &SideBySide| is_enough(pairs.len(), pairs.ratio(counted));
            let pairs = SideBySide::measure(self.runs, native, recorded, is_known)?;
            (pairs.seconds(counted), pairs.ratio(counted), pairs.ratio(Counted::Whole).median, pairs.len())
        } else {
            let is_known = |pair: &Pair| is_enough(pair.len(), pair.wall_ratio());
            let pair = Pair::measure_until(self.runs, native, recorded, is_known)?;
            let seconds = (pair.first_seconds(), pair.second_seconds());
            (seconds, pair.wall_ratio(), pair.cpu_ratio().median, pair.len())
        };
        let Spread { median, interval: (least, most), .. } = ratio;
        let row = format!(
            "| {} | {} | {:.2} | {:.2} | {median:.3} | {least:.3} to {most:.3} | {cpu:.3} | {pairs} |",
            workload.name, workload.kind, seconds.0, seconds.1,
        );
        Ok((row, ratio))
    }
}

/// Prints what standing before `malloc` and `free` costs at the least, of the programs that allocate: no recording of
/// theirs can be had for less.
fn interposing(way: Way, workloads: &[Workload]) -> Result<()> {
    let mut allocating = workloads.iter().filter(|workload| workload.kind.starts_with(ALLOCATING)).peekable();
    if allocating.peek().is_none() {
        return Ok(());
    }
    let library = target_dir()?.join("counting_allocator.so");
    let mut compile = Command::new("cc");
    compile.args(["-O2", "-shared", "-fPIC", "-o"]).arg(&library).arg(root().join("xtask/src/counting_allocator.c"));
    timed(compile)?;
    println!("\nWith a library in place of the agent that counts malloc and free and passes on:\n\n{}", way.head());
    for workload in allocating {
        let (row, _) = way.measure(workload, Counted::Whole, || {
            let mut command = workload.command();
            command.env("LD_PRELOAD", &library);
            Ok(command)
        })?;
        println!("{row}");
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
