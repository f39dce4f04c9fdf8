//! What threads share: who uses what of the same lines, and how to part it.

use std::fmt::{self, Write};

use super::paragraphs;
use crate::html::page::Escaped;
use crate::html::table::{Cell, Column, Table};
use crate::sharing::{FalseRow, MemberRow, SharedRow, SharingReport};
use crate::text::number::{count, plural};
use crate::text::sharing::{Misses, OF_OTHER_BYTES, OF_THE_SAME_BYTES, beside, costs, name, remarks, uses};

/// Most cards of each sort of sharing; the JSON has all.
const MOST_CARDS: usize = 60;

pub(super) fn sharing(out: &mut impl Write, report: &SharingReport) -> fmt::Result {
    paragraphs(out, &remarks(report))?;
    let weight = report.sampled.as_ref().map_or("", |run| run.weight);
    if !report.falsely_shared.is_empty() {
        writeln!(out, "<h3>False sharing: threads use other bytes of the same lines</h3>")?;
        for (number, row) in (1..).zip(&report.falsely_shared).take(MOST_CARDS) {
            falsely(out, number, row, weight)?;
        }
        more(out, report.falsely_shared.len())?;
    }
    if !report.shared.is_empty() {
        writeln!(out, "<h3>True sharing: threads use the same bytes</h3>")?;
        for (number, row) in (1..).zip(&report.shared).take(MOST_CARDS) {
            truly(out, number, row, weight)?;
        }
        more(out, report.shared.len())?;
    }
    Ok(())
}

fn more(out: &mut impl Write, all: usize) -> fmt::Result {
    match all.saturating_sub(MOST_CARDS) {
        0 => Ok(()),
        more => writeln!(out, "<p class=\"faint\">{} more are in the JSON report.</p>", count(more as u64)),
    }
}

/// What all cards begin with: what it is, what it costs and what to do.
fn begin(out: &mut impl Write, id: &str, title: &str, facts: &[Option<String>], fix: &str) -> fmt::Result {
    writeln!(
        out,
        "<article class=\"card\" id=\"{id}\" aria-labelledby=\"{id}-title\">\n<h4 id=\"{id}-title\">{}</h4>\n<p class=\"fix\">{}</p>",
        Escaped(title),
        Escaped(fix)
    )?;
    facts.iter().flatten().try_for_each(|fact| writeln!(out, "<p>{}</p>", Escaped(fact)))
}

fn falsely(out: &mut impl Write, number: usize, row: &FalseRow, weight: &str) -> fmt::Result {
    let names: Vec<String> = row.sides.iter().map(|side| name(&side.name)).collect();
    let title = format!("{}, {}", names.join(" and "), plural(row.lines, "line"));
    let facts = [
        costs(row.cost_share, row.sampled.as_ref(), weight),
        Some(uses(&row.total, OF_OTHER_BYTES, row.sampled.is_some())),
        Some(format!("{} apart", plural(row.apart_bytes.into(), "byte"))),
    ];
    begin(out, &format!("false-{number}"), &title, &facts, &row.fix)?;
    let sides: Vec<&MemberRow> = row.sides.iter().collect();
    threads(out, &title, &sides, OF_OTHER_BYTES)?;
    writeln!(out, "</article>")
}

fn truly(out: &mut impl Write, number: usize, row: &SharedRow, weight: &str) -> fmt::Result {
    let uniform = if row.uniform { "uniform" } else { "not uniform" };
    let title = format!("{}, {}, {uniform}", name(&row.member.name), plural(row.lines, "line"));
    let facts = [
        costs(row.cost_share, row.sampled.as_ref(), weight),
        Some(uses(&row.total, OF_THE_SAME_BYTES, row.sampled.is_some())),
        (!row.beside.is_empty()).then(|| beside(&row.beside, row.sharers())),
    ];
    begin(out, &format!("true-{number}"), &title, &facts, &row.fix)?;
    threads(out, &title, &[&row.member], OF_THE_SAME_BYTES)?;
    writeln!(out, "</article>")
}

/// Who does what, and where.
fn threads(out: &mut impl Write, title: &str, members: &[&MemberRow], misses: Misses) -> fmt::Result {
    let columns =
        |what| [Column::Text(what), Column::Number("loads"), Column::Number("stores"), Column::Number("missed")];
    let by_thread = columns("thread");
    let caption = format!("Threads that use {title}");
    let mut table = Table::new(&caption, &by_thread);
    let is_one_process = |member: &&MemberRow| member.threads.windows(2).all(|pair| pair[0].process == pair[1].process);
    let is_one_process = members.iter().all(is_one_process);
    for member in members {
        if members.len() > 1 {
            table.group(&name(&member.name));
        }
        for thread in &member.threads {
            let who = match is_one_process {
                true => thread.tid.to_string(),
                false if thread.pid != 0 => format!("process {} thread {}", thread.pid, thread.tid),
                false => format!("process {} thread {}", thread.process, thread.tid),
            };
            let uses = &thread.uses;
            let counts = [uses.loads, uses.stores, misses(uses)].map(Cell::count);
            table.row(&[&[Cell::number(&who, thread.tid)], &counts[..]].concat());
        }
    }
    table.write(out)?;
    if members.iter().all(|member| member.code.is_empty()) {
        return Ok(());
    }
    let by_line = columns("line");
    let caption = format!("Lines of code that use {title}");
    let mut table = Table::searched(&caption, &by_line);
    for code in members.iter().flat_map(|member| &member.code) {
        let place = code.file.as_ref().zip(code.line).map(|(file, line)| format!("{file}:{line}"));
        let counts = [code.uses.loads, code.uses.stores, misses(&code.uses)].map(Cell::count);
        table.row(&[&[Cell::long_text(place.as_deref().unwrap_or("(not known)"))], &counts[..]].concat());
    }
    table.write(out)
}
