//! `slimline diff`

use slimline_report::text::{self, Limits};

use super::{ReportPlace, show};
use crate::cli;
use crate::comparing;

pub(crate) fn run(options: &cli::Diff) -> anyhow::Result<u8> {
    let comparison = comparing::compare(&options.old, &options.new, &options.machine)?;
    let limits = Limits { rows: options.rows, ..Limits::default() };
    show(options.format, ReportPlace::Output, || comparison.json(), |out| text::comparison(out, &comparison, limits))?;
    Ok(0)
}
