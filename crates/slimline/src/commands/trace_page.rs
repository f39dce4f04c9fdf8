//! `slimline report --format html` of a trace: what all analyses find in it, on one page.

use std::num::NonZeroU64;
use std::path::Path;

use slimline_report::html::{self, Analysis, Finding};
use slimline_report::simulation::AccessTrace;
use slimline_simulate::simulation::{LargePages, Options};

use super::{histogram, place, reuse, share, simulate, trace};
use crate::cli::AccessInput;
use crate::machines::{machine, simulation};
use crate::relayouts;

/// Bytes of parts that data is cut at, for histograms and for placing it: what these commands take where they are not told.
const HISTOGRAM_PART: NonZeroU64 = NonZeroU64::new(64).unwrap();
const PLACED_PART: NonZeroU64 = NonZeroU64::new(4096).unwrap();

/// The page of a trace, on the machine that the command line calls so; with `callers` blocks of the heap are told apart by who called for
/// them. What an analysis can't tell, and why, is said in its part of the page.
pub(super) fn page(directory: &Path, machine_name: &str, callers: bool) -> anyhow::Result<String> {
    let machine = machine(machine_name)?;
    let named = (&machine, machine_name);
    let simulated = |options: &Options| simulation(&machine, machine_name, options);
    let asked = Options { classes: true, used_bytes: true, large_pages: LargePages::None };
    let with_classes = vec![simulated(&asked)?];
    let input = AccessInput::written(directory, callers);
    let counts = trace::counts(directory)?;

    let advice = relayouts::search(directory, (&machine.clone().with_usual_tlbs(), machine_name)).map_err(in_words);
    let caches = simulate::found(&input, with_classes, &asked).map(|(report, _)| report).map_err(in_words);
    let reuse = reuse::found(&input, named, None).and_then(|(report, _)| report).map_err(in_words);
    let sharing = share::found(&input, named).map(|(report, _)| report).map_err(in_words);
    let extents = simulated(&Options::default())
        .and_then(|simulation| histogram::found(&input, simulation, HISTOGRAM_PART, &[]))
        .map(|(report, ..)| report)
        .map_err(in_words);
    let placement = place::Plan::of(&machine, None, None, PLACED_PART)
        .and_then(|plan| place::found(&input, (simulated(&Options::default())?, machine_name), &plan)?.0)
        .map_err(in_words);

    let findings = [
        finding(&advice, Analysis::Advice, Finding::Advice),
        finding(&caches, Analysis::Caches, Finding::Caches),
        finding(&reuse, Analysis::Reuse, Finding::Reuse),
        finding(&sharing, Analysis::Sharing, Finding::Sharing),
        finding(&extents, Analysis::Extents, Finding::Extents),
        finding(&placement, Analysis::Placement, Finding::Placement),
    ];
    let of_trace = AccessTrace {
        file: directory.display().to_string(),
        format: "trace",
        command: counts.command.clone(),
        threads: Some(counts.processes.iter().map(|process| process.threads).sum()),
        ..AccessTrace::default()
    };
    let mut page = String::new();
    html::trace(&mut page, &of_trace, Some(&counts), &findings)?;
    Ok(page)
}

fn in_words(error: anyhow::Error) -> String {
    format!("{error:#}")
}

fn finding<'a, R>(found: &'a Result<R, String>, analysis: Analysis, of: fn(&'a R) -> Finding<'a>) -> Finding<'a> {
    match found {
        Ok(report) => of(report),
        Err(why) => Finding::Untold(analysis, why),
    }
}
