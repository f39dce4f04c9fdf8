//! `slimline advise`

use std::path::PathBuf;

use slimline_report::text;

use super::{ReportPlace, show};
use crate::cli::{self, Format};
use crate::pipeline;

pub(crate) fn run(options: &cli::Advise) -> anyhow::Result<u8> {
    let report = pipeline::report(&options.input.session)?;
    show(
        options.format,
        ReportPlace::Output,
        || slimline_report::json(&report),
        |out| text::advise(out, &report, options.verbose),
    )?;
    Ok(0)
}

impl cli::Advise {
    /// The advice of `session` as text.
    pub(crate) fn of(session: PathBuf) -> Self {
        Self { input: cli::Input { session }, format: Format::Text, verbose: false }
    }
}
