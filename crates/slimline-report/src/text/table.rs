//! Tables that align in [`WIDTH`](super::WIDTH) columns.

use std::fmt::{self, Write};

use comfy_table::{Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};

use super::{DIM, WIDTH};

/// How a column is laid out.
#[derive(Clone, Copy)]
pub(super) enum Column<'a> {
    /// Text, to the left, as wide as its content.
    Text(&'a str),
    /// Text, to the left, at most so many columns; longer text loses its middle.
    Shortened(&'a str, usize),
    /// Numbers, to the right.
    Number(&'a str),
}

/// A table that is filled row by row, then written.
pub(super) struct Rows<'a> {
    columns: Vec<Column<'a>>,
    table: Table,
    /// Whether nothing is cut.
    wide: bool,
}

impl<'a> Rows<'a> {
    pub(super) fn new(columns: &[Column<'a>], wide: bool) -> Self {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(columns.iter().map(|column| match column {
            Column::Text(name) | Column::Shortened(name, _) => Cell::new(name),
            Column::Number(name) => Cell::new(name).set_alignment(CellAlignment::Right),
        }));
        for (column, kind) in table.column_iter_mut().zip(columns) {
            column.set_padding((0, 2));
            if let (Column::Shortened(_, width), false) = (kind, wide) {
                column.set_constraint(ColumnConstraint::UpperBoundary(Width::Fixed(*width as u16 + 2)));
            }
        }
        Self { columns: columns.to_vec(), table, wide }
    }

    pub(super) fn push(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.table.add_row(cells.into_iter().zip(&self.columns).map(|(text, column)| match column {
            Column::Text(_) => Cell::new(text),
            Column::Shortened(..) if self.wide => Cell::new(text),
            Column::Shortened(_, width) => Cell::new(shorten(&text, *width)),
            Column::Number(_) => Cell::new(text).set_alignment(CellAlignment::Right),
        }));
    }

    /// Writes the table, each line behind `indent` blanks and, unless it is wide, cut at the width of the page.
    pub(super) fn write(&self, out: &mut impl Write, indent: usize) -> fmt::Result {
        for (number, line) in self.table.lines().enumerate() {
            let width = if self.wide { usize::MAX } else { WIDTH - indent };
            let line = shorten_end(line.trim_end(), width);
            if number == 0 {
                writeln!(out, "{:indent$}{DIM}{line}{DIM:#}", "")?;
            } else {
                writeln!(out, "{:indent$}{line}", "")?;
            }
        }
        Ok(())
    }
}

/// `std::vector<…>::push_back`: the ends of a long name tell more than its middle.
pub(super) fn shorten(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let tail = width.saturating_sub(1) / 2;
    let head = width.saturating_sub(1) - tail;
    text.chars().take(head).chain(['…']).chain(text.chars().skip(length - tail)).collect()
}

/// What the end says is said elsewhere, too: `art.c:607-608 art.c:…`.
pub(crate) fn shorten_end(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width - 1).chain(['…']).collect()
}

/// The directory matters less than the file: `…/src/art.c`.
pub(super) fn shorten_path(path: &str, width: usize) -> String {
    let length = path.chars().count();
    if length <= width {
        return path.to_owned();
    }
    ['…'].into_iter().chain(path.chars().skip(length - (width - 1))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_keeps_its_ends() {
        assert_eq!(shorten("abcdefghij", 10), "abcdefghij");
        assert_eq!(shorten("abcdefghijk", 10), "abcde…hijk");
        assert_eq!(shorten("äöüäöüäöü", 5), "äö…öü");
        assert_eq!(shorten_path("/usr/src/art.c", 8), "…c/art.c");
    }
}
