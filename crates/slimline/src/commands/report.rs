//! `slimline report`

use std::path::PathBuf;

use slimline_report::text::{self, By, Limits};

use super::print;
use crate::cli::{self, Format};
use crate::pipeline;

pub(crate) fn run(options: &cli::Report) -> anyhow::Result<u8> {
    let report = pipeline::report(&options.input.session)?;
    match options.format {
        Format::Json => print(&slimline_report::json(&report))?,
        Format::Text => {
            let mut out = String::new();
            let limits = Limits {
                rows: options.rows,
                share: options.percent_limit.map(|percent| percent / 100.0),
                wide: options.wide,
                callers: options.callers,
                full_head: options.verbose,
            };
            text::report(&mut out, &report, by(options.by), limits)?;
            print(&out)?;
        }
    }
    Ok(0)
}

fn by(by: cli::By) -> By {
    match by {
        cli::By::Group => By::Group,
        cli::By::Type => By::Type,
        cli::By::Field => By::Field,
        cli::By::Loop => By::Loop,
        cli::By::Line => By::Line,
        cli::By::Function => By::Function,
        cli::By::Thread => By::Thread,
    }
}

impl cli::Report {
    /// The default report of `session`.
    pub(crate) fn of(session: PathBuf) -> Self {
        let input = cli::Input { session };
        let Limits { rows, share, wide, callers, full_head: verbose } = Limits::default();
        let (by, format, percent_limit) = (cli::By::Group, Format::Text, share.map(|share| share * 100.0));
        Self { input, by, format, rows, percent_limit, wide, callers, verbose }
    }
}
