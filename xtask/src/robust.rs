//! `cargo xtask robust`: Debian's programs under `slimline record` end as they do without it.

use std::io::Write as _;
use std::process::Output;

use anyhow::{Context as _, Result, bail};

use crate::selection::select;
use crate::slimline::Slimline;
use crate::{redis, setup, workload};

/// How a run ended and what it printed.
#[derive(PartialEq, Eq)]
struct Outcome {
    stdout: Vec<u8>,
    code: Option<i32>,
}

impl From<Output> for Outcome {
    fn from(output: Output) -> Self {
        Self { stdout: output.stdout, code: output.status.code() }
    }
}

const REDIS: &str = "redis-server";

/// Compares `times` recorded runs of each program with a native one; prints a Markdown table. Whether all were equal.
pub(crate) fn run(times: u32, only: &[String]) -> Result<bool> {
    setup::install(setup::TESTS)?;
    let slimline = Slimline::build()?;
    // None is the server.
    let programs = workload::debian(1.0)?.into_iter().map(Some).chain([None]).collect();
    let programs = select(programs, |program| program.as_ref().map_or(REDIS, |workload| &workload.name), only)?;
    println!("| program | recorded runs | same output and status |\n| --- | --- | --- |");
    let mut all_equal = true;
    for program in &programs {
        let session = slimline.session("robust");
        all_equal &= match program {
            Some(workload) => compare(&workload.name, times, |recorded| {
                let command = workload.command();
                let command = if recorded { slimline.record(&command, &session, &[]) } else { command };
                Ok(workload.with_input(command)?.output()?.into())
            }),
            None => compare(REDIS, times, |recorded| {
                let (stdout, code) = redis::under_load(REDIS.as_ref(), recorded.then_some((&slimline, &session)))?;
                Ok(Outcome { stdout: stdout.into_bytes(), code })
            }),
        }?;
    }
    Ok(all_equal)
}

fn compare(name: &str, times: u32, run: impl Fn(bool) -> Result<Outcome>) -> Result<bool> {
    let expected = run(false).with_context(|| name.to_owned())?;
    if expected.code != Some(0) || expected.stdout.is_empty() {
        bail!("{name} fails without slimline too: status {:?}", expected.code);
    }
    let mut equal = 0;
    for _ in 0..times {
        equal += u32::from(run(true).with_context(|| name.to_owned())? == expected);
    }
    println!("| {name} | {times} | {equal} |");
    std::io::stdout().flush()?;
    Ok(equal == times)
}
