//! `cargo xtask bench agreement`: field access shares as reported against the oracle's exact counts.
//!
//! The program runs once under the oracle, and several times under `slimline record`. A field's share is the mean over
//! those runs, and its interval is of that mean: so it holds whatever makes runs differ, not only the sampling.

mod cases;
mod compare;
mod programs;

use std::process::Command;

use anyhow::{Context as _, Result, bail};

use self::cases::{Case, Structure};
use self::compare::{Row, rows};
use crate::measure::timed;
use crate::oracle::{Counts, Oracle, Question};
use crate::slimline::{Report, Slimline};

/// Issue 2: fields with at least this share of their group's accesses…
const FIELD_SHARE_AT_LEAST: f64 = 0.05;
/// …may be off by this much.
const OFF_AT_MOST: f64 = 0.02;

/// Compares all cases; prints a Markdown table. Whether every field is within the bound.
pub(crate) fn run(runs: usize, only: &[String]) -> Result<bool> {
    if runs < 2 {
        bail!("--runs must be at least 2: the interval is of their differences");
    }
    let cases = cases::select(only)?;
    let (slimline, oracle) = (Slimline::build()?, Oracle::build()?);
    println!(
        "| program | data | field | exact, % | reported, % | off, points |\n| --- | --- | --- | --- | --- | --- |"
    );
    let (mut worst, mut fields, mut outside) = (0.0_f64, 0, Vec::new());
    for case in &cases {
        let found = measure(case, runs, &slimline, &oracle).with_context(|| case.name.clone())?;
        for (structure, row) in found.iter().flat_map(|(structure, rows)| rows.iter().map(move |row| (structure, row)))
        {
            let points = |share: f64| share * 100.0;
            println!(
                "| {} | {} | {} | {:.1} | {:.1} ± {:.1} | {:+.1} |",
                case.name,
                structure.name,
                row.field.replace('|', "\\|"),
                points(row.exact),
                points(row.reported.mean),
                points(row.reported.reach),
                points(row.off()),
            );
            fields += 1;
            worst = worst.max(row.off().abs());
            if row.off().abs() > OFF_AT_MOST {
                outside.push(format!("{} {}.{}", case.name, structure.name, row.field));
            }
        }
    }
    println!(
        "\n{fields} fields of at least {} %, mean of {runs} runs with its 95 % interval; worst {:.1} points off, {} by \
         more than {}",
        FIELD_SHARE_AT_LEAST * 100.0,
        worst * 100.0,
        outside.len(),
        OFF_AT_MOST * 100.0
    );
    if !outside.is_empty() {
        println!("too far off: {}", outside.join(", "));
    }
    Ok(outside.is_empty())
}

/// The fields that matter of each data structure.
fn measure<'a>(
    case: &'a Case,
    runs: usize,
    slimline: &Slimline,
    oracle: &Oracle,
) -> Result<Vec<(&'a Structure, Vec<Row>)>> {
    let elements: Vec<(String, u64)> =
        case.structures.iter().map(|structure| (structure.site.clone(), structure.element_bytes)).collect();
    let question =
        Question { program: &case.executable, arguments: &case.arguments, elements: &elements, skip: case.skip };
    let counts: Counts = oracle.ask(&question)?;
    let reports: Vec<Report> = (0..runs)
        .map(|_| {
            let session = slimline.session("agreement");
            let mut native = Command::new(&case.executable);
            native.args(&case.arguments);
            timed(slimline.record(&native, &session, &[]))?;
            slimline.report(&session)
        })
        .collect::<Result<_>>()?;
    case.structures
        .iter()
        .map(|structure| {
            let mut rows = rows(structure, case.skip, counts.site(&structure.site)?, &reports)
                .with_context(|| structure.name.clone())?;
            rows.retain(|row| row.exact.max(row.reported.mean) >= FIELD_SHARE_AT_LEAST);
            Ok((structure, rows))
        })
        .collect()
}
