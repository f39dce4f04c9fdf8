//! `cargo xtask bench coverage`: how much of a program's time is resolved to objects, and to fields.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use sample_programs::{Optimization, Program};

use crate::foreign::{self, Build, inputs};
use crate::measure::{median, timed};
use crate::selection::select;
use crate::slimline::{Coverage, Report, Slimline};
use crate::workload::PYTHON;
use crate::{redis, target_dir};

/// Bounds of issue 3: medians over the programs.
const OBJECTS_AT_LEAST: f64 = 0.95;
const FIELDS_AT_LEAST: f64 = 0.85;
/// Reasons named in the table's last column.
const REASONS: usize = 3;
/// A program that makes accesses into structures for less of its time than this says nothing of fields.
const STRUCTURES_AT_LEAST: f64 = 0.02;

/// A program to record.
struct Case {
    name: &'static str,
    language: &'static str,
    how: How,
}

enum How {
    /// One of ours, with its default input.
    Ours,
    /// One of others'; `INPUT` in the arguments stands for a file with that text, which is its standard input where no
    /// argument names it.
    Foreign(Build, &'static [&'static str], fn() -> String),
    /// A server that is loaded from outside.
    Redis(Build),
    /// Python as installed, whose modules have debug information only where somebody built them so.
    Python,
}

const CASES: &[Case] = &[
    Case { name: "art", language: "C", how: How::Ours },
    Case { name: "tsp_tree", language: "C", how: How::Ours },
    Case { name: "particles", language: "C++", how: How::Ours },
    Case { name: "alloc_maps", language: "C++, containers", how: How::Ours },
    Case { name: "vec_struct", language: "Rust", how: How::Ours },
    Case { name: "heat", language: "Fortran", how: How::Ours },
    Case {
        name: "svm-train",
        language: "C++",
        how: How::Foreign(foreign::SVM_TRAIN, &["-q", "-m", "1", "INPUT", "/dev/null"], || inputs::svm_problem(4500)),
    },
    Case { name: "lua", language: "C", how: How::Foreign(foreign::LUA, &["INPUT"], || inputs::lua(100_000, 960)) },
    Case {
        name: "bzip2",
        language: "C",
        how: How::Foreign(foreign::BZIP2, &["-k", "-f", "INPUT"], || inputs::numbers(12_000_000)),
    },
    Case {
        name: "mujs",
        language: "C",
        how: How::Foreign(foreign::MUJS, &["INPUT"], || inputs::JAVASCRIPT.to_owned()),
    },
    Case {
        name: "picosat",
        language: "C",
        how: How::Foreign(foreign::PICOSAT, &["INPUT", "-o", "/dev/null"], inputs::satisfiability_problem),
    },
    Case {
        name: "zstd",
        language: "C",
        how: How::Foreign(foreign::ZSTD, &["-q", "-f", "-9", "INPUT", "-o", "/dev/null"], || {
            inputs::numbers(12_000_000)
        }),
    },
    Case {
        name: "sqlite3",
        language: "C",
        how: How::Foreign(foreign::SQLITE3, &[":memory:"], || inputs::sql(1_000_000)),
    },
    Case { name: "redis-server", language: "C", how: How::Redis(foreign::REDIS_SERVER) },
    Case {
        name: "ninja",
        language: "C++, containers",
        how: How::Foreign(foreign::NINJA, &["-f", "INPUT", "-t", "compdb"], inputs::build_of_many_parts),
    },
    Case {
        name: "ripgrep",
        language: "Rust",
        how: How::Foreign(foreign::RIPGREP, &["-c", "-i", "[0-9]+7[0-9]*3|99x?8", "INPUT"], || {
            inputs::numbers(12_000_000)
        }),
    },
    Case { name: "python3", language: "C", how: How::Python },
];

/// Records each program once; prints a Markdown table. Whether the medians are within the bounds. With `keep` the
/// sessions stay in that directory.
pub(crate) fn run(keep: Option<&Path>, only: &[String]) -> Result<bool> {
    let cases = select(CASES.iter().collect(), |case| case.name, only)?;
    let slimline = Slimline::build()?;
    if let Some(directory) = keep {
        fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
    }
    println!(
        "| program | language | samples | accesses, % of the time | to an object, % of these | into structures, % of \
         the time | to a field, % of these | most of what is missing, % of the time |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- |"
    );
    let (mut objects, mut fields) = (Vec::new(), Vec::new());
    for case in cases {
        let session = match keep {
            Some(directory) => directory.join(case.name),
            None => slimline.session("coverage"),
        };
        case.record(&slimline, &session).with_context(|| case.name.to_owned())?;
        let Report { session, coverage, .. } = slimline.report(&session).with_context(|| case.name.to_owned())?;
        println!("{}", row(case, session.samples, &coverage));
        objects.push(part(coverage.objects, coverage.accesses));
        if coverage.structures >= STRUCTURES_AT_LEAST {
            fields.push(part(coverage.fields, coverage.structures));
        }
    }
    if objects.is_empty() || fields.is_empty() {
        bail!("nothing was measured");
    }
    let (to_objects, to_fields) = (median(objects.clone()), median(fields.clone()));
    println!(
        "\nmedian to an object {} of {} programs (bound {}), to a field {} of the {} that use structures for {} of \
         their time or more (bound {})",
        percent(to_objects),
        objects.len(),
        percent(OBJECTS_AT_LEAST),
        percent(to_fields),
        fields.len(),
        percent(STRUCTURES_AT_LEAST),
        percent(FIELDS_AT_LEAST),
    );
    Ok(to_objects >= OBJECTS_AT_LEAST && to_fields >= FIELDS_AT_LEAST)
}

fn row(case: &Case, samples: u64, coverage: &Coverage) -> String {
    let missing = coverage.missing.iter().filter(|missing| missing.share >= 0.001).take(REASONS);
    let missing: Vec<String> =
        missing.map(|row| format!("{} {}: {:.1}", row.what, row.reason, row.share * 100.0)).collect();
    format!(
        "| {} | {} | {samples} | {:.1} | {:.1} | {:.1} | {:.1} | {} |",
        case.name,
        case.language,
        coverage.accesses * 100.0,
        part(coverage.objects, coverage.accesses) * 100.0,
        coverage.structures * 100.0,
        part(coverage.fields, coverage.structures) * 100.0,
        missing.join(", ")
    )
}

/// A part of nothing is all of it.
fn part(of: f64, whole: f64) -> f64 {
    if whole > 0.0 { of / whole } else { 1.0 }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

impl Case {
    fn record(&self, slimline: &Slimline, session: &Path) -> Result<()> {
        let mut input = None;
        let command = match &self.how {
            How::Ours => {
                let program = Program::named(self.name)?;
                Command::new(program.build(Optimization::O2, &target_dir()?.join("programs"))?)
            }
            How::Foreign(build, arguments, text) => {
                let (arguments, file) = foreign::arguments(build.name, arguments, &text())?;
                let mut command = Command::new(build.executable()?);
                command.args(arguments);
                input = file;
                command
            }
            How::Redis(build) => {
                let (_, code) = redis::under_load(build.executable()?.as_os_str(), Some((slimline, session)))?;
                return if code == Some(0) { Ok(()) } else { bail!("the server ended with {code:?}") };
            }
            How::Python => {
                let mut command = Command::new(python()?);
                command.args(["-c", PYTHON, "4000000"]).env("PYTHONHASHSEED", "0");
                command
            }
        };
        let mut record = slimline.record(&command, session, &[]);
        record.stdin(match input {
            Some(path) => Stdio::from(File::open(&path).with_context(|| path.display().to_string())?),
            None => Stdio::null(),
        });
        timed(record).map(drop)
    }
}

/// The interpreter itself: a version manager's `python3` is a shell script.
fn python() -> Result<PathBuf> {
    let mut ask = Command::new("python3");
    ask.args(["-c", "import os, sys; print(os.path.realpath(sys.executable))"]);
    let (_, output) = timed(ask)?;
    Ok(PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()))
}
