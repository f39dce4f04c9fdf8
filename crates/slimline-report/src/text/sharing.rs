//! What threads share as text.

use std::cmp::Reverse;
use std::fmt::{self, Write};

use slimline_trace::escape::plain;

use super::full_trace::more;
use super::number::{count, percent, plural, plural_of, range};
use super::simulation::{access_trace, data_name};
use super::table::{Column, Rows, shorten_path};
use super::{HEADING, STRONG, WIDTH, fold, folded};
use crate::sharing::{
    BesideRow, FalseRow, MemberRow, NameRow, SampledRun, SampledShares, SharedRow, Sharers, SharingReport, UsesRow,
};

/// Threads, and lines of code, that are named.
const MOST_NAMED: usize = 4;

/// Writes the report; at most so many of each sort of sharing.
///
/// # Errors
/// As `out`.
pub fn sharing(out: &mut impl Write, report: &SharingReport, most: usize) -> fmt::Result {
    access_trace(out, &report.trace)?;
    for remark in remarks(report) {
        fold(out, &remark, 0, 2)?;
    }
    let weight = report.sampled.as_ref().map_or("", |run| run.weight);
    if !report.falsely_shared.is_empty() {
        let who = sharers(report.falsely_shared.iter().map(FalseRow::sharers));
        writeln!(out, "\n{HEADING}False sharing: {who} use other bytes of the same lines{HEADING:#}")?;
        for row in report.falsely_shared.iter().take(most) {
            falsely(out, row, weight)?;
        }
        more(out, report.falsely_shared.len(), most)?;
    }
    if !report.shared.is_empty() {
        let who = sharers(report.shared.iter().map(SharedRow::sharers));
        writeln!(out, "\n{HEADING}True sharing: {who} use the same bytes{HEADING:#}")?;
        for row in report.shared.iter().take(most) {
            truly(out, row, weight)?;
        }
        more(out, report.shared.len(), most)?;
    }
    Ok(())
}

/// Who shares in all of these rows.
fn sharers(rows: impl Iterator<Item = Sharers>) -> String {
    let mut all: Vec<&str> = rows.map(|sharers| sharers.several).collect();
    all.sort_unstable_by_key(|several| Reverse(*several));
    all.dedup();
    all.join(" or ")
}

/// What was read, how much of that does no harm, and what is left open.
pub(crate) fn remarks(report: &SharingReport) -> Vec<String> {
    let lines = |n| plural(n, "line");
    let machine = plain(&report.machine);
    let mut remarks = match &report.sampled {
        Some(run) => seen(run, report.line_bytes),
        None => vec![format!(
            "Lines of {} bytes; each thread has the first level of {machine} for itself",
            report.line_bytes
        )],
    };
    if report.only_loaded_lines > 0 {
        remarks.push(format!("{} that several threads only loaded: no harm", lines(report.only_loaded_lines)));
    }
    if report.in_turn_lines > 0 {
        let used = lines(report.in_turn_lines);
        let named = if report.in_turn.is_empty() { String::new() } else { format!(" ({})", names(&report.in_turn)) };
        let harm = match report.hardly_overlapped() {
            None => format!("no harm{named}"),
            Some(overlap) => format!(
                "whether that does harm where they run at the same time is not known, as they hardly did ({} of what all but the \
                 busiest accessed){named}",
                percent(overlap)
            ),
        };
        remarks.push(format!("{used} that one thread used after the other: {harm}"));
    }
    if report.shared.is_empty() && report.falsely_shared.is_empty() {
        let nothing = match report.in_turn_lines {
            _ if report.sampled.is_some() => "No line was seen to go from thread to thread three times or more",
            0 => "Nothing that one thread stores is in a line that others use",
            _ if report.alone_accesses > 0 => {
                "No line was seen to go from thread to thread time and again; seen is what follows a second thread's first access to a line, \
                 and what is missing, from before, took it from no thread"
            }
            _ => "No line went from thread to thread time and again",
        };
        remarks.push(nothing.to_owned());
    }
    remarks
}

/// How much samples saw, and what that leaves open.
fn seen(run: &SampledRun, line_bytes: u32) -> Vec<String> {
    let looks = match (run.looks_are, run.looks) {
        ("bursts", n) => plural(n, "burst"),
        (_, n) => plural(n, "sample"),
    };
    let seen = format!(
        "Lines of {line_bytes} bytes, seen by {looks}, {}: counts are of these. Times that a line was gone are the least: \
         how often between two of them, and in which order, is not known.",
        plural_of(run.accesses, "access", "accesses")
    );
    let enough = run.enough_looks;
    let open = match run.looks {
        looks if looks < enough => {
            format!(
                "Few {}: from {enough} on all is told that threads share; of these much may be missing",
                run.looks_are
            )
        }
        looks => {
            format!("What fewer than {} of them ({}) see may be missing", enough, percent(enough as f64 / looks as f64))
        }
    };
    let mut remarks = vec![seen, open];
    if run.undecided_lines > 0 {
        remarks.push(format!(
            "Not enough {} to tell of {}: about {} are needed, by a longer run or a higher rate ({})",
            run.looks_are,
            plural(run.undecided_lines, "line"),
            count(run.needed_looks),
            names(&run.undecided)
        ));
    }
    remarks
}

/// The first of them.
fn names(rows: &[NameRow]) -> String {
    let names: Vec<String> = rows.iter().take(MOST_NAMED).map(name).collect();
    let others = if rows.len() > MOST_NAMED { ", …" } else { "" };
    names.join(", ") + others
}

/// What it costs, where that is known.
pub(crate) fn costs(cost_share: Option<f64>, sampled: Option<&SampledShares>, weight: &str) -> Option<String> {
    let of_samples = sampled.map(|of| {
        let (accesses, of_weight) = (range(of.access_interval), range(of.weight_interval));
        format!(
            "{} of the accesses seen ({accesses} %), {} of the {weight} ({of_weight} %)",
            percent(of.access_share),
            percent(of.weight_share)
        )
    });
    of_samples.or_else(|| {
        let about = |share: String| if share.starts_with('<') { share } else { format!("about {share}") };
        cost_share.map(|share| format!("{} of what all accesses cost", about(percent(share))))
    })
}

pub(crate) fn name(row: &NameRow) -> String {
    let data = data_name(row.variable.as_deref(), &row.data);
    match &row.field {
        Some(field) => format!("{data}: {}", plain(field)),
        None => data,
    }
}

/// Which misses a section is about: what was lost to others' use of the same bytes is not told again where they used other
/// bytes.
pub(crate) type Misses = fn(&UsesRow) -> u64;

pub(crate) const OF_OTHER_BYTES: Misses = |uses| uses.false_misses;
pub(crate) const OF_THE_SAME_BYTES: Misses = |uses| uses.true_misses;

/// How often it was accessed, and the line gone for it.
pub(crate) fn uses(total: &UsesRow, misses: Misses, is_sampled: bool) -> String {
    let missed = match misses(total) {
        0 => "the line was never gone for it".to_owned(),
        misses if is_sampled => format!("{} or more the line was gone", plural(misses, "time")),
        misses => format!("{} the line was gone", plural(misses, "time")),
    };
    format!("{}, {}; {missed}", plural(total.loads, "load"), plural(total.stores, "store"))
}

/// A line or, of long names, several.
fn title(out: &mut impl Write, text: &str) -> fmt::Result {
    writeln!(out)?;
    folded(text, WIDTH, 2, 4).iter().try_for_each(|line| writeln!(out, "{STRONG}{line}{STRONG:#}"))
}

fn falsely(out: &mut impl Write, row: &FalseRow, weight: &str) -> fmt::Result {
    let names: Vec<String> = row.sides.iter().map(|side| name(&side.name)).collect();
    title(out, &format!("{}, {}", names.join(" and "), plural(row.lines, "line")))?;
    writeln!(out, "  {}", uses(&row.total, OF_OTHER_BYTES, row.sampled.is_some()))?;
    if let Some(costs) = costs(row.cost_share, row.sampled.as_ref(), weight) {
        writeln!(out, "  {costs}")?;
    }
    for side in &row.sides {
        threads(out, side, row.sharers(), (OF_OTHER_BYTES, row.sides.len() > 1))?;
    }
    fold(out, &format!("→ {}", plain(&row.fix)), 2, 4)
}

fn truly(out: &mut impl Write, row: &SharedRow, weight: &str) -> fmt::Result {
    let uniform = if row.uniform { "uniform" } else { "not uniform" };
    title(out, &format!("{}, {}, {uniform}", name(&row.member.name), plural(row.lines, "line")))?;
    writeln!(out, "  {}", uses(&row.total, OF_THE_SAME_BYTES, row.sampled.is_some()))?;
    if let Some(costs) = costs(row.cost_share, row.sampled.as_ref(), weight) {
        writeln!(out, "  {costs}")?;
    }
    threads(out, &row.member, row.sharers(), (OF_THE_SAME_BYTES, false))?;
    if !row.beside.is_empty() {
        fold(out, &beside(&row.beside, row.sharers()), 2, 4)?;
    }
    fold(out, &format!("→ {}", plain(&row.fix)), 2, 4)
}

/// What is in the way beside.
pub(crate) fn beside(rows: &[BesideRow], sharers: Sharers) -> String {
    let named = |row: &BesideRow| format!("{} ({})", name(&row.name), plural(row.lines, "line"));
    let names: Vec<String> = rows.iter().take(MOST_NAMED).map(named).collect();
    let others = if rows.len() > MOST_NAMED { ", …" } else { "" };
    format!(
        "on the same line is what {} share, too: {}{others}; who takes the line for one takes the other along",
        sharers.several,
        names.join(", ")
    )
}

/// Who does what, and where.
fn threads(
    out: &mut impl Write,
    member: &MemberRow,
    sharers: Sharers,
    (misses, is_named): (Misses, bool),
) -> fmt::Result {
    if is_named {
        fold(out, &name(&member.name), 2, 4)?;
    }
    let mut columns =
        vec![Column::Text("thread"), Column::Number("loads"), Column::Number("stores"), Column::Number("missed")];
    let with_processes = sharers == Sharers::PROCESSES;
    if with_processes {
        columns.insert(0, Column::Text("process"));
    }
    let mut rows = Rows::new(&columns, false);
    for thread in member.threads.iter().take(MOST_NAMED) {
        let uses = thread.uses;
        let mut row = vec![thread.tid.to_string(), count(uses.loads), count(uses.stores), count(misses(&uses))];
        if with_processes {
            row.insert(0, thread.pid.to_string());
        }
        rows.push(row);
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
    use slimline_analyze::sampled_sharing::{Evidence, Sampled, SampledFindings, Undecided};
    use slimline_analyze::share::Share;
    use slimline_analyze::sharing::{SharingFindings, findings};
    use slimline_simulate::access::{Access, AccessKind, Consumer as _, Work};
    use slimline_simulate::sharing::{LineFinder, SharedLines};

    use super::super::a_run;
    use super::*;
    use crate::simulation::AccessTrace;

    /// Lines that threads share.
    fn lines() -> SharedLines {
        let machine = a_run::machine();
        // Behind all else two threads add to the same eight bytes, in turn.
        let add = |thread| Access {
            address: 0x20_0100,
            key: thread * 4 + 2,
            bytes: 8,
            thread,
            kind: AccessKind::Modify,
            work: Work::USUAL,
        };
        let accesses = [a_run::accesses(), [add(1), add(2)].repeat(9)].concat();
        let mut finder = LineFinder::new(machine.line_bytes());
        finder.take(&accesses);
        let mut lines = finder.finish(&machine, 3).unwrap();
        lines.take(&accesses);
        lines
    }

    #[test]
    fn two_on_one_line_name_each_other() {
        let (machine, origins) = (a_run::machine(), a_run::origins());
        let add = |thread, what, address| Access {
            address,
            key: thread * 4 + what,
            bytes: 8,
            thread,
            kind: AccessKind::Modify,
            work: Work::USUAL,
        };
        let turn = [add(1, 2, 0x100), add(2, 2, 0x100), add(1, 1, 0x108), add(2, 1, 0x108)].repeat(9);
        let mut finder = LineFinder::new(machine.line_bytes());
        finder.take(&turn);
        let mut lines = finder.finish(&machine, 3).unwrap();
        lines.take(&turn);
        let found = findings(&lines.lines(), lines.line_bytes(), &origins);
        let report = SharingReport::new(a_run::trace(), &machine.name, (64, 0, None), &found, &origins);
        let mut out = String::new();
        sharing(&mut out, &report, 3).unwrap();
        let said = a_run::unstyled(&out);
        assert_eq!(said.matches("put what is shared on the same").count(), 2, "{said}");
        for name in ["CDF, filter.c:12", "counts: worker.done"] {
            let line = format!("on the same line is what threads share, too: {name} (1 line);");
            assert!(said.contains(&line), "{said}");
        }
        let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
        assert_eq!(
            (&json["shared"][0]["beside"][0]["lines"], json["shared"].as_array().unwrap().len()),
            (&1.into(), 2)
        );
    }

    #[test]
    fn a_small_report() {
        let (machine, lines, origins) = (a_run::machine(), lines(), a_run::origins());
        let found = findings(&lines.lines(), lines.line_bytes(), &origins);
        let of_lines = (lines.line_bytes(), lines.only_loaded(), Some(0.1));
        let report = SharingReport::new(a_run::trace(), &machine.name, of_lines, &found, &origins);
        let mut out = String::new();
        sharing(&mut out, &report, 3).unwrap();
        insta::assert_snapshot!(a_run::unstyled(&out));
        insta::assert_snapshot!(report.csv());
    }

    /// What one thread used after the other may be in their way where they run at the same time.
    #[test]
    fn threads_that_hardly_overlapped_are_not_judged() {
        let (machine, origins) = (a_run::machine(), a_run::origins());
        let found = SharingFindings { in_turn_lines: 2, in_turn: vec![(0, 0)], ..SharingFindings::default() };
        let said = |overlap| {
            let report = SharingReport::new(a_run::trace(), &machine.name, (64, 0, overlap), &found, &origins);
            let mut out = String::new();
            sharing(&mut out, &report, 3).unwrap();
            a_run::unstyled(&out).split_whitespace().collect::<Vec<_>>().join(" ")
        };
        for overlap in [None, Some(0.1), Some(1.0)] {
            let said = said(overlap);
            assert!(said.contains("2 lines that one thread used after the other: no harm (CDF, filter.c:12"), "{said}");
        }
        let said = said(Some(0.03));
        assert!(
            said.contains("not known, as they hardly did (3.0 % of what all but the busiest accessed) (CDF"),
            "{said}"
        );
    }

    /// What was seen once is not judged as what was seen whole.
    #[test]
    fn of_one_pass_the_verdict_is_of_what_was_seen() {
        let (machine, origins) = (a_run::machine(), a_run::origins());
        let found = SharingFindings { in_turn_lines: 2, in_turn: vec![(0, 0)], ..SharingFindings::default() };
        let whole = SharingReport::new(a_run::trace(), &machine.name, (64, 0, None), &found, &origins);
        let verdict = |report: &SharingReport| remarks(report).pop().unwrap();
        assert_eq!(verdict(&whole), "No line went from thread to thread time and again");
        let once = SharingReport { alone_accesses: 502, ..whole };
        assert_eq!(
            verdict(&once),
            "No line was seen to go from thread to thread time and again; seen is what follows a second thread's first access \
             to a line, and what is missing, from before, took it from no thread"
        );
    }

    #[test]
    fn elements_that_are_handed_over_are_no_threads_own() {
        let (machine, origins) = (a_run::machine(), a_run::origins());
        // One stores slots of eight bytes, and the other one loads what came before the last: it comes with that every other time.
        let access = |thread, kind, slot: u64| Access {
            address: 0x20_0200 + slot % 8 * 8,
            key: thread * 4 + 2,
            bytes: 8,
            thread,
            kind,
            work: Work::USUAL,
        };
        let turn = |n| [access(1, AccessKind::Store, n + 1), access(2, AccessKind::Load, n)];
        let accesses: Vec<Access> = (0..600).flat_map(turn).collect();
        let mut finder = LineFinder::new(64);
        finder.take(&accesses);
        let mut lines = finder.finish(&machine, 3).unwrap();
        lines.take(&accesses);
        let found = findings(&lines.lines(), 64, &origins);
        let report = SharingReport::new(a_run::trace(), &machine.name, (64, 0, None), &found, &origins);
        assert_eq!(report.shared.iter().map(|row| row.way).collect::<Vec<_>>(), ["told"]);
        let fixes: Vec<&str> = report.falsely_shared.iter().map(|row| row.fix.as_str()).collect();
        assert!(matches!(fixes[..], [fix] if fix.ends_with("hand over 64 bytes or more at a time")), "{fixes:?}");
    }

    /// The same lines as if they had been sampled.
    fn of_samples(looks: u64, undecided: Undecided) -> SharingReport {
        let (lines, origins) = (lines(), a_run::origins());
        let mut found = findings(&lines.lines(), lines.line_bytes(), &origins);
        // Other lines of it are shared.
        found.in_turn.push(found.falsely[0].sides[0].member);
        let share = |value, low, high| Share { value, low, high, samples: 40 };
        let often = Sampled { accesses: share(0.25, 0.21, 0.3), weight: share(0.4, 0.35, 0.452) };
        let rarely = Sampled { accesses: share(0.001, 0.0, 0.01), weight: share(0.001, 0.0002, 0.004) };
        let sampled = SampledFindings {
            line_bytes: lines.line_bytes(),
            only_loaded: 2,
            evidence: Evidence { is_bursts: true, looks, accesses: 12_345, threads: 3, timeless: 0, overlap: None },
            of_shared: vec![rarely; found.shared.len()],
            of_falsely: vec![often; found.falsely.len()],
            undecided,
            found,
            origins,
        };
        let trace = AccessTrace { format: "session", file: "slimline.data".to_owned(), ..a_run::trace() };
        SharingReport::of_samples(trace, "two nodes", &sampled, "time")
    }

    #[test]
    fn a_small_report_of_samples() {
        let undecided = Undecided { lines: 3, members: vec![(0, 0)], needed_looks: 1300 };
        let mut out = String::new();
        sharing(&mut out, &of_samples(300, undecided), 3).unwrap();
        // CDF is undecided, and in no line that does no harm.
        insta::assert_snapshot!(a_run::unstyled(&out));
        let mut out = String::new();
        sharing(&mut out, &of_samples(7, Undecided::default()), 3).unwrap();
        assert!(
            out.contains("Few bursts: from 24 on all is told that threads share; of these much may be missing"),
            "{out}"
        );
        insta::assert_snapshot!(of_samples(300, Undecided::default()).csv());
    }
}
