//! `slimline share`

use anyhow::{Context, bail};
use slimline_analyze::sharing::findings;
use slimline_report::sharing::SharingReport;
use slimline_report::text;
use slimline_simulate::sharing::{LineFinder, SharedLines};

use super::show_table;
use crate::accesses::{self, Accesses};
use crate::cli;
use crate::machines::machine;

/// Tells what threads share: of what is written in a first pass which lines, in a second one who does what to them; of what runs in
/// one.
pub(crate) fn run(options: &cli::Share) -> anyhow::Result<u8> {
    let machine = machine(&options.machine)?;
    let wrong_machine = || format!("--machine {}", options.machine);
    let mut lines = if options.input.live {
        SharedLines::in_one_pass(&machine).with_context(wrong_machine)?
    } else {
        let mut finder = LineFinder::new(machine.line_bytes());
        let Some(threads) = accesses::read(&options.input, &mut finder)?.trace.threads else {
            bail!("{}: tells no threads: share is for what `slimline trace -o` wrote", options.input.trace().display());
        };
        finder.finish(&machine, u32::try_from(threads).unwrap_or(u32::MAX)).with_context(wrong_machine)?
    };
    let Accesses { trace, origins, ended } = accesses::read(&options.input, &mut lines)?;
    let found = findings(&lines, &origins);
    let report = SharingReport::new(trace, &machine.name, &lines, &found, &origins);
    let text = |out: &mut String| text::sharing(out, &report, options.rows);
    show_table(options.format, &report.trace, || report.json(), || report.csv(), text)?;
    Ok(ended.status())
}
