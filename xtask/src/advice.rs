//! `cargo xtask bench advice`: what `slimline advise TRACE` predicts, beside what the same change by hand gains.

mod patched;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use sample_programs::Language;
use serde::Deserialize;

use crate::compilers::Compilers;
use crate::measure::{Pair, timed};
use crate::root;
use crate::selection::select;
use crate::setup;
use crate::slimline::Slimline;

/// A program, and what was done to it by hand.
struct Case {
    name: &'static str,
    /// In `programs/`; where there is no twin it is compiled with `-DADVISED` once more.
    source: &'static str,
    twin: Option<&'static str>,
    /// Or the function whose loops are changed.
    structure: &'static str,
    /// As `tried` has it, and the fields of the first part, where it is one of several.
    change: &'static str,
    first: &'static [&'static str],
    is_pool: bool,
    /// Which other types fields have, as `tried` has them.
    types: &'static [&'static str],
    /// Steps of a tile's sides; 0 where loops are not tiled.
    tile: u64,
    /// Steps ahead; 0 where nothing is prefetched.
    distance: u32,
    /// For its trace: whether values are told.
    flags: &'static str,
    arguments: &'static [&'static str],
}

const fn case(name: &'static str, source: &'static str, structure: &'static str) -> Case {
    Case {
        name,
        source,
        twin: None,
        structure,
        change: "split",
        first: &[],
        is_pool: false,
        types: &[],
        tile: 0,
        distance: 0,
        flags: "-O2 -g",
        arguments: &[],
    }
}

const CASES: &[Case] = &[
    Case {
        twin: Some("c/neighbor_split.c"),
        first: &["dist"],
        arguments: &["40"],
        ..case("neighbor", "c/neighbor.c", "neighbor")
    },
    Case {
        twin: Some("c/art_split.c"),
        first: &["P"],
        arguments: &["1", "65536"],
        ..case("art", "c/art.c", "f1_neuron")
    },
    Case {
        twin: Some("c/int4_two_loops_split.c"),
        first: &["a", "c"],
        arguments: &["4"],
        ..case("int4_two_loops", "c/int4_two_loops.c", "quad")
    },
    Case {
        twin: Some("cpp/particles_split.cpp"),
        first: &["position", "mass"],
        arguments: &["8", "524288"],
        ..case("particles", "cpp/particles.cpp", "Particle")
    },
    Case {
        twin: Some("c/tsp_tree_split.c"),
        change: "hot_cold_split",
        first: &["x", "y", "next"],
        arguments: &["30"],
        ..case("tsp_tree", "c/tsp_tree.c", "tree")
    },
    Case {
        change: "hot_cold_split",
        first: &["cost", "tail", "head", "ident"],
        arguments: &["40"],
        ..case("arcs", "advised/arcs.c", "arc")
    },
    Case { change: "reorder", ..case("holes", "advised/holes.c", "quote") },
    Case { change: "align", ..case("straddling", "advised/straddling.c", "material") },
    Case { change: "pool", is_pool: true, ..case("pooled", "advised/pooled.c", "edge") },
    Case {
        change: "shrink",
        types: &["narrowed"],
        flags: WITH_VALUES,
        ..case("counters", "advised/counters.c", "counter")
    },
    Case {
        change: "hot_cold_split",
        first: &["key", "packets", "bytes", "errors", "kind", "retries", "state", "next"],
        is_pool: true,
        types: &["narrowed"],
        flags: WITH_VALUES,
        ..case("flows", "advised/flows.c", "flow")
    },
    Case { change: "merge", first: &["x", "y", "z"], ..case("gather", "advised/gather.c", "x, y, z, neighbors") },
    Case { change: "indexes", is_pool: true, types: &["indexed"], ..case("indexed", "advised/indexed.c", "node") },
    Case {
        change: "bit_fields",
        types: &["bit_fields"],
        flags: WITH_VALUES,
        ..case("flags", "advised/flags.c", "task")
    },
    Case { change: "align", ..case("tallies", "advised/tallies.c", "array found") },
    Case { change: LARGE_PAGES, ..case("counters_large_pages", "advised/counters.c", "counter") },
    Case { change: "inline", ..case("held", "advised/held.c", "account") },
    Case { first: &["key"], ..case("probing", "advised/probing.c", "slot") },
    Case { first: &["price", "quantity", "id"], ..case("orders", "advised/orders.cpp", "Order") },
    Case {
        change: "hot_cold_split",
        first: &["key", "left", "right"],
        is_pool: true,
        ..case("payloads", "advised/payloads.cpp", "Record")
    },
    Case {
        twin: Some("rust/vec_struct_split.rs"),
        first: &["mass", "position"],
        arguments: &["20"],
        ..case("vec_struct", "rust/vec_struct.rs", "Body")
    },
    Case { change: INTERCHANGE, ..case("columns", "advised/columns.c", "sum_columns") },
    Case { change: TILE, tile: 16, ..case("transposed", "advised/transposed.c", "transpose") },
    Case { change: PREFETCH, distance: 16, ..case("indirect", "advised/indirect.c", "values") },
    Case { change: PREFETCH, distance: 16, ..case("joined", "advised/joined.c", "slots") },
    Case { change: PREFETCH, ..case("descended", "advised/descended.c", "at") },
];

const WITH_VALUES: &str = "-O2 -g --slimline-values";
/// Nothing of the program is changed: `malloc` takes pages of 2 MiB.
const LARGE_PAGES: &str = "large_pages";
const BY_MALLOC: (&str, &str) = ("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1");

/// Of loops.
const INTERCHANGE: &str = "interchange";
const TILE: &str = "tile";
/// Of loads.
const PREFETCH: &str = "prefetch";

/// What of `slimline advise TRACE --format json` is read.
#[derive(Deserialize)]
struct Advised {
    structures: Vec<Structure>,
    together: Option<Predicted>,
    loops: Vec<Loops>,
    large_pages: Option<LargePages>,
    prefetches: Prefetches,
    patch: Option<Patch>,
}

impl Advised {
    fn of(slimline: &Slimline, trace: &Path, options: &[&str]) -> Result<Self> {
        let (_, output) = timed(slimline.analysis("advise", trace, &[&["--format", "json"], options].concat()))?;
        serde_json::from_slice(&output.stdout).context("what `slimline advise` printed")
    }
}

#[derive(Deserialize)]
struct Patch {
    directory: PathBuf,
    structures: Vec<Patched>,
}

#[derive(Deserialize)]
struct Patched {
    refused: Option<String>,
}

#[derive(Deserialize)]
struct LargePages {
    is_advised: bool,
    alone: Predicted,
}

#[derive(Deserialize)]
struct Loops {
    function: Option<String>,
    advice: Option<LoopAdvice>,
    tried: Vec<LoopOrder>,
}

#[derive(Deserialize)]
struct LoopAdvice {
    #[serde(flatten)]
    order: LoopOrder,
    predicted: Predicted,
}

#[derive(Deserialize)]
struct LoopOrder {
    change: String,
    tile: Option<u64>,
    time_ratio: f64,
}

#[derive(Deserialize)]
struct Prefetches {
    loads: Vec<Load>,
    chase: Option<Chase>,
}

#[derive(Deserialize)]
struct Chase {
    data: String,
}

#[derive(Deserialize)]
struct Load {
    data: String,
    advice: Option<LoadAdvice>,
    tried: Vec<Distance>,
}

#[derive(Deserialize)]
struct LoadAdvice {
    predicted: Predicted,
}

#[derive(Deserialize)]
struct Distance {
    distance: u32,
    time_ratio: f64,
}

#[derive(Deserialize)]
struct Structure {
    name: String,
    advice: Option<Advice>,
    tried: Vec<Tried>,
}

#[derive(Deserialize)]
struct Advice {
    #[serde(flatten)]
    layout: Layout,
    predicted: Predicted,
}

#[derive(Clone, Copy, Deserialize)]
struct Predicted {
    time_ratio: f64,
    time_ratio_low: f64,
    time_ratio_high: f64,
}

#[derive(Deserialize)]
struct Tried {
    #[serde(flatten)]
    layout: Layout,
    time_ratio: f64,
}

#[derive(Deserialize)]
struct Layout {
    change: String,
    parts: Vec<Vec<String>>,
    narrowed: Vec<String>,
    indexed: Vec<String>,
    bit_fields: Vec<String>,
    is_pool: bool,
}

impl Case {
    fn program(&self, source: &str) -> sample_programs::Program {
        let language = match Path::new(source).extension().and_then(OsStr::to_str) {
            Some("cpp") => Language::Cpp,
            Some("rs") => Language::Rust,
            _ => Language::C,
        };
        sample_programs::Program { name: self.name.to_owned(), language, source: root().join("programs").join(source) }
    }

    /// As it is, and as changed by hand, by these compilers.
    fn build(&self, compilers: &Compilers) -> Result<[PathBuf; 2]> {
        let program = self.program(self.source);
        ensure!(self.twin.is_some() || program.language != Language::Rust, "{}: Rust knows no -DADVISED", self.name);
        let before = compilers.build(&program, "-O2 -g", "as_it_is")?;
        let after = match self.twin {
            _ if self.change == LARGE_PAGES => before.clone(),
            Some(twin) => compilers.build(&self.program(twin), "-O2 -g", "advised")?,
            None => compilers.build(&program, "-O2 -g -DADVISED", "advised")?,
        };
        Ok([before, after])
    }

    fn is_by_hand(&self, layout: &Layout) -> bool {
        let first: BTreeSet<&str> = layout.parts.first().into_iter().flatten().map(String::as_str).collect();
        let has_first = self.first.is_empty() || first == self.first.iter().copied().collect();
        let types = [("narrowed", &layout.narrowed), ("indexed", &layout.indexed), ("bit_fields", &layout.bit_fields)];
        let types = types.into_iter().filter(|(_, fields)| !fields.is_empty()).map(|(name, _)| name);
        layout.change == self.change
            && layout.is_pool == self.is_pool
            && types.eq(self.types.iter().copied())
            && has_first
    }

    fn command(&self, executable: &PathBuf) -> Command {
        let mut command = Command::new(executable);
        command.args(self.arguments);
        command
    }

    fn changed(&self, executable: &PathBuf) -> Command {
        let mut command = self.command(executable);
        if self.change == LARGE_PAGES {
            command.env(BY_MALLOC.0, BY_MALLOC.1);
        }
        command
    }

    /// Traces it, and runs it as it is and as changed by hand.
    fn row(&self, slimline: &Slimline, machine: &str, runs: usize) -> Result<Row> {
        let traced = slimline.compilers()?.build(&self.program(self.source), self.flags, "traced")?;
        let trace = slimline.session(self.name);
        timed(slimline.trace(&self.command(&traced), &["-o".as_ref(), trace.as_os_str()]))?;
        let advised = Advised::of(slimline, &trace, &["--machine", machine])?;
        std::fs::remove_dir_all(&trace)?;
        let (predicted, advice) = self.predicted(&advised)?;
        let [before, after] = self.build(&Compilers::clang())?;
        let pair = Pair::measure(runs, || Ok(self.command(&before)), || Ok(self.changed(&after)))?;
        Ok(Row {
            name: self.name,
            change: self.change.replace('_', " "),
            predicted,
            measured: pair.wall_ratio().median,
            advised: advice.map(|(what, of)| (what.replace('_', " "), *of)),
        })
    }

    /// What is predicted for what was done by hand; and what is advised, with the prediction for that.
    fn predicted<'a>(&self, advised: &'a Advised) -> Result<(f64, Option<(&'a str, &'a Predicted)>)> {
        if self.change == LARGE_PAGES {
            let Some(pages) = &advised.large_pages else { bail!("{}: large pages were not tried", self.name) };
            return Ok((pages.alone.time_ratio, pages.is_advised.then_some((LARGE_PAGES, &pages.alone))));
        }
        if [INTERCHANGE, TILE].contains(&self.change) {
            return self.predicted_of_loops(advised);
        }
        if self.change == PREFETCH {
            return self.predicted_of_loads(advised);
        }
        let Some(structure) = advised.structures.iter().find(|of| of.name.ends_with(self.structure)) else {
            bail!("{}: nothing is said of {}", self.name, self.structure);
        };
        let mut tried = structure.tried.iter().filter(|of| self.is_by_hand(&of.layout));
        let is_advised = |of: &&Advice| self.is_by_hand(&of.layout);
        let confirmed = structure.advice.as_ref().filter(is_advised).map(|of| of.predicted.time_ratio);
        let Some(predicted) = confirmed.or(tried.next().map(|of| of.time_ratio)) else {
            bail!("{}: {} of {} was not tried", self.name, self.change, self.structure);
        };
        Ok((predicted, structure.advice.as_ref().map(|of| (of.layout.change.as_str(), &of.predicted))))
    }

    /// Of what can't be prefetched, a chase, nothing is predicted to be gained.
    fn predicted_of_loads<'a>(&self, advised: &'a Advised) -> Result<(f64, Option<(&'a str, &'a Predicted)>)> {
        let of_data = advised.prefetches.loads.iter().find(|of| of.data == self.structure);
        let advice = of_data.and_then(|of| Some((PREFETCH, &of.advice.as_ref()?.predicted)));
        let is_by_hand = |of: &&Distance| of.distance == self.distance;
        match of_data.and_then(|of| of.tried.iter().find(is_by_hand)) {
            Some(tried) => Ok((tried.time_ratio, advice)),
            None if advised.prefetches.chase.as_ref().is_some_and(|of| of.data == self.structure) => Ok((1.0, advice)),
            None if self.distance == 0 => bail!("{}: no chase through {} is told", self.name, self.structure),
            None => bail!("{}: nothing is said of {} steps ahead for {}", self.name, self.distance, self.structure),
        }
    }

    fn predicted_of_loops<'a>(&self, advised: &'a Advised) -> Result<(f64, Option<(&'a str, &'a Predicted)>)> {
        let of_function = |of: &&Loops| of.function.as_deref() == Some(self.structure);
        let Some(loops) = advised.loops.iter().find(of_function) else {
            bail!("{}: nothing is said of loops of {}", self.name, self.structure);
        };
        let is_by_hand = |of: &&LoopOrder| of.change == self.change && of.tile.unwrap_or(0) == self.tile;
        let Some(predicted) = loops.tried.iter().find(is_by_hand) else {
            bail!("{}: {} of loops of {} was not tried", self.name, self.change, self.structure);
        };
        Ok((predicted.time_ratio, loops.advice.as_ref().map(|of| (of.order.change.as_str(), &of.predicted))))
    }
}

/// How far a prediction may be off where it counts as met.
const WITHIN: f64 = 1.5;
/// A measured ratio that differs from 1 by less than this has no sign.
const NOISE: f64 = 0.03;

const HOST: &str = "host";

/// The machine that predicts all rows, as `--machine` takes it, and what to say of it. It is measured once, as what there is to be had
/// changes; of several memories one core measures none, so that there is what the kernel tells.
fn machine(slimline: &Slimline) -> Result<(String, String)> {
    let output = slimline.command("machine").arg("measured").output()?;
    if !output.status.success() {
        return Ok((HOST.to_owned(), HOST.to_owned()));
    }
    let path = slimline.session("measured").with_extension("toml").display().to_string();
    std::fs::write(&path, output.stdout)?;
    let told = String::from_utf8_lossy(&output.stderr);
    Ok((path, told.trim().trim_start_matches("slimline: ").to_owned()))
}

/// What was predicted of a program, and what came of it.
struct Row {
    name: &'static str,
    change: String,
    predicted: f64,
    measured: f64,
    /// What is advised, and its prediction.
    advised: Option<(String, Predicted)>,
}

impl Row {
    fn off(&self) -> f64 {
        self.predicted / self.measured
    }

    fn is_near(&self) -> bool {
        (1.0 / WITHIN..WITHIN).contains(&self.off())
    }

    fn is_wrong(&self) -> bool {
        (self.predicted < 1.0) != (self.measured < 1.0)
            && (self.measured - 1.0).abs() > NOISE
            && (self.predicted - 1.0).abs() > 0.005
    }

    fn print(&self) {
        let Self { name, change, predicted, measured, advised } = self;
        let [what, ratio, range] = match advised {
            Some((what, of)) => [
                what.clone(),
                format!("{:.2}", of.time_ratio),
                format!("{:.2}–{:.2}", of.time_ratio_low, of.time_ratio_high),
            ],
            None => ["–"; 3].map(str::to_owned),
        };
        let off = self.off();
        println!("| {name} | {change} | {predicted:.2} | {measured:.2} | {off:.2} | {what} | {ratio} | {range} |");
    }
}

/// How a program is changed.
enum Program {
    ByHand(&'static Case),
    Patched(&'static patched::Program),
}

impl Program {
    fn name(&self) -> &str {
        match self {
            Self::ByHand(case) => case.name,
            Self::Patched(program) => program.name,
        }
    }
}

/// Prints a Markdown table; whether all signs are right, and two of three ratios within [`WITHIN`]. Programs of LLVM's test-suite are
/// there if its directory is.
pub(crate) fn run(runs: usize, suite: Option<&Path>, only: &[String]) -> Result<bool> {
    setup::install(setup::TRACING)?;
    let slimline = Slimline::build()?;
    let mut programs: Vec<Program> = CASES.iter().map(Program::ByHand).collect();
    match suite {
        Some(_) => programs.extend(patched::PROGRAMS.iter().map(Program::Patched)),
        None => println!("Without programs of LLVM's test-suite, which --llvm-test-suite DIR would add.\n"),
    }
    let programs = select(programs, Program::name, only)?;
    let (machine, told) = machine(&slimline)?;
    println!(
        "Predicted by --machine {told}.\n\n| program | change | predicted | measured | predicted by measured | advised | its prediction | from–to |\n\
         | --- | --- | ---: | ---: | ---: | --- | ---: | ---: |"
    );
    let (mut rows, mut failed) = (Vec::new(), Vec::new());
    for program in programs {
        let row = match (&program, suite) {
            (Program::Patched(program), Some(suite)) => program.row(&slimline, &machine, suite, runs),
            (Program::ByHand(case), _) => case.row(&slimline, &machine, runs),
            (Program::Patched(_), None) => continue,
        };
        // The others' minutes are not lost.
        match row {
            Ok(row) => {
                row.print();
                rows.push(row);
            }
            Err(error) => {
                println!("| {} | – | – | – | – | – | – | – |", program.name());
                failed.push(format!("{}: {error:#}", program.name()));
            }
        }
    }
    if machine != HOST {
        std::fs::remove_file(&machine).with_context(|| machine.clone())?;
    }
    failed.iter().for_each(|failed| println!("\n{failed}"));
    let near = rows.iter().filter(|row| row.is_near()).count();
    let wrong: Vec<&str> = rows.iter().filter(|row| row.is_wrong()).map(|row| row.name).collect();
    println!(
        "\n{near} of {} within a factor of {WITHIN}; wrong signs: {}",
        rows.len(),
        match wrong.as_slice() {
            [] => "none".to_owned(),
            wrong => wrong.join(" "),
        }
    );
    Ok(failed.is_empty() && wrong.is_empty() && near * 3 >= rows.len() * 2)
}
