//! The report as text for a terminal of 100 columns.
//!
//! Styles are always written; the binary's output stream strips them where they are not wanted.

#[cfg(test)]
pub(crate) mod a_run;
pub(crate) mod advice;
pub(crate) mod breakdown;
pub(crate) mod cells;
mod comparison;
pub(crate) mod data;
mod declared_layouts;
pub(crate) mod full_trace;
pub(crate) mod head;
mod histogram;
mod layout;
mod learning;
pub(crate) mod number;
pub(crate) mod placement;
pub(crate) mod quality;
mod regions;
pub(crate) mod relayout;
pub(crate) mod reuse;
pub(crate) mod served;
pub(crate) mod sharing;
pub(crate) mod simulation;
pub(crate) mod table;
mod unnamed;

use std::collections::HashMap;
use std::fmt::{self, Display, Write};

use anstyle::{AnsiColor, Style};
use slimline_trace::escape::plain;

pub(crate) use self::advice::{gain, what_changes};
pub(crate) use self::cells::{about, braced, element, kind, line_range, lines, origin, threads, touched, without_data};
pub use self::comparison::{check, comparison};
pub(crate) use self::data::hottest;
pub use self::declared_layouts::declared_layouts;
pub use self::full_trace::trace;
pub(crate) use self::head::{samples as how_sampled, what_is_missing};
pub use self::histogram::histogram;
pub use self::layout::layout;
pub(crate) use self::layout::name as layout_name;
pub use self::learning::learning;
pub use self::placement::placement;
pub use self::regions::regions;
pub(crate) use self::regions::{
    compared_run, counted, ended, estimated, place as region_place, sampled_words, title as region_title,
    unit as unit_of_times, weight,
};
pub use self::relayout::relayout;
pub use self::reuse::reuse;
pub use self::sharing::sharing;
pub use self::simulation::simulation;
pub(crate) use self::table::{shorten_end, shorten_path};
use crate::view::{ProcessReport, Report, Session};

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
    /// Regions of the program.
    Region,
    /// How much of it is resolved, and why not the rest.
    Quality,
}

/// How much to show.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Rows of the top table, and of loops and breakdowns.
    pub rows: usize,
    /// Rows below this share are summed up in one; `None`: as many samples tell, see [`Limits::floor`].
    pub share: Option<f64>,
    /// Tables as wide as what is in them: nothing is cut to the page.
    pub wide: bool,
    /// The call path that allocated each data structure, too.
    pub callers: bool,
    /// All that is known of how the session was recorded.
    pub full_head: bool,
    /// Columns of the page, at least [`WIDTH`]: what there is beyond, names in tables get.
    pub width: usize,
}

impl Default for Limits {
    /// What fits two screens.
    fn default() -> Self {
        Self { rows: 20, share: None, wide: false, callers: false, full_head: false, width: WIDTH }
    }
}

impl Limits {
    /// Share from which a row of the session's weight is shown. Where none was asked for: 0.5 %, or what five samples
    /// are, as with fewer a row is an accident; but never more than 5 %.
    pub(crate) fn floor(&self, session: &Session) -> f64 {
        self.share.unwrap_or_else(|| (5.0 / session.samples.max(1) as f64).clamp(0.005, 0.05))
    }

    /// Samples from which the fields of a structure are shown, unless a share was asked for: with fewer they would
    /// have one or two each.
    fn least_samples(&self) -> u64 {
        if self.share.is_some() { 0 } else { 20 }
    }

    /// `width` columns, or as many as it takes.
    fn columns(&self, width: usize) -> usize {
        if self.wide { usize::MAX } else { width }
    }
}

/// What stands for rows that are not shown: `12 more, up to 0.4 %`.
pub(crate) fn more(shares: impl ExactSizeIterator<Item = f64>) -> String {
    let count = number::count(shares.len() as u64);
    let largest = shares.fold(0.0, f64::max);
    if largest > 0.0 { format!("{count} more, up to {}", number::percent(largest)) } else { format!("{count} more") }
}

/// Writes the whole report: head, tables cut by `by`, and a line that leads to the advice.
pub fn report(out: &mut impl Write, report: &Report, by: By, limits: Limits) -> fmt::Result {
    head::write(out, &report.session, limits.full_head)?;
    if report.session.samples == 0 {
        return Ok(());
    }
    let report = &told_apart(report);
    let floor = limits.floor(&report.session);
    let cost = report.session.weight.noun();
    match by {
        By::Group => {
            data::table(out, report, limits)?;
            if limits.callers {
                data::callers(out, report, limits)?;
            }
            served::groups(out, report, data::shown(report, limits), limits)?;
            data::details(out, report, limits)?;
            data::loops(out, report, limits)?;
        }
        By::Field => data::fields(out, report, limits)?,
        By::Loop => data::loops(out, report, limits)?,
        By::Type => breakdown::write(out, "TYPES", &report.breakdowns.types, cost, floor, limits)?,
        By::Line => breakdown::write(out, "LINES", &report.breakdowns.lines, cost, floor, limits)?,
        By::Function => breakdown::write(out, "FUNCTIONS", &report.breakdowns.functions, cost, floor, limits)?,
        By::Thread => breakdown::write(out, "THREADS", &report.breakdowns.threads, cost, floor, limits)?,
        By::Region => breakdown::write(out, "REGIONS", &report.breakdowns.regions, cost, floor, limits)?,
        By::Quality => return quality::write(out, &report.coverage, cost, limits.share.unwrap_or(0.0), limits),
    }
    advice::pointer(out, report)
}

/// The report with a number behind each name that several data structures have, in the order of their shares.
pub(crate) fn told_apart(report: &Report) -> Report {
    let mut report = report.clone();
    number_alike(report.groups.iter_mut().map(|group| &mut group.name).collect());
    report
}

/// Puts a number behind each name that several have, in their order.
pub(crate) fn number_alike(names: Vec<&mut String>) {
    let mut seen: HashMap<String, (usize, usize)> = HashMap::new();
    for name in &names {
        seen.entry((*name).clone()).or_default().0 += 1;
    }
    for name in names {
        if let Some((_, number)) = seen.get_mut(name).filter(|(count, _)| *count > 1) {
            *number += 1;
            *name = format!("{name} #{number}");
        }
    }
}

/// Writes the report of each process under a line that names it.
pub fn report_per_process(out: &mut impl Write, processes: &[ProcessReport], by: By, limits: Limits) -> fmt::Result {
    for (number, process) in processes.iter().enumerate() {
        let gap = if number == 0 { "" } else { "\n\n" };
        let name = format!("PROCESS {}  {}  {}", process.pid, plain(&process.executable), plain(&process.directory));
        writeln!(out, "{gap}{HEADING}{name}{HEADING:#}\n")?;
        report(out, &process.report, by, limits)?;
    }
    Ok(())
}

/// Writes the advice: what to change, why, and the new definitions.
pub fn advise(out: &mut impl Write, report: &Report, full_head: bool) -> fmt::Result {
    head::write(out, &report.session, full_head)?;
    if report.session.samples == 0 {
        return Ok(());
    }
    advice::write(out, report)
}

fn heading(out: &mut impl Write, text: impl Display) -> fmt::Result {
    writeln!(out, "\n{HEADING}{text}{HEADING:#}")
}

/// The file without its directories: enough beside a function or a structure.
pub(crate) fn file_name(path: &str) -> String {
    plain(path.rsplit('/').next().unwrap_or(path))
}

/// Text folded at word ends: the first line behind `first` blanks, the others behind `indent`. A word that is longer
/// than a line is cut where the line ends.
pub(crate) fn fold(out: &mut impl Write, text: &str, first: usize, indent: usize) -> fmt::Result {
    folded(text, WIDTH, first, indent).iter().try_for_each(|line| writeln!(out, "{line}"))
}

/// The same as lines of a page that is `width` columns wide; at least one column is left of it.
pub(crate) fn folded(text: &str, width: usize, first: usize, indent: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let longest = width.saturating_sub(indent.max(first)).max(1);
    for paragraph in text.split('\n') {
        let mut margin = first;
        let mut line = String::new();
        for word in paragraph.split(' ').flat_map(|word| pieces(word, longest)) {
            if !line.is_empty() && margin + line.chars().count() + 1 + word.chars().count() > width {
                lines.push(format!("{:margin$}{line}", ""));
                line.clear();
                margin = indent;
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(format!("{:margin$}{line}", ""));
    }
    lines
}

/// A word in pieces of at most `width` characters; in one where it is empty.
fn pieces(word: &str, width: usize) -> impl Iterator<Item = &str> {
    let mut rest = Some(word);
    std::iter::from_fn(move || {
        let word = rest?;
        let end = word.char_indices().nth(width).map(|(at, _)| at);
        rest = end.map(|end| &word[end..]);
        Some(end.map_or(word, |end| &word[..end]))
    })
}

/// A value behind its label, which is set to the right of `width` columns; folded below itself.
pub(crate) fn labelled(out: &mut impl Write, label: &str, width: usize, value: &str) -> fmt::Result {
    let margin = width + 2;
    let mut lines = String::new();
    fold(&mut lines, value, margin, margin)?;
    write!(out, "{HEADING}{label:>width$}{HEADING:#}  {}", &lines[margin..])
}
