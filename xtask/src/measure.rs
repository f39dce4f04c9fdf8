//! Wall times of commands: interleaved runs and their median.

use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

/// Wall times of two commands that were run in turn, so that both meet the same state of the machine.
pub(crate) struct Pair {
    first: Vec<Duration>,
    second: Vec<Duration>,
}

impl Pair {
    /// Runs `first` and `second` in turn, `runs` times each, after one run of each that doesn't count (page cache,
    /// frequency). Fails if one fails; with `same_output`, also if what they print differs.
    pub(crate) fn measure(
        runs: usize,
        same_output: bool,
        first: impl Fn() -> Result<Command>,
        second: impl Fn() -> Result<Command>,
    ) -> Result<Self> {
        let mut pair = Self { first: Vec::new(), second: Vec::new() };
        for run in 0..=runs {
            let (first_time, first_output) = timed(first()?)?;
            let (second_time, second_output) = timed(second()?)?;
            if same_output && first_output.stdout != second_output.stdout {
                bail!("different output of {:?} and {:?}", first()?, second()?);
            }
            if run > 0 {
                pair.first.push(first_time);
                pair.second.push(second_time);
            }
        }
        Ok(pair)
    }

    /// Median of the first command's times, in seconds.
    pub(crate) fn first_seconds(&self) -> f64 {
        median(self.first.iter().map(Duration::as_secs_f64).collect())
    }

    /// Median of the second command's times, in seconds.
    pub(crate) fn second_seconds(&self) -> f64 {
        median(self.second.iter().map(Duration::as_secs_f64).collect())
    }

    /// Median over the pairs of second time by first time: a slow spell of the machine hits both of a pair.
    pub(crate) fn ratio(&self) -> f64 {
        median(self.first.iter().zip(&self.second).map(|(a, b)| b.as_secs_f64() / a.as_secs_f64()).collect())
    }
}

/// Runs a command to its end; fails unless it succeeds.
pub(crate) fn timed(mut command: Command) -> Result<(Duration, Output)> {
    let started = Instant::now();
    let output = command.output().with_context(|| format!("can't run {:?}", command.get_program()))?;
    let time = started.elapsed();
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{command:?}: {}\n{}", output.status, said.trim_end());
    }
    Ok((time, output))
}

/// The middle value, or the mean of the two in the middle. `values` must not be empty.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
}

/// A file read with its path in the error.
pub(crate) fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_of_odd_and_even_counts() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn the_ratio_is_of_pairs() {
        let seconds = |values: &[u64]| values.iter().map(|s| Duration::from_secs(*s)).collect();
        // The machine was four times slower during the last pair.
        let pair = Pair { first: seconds(&[10, 10, 40]), second: seconds(&[11, 11, 44]) };
        assert!((pair.ratio() - 1.1).abs() < 1e-9);
    }
}
