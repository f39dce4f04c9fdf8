//! Orders of loops.

use std::fmt::{self, Write};
use std::path::Path;

use super::{changes as layouts, predicted_by, tried_table};
use crate::html::page::{self, Escaped};
use crate::relayout::{AdvisedLoops, LoopRow, RelayoutReport, TriedOrderRow};
use crate::text::number::percent;
use crate::text::relayout::loops::{BY, walks, what_they_are};

/// What is to be changed, with its number, behind all layouts.
pub(super) fn changes(report: &RelayoutReport) -> impl Iterator<Item = (usize, &LoopRow, &AdvisedLoops)> {
    let advised = report.loops.iter().filter_map(|of| Some((of, of.advice.as_ref()?)));
    (layouts(report).count() + 1..).zip(advised).map(|(number, (of, advice))| (number, of, advice))
}

pub(super) fn card(out: &mut impl Write, (number, of, advice): (usize, &LoopRow, &AdvisedLoops)) -> fmt::Result {
    let id = format!("advice-{number}");
    writeln!(
        out,
        "<article class=\"card\" id=\"{id}\" aria-labelledby=\"{id}-title\">\n<h3 id=\"{id}-title\">{}</h3>",
        Escaped(&advice.title)
    )?;
    predicted_by(out, &advice.predicted, BY)?;
    told(out, of)?;
    for caution in &advice.cautions {
        writeln!(out, "<p class=\"missing\">Mind that {}.</p>", Escaped(caution))?;
    }
    tried(out, of, Some(&advice.order))?;
    writeln!(out, "<h4>Loops in that order</h4>")?;
    match &advice.code {
        Some(code) => page::code(out, &advice.title, code)?,
        None => writeln!(out, "<p>{}</p>", Escaped(&advice.how))?,
    }
    writeln!(out, "</article>")
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
    writeln!(
        out,
        "<details class=\"group\">\n<summary><h4>The loops around {}</h4> <span class=\"share\">{}</span> <span class=\"faint\">of the time: {}</span>\
         </summary>\n<div class=\"inside\">",
        Escaped(of.at.as_deref().unwrap_or("a line that is not known")),
        percent(of.share),
        Escaped(of.reason.as_deref().unwrap_or_default())
    )?;
    told(out, of)?;
    tried(out, of, None)?;
    writeln!(out, "</div>\n</details>")
}
