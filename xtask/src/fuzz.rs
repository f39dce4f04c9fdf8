//! `cargo xtask fuzz`: whatever reads bytes that somebody else wrote, with mutated ones.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};

use crate::selection::select;
use crate::{root, target_dir};

/// Recordings that tests read are what this target begins with.
const FIXTURES: &[(&str, &str)] = &[("perf_data", "crates/slimline-collect/tests/perf-data")];
/// An input that takes longer, or more memory, is a finding.
const LIMITS: [&str; 2] = ["-timeout=25", "-rss_limit_mb=2048"];

/// Runs each target, or only these, for so many seconds; prints a Markdown table. Whether none found anything.
pub(crate) fn run(seconds: u32, only: &[String]) -> Result<bool> {
    let names = select(targets()?, String::as_str, only)?;
    let fuzz = |arguments: &[&str]| {
        let mut command = Command::new("cargo");
        // Rustup's shim chooses the toolchain; the one that runs this must not be inherited.
        command.env_remove("RUSTUP_TOOLCHAIN").arg("+nightly").arg("fuzz").args(arguments).current_dir(root());
        // Cargo's own directory holds the lock of the build that runs this.
        command.args(["--target-dir"]).arg(target_dir().unwrap_or_default().join("fuzz"));
        command
    };
    let built = fuzz(&["build"]).status().context("cargo")?;
    if !built.success() {
        bail!(
            "building the fuzz targets failed; they need `rustup toolchain install nightly` and `cargo install cargo-fuzz`"
        );
    }
    println!("| target | inputs tried | found |\n| --- | --- | --- |");
    let mut is_clean = true;
    for name in &names {
        let corpus = target_dir()?.join("fuzz-corpus").join(name);
        std::fs::create_dir_all(&corpus).with_context(|| corpus.display().to_string())?;
        let begin = FIXTURES.iter().find(|(target, _)| target == name).map(|&(_, fixtures)| root().join(fixtures));
        let seeds = begin.unwrap_or_else(|| root().join("fuzz/seeds").join(name));
        let output = fuzz(&["run", name])
            .args([&corpus, &seeds])
            .arg("--")
            .arg(format!("-max_total_time={seconds}"))
            .args(LIMITS)
            .stdin(Stdio::null())
            .output()
            .context("cargo fuzz")?;
        let log = String::from_utf8_lossy(&output.stderr);
        let tried = log.lines().find_map(|line| line.strip_prefix("Done ")?.split(' ').next()).unwrap_or("?");
        let found = log.lines().find(|line| line.contains("Test unit written to")).map(str::trim);
        let found = if output.status.success() { "nothing" } else { found.unwrap_or("it failed, see above") };
        println!("| {name} | {tried} | {found} |");
        if !output.status.success() {
            eprintln!("{log}");
            is_clean = false;
        }
    }
    Ok(is_clean)
}

/// The names of all targets.
fn targets() -> Result<Vec<String>> {
    let directory = root().join("fuzz/fuzz_targets");
    let entries = std::fs::read_dir(&directory).with_context(|| directory.display().to_string())?;
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names: Vec<String> = names.collect::<Result<_>>()?;
    names.iter_mut().for_each(|name| *name = name.trim_end_matches(".rs").to_owned());
    names.sort();
    Ok(names)
}
