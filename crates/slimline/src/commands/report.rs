//! `slimline report`

use std::path::{Path, PathBuf};

use anyhow::bail;
use slimline_report::text::{self, By, Limits, WIDTH};
use slimline_report::view::Report;
use slimline_report::{csv, html};
use slimline_trace::stream::recording::is_recording;

use super::{browse, print, trace_page};
use crate::cli::{self, ReportFormat};
use crate::pipeline;
use crate::region_profiles::NO_REGION_IN_SESSION;
use crate::sources;

pub(crate) fn run(options: &cli::Report) -> anyhow::Result<u8> {
    if options.tui {
        browse::check_terminal()?;
        return browse::run(&told_by(options)?, by(options));
    }
    let limits = Limits {
        rows: options.rows,
        share: options.percent_limit.map(|percent| percent / 100.0),
        wide: options.wide,
        callers: options.callers,
        full_head: options.verbose,
        width: terminal_width().unwrap_or(WIDTH).max(WIDTH),
    };
    let session = &options.input.session;
    if options.format == ReportFormat::Html && is_recording(session) {
        print(&of_trace(options)?)?;
        return Ok(0);
    }
    if options.machine.is_some() {
        bail!("--machine goes with --format html of a trace (of `slimline trace -o`), which is simulated");
    }
    let mut out = String::new();
    match (options.per_process, options.format) {
        (false, ReportFormat::Html) => out = html_page(session)?,
        (true, ReportFormat::Html) => {
            bail!(
                "--format html is one page of all processes: leave out --per-process, or take --format text, json or csv"
            )
        }
        (false, ReportFormat::Json) => out = slimline_report::json(&pipeline::report(session)?),
        (false, ReportFormat::Csv) => out = csv::report(&told_by(options)?, by(options)),
        (true, ReportFormat::Csv) => {
            out = csv::report_per_process(&pipeline::reports_per_process(session)?, by(options));
        }
        (false, ReportFormat::Text) => text::report(&mut out, &told_by(options)?, by(options), limits)?,
        (true, ReportFormat::Json) => out = slimline_report::json_per_process(pipeline::reports_per_process(session)?),
        (true, ReportFormat::Text) => {
            let processes = pipeline::reports_per_process(session)?;
            if processes.is_empty() {
                // Why there are no samples is told of all of them.
                text::report(&mut out, &pipeline::report(session)?, by(options), limits)?;
            }
            text::report_per_process(&mut out, &processes, by(options), limits)?;
        }
    }
    print(&out)?;
    Ok(0)
}

/// The page of a trace, which is cut by nothing.
fn of_trace(options: &cli::Report) -> anyhow::Result<String> {
    let asked = [
        ("--by", options.by != cli::By::Group),
        ("--per-process", options.per_process),
        ("--quality", options.quality),
        ("--verbose", options.verbose),
    ];
    let trace = &options.input.session;
    if let Some((option, _)) = asked.iter().find(|(_, is_asked)| *is_asked) {
        bail!("{option} goes with a session (of `slimline record`): {} is a trace", trace.display());
    }
    trace_page::page(trace, options.machine.as_deref().unwrap_or("host"), options.callers)
}

/// The report, which is to have what it is to be cut by.
fn told_by(options: &cli::Report) -> anyhow::Result<Report> {
    let session = &options.input.session;
    let report = pipeline::report(session)?;
    if options.by == cli::By::Region && report.breakdowns.regions.is_empty() {
        bail!("{}: {NO_REGION_IN_SESSION}", session.display());
    }
    Ok(report)
}

/// The page of a session, with what there is of its source.
pub(super) fn html_page(session: &Path) -> anyhow::Result<String> {
    let report = pipeline::report(session)?;
    let mut page = String::new();
    html::report(&mut page, &report, &sources::read(&report))?;
    Ok(page)
}

/// Columns of the terminal that the report goes to, if it goes to one.
fn terminal_width() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    Some(size.ws_col.into())
}

fn by(options: &cli::Report) -> By {
    match options.by {
        _ if options.quality => By::Quality,
        cli::By::Group => By::Group,
        cli::By::Type => By::Type,
        cli::By::Field => By::Field,
        cli::By::Loop => By::Loop,
        cli::By::Line => By::Line,
        cli::By::Function => By::Function,
        cli::By::Thread => By::Thread,
        cli::By::Region => By::Region,
    }
}

impl cli::Report {
    /// The default report of `session`.
    pub(crate) fn of(session: PathBuf) -> Self {
        let input = cli::Input { session };
        let Limits { rows, share, wide, callers, full_head: verbose, .. } = Limits::default();
        let (by, format, percent_limit) = (cli::By::Group, ReportFormat::Text, share.map(|share| share * 100.0));
        Self {
            input,
            machine: None,
            by,
            format,
            rows,
            percent_limit,
            wide,
            per_process: false,
            callers,
            verbose,
            quality: false,
            tui: false,
        }
    }
}
