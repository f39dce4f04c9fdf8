//! `cargo xtask bench simulate`: how fast recorded traces are simulated and reuse distances told, beside Cachegrind.
//!
//! Rates are accesses by CPU time, so nobody's second thread helps, and a busy machine disturbs less.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use sample_programs::Program;

use crate::compilers::{Compilers, without_debug_information};
use crate::measure::{CpuSeconds, after_name, median, read, timed};
use crate::selection::select;
use crate::setup;
use crate::slimline::Slimline;

/// A sample program, which has a name, what it mostly does, and arguments that make some ten million accesses.
struct Case {
    name: &'static str,
    is_chase: bool,
    arguments: &'static [&'static str],
}

const CASES: &[Case] = &[
    Case { name: "int4_two_loops", is_chase: false, arguments: &["4"] },
    Case { name: "list_chase", is_chase: true, arguments: &["40"] },
];

/// What is done with a trace, with the goal of issue 5 in millions of accesses a second: in loops, and along pointers.
struct Way {
    name: &'static str,
    task: &'static str,
    options: &'static [&'static str],
    /// None where the issue names none.
    goals: Option<[f64; 2]>,
}

/// CSV is the shortest: by variable and line. What is told is counted by key in any case: field, line, function, thread.
const WAYS: [Way; 4] = [
    Way {
        name: "simulate",
        task: "simulate",
        options: &["--machine", "host", "--format", "csv"],
        goals: Some([80.0, 25.0]),
    },
    // Beside distances it has the machine simulated, for what each access takes, and strides.
    Way { name: "reuse", task: "reuse", options: &["--machine", "host"], goals: None },
    // As many lines as may be: all of them, so that distances are exact.
    Way {
        name: "distances",
        task: "reuse",
        options: &["--machine", "host", "--sampled", "67108864"],
        goals: Some([15.0, 15.0]),
    },
    Way {
        name: "reuse --sampled",
        task: "reuse",
        options: &["--machine", "host", "--sampled", "8192"],
        goals: Some([100.0, 100.0]),
    },
];

/// What a run took.
#[derive(Clone, Copy, Debug)]
struct Taken {
    cpu_seconds: f64,
    peak_bytes: u64,
}

/// Between two looks at how much memory a process has taken: what it takes stays, so little is missed.
const LOOK: Duration = Duration::from_millis(5);

/// Measures all cases; prints Markdown tables. Whether all goals are met.
pub(crate) fn run(runs: usize, only: &[String]) -> Result<bool> {
    ensure!(runs > 0, "nothing to measure");
    let cases = select(CASES.iter().collect(), |case| case.name, only)?;
    setup::install(setup::TRACING)?;
    let slimline = Slimline::build()?;
    let names = WAYS.map(|way| format!("{} | MiB", way.name)).join(" | ");
    println!("Millions of accesses by second of CPU time, decoding of the trace included, and peak memory:\n");
    println!("| program | accesses, M | {names} | Cachegrind | simulate by it |");
    println!("| --- | ---: {}| ---: | ---: |", "| ---: | ---: ".repeat(WAYS.len()));
    let mut goals = Vec::new();
    for case in cases {
        goals.extend(measure(&slimline, case, runs).with_context(|| case.name.to_owned())?);
    }
    println!("\n| goal | program | at least | found | |\n| --- | --- | ---: | ---: | --- |");
    let mut are_met = true;
    for (way, case, at_least, found) in goals {
        let is_met = found >= at_least;
        are_met &= is_met;
        println!("| {way} | {case} | {at_least} | {found:.1} | {} |", if is_met { "met" } else { "missed" });
    }
    Ok(are_met)
}

/// A row of the first table; of the second: way, program, at least, found.
fn measure<'a>(slimline: &Slimline, case: &'a Case, runs: usize) -> Result<Vec<(&'static str, &'a str, f64, f64)>> {
    let program = Program::named(case.name)?;
    let native = without_debug_information(&Compilers::clang().build(&program, "-O2 -g", "native")?)?;
    let traced = slimline.compilers()?.build(&program, "-O2 -g", "traced")?;
    let trace = slimline.session("simulated");
    let mut traced = Command::new(traced);
    traced.args(case.arguments);
    timed(slimline.trace(&traced, &["-o".as_ref(), trace.as_os_str()]))?;
    let accesses = slimline.traced_accesses(&trace)? as f64;
    ensure!(accesses > 0.0, "its trace has no access");
    let mut cells = Vec::new();
    let mut rates = Vec::new();
    for way in &WAYS {
        let run = |_| peak_of(slimline.analysis(way.task, &trace, way.options));
        let taken: Vec<Taken> = (0..runs).map(run).collect::<Result<_>>()?;
        let rate = accesses / median(taken.iter().map(|taken| taken.cpu_seconds).collect()) / 1e6;
        let peak_bytes = taken.iter().map(|taken| taken.peak_bytes).max().unwrap_or(0);
        cells.push(format!("{rate:.1} | {}", peak_bytes >> 20));
        rates.push(rate);
    }
    let cachegrind = cachegrind(&native, case.arguments, runs)?;
    let [simulated, ..] = rates[..] else { bail!("nothing was simulated") };
    println!(
        "| {} | {:.1} | {} | {cachegrind:.1} | {:.1} |",
        case.name,
        accesses / 1e6,
        cells.join(" | "),
        simulated / cachegrind
    );
    std::fs::remove_dir_all(&trace).with_context(|| trace.display().to_string())?;
    let goal = |(way, rate): (&Way, f64)| {
        let goals = way.goals?;
        Some((way.name, case.name, goals[usize::from(case.is_chase)], rate))
    };
    Ok(WAYS.iter().zip(rates).filter_map(goal).collect())
}

/// Cachegrind's millions of data accesses by second, without what Valgrind takes by itself. It simulates instructions, too.
fn cachegrind(program: &Path, arguments: &[&str], runs: usize) -> Result<f64> {
    let valgrind = |options: &[&str]| {
        let mut valgrind = Command::new("valgrind");
        valgrind.args(options).arg(program).args(arguments);
        timed(valgrind)
    };
    let (mut none, mut with) = (Vec::new(), Vec::new());
    let mut references = 0.0;
    for _ in 0..runs {
        none.push(valgrind(&["--tool=none"])?.0.cpu_seconds);
        let (time, output) = valgrind(&["--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null"])?;
        with.push(time.cpu_seconds);
        references = data_references(&String::from_utf8_lossy(&output.stderr))?;
    }
    Ok(references / (median(with) - median(none)) / 1e6)
}

/// `==1== D   refs:      1,234  (1,000 rd   + 234 wr)`
fn data_references(said: &str) -> Result<f64> {
    let told = |line: &str| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [_, "D", "refs:", number, ..] => Some(number.replace(',', "")),
        _ => None,
    };
    let number = said.lines().find_map(told).context("Cachegrind told no references")?;
    number.parse().with_context(|| format!("D refs: {number}"))
}

/// Runs a command to its end: its CPU time, and the most memory that it had.
fn peak_of(mut command: Command) -> Result<Taken> {
    let mut child = command.stdout(Stdio::null()).spawn().with_context(|| format!("can't run {command:?}"))?;
    let mut taken = Taken { cpu_seconds: 0.0, peak_bytes: 0 };
    while !has_ended(&child)? {
        // Gone as soon as it ends.
        taken.peak_bytes = peak_bytes(&child).unwrap_or(taken.peak_bytes);
        std::thread::sleep(LOOK);
    }
    taken.cpu_seconds = CpuSeconds::of(child.id())?.own;
    let status = child.wait()?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(taken)
}

/// Whether a child is done, and only waits to be asked how it ended.
fn has_ended(child: &Child) -> Result<bool> {
    let stat = read(Path::new(&format!("/proc/{}/stat", child.id())))?;
    Ok(after_name(&stat)?.starts_with('Z'))
}

fn peak_bytes(child: &Child) -> Option<u64> {
    let status = read(Path::new(&format!("/proc/{}/status", child.id()))).ok()?;
    let (_, told) = status.split_once("VmHWM:")?;
    told.split_whitespace().next()?.parse::<u64>().ok().map(|kibibytes| kibibytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cachegrind_tells_its_references() {
        let said = "==7== I   refs:      3,000\n==7== D   refs:      1,234,567  (1,000,000 rd   + 234,567 wr)\n";
        assert_eq!(data_references(said).unwrap(), 1_234_567.0);
        assert!(data_references("==7== I   refs: 1").is_err());
    }

    #[test]
    fn memory_and_time_of_a_command_are_seen() {
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 0.1"]);
        let taken = peak_of(command).unwrap();
        assert!(taken.peak_bytes > 100 << 10 && taken.cpu_seconds < 0.1, "{taken:?}");
        assert!(peak_of(Command::new("false")).is_err());
    }
}
