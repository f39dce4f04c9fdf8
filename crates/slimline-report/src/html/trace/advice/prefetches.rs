//! Prefetches.

use std::fmt::{self, Write};
use std::path::Path;

use super::{alone, begin_card, cautions, changed_code, loops, predicted, tried_table};
use crate::html::page::Escaped;
use crate::relayout::{AdvisedPrefetch, PrefetchRow, RelayoutReport};
use crate::text::number::percent;
use crate::text::relayout::prefetches::what_it_is;

/// What is to be changed, with its number, behind all layouts and loops.
pub(super) fn changes(report: &RelayoutReport) -> impl Iterator<Item = (usize, &PrefetchRow, &AdvisedPrefetch)> {
    let advised = report.prefetches.loads.iter().filter_map(|of| Some((of, of.advice.as_ref()?)));
    let before = super::changes(report).count() + loops::changes(report).count();
    (before + 1..).zip(advised).map(|(number, (of, advice))| (number, of, advice))
}

pub(super) fn card(
    out: &mut impl Write,
    report: &RelayoutReport,
    (number, of, advice): (usize, &PrefetchRow, &AdvisedPrefetch),
) -> fmt::Result {
    begin_card(out, number, &advice.change.title)?;
    predicted(out, report, &advice.change.predicted)?;
    told(out, of)?;
    cautions(out, &advice.change)?;
    tried(out, of, Some(advice.distance))?;
    changed_code(out, "At the beginning of each step", &advice.change)
}

fn told(out: &mut impl Write, of: &PrefetchRow) -> fmt::Result {
    let what = format!("{}. {} of the time.", what_it_is(of, Path::new("")), percent(of.share));
    writeln!(out, "<p>{}</p>", Escaped(&what))
}

/// All distances, with the advised one marked.
fn tried(out: &mut impl Write, of: &PrefetchRow, advised: Option<u32>) -> fmt::Result {
    let caption = format!("Distances for {} that were tried, by a part of the accesses", of.data);
    let rows: Vec<_> =
        of.tried.iter().map(|row| (row.words(), advised == Some(row.distance), row.time_ratio)).collect();
    tried_table(out, &caption, &rows)
}

/// One for which nothing is advised.
pub(super) fn left_alone(out: &mut impl Write, of: &PrefetchRow) -> fmt::Result {
    let head = alone(&format!("Loads of {}", of.data), of.share, of.reason.as_deref());
    writeln!(out, "<details class=\"group\">\n<summary>{head}</summary>\n<div class=\"inside\">")?;
    told(out, of)?;
    tried(out, of, None)?;
    writeln!(out, "</div>\n</details>")
}
