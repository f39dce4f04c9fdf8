//! `cargo xtask bench trace`: what tracing every access costs, and what it takes on disk.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use sample_programs::Program;

use crate::compilers::{Compilers, without_debug_information};
use crate::foreign::{self, Build, inputs};
use crate::measure::{Pair, median, started_by};
use crate::selection::select;
use crate::setup;
use crate::slimline::Slimline;
use crate::slowdown::{Slowdown, cells, show_goal, show_goals_head};
use crate::workload::{Workload, strings};

/// What a program mostly does, for the goals that depend on it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Loops,
    PointerChasing,
    Allocating,
    /// A program that nobody here wrote.
    Real,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Loops => "loops",
            Self::PointerChasing => "pointer chasing",
            Self::Allocating => "allocating",
            Self::Real => "real",
        }
    }
}

/// A program with two inputs: one that keeps it busy for a quarter of a second or more, so that the ratio is of running, not of starting, and one of some milliseconds for lackey,
/// which prints a line for each instruction.
struct Case {
    name: &'static str,
    kind: Kind,
    how: How,
}

enum How {
    /// One of ours, with its arguments.
    Ours { long: &'static [&'static str], short: &'static [&'static str] },
    /// One of others', with the text of its input, which is its standard input where no argument is `INPUT`.
    Foreign { build: Build, arguments: &'static [&'static str], long: fn() -> String, short: fn() -> String },
}

const CASES: &[Case] = &[
    Case { name: "int4_two_loops", kind: Kind::Loops, how: How::Ours { long: &["60"], short: &["1", "500000"] } },
    Case { name: "particles", kind: Kind::Loops, how: How::Ours { long: &["20"], short: &["1", "50000"] } },
    Case { name: "list_chase", kind: Kind::PointerChasing, how: How::Ours { long: &["12"], short: &["1", "50000"] } },
    Case {
        name: "search_tree",
        kind: Kind::PointerChasing,
        how: How::Ours { long: &["1000000"], short: &["10000", "10000"] },
    },
    Case { name: "alloc_maps", kind: Kind::Allocating, how: How::Ours { long: &["1000000"], short: &["6000"] } },
    Case {
        name: "lua",
        kind: Kind::Real,
        how: How::Foreign {
            build: foreign::LUA,
            arguments: &["INPUT"],
            long: || inputs::lua(50_000, 200),
            short: || inputs::lua(2_000, 50),
        },
    },
    Case {
        name: "sqlite3",
        kind: Kind::Real,
        how: How::Foreign {
            build: foreign::SQLITE3,
            arguments: &[":memory:"],
            long: || inputs::sql(300_000),
            short: || inputs::sql(3_000),
        },
    },
    Case {
        name: "bzip2",
        kind: Kind::Real,
        how: How::Foreign {
            build: foreign::BZIP2,
            arguments: &["-c", "INPUT"],
            long: || inputs::numbers(1_600_000),
            short: || inputs::numbers(12_000),
        },
    },
    Case {
        name: "svm-train",
        kind: Kind::Real,
        how: How::Foreign {
            build: foreign::SVM_TRAIN,
            arguments: &["-q", "-m", "1", "INPUT", "/dev/null"],
            long: || inputs::svm_problem(800),
            short: || inputs::svm_problem(100),
        },
    },
];

/// How a program is run, in the order of the table's columns.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// The instrumented program by itself: nobody reads, so the gate stays closed.
    Untraced,
    /// Under `slimline trace --paused`: the gate stays closed.
    Paused,
    /// What it writes is read and thrown away.
    Discarded,
    /// It is decoded, and counted by site.
    Counted,
    /// `slimline trace --live`: all that a report says, splits included.
    Live,
    /// The same with `--keep-up`: blocks are looked up as far as there is time for it.
    KeepingUp,
    /// `slimline trace -o`.
    Recorded,
    /// Valgrind's own price.
    ValgrindNone,
    Cachegrind,
    Lackey,
}

impl Way {
    const ALL: [Self; 10] = [
        Self::Untraced,
        Self::Paused,
        Self::Discarded,
        Self::Counted,
        Self::Live,
        Self::KeepingUp,
        Self::Recorded,
        Self::ValgrindNone,
        Self::Cachegrind,
        Self::Lackey,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Untraced => "untraced",
            Self::Paused => "paused",
            Self::Discarded => "discarded",
            Self::Counted => "counted",
            Self::Live => "live",
            Self::KeepingUp => "keeping up",
            Self::Recorded => "recorded",
            Self::ValgrindNone => "Valgrind none",
            Self::Cachegrind => "cachegrind",
            Self::Lackey => "lackey",
        }
    }

    /// What takes 20 times as long and more is run once.
    fn is_slow(self) -> bool {
        matches!(self, Self::Cachegrind | Self::Lackey)
    }

    /// What takes 1000 times as long and more gets the short input.
    fn is_short(self) -> bool {
        self == Self::Lackey
    }

    fn prints_a_report(self) -> bool {
        matches!(self, Self::Paused | Self::Live | Self::KeepingUp)
    }
}

/// A bound of issue 4 for some ways and kinds.
struct Goal {
    what: &'static str,
    ways: &'static [Way],
    at_most: f64,
    kinds: &'static [Kind],
}

const EVERY_KIND: &[Kind] = &[Kind::Loops, Kind::PointerChasing, Kind::Allocating, Kind::Real];

const GOALS: &[Goal] = &[
    Goal { what: "gate off", ways: &[Way::Untraced, Way::Paused], at_most: 1.1, kinds: EVERY_KIND },
    Goal { what: "discarded, real programs", ways: &[Way::Discarded], at_most: 2.5, kinds: &[Kind::Real] },
    Goal { what: "live, with splits", ways: &[Way::Live], at_most: 8.0, kinds: EVERY_KIND },
    Goal { what: "live, keeping up", ways: &[Way::KeepingUp], at_most: 8.0, kinds: EVERY_KIND },
    Goal { what: "recorded", ways: &[Way::Recorded], at_most: 6.0, kinds: EVERY_KIND },
];

/// Most bytes an access takes on disk, by kind.
const BYTES_GOALS: [(&str, Kind, f64); 2] =
    [("bytes an access, loops", Kind::Loops, 1.0), ("bytes an access, pointer chasing", Kind::PointerChasing, 3.0)];

/// Native runs beside one of a slow tool.
const NATIVE_RUNS: usize = 5;

/// What was measured of a program.
struct Costs<'a> {
    case: &'a Case,
    native_seconds: f64,
    /// Of each way, medians.
    slowdowns: Vec<(Way, Slowdown)>,
    bytes_per_access: f64,
}

/// Measures all cases; prints Markdown tables. Whether all goals are met.
pub(crate) fn run(runs: usize, only: &[String]) -> Result<bool> {
    let cases = select(CASES.iter().collect(), |case| case.name, only)?;
    setup::install(setup::TRACING)?;
    let slimline = Slimline::build()?;
    let bench = Bench { runs, discard: slimline.discarding()?, slimline };
    let names: Vec<&str> = Way::ALL.iter().map(|way| way.name()).collect();
    let columns = names.join(" | ");
    let rule = "| --- ".repeat(names.len());
    println!("Wall time by that of the native program:\n");
    println!("| program | kind | native, s | {columns} | bytes an access |\n| --- | --- | --- {rule}| --- |");
    let mut all = Vec::new();
    for case in cases {
        let costs = bench.measure(case).with_context(|| case.name.to_owned())?;
        let Costs { native_seconds, bytes_per_access, .. } = costs;
        let cells = cells(costs.slowdowns.iter().map(|(_, slowdown)| Some(slowdown.wall)));
        println!("| {} | {} | {native_seconds:.2} | {cells} | {bytes_per_access:.3} |", case.name, case.kind.name());
        all.push(costs);
    }
    println!("\nCPU time, with all that runs beside the program:\n");
    println!("| program | {columns} |\n| --- {rule}|");
    for costs in &all {
        println!("| {} | {} |", costs.case.name, cells(costs.slowdowns.iter().map(|(_, slowdown)| slowdown.cpu)));
    }
    println!("\nGoals, by wall time:\n");
    show_goals_head();
    let mut are_met = true;
    for goal in GOALS {
        let worst = |costs: &Costs<'_>| {
            let slowdowns = costs.slowdowns.iter().filter(|(way, _)| goal.ways.contains(way));
            slowdowns.map(|(_, slowdown)| slowdown.wall).fold(0.0, f64::max)
        };
        are_met &= show_goal(goal.what, goal.at_most, &of_kinds(&all, goal.kinds, worst));
    }
    for (what, kind, at_most) in BYTES_GOALS {
        are_met &= show_goal(what, at_most, &of_kinds(&all, &[kind], |costs| costs.bytes_per_access));
    }
    Ok(are_met)
}

/// Programs of these kinds and what they cost.
fn of_kinds<'a>(all: &[Costs<'a>], kinds: &[Kind], cost: impl Fn(&Costs<'a>) -> f64) -> Vec<(&'a str, f64)> {
    let bound_by = all.iter().filter(|costs| kinds.contains(&costs.case.kind));
    bound_by.map(|costs| (costs.case.name, cost(costs))).collect()
}

struct Bench {
    runs: usize,
    slimline: Slimline,
    /// Reads a trace and throws it away.
    discard: PathBuf,
}

impl Bench {
    fn measure<'a>(&self, case: &'a Case) -> Result<Costs<'a>> {
        let (native, traced) = (Compilers::clang(), self.slimline.compilers()?);
        let native = without_debug_information(&case.executable(&native, "native")?)?;
        let traced = case.executable(&traced, "traced")?;
        let session = self.slimline.session("traced");
        let mut native_seconds = Vec::new();
        let mut slowdowns = Vec::new();
        for way in Way::ALL {
            let [native, traced] = [&native, &traced].map(|program| case.workload(program, way.is_short()));
            let (native, traced) = (native?, traced?);
            let first = || native.with_input(native.command());
            let second = || native.with_input(self.command(way, &native, &traced, &session));
            let pair = match (way.is_slow(), way.prints_a_report()) {
                (true, _) => Pair::measure_once(NATIVE_RUNS, first, second),
                (false, true) => Pair::measure_reporting(self.runs, first, second),
                (false, false) => Pair::measure(self.runs, first, second),
            };
            let pair = pair.with_context(|| way.name())?;
            if !way.is_slow() {
                native_seconds.push(pair.first_seconds());
            }
            // CPU time is told to a hundredth of a second: nothing of a short run.
            let cpu = (!way.is_short()).then(|| pair.cpu_ratio().median);
            slowdowns.push((way, Slowdown { wall: pair.wall_ratio().median, cpu }));
        }
        let accesses = self.slimline.traced_accesses(&session)?;
        ensure!(accesses > 0, "its trace has no access");
        let bytes_per_access = bytes_below(&session)? as f64 / accesses as f64;
        // The next program's is moved here, and this one beside it.
        for recorded in [session.with_extension("old"), session] {
            if recorded.exists() {
                std::fs::remove_dir_all(&recorded).with_context(|| recorded.display().to_string())?;
            }
        }
        Ok(Costs { case, native_seconds: median(native_seconds), slowdowns, bytes_per_access })
    }

    fn command(&self, way: Way, native: &Workload, traced: &Workload, session: &Path) -> Command {
        let trace = |options: &[&OsStr]| self.slimline.trace(&traced.command(), options);
        let reader = |options: &[&str]| {
            let mut reader = Command::new(&self.discard);
            reader.args(options);
            started_by(reader, &traced.command())
        };
        let valgrind = |options: &[&str]| {
            let mut valgrind = Command::new("valgrind");
            valgrind.args(options).arg("--log-file=/dev/null");
            started_by(valgrind, &native.command())
        };
        match way {
            Way::Untraced => traced.command(),
            Way::Paused => trace(&["--live".as_ref(), "--paused".as_ref()]),
            Way::Discarded => reader(&[]),
            Way::Counted => reader(&["--count"]),
            Way::Live => trace(&["--live".as_ref()]),
            Way::KeepingUp => trace(&["--live".as_ref(), "--keep-up".as_ref()]),
            Way::Recorded => trace(&["-o".as_ref(), session.as_os_str()]),
            Way::ValgrindNone => valgrind(&["--tool=none"]),
            Way::Cachegrind => valgrind(&["--tool=cachegrind", "--cache-sim=yes", "--cachegrind-out-file=/dev/null"]),
            Way::Lackey => valgrind(&["--tool=lackey", "--trace-mem=yes"]),
        }
    }
}

impl Case {
    /// The program as these compilers make it.
    fn executable(&self, compilers: &Compilers, made: &str) -> Result<PathBuf> {
        if let How::Foreign { build, .. } = &self.how {
            return build.executable_by(compilers);
        }
        compilers.build(&Program::named(self.name)?, "-O2 -g", made)
    }

    fn workload(&self, program: &Path, is_short: bool) -> Result<Workload> {
        let (arguments, input) = match &self.how {
            How::Ours { long, short } => (strings(if is_short { short } else { long }), None),
            How::Foreign { build, arguments, long, short } => {
                foreign::arguments(build.name, arguments, &if is_short { short() } else { long() })?
            }
        };
        Ok(Workload::new(self.name, program.to_owned(), arguments, input, self.kind.name()))
    }
}

/// Bytes of all files in a directory and below.
fn bytes_below(directory: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() { bytes_below(&entry.path())? } else { metadata.len() };
    }
    Ok(bytes)
}
