//! `cargo xtask bench hints`: what objects gain that lie as `slimline learn` and `slimline layout` say.
//!
//! Of three programs a second build allocates by hints, as the code says that `slimline learn` prints for a small run. Of the searches through a
//! graph the file is rewritten in the order that `slimline layout --order-by` writes of a run of a few searches; the run that is measured begins
//! with those, and goes on from other nodes.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

use crate::measure::{Pair, timed};
use crate::selection::select;
use crate::slimline::Slimline;
use crate::{root, setup, target_dir};

/// A program that allocates by hints where it is compiled with `-DTIDY`.
struct Hinted {
    name: &'static str,
    source: &'static str,
    /// What is learned of, and a feature that must be among the first two.
    type_name: &'static str,
    feature: &'static str,
    /// It is traced from where it says so: its fields are loaded from there on.
    is_paused: bool,
    learned: &'static [&'static str],
    measured: &'static [&'static str],
}

const HINTED: &[Hinted] = &[
    Hinted {
        name: "pagerank",
        source: "pagerank.cpp",
        type_name: "edge",
        feature: "source",
        is_paused: false,
        learned: &["8000", "2"],
        measured: &["400000", "200"],
    },
    Hinted {
        name: "mesh",
        source: "mesh.c",
        type_name: "node",
        feature: "x",
        is_paused: true,
        learned: &["60"],
        measured: &["1000", "20000000"],
    },
    Hinted {
        name: "red_black_tree",
        source: "red_black_tree.c",
        type_name: "node",
        feature: "payload",
        is_paused: true,
        learned: &["4000"],
        measured: &["4000000", "8000000"],
    },
];

/// Searches, whose file is rewritten.
const SEARCHES: &[&str] = &["bfs", "dfs"];
const NODES: &str = "400000";
/// Searches of the run that is traced, and of those that are measured: those begin with the traced ones and go on.
const TRACED_ROUNDS: &str = "3";
const MEASURED_ROUNDS: &str = "60";

#[derive(Debug, Deserialize)]
struct Learned {
    types: Vec<LearnedType>,
}

#[derive(Debug, Deserialize)]
struct LearnedType {
    type_name: Option<String>,
    verdict: String,
    accuracy: Accuracy,
    features: Vec<Feature>,
}

#[derive(Debug, Deserialize)]
struct Accuracy {
    mean: f64,
    among_five: f64,
}

#[derive(Debug, Deserialize)]
struct Feature {
    name: String,
}

/// Measures each program; prints Markdown tables.
pub(crate) fn run(runs: usize, only: &[String]) -> Result<bool> {
    let names: Vec<&str> = HINTED.iter().map(|of| of.name).chain(SEARCHES.iter().copied()).collect();
    let names = select(names, |name| name, only)?;
    setup::install(setup::TRACING)?;
    let slimline = Slimline::build()?;
    let tidy = tidy_library()?;
    let mut is_found = true;
    println!("| program | first features | accuracy | among five | verdict | malloc, s | hints, s | ratio | 95 % |");
    println!("| --- | --- | ---: | ---: | --- | ---: | ---: | ---: | --- |");
    for of in HINTED.iter().filter(|of| names.contains(&of.name)) {
        is_found &= of.measure(&slimline, &tidy, runs).with_context(|| of.name.to_owned())?;
    }
    println!("\n| search | as it was, s | rewritten, s | ratio | 95 % |\n| --- | ---: | ---: | ---: | --- |");
    for search in SEARCHES.iter().filter(|search| names.contains(search)) {
        measure_search(&slimline, search, runs).with_context(|| (*search).to_owned())?;
    }
    Ok(is_found)
}

/// The static library of slimline-tidy, as its manifest says that it is made.
fn tidy_library() -> Result<PathBuf> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["rustc", "--quiet", "--release", "--lib", "--crate-type", "staticlib", "--features", "c"]);
    let own = root().join("crates/slimline-tidy");
    let target = target_dir()?.join("tidy");
    timed_quietly(cargo.arg("--target-dir").arg(&target).current_dir(own))?;
    Ok(target.join("release/libslimline_tidy.a"))
}

fn timed_quietly(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("can't run {command:?}"))?;
    if !status.success() {
        bail!("{command:?}: {status}");
    }
    Ok(())
}

fn source(name: &str) -> PathBuf {
    root().join("programs/hinted").join(name)
}

/// Built by `compiler`, or by slimline with values, into a file of this name.
fn built(compiler: &mut Command, name: &str, made: &str, rest: &[&Path]) -> Result<PathBuf> {
    let directory = target_dir()?.join("programs");
    std::fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
    let program = directory.join(made);
    compiler.args(["-O2", "-g"]).arg(source(name)).args(rest).arg("-o").arg(&program);
    timed_quietly(compiler.args(["-lpthread", "-ldl", "-lm"]))?;
    Ok(program)
}

fn compiler_of(name: &str) -> &'static str {
    if name.ends_with(".c") { "gcc" } else { "g++" }
}

/// The program as `slimline cc` makes it, with values.
fn instrumented(slimline: &Slimline, name: &str) -> Result<PathBuf> {
    let task = if name.ends_with(".c") { "cc" } else { "c++" };
    let directory = target_dir()?.join("programs");
    std::fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
    let (_, header) = timed(slimline.command("header"))?;
    let path = directory.join("slimline.h");
    std::fs::write(&path, header.stdout).with_context(|| path.display().to_string())?;
    let mut compiler = slimline.command(task);
    compiler.args(["--slimline-values", "-DSLIMLINE", "-I"]).arg(&directory);
    built(&mut compiler, name, &format!("{name}.values"), &[])
}

fn traced(slimline: &Slimline, program: &Path, arguments: &[&str], is_paused: bool) -> Result<PathBuf> {
    let trace = slimline.session("hints");
    let mut command = Command::new(program);
    command.args(arguments);
    let paused: &[&OsStr] = if is_paused { &["--paused".as_ref()] } else { &[] };
    timed(slimline.trace(&command, &[paused, &["-o".as_ref(), trace.as_os_str()]].concat()))?;
    Ok(trace)
}

impl Hinted {
    /// Whether the feature was found.
    fn measure(&self, slimline: &Slimline, tidy: &Path, runs: usize) -> Result<bool> {
        let trace = traced(slimline, &instrumented(slimline, self.source)?, self.learned, self.is_paused)?;
        let machine = source("small.toml");
        let options = ["--format", "json", "--machine", machine.to_str().context("a path that is no text")?];
        let (_, output) = timed(slimline.analysis("learn", &trace, &options))?;
        std::fs::remove_dir_all(&trace).with_context(|| trace.display().to_string())?;
        let learned: Learned = serde_json::from_slice(&output.stdout).context("what `slimline learn` printed")?;
        let learned = learned.types.into_iter().find(|of| of.type_name.as_deref() == Some(self.type_name));
        let learned = learned.with_context(|| format!("nothing was learned of {}", self.type_name))?;
        let first: Vec<&str> = learned.features.iter().take(2).map(|feature| feature.name.as_str()).collect();

        let (name, gcc) = (self.source, compiler_of(self.source));
        let plain = built(&mut Command::new(gcc), name, &format!("{}.malloc", self.name), &[])?;
        let mut with_hints = Command::new(gcc);
        with_hints.arg("-DTIDY").arg("-I").arg(root().join("crates/slimline-tidy/include"));
        let hinted = built(&mut with_hints, name, &format!("{}.tidy", self.name), &[tidy])?;
        let of = |program: &Path| {
            let mut command = Command::new(program);
            command.args(self.measured);
            Ok(command)
        };
        let pair = Pair::measure(runs, || of(&plain), || of(&hinted))?;
        println!(
            "| {} | {} | {:.3} | {:.3} | {} | {}",
            self.name,
            first.join(", "),
            learned.accuracy.mean,
            learned.accuracy.among_five,
            learned.verdict,
            ratio_cells(&pair)
        );
        Ok(first.contains(&self.feature))
    }
}

/// Seconds of both, their ratio, and where it lies.
fn ratio_cells(pair: &Pair) -> String {
    let ratio = pair.wall_ratio();
    let (least, most) = ratio.interval;
    let (first, second) = (pair.first_seconds(), pair.second_seconds());
    format!("{first:.2} | {second:.2} | {:.2} | {least:.2} to {most:.2} |", ratio.median)
}

fn measure_search(slimline: &Slimline, search: &str, runs: usize) -> Result<()> {
    let plain = built(&mut Command::new("gcc"), "traversal.c", "traversal", &[])?;
    let directory = slimline.session("hints-graph");
    std::fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
    let written = |name: &str, arguments: &[&OsStr]| -> Result<PathBuf> {
        let path = directory.join(name);
        let file = File::create(&path).with_context(|| path.display().to_string())?;
        timed_quietly(Command::new(&plain).args(arguments).stdout(file))?;
        Ok(path)
    };
    let graph = written("graph", &["make".as_ref(), NODES.as_ref()])?;
    let arguments = [search, graph.to_str().context("a path that is no text")?, TRACED_ROUNDS];
    let trace = traced(slimline, &instrumented(slimline, "traversal.c")?, &arguments, true)?;
    let ids = directory.join("ids");
    let order = ["--order-by", "node.id", "--order", ids.to_str().context("a path that is no text")?];
    timed(slimline.analysis("layout", &trace, &order))?;
    std::fs::remove_dir_all(&trace).with_context(|| trace.display().to_string())?;
    let rewritten = written("rewritten", &["reorder".as_ref(), graph.as_os_str(), ids.as_os_str()])?;
    let of = |graph: &Path| {
        let mut command = Command::new(&plain);
        command.arg(search).arg(graph).arg(MEASURED_ROUNDS);
        Ok(command)
    };
    let pair = Pair::measure(runs, || of(&graph), || of(&rewritten))?;
    println!("| {search} | {}", ratio_cells(&pair));
    std::fs::remove_dir_all(&directory).with_context(|| directory.display().to_string())
}
