//! Tables: with a caption, heads of columns and rows, and the exact numbers that they are sorted by.

use std::fmt::{self, Display, Write};

use serde_json::{Value, json};

use super::page::Escaped;
use crate::text::number::{bytes, count, duration, percent};

/// What a column holds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Column<'a> {
    Text(&'a str),
    /// Largest first, where it is asked to be sorted.
    Number(&'a str),
    /// A picture of what other columns say: it is not sorted by.
    Bar(&'a str),
}

/// What is in a row of a column.
#[derive(Clone, Debug, Default)]
pub(super) struct Cell {
    markup: String,
    /// What it is sorted by, where that is not its text.
    exact: Option<String>,
    title: Option<String>,
}

impl Cell {
    pub(super) fn text(text: &str) -> Self {
        Self { markup: Escaped(text).to_string(), ..Self::default() }
    }

    /// Text that may be longer than what is shown of it: then it is told in full where it is pointed at.
    pub(super) fn long_text(text: &str) -> Self {
        /// Shorter text is never cut.
        const SHOWN: usize = 28;
        let cell = Self::text(text);
        if text.chars().count() > SHOWN { cell.titled(text) } else { cell }
    }

    /// What does not apply: behind all else in either order.
    pub(super) fn nothing() -> Self {
        Self::text("–")
    }

    /// A number as it is read, and exactly.
    pub(super) fn number(shown: &str, exact: impl Display) -> Self {
        Self { exact: Some(exact.to_string()), ..Self::text(shown) }
    }

    pub(super) fn count(n: u64) -> Self {
        Self::number(&count(n), n)
    }

    pub(super) fn bytes(n: u64) -> Self {
        Self::number(&bytes(n), n).titled(&format!("{} bytes", count(n)))
    }

    pub(super) fn share(share: f64) -> Self {
        Self::number(&percent(share), share)
    }

    /// A time in the unit that suits it.
    pub(super) fn duration(ns: u64) -> Self {
        Self::time(&duration(ns), ns)
    }

    /// A time as it is read.
    pub(super) fn time(shown: &str, ns: u64) -> Self {
        Self::number(shown, ns).titled(&format!("{} ns", count(ns)))
    }

    /// A link within the page to the element of that identifier, which is of our own making.
    pub(super) fn link(to: &str, text: &str, exact: impl Display) -> Self {
        let markup = format!("<a href=\"#{to}\">{}</a>", Escaped(text));
        Self { markup, exact: Some(exact.to_string()), title: None }
    }

    /// What [`super::bar`] made.
    pub(super) fn bar(bar: String) -> Self {
        Self { markup: bar, ..Self::default() }
    }

    /// The same with a bar beside it.
    pub(super) fn beside(mut self, bar: &str) -> Self {
        self.markup.push_str(bar);
        self
    }

    pub(super) fn titled(self, title: &str) -> Self {
        Self { title: Some(title.to_owned()), ..self }
    }
}

/// Rows of a [searched](Table::searched) table that are in the page as such. Of so many a browser draws without delay; those beyond are
/// data, of which the script draws what is in sight.
pub(super) const DRAWN_ROWS: usize = 300;
/// With fewer rows there is nothing to look for.
const LEAST_SEARCHED: usize = 12;

/// A table that is written row by row. The first cell of each row is its head.
#[derive(Debug)]
pub(super) struct Table<'a> {
    caption: &'a str,
    columns: &'a [Column<'a>],
    rows: String,
    /// Rows that stay behind the others, of a table that may have some as data.
    last: String,
    /// Whether rows can be looked for, and may be data.
    is_searched: bool,
    /// Rows, but for the last ones.
    count: usize,
    /// Rows from [`DRAWN_ROWS`] on, as JSON.
    data: String,
}

impl<'a> Table<'a> {
    pub(super) fn new(caption: &'a str, columns: &'a [Column<'a>]) -> Self {
        let [rows, last, data] = [(); 3].map(|()| String::new());
        Self { caption, columns, rows, last, is_searched: false, count: 0, data }
    }

    /// One with a field to look for rows, which may have any number of them.
    pub(super) fn searched(caption: &'a str, columns: &'a [Column<'a>]) -> Self {
        Self { is_searched: true, ..Self::new(caption, columns) }
    }

    /// What the rows that follow are of; they are sorted by themselves.
    pub(super) fn group(&mut self, name: &str) {
        if !self.rows.is_empty() {
            self.rows.push_str("</tbody>\n<tbody>\n");
        }
        let head = format!(
            "<tr class=\"group\"><th scope=\"rowgroup\" colspan=\"{}\">{}</th></tr>\n",
            self.columns.len(),
            Escaped(name)
        );
        self.rows.push_str(&head);
    }

    pub(super) fn row(&mut self, cells: &[Cell]) {
        self.count += 1;
        if self.is_searched && self.count > DRAWN_ROWS {
            self.data_row(cells);
        } else {
            self.push("", cells);
        }
    }

    /// A row as the script reads it: each cell is its markup, or a list of that, what it is sorted by, and its title.
    fn data_row(&mut self, cells: &[Cell]) {
        debug_assert_eq!(cells.len(), self.columns.len(), "{}", self.caption);
        let each = |Cell { markup, exact, title }: &Cell| {
            let escaped = |text: &Option<String>| text.as_ref().map(|text| Escaped(text).to_string());
            match (escaped(exact), escaped(title)) {
                (None, None) => json!(markup),
                (exact, None) => json!([markup, exact]),
                (exact, title) => json!([markup, exact, title]),
            }
        };
        let row: Value = cells.iter().map(each).collect();
        self.data += if self.data.is_empty() { "[" } else { ",\n" };
        // Nothing in it can end the element that it is in.
        self.data += &row.to_string().replace("</", "<\\/").replace("<!", "\\u003c!");
    }

    /// A row of a region, which is found by what it is called.
    pub(super) fn row_of(&mut self, region: &str, cells: &[Cell]) {
        self.push(&format!(" data-region=\"{}\"", Escaped(&region.to_lowercase())), cells);
    }

    /// A row that stays behind the others.
    pub(super) fn last(&mut self, cells: &[Cell]) {
        let before = std::mem::take(&mut self.rows);
        self.push(" class=\"last\"", cells);
        let row = std::mem::replace(&mut self.rows, before);
        if self.is_searched { &mut self.last } else { &mut self.rows }.push_str(&row);
    }

    fn push(&mut self, attributes: &str, cells: &[Cell]) {
        debug_assert_eq!(cells.len(), self.columns.len(), "{}", self.caption);
        self.rows.push_str(&format!("<tr{attributes}>"));
        for (place, (Cell { markup, exact, title }, column)) in cells.iter().zip(self.columns).enumerate() {
            let (element, scope) = if place == 0 { ("th", " scope=\"row\"") } else { ("td", "") };
            let class = match column {
                Column::Text(_) => "",
                Column::Number(_) => " class=\"number\"",
                Column::Bar(_) => " class=\"bar\"",
            };
            let attribute = |name: &str, value: &Option<String>| {
                value.as_ref().map_or_else(String::new, |value| format!(" {name}=\"{}\"", Escaped(value)))
            };
            let (exact, title) = (attribute("data-exact", exact), attribute("title", title));
            self.rows.push_str(&format!("<{element}{scope}{class}{exact}{title}>{markup}</{element}>"));
        }
        self.rows.push_str("</tr>\n");
    }

    pub(super) fn write(self, out: &mut impl Write) -> fmt::Result {
        self.written(out, true)
    }

    /// The same of rows whose order means something.
    pub(super) fn write_unsorted(self, out: &mut impl Write) -> fmt::Result {
        self.written(out, false)
    }

    fn written(self, out: &mut impl Write, is_sorted: bool) -> fmt::Result {
        let Self { caption, columns, rows, last, is_searched, count: number, data } = self;
        if is_searched {
            writeln!(out, "<div class=\"searched\">")?;
        }
        if is_searched && number >= LEAST_SEARCHED {
            writeln!(
                out,
                "<form class=\"filter\" role=\"search\" hidden><label>Rows with <input type=\"search\"></label> \
                 <output aria-live=\"polite\"></output></form>"
            )?;
        }
        write!(out, "<div class=\"wide\"><table>\n<caption>{}</caption>\n<thead><tr>", Escaped(caption))?;
        for column in columns {
            let (name, class, sorted) = match column {
                Column::Text(name) => (name, "", " data-sorted=\"text\""),
                Column::Number(name) => (name, " class=\"number\"", " data-sorted=\"number\""),
                Column::Bar(name) => (name, " class=\"bar\"", ""),
            };
            let sorted = if is_sorted { sorted } else { "" };
            write!(out, "<th scope=\"col\"{class}{sorted}>{}</th>", Escaped(name))?;
        }
        writeln!(out, "</tr></thead>\n<tbody>\n{rows}{last}</tbody>\n</table></div>")?;
        if !data.is_empty() {
            let more = count((number - DRAWN_ROWS) as u64);
            writeln!(
                out,
                "<p class=\"beyond\">{more} more rows are drawn by JavaScript, which is off here.</p>\n\
                 <script type=\"application/json\">{data}]</script>"
            )?;
        }
        if is_searched { writeln!(out, "</div>") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_have_scopes_and_exact_numbers() {
        let columns = [Column::Text("data"), Column::Number("time"), Column::Bar("of all")];
        let mut table = Table::new("a < b", &columns);
        table.group("one");
        table.row(&[Cell::text("x"), Cell::duration(1_500_000), Cell::bar("<i></i>".to_owned())]);
        table.group("two");
        table.last(&[Cell::text("SUM"), Cell::nothing(), Cell::default()]);
        let mut out = String::new();
        table.write(&mut out).unwrap();
        let row = "<tr><th scope=\"row\">x</th><td class=\"number\" data-exact=\"1500000\" title=\"1,500,000 ns\">1.5 ms</td>\
                   <td class=\"bar\"><i></i></td></tr>";
        assert!(out.contains(row), "{out}");
        assert!(out.contains("<caption>a &lt; b</caption>") && out.contains("<tr class=\"last\">"), "{out}");
        assert_eq!((out.matches("<tbody>").count(), out.matches("</tbody>").count()), (2, 2), "{out}");
    }
}
