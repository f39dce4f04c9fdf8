//! Prefetches.

use std::fmt::{self, Write};
use std::path::Path;

use super::{loops, predicted, tried_table};
use crate::html::page::{self, Escaped};
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
    let id = format!("advice-{number}");
    writeln!(
        out,
        "<article class=\"card\" id=\"{id}\" aria-labelledby=\"{id}-title\">\n<h3 id=\"{id}-title\">{}</h3>",
        Escaped(&advice.title)
    )?;
    predicted(out, report, &advice.predicted)?;
    told(out, of)?;
    for caution in &advice.cautions {
        writeln!(out, "<p class=\"missing\">Mind that {}.</p>", Escaped(caution))?;
    }
    tried(out, of, Some(advice.distance))?;
    writeln!(out, "<h4>At the beginning of each step</h4>")?;
    match &advice.code {
        Some(code) => page::code(out, &advice.title, code)?,
        None => writeln!(out, "<p>{}</p>", Escaped(&advice.how))?,
    }
    writeln!(out, "</article>")
}

fn told(out: &mut impl Write, of: &PrefetchRow) -> fmt::Result {
    let what = format!("{}. {} of the time.", what_it_is(of, Path::new("")), percent(of.share));
    writeln!(out, "<p>{}</p>", Escaped(&what))
}

/// All distances, with the advised one marked.
fn tried(out: &mut impl Write, of: &PrefetchRow, advised: Option<u32>) -> fmt::Result {
    let caption = format!("Distances for {} that were tried, by a part of the accesses", of.data);
    let rows: Vec<_> = of
        .tried
        .iter()
        .map(|row| (format!("{} steps", row.distance), advised == Some(row.distance), row.time_ratio))
        .collect();
    tried_table(out, &caption, &rows)
}

/// One for which nothing is advised.
pub(super) fn left_alone(out: &mut impl Write, of: &PrefetchRow) -> fmt::Result {
    writeln!(
        out,
        "<details class=\"group\">\n<summary><h4>Loads of {}</h4> <span class=\"share\">{}</span> <span class=\"faint\">of the time: {}</span>\
         </summary>\n<div class=\"inside\">",
        Escaped(&of.data),
        percent(of.share),
        Escaped(of.reason.as_deref().unwrap_or_default())
    )?;
    told(out, of)?;
    tried(out, of, None)?;
    writeln!(out, "</div>\n</details>")
}
