//! The same weight by loop, function, line, type and thread.

use std::fmt::{self, Write};

use super::{Page, data};
use crate::html::bar;
use crate::html::page::Escaped;
use crate::html::table::{Cell, Column, Table};
use crate::text::number::{RANGE, percent};
use crate::text::{Limits, lines, touched};
use crate::view::{Loop, Row};

/// What rows of a breakdown are called, and their details.
struct Names {
    heading: &'static str,
    row: &'static str,
    detail: &'static str,
}

pub(super) fn breakdowns(out: &mut impl Write, page: &Page<'_>) -> fmt::Result {
    loops(out, page)?;
    let breakdowns = &page.report.breakdowns;
    let of = |heading, row, detail| Names { heading, row, detail };
    for (names, rows) in [
        (of("Functions", "function", "module"), &breakdowns.functions),
        (of("Lines", "line", "module"), &breakdowns.lines),
        (of("Types", "type", ""), &breakdowns.types),
        (of("Threads", "thread", "name"), &breakdowns.threads),
    ] {
        if !rows.is_empty() {
            breakdown(out, page, &names, rows)?;
        }
    }
    Ok(())
}

fn loops(out: &mut impl Write, page: &Page<'_>) -> fmt::Result {
    if page.report.loops.is_empty() {
        return Ok(());
    }
    writeln!(out, "<h3>Loops</h3>")?;
    let columns = [
        Column::Text("function"),
        Column::Text("lines"),
        Column::Number(page.cost),
        Column::Bar("95 % interval"),
        Column::Number(RANGE),
        Column::Number("computing"),
        Column::Number("depth"),
        Column::Text("touches"),
    ];
    let caption = format!("Loops by their share of the {}, with the data that they touch", page.cost);
    let mut table = Table::searched(&caption, &columns);
    for found in &page.report.loops {
        let data = touched(page.report, found, Limits::default());
        table.row(&[
            Cell::long_text(&found.function),
            Cell::text(&lines(found)).titled(&place(found)),
            Cell::share(found.share),
            Cell::bar(bar::interval(found.share, found.share_interval)),
            data::interval(found.share_interval),
            Cell::share(found.no_memory_share),
            Cell::count(found.depth.into()),
            Cell::long_text(&data),
        ]);
    }
    table.write(out)?;
    let outside = 1.0 - page.report.loops.iter().map(|found| found.share).sum::<f64>();
    if outside > 0.0 {
        writeln!(
            out,
            "<p class=\"faint\">{} of the {} is outside of all loops.</p>",
            Escaped(percent(outside)),
            page.cost
        )?;
    }
    Ok(())
}

/// The whole path of its file, or of its module.
fn place(found: &Loop) -> String {
    format!("{} in {}", lines(found), found.file.as_deref().unwrap_or(&found.module_path))
}

fn breakdown(out: &mut impl Write, page: &Page<'_>, names: &Names, rows: &[Row]) -> fmt::Result {
    let Names { heading, row, detail } = *names;
    writeln!(out, "<h3>{heading}</h3>")?;
    let columns = [
        Column::Text(row),
        Column::Text(detail),
        Column::Number(page.cost),
        Column::Bar("95 % interval"),
        Column::Number(RANGE),
        Column::Number("samples"),
    ];
    // Where none has a detail there is no column of it.
    let has_detail = rows.iter().any(|row| !row.detail.is_empty());
    let columns: Vec<Column<'_>> = columns
        .into_iter()
        .enumerate()
        .filter(|(place, _)| *place != 1 || has_detail)
        .map(|(_, column)| column)
        .collect();
    let caption = format!("{heading} by their share of the {}", page.cost);
    let mut table = Table::searched(&caption, &columns);
    for row in rows {
        let mut cells = vec![Cell::long_text(&row.name)];
        cells.extend(has_detail.then(|| Cell::text(&row.detail)));
        cells.extend([
            Cell::share(row.share),
            Cell::bar(bar::interval(row.share, row.share_interval)),
            data::interval(row.share_interval),
            Cell::count(row.samples),
        ]);
        table.row(&cells);
    }
    table.write(out)
}
