//! `slimline histogram`

use std::ops::Range;

use anyhow::bail;
use slimline_analyze::origins::Origins;
use slimline_report::histogram::HistogramReport;
use slimline_report::html::Finding;
use slimline_report::{svg, text};
use slimline_simulate::extents::Extents;
use slimline_simulate::simulation::{Options, Outcome};

use super::{ReportPlace, print_page, say_missing};
use crate::accesses::{self, Accesses};
use crate::cli::{self, PictureFormat};
use crate::machines::{machine, simulation};

/// Passes a trace through a machine, and shows where in data it was accessed and missed.
pub(crate) fn run(options: &cli::Histogram) -> anyhow::Result<u8> {
    let machine = machine(&options.machine)?;
    let mut simulation = simulation(&machine, &options.machine, &Options::default())?;
    let place = ReportPlace::of(&options.input)?;
    let mut extents = Extents::handing_on(&mut simulation);
    let read = accesses::read_with_parts(&options.input, options.part, &mut extents)?;
    let extents = extents.finish();
    let report = found(&read, &simulation.finish(), &extents, &options.data);
    read.ended.status(shown(options, place, &report, &read.origins))
}

/// What happened where in data: of all, or of these names.
pub(super) fn found(read: &Accesses, outcome: &Outcome, extents: &[Range<u64>], only: &[String]) -> HistogramReport {
    HistogramReport::new(read.trace.clone(), outcome, (&read.origins, extents), only)
}

fn shown(
    options: &cli::Histogram,
    place: ReportPlace,
    report: &HistogramReport,
    origins: &Origins,
) -> anyhow::Result<()> {
    let lacking = origins.lacking(&options.data);
    if !lacking.is_empty() {
        bail!("no data is called {}: there is {}", lacking.join(" or "), origins.data_names());
    }
    let mut out = String::new();
    match options.format {
        PictureFormat::Text => text::histogram(&mut out, report, options.rows)?,
        PictureFormat::Json => out = report.json(),
        PictureFormat::Csv => out = report.csv(),
        PictureFormat::Svg => svg::svg(&mut out, report, options.rows)?,
        PictureFormat::Html => return print_page(place, (&report.trace, Finding::Extents(report))),
    }
    if matches!(options.format, PictureFormat::Csv | PictureFormat::Svg) {
        // These have no place for it.
        say_missing(&report.trace);
    }
    place.print(&out)
}
