//! What threads share as text.

use std::fmt::{self, Write};

use slimline_trace::escape::plain;

use super::full_trace::more;
use super::number::{count, plural};
use super::simulation::{access_trace, data_name};
use super::table::{Column, Rows, shorten_path};
use super::{HEADING, STRONG, fold};
use crate::sharing::{FalseRow, MemberRow, NameRow, SharedRow, SharingReport, UsesRow};

/// Threads, and lines of code, that are named.
const MOST_NAMED: usize = 4;

/// Writes the report; at most so many of each sort of sharing.
///
/// # Errors
/// As `out`.
pub fn sharing(out: &mut impl Write, report: &SharingReport, most: usize) -> fmt::Result {
    access_trace(out, &report.trace)?;
    let lines = |n| plural(n, "line");
    writeln!(
        out,
        "Lines of {} bytes; each thread has the first level of {} for itself",
        report.line_bytes,
        plain(&report.machine)
    )?;
    if report.only_loaded_lines > 0 {
        writeln!(out, "{} that several threads only loaded: no harm", lines(report.only_loaded_lines))?;
    }
    if report.in_turn_lines > 0 {
        let names: Vec<String> = report.in_turn.iter().take(MOST_NAMED).map(name).collect();
        let others = if report.in_turn.len() > MOST_NAMED { ", …" } else { "" };
        let used = lines(report.in_turn_lines);
        fold(
            out,
            &format!("{used} that one thread used after the other: no harm ({}{others})", names.join(", ")),
            0,
            2,
        )?;
    }
    if report.shared.is_empty() && report.falsely_shared.is_empty() {
        return match report.in_turn_lines {
            0 => writeln!(out, "Nothing that one thread stores is in a line that others use"),
            _ => writeln!(out, "No line went from thread to thread time and again"),
        };
    }
    if !report.falsely_shared.is_empty() {
        writeln!(out, "\n{HEADING}False sharing: threads use other bytes of the same lines{HEADING:#}")?;
        for row in report.falsely_shared.iter().take(most) {
            falsely(out, row)?;
        }
        more(out, report.falsely_shared.len(), most)?;
    }
    if !report.shared.is_empty() {
        writeln!(out, "\n{HEADING}True sharing: threads use the same bytes{HEADING:#}")?;
        for row in report.shared.iter().take(most) {
            truly(out, row)?;
        }
        more(out, report.shared.len(), most)?;
    }
    Ok(())
}

fn name(row: &NameRow) -> String {
    let data = data_name(row.variable.as_deref(), &row.data);
    match &row.field {
        Some(field) => format!("{data}: {}", plain(field)),
        None => data,
    }
}

/// Which misses a section is about: what was lost to others' use of the same bytes is not told again where they used other
/// bytes.
type Misses = fn(&UsesRow) -> u64;

const OF_OTHER_BYTES: Misses = |uses| uses.false_misses;
const OF_THE_SAME_BYTES: Misses = |uses| uses.true_misses;

fn uses(total: &UsesRow, misses: Misses) -> String {
    let missed = match misses(total) {
        0 => "the line was never gone for it".to_owned(),
        misses => format!("{} the line was gone", plural(misses, "time")),
    };
    format!("{}, {}; {missed}", plural(total.loads, "load"), plural(total.stores, "store"))
}

fn falsely(out: &mut impl Write, row: &FalseRow) -> fmt::Result {
    let names: Vec<String> = row.sides.iter().map(|side| name(&side.name)).collect();
    writeln!(out, "\n  {STRONG}{}{STRONG:#}, {}", names.join(" and "), plural(row.lines, "line"))?;
    writeln!(out, "  {}", uses(&row.total, OF_OTHER_BYTES))?;
    for side in &row.sides {
        threads(out, side, OF_OTHER_BYTES, row.sides.len() > 1)?;
    }
    fold(out, &format!("→ {}", plain(&row.fix)), 2, 4)
}

fn truly(out: &mut impl Write, row: &SharedRow) -> fmt::Result {
    let uniform = if row.uniform { "uniform" } else { "not uniform" };
    writeln!(out, "\n  {STRONG}{}{STRONG:#}, {}, {uniform}", name(&row.member.name), plural(row.lines, "line"))?;
    writeln!(out, "  {}", uses(&row.total, OF_THE_SAME_BYTES))?;
    threads(out, &row.member, OF_THE_SAME_BYTES, false)?;
    fold(out, &format!("→ {}", plain(&row.fix)), 2, 4)
}

/// Who does what, and where.
fn threads(out: &mut impl Write, member: &MemberRow, misses: Misses, is_named: bool) -> fmt::Result {
    if is_named {
        writeln!(out, "  {}", name(&member.name))?;
    }
    let columns = [Column::Text("thread"), Column::Number("loads"), Column::Number("stores"), Column::Number("missed")];
    let mut rows = Rows::new(&columns, false);
    for thread in member.threads.iter().take(MOST_NAMED) {
        let uses = thread.uses;
        rows.push(vec![thread.tid.to_string(), count(uses.loads), count(uses.stores), count(misses(&uses))]);
    }
    rows.write(out, 4)?;
    if let Some(left) = member.threads.len().checked_sub(MOST_NAMED).filter(|&left| left > 0) {
        writeln!(out, "    … {}", plural(left as u64, "more thread"))?;
    }
    let code: Vec<String> = member
        .code
        .iter()
        .take(MOST_NAMED)
        .filter_map(|code| Some(shorten_path(&plain(&format!("{}:{}", code.file.as_deref()?, code.line?)), 30)))
        .collect();
    if code.is_empty() { Ok(()) } else { writeln!(out, "    at {}", code.join(" ")) }
}

#[cfg(test)]
mod tests {
    use slimline_analyze::sharing::findings;
    use slimline_simulate::access::{Access, AccessKind, Consumer as _};
    use slimline_simulate::sharing::LineFinder;

    use super::super::a_run;
    use super::*;

    #[test]
    fn a_small_report() {
        let machine = a_run::machine();
        // Behind all else two threads add to the same eight bytes, in turn.
        let add =
            |thread| Access { address: 0x20_0100, key: thread * 4 + 2, bytes: 8, thread, kind: AccessKind::Modify };
        let accesses = [a_run::accesses(), [add(1), add(2)].repeat(9)].concat();
        let mut finder = LineFinder::new(machine.line_bytes());
        finder.take(&accesses);
        let mut lines = finder.finish(&machine, 3).unwrap();
        lines.take(&accesses);
        let origins = a_run::origins();
        let found = findings(&lines, &origins);
        let report = SharingReport::new(a_run::trace(), &machine.name, &lines, &found, &origins);
        let mut out = String::new();
        sharing(&mut out, &report, 3).unwrap();
        insta::assert_snapshot!(a_run::unstyled(&out));
        insta::assert_snapshot!(report.csv());
    }
}
