//! `slimline share`

use anyhow::{Context, bail};
use slimline_analyze::sharing::findings;
use slimline_report::sharing::SharingReport;
use slimline_report::text;
use slimline_simulate::sharing::LineFinder;

use super::show_table;
use crate::accesses;
use crate::cli;
use crate::machines::machine;

/// Tells what threads share: in a first pass which lines, in a second one who does what to them.
pub(crate) fn run(options: &cli::Share) -> anyhow::Result<u8> {
    let machine = machine(&options.machine)?;
    let mut finder = LineFinder::new(machine.line_bytes());
    let Some(threads) = accesses::read(&options.input, &mut finder)?.trace.threads else {
        bail!("{}: tells no threads: share is for what `slimline trace -o` wrote", options.input.trace.display());
    };
    let lines = finder.finish(&machine, u32::try_from(threads).unwrap_or(u32::MAX));
    let mut lines = lines.with_context(|| format!("--machine {}", options.machine))?;
    let read = accesses::read(&options.input, &mut lines)?;
    let found = findings(&lines, &read.origins);
    let report = SharingReport::new(read.trace, &machine.name, &lines, &found, &read.origins);
    let text = |out: &mut String| text::sharing(out, &report, options.rows);
    show_table(options.format, &report.trace, || report.json(), || report.csv(), text)?;
    Ok(0)
}
