//! `cargo xtask bench advice`: what `slimline advise TRACE` predicts, beside what the same change by hand gains.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use sample_programs::{Language, Program};
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
    /// Whether fields have narrower types beside that.
    is_narrowed: bool,
    /// Steps of a tile's sides; 0 where loops are not tiled.
    tile: u64,
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
        is_narrowed: false,
        tile: 0,
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
        is_narrowed: true,
        flags: WITH_VALUES,
        ..case("counters", "advised/counters.c", "counter")
    },
    Case {
        change: "hot_cold_split",
        first: &["key", "packets", "bytes", "errors", "kind", "retries", "state", "next"],
        is_pool: true,
        is_narrowed: true,
        flags: WITH_VALUES,
        ..case("flows", "advised/flows.c", "flow")
    },
    Case { change: "merge", first: &["x", "y", "z"], ..case("gather", "advised/gather.c", "x, y, z, neighbors") },
    Case { change: LARGE_PAGES, ..case("counters_large_pages", "advised/counters.c", "counter") },
    Case { first: &["key"], ..case("probing", "advised/probing.c", "slot") },
    Case { first: &["price", "quantity", "id"], ..case("orders", "advised/orders.cpp", "Order") },
    Case {
        change: "hot_cold_split",
        first: &["key", "left", "right"],
        is_pool: true,
        ..case("payloads", "advised/payloads.cpp", "Record")
    },
    Case { change: INTERCHANGE, ..case("columns", "advised/columns.c", "sum_columns") },
    Case { change: TILE, tile: 16, ..case("transposed", "advised/transposed.c", "transpose") },
];

const WITH_VALUES: &str = "-O2 -g --slimline-values";
/// Nothing of the program is changed: `malloc` takes pages of 2 MiB.
const LARGE_PAGES: &str = "large_pages";
const BY_MALLOC: (&str, &str) = ("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1");

/// Of loops.
const INTERCHANGE: &str = "interchange";
const TILE: &str = "tile";

/// What of `slimline advise TRACE --format json` is read.
#[derive(Deserialize)]
struct Advised {
    structures: Vec<Structure>,
    loops: Vec<Loops>,
    large_pages: Option<LargePages>,
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

#[derive(Deserialize)]
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
    is_pool: bool,
}

impl Case {
    fn program(&self, source: &str) -> Program {
        let language = if source.ends_with(".cpp") { Language::Cpp } else { Language::C };
        Program { name: self.name.to_owned(), language, source: root().join("programs").join(source) }
    }

    /// As it is, and as changed by hand, by these compilers.
    fn build(&self, compilers: &Compilers) -> Result<[PathBuf; 2]> {
        let before = compilers.build(&self.program(self.source), "-O2 -g", "as_it_is")?;
        let after = match self.twin {
            _ if self.change == LARGE_PAGES => before.clone(),
            Some(twin) => compilers.build(&self.program(twin), "-O2 -g", "advised")?,
            None => compilers.build(&self.program(self.source), "-O2 -g -DADVISED", "advised")?,
        };
        Ok([before, after])
    }

    fn is_by_hand(&self, layout: &Layout) -> bool {
        let first: BTreeSet<&str> = layout.parts.first().into_iter().flatten().map(String::as_str).collect();
        let has_first = self.first.is_empty() || first == self.first.iter().copied().collect();
        let is_narrowed = !layout.narrowed.is_empty();
        layout.change == self.change && (layout.is_pool, is_narrowed) == (self.is_pool, self.is_narrowed) && has_first
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

    /// What is predicted for what was done by hand; and what is advised, with the prediction for that.
    fn predicted<'a>(&self, advised: &'a Advised) -> Result<(f64, Option<(&'a str, &'a Predicted)>)> {
        if self.change == LARGE_PAGES {
            let Some(pages) = &advised.large_pages else { bail!("{}: large pages were not tried", self.name) };
            return Ok((pages.alone.time_ratio, pages.is_advised.then_some((LARGE_PAGES, &pages.alone))));
        }
        if [INTERCHANGE, TILE].contains(&self.change) {
            return self.predicted_of_loops(advised);
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

/// Prints a Markdown table; whether all signs are right, and two of three ratios within [`WITHIN`].
pub(crate) fn run(runs: usize, only: &[String]) -> Result<bool> {
    setup::install(setup::TRACING)?;
    let slimline = Slimline::build()?;
    // One core measures one memory; of several there is what the kernel tells.
    let is_measured = slimline.command("machine").arg("measured").output()?.status.success();
    let machine = if is_measured { "measured" } else { "host" };
    println!(
        "Predicted by --machine {machine}.\n\n| program | by hand | predicted | measured | predicted by measured | advised | its prediction | from–to |\n\
         | --- | --- | ---: | ---: | ---: | --- | ---: | ---: |"
    );
    let (mut wrong, mut near, mut all) = (Vec::new(), 0, 0);
    for case in select(CASES.iter().collect(), |case| case.name, only)? {
        let traced = slimline.compilers()?.build(&case.program(case.source), case.flags, "traced")?;
        let trace = slimline.session(case.name);
        timed(slimline.trace(&case.command(&traced), &["-o".as_ref(), trace.as_os_str()]))?;
        let (_, output) = timed(slimline.analysis("advise", &trace, &["--machine", machine, "--format", "json"]))?;
        let advised: Advised = serde_json::from_slice(&output.stdout).context("what `slimline advise` printed")?;
        std::fs::remove_dir_all(&trace)?;
        let (predicted, advice) = case.predicted(&advised)?;
        let [before, after] = case.build(&Compilers::clang())?;
        let pair = Pair::measure(runs, || Ok(case.command(&before)), || Ok(case.changed(&after)))?;
        let measured = pair.wall_ratio().median;
        let off = predicted / measured;
        all += 1;
        near += usize::from((1.0 / WITHIN..WITHIN).contains(&off));
        if (predicted < 1.0) != (measured < 1.0) && (measured - 1.0).abs() > NOISE && (predicted - 1.0).abs() > 0.005 {
            wrong.push(case.name);
        }
        println!(
            "| {} | {} | {predicted:.2} | {measured:.2} | {off:.2} | {} | {} | {} |",
            case.name,
            case.change.replace('_', " "),
            advice.map_or("–".to_owned(), |(change, _)| change.replace('_', " ")),
            advice.map_or("–".to_owned(), |(_, of)| format!("{:.2}", of.time_ratio)),
            advice.map_or("–".to_owned(), |(_, of)| format!("{:.2}–{:.2}", of.time_ratio_low, of.time_ratio_high)),
        );
    }
    println!(
        "\n{near} of {all} within a factor of {WITHIN}; wrong signs: {}",
        match wrong.as_slice() {
            [] => "none".to_owned(),
            wrong => wrong.join(" "),
        }
    );
    Ok(wrong.is_empty() && near * 3 >= all * 2)
}
