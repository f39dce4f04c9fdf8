//! `cargo xtask bench translate`: what tracing every access of programs as they are costs, beside Valgrind's tools.
//!
//! Goals are of issue 6: by the slowdown of the tools that people use for the same. Both slowdowns are by native runs of the same
//! minutes.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::measure::{Pair, median, started_by};
use crate::selection::select;
use crate::setup;
use crate::slimline::Slimline;
use crate::slowdown::{Slowdown, cells, show_goal, show_goals_head};
use crate::workload::{self, Workload};

/// A program with an input that keeps it busy for about a tenth of a second.
struct Case {
    name: &'static str,
    what: &'static str,
    /// It mostly computes with floating point, which QEMU does in software: measured, and no goal is for it.
    is_floating_point: bool,
    how: How,
}

enum How {
    /// One of ours, with its arguments.
    Ours(&'static [&'static str]),
    /// One of Debian's, with the size of its input.
    Debian(f64),
}

const CASES: &[Case] = &[
    ours("int4_two_loops", "loops", &["8"]),
    ours("search_tree", "a tree", &["1000000"]),
    ours("alloc_maps", "allocating", &["400000"]),
    ours("zones", "2 threads", &["40"]),
    Case { is_floating_point: true, ..ours("srad", "floating point", &["80"]) },
    debian("python3", 0.6),
    debian("perl", 0.6),
    debian("xz", 0.4),
    debian("sqlite3", 0.6),
];

const fn ours(name: &'static str, what: &'static str, arguments: &'static [&'static str]) -> Case {
    Case { name, what, is_floating_point: false, how: How::Ours(arguments) }
}

const fn debian(name: &'static str, size: f64) -> Case {
    Case { name, what: "Debian's", is_floating_point: false, how: How::Debian(size) }
}

/// How a program is run, in the order of the table's columns.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// Translated, and nothing traced.
    Qemu,
    /// What is traced is thrown away.
    Discarded,
    /// `slimline trace --live`.
    Live,
    /// `slimline simulate --live` of Cachegrind's machine.
    Simulated,
    /// `slimline trace -o`.
    Recorded,
    /// The same with what is loaded and stored: `slimline trace --values -o`.
    RecordedValues,
    /// Valgrind's own price.
    ValgrindNone,
    Cachegrind,
    Dhat,
}

impl Way {
    const ALL: [Self; 9] = [
        Self::Qemu,
        Self::Discarded,
        Self::Live,
        Self::Simulated,
        Self::Recorded,
        Self::RecordedValues,
        Self::ValgrindNone,
        Self::Cachegrind,
        Self::Dhat,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Qemu => "qemu",
            Self::Discarded => "discarded",
            Self::Live => "live",
            Self::Simulated => "simulated",
            Self::Recorded => "recorded",
            Self::RecordedValues => "with values",
            Self::ValgrindNone => "Valgrind none",
            Self::Cachegrind => "cachegrind",
            Self::Dhat => "dhat",
        }
    }

    /// What takes 20 times as long and more is run once.
    fn is_slow(self) -> bool {
        !matches!(self, Self::Qemu | Self::Discarded | Self::ValgrindNone)
    }
}

/// One way's slowdown by another one's.
struct Goal {
    what: &'static str,
    of: Way,
    by: Way,
    at_most: f64,
}

const GOALS: [Goal; 2] = [
    Goal { what: "simulated by cachegrind", of: Way::Simulated, by: Way::Cachegrind, at_most: 1.0 / 2.0 },
    Goal { what: "simulated by dhat", of: Way::Simulated, by: Way::Dhat, at_most: 1.0 / 3.0 },
];

/// Native runs beside one of a slow tool.
const NATIVE_RUNS: usize = 5;

/// What was measured of a program.
struct Costs<'a> {
    case: &'a Case,
    native_seconds: f64,
    slowdowns: Vec<(Way, Slowdown)>,
}

/// Measures all cases; prints Markdown tables. Whether all goals are met.
pub(crate) fn run(runs: usize, only: &[String]) -> Result<bool> {
    let cases = select(CASES.iter().collect(), |case| case.name, only)?;
    setup::install(setup::TRANSLATING)?;
    let slimline = Slimline::build()?;
    let bench = Bench { runs, discard: slimline.discarding()?, slimline };
    let columns = Way::ALL.map(Way::name).join(" | ");
    let rule = "| --- ".repeat(Way::ALL.len());
    println!("Wall time by that of the native program:\n");
    println!("| program | what | native, s | {columns} |\n| --- | --- | --- {rule}|");
    let mut all = Vec::new();
    for case in cases {
        let costs = bench.measure(case).with_context(|| case.name.to_owned())?;
        let cells = cells(costs.slowdowns.iter().map(|(_, slowdown)| Some(slowdown.wall)));
        println!("| {} | {} | {:.2} | {cells} |", case.name, case.what, costs.native_seconds);
        all.push(costs);
    }
    println!("\nCPU time, with all that runs beside the program:\n");
    println!("| program | {columns} |\n| --- {rule}|");
    for costs in &all {
        println!("| {} | {} |", costs.case.name, cells(costs.slowdowns.iter().map(|(_, slowdown)| slowdown.cpu)));
    }
    println!("\nGoals, of programs that compute with integers, by wall time:\n");
    show_goals_head();
    let mut are_met = true;
    for Goal { what, of, by, at_most } in GOALS {
        let bound_by = all.iter().filter(|costs| !costs.case.is_floating_point);
        let found: Vec<_> = bound_by.map(|costs| (costs.case.name, costs.wall(of) / costs.wall(by))).collect();
        are_met &= show_goal(what, at_most, &found);
    }
    Ok(are_met)
}

impl Costs<'_> {
    fn wall(&self, way: Way) -> f64 {
        let found = self.slowdowns.iter().find(|(of, _)| *of == way);
        found.map_or(f64::NAN, |(_, slowdown)| slowdown.wall)
    }
}

struct Bench {
    runs: usize,
    slimline: Slimline,
    /// Reads a trace and throws it away.
    discard: PathBuf,
}

impl Bench {
    fn measure<'a>(&self, case: &'a Case) -> Result<Costs<'a>> {
        let workload = match case.how {
            How::Ours(arguments) => workload::sample(case.name, arguments, case.what)?,
            How::Debian(size) => workload::of_debian(case.name, size)?,
        };
        let session = self.slimline.session("translated");
        let (mut native_seconds, mut slowdowns) = (Vec::new(), Vec::new());
        for way in Way::ALL {
            let first = || workload.with_input(workload.command());
            let second = || workload.with_input(self.command(way, &workload, &session));
            let pair = match way.is_slow() {
                true => Pair::measure_once(NATIVE_RUNS, first, second),
                false => Pair::measure(self.runs, first, second),
            };
            let pair = pair.with_context(|| way.name())?;
            native_seconds.push(pair.first_seconds());
            let (wall, cpu) = (pair.wall_ratio().median, pair.cpu_ratio().median);
            slowdowns.push((way, Slowdown { wall, cpu: Some(cpu) }));
        }
        std::fs::remove_dir_all(&session).with_context(|| session.display().to_string())?;
        Ok(Costs { case, native_seconds: median(native_seconds), slowdowns })
    }

    fn command(&self, way: Way, workload: &Workload, session: &Path) -> Command {
        let native = workload.command();
        let translated = |options: &[&'static str]| -> Vec<&OsStr> {
            ["--collector", "translate"].iter().chain(options).map(|option| OsStr::new(*option)).collect()
        };
        let outer = |program: &OsStr, options: &[&str]| {
            let mut outer = Command::new(program);
            outer.args(options);
            started_by(outer, &native)
        };
        let valgrind = |options: &[&str]| outer("valgrind".as_ref(), &[options, &["--log-file=/dev/null"]].concat());
        match way {
            // As the collector starts it.
            Way::Qemu => outer("qemu-x86_64".as_ref(), &["-cpu", "max"]),
            Way::Discarded => outer(self.discard.as_ref(), &["--translate"]),
            Way::Live => self.slimline.trace(&native, &translated(&["--live"])),
            Way::Simulated => self.slimline.simulate_live(&native, &translated(&["--machine", "valgrind"])),
            Way::Recorded => self.slimline.trace(&native, &[&translated(&["-o"])[..], &[session.as_os_str()]].concat()),
            Way::RecordedValues => {
                let options = [&translated(&["--values", "-o"])[..], &[session.as_os_str()]].concat();
                self.slimline.trace(&native, &options)
            }
            Way::ValgrindNone => valgrind(&["--tool=none"]),
            Way::Cachegrind => valgrind(&["--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null"]),
            Way::Dhat => valgrind(&["--tool=dhat", "--dhat-out-file=/dev/null"]),
        }
    }
}
