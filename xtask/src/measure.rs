//! Times of commands: interleaved runs and their medians.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

/// What one run of a command took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Time {
    /// From start to end.
    pub(crate) wall_seconds: f64,
    /// User and system time of the command and all its children, to a hundredth of a second.
    pub(crate) cpu_seconds: f64,
}

/// Times of two commands that were run in turn, so that both meet the same state of the machine.
pub(crate) struct Pair {
    first: Vec<Time>,
    second: Vec<Time>,
}

impl Pair {
    /// Runs `first` and `second` in turn, each being first in every other pair, `runs` times each, after one run of each that
    /// doesn't count (page cache, frequency). Fails if one fails, or if what they print differs.
    pub(crate) fn measure(
        runs: usize,
        first: impl Fn() -> Result<Command>,
        second: impl Fn() -> Result<Command>,
    ) -> Result<Self> {
        Self::measure_until(runs, first, second, |_| true)
    }

    /// The same, and on until it `is_enough`, which is asked after the last run and each one that follows.
    pub(crate) fn measure_until(
        runs: usize,
        first: impl Fn() -> Result<Command>,
        second: impl Fn() -> Result<Command>,
        is_enough: impl Fn(&Self) -> bool,
    ) -> Result<Self> {
        Self::measure_printing(runs, first, second, |one, other| one == other, is_enough)
    }

    /// As [`Self::measure`], of a `second` that prints a report of its own after what the `first` prints.
    pub(crate) fn measure_reporting(
        runs: usize,
        first: impl Fn() -> Result<Command>,
        second: impl Fn() -> Result<Command>,
    ) -> Result<Self> {
        Self::measure_printing(runs, first, second, |one, other| other.starts_with(one), |_| true)
    }

    /// One run of a `second` that takes very long, after so many of the `first`, whose medians stand for them.
    pub(crate) fn measure_once(
        first_runs: usize,
        first: impl Fn() -> Result<Command>,
        second: impl Fn() -> Result<Command>,
    ) -> Result<Self> {
        let mut times = Vec::new();
        let mut expected = None;
        for _ in 0..first_runs {
            let (time, output) = timed(first()?)?;
            times.push(time);
            expected = Some(output.stdout);
        }
        let (time, output) = timed(second()?)?;
        if expected != Some(output.stdout) {
            bail!("different output of {:?} and {:?}", first()?, second()?);
        }
        let usual = |of: fn(&Time) -> f64| median(times.iter().map(of).collect());
        let usual = Time { wall_seconds: usual(|time| time.wall_seconds), cpu_seconds: usual(|time| time.cpu_seconds) };
        Ok(Self { first: vec![usual], second: vec![time] })
    }

    fn measure_printing(
        runs: usize,
        first: impl Fn() -> Result<Command>,
        second: impl Fn() -> Result<Command>,
        agree: impl Fn(&[u8], &[u8]) -> bool,
        is_enough: impl Fn(&Self) -> bool,
    ) -> Result<Self> {
        if runs == 0 {
            bail!("--runs must be at least 1");
        }
        let mut pair = Self { first: Vec::new(), second: Vec::new() };
        for run in 0.. {
            if run > runs && is_enough(&pair) {
                break;
            }
            let (run_first, run_second) = (|| timed(first()?), || timed(second()?));
            // By turns: where the machine favours whoever comes first, as seen, that is half of the pairs each.
            let ((first_time, first_output), (second_time, second_output)) = if run % 2 == 0 {
                let of_first = run_first()?;
                (of_first, run_second()?)
            } else {
                let of_second = run_second()?;
                (run_first()?, of_second)
            };
            if !agree(&first_output.stdout, &second_output.stdout) {
                bail!("different output of {:?} and {:?}", first()?, second()?);
            }
            if run > 0 {
                pair.first.push(first_time);
                pair.second.push(second_time);
            }
        }
        Ok(pair)
    }

    /// How many pairs were run.
    pub(crate) fn len(&self) -> usize {
        self.first.len()
    }

    /// Median wall time of the first command.
    pub(crate) fn first_seconds(&self) -> f64 {
        median(self.first.iter().map(|time| time.wall_seconds).collect())
    }

    /// Median wall time of the second command.
    pub(crate) fn second_seconds(&self) -> f64 {
        median(self.second.iter().map(|time| time.wall_seconds).collect())
    }

    /// Second wall time by first, over the pairs: a slow spell of the machine hits both of a pair.
    pub(crate) fn wall_ratio(&self) -> Spread {
        self.ratio(|time| time.wall_seconds)
    }

    /// The same of CPU time, which other programs on the machine disturb less.
    pub(crate) fn cpu_ratio(&self) -> Spread {
        self.ratio(|time| time.cpu_seconds)
    }

    fn ratio(&self, of: impl Fn(&Time) -> f64) -> Spread {
        Spread::of_ratios(self.first.iter().map(&of), self.second.iter().map(&of))
    }

    /// What the second command takes longer than the first, in seconds of wall time, over the pairs.
    pub(crate) fn wall_difference(&self) -> Spread {
        let times = self.first.iter().zip(&self.second);
        Spread::of(times.map(|(first, second)| second.wall_seconds - first.wall_seconds).collect())
    }
}

/// Where values lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) least: f64,
    pub(crate) median: f64,
    pub(crate) most: f64,
    /// Where the true median is with a probability of 95 % or more; from least to most of less than six values, which
    /// promises less.
    pub(crate) interval: (f64, f64),
}

impl Spread {
    /// Of `values`, which must not be empty.
    pub(crate) fn of(mut values: Vec<f64>) -> Self {
        values.sort_by(f64::total_cmp);
        let last = values.len() - 1;
        let left_out = outside(values.len());
        Self {
            least: values[0],
            most: values[last],
            interval: (values[left_out], values[last - left_out]),
            median: median(values),
        }
    }

    /// Of each of the `second` by its fellow of the `first`, of which there must be some.
    pub(crate) fn of_ratios(first: impl Iterator<Item = f64>, second: impl Iterator<Item = f64>) -> Self {
        Self::of(first.zip(second).map(|(first, second)| second / first).collect())
    }
}

/// How many of so many sorted values can be left out at either end, so that the median of what they are a sample of lies
/// between the others with a probability of at least 95 %: a value is below it as a coin falls.
fn outside(count: usize) -> usize {
    let mut probability = 0.5_f64.powi(count as i32);
    let mut below = 0.0;
    for left_out in 0..count {
        below += probability;
        if below > 0.025 {
            return left_out.saturating_sub(1);
        }
        probability *= (count - left_out) as f64 / (left_out + 1) as f64;
    }
    0
}

/// `outer` with `command` as its last arguments; environment and working directory are the command's. Standard input must be
/// given to the result again.
pub(crate) fn started_by(mut outer: Command, command: &Command) -> Command {
    outer.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        outer.current_dir(directory);
    }
    outer
}

/// Runs a command to its end; fails unless it succeeds.
pub(crate) fn timed(mut command: Command) -> Result<(Time, Output)> {
    let (started, cpu_before) = (Instant::now(), children_cpu_seconds()?);
    let output = command.output().with_context(|| format!("can't run {:?}", command.get_program()))?;
    let time =
        Time { wall_seconds: started.elapsed().as_secs_f64(), cpu_seconds: children_cpu_seconds()? - cpu_before };
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{command:?}: {}\n{}", output.status, said.trim_end());
    }
    Ok((time, output))
}

/// User and system time of a process, in seconds, to a hundredth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct CpuSeconds {
    /// Its own.
    pub(crate) own: f64,
    /// That of its children that it waited for, and of theirs.
    pub(crate) children: f64,
}

impl CpuSeconds {
    /// Of a process, which may have ended if nobody waited for it yet.
    pub(crate) fn of(pid: u32) -> Result<Self> {
        let file = format!("/proc/{pid}/stat");
        Self::of_stat(&read(Path::new(&file))?).context(file)
    }

    /// `utime`, `stime`, `cutime` and `cstime` of proc_pid_stat(5), fields 14 to 17, in ticks of 1/100 s on x86-64.
    fn of_stat(stat: &str) -> Result<Self> {
        let times = after_name(stat)?.split(' ').skip(11).take(4).map(str::parse).collect::<Result<Vec<f64>, _>>()?;
        let [user, system, children_user, children_system] = times[..] else { bail!("too few fields") };
        Ok(Self { own: (user + system) / 100.0, children: (children_user + children_system) / 100.0 })
    }
}

/// What stands behind the command's name in proc_pid_stat(5), from the state (field 3) on: the name, field 2, is in parentheses and
/// may hold anything.
pub(crate) fn after_name(stat: &str) -> Result<&str> {
    Ok(stat.rsplit_once(") ").context("no command name")?.1)
}

/// CPU time of all children of this process that ended, and of theirs.
fn children_cpu_seconds() -> Result<f64> {
    Ok(CpuSeconds::of(std::process::id())?.children)
}

/// The middle value, or the mean of the two in the middle. `values` must not be empty.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
}

/// The mean of some runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Mean {
    pub(crate) mean: f64,
    /// Half of its 95 % interval, by Student's t; infinite for a single run.
    pub(crate) reach: f64,
}

/// The mean and how far it may be off. `values` must not be empty.
pub(crate) fn mean(values: &[f64]) -> Mean {
    /// 97.5 % quantiles of Student's t for 1 to 10 degrees of freedom; that for 10 is used above.
    const T: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
    let runs = values.len() as f64;
    let mean = values.iter().sum::<f64>() / runs;
    let Some(freedom) = values.len().checked_sub(2) else { return Mean { mean, reach: f64::INFINITY } };
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (runs - 1.0);
    Mean { mean, reach: T[freedom.min(T.len() - 1)] * (variance / runs).sqrt() }
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

    fn shell(script: &str) -> Result<Command> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Ok(command)
    }

    #[test]
    fn only_reports_may_follow_what_the_first_prints() {
        let reporting = |first, second| Pair::measure_reporting(1, || shell(first), || shell(second)).is_ok();
        assert!(reporting("echo a", "echo a; echo report"));
        assert!(!reporting("echo a", "echo b; echo report") && !reporting("echo a; echo b", "echo a"));
        assert!(Pair::measure(1, || shell("echo a"), || shell("echo a; echo report")).is_err());
    }

    #[test]
    fn what_is_run_once_is_compared_with_the_median() {
        let once = |runs, first, second| Pair::measure_once(runs, || shell(first), || shell(second));
        let pair = once(3, "sleep 0.01; echo a", "sleep 0.1; echo a").unwrap();
        assert_eq!((pair.first.len(), pair.second.len()), (1, 1));
        assert!(pair.first[0].wall_seconds >= 0.01 && pair.second[0].wall_seconds >= 0.1);
        assert!(once(1, "echo a", "echo b").is_err() && once(0, ":", ":").is_err());
    }

    #[test]
    fn interval_of_a_mean_by_hand() {
        // Deviations −1, 0, 1: variance 1, standard error 1/√3, t for two degrees of freedom 4.303.
        let found = mean(&[1.0, 2.0, 3.0]);
        assert_eq!(found.mean, 2.0);
        assert!((found.reach - 4.303 / 3.0_f64.sqrt()).abs() < 1e-12);
        assert_eq!(mean(&[7.0]).reach, f64::INFINITY);
        assert_eq!(mean(&[2.0; 40]), Mean { mean: 2.0, reach: 0.0 });
    }

    #[test]
    fn spread_is_from_the_least_to_the_most() {
        let interval = (1.0, 5.0);
        assert_eq!(Spread::of(vec![3.0, 1.0, 5.0, 2.0]), Spread { least: 1.0, median: 2.5, most: 5.0, interval });
    }

    #[test]
    fn the_interval_of_a_median_as_in_tables() {
        // Conover, Practical Nonparametric Statistics, 3rd edition, table A3: with 9 values the second to the eighth,
        // with 15 the fourth to the twelfth, with 25 the eighth to the eighteenth.
        assert_eq!([1, 5, 6, 8, 9, 15, 25].map(outside), [0, 0, 0, 0, 1, 3, 7]);
    }

    #[test]
    fn the_ratio_is_of_pairs() {
        let times = |seconds: &[f64]| {
            seconds.iter().map(|&wall_seconds| Time { wall_seconds, cpu_seconds: wall_seconds / 2.0 }).collect()
        };
        // The machine was four times slower during the last pair.
        let pair = Pair { first: times(&[10.0, 10.0, 40.0]), second: times(&[11.0, 11.0, 44.0]) };
        assert!((pair.wall_ratio().median - 1.1).abs() < 1e-9);
        assert!((pair.cpu_ratio().median - 1.1).abs() < 1e-9);
        let extra = pair.wall_difference();
        assert!((extra.median - 1.0).abs() < 1e-9 && (extra.most - 4.0).abs() < 1e-9);
    }

    #[test]
    fn times_are_read_behind_any_name() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4 10 20 0 0 3 4 250 50 20 0 1 0 99";
        assert_eq!(CpuSeconds::of_stat(stat).unwrap(), CpuSeconds { own: 0.07, children: 3.0 });
        assert!(CpuSeconds::of_stat("7 (a) S 1").is_err());
    }
}
