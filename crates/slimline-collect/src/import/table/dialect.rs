//! How a table of text is written: what is between its columns, which the names in its first line tell.

use std::io::{self, BufRead, Cursor, Read};

use csv::ReaderBuilder;

use super::bounded::MOST_BYTES;
use super::columns::ColumnMap;

/// What may be between columns. The one is it that all wanted names are found with, and that makes most columns.
const SEPARATORS: [u8; 4] = [b',', b';', b'\t', b'|'];
/// What spreadsheets write into a line before the names: `sep=;`.
const SEPARATOR_LINE: &[u8] = b"sep=";

/// How a table is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dialect {
    pub(super) separator: u8,
    /// Lines before that of the names.
    pub(super) lines_before: u64,
}

impl Dialect {
    /// Finds out by the columns that are wanted; and the table from its line of names on.
    ///
    /// # Errors
    /// Reading fails.
    pub(super) fn find(mut input: Box<dyn BufRead>, map: &ColumnMap) -> io::Result<(Self, impl Read + use<>)> {
        let mut names = read_line(&mut input)?;
        let mut lines_before = 0;
        let told = match names.trim_ascii_end().strip_prefix(SEPARATOR_LINE) {
            Some([separator]) => Some(*separator),
            // A tab is trimmed with the line's end.
            Some([]) if names.contains(&b'\t') => Some(b'\t'),
            _ => None,
        };
        if told.is_some() {
            (names, lines_before) = (read_line(&mut input)?, 1);
        }
        let separator = told.unwrap_or_else(|| separator(&names, map));
        Ok((Self { separator, lines_before }, Cursor::new(names).chain(input)))
    }

    /// Whether a comma is the decimal sign: where it can't be between columns.
    pub(super) fn has_decimal_commas(self) -> bool {
        self.separator != b','
    }
}

/// The separator with which all wanted names are found, else the one that makes most columns.
fn separator(names: &[u8], map: &ColumnMap) -> u8 {
    let columns = SEPARATORS.map(|separator| {
        let mut reader = ReaderBuilder::new().has_headers(false).flexible(true).delimiter(separator).from_reader(names);
        let found = reader.records().next().and_then(Result::ok).unwrap_or_default();
        let has_all = map.columns().iter().all(|column| found.iter().any(|name| name.trim() == column.name));
        (has_all, found.len())
    });
    let best = columns.iter().max().copied().unwrap_or_default();
    columns.iter().position(|found| *found == best).map_or(b',', |place| SEPARATORS[place])
}

/// A line, with those behind it as far as a quote goes on; no more than a record may have.
fn read_line(input: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    loop {
        let left = MOST_BYTES.saturating_sub(line.len() as u64);
        let bytes = input.by_ref().take(left).read_until(b'\n', &mut line)?;
        if bytes == 0 || line.iter().filter(|byte| **byte == b'"').count().is_multiple_of(2) {
            return Ok(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &'static str, columns: &str) -> (u8, u64, String) {
        let (dialect, mut rest) = Dialect::find(Box::new(text.as_bytes()), &columns.parse().unwrap()).unwrap();
        let mut read = String::new();
        rest.read_to_string(&mut read).unwrap();
        (dialect.separator, dialect.lines_before, read)
    }

    #[test]
    fn the_names_tell_what_is_between_columns() {
        let of = |text, columns| found(text, columns).0;
        assert_eq!(of("a,b\n1,2\n", "address=a,line=b"), b',');
        assert_eq!(of("a;b\n1;2\n", "address=a,line=b"), b';');
        assert_eq!(of("a\tb\n", "address=a,line=b"), b'\t');
        assert_eq!(of("a|b", "address=a,line=b"), b'|');
        // Names with the other characters in them.
        assert_eq!(of("at [x|y|z];line\n", "address=at [x|y|z]"), b';');
        assert_eq!(of("\"a;b;c\",line\n", "address=a;b;c"), b',');
        assert_eq!(of("\"a\nb\";line\n1;2", "line=line,address=line"), b';');
        // One column, and none of the names.
        assert_eq!((of("a\n1\n", "address=a"), of("x;y;z,w\n", "address=a"), of("", "address=a")), (b',', b';', b','));
    }

    #[test]
    fn a_line_may_say_it() {
        assert_eq!(found("sep=;\r\na;b\r\n", "address=a"), (b';', 1, "a;b\r\n".to_owned()));
        assert_eq!(found("sep=\t\na\tb\n", "address=a"), (b'\t', 1, "a\tb\n".to_owned()));
        assert_eq!(found("a;b\n1;2\n", "address=a"), (b';', 0, "a;b\n1;2\n".to_owned()));
    }
}
