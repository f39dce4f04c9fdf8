//! Types as declared, as a table.

use std::fmt::{self, Write};

use slimline_trace::escape::plain;

use super::number::{count, plural};
use super::table::{Column, Rows, shorten_path};
use super::{Limits, file_name};
use crate::declared_layouts::{LayoutsReport, TypeLayout};

/// Columns of a place in the source.
const PLACE_COLUMNS: usize = 24;

/// Writes a row for each type, and below what was left out or is missing.
///
/// # Errors
/// As `out`.
pub fn declared_layouts(out: &mut impl Write, report: &LayoutsReport, limits: Limits) -> fmt::Result {
    let columns = [
        Column::Number("size"),
        Column::Number("align"),
        Column::Number("lines"),
        Column::Number("holes"),
        Column::Number("bytes"),
        Column::Number("padding"),
        Column::Number("crossing"),
        Column::Shortened("type", 36),
        Column::Shortened("declared", PLACE_COLUMNS),
    ];
    let mut rows = Rows::on_page(&columns, limits);
    let shown = &report.types[..report.types.len().min(limits.rows)];
    for layout in shown {
        let TypeLayout { bytes, alignment, lines, holes, hole_bytes, padding_bytes, crossings, .. } = layout;
        let numbers = [*bytes, *alignment, *lines, *holes, *hole_bytes, *padding_bytes, crossings.len() as u64];
        let mut cells: Vec<String> = numbers.iter().map(|number| count(*number)).collect();
        // The size is a fact, all else is worth a look only where there is some.
        cells[3..].iter_mut().filter(|cell| *cell == "0").for_each(String::clear);
        if layout.lacks_virtual_bases {
            cells[5] = "?".to_owned();
        }
        cells.push(plain(&layout.name));
        let place = layout.declared_at.as_ref().map(|at| format!("{}:{}", file_name(&at.file), at.line));
        cells.push(shorten_path(&place.unwrap_or_default(), PLACE_COLUMNS));
        rows.push(cells);
    }
    if !shown.is_empty() {
        rows.write(out, 0)?;
    }
    let of = match report.files.as_slice() {
        [file] => format!("{} ({})", plain(&file.path), plural(u64::from(file.units), "unit")),
        files => plural(files.len() as u64, "file"),
    };
    let types = plural(report.types.len() as u64, "type");
    let mut told = vec![format!("{types} of {of}")];
    let more = report.types.len() - shown.len();
    if more > 0 {
        told.push(format!("{} of them not shown (--rows)", count(more as u64)));
    }
    if report.left_out > 0 {
        told.push(format!("{} of libraries left out (--all)", count(report.left_out)));
    }
    writeln!(out, "{}", told.join(", "))?;
    let ambiguous = report.ambiguous_names();
    if ambiguous > 0 {
        let names = if ambiguous == 1 { "1 name is".to_owned() } else { format!("{} names are", count(ambiguous)) };
        writeln!(out, "{names} of several types: with another layout, or declared elsewhere")?;
    }
    if shown.iter().any(|layout| layout.lacks_virtual_bases) {
        writeln!(out, "?: where virtual bases lie is told by no virtual table of this type")?;
    }
    for file in &report.files {
        for missing in &file.missing {
            writeln!(out, "Missing: {}: {}", plain(&file.path), plain(missing))?;
        }
    }
    Ok(())
}
