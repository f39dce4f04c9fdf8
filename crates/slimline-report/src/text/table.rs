//! Tables that align in [`WIDTH`](super::WIDTH) columns, or in those that a terminal has beyond.

use std::fmt::{self, Write};

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};

use super::{DIM, Limits, WIDTH};

/// How a column is laid out.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Column<'a> {
    /// Text, to the left, as wide as its content.
    Text(&'a str),
    /// Text, to the left, at most so many columns; longer text loses its middle.
    Shortened(&'a str, usize),
    /// Numbers, to the right.
    Number(&'a str),
}

impl<'a> Column<'a> {
    /// What stands above it.
    pub(crate) fn heading(self) -> &'a str {
        match self {
            Self::Text(heading) | Self::Shortened(heading, _) | Self::Number(heading) => heading,
        }
    }
}

/// A table that is filled row by row, then written.
pub(super) struct Rows<'a> {
    columns: Vec<Column<'a>>,
    rows: Vec<Vec<String>>,
    /// Whether nothing is cut.
    wide: bool,
    /// Of the page.
    width: usize,
}

/// Blanks between columns.
const GAP: usize = 2;
/// What a name keeps of its columns, where numbers need the page.
const LEAST_NAME: usize = 12;

impl<'a> Rows<'a> {
    pub(super) fn new(columns: &[Column<'a>], wide: bool) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new(), wide, width: WIDTH }
    }

    /// On the page that `limits` tells: what it has beyond [`WIDTH`] columns, those that are shortened get.
    pub(super) fn on_page(columns: &[Column<'a>], limits: Limits) -> Self {
        let shortened = columns.iter().filter(|column| matches!(column, Column::Shortened(..))).count();
        let more = limits.width.saturating_sub(WIDTH) / shortened.max(1);
        let widened = columns.iter().map(|column| match *column {
            Column::Shortened(name, width) => Column::Shortened(name, width.saturating_add(more)),
            column => column,
        });
        Self { width: limits.width.max(WIDTH), ..Self::new(&widened.collect::<Vec<_>>(), limits.wide) }
    }

    pub(super) fn push(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.columns.len());
        self.rows.push(cells);
    }

    /// Columns that each column takes. Where the last number would be beyond the page, names give way, the widest first; what follows it
    /// is cut.
    fn widths(&self, indent: usize) -> Vec<usize> {
        let cells = |column: usize| self.rows.iter().map(move |row| row[column].chars().count()).max().unwrap_or(0);
        let width = |(number, column): (usize, &Column<'a>)| match *column {
            Column::Text(name) | Column::Number(name) => cells(number).max(name.chars().count()),
            Column::Shortened(name, _) if self.wide => cells(number).max(name.chars().count()),
            Column::Shortened(name, most) => cells(number).min(most).max(name.chars().count()),
        };
        let mut widths: Vec<usize> = self.columns.iter().enumerate().map(width).collect();
        let is_number = |column: &Column<'a>| matches!(column, Column::Number(_));
        let numbers_end = self.columns.iter().rposition(is_number).map_or(0, |last| last + 1);
        let end = |widths: &[usize]| indent + widths[..numbers_end].iter().map(|width| width + GAP).sum::<usize>();
        while !self.wide && end(&widths) > self.width + GAP {
            let columns = widths[..numbers_end].iter_mut().zip(&self.columns);
            let names = columns.filter(|(width, column)| match column {
                Column::Shortened(name, _) => **width > LEAST_NAME.max(name.chars().count()),
                Column::Text(_) | Column::Number(_) => false,
            });
            match names.map(|(width, _)| width).max() {
                Some(widest) => *widest -= 1,
                None => break,
            }
        }
        widths
    }

    /// Writes the table, each line behind `indent` blanks and, unless it is wide, cut at the width of the page.
    pub(super) fn write(&self, out: &mut impl Write, indent: usize) -> fmt::Result {
        let widths = self.widths(indent);
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(self.columns.iter().map(|column| match column {
            Column::Text(name) | Column::Shortened(name, _) => Cell::new(name),
            Column::Number(name) => Cell::new(name).set_alignment(CellAlignment::Right),
        }));
        table.column_iter_mut().for_each(|column| _ = column.set_padding((0, GAP as u16)));
        for row in &self.rows {
            table.add_row(row.iter().zip(self.columns.iter().zip(&widths)).map(
                |(text, (column, width))| match column {
                    Column::Text(_) => Cell::new(text),
                    Column::Shortened(..) if self.wide => Cell::new(text),
                    Column::Shortened(..) => Cell::new(shorten_callers(text, *width)),
                    Column::Number(_) => Cell::new(text).set_alignment(CellAlignment::Right),
                },
            ));
        }
        for (number, line) in table.lines().enumerate() {
            let width = if self.wide { usize::MAX } else { self.width - indent };
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
pub(crate) fn shorten(text: &str, width: usize) -> String {
    let length = text.chars().count();
    if length <= width {
        return text.to_owned();
    }
    let tail = width.saturating_sub(1) / 2;
    let head = width.saturating_sub(1) - tail;
    text.chars().take(head).chain(['…']).chain(text.chars().skip(length - tail)).collect()
}

/// `name, file.c:7 < inner < outer`: of callers the innermost tell most, so the outer ones are cut, and of what they call for no more
/// than half of the width is kept.
pub(crate) fn shorten_callers(text: &str, width: usize) -> String {
    let Some((called, callers)) = text.find(" < ").map(|at| text.split_at(at)) else { return shorten(text, width) };
    let rest = width.saturating_sub(callers.chars().count());
    let called = shorten(called, rest.max(width / 2));
    shorten_end(&(called + callers), width)
}

/// What the end says is said elsewhere, too: `art.c:607-608 art.c:…`.
pub(crate) fn shorten_end(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width - 1).chain(['…']).collect()
}

/// The directory matters less than the file: `…/src/art.c`.
pub(crate) fn shorten_path(path: &str, width: usize) -> String {
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
    fn names_get_what_a_page_has_beyond_its_usual_width() {
        let name = "a_name_of_thirty_columns_or_so";
        let shown = |limits: Limits| {
            let mut rows = Rows::on_page(&[Column::Shortened("data", 10), Column::Shortened("field", 10)], limits);
            rows.push(vec![name.to_owned(), name.to_owned()]);
            let mut out = String::new();
            rows.write(&mut out, 2).unwrap();
            out.lines().last().unwrap().to_owned()
        };
        assert_eq!(shown(Limits::default()), "  a_nam…r_so  a_nam…r_so");
        assert_eq!(shown(Limits { width: 110, ..Limits::default() }), "  a_name_…s_or_so  a_name_…s_or_so");
        assert_eq!(shown(Limits { width: 200, ..Limits::default() }), format!("  {name}  {name}"));
    }

    #[test]
    fn names_give_way_to_numbers() {
        let columns = [Column::Shortened("at", 60), Column::Shortened("of", 50), Column::Number("bytes")];
        let mut rows = Rows::on_page(&columns, Limits::default());
        rows.push(vec!["a".repeat(60), "b".repeat(30), "123,456,789".to_owned()]);
        let mut out = String::new();
        rows.write(&mut out, 2).unwrap();
        let line = out.lines().last().unwrap();
        assert!(line.chars().count() == WIDTH && line.ends_with("  123,456,789"), "{line}");
        assert!(line.contains(&"b".repeat(30)), "only the widest is shortened: {line}");
        // What stands behind the numbers is cut at the page's end, however wide it is.
        let columns = [columns[0], columns[2], Column::Shortened("last", 80)];
        let mut rows = Rows::on_page(&columns, Limits::default());
        rows.push(vec!["a".repeat(60), "1".repeat(40), "c".repeat(80)]);
        assert_eq!(rows.widths(2), [56, 40, 80]);
    }

    #[test]
    fn long_text_keeps_its_ends() {
        assert_eq!(shorten("abcdefghij", 10), "abcdefghij");
        assert_eq!(shorten("abcdefghijk", 10), "abcde…hijk");
        assert_eq!(shorten("äöüäöüäöü", 5), "äö…öü");
        assert_eq!(shorten_path("/usr/src/art.c", 8), "…c/art.c");
    }

    #[test]
    fn inner_callers_stay() {
        assert_eq!(shorten_callers("abcdefghij", 5), "ab…ij");
        let text = "all, list.c:17 take < make < main";
        assert_eq!(shorten_callers(text, 40), text);
        assert_eq!(shorten_callers(text, 30), "all, lis…17 take < make < main");
        assert_eq!(shorten_callers(text, 20), "all, …take < make <…");
        assert_eq!(shorten_callers("a < b < c < d < e", 12), "a < b < c <…");
    }
}
