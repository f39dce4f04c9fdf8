//! The source of the hot loops, with the cost of each line and the fields that it touches.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::{self, Write};

use super::Page;
use crate::html::heat::heat;
use crate::html::page::Escaped;
use crate::source::Source;
use crate::text::cells::accessed;
use crate::text::number::{count, percent};
use crate::text::{Limits, line_range};
use crate::view::{Line, Loop, Report};

/// Most loops whose source is shown.
const MOST_LOOPS: usize = 24;
/// Lines shown around a loop, and around a line of a long one.
const AROUND: u32 = 2;
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
    let of_file: BTreeMap<u32, &Line> =
        page.report.lines.iter().filter(|line| line.file == file).map(|line| (line.line, line)).collect();
    writeln!(out, "<h3>{}</h3>", Escaped(file))?;
    let (text, notice) = match source {
        Some(source) => (source.text(), source.notice()),
        None => (None, Some("It was not read.".to_owned())),
    };
    if let Some(notice) = notice {
        writeln!(out, "<p class=\"missing\">{}</p>", Escaped(&notice))?;
    }
    writeln!(out, "<ul class=\"pairs\">")?;
    for (found, _) in hot_loops(page.report).filter(|(_, of)| *of == file) {
        let loop_ = format!("{} {}: {}", found.function, line_range(found), percent(found.share));
        writeln!(out, "<li>{}</li>", Escaped(&loop_))?;
    }
    writeln!(out, "</ul>")?;
    let text: Option<Vec<&str>> = text.map(|text| text.lines().collect());
    let mut shown = shown_lines(page.report, file, &of_file);
    match &text {
        Some(text) => shown.retain(|&line| line as usize <= text.len()),
        None => shown.retain(|line| of_file.contains_key(line)),
    }
    writeln!(
        out,
        "<div class=\"wide\"><table class=\"source\">\n<caption>Lines of its hot loops</caption>\n<thead><tr>\
         <th scope=\"col\" class=\"number\">line</th><th scope=\"col\" class=\"number\">{}</th><th scope=\"col\">source</th>\
         <th scope=\"col\">touches</th></tr></thead>\n<tbody>",
        page.cost
    )?;
    let mut before = None;
    for line in shown {
        if before.is_some_and(|before| before + 1 < line) {
            writeln!(
                out,
                "<tr class=\"gap\"><td colspan=\"4\"><span class=\"unseen\">lines left out</span></td></tr>"
            )?;
        }
        before = Some(line);
        let row = of_file.get(&line);
        let share = row.map_or(0.0, |row| row.share);
        let [cost, hot] = match share {
            0.0 => [String::new(), String::new()],
            share => [percent(share), format!(" {}", heat(share))],
        };
        let code = text.as_ref().and_then(|text| text.get(line as usize - 1)).copied().unwrap_or_default();
        writeln!(
            out,
            "<tr><th scope=\"row\" class=\"number\">{}</th><td class=\"number{hot}\">{cost}</td><td><code>{}</code></td>\
             <td>{}</td></tr>",
            count(line.into()),
            Escaped(&code.replace('\t', "    ")),
            row.map(|row| touches(page, row)).unwrap_or_default()
        )?;
    }
    writeln!(out, "</tbody>\n</table></div>")
}

/// Lines of the file that are shown, ascending.
fn shown_lines(report: &Report, file: &str, of_file: &BTreeMap<u32, &Line>) -> BTreeSet<u32> {
    let mut shown = BTreeSet::new();
    let mut show =
        |first: u32, last: u32| shown.extend(first.saturating_sub(AROUND).max(1)..=last.saturating_add(AROUND));
    for (found, _) in hot_loops(report).filter(|(_, of)| *of == file) {
        let (first, last) = (found.first_line, found.last_line.max(found.first_line));
        if last - first < LONG {
            show(first, last);
        } else {
            of_file.range(first..=last).for_each(|(&line, _)| show(line, line));
        }
    }
    shown
}

/// `bodies {x vx}`
fn touches(page: &Page<'_>, line: &Line) -> String {
    let parts = accessed(line, |id| page.group(id));
    let parts = parts.iter().map(|(group, fields)| format!("{}{}", page.name(group), Escaped(fields)));
    parts.collect::<Vec<_>>().join(", ")
}
