//! `cargo xtask bench split`: what the advised splits gain when applied by hand.

use std::process::Command;

use anyhow::{Result, bail};
use sample_programs::{Optimization, catalogue};

use crate::measure::Pair;
use crate::target_dir;

/// Measures each program that has a `_split` twin; prints a Markdown table.
pub(crate) fn run(runs: usize, only: &[String]) -> Result<bool> {
    let directory = target_dir()?.join("programs");
    println!("| program | as it was, s | split, s | speed-up |\n| --- | --- | --- | --- |");
    let mut measured = 0;
    for program in catalogue()? {
        let Some(twin) = program.split_twin() else { continue };
        if !only.is_empty() && !only.contains(&program.name) {
            continue;
        }
        for (optimization, level) in [(Optimization::O2, "-O2"), (Optimization::O3, "-O3")] {
            let (before, after) = (program.build(optimization, &directory)?, twin.build(optimization, &directory)?);
            let pair = Pair::measure(runs, || Ok(Command::new(&before)), || Ok(Command::new(&after)))?;
            println!(
                "| {} {level} | {:.2} | {:.2} | {:.2} |",
                program.name,
                pair.first_seconds(),
                pair.second_seconds(),
                1.0 / pair.wall_ratio().median
            );
            measured += 1;
        }
    }
    if measured == 0 {
        bail!("none of these has a split twin: {}", only.join(" "));
    }
    Ok(true)
}
