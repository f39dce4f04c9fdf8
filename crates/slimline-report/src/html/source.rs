//! Source with numbers beside it: lines of files, each with what it costs and what it touches.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};

use super::heat::heat;
use super::page::Escaped;
use crate::source::Source;
use crate::text::number::{count, percent};

/// Lines shown around those that are.
pub(super) const AROUND: u32 = 2;

/// A file, and what of it is shown.
pub(super) struct Annotated<'a> {
    pub(super) path: &'a str,
    pub(super) caption: &'a str,
    /// In words, above its lines.
    pub(super) remarks: Vec<String>,
    /// Heads of the numbers beside the line, cost last.
    pub(super) columns: &'a [&'a str],
    /// What is known of lines, by their numbers.
    pub(super) lines: BTreeMap<u32, AnnotatedLine>,
    /// Lines that are to be shown.
    pub(super) shown: BTreeSet<u32>,
}

/// What is known of a line.
#[derive(Default)]
pub(super) struct AnnotatedLine {
    /// Numbers before its cost.
    pub(super) numbers: Vec<String>,
    /// Its share of what everything costs.
    pub(super) share: f64,
    /// What it touches, as markup.
    pub(super) touches: String,
}

impl Annotated<'_> {
    /// Shows these lines with some around them.
    pub(super) fn show(&mut self, first: u32, last: u32) {
        self.shown.extend(first.saturating_sub(AROUND).max(1)..=last.saturating_add(AROUND));
    }

    /// With what there is of the file; by numbers of lines alone where it could not be read.
    pub(super) fn write(mut self, out: &mut impl Write, source: Option<&Source>) -> fmt::Result {
        writeln!(out, "<h3>{}</h3>", Escaped(self.path))?;
        let (text, notice) = match source {
            Some(source) => (source.text(), source.notice()),
            None => (None, Some("It was not read.".to_owned())),
        };
        if let Some(notice) = notice {
            writeln!(out, "<p class=\"missing\">{}</p>", Escaped(&notice))?;
        }
        if !self.remarks.is_empty() {
            writeln!(out, "<ul class=\"pairs\">")?;
            self.remarks.iter().try_for_each(|remark| writeln!(out, "<li>{}</li>", Escaped(remark)))?;
            writeln!(out, "</ul>")?;
        }
        let text: Option<Vec<&str>> = text.map(|text| text.lines().collect());
        match &text {
            Some(text) => self.shown.retain(|&line| line as usize <= text.len()),
            None => self.shown.retain(|line| self.lines.contains_key(line)),
        }
        let columns =
            self.columns.iter().map(|head| format!("<th scope=\"col\" class=\"number\">{}</th>", Escaped(head)));
        writeln!(
            out,
            "<div class=\"wide\"><table class=\"source\">\n<caption>{}</caption>\n<thead><tr>\
             <th scope=\"col\" class=\"number\">line</th>{}<th scope=\"col\">source</th>\
             <th scope=\"col\">touches</th></tr></thead>\n<tbody>",
            Escaped(self.caption),
            columns.collect::<String>()
        )?;
        let mut before = None;
        for &line in &self.shown {
            if before.is_some_and(|before| before + 1 < line) {
                let columns = self.columns.len() + 3;
                writeln!(
                    out,
                    "<tr class=\"gap\"><td colspan=\"{columns}\"><span class=\"unseen\">lines left out</span></td></tr>"
                )?;
            }
            before = Some(line);
            let code = text.as_ref().and_then(|text| text.get(line as usize - 1)).copied().unwrap_or_default();
            self.row(out, line, code)?;
        }
        writeln!(out, "</tbody>\n</table></div>")
    }

    fn row(&self, out: &mut impl Write, line: u32, code: &str) -> fmt::Result {
        let nothing = AnnotatedLine::default();
        let known = self.lines.get(&line).unwrap_or(&nothing);
        write!(out, "<tr><th scope=\"row\" class=\"number\">{}</th>", count(line.into()))?;
        for number in 0..self.columns.len() - 1 {
            let number = known.numbers.get(number).map_or("", String::as_str);
            write!(out, "<td class=\"number\">{}</td>", Escaped(number))?;
        }
        let [cost, hot] = match known.share {
            0.0 => [String::new(), String::new()],
            share => [percent(share), format!(" {}", heat(share))],
        };
        writeln!(
            out,
            "<td class=\"number{hot}\">{}</td><td class=\"code\"><code>{}</code></td><td>{}</td></tr>",
            Escaped(cost),
            Escaped(code.replace('\t', "    ")),
            known.touches
        )
    }
}
