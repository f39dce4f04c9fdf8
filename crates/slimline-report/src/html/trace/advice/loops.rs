//! Orders of loops.

use std::fmt::{self, Write};
use std::path::Path;

use super::{alone, begin_card, cautions, changed_code, changes as layouts, predicted_by, tried_table};
use crate::html::page::Escaped;
use crate::relayout::{AdvisedLoops, LoopRow, RelayoutReport, TriedOrderRow};
use crate::text::number::percent;
use crate::text::relayout::loops::{BY, walks, what_they_are};

/// What is to be changed, with its number, behind all layouts.
pub(super) fn changes(report: &RelayoutReport) -> impl Iterator<Item = (usize, &LoopRow, &AdvisedLoops)> {
    let advised = report.loops.iter().filter_map(|of| Some((of, of.advice.as_ref()?)));
    (layouts(report).count() + 1..).zip(advised).map(|(number, (of, advice))| (number, of, advice))
}

pub(super) fn card(out: &mut impl Write, (number, of, advice): (usize, &LoopRow, &AdvisedLoops)) -> fmt::Result {
    begin_card(out, number, &advice.change.title)?;
    predicted_by(out, &advice.change.predicted, BY)?;
    told(out, of)?;
    cautions(out, &advice.change)?;
    tried(out, of, Some(&advice.order))?;
    changed_code(out, "Loops in that order", &advice.change)
}

/// What they are, and how they walk.
fn told(out: &mut impl Write, of: &LoopRow) -> fmt::Result {
    let what = format!("{}. {} of the time.", what_they_are(of, Path::new("")), percent(of.share));
    let walks: Vec<String> = walks(of).iter().map(|walk| format!("<li>{}</li>", Escaped(walk))).collect();
    writeln!(out, "<p>{}</p>\n<ul>{}</ul>", Escaped(&what), walks.concat())
}

/// All orders, with the advised one marked.
fn tried(out: &mut impl Write, of: &LoopRow, advised: Option<&TriedOrderRow>) -> fmt::Result {
    let caption = format!("Orders of the loops around {} that were tried", of.at.as_deref().unwrap_or("it"));
    let rows: Vec<_> = of.tried.iter().map(|row| (row.words(), advised == Some(row), row.time_ratio)).collect();
    tried_table(out, &caption, &rows)
}

/// One for which nothing is advised.
pub(super) fn left_alone(out: &mut impl Write, of: &LoopRow) -> fmt::Result {
    let what = format!("The loops around {}", of.at.as_deref().unwrap_or("a line that is not known"));
    let head = alone(&what, of.share, of.reason.as_deref());
    writeln!(out, "<details class=\"group\">\n<summary>{head}</summary>\n<div class=\"inside\">")?;
    told(out, of)?;
    tried(out, of, None)?;
    writeln!(out, "</div>\n</details>")
}
