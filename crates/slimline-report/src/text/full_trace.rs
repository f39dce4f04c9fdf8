//! Full traces as text.

mod titles;

use std::fmt::{self, Write};

use slimline_trace::escape::plain;

use self::titles::titles;
use super::number::{bytes, count, duration, percent, plural, plural_of};
use super::table::{Column, Rows, shorten, shorten_callers, shorten_end, shorten_path};
use super::{HEADING, STRONG, WIDTH, file_name};
use crate::full_trace::{
    Counts, FieldAccesses, Function, HeapGroup, Named, NamedValues, NotLookedUp, Position, ProgramEnd, Sampled,
    SiteCount, StructureCounts, TraceReport, UnaskedFunction, Variable,
};

/// Columns of a position.
const POSITION_COLUMNS: usize = 36;
/// Columns of a name.
const NAME_COLUMNS: usize = 28;
/// Columns of the longest bar.
const BAR_COLUMNS: usize = 24;
/// Structures whose fields are charted.
const MOST_STRUCTURES: usize = 4;

/// Writes the report; at most so many rows a table.
///
/// # Errors
/// As `out`.
pub fn trace(out: &mut impl Write, report: &TraceReport, rows: usize) -> fmt::Result {
    head(out, report)?;
    if report.total.accesses == 0 {
        return Ok(());
    }
    heap(out, report, rows)?;
    names(out, "Types and fields", "field", &report.fields, report, rows)?;
    structures(out, report, rows)?;
    values(out, &report.values, rows)?;
    variables(out, report, rows)?;
    functions(out, report, rows)?;
    names(out, "Lines", "line", &report.lines, report, rows)?;
    sites(out, report, rows)
}

fn head(out: &mut impl Write, report: &TraceReport) -> fmt::Result {
    let total = &report.total;
    let threads: u64 = report.processes.iter().map(|process| process.threads).sum();
    writeln!(
        out,
        "{STRONG}{}{STRONG:#}: {} ({}), {} ({}); {}, {}",
        plural_of(total.accesses, "access", "accesses"),
        plural(total.loads, "load"),
        bytes(total.loaded_bytes),
        plural(total.stores, "store"),
        bytes(total.stored_bytes),
        plural_of(report.processes.len() as u64, "process", "processes"),
        plural(threads, "thread"),
    )?;
    remarks(report).iter().try_for_each(|remark| writeln!(out, "{remark}"))?;
    for missing in &report.missing {
        writeln!(out, "Missing: {}", plain(missing))?;
    }
    unasked(out, &report.unasked)
}

/// What is to be known of the numbers, in lines.
pub(crate) fn remarks(report: &TraceReport) -> Vec<String> {
    let total = &report.total;
    let mut remarks = Vec::new();
    if report.heap_total.accesses > 0 {
        let unseen = report.looked_up.map_or(0, |looked_up| looked_up.unseen);
        let most = percent(share(report.heap_total.accesses.saturating_add(unseen), total.accesses));
        let least = percent(share(report.heap_total.accesses, total.accesses));
        let share = if most == least { least } else { format!("{least} to {most}") };
        remarks.push(format!("{share} of them to blocks of the heap whose allocation was traced"));
    }
    if let Some(looked_up) = &report.looked_up {
        remarks.extend(sampled(looked_up, (report.left_out.is_some(), total.accesses)));
    }
    let waited_ns: u64 = report.processes.iter().map(|process| process.waited_ns).sum();
    if waited_ns > 0 {
        remarks.push(format!("Threads waited {} for the analysis, together", duration(waited_ns)));
    }
    if let Some(windows) = report.windows {
        let all = total.accesses.saturating_add(report.left_out.unwrap_or(0));
        let each = match windows {
            0 | 1 => plural_of(all, "access", "accesses"),
            _ => format!("{} each on average", plural_of(all / u64::from(windows), "access", "accesses")),
        };
        remarks.push(format!(
            "Traced in {}, of {each}: what is counted is within {}",
            plural(windows.into(), "window"),
            if windows == 1 { "it" } else { "them" }
        ));
    }
    match &report.end {
        Some(ProgramEnd { signal: Some(signal), signal_name, .. }) => {
            let name = signal_name.map_or_else(String::new, |name| format!("{name}, "));
            remarks.push(format!("The program was killed by {name}signal {signal}: this is what it did up to then"));
        }
        Some(ProgramEnd { status: Some(status), .. }) if *status != 0 => {
            remarks.push(format!("The program ended with exit status {status}"));
        }
        _ => {}
    }
    if let Some(left_out) = report.left_out {
        let accesses = plural_of(left_out, "access", "accesses");
        remarks.push(format!("Left out, as --function, --file, --type or --variable ask for others: {accesses}"));
    }
    remarks
}

/// Functions in which windows, start and stop take effect late.
fn unasked(out: &mut impl Write, functions: &[UnaskedFunction]) -> fmt::Result {
    /// More are in the JSON.
    const MOST: usize = 5;
    if functions.is_empty() {
        return Ok(());
    }
    writeln!(out, "Start, stop and windows take effect where these functions begin, but not in all of their loops:")?;
    for UnaskedFunction { function, file, reason } in functions.iter().take(MOST) {
        let file = file.as_deref().map_or_else(String::new, |file| format!(" ({})", shorten_path(file, NAME_COLUMNS)));
        let function = shorten_end(function, POSITION_COLUMNS);
        writeln!(out, "  {}: {}", plain(&format!("{function}{file}")), plain(reason))?;
    }
    match functions.len().saturating_sub(MOST) {
        0 => Ok(()),
        left => writeln!(out, "  … {} more (--format json)", count(left as u64)),
    }
}

/// Accesses of which nobody asked to what they are.
const NOT_LOOKED_UP: &str = "(not looked up)";

/// With fewer nobody knows how much parts differ.
const PARTS_OF_INTERVALS: u64 = 8;

/// Says what is an estimate, of so many accesses that are told of.
fn sampled(looked_up: &Sampled, (is_filtered, accesses): (bool, u64)) -> Vec<String> {
    let part = percent(share(looked_up.accesses, looked_up.of));
    let mut lines = vec![
        format!(
            "Sampled: to keep up, {part} of the accesses were looked up, in {}.",
            plural_of(looked_up.parts, "part", "parts")
        ),
        "Which blocks and static variables they are to, and fields that follow from blocks, is estimated".to_owned(),
        format!(
            "(± of shares: 95 %{}); counts by function, line and instruction are exact{}",
            if looked_up.parts < PARTS_OF_INTERVALS { ", ? as fewer than eight parts tell of none" } else { "" },
            if is_filtered { ", but for --variable" } else { "" }
        ),
    ];
    if looked_up.unseen > 0 {
        let unseen = percent(share(looked_up.unseen, accesses));
        lines.push(format!(
            "{unseen} are by instructions of which none was looked up: whether to the heap is not known"
        ));
    }
    lines
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Cells that every table ends with.
fn numbers(counts: &Counts, total: &Counts) -> [String; 4] {
    let bytes_moved = counts.loaded_bytes.saturating_add(counts.stored_bytes);
    [percent(share(counts.accesses, total.accesses)), count(counts.loads), count(counts.stores), bytes(bytes_moved)]
}

const NUMBERS: [Column; 4] =
    [Column::Number("share"), Column::Number("loads"), Column::Number("stores"), Column::Number("bytes")];

fn position(position: &Position, columns: usize) -> String {
    let Position { function, file, line, .. } = position;
    match (file, line) {
        (Some(file), Some(line)) => shorten_path(&plain(&format!("{file}:{line}")), columns),
        _ => function.as_deref().map_or_else(|| "(not known)".to_owned(), plain),
    }
}

fn names(
    out: &mut impl Write,
    title: &str,
    column: &'static str,
    named: &[Named],
    report: &TraceReport,
    most: usize,
) -> fmt::Result {
    named_rows(out, title, (column, None), named.iter().map(|row| (row, None)), report, most)
}

fn variables(out: &mut impl Write, report: &TraceReport, most: usize) -> fmt::Result {
    let Some(_) = report.looked_up else {
        let rows = report.variables.iter().map(|variable| (&variable.named, None));
        return named_rows(out, "Variables", ("variable", None), rows, report, most);
    };
    let columns = ("variable", Some(Further::OfShare("±")));
    let rows = report
        .variables
        .iter()
        .map(|Variable { named, share_error }| (named, Some(share_error.map_or_else(|| "?".to_owned(), percent))));
    named_rows(out, "Variables", columns, rows, report, most)
}

fn functions(out: &mut impl Write, report: &TraceReport, most: usize) -> fmt::Result {
    // Neither programs that are translated nor objects of an older slimline tell when functions begin.
    if report.functions.iter().all(|function| function.calls.is_none()) {
        let rows = report.functions.iter().map(|function| (&function.named, None));
        return named_rows(out, "Functions", ("function", None), rows, report, most);
    }
    let columns = ("function", Some(Further::OfName("calls")));
    let rows = report.functions.iter().map(|Function { named, calls }| {
        let calls = calls.map_or_else(|| "inlined".to_owned(), count);
        (named, Some(calls))
    });
    named_rows(out, "Functions", columns, rows, report, most)
}

/// A column beside the name and the numbers, by its heading: behind what it is of.
#[derive(Clone, Copy)]
enum Further {
    OfName(&'static str),
    OfShare(&'static str),
}

/// A table of what has names, by the heading of these and of a further column, which each has a cell for then.
fn named_rows<'a>(
    out: &mut impl Write,
    title: &str,
    (heading, further): (&'static str, Option<Further>),
    named: impl ExactSizeIterator<Item = (&'a Named, Option<String>)> + Clone,
    report: &TraceReport,
    most: usize,
) -> fmt::Result {
    // One row of what has no name says nothing.
    if named.clone().all(|(row, _)| row.name.is_none()) {
        return Ok(());
    }
    writeln!(out, "\n{HEADING}{title}{HEADING:#}")?;
    let of_names = |most| [&[Column::Shortened(heading, most)], &NUMBERS[..]].concat();
    let (at, columns) = match further {
        None => (1, of_names(44)),
        Some(Further::OfName(own)) => (1, inserted(of_names(32), 1, Some(Column::Number(own)))),
        Some(Further::OfShare(own)) => (2, inserted(of_names(36), 2, Some(Column::Number(own)))),
    };
    let mut rows = Rows::new(&columns, false);
    let all = named.len();
    let sum = named.clone().map(|(row, _)| row.counts.accesses);
    let sum = sum.fold(0, u64::saturating_add);
    for (row, cell) in named.take(most) {
        let name = row.name.as_deref().map_or_else(|| "(not known)".to_owned(), plain);
        rows.push(inserted([&[name], &numbers(&row.counts, &report.total)[..]].concat(), at, cell));
    }
    rows.write(out, 2)?;
    more(out, all, most)?;
    several_at_once(out, sum, report.total.accesses)
}

/// With one more cell there, if there is one.
fn inserted<C>(mut cells: Vec<C>, at: usize, cell: Option<C>) -> Vec<C> {
    cells.splice(at..at, cell);
    cells
}

/// Why shares of fields add up to more than all, where they do.
fn several_at_once(out: &mut impl Write, of_fields: u64, accesses: u64) -> fmt::Result {
    if of_fields <= accesses {
        return Ok(());
    }
    let all = percent(share(of_fields, accesses));
    writeln!(out, "  Shares add up to {all}: what accesses several fields at once, as vectors do, counts for each")
}

/// Charts of the structures that have fields to tell apart, and the definitions of those to be split.
fn structures(out: &mut impl Write, report: &TraceReport, most: usize) -> fmt::Result {
    let is_charted = |found: &&StructureCounts| {
        ["split", "nothing_cold", "little_cold", "one_object", "not_plain", "unclear", "foreign"]
            .contains(&found.verdict)
    };
    let charted: Vec<&StructureCounts> = report.structures.iter().filter(is_charted).collect();
    for found in charted.iter().take(MOST_STRUCTURES.min(most)) {
        let accesses = plural_of(found.accesses, "access", "accesses");
        let numbers = format!(", {}: {accesses} to its fields", bytes(found.bytes.into()));
        let name = if found.name.is_empty() { "(no name)" } else { &found.name };
        writeln!(
            out,
            "\n{HEADING}{}{numbers}{HEADING:#}",
            shorten(&plain(name), WIDTH.saturating_sub(numbers.chars().count()))
        )?;
        chart(out, found, most)?;
        let cold = || found.fields.iter().filter(|field| field.cold);
        let bytes = cold().map(|field| u64::from(field.bytes)).sum::<u64>();
        let part = percent(share(cold().map(|field| field.accesses).sum(), found.accesses));
        match found.verdict {
            "split" => {
                write!(out, "  {bytes} of {} bytes are cold, with {part} of the accesses", found.bytes)?;
                if found.elsewhere > 0 {
                    let elsewhere = percent(share(found.elsewhere, found.accesses));
                    write!(out, ", perhaps {elsewhere} (no single field)")?;
                }
                writeln!(out, "; split so:")?;
                for line in found.code.lines() {
                    writeln!(out, "      {}", plain(line))?;
                }
            }
            "little_cold" => {
                writeln!(
                    out,
                    "  {bytes} of {} bytes are cold, but with a pointer in their place it would be as large.\n  \
                     Those of an array can go into an array of their own, by the same index",
                    found.bytes
                )?;
            }
            "one_object" => writeln!(
                out,
                "  {bytes} of {} bytes are cold, but there is one object of it: not split. Its hot fields can stand together",
                found.bytes
            )?,
            "not_plain" => writeln!(
                out,
                "  {bytes} of {} bytes are cold, but it has a parent, a part without a name or an open end: not split",
                found.bytes
            )?,
            "foreign" => {
                writeln!(
                    out,
                    "  {bytes} of {} bytes are cold, but it is of the system's headers: not split",
                    found.bytes
                )?;
            }
            "unclear" => writeln!(
                out,
                "  Fields look cold, but of many accesses that may be of it nobody knows the field: not split"
            )?,
            _ => writeln!(out, "  No field is cold")?,
        }
    }
    match charted.len().saturating_sub(MOST_STRUCTURES.min(most)) {
        0 => Ok(()),
        left => writeln!(out, "  … {} more structures (--format json)", count(left as u64)),
    }
}

/// A bar for each field, in their order; those without accesses are put together at the end.
fn chart(out: &mut impl Write, found: &StructureCounts, most: usize) -> fmt::Result {
    let columns = [
        Column::Number("offset"),
        Column::Shortened("field", NAME_COLUMNS),
        Column::Number("share"),
        Column::Text(""),
        Column::Text(""),
    ];
    let mut rows = Rows::new(&columns, false);
    let mut row = |offset: String, name: String, accesses: u64, temper: &str| {
        let part = share(accesses, found.accesses);
        let bar = "█".repeat((part * BAR_COLUMNS as f64).round() as usize);
        rows.push(vec![offset, name, percent(part), bar, temper.to_owned()]);
    };
    // The most accessed ones, in the order of the structure.
    let mut shown: Vec<&FieldAccesses> = found.fields.iter().filter(|field| field.accesses > 0).collect();
    shown.sort_by_key(|field| std::cmp::Reverse(field.accesses));
    shown.truncate(most);
    shown.sort_by_key(|field| field.offset);
    for field in &shown {
        let temper = if field.cold { "cold" } else { "" };
        row(field.offset.to_string(), plain(&field.name), field.accesses, temper);
    }
    let of_shown: u64 = shown.iter().map(|field| field.accesses).sum();
    let others = found.fields.len() - shown.len();
    if others > 0 {
        let left = found.accesses.saturating_sub(of_shown).saturating_sub(found.elsewhere);
        let name = if others == 1 { "(1 other field)".to_owned() } else { format!("({others} other fields)") };
        row(String::new(), name, left, "");
    }
    if found.elsewhere > 0 {
        row(String::new(), "(no single field)".to_owned(), found.elsewhere, "");
    }
    rows.write(out, 2)
}

pub(super) fn more(out: &mut impl Write, all: usize, most: usize) -> fmt::Result {
    match all.checked_sub(most) {
        None | Some(0) => Ok(()),
        Some(left) => writeln!(out, "  … {} more (--rows)", count(left as u64)),
    }
}

fn heap(out: &mut impl Write, report: &TraceReport, most: usize) -> fmt::Result {
    if report.heap.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{HEADING}Heap, by allocation site{HEADING:#}")?;
    // Room for one more column.
    let of_position = if report.looked_up.is_some() { POSITION_COLUMNS - 9 } else { POSITION_COLUMNS };
    let columns = [
        Column::Shortened("allocated at", of_position),
        Column::Shortened("type", 16),
        Column::Number("blocks"),
        Column::Number("peak"),
    ];
    let [share, loads, stores, _] = NUMBERS;
    let error = report.looked_up.map(|_| Column::Number("±"));
    let columns: Vec<_> = columns.into_iter().chain([share]).chain(error).chain([loads, stores]).collect();
    let mut rows = Rows::new(&columns, false);
    let titles = titles(&report.heap, of_position);
    for (group, title) in report.heap.iter().zip(&titles).take(most) {
        let own = [
            title.clone(),
            group.type_name.as_deref().map_or_else(String::new, plain),
            count(group.blocks),
            bytes(group.peak_bytes),
        ];
        let [share, loads, stores, _] = numbers(&group.counts, &report.total);
        let error = report.looked_up.map(|_| group.share_error.map_or_else(|| "?".to_owned(), percent));
        let told = [share].into_iter().chain(error).chain([loads, stores]);
        rows.push(
            own.into_iter()
                .chain(told.map(|cell| if group.is_not_looked_up { "?".to_owned() } else { cell }))
                .collect(),
        );
    }
    if let Some(NotLookedUp { counts, .. }) = &report.not_looked_up {
        let own = [NOT_LOOKED_UP.to_owned(), String::new(), String::new(), String::new()];
        let [share, loads, stores, _] = numbers(counts, &report.total);
        rows.push(own.into_iter().chain([share, String::new(), loads, stores]).collect());
    }
    rows.write(out, 2)?;
    more(out, report.heap.len(), most)?;
    let titles = self::titles(&report.heap, WIDTH - "Fields of what  allocates".len());
    let with_fields = |(group, _): &(&HeapGroup, &String)| group.fields.iter().any(|field| field.name.is_some());
    for (group, title) in report.heap.iter().zip(&titles).take(most).filter(with_fields) {
        let title = shorten_callers(title, WIDTH - "Fields of what  allocates".len());
        writeln!(out, "\n{HEADING}Fields of what {title} allocates{HEADING:#}")?;
        let mut rows = Rows::new(&[&[Column::Shortened("field", 44)], &NUMBERS[..]].concat(), false);
        for field in group.fields.iter().take(most) {
            let name = field.name.as_deref().map_or_else(|| "(not known)".to_owned(), plain);
            rows.push([&[name], &numbers(&field.counts, &group.counts)[..]].concat());
        }
        rows.write(out, 2)?;
        more(out, group.fields.len(), most)?;
        let of_fields = group.fields.iter().fold(0, |sum: u64, field| sum.saturating_add(field.counts.accesses));
        several_at_once(out, of_fields, group.counts.accesses)?;
    }
    let not_looked_up = report.not_looked_up.iter().flat_map(|of| &of.fields).map(|row| (row, None));
    let not_looked_up: Vec<_> = not_looked_up.collect();
    named_rows(
        out,
        "Fields that were not looked up: of which blocks is not known",
        ("field", None),
        not_looked_up.into_iter(),
        report,
        most,
    )
}

fn values(out: &mut impl Write, values: &[NamedValues], most: usize) -> fmt::Result {
    if values.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{HEADING}Values{HEADING:#}")?;
    let columns = [
        Column::Shortened("of", 32),
        Column::Text("bytes"),
        Column::Number("values"),
        Column::Number("zero"),
        Column::Number("least"),
        Column::Number("greatest"),
        Column::Number("different"),
        Column::Text("fits in"),
    ];
    let mut rows = Rows::new(&columns, false);
    for row in values.iter().take(most) {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        rows.push(vec![
            row.name.as_deref().map_or_else(|| "(not known)".to_owned(), plain),
            row.bytes.to_string(),
            count(row.values),
            percent(share(row.zeros, row.values)),
            text(&row.least),
            text(&row.greatest),
            row.distinct.map_or_else(|| "many".to_owned(), |distinct| format!("~{}", count(distinct))),
            row.narrowest.unwrap_or_default().to_owned(),
        ]);
    }
    rows.write(out, 2)?;
    more(out, values.len(), most)
}

fn sites(out: &mut impl Write, report: &TraceReport, most: usize) -> fmt::Result {
    writeln!(out, "\n{HEADING}Instructions{HEADING:#}")?;
    let columns = [
        Column::Shortened("at", POSITION_COLUMNS),
        Column::Text("does"),
        Column::Shortened("to", NAME_COLUMNS),
        Column::Number("share"),
        Column::Number("times"),
    ];
    let mut rows = Rows::new(&columns, false);
    for site in report.sites.iter().take(most) {
        let SiteCount { variable, field, .. } = site;
        let at = position(&site.position, POSITION_COLUMNS);
        rows.push(vec![
            match site.address.as_deref().filter(|_| site.position.line.is_none()) {
                Some(address) => format!("{at} ({address})"),
                None => at,
            },
            does(site),
            field.as_deref().or(variable.as_deref()).map_or_else(String::new, plain),
            percent(share(site.counts.accesses, report.total.accesses)),
            count(site.executions),
        ]);
    }
    rows.write(out, 2)?;
    more(out, report.sites.len(), most)
}

/// What an instruction does. A copy has a row of what it loads, and one of what it stores.
fn does(site: &SiteCount) -> String {
    match (site.kind, site.counts.loads, site.counts.stores) {
        ("copy", 1.., 0) => "copy (load)".to_owned(),
        ("copy", 0, 1..) => "copy (store)".to_owned(),
        (kind, ..) => kind.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::a_run::unstyled;
    use super::*;
    use crate::full_trace::TracedProcess;

    pub(super) fn counts(loads: u64, stores: u64) -> Counts {
        Counts { accesses: loads + stores, loads, stores, loaded_bytes: loads * 8, stored_bytes: stores * 8 }
    }

    fn named(name: &str, loads: u64, stores: u64) -> Named {
        Named { name: (!name.is_empty()).then(|| name.to_owned()), counts: counts(loads, stores) }
    }

    fn field(name: &str, offset: u32, accesses: u64) -> FieldAccesses {
        let bytes = if name == "note" { 48 } else { 8 };
        FieldAccesses {
            name: name.to_owned(),
            offset,
            bytes,
            accesses,
            cold: accesses == 0,
            ..FieldAccesses::default()
        }
    }

    #[test]
    fn a_small_report() {
        let at = |line| Position {
            function: Some("walk".to_owned()),
            file: Some("list.c".to_owned()),
            line: Some(line),
            column: Some(3),
        };
        let report = TraceReport {
            processes: vec![TracedProcess { pid: 7, threads: 2, waited_ns: 1_500_000, ..TracedProcess::default() }],
            missing: vec!["7 chunks were thrown away".to_owned()],
            total: counts(1_500_000, 500_000),
            heap_total: counts(1_000_000, 0),
            heap: vec![HeapGroup {
                in_library: false,
                position: at(2),
                callers: Vec::new(),
                allocator: Some("malloc".to_owned()),
                variable: Some("list".to_owned()),
                type_name: Some("node".to_owned()),
                blocks: 1000,
                allocated_bytes: 64_000,
                peak_bytes: 64_000,
                counts: counts(1_000_000, 0),
                share_error: None,
                is_not_looked_up: false,
                fields: vec![named("node.next", 900_000, 0), named("", 100_000, 0)],
            }],
            structures: vec![StructureCounts {
                name: "node".to_owned(),
                bytes: 64,
                accesses: 1_000_000,
                elsewhere: 50_000,
                verdict: "split",
                fields: vec![field("key", 0, 50_000), field("next", 8, 900_000), field("note", 16, 0)],
                code: "struct node_cold {\n    char note[48];\n};\n".to_owned(),
            }],
            variables: [named("list", 1_500_000, 0), named("", 0, 500_000)]
                .map(|named| Variable { named, share_error: None })
                .to_vec(),
            sites: vec![SiteCount {
                position: at(7),
                inlined: None,
                kind: "load",
                address: None,
                variable: Some("list".to_owned()),
                field: Some("node.next".to_owned()),
                executions: 900_000,
                counts: counts(900_000, 0),
            }],
            ..TraceReport::default()
        };
        let mut out = String::new();
        trace(&mut out, &report, 1).unwrap();
        insta::assert_snapshot!(unstyled(&out));
        // The same where only some was looked up.
        let looked_up = Some(Sampled { accesses: 250_000, of: 2_000_000, unseen: 10_000, parts: 9 });
        let share_error = Some(0.0042);
        let mut heap: Vec<_> = report.heap.iter().map(|group| HeapGroup { share_error, ..group.clone() }).collect();
        // And of blocks none of whose accesses was.
        heap.push(HeapGroup {
            position: at(12),
            counts: Counts::default(),
            share_error: None,
            is_not_looked_up: true,
            fields: Vec::new(),
            ..heap[0].clone()
        });
        let not_looked_up =
            Some(NotLookedUp { counts: counts(6_000, 4_000), fields: vec![named("late.x", 6_000, 4_000)] });
        let mut out = String::new();
        trace(&mut out, &TraceReport { looked_up, not_looked_up, heap, ..report }, 2).unwrap();
        let text = unstyled(&out);
        insta::assert_snapshot!("an_estimate", text.split("\n\n").take(4).collect::<Vec<_>>().join("\n\n"));
    }

    #[test]
    fn shares_of_more_than_all_are_explained() {
        let told = |of_fields| {
            let mut out = String::new();
            several_at_once(&mut out, of_fields, 200).unwrap();
            out
        };
        assert_eq!(told(200), "");
        let line = "  Shares add up to 150.0 %: what accesses several fields at once, as vectors do, counts for each\n";
        assert_eq!(told(300), line);
    }
}
