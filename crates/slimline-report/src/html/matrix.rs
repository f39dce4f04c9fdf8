//! Which code spends how much on a structure, and on which of its fields: a table whose cells are coloured by their shares.

use std::fmt::{self, Write};

use super::heat::heat;
use super::page::Escaped;
use crate::text::number::{percent, plural};
use crate::text::table::shorten;

/// Most rows and fields: what is beyond is told by how many.
const MOST_ROWS: usize = 24;
pub(super) const MOST_FIELDS: usize = 16;
/// Of longer names the middle is left out: a head wraps them into a few lines.
const NAME_COLUMNS: usize = 48;

/// Code, and what it uses of a structure.
pub(super) struct Matrix<'a> {
    pub(super) caption: String,
    /// What a row is: `loop`.
    pub(super) code: &'a str,
    /// Columns: names, with more of them.
    pub(super) fields: Vec<(&'a str, String)>,
    /// Used fields that are no columns.
    pub(super) more_fields: usize,
    /// Most costly first.
    pub(super) rows: Vec<Row>,
}

/// A row.
pub(super) struct Row {
    pub(super) name: String,
    /// By column, of the structure's cost; none where it is not used.
    pub(super) shares: Vec<Option<f64>>,
    /// Of all fields.
    pub(super) all: f64,
}

impl Matrix<'_> {
    /// Nothing where there is no row.
    pub(super) fn write(&self, out: &mut impl Write) -> fmt::Result {
        let Self { caption, code, fields, more_fields, rows } = self;
        if rows.is_empty() {
            return Ok(());
        }
        let head = |(name, title): &(&str, String)| {
            let shown = shorten(name, NAME_COLUMNS);
            format!("<th scope=\"col\" class=\"number\" title=\"{}\">{}</th>", Escaped(title), Escaped(&shown))
        };
        writeln!(
            out,
            "<div class=\"wide\"><table class=\"matrix\">\n<caption>{}</caption>\n\
             <thead><tr><th scope=\"col\">{code}</th>{}<th scope=\"col\" class=\"number\">all</th></tr></thead>\n<tbody>",
            Escaped(caption),
            fields.iter().map(head).collect::<String>()
        )?;
        for row in rows.iter().take(MOST_ROWS) {
            let title = Escaped(&row.name);
            write!(out, "<tr><th scope=\"row\" title=\"{title}\">{title}</th>")?;
            for share in &row.shares {
                match share {
                    Some(share) => {
                        write!(out, "<td class=\"number {}\">{}</td>", heat(*share), Escaped(percent(*share)))?
                    }
                    None => write!(out, "<td class=\"number\"></td>")?,
                }
            }
            writeln!(out, "<td class=\"number\">{}</td></tr>", Escaped(percent(row.all)))?;
        }
        writeln!(out, "</tbody>\n</table></div>")?;
        let more = [(rows.len().saturating_sub(MOST_ROWS), *code), (*more_fields, "field")];
        let more: Vec<String> = more.iter().filter(|(n, _)| *n > 0).map(|&(n, noun)| plural(n as u64, noun)).collect();
        match more.is_empty() {
            true => Ok(()),
            false => writeln!(out, "<p class=\"faint\">{} with less left out</p>", more.join(" and ")),
        }
    }
}
