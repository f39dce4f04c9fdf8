//! The source of the hot loops, with the cost of each line and the fields that it touches.

use std::collections::{BTreeSet, HashMap};
use std::fmt::{self, Write};

use super::Page;
use crate::html::page::Escaped;
use crate::html::source::{Annotated, AnnotatedLine};
use crate::source::Source;
use crate::text::cells::accessed;
use crate::text::number::percent;
use crate::text::{Limits, line_range};
use crate::view::{Line, Loop, Report};

/// Most loops whose source is shown.
const MOST_LOOPS: usize = 24;
/// Loops of more lines show those alone that cost something or touch data.
const LONG: u32 = 60;

/// The source files that [`super::report`] shows lines of, costliest first, each with the path of a program or library that was compiled of it.
pub fn source_files(report: &Report) -> Vec<(String, String)> {
    let mut files: Vec<(String, String)> = Vec::new();
    for (found, file) in hot_loops(report) {
        if !files.iter().any(|(known, _)| known == file) {
            files.push((file.to_owned(), found.module_path.clone()));
        }
    }
    files
}

/// Loops that cost enough and whose file is known.
fn hot_loops(report: &Report) -> impl Iterator<Item = (&Loop, &str)> {
    let floor = Limits::default().floor(&report.session);
    let hot = report.loops.iter().filter(move |found| found.share >= floor && found.first_line > 0).take(MOST_LOOPS);
    hot.filter_map(|found| Some((found, found.file.as_deref()?)))
}

pub(super) fn annotated(out: &mut impl Write, page: &Page<'_>, sources: &HashMap<String, Source>) -> fmt::Result {
    let files = source_files(page.report);
    if files.is_empty() {
        return writeln!(out, "<p>Of no loop that costs enough are lines known: was the program compiled with -g?</p>");
    }
    writeln!(
        out,
        "<p class=\"faint\">The {} of a line is that of code which debug information says is of it; what compilers say is of no line \
         is in the loops' shares alone.</p>",
        page.cost
    )?;
    for (file, _) in &files {
        one(out, page, file, sources.get(file))?;
    }
    Ok(())
}

fn one(out: &mut impl Write, page: &Page<'_>, file: &str, source: Option<&Source>) -> fmt::Result {
    let of_file = page.report.lines.iter().filter(|line| line.file == file);
    let annotated =
        |line: &Line| AnnotatedLine { share: line.share, touches: touches(page, line), ..Default::default() };
    let loops = || hot_loops(page.report).filter(|(_, of)| *of == file).map(|(found, _)| found);
    let mut shown = Annotated {
        path: file,
        caption: "Lines of its hot loops",
        remarks: loops()
            .map(|found| format!("{} {}: {}", found.function, line_range(found), percent(found.share)))
            .collect(),
        columns: &[page.cost],
        lines: of_file.map(|line| (line.line, annotated(line))).collect(),
        shown: BTreeSet::new(),
    };
    for found in loops() {
        let (first, last) = (found.first_line, found.last_line.max(found.first_line));
        if last - first < LONG {
            shown.show(first, last);
        } else {
            let known: Vec<u32> = shown.lines.range(first..=last).map(|(line, _)| *line).collect();
            known.into_iter().for_each(|line| shown.show(line, line));
        }
    }
    shown.write(out, source)
}

/// `bodies {x vx}`
fn touches(page: &Page<'_>, line: &Line) -> String {
    let parts = accessed(line, |id| page.group(id));
    let parts = parts.iter().map(|(group, fields)| format!("{}{}", page.name(group), Escaped(fields)));
    parts.collect::<Vec<_>>().join(", ")
}
