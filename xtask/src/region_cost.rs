//! `cargo xtask bench regions`: what timing regions of a length costs.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::measure::{Pair, timed};
use crate::slimline::Slimline;
use crate::{root, target_dir};

/// Kinds of regions that the program has.
const KINDS: [&str; 4] = ["parallel", "loop", "critical", "task"];
/// How long each region is, in microseconds.
const LENGTHS_US: [u32; 3] = [10, 100, 1000];
/// How long a run is.
const RUN_SECONDS: f64 = 2.0;
/// Steps of work that tell how long one takes.
const TRIAL_STEPS: u32 = 200_000_000;
/// Most that regions of 100 µs and more may cost.
const GOAL: f64 = 1.05;

/// Measures each kind by both compilers; prints a Markdown table. Whether the goal is met.
pub(crate) fn run(runs: usize, only: &[String]) -> Result<bool> {
    let slimline = Slimline::build()?;
    let directory = target_dir()?.join("programs");
    std::fs::create_dir_all(&directory)?;
    println!(
        "| regions | compiler | length, µs | alone, s | timed, s | ratio | 95 % |\n| --- | --- | --- | --- | --- | --- | --- |"
    );
    let (mut measured, mut is_met) = (0, true);
    for (compiler, name) in [("gcc", "gcc, libgomp"), ("clang-19", "clang, libomp")] {
        let program = built(compiler, &directory)?;
        let (trial, _) = timed(command(&program, "none", 1, TRIAL_STEPS))?;
        let steps_per_us = f64::from(TRIAL_STEPS) / (trial.wall_seconds * 1e6);
        for kind in KINDS.iter().filter(|kind| only.is_empty() || only.iter().any(|name| name == *kind)) {
            for length_us in LENGTHS_US {
                let rounds = (RUN_SECONDS * 1e6 / f64::from(length_us)) as u32;
                let steps = (steps_per_us * f64::from(length_us)) as u32;
                let pair = Pair::measure(
                    runs,
                    || Ok(command(&program, kind, rounds, steps)),
                    || {
                        let mut timed = slimline.command("regions");
                        timed.args(["--report", "/dev/null", "--"]).arg(&program);
                        timed.args([kind.to_string(), rounds.to_string(), steps.to_string()]);
                        Ok(timed)
                    },
                )?;
                let ratio = pair.wall_ratio();
                is_met &= length_us < 100 || ratio.median < GOAL;
                println!(
                    "| {kind} | {name} | {length_us} | {:.2} | {:.2} | {:.3} | {:.3} to {:.3} |",
                    pair.first_seconds(),
                    pair.second_seconds(),
                    ratio.median,
                    ratio.interval.0,
                    ratio.interval.1
                );
                measured += 1;
            }
        }
    }
    if measured == 0 {
        bail!("none of these is a kind of region: {} (there are {})", only.join(" "), KINDS.join(", "));
    }
    println!("\ngoal: below {GOAL} where regions last 100 µs or more: {}", if is_met { "met" } else { "missed" });
    Ok(is_met)
}

fn built(compiler: &str, directory: &Path) -> Result<PathBuf> {
    let program = directory.join(format!("short-{compiler}"));
    let mut command = Command::new(compiler);
    command.args(["-g", "-O2", "-fopenmp", "-o"]).arg(&program).arg(root().join("programs/openmp/short.c"));
    timed(command)?;
    Ok(program)
}

fn command(program: &Path, kind: &str, rounds: u32, steps: u32) -> Command {
    let mut command = Command::new(program);
    command.args([kind.to_owned(), rounds.to_string(), steps.to_string()]);
    command
}
