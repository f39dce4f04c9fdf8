//! CPU times of two commands that run at the same time on one processor, which the kernel gives them by turns of a few
//! milliseconds.
//!
//! Where neighbours of a virtual machine make one and the same program take half as long or twice as long from one
//! minute to the next, runs in turn tell nothing finer than that. These meet the same neighbours in the same
//! milliseconds: two runs of one program differ by a hundredth. What they can't tell is wall time, and what a second
//! processor would take over.

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::process::{Child, Command};

use anyhow::{Context as _, Result, bail};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::measure::{Spread, children_cpu_seconds, median};

/// CPU times of pairs, in seconds, each with all that the command starts.
#[derive(Default)]
pub(crate) struct SideBySide {
    first: Vec<f64>,
    second: Vec<f64>,
}

impl SideBySide {
    /// Runs pairs, `runs` of them and on until it `is_enough`. Which is started first alternates. Fails if a command
    /// fails, or if what the two print differs.
    pub(crate) fn measure(
        runs: usize,
        first: impl Fn() -> Result<Command>,
        second: impl Fn() -> Result<Command>,
        is_enough: impl Fn(&Self) -> bool,
    ) -> Result<Self> {
        if runs == 0 {
            bail!("--runs must be at least 1");
        }
        let _pinned = Pinned::to_last()?;
        let mut pairs = Self::default();
        while pairs.first.len() < runs || !is_enough(&pairs) {
            let (mut one, mut other);
            if pairs.first.len().is_multiple_of(2) {
                one = Running::start(first()?)?;
                other = Running::start(second()?)?;
            } else {
                other = Running::start(second()?)?;
                one = Running::start(first()?)?;
            }
            let (first_seconds, first_output) = one.end()?;
            let (second_seconds, second_output) = other.end()?;
            if first_output != second_output {
                bail!("different output of {:?} and {:?}", first()?, second()?);
            }
            pairs.first.push(first_seconds);
            pairs.second.push(second_seconds);
        }
        Ok(pairs)
    }

    /// How many pairs were run.
    pub(crate) fn len(&self) -> usize {
        self.first.len()
    }

    /// Medians of both, in seconds.
    pub(crate) fn seconds(&self) -> (f64, f64) {
        (median(self.first.clone()), median(self.second.clone()))
    }

    /// Second by first, over the pairs.
    pub(crate) fn ratio(&self) -> Spread {
        Spread::of_ratios(self.first.iter().copied(), self.second.iter().copied())
    }
}

/// A command that runs, and where its output goes: files, so that no pipe fills up while another is waited for.
struct Running {
    what: String,
    child: Child,
    stdout: File,
    stderr: File,
}

impl Running {
    fn start(mut command: Command) -> Result<Self> {
        let what = format!("{command:?}");
        let [stdout, stderr] = [tempfile::tempfile()?, tempfile::tempfile()?];
        command.stdout(stdout.try_clone()?).stderr(stderr.try_clone()?);
        let child = command.spawn().with_context(|| format!("can't run {what}"))?;
        Ok(Self { what, child, stdout, stderr })
    }

    /// Its CPU time and what it printed; fails unless it succeeds. The kernel adds a child's time to its parent's when the
    /// child is waited for, so one that ended long ago is told apart from the other.
    fn end(&mut self) -> Result<(f64, Vec<u8>)> {
        let before = children_cpu_seconds()?;
        let status = self.child.wait()?;
        let seconds = children_cpu_seconds()? - before;
        if !status.success() {
            bail!("{}: {status}\n{}", self.what, String::from_utf8_lossy(&whole(&mut self.stderr)?).trim_end());
        }
        Ok((seconds, whole(&mut self.stdout)?))
    }
}

fn whole(file: &mut File) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// While it lives, this thread and what it starts run on one processor.
struct Pinned {
    before: CpuSet,
}

impl Pinned {
    /// The last that is allowed: the first serves more interrupts.
    fn to_last() -> Result<Self> {
        let before = sched_getaffinity(None)?;
        let last = (0..CpuSet::MAX_CPU).rev().find(|&cpu| before.is_set(cpu)).context("no processor is allowed")?;
        let mut one = CpuSet::new();
        one.set(last);
        sched_setaffinity(None, &one)?;
        Ok(Self { before })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // It was allowed before; and nothing but times depends on it.
        let _ = sched_setaffinity(None, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Result<Command> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Ok(command)
    }

    #[test]
    fn each_has_its_own_time_and_both_run_on_one_processor() {
        const LONG: &str = "i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done";
        let pairs = SideBySide::measure(2, || shell(":"), || shell(LONG), |pairs| pairs.len() >= 3).unwrap();
        assert_eq!(pairs.len(), 3);
        let (short, long) = pairs.seconds();
        assert!(long > 0.05 && short < long / 2.0, "{short} {long}");
        let processors = || Running::start(shell("nproc").unwrap()).unwrap().end().unwrap().1;
        let all = processors();
        let pinned = Pinned::to_last().unwrap();
        assert_eq!(processors(), b"1\n");
        drop(pinned);
        assert_eq!(processors(), all);
    }

    #[test]
    fn failures_and_differences_are_told() {
        let measure =
            |first, second| SideBySide::measure(1, || shell(first), || shell(second), |_| true).err().unwrap();
        assert!(measure("echo a", "echo b").to_string().starts_with("different output"));
        assert!(measure(":", "echo why >&2; exit 3").to_string().ends_with("exit status: 3\nwhy"));
    }
}
