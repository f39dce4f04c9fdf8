//! `cargo xtask test`: everything that must hold before a change lands.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result};

use crate::{harm, root, rules, setup};

/// Runs all steps, the quick ones first, and stops at the first that fails.
pub(crate) fn run(slow: bool) -> Result<bool> {
    setup::for_tests()?;
    let nextest = Command::new("cargo").args(["nextest", "--version"]).output().is_ok_and(|out| out.status.success());
    let mut steps: Vec<Vec<&str>> = vec![
        vec!["fmt", "--all", "--check"],
        vec!["clippy", "--workspace", "--all-targets", "--quiet", "--", "-D", "warnings"],
    ];
    let ignored = if nextest { "--run-ignored=all" } else { "--include-ignored" };
    let mut tests = if nextest { vec!["nextest", "run", "--workspace"] } else { vec!["test", "--workspace"] };
    if slow {
        tests.extend(if nextest { vec![ignored] } else { vec!["--", ignored] });
    }
    steps.push(tests);
    if nextest {
        // nextest leaves the examples in the documentation out.
        steps.push(vec!["test", "--doc", "--workspace", "--quiet"]);
    }

    if !rules::run()? {
        return Ok(false);
    }
    let skipped = tempfile::NamedTempFile::new().context("a list of skipped tests")?;
    for step in &steps {
        let line = step.join(" ");
        eprintln!("cargo {line}");
        let started = Instant::now();
        let status = Command::new("cargo")
            .args(step)
            .current_dir(root())
            .env("SLIMLINE_SKIPPED_TESTS", skipped.path())
            .status()
            .context("cargo")?;
        if !status.success() {
            eprintln!("failed: cargo {line}");
            return Ok(false);
        }
        eprintln!("  {:.0} s", started.elapsed().as_secs_f64());
    }
    let started = Instant::now();
    eprintln!("cargo xtask harm --slice ci");
    if !harm::run_in_ci()? {
        return Ok(false);
    }
    eprintln!("  {:.0} s", started.elapsed().as_secs_f64());
    // Tests of the command line whose subject is missing on this machine say so there. The agent's tests hold with and
    // without perf: where it is refused they check the timer in its place, and say nothing.
    for line in std::fs::read_to_string(skipped.path()).context("the list of skipped tests")?.lines() {
        eprintln!("skipped: {line}");
    }
    Ok(true)
}
