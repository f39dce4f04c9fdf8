//! The report as text for a terminal of 100 columns.
//!
//! Styles are always written; the binary's output stream strips them where they are not wanted.

mod advice;
mod breakdown;
mod data;
mod head;
pub(crate) mod number;
mod table;

use std::fmt::{self, Display, Write};

use anstyle::{AnsiColor, Style};

pub(crate) use self::data::line_range;
pub(crate) use self::table::shorten_end;
use crate::view::Report;

/// Widest line written.
pub const WIDTH: usize = 100;

const HEADING: Style = Style::new().bold();
const STRONG: Style = AnsiColor::Yellow.on_default().bold();
const DIM: Style = Style::new().dimmed();

/// What a report is cut by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Data structures with their fields, then loops.
    Group,
    /// Element types.
    Type,
    /// Fields of all groups.
    Field,
    /// Loops with the data they touch.
    Loop,
    /// Source lines.
    Line,
    /// Functions.
    Function,
    /// Threads.
    Thread,
}

/// How much to show.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Rows of the top table, and of loops and breakdowns.
    pub rows: usize,
    /// Groups, fields and loops below this share are summed up in one line.
    pub share: f64,
    /// Tables as wide as what is in them: nothing is cut to the page.
    pub wide: bool,
    /// The call path that allocated each data structure, too.
    pub callers: bool,
}

impl Default for Limits {
    /// What fits two screens.
    fn default() -> Self {
        Self { rows: 20, share: 0.005, wide: false, callers: false }
    }
}

/// Writes the whole report: head, tables cut by `by`, and a line that leads to the advice.
pub fn report(out: &mut impl Write, report: &Report, by: By, limits: Limits) -> fmt::Result {
    head::write(out, &report.session)?;
    if report.session.samples == 0 {
        return Ok(());
    }
    match by {
        By::Group => {
            data::table(out, report, limits)?;
            if limits.callers {
                data::callers(out, report, limits)?;
            }
            data::details(out, report, limits)?;
            data::loops(out, report, limits)?;
        }
        By::Field => data::fields(out, report, limits)?,
        By::Loop => data::loops(out, report, limits)?,
        By::Type => breakdown::write(out, "TYPES", &report.breakdowns.types, limits)?,
        By::Line => breakdown::write(out, "LINES", &report.breakdowns.lines, limits)?,
        By::Function => breakdown::write(out, "FUNCTIONS", &report.breakdowns.functions, limits)?,
        By::Thread => breakdown::write(out, "THREADS", &report.breakdowns.threads, limits)?,
    }
    advice::pointer(out, report)
}

/// Writes the advice: what to change, why, and the new definitions.
pub fn advise(out: &mut impl Write, report: &Report) -> fmt::Result {
    head::write(out, &report.session)?;
    if report.session.samples == 0 {
        return Ok(());
    }
    advice::write(out, report)
}

fn heading(out: &mut impl Write, text: impl Display) -> fmt::Result {
    writeln!(out, "\n{HEADING}{text}{HEADING:#}")
}

/// Text folded at word ends: the first line behind `first` blanks, the others behind `indent`.
pub(crate) fn fold(out: &mut impl Write, text: &str, first: usize, indent: usize) -> fmt::Result {
    for paragraph in text.split('\n') {
        let mut margin = first;
        let mut line = String::new();
        for word in paragraph.split(' ') {
            if !line.is_empty() && margin + line.chars().count() + 1 + word.chars().count() > WIDTH {
                writeln!(out, "{:margin$}{line}", "")?;
                line.clear();
                margin = indent;
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        writeln!(out, "{:margin$}{line}", "")?;
    }
    Ok(())
}

/// A value behind its label, which is set to the right of `width` columns; folded below itself.
pub(crate) fn labelled(out: &mut impl Write, label: &str, width: usize, value: &str) -> fmt::Result {
    let margin = width + 2;
    let mut lines = String::new();
    fold(&mut lines, value, margin, margin)?;
    write!(out, "{HEADING}{label:>width$}{HEADING:#}  {}", &lines[margin..])
}
