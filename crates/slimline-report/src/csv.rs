//! A session's report as tables for spreadsheets and data frames: the rows of `slimline report --by`, all of them, as CSV (RFC 4180).
//!
//! Shares are of what `share_of` names. All but those of loops sum to 1, with a row for what belongs to no data. Names of columns
//! are stable, as those of the JSON are.

use crate::simulation::csv_cell;
use crate::text::By;
use crate::view::{Group, Interval, Loop, Position, ProcessReport, Report, Row};

/// The report cut so.
pub fn report(report: &Report, by: By) -> String {
    written(columns(by).iter().copied(), rows(report, by))
}

/// The same of each process, with its number before each row.
pub fn report_per_process(processes: &[ProcessReport], by: By) -> String {
    let with_pid = |process: &ProcessReport| {
        let pid = process.pid.to_string();
        let rows = rows(&process.report, by).into_iter();
        rows.map(move |row| [pid.clone()].into_iter().chain(row).collect()).collect::<Vec<Vec<String>>>()
    };
    written(["pid"].into_iter().chain(columns(by).iter().copied()), processes.iter().flat_map(with_pid).collect())
}

fn written<'a>(columns: impl Iterator<Item = &'a str>, rows: Vec<Vec<String>>) -> String {
    let mut text = columns.collect::<Vec<_>>().join(",") + "\n";
    for row in rows {
        let cells: Vec<String> = row.iter().map(|cell| csv_cell(cell)).collect();
        text += &(cells.join(",") + "\n");
    }
    text
}

fn columns(by: By) -> &'static [&'static str] {
    match by {
        By::Group => &[
            "data",
            "kind",
            "type",
            "share",
            "share_of",
            "share_low",
            "share_high",
            "samples",
            "loads",
            "stores",
            "objects",
            "bytes",
            "element_bytes",
            "allocated_in",
            "allocated_at",
            "declared_at",
        ],
        By::Field => FIELD_COLUMNS,
        By::Loop => &[
            "function",
            "module",
            "file",
            "first_line",
            "last_line",
            "depth",
            "share",
            "share_of",
            "share_low",
            "share_high",
            "computing",
            "data",
        ],
        By::Type | By::Line | By::Function | By::Thread | By::Region => {
            &["name", "detail", "share", "share_of", "share_low", "share_high", "samples"]
        }
        By::Quality => &["what", "missing_because", "share", "share_of"],
    }
}

fn rows(report: &Report, by: By) -> Vec<Vec<String>> {
    let of = report.session.weight.noun();
    match by {
        By::Group => groups(report, of),
        By::Field => fields(report, of),
        By::Loop => loops(report, of),
        By::Type => breakdown(&report.breakdowns.types, of),
        By::Line => breakdown(&report.breakdowns.lines, of),
        By::Function => breakdown(&report.breakdowns.functions, of),
        By::Thread => breakdown(&report.breakdowns.threads, of),
        By::Region => breakdown(&report.breakdowns.regions, of),
        By::Quality => quality(report, of),
    }
}

/// A share, whose it is, and its interval.
fn share(share: f64, of: &str, interval: Interval) -> [String; 4] {
    [share.to_string(), of.to_owned(), interval.low.to_string(), interval.high.to_string()]
}

fn groups(report: &Report, of: &str) -> Vec<Vec<String>> {
    let row = |group: &Group| {
        let at = group.allocated_at.as_ref().and_then(|at| at.file.as_ref().map(|file| format!("{file}:{}", at.line)));
        let allocated_in = group.allocated_at.as_ref().map_or("", |at| &at.function).to_owned();
        let mut row = vec![group.name.clone(), group.kind.clone(), group.type_name.clone().unwrap_or_default()];
        row.extend(share(group.share, of, group.share_interval));
        row.extend(
            [group.samples, group.loads, group.stores, group.blocks, group.bytes].map(|number| number.to_string()),
        );
        row.extend([optional(group.element_bytes), allocated_in, at.unwrap_or_default()]);
        row.push(group.declared_at.as_ref().map_or_else(String::new, position));
        row
    };
    report.groups.iter().map(row).collect()
}

/// Fields, and of each structure what is in none of them.
fn fields(report: &Report, of: &str) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for group in &report.groups {
        let begin = || vec![group.name.clone(), group.kind.clone(), group.type_name.clone().unwrap_or_default()];
        for field in &group.fields {
            let mut row = begin();
            row.extend([field.name.clone(), field.offset.to_string(), field.bytes.to_string()]);
            row.extend([(group.share * field.share).to_string(), of.to_owned()]);
            row.extend(
                [field.share, field.share_interval.low, field.share_interval.high].map(|share| share.to_string()),
            );
            row.push(field.access_share.to_string());
            row.extend([field.loads, field.stores].map(|number| number.to_string()));
            row.push(optional(field.stride_bytes));
            rows.push(row);
        }
        if group.elsewhere > 0.0 {
            let mut row = begin();
            row.extend([String::new(), String::new(), String::new()]);
            row.extend([(group.share * group.elsewhere).to_string(), of.to_owned(), group.elsewhere.to_string()]);
            row.resize(FIELD_COLUMNS.len(), String::new());
            rows.push(row);
        }
    }
    rows
}

const FIELD_COLUMNS: &[&str] = &[
    "data",
    "kind",
    "type",
    "field",
    "offset",
    "bytes",
    "share",
    "share_of",
    "share_of_data",
    "share_of_data_low",
    "share_of_data_high",
    "access_share",
    "loads",
    "stores",
    "stride_bytes",
];

fn loops(report: &Report, of: &str) -> Vec<Vec<String>> {
    let name = |id: u32| report.groups.iter().find(|group| group.id == id).map_or("", |group| group.name.as_str());
    let row = |found: &Loop| {
        let mut row = vec![found.function.clone(), found.module.clone(), found.file.clone().unwrap_or_default()];
        row.extend([found.first_line, found.last_line, found.depth].map(|number| number.to_string()));
        row.extend(share(found.share, of, found.share_interval));
        row.push(found.no_memory_share.to_string());
        row.push(found.groups.iter().map(|part| name(part.id)).collect::<Vec<_>>().join("; "));
        row
    };
    report.loops.iter().map(row).collect()
}

fn breakdown(rows: &[Row], of: &str) -> Vec<Vec<String>> {
    let row = |row: &Row| {
        let mut cells = vec![row.name.clone(), row.detail.clone()];
        cells.extend(share(row.share, of, row.share_interval));
        cells.push(row.samples.to_string());
        cells
    };
    rows.iter().map(row).collect()
}

/// What is resolved, and what is missing for which reason.
fn quality(report: &Report, of: &str) -> Vec<Vec<String>> {
    let found = &report.coverage;
    let resolved = [
        ("accesses", found.accesses),
        ("objects", found.objects),
        ("structures", found.structures),
        ("fields", found.fields),
    ];
    let row = |what: &str, reason: &str, share: f64| {
        vec![what.to_owned(), reason.to_owned(), share.to_string(), of.to_owned()]
    };
    let resolved = resolved.iter().map(|&(what, share)| row(what, "", share));
    let missing = found.missing.iter().map(|missing| row(&missing.what, &missing.reason, missing.share));
    resolved.chain(missing).collect()
}

fn optional(number: Option<impl ToString>) -> String {
    number.map_or_else(String::new, |number| number.to_string())
}

fn position(at: &Position) -> String {
    format!("{}:{}", at.file, at.line)
}
