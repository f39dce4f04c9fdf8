//! `slimline histogram`

use std::num::NonZeroU64;

use anyhow::bail;
use slimline_analyze::origins::Origins;
use slimline_report::histogram::HistogramReport;
use slimline_report::html::{self, Finding};
use slimline_report::{svg, text};
use slimline_simulate::extents::Extents;
use slimline_simulate::simulation::{Options, Simulation};

use super::{ReportPlace, say_missing};
use crate::accesses::{self, Ended};
use crate::cli::{self, AccessInput, PictureFormat};
use crate::machines::{machine, simulation};

/// Passes a trace through a machine, and shows where in data it was accessed and missed.
pub(crate) fn run(options: &cli::Histogram) -> anyhow::Result<u8> {
    let machine = machine(&options.machine)?;
    let simulation = simulation(&machine, &options.machine, &Options::default())?;
    let place = ReportPlace::of(&options.input)?;
    let (report, origins, ended) = found(&options.input, simulation, options.part, &options.data)?;
    ended.status(shown(options, place, &report, &origins))
}

/// What happened where in data, in parts of so many bytes: of all, or of these names.
pub(super) fn found(
    input: &AccessInput,
    mut simulation: Simulation,
    part: NonZeroU64,
    only: &[String],
) -> anyhow::Result<(HistogramReport, Origins, Ended)> {
    let mut extents = Extents::handing_on(&mut simulation);
    let read = accesses::read_with_parts(input, part, &mut extents)?;
    let extents = extents.finish();
    let report = HistogramReport::new(read.trace, &simulation.finish(), (&read.origins, &extents), only);
    Ok((report, read.origins, read.ended))
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
        PictureFormat::Html => html::trace(&mut out, &report.trace, None, &[Finding::Extents(report)])?,
    }
    if matches!(options.format, PictureFormat::Csv | PictureFormat::Svg) {
        // These have no place for it.
        say_missing(&report.trace);
    }
    place.print(&out)
}
