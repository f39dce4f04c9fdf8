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
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::measure::{CpuSeconds, Spread, median};

/// CPU times of pairs.
#[derive(Default)]
pub(crate) struct SideBySide {
    first: Vec<CpuSeconds>,
    second: Vec<CpuSeconds>,
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
            let (first_times, first_output) = one.end()?;
            let (second_times, second_output) = other.end()?;
            if first_output != second_output {
                bail!("different output of {:?} and {:?}", first()?, second()?);
            }
            pairs.first.push(first_times);
            pairs.second.push(second_times);
        }
        Ok(pairs)
    }

    /// How many pairs were run.
    pub(crate) fn len(&self) -> usize {
        self.first.len()
    }

    /// Medians of both, in seconds.
    pub(crate) fn seconds(&self, counted: Counted) -> (f64, f64) {
        (median(self.first.iter().map(whole).collect()), median(self.of_second(counted).collect()))
    }

    /// Second by first, over the pairs.
    pub(crate) fn ratio(&self, counted: Counted) -> Spread {
        Spread::of_ratios(self.first.iter().map(whole), self.of_second(counted))
    }

    fn of_second(&self, counted: Counted) -> impl Iterator<Item = f64> {
        self.second.iter().map(move |time| match counted {
            Counted::Whole => whole(time),
            Counted::Started => time.children,
        })
    }
}

/// Which CPU time of the second command is compared with that of the first and all that it starts.
#[derive(Clone, Copy)]
pub(crate) enum Counted {
    /// That with all that it starts, too.
    Whole,
    /// That of what it starts, without itself.
    Started,
}

fn whole(time: &CpuSeconds) -> f64 {
    time.own + time.children
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

    /// Its CPU times and what it printed; fails unless it succeeds. Its times can be read until it is waited for.
    fn end(&mut self) -> Result<(CpuSeconds, Vec<u8>)> {
        let pid = Pid::from_child(&self.child);
        waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
        let times = CpuSeconds::of(self.child.id())?;
        let status = self.child.wait()?;
        if !status.success() {
            bail!("{}: {status}\n{}", self.what, String::from_utf8_lossy(&read_all(&mut self.stderr)?).trim_end());
        }
        Ok((times, read_all(&mut self.stdout)?))
    }
}

/// Where the other of a pair could not be started, or failed.
impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_all(file: &mut File) -> Result<Vec<u8>> {
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

    /// A script that goes on until it has used so many ticks by itself, as the kernel counts them.
    fn uses(ticks: u32) -> String {
        let fields = "p c s pp g ss t tp f mi cmi ma cma user system rest";
        format!("u=0; while [ $u -lt {ticks} ]; do read -r {fields} < /proc/$$/stat; u=$((user + system)); done")
    }

    #[test]
    fn each_has_its_own_time_and_both_run_on_one_processor() {
        let pairs = SideBySide::measure(2, || shell(&uses(2)), || shell(&uses(20)), |pairs| pairs.len() >= 3).unwrap();
        assert_eq!(pairs.len(), 3);
        let (short, long) = pairs.seconds(Counted::Whole);
        assert!(short >= 0.02 && long >= 0.2 && short < long, "{short} {long}");
        let times = |own, children| CpuSeconds { own, children };
        let recorded = SideBySide { first: vec![times(1.0, 1.0)], second: vec![times(0.5, 2.5)] };
        let counted = |counted| (recorded.seconds(counted), recorded.ratio(counted).median);
        assert_eq!(counted(Counted::Whole), ((2.0, 3.0), 1.5));
        assert_eq!(counted(Counted::Started), ((2.0, 2.5), 1.25));
        let started = format!("{}; sh -c '{}'", uses(2), uses(20));
        let pairs = SideBySide::measure(1, || shell(":"), || shell(&started), |_| true).unwrap();
        let CpuSeconds { own, children } = pairs.second[0];
        assert!(own >= 0.02 && children >= 0.2 && own < children, "{own} {children}");
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
