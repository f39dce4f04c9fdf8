//! `slimline reuse`

use std::collections::BTreeMap;

use anyhow::Context;
use slimline_analyze::origins::{By, Origins};
use slimline_analyze::reuse::findings;
use slimline_report::html::Finding;
use slimline_report::reuse::{ReuseReport, SampledData};
use slimline_report::text;
use slimline_simulate::locality::Locality;
use slimline_simulate::machine::Machine;
use slimline_simulate::reuse::{SampledKey, SampledKeys};

use super::{ReportPlace, show_table};
use crate::accesses::{self, Accesses, Ended};
use crate::cli::{self, AccessInput};
use crate::machines::machine;

/// Tells how far apart accesses to the same lines are.
pub(crate) fn run(options: &cli::Reuse) -> anyhow::Result<u8> {
    let machine = machine(&options.machine)?;
    let place = ReportPlace::of(&options.input)?;
    let (report, ended) = report(&options.input, (&machine, &options.machine), options.sampled)?;
    ended.status(report.and_then(|report| {
        let found = (&report.trace, Finding::Reuse(&report));
        let text = |out: &mut String| text::reuse(out, &report, options.rows);
        show_table((options.format, place), found, || report.json(), || report.csv(), text)
    }))
}

/// Distances of all lines, or of so many at a time: on this machine, which the command line calls so. There is no report where all are too
/// many.
fn report(
    input: &AccessInput,
    (machine, name): (&Machine, &str),
    sampled: Option<usize>,
) -> anyhow::Result<(anyhow::Result<ReuseReport>, Ended)> {
    match sampled {
        None => {
            let mut locality = of_all((machine, name))?;
            let read = accesses::read(input, &mut locality)?;
            Ok((found(&read, locality), read.ended))
        }
        Some(most_lines) => {
            let mut keys = SampledKeys::new(machine, most_lines, 1.0).with_context(|| format!("--machine {name}"))?;
            let read = accesses::read(input, &mut keys)?;
            let (total, data) = by_data(&keys, &read.origins);
            Ok((Ok(ReuseReport::sampled(read.trace, machine, keys.share(), &total, &data, &read.origins)), read.ended))
        }
    }
}

/// Who takes in the distances of all lines.
pub(super) fn of_all((machine, name): (&Machine, &str)) -> anyhow::Result<Locality> {
    Locality::new(machine).with_context(|| format!("--machine {name}"))
}

/// What that found.
///
/// # Errors
/// There are too many lines.
pub(super) fn found(read: &Accesses, locality: Locality) -> anyhow::Result<ReuseReport> {
    let found = locality.finish().context("too much memory is accessed: take --sampled")?;
    Ok(ReuseReport::exact(read.trace.clone(), &found, &findings(&found, &read.origins), &read.origins))
}

/// All together, and by data, most accesses first.
fn by_data(keys: &SampledKeys, origins: &Origins) -> (SampledData, Vec<SampledData>) {
    let mut sums: BTreeMap<u32, SampledKey> = BTreeMap::new();
    let mut all = SampledKey::default();
    for (key, of_key) in (0..).zip(keys.keys()) {
        all.merge(of_key);
        if !origins.is_empty() {
            sums.entry(origins.number(key, By::Data)).or_default().merge(of_key);
        }
    }
    let data = |data: u32, sum: &SampledKey| SampledData {
        data,
        accesses: sum.accesses,
        histogram: sum.estimate.histogram(),
        misses: sum.estimate.misses(sum.accesses, keys.share()),
    };
    let mut rows: Vec<SampledData> = sums.iter().map(|(number, sum)| data(*number, sum)).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.accesses));
    (data(0, &all), rows)
}
