//! What was run and how it was recorded, what was lost and not seen, and where the time went.

use std::fmt::{self, Write};

use super::{Page, data};
use crate::html::bar::{self, Part, TONES};
use crate::html::page::Escaped;
use crate::html::table::{Cell, Column, Table};
use crate::text::number::{count, duration, percent};
use crate::text::{Limits, head, more, quality};
use crate::view::{Group, MissingUse, Session};

/// Most data structures that are parts of the bar, and the share of the smallest.
const PARTS: usize = 8;
const LEAST_PART: f64 = 0.01;

/// What a reader looks for first.
pub(super) fn figures(out: &mut impl Write, session: &Session) -> fmt::Result {
    writeln!(out, "<dl class=\"figures\">")?;
    let mut figure = |term: &str, shown: &str| writeln!(out, "<div><dt>{term}</dt><dd>{}</dd></div>", Escaped(shown));
    figure("ran", &duration(session.duration_ns))?;
    figure("ended", &session.ended)?;
    figure("processes", &count(session.processes))?;
    figure("threads", &count(session.threads))?;
    figure("samples", &count(session.samples))?;
    if session.accesses > 0 {
        figure("accesses seen", &count(session.accesses))?;
    }
    writeln!(out, "</dl>")
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
    let known: Vec<&Group> = page.report.groups.iter().filter(|group| group.id != 0 && group.share > 0.0).collect();
    let told = known.iter().take(PARTS).take_while(|group| group.share >= LEAST_PART).count();
    let part = |class, name: String, share| Part { class, name, share };
    let mut parts: Vec<Part> = known[..told]
        .iter()
        .zip(TONES)
        .map(|(group, class)| part(class, data::name_and_kind(group), group.share))
        .collect();
    let rest = &known[told..];
    let rest_share: f64 = rest.iter().map(|group| group.share).sum();
    if rest_share > 0.0 {
        parts.push(part("more", format!("{} more", count(rest.len() as u64)), rest_share));
    }
    let unattributed = page.report.groups.iter().filter(|group| group.id == 0).map(|group| group.share).sum();
    parts.push(part("outside", "unattributed".to_owned(), unattributed));
    writeln!(out, "{}", bar::large(&format!("Shares of the {cost}"), &parts))?;
    let shown = parts.iter().map(|part| (part.class, format!("{} {}", part.name, percent(part.share))));
    let shown: Vec<(&str, String)> = shown.collect();
    let named: Vec<(&str, &str)> = shown.iter().map(|(class, name)| (*class, name.as_str())).collect();
    out.write_str(&bar::legend(&named))
}

/// How much is resolved, and why the rest is not.
fn resolved(out: &mut impl Write, page: &Page<'_>) -> fmt::Result {
    /// Reasons that are told; the JSON has all.
    const MOST_REASONS: usize = 20;
    let coverage = &page.report.coverage;
    writeln!(out, "<details>\n<summary><h3>How much is resolved, and why not the rest</h3></summary>\n<ul>")?;
    for (share, words) in quality::shares(coverage, page.cost) {
        writeln!(out, "<li>{share} {words}</li>")?;
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
            writeln!(out, "<p class=\"faint\">{}</p>", more(rest.iter().map(|row| row.share)))?;
        }
    }
    let floor = percent(Limits::default().floor(&page.report.session));
    writeln!(out, "<p class=\"faint\">Data below {floor} of the {} has no section here.</p>\n</details>", page.cost)
}
