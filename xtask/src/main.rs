//! `cargo xtask …`: set up a fresh machine, run all tests, measure, check the house rules.

mod advice;
mod agreement;
mod book;
mod collectors;
mod compilers;
mod coverage;
mod foreign;
mod fuzz;
mod harm;
mod hints;
mod measure;
mod oracle;
mod overhead;
mod redis;
mod region_cost;
mod rules;
mod selection;
mod setup;
mod side_by_side;
mod simulate_speed;
mod slimline;
mod slowdown;
mod soak;
mod split;
mod suite;
mod trace_cost;
mod trace_counts;
mod translate_cost;
mod workload;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Development tasks of slimline", arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Install the system packages that the tests need (with apt-get, as root), or name those that are missing.
    Setup,
    /// Set up, then formatting, lints, house rules and all tests of the workspace.
    Test {
        /// Also the ignored tests, which take minutes each.
        #[arg(long)]
        slow: bool,
    },
    /// Check what ARCHITECTURE.md promises of the source tree.
    Rules,
    /// Exact counts per allocation site and field of sample programs, by the Valgrind tool, as JSON.
    Oracle {
        /// Names of programs under `programs/`.
        #[arg(required = true)]
        programs: Vec<String>,
        /// Arguments for each of them; none runs their defaults.
        #[arg(last = true)]
        arguments: Vec<String>,
    },
    /// Measure.
    #[command(subcommand)]
    Bench(Bench),
    /// Mutated input for each reader and decoder (needs a nightly toolchain and cargo-fuzz); a Markdown table.
    Fuzz {
        /// How long each target runs.
        #[arg(long, default_value_t = 600)]
        seconds: u32,
        /// Only these targets of `fuzz/fuzz_targets`.
        only: Vec<String>,
    },
    /// Compare programs under `slimline record` with themselves alone: output, status and files; a Markdown table.
    Harm {
        /// Recorded runs of each program.
        #[arg(long, default_value_t = 20)]
        times: u32,
        /// Which programs.
        #[arg(long, value_enum, default_value_t = harm::Slice::All)]
        slice: harm::Slice,
        /// Print what became of the first packages of the draw instead.
        #[arg(long, value_name = "COUNT")]
        draw: Option<usize>,
        /// Only these programs.
        only: Vec<String>,
    },
    /// An allocation churn of several threads and a Redis server, recorded and not, side by side for long; Markdown tables.
    Soak {
        /// How long each runs.
        #[arg(long, default_value_t = 30)]
        minutes: u32,
        /// Only these programs.
        only: Vec<String>,
    },
}

#[derive(Subcommand)]
enum Bench {
    /// Recorded against native wall time, in turn, at the default settings; a Markdown table.
    Overhead {
        /// CPU times of both at once on one processor instead: for machines with neighbours.
        #[arg(long)]
        side_by_side: bool,
        /// Pairs of runs of each program.
        #[arg(long, default_value_t = 7)]
        runs: usize,
        /// Only these programs.
        only: Vec<String>,
    },
    /// What tracing costs programs that `slimline cc` compiled, beside Valgrind's tools; Markdown tables.
    Trace {
        /// Pairs of runs of each program and each way.
        #[arg(long, default_value_t = 3)]
        runs: usize,
        /// Only these programs.
        only: Vec<String>,
    },
    /// What tracing costs programs as they are, by `--collector translate`, beside Valgrind's tools; Markdown tables.
    Translate {
        /// Pairs of runs of each program and each way; what takes long is run once.
        #[arg(long, default_value_t = 3)]
        runs: usize,
        /// Only these programs.
        only: Vec<String>,
    },
    /// Counts of `slimline trace` against the oracle's, by allocating line and field; a Markdown table.
    Counts {
        /// Who counts.
        #[arg(long, value_enum, default_value_t = trace_counts::Collector::Instrument)]
        collector: trace_counts::Collector,
        /// Only these programs.
        only: Vec<String>,
    },
    /// One program sampled, instrumented and translated: shares of structures and fields side by side; a Markdown table.
    Collectors {
        /// Only these programs.
        only: Vec<String>,
    },
    /// How fast recorded traces are simulated and reuse distances told, beside Cachegrind; Markdown tables.
    Simulate {
        /// Runs of each.
        #[arg(long, default_value_t = 3)]
        runs: usize,
        /// Only these programs.
        only: Vec<String>,
    },
    /// What applying the advised splits by hand gains; a Markdown table.
    Split {
        /// Pairs of runs of each program.
        #[arg(long, default_value_t = 5)]
        runs: usize,
        /// Only these programs.
        only: Vec<String>,
    },
    /// What `slimline advise TRACE` predicts, beside what the same changes by hand gain; a Markdown table.
    Advice {
        /// Pairs of runs of each program.
        #[arg(long, default_value_t = 7)]
        runs: usize,
        /// A copy of llvm/llvm-test-suite, some of whose programs are changed by `--patch` then.
        #[arg(long, value_name = "DIR")]
        llvm_test_suite: Option<PathBuf>,
        /// Only these programs.
        only: Vec<String>,
    },
    /// What objects gain that lie as `slimline learn` and `slimline layout` say; Markdown tables.
    Hints {
        /// Pairs of runs of each program.
        #[arg(long, default_value_t = 7)]
        runs: usize,
        /// Only these programs.
        only: Vec<String>,
    },
    /// What timing OpenMP's regions costs, by how long they are; a Markdown table.
    Regions {
        /// Pairs of runs of each kind, length and compiler.
        #[arg(long, default_value_t = 5)]
        runs: usize,
        /// Only these kinds.
        only: Vec<String>,
    },
    /// How much of the time of real programs is resolved to objects and to fields; a Markdown table.
    Coverage {
        /// Keep the sessions in this directory.
        #[arg(long)]
        keep: Option<PathBuf>,
        /// Only these programs.
        only: Vec<String>,
    },
    /// Field access shares of `slimline report` against the oracle's exact counts; a Markdown table.
    Agreement {
        /// Recorded runs of each program.
        #[arg(long, default_value_t = 5)]
        runs: usize,
        /// Only these programs.
        only: Vec<String>,
    },
}

/// The root of the repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the repository's root")
}

/// Cargo's target directory, where everything that these tasks make goes.
fn target_dir() -> Result<PathBuf> {
    // This program runs from `<target>/<profile>/xtask`.
    let executable = std::env::current_exe().context("where am I?")?;
    Ok(executable.ancestors().nth(2).context("not in a target directory")?.to_owned())
}

fn main() -> ExitCode {
    match run(Arguments::parse().task) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// Whether what was to be checked held.
fn run(task: Task) -> Result<bool> {
    match task {
        Task::Setup => setup::for_tests().map(|()| true),
        Task::Test { slow } => suite::run(slow),
        Task::Rules => rules::run(),
        Task::Oracle { programs, arguments } => oracle::print(&programs, &arguments).map(|()| true),
        Task::Bench(Bench::Overhead { side_by_side, runs, only }) => overhead::run(side_by_side, runs, &only),
        Task::Bench(Bench::Trace { runs, only }) => trace_cost::run(runs, &only),
        Task::Bench(Bench::Translate { runs, only }) => translate_cost::run(runs, &only),
        Task::Bench(Bench::Counts { collector, only }) => trace_counts::run(collector, &only),
        Task::Bench(Bench::Collectors { only }) => collectors::run(&only),
        Task::Bench(Bench::Simulate { runs, only }) => simulate_speed::run(runs, &only),
        Task::Bench(Bench::Split { runs, only }) => split::run(runs, &only),
        Task::Bench(Bench::Regions { runs, only }) => region_cost::run(runs, &only),
        Task::Bench(Bench::Advice { runs, llvm_test_suite, only }) => {
            advice::run(runs, llvm_test_suite.as_deref(), &only)
        }
        Task::Bench(Bench::Hints { runs, only }) => hints::run(runs, &only),
        Task::Bench(Bench::Agreement { runs, only }) => agreement::run(runs, &only),
        Task::Bench(Bench::Coverage { keep, only }) => coverage::run(keep.as_deref(), &only),
        Task::Fuzz { seconds, only } => fuzz::run(seconds, &only),
        Task::Soak { minutes, only } => soak::run(minutes, &only),
        Task::Harm { draw: Some(count), .. } => harm::print_draw(count),
        Task::Harm { times, slice, draw: None, only } => harm::run(times, slice, &only),
    }
}
