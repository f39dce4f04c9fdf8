//! What was run and how it was recorded, what was lost and not seen, and where the time went.

use std::fmt::{self, Write};

use super::{Page, data};
use crate::html::bar;
use crate::html::page::{self, Escaped};
use crate::html::table::{Cell, Column, Table};
use crate::text::number::{count, duration, percent};
use crate::text::{Limits, head, more, quality};
use crate::view::{MissingUse, Session};

/// What a reader looks for first.
pub(super) fn figures(out: &mut impl Write, session: &Session) -> fmt::Result {
    let mut figures = vec![
        ("ran", duration(session.duration_ns)),
        ("ended", session.ended.clone()),
        ("processes", count(session.processes)),
        ("threads", count(session.threads)),
        ("samples", count(session.samples)),
    ];
    if session.accesses > 0 {
        figures.push(("accesses seen", count(session.accesses)));
    }
    page::figures(out, &figures)
}

pub(super) fn overview(out: &mut impl Write, page: &Page<'_>) -> fmt::Result {
    let session = &page.report.session;
    if session.samples > 0 {
        shares(out, page)?;
    }
    writeln!(out, "<h3>How it was recorded</h3>\n<dl class=\"terms\">")?;
    for (label, value) in head::rows(session, true) {
        writeln!(out, "<dt>{label}</dt><dd>{}</dd>", Escaped(&value))?;
    }
    writeln!(out, "</dl>")?;
    if session.samples > 0 { resolved(out, page) } else { Ok(()) }
}

fn shares(out: &mut impl Write, page: &Page<'_>) -> fmt::Result {
    let cost = page.cost;
    writeln!(out, "<h3>Where the {cost} goes</h3>")?;
    let known = page.report.groups.iter().filter(|group| group.id != 0 && group.share > 0.0);
    let known: Vec<(String, f64)> = known.map(|group| (data::name_and_kind(group), group.share)).collect();
    let unattributed = page.report.groups.iter().filter(|group| group.id == 0).map(|group| group.share).sum();
    bar::of_data(out, &format!("Shares of the {cost}"), &known, ("unattributed", unattributed))
}

/// How much is resolved, and why the rest is not.
fn resolved(out: &mut impl Write, page: &Page<'_>) -> fmt::Result {
    /// Reasons that are told; the JSON has all.
    const MOST_REASONS: usize = 20;
    let coverage = &page.report.coverage;
    writeln!(out, "<details>\n<summary><h3>How much is resolved, and why not the rest</h3></summary>\n<ul>")?;
    for (share, words) in quality::shares(coverage, page.cost) {
        writeln!(out, "<li>{}</li>", Escaped(format_args!("{share} {words}")))?;
    }
    writeln!(out, "</ul>")?;
    if !coverage.missing.is_empty() {
        let columns = [
            Column::Text("lacks"),
            Column::Text("why"),
            Column::Number(page.cost),
            Column::Text("function"),
            Column::Text("place"),
            Column::Text("data"),
        ];
        let mut table = Table::new("Not resolved, with where that is met most", &columns);
        let shown = &coverage.missing[..coverage.missing.len().min(MOST_REASONS)];
        for row in shown {
            let why = quality::words(&row.what, &row.reason);
            let [function, place, group] = [(); 3].map(|()| Cell::default());
            table.row(&[Cell::text(&row.what), Cell::text(why), Cell::share(row.share), function, place, group]);
            for MissingUse { function, place, group, share, .. } in &row.examples {
                let cells = [function, place, group].map(|text| Cell::long_text(text));
                let [what, why] = [(); 2].map(|()| Cell::default());
                let [function, place, group] = cells;
                table.row(&[what, why, Cell::share(*share), function, place, group]);
            }
        }
        table.write_unsorted(out)?;
        let rest = &coverage.missing[shown.len()..];
        if !rest.is_empty() {
            writeln!(out, "<p class=\"faint\">{}</p>", Escaped(more(rest.iter().map(|row| row.share))))?;
        }
    }
    let floor = Escaped(percent(Limits::default().floor(&page.report.session)));
    writeln!(out, "<p class=\"faint\">Data below {floor} of the {} has no section here.</p>\n</details>", page.cost)
}
