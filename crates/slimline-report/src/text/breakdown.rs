//! The session's weight by type, line, function or thread.

use std::fmt::{self, Write};

use slimline_trace::escape::plain;

use super::number::{RANGE, count, percent, range};
use super::table::{Column, Rows, shorten, shorten_path};
use super::{Limits, heading, more};
use crate::view::Row;

pub(super) fn write(
    out: &mut impl Write,
    title: &str,
    rows: &[Row],
    cost: &'static str,
    floor: f64,
    limits: Limits,
) -> fmt::Result {
    heading(out, title)?;
    let mut table = Rows::on_page(&columns(cost), limits);
    let shown = rows.iter().take(limits.rows).take_while(|row| row.share >= floor);
    let mut written = 0;
    for row in shown {
        let mut cells = cells(row);
        // Of a path the end tells most, of a function or a type both ends.
        let shortened: fn(&str, usize) -> String = if title == "LINES" { shorten_path } else { shorten };
        cells[3] = shortened(&cells[3], limits.columns(limits.width - 52));
        table.push(cells);
        written += 1;
    }
    let rest: f64 = rows[written..].iter().map(|row| row.share).sum();
    if written < rows.len() {
        let samples = rows[written..].iter().map(|row| row.samples).sum();
        let more = more(rows[written..].iter().map(|row| row.share));
        table.push(vec![percent(rest), String::new(), count(samples), more, String::new()]);
    }
    table.write(out, 2)
}

/// Columns of [`cells`].
pub(crate) fn columns(cost: &'static str) -> [Column<'static>; 5] {
    [Column::Number(cost), Column::Number(RANGE), Column::Number("samples"), Column::Text(""), Column::Text("")]
}

/// A row of a breakdown: its name and its detail last.
pub(crate) fn cells(row: &Row) -> Vec<String> {
    vec![percent(row.share), range(row.share_interval), count(row.samples), plain(&row.name), plain(&row.detail)]
}
