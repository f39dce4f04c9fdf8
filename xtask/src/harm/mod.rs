//! `cargo xtask harm`: programs under `slimline record` behave as they do alone.

mod compare;
mod draw;
mod packages;
mod torture;

use std::io::Write as _;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result};
use clap::ValueEnum;

use crate::selection::select;
use crate::slimline::Slimline;
use crate::target_dir;
use compare::{Comparison, Verdict};

/// Which cases are run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Slice {
    /// The torture suite and the packages that `cargo xtask setup` installs anyway.
    Ci,
    /// Programs that do what profilers stumble over, allocators, servers and compilers.
    Torture,
    /// Debian packages drawn at random.
    Packages,
    /// Both.
    All,
}

/// Recorded runs of each case in `cargo xtask test`.
const CI_TIMES: u32 = 2;

/// One program, with what it needs.
pub(crate) struct Case {
    pub(crate) name: String,
    /// Shell script, run once in an empty directory, not recorded; later runs start with copies of that directory.
    pub(crate) prepare: String,
    /// Shell script, run alone and recorded.
    pub(crate) command: String,
    /// Whether its home and its search path are Debian's own instead of the user's.
    pub(crate) is_isolated: bool,
}

/// Prints a Markdown table and the count of each verdict. Whether no case differed.
pub(crate) fn run(times: u32, slice: Slice, only: &[String]) -> Result<bool> {
    let mut cases = Vec::new();
    if slice != Slice::Packages {
        cases.extend(torture::cases()?);
    }
    if slice != Slice::Torture {
        cases.extend(packages::cases(slice == Slice::Ci, only)?);
    }
    let cases = select(cases, |case| &case.name, only)?;
    compare_all(&cases, times, &Slimline::build_for_tests()?)
}

/// The part that `cargo xtask test` runs.
pub(crate) fn run_in_ci() -> Result<bool> {
    run(CI_TIMES, Slice::Ci, &[])
}

/// Prints the first `count` packages of the draw, with what became of each.
pub(crate) fn print_draw(count: usize) -> Result<bool> {
    draw::print(count, &packages::Drawn::read()?)
}

fn compare_all(cases: &[Case], times: u32, slimline: &Slimline) -> Result<bool> {
    println!(
        "| program | CPU seconds alone | processes | recorded runs | equal | |\n| --- | --- | --- | --- | --- | --- |"
    );
    let work = work_directory()?;
    let next = AtomicUsize::new(0);
    let comparisons = Mutex::new(Vec::new());
    std::thread::scope(|scope| -> Result<()> {
        let workers: Vec<_> = (0..std::thread::available_parallelism().map_or(1, NonZero::get))
            .map(|_| {
                scope.spawn(|| -> Result<()> {
                    while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let comparison = compare::compare(case, times, slimline, &work)
                            .with_context(|| format!("case {}", case.name))?;
                        print_row(case, &comparison, times)?;
                        comparisons.lock().expect("no worker panics with the lock").push(comparison);
                    }
                    Ok(())
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("no worker panics"))
    })?;
    Ok(print_count(&comparisons.into_inner().expect("no worker panics with the lock")))
}

fn work_directory() -> Result<PathBuf> {
    let directory = target_dir()?.join("harm");
    std::fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
    Ok(directory)
}

fn print_row(case: &Case, comparison: &Comparison, times: u32) -> Result<()> {
    let mut out = std::io::stdout().lock();
    let (equal, note) = match &comparison.verdict {
        Verdict::Equal => (times.to_string(), String::new()),
        Verdict::Different { equal, first } => (equal.to_string(), first.clone()),
        Verdict::Unfit(why) => ("-".to_owned(), why.clone()),
        Verdict::Skipped(why) => ("-".to_owned(), format!("skipped: {why}")),
    };
    let Comparison { cpu_seconds, processes, .. } = comparison;
    writeln!(out, "| {} | {cpu_seconds:.2} | {processes} | {times} | {equal} | {note} |", case.name)?;
    out.flush()?;
    Ok(())
}

/// Whether no case differed.
fn print_count(comparisons: &[Comparison]) -> bool {
    let count = |is: fn(&Verdict) -> bool| comparisons.iter().filter(|comparison| is(&comparison.verdict)).count();
    let different = count(|verdict| matches!(verdict, Verdict::Different { .. } | Verdict::Unfit(_)));
    let skipped = count(|verdict| matches!(verdict, Verdict::Skipped(_)));
    let equal = count(|verdict| *verdict == Verdict::Equal);
    println!("\n{equal} equal, {different} different, {skipped} skipped");
    different == 0
}
