//! `slimline advise`

use std::path::PathBuf;

use slimline_report::text;

use super::print;
use crate::cli::{self, Format};
use crate::pipeline;

pub(crate) fn run(options: &cli::Advise) -> anyhow::Result<u8> {
    let report = pipeline::report(&options.input.session)?;
    match options.format {
        Format::Json => print(&slimline_report::json(&report))?,
        Format::Text => {
            let mut out = String::new();
            text::advise(&mut out, &report, options.verbose)?;
            print(&out)?;
        }
    }
    Ok(0)
}

impl cli::Advise {
    /// The advice of `session` as text.
    pub(crate) fn of(session: PathBuf) -> Self {
        Self { input: cli::Input { session }, format: Format::Text, verbose: false }
    }
}
