//! Layouts that were tried: a card for each that is advised, with its structure before and after; so are orders of loops; then what is left
//! alone, and why.

mod loops;
mod prefetches;

use std::fmt::{self, Write};
use std::path::Path;

use crate::html::affinity::{Together, Used, used_together};
use crate::html::bar;
use crate::html::page::{self, Escaped};
use crate::html::structure_map::legend;
use crate::html::table::{Cell, Column, Table};
use crate::relayout::{
    AdvisedCode, AdvisedRow, LoopRow, PredictedRow, PrefetchRow, RelayoutReport, StructureRow, TriedRow,
};
use crate::structure_map::{Block, Map, What};
use crate::text::gain;
use crate::text::number::{percent, plural};
use crate::text::relayout::inlining;
use crate::text::relayout::prefetches::chase;
use crate::text::relayout::{
    NOTHING, fits, large_pages, layout_words, memory_nodes, method, ratio, replayed, touched, unnamed, what_it_is,
};
use crate::view::{Interval, NewLayout};

/// Most parts of a layout that are drawn.
const MOST_MAPS: usize = 6;

/// What is to be changed, with its number.
fn changes(report: &RelayoutReport) -> impl Iterator<Item = (usize, &StructureRow, &AdvisedRow)> {
    let advised = report.structures.iter().filter_map(|of| Some((of, of.advice.as_ref()?)));
    (1..).zip(advised).map(|(number, (of, advice))| (number, of, advice))
}

/// Titles with what each gains, which lead to the cards.
pub(super) fn titles(out: &mut impl Write, report: &RelayoutReport) -> fmt::Result {
    writeln!(out, "<h3>What to change</h3>")?;
    if let Some(fits) = fits(report) {
        writeln!(out, "<p>{}</p>", Escaped(&fits))?;
    }
    if is_nothing_advised(report) {
        return writeln!(out, "<p>{NOTHING}</p>");
    }
    writeln!(out, "<ul>")?;
    let layouts = changes(report).map(|(number, _, advice)| (number, &advice.title, advice.predicted));
    let codes = loops::changes(report)
        .map(|(number, _, advice)| (number, &advice.change))
        .chain(prefetches::changes(report).map(|(number, _, advice)| (number, &advice.change)));
    for (number, title, predicted) in layouts.chain(codes.map(|(number, of)| (number, &of.title, of.predicted))) {
        let (title, gained) = (Escaped(title), gain(predicted.time_ratio - 1.0));
        writeln!(out, "<li><a href=\"#advice-{number}\">{title}</a>: {gained} run time predicted</li>")?;
    }
    writeln!(out, "</ul>")
}

fn is_nothing_advised(report: &RelayoutReport) -> bool {
    changes(report).next().is_none()
        && loops::changes(report).next().is_none()
        && prefetches::changes(report).next().is_none()
}

pub(super) fn cards(out: &mut impl Write, report: &RelayoutReport) -> fmt::Result {
    writeln!(out, "<p>{}, replayed through {} with each layout.</p>", replayed(report), Escaped(&report.machine))?;
    if report.structures.iter().any(|of| of.fields.len() > 1) {
        legend(out, "the part of the visits of an element that use the field")?;
    }
    if is_nothing_advised(report) {
        writeln!(out, "<p>{NOTHING}</p>")?;
    }
    for (number, of, advice) in changes(report) {
        card(out, report, (number, of, advice))?;
    }
    for (number, of, advice) in loops::changes(report) {
        loops::card(out, (number, of, advice))?;
    }
    for (number, of, advice) in prefetches::changes(report) {
        prefetches::card(out, report, (number, of, advice))?;
    }
    if let Some(together) = report.together.filter(|_| changes(report).count() > 1) {
        let is_all = loops::changes(report).next().is_none() && prefetches::changes(report).next().is_none();
        writeln!(out, "<h3>{}</h3>", if is_all { "All of it" } else { "All layouts" })?;
        predicted(out, report, &together)?;
    }
    if let Some(together) = report.prefetches.together {
        writeln!(out, "<h3>All prefetches</h3>")?;
        predicted(out, report, &together)?;
    }
    if let Some(pages) = report.large_pages {
        writeln!(out, "<h3>Large pages</h3>")?;
        for line in large_pages(report, &pages) {
            writeln!(out, "<p>{}</p>", Escaped(&line))?;
        }
    }
    if let Some(nodes) = &report.memory_nodes {
        writeln!(out, "<h3>Memory nodes</h3>")?;
        for line in memory_nodes::lines(nodes, Path::new("")) {
            writeln!(out, "<p>{}</p>", Escaped(&line))?;
        }
    }
    left_alone(out, report)?;
    writeln!(out, "<p class=\"faint\">{}</p>", method(report))
}

fn begin_card(out: &mut impl Write, number: usize, title: &str) -> fmt::Result {
    let id = format!("advice-{number}");
    writeln!(
        out,
        "<article class=\"card\" id=\"{id}\" aria-labelledby=\"{id}-title\">\n<h3 id=\"{id}-title\">{}</h3>",
        Escaped(title)
    )
}

/// What to write for a change of code, under this heading; ends its card.
fn changed_code(out: &mut impl Write, heading: &str, change: &AdvisedCode) -> fmt::Result {
    writeln!(out, "<h4>{heading}</h4>")?;
    match &change.code {
        Some(code) => page::code(out, &change.title, code)?,
        None => writeln!(out, "<p>{}</p>", Escaped(&change.how))?,
    }
    writeln!(out, "</article>")
}

/// What to mind of a change of code.
fn cautions(out: &mut impl Write, change: &AdvisedCode) -> fmt::Result {
    let mut all = change.cautions.iter();
    all.try_for_each(|caution| writeln!(out, "<p class=\"missing\">Mind that {}.</p>", Escaped(caution)))
}

/// What is left alone, its part of the time, and why.
fn alone(what: &str, share: f64, why: Option<&str>) -> String {
    format!(
        "<h4>{}</h4> <span class=\"share\">{}</span> <span class=\"faint\">of the time: {}</span>",
        Escaped(what),
        Escaped(percent(share)),
        Escaped(why.unwrap_or_default())
    )
}

fn card(
    out: &mut impl Write,
    report: &RelayoutReport,
    (number, of, advice): (usize, &StructureRow, &AdvisedRow),
) -> fmt::Result {
    begin_card(out, number, &advice.title)?;
    predicted(out, report, &advice.predicted)?;
    writeln!(
        out,
        "<p>{}</p>",
        Escaped(&format!("{}. {} of the time.", what_it_is(of, of.allocated_at.as_deref()), percent(of.share)))
    )?;
    if let Some(inlined) = &advice.inlined {
        writeln!(out, "<p>{}</p>", Escaped(&inlining::owned(of, inlined, Path::new(""))))?;
    }
    for caution in &advice.cautions {
        writeln!(out, "<p class=\"missing\">Mind that {}.</p>", Escaped(&caution.seen_from(Path::new(""))))?;
    }
    as_it_is(out, of)?;
    as_advised(out, of, advice)?;
    used_together(out, &together(of))?;
    patterns(out, of)?;
    tried(out, of, Some(&advice.layout))?;
    writeln!(out, "<h4>New definitions</h4>")?;
    page::code(out, &format!("New definitions of {}", of.name), &advice.code)?;
    if !advice.touched_lines.is_empty() {
        let lines: Vec<String> = advice.touched_lines.iter().map(|at| format!("<li>{}</li>", Escaped(at))).collect();
        writeln!(out, "<h4>{}</h4>\n<ul class=\"pairs\">{}</ul>", touched(advice), lines.concat())?;
    }
    writeln!(out, "</article>")
}

fn predicted(out: &mut impl Write, report: &RelayoutReport, row: &PredictedRow) -> fmt::Result {
    predicted_by(out, row, if report.is_whole() { "replay of all accesses" } else { "replay of these accesses" })
}

fn predicted_by(out: &mut impl Write, predicted: &PredictedRow, how: &str) -> fmt::Result {
    let PredictedRow { time_ratio, time_ratio_low, time_ratio_high, first_misses_ratio, memory_lines_ratio } =
        *predicted;
    let ends = Interval { low: time_ratio_low - 1.0, high: time_ratio_high - 1.0 };
    bar::prediction(out, "run time", (time_ratio - 1.0, ends), "")?;
    writeln!(
        out,
        "<dl class=\"terms\"><dt>misses of the first level</dt><dd>{}</dd><dt>lines from memory</dt><dd>{}</dd>\
         <dt>method</dt><dd>{how}</dd></dl>",
        Escaped(ratio(first_misses_ratio)),
        Escaped(ratio(memory_lines_ratio)),
    )
}

/// What a field is, by the part of the visits that use it.
fn what(name: String, used: f64) -> What {
    match used {
        0.0 => What::Unused(name),
        used => What::Used(name, used),
    }
}

/// Whether objects hold several elements.
fn is_array(of: &StructureRow) -> bool {
    of.is_columns || of.objects > 0 && of.object_bytes / of.objects >= 2 * u64::from(of.bytes)
}

/// Nothing where one field is all of it, or it is no structure yet.
fn as_it_is(out: &mut impl Write, of: &StructureRow) -> fmt::Result {
    if of.fields.len() < 2 || of.is_columns {
        return Ok(());
    }
    let fields = of.fields.iter().filter(|field| field.bytes > 0);
    let fields = fields.map(|field| Block {
        offset: field.offset.into(),
        bytes: field.bytes.into(),
        what: what(field.name.clone(), field.used),
    });
    let map = Map::with_holes(of.bytes.into(), fields.collect(), is_array(of));
    map.write(out, &format!("{} as it is, by visits", of.name))
}

fn as_advised(out: &mut impl Write, of: &StructureRow, advice: &AdvisedRow) -> fmt::Result {
    let parts = advice.layouts.len();
    let is_moved_out = advice.layouts.iter().any(|layout| layout.pointer_at.is_some());
    let field_at = |layout: &NewLayout, from: u64| {
        let place = |from: u64| layout.fields.iter().find(|field| field.from == from).map(|field| field.offset);
        // Those that are bits of one byte are one block.
        let there = of.fields.iter().filter(|field| place(field.offset.into()) == place(from));
        let names: Vec<&str> = there.clone().map(|field| field.name.as_str()).collect();
        let hottest = there.max_by(|a, b| a.used.total_cmp(&b.used));
        hottest.map_or(What::Unknown, |hottest| what(names.join(" "), hottest.used))
    };
    for (number, layout) in advice.layouts.iter().take(MOST_MAPS).enumerate() {
        let part = if parts == 1 { String::new() } else { format!(", part {} of {parts}", number + 1) };
        // What is behind a pointer, or in pools, lies side by side.
        let is_array = is_array(of) || advice.layout.is_pool || is_moved_out && layout.pointer_at.is_none();
        Map::of_new(layout, |from| field_at(layout, from), is_array)
            .write(out, &format!("As advised{part}, by visits"))?;
    }
    match parts.saturating_sub(MOST_MAPS) {
        0 => Ok(()),
        more => writeln!(out, "<p class=\"faint\">{} more are in the definitions.</p>", plural(more as u64, "part")),
    }
}

/// Fields that visits use; those of one part of what is advised belong together.
fn together(of: &StructureRow) -> Together<'_> {
    let used = of.fields.iter().filter(|field| field.used > 0.0);
    let offsets = |part: &Vec<String>| {
        let named = part.iter().filter_map(|name| of.fields.iter().find(|field| field.name == *name));
        named.map(|field| field.offset.into()).collect()
    };
    Together {
        of: &of.name,
        fields: used.map(|field| Used { offset: field.offset.into(), name: &field.name, share: field.used }).collect(),
        pairs: of.affinity.iter().map(|pair| (pair.a, pair.b, pair.value)).collect(),
        clusters: of.advice.iter().flat_map(|advice| advice.layout.parts.iter().map(offsets)).collect(),
    }
}

fn patterns(out: &mut impl Write, of: &StructureRow) -> fmt::Result {
    if of.patterns.is_empty() {
        return Ok(());
    }
    let columns = [Column::Text("fields"), Column::Number("visits"), Column::Bar("of all")];
    let caption =
        format!("Which fields {} of its elements use together, most frequent first", plural(of.visits, "visit"));
    let mut table = Table::new(&caption, &columns);
    for pattern in &of.patterns {
        let fields = Cell::long_text(&pattern.fields.join(" "));
        table.row(&[fields, Cell::share(pattern.share), Cell::bar(bar::filled(pattern.share))]);
    }
    table.write(out)
}

/// All layouts, with the advised one marked.
fn tried(out: &mut impl Write, of: &StructureRow, advised: Option<&TriedRow>) -> fmt::Result {
    if of.tried.is_empty() {
        return Ok(());
    }
    let columns = [
        Column::Text("tried"),
        Column::Number("time"),
        Column::Bar("what is left of it"),
        Column::Text("bytes of its parts"),
        Column::Text("parts"),
    ];
    let caption = format!("Layouts of {} that were tried, by a part of the accesses", of.name);
    let most = of.tried.iter().map(|row| row.time_ratio).fold(1.0, f64::max);
    let mut table = Table::searched(&caption, &columns);
    for row in &of.tried {
        let [change, sizes, parts] = layout_words(row);
        let mark = if advised.is_some_and(|advised| row.is(advised)) { " (advised)" } else { "" };
        table.row(&[
            Cell::text(&format!("{change}{mark}")),
            Cell::number(&gain(row.time_ratio - 1.0), row.time_ratio),
            Cell::bar(bar::filled(row.time_ratio / most)),
            Cell::long_text(&sizes),
            Cell::long_text(&parts),
        ]);
    }
    table.write(out)
}

/// What was tried of something that has no parts, whether it is advised, and the run time by that of the program as it is.
fn tried_table(out: &mut impl Write, caption: &str, rows: &[(String, bool, f64)]) -> fmt::Result {
    if rows.is_empty() {
        return Ok(());
    }
    let columns = [Column::Text("tried"), Column::Number("time"), Column::Bar("what is left of it")];
    let most = rows.iter().map(|(.., ratio)| *ratio).fold(1.0, f64::max);
    let mut table = Table::new(caption, &columns);
    for (what, is_advised, ratio) in rows {
        let mark = if *is_advised { " (advised)" } else { "" };
        table.row(&[
            Cell::text(&format!("{what}{mark}")),
            Cell::number(&gain(ratio - 1.0), *ratio),
            Cell::bar(bar::filled(ratio / most)),
        ]);
    }
    table.write(out)
}

fn left_alone(out: &mut impl Write, report: &RelayoutReport) -> fmt::Result {
    let others: Vec<&StructureRow> = report.structures.iter().filter(|of| of.advice.is_none()).collect();
    let other_loops: Vec<&LoopRow> = report.loops.iter().filter(|of| of.advice.is_none()).collect();
    let other_loads: Vec<&PrefetchRow> = report.prefetches.loads.iter().filter(|of| of.advice.is_none()).collect();
    let unnamed = unnamed(report, str::to_owned);
    let has_pointers = report.kept_pointers().next().is_some();
    let has_others = has_pointers || !others.is_empty() || !other_loops.is_empty() || !other_loads.is_empty();
    if !has_others && report.prefetches.chase.is_none() && unnamed.is_empty() {
        return Ok(());
    }
    writeln!(out, "<h3>Leave alone</h3>")?;
    for of in others {
        let head = alone(&of.name, of.share, of.reason.as_deref());
        if of.fields.len() < 2 && of.tried.is_empty() {
            writeln!(out, "<div class=\"group\">{head}</div>")?;
            continue;
        }
        writeln!(out, "<details class=\"group\">\n<summary>{head}</summary>\n<div class=\"inside\">")?;
        writeln!(out, "<p>{}</p>", Escaped(&what_it_is(of, of.allocated_at.as_deref())))?;
        as_it_is(out, of)?;
        used_together(out, &together(of))?;
        patterns(out, of)?;
        tried(out, of, None)?;
        writeln!(out, "</div>\n</details>")?;
    }
    for (of, row) in report.kept_pointers() {
        writeln!(out, "<p>{}</p>", Escaped(&inlining::left_alone(of, row)))?;
    }
    other_loops.into_iter().try_for_each(|of| loops::left_alone(out, of))?;
    other_loads.into_iter().try_for_each(|of| prefetches::left_alone(out, of))?;
    if let Some(of) = &report.prefetches.chase {
        writeln!(out, "<p>{}</p>", Escaped(&chase(of, Path::new(""))))?;
    }
    writeln!(out, "<dl class=\"alone\">")?;
    for (share, what, why) in unnamed {
        let (what, why) = (Escaped(&what), Escaped(&why));
        writeln!(out, "<div><dt>{what}, {} of the time</dt><dd>{why}</dd></div>", Escaped(percent(share)))?;
    }
    writeln!(out, "</dl>")
}
