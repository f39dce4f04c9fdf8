//! One data structure's fields by both counts.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

use super::cases::Structure;
use crate::measure::{Mean, mean};
use crate::oracle::Site;
use crate::slimline::{AllocatedAt, Group, Report};

/// A field's share of its structure's accesses, both ways.
#[derive(Debug, PartialEq)]
pub(super) struct Row {
    pub(super) field: String,
    /// Mean over the runs.
    pub(super) reported: Mean,
    pub(super) exact: f64,
}

impl Row {
    /// Reported less exact.
    pub(super) fn off(&self) -> f64 {
        self.reported.mean - self.exact
    }
}

/// A field, by where it is: offset, size, name.
type FieldKey = (u64, u64, String);

/// All fields with accesses by either count, by offset.
pub(super) fn rows(structure: &Structure, skip: &[&str], site: &Site, reports: &[Report]) -> Result<Vec<Row>> {
    let mut runs: BTreeMap<FieldKey, Vec<f64>> = BTreeMap::new();
    for (run, report) in reports.iter().enumerate() {
        for (field, share) in shares(structure, skip, report)? {
            let of_runs = runs.entry(field).or_default();
            // A field that earlier runs did not see had no accesses in them.
            of_runs.resize(run, 0.0);
            of_runs.push(share);
        }
    }
    for of_runs in runs.values_mut() {
        of_runs.resize(reports.len(), 0.0);
    }
    let exact_all: u64 = site.fields.iter().map(|field| field.reads + field.writes).sum();
    if exact_all == 0 {
        bail!("the oracle saw no access to {}", site.name);
    }
    let mut exact: BTreeMap<FieldKey, f64> = BTreeMap::new();
    for cell in &site.fields {
        let bytes = structure.element_bytes;
        let offset = (cell.offset + bytes - structure.start % bytes) % bytes;
        for &(wide, reads, writes) in &cell.sizes {
            // As reports have it: divided among the fields that it reaches, by bytes, also those of the next element; what is
            // wider than an element, as vectors over several, counts where it begins.
            let reached = if wide <= bytes { wide } else { 1 };
            for at in (offset..offset + reached).map(|at| at % bytes) {
                // The smallest field that holds the byte: a member of a union or an array, not the whole.
                let within = |(from, bytes, _): &&FieldKey| (*from..from + bytes).contains(&at);
                let field = runs.keys().filter(within).min_by_key(|(_, bytes, _)| *bytes).cloned();
                *exact.entry(field.unwrap_or((offset, 1, format!("+{offset}")))).or_default() +=
                    (reads + writes) as f64 / reached as f64 / exact_all as f64;
            }
        }
    }
    for field in exact.keys() {
        runs.entry(field.clone()).or_insert_with(|| vec![0.0; reports.len()]);
    }
    Ok(runs
        .into_iter()
        .map(|(key, of_runs)| Row {
            reported: mean(&of_runs),
            exact: exact.get(&key).copied().unwrap_or(0.0),
            field: key.2,
        })
        .collect())
}

/// Shares of the fields in one report. Fields of groups with the same type are the same, each group with the weight of
/// the accesses seen to it.
fn shares(structure: &Structure, skip: &[&str], report: &Report) -> Result<BTreeMap<FieldKey, f64>> {
    let mut fields: BTreeMap<FieldKey, f64> = BTreeMap::new();
    for group in report.groups.iter().filter(|group| structure.is(group, skip)) {
        for field in &group.fields {
            let accesses = (group.loads + group.stores) as f64 * field.access_share;
            *fields.entry((field.offset, field.bytes, field.name.clone())).or_default() += accesses;
        }
    }
    let all: f64 = fields.values().sum();
    if all == 0.0 {
        let paths = |group: &Group| Some(group.allocated_at.as_ref()?.stack.join(" < "));
        let names: Vec<String> = report.groups.iter().filter_map(paths).collect();
        bail!("the report has no accesses to such a group, but to what was allocated at:\n{}", names.join("\n"));
    }
    fields.values_mut().for_each(|accesses| *accesses /= all);
    Ok(fields)
}

impl Structure {
    /// Whether a report's group is of this structure.
    fn is(&self, group: &Group, skip: &[&str]) -> bool {
        let Some(AllocatedAt { stack }) = &group.allocated_at else { return false };
        // Frames are `function file:line`; a function of C++ may have spaces in it.
        let frames = stack.iter().filter_map(|frame| frame.rsplit_once(' '));
        let line = |place: &str| place.rsplit_once(':').and_then(|(_, line)| line.parse().ok());
        let mut frames = frames.map(|(function, place)| (function, line(place)));
        match self.line {
            // Wherever the library's own frames end.
            Some(_) => frames.any(|(function, line)| is_named(function, &self.function) && line == self.line),
            None => frames
                .find(|(function, _)| !skip.contains(function))
                .is_some_and(|(function, _)| function == self.function),
        }
    }
}

/// Whether a frame's function has that name, in a module or class or outside of them.
fn is_named(function: &str, name: &str) -> bool {
    function.strip_suffix(name).is_some_and(|path| path.is_empty() || path.ends_with("::"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle;
    use crate::slimline::Field;

    fn structure() -> Structure {
        Structure {
            name: "p".to_owned(),
            site: "main p.c:3".to_owned(),
            element_bytes: 16,
            start: 8,
            function: "make".to_owned(),
            line: None,
        }
    }

    /// Fields of 8 bytes, by offset and share.
    fn group(stack: &[&str], accesses: u64, fields: &[(u64, f64)]) -> Group {
        let field = |&(offset, access_share): &(u64, f64)| Field {
            offset,
            bytes: 8,
            name: format!("f{offset}"),
            access_share,
            ..Field::default()
        };
        Group {
            allocated_at: Some(AllocatedAt { stack: stack.iter().map(|frame| (*frame).to_owned()).collect() }),
            loads: accesses,
            fields: fields.iter().map(field).collect(),
            ..Group::default()
        }
    }

    fn site(fields: &[(u64, u64, u64)]) -> Site {
        let fields = fields
            .iter()
            .map(|&(offset, reads, writes)| oracle::Field { offset, reads, writes, sizes: vec![(4, reads, writes)] })
            .collect();
        let name = "main p.c:3".to_owned();
        Site { id: 1, name, element_bytes: 16, blocks: 1, bytes: 160, fields, ..Site::default() }
    }

    #[test]
    fn shares_are_added_up_over_groups_and_shifted_by_the_start() {
        let report = Report {
            groups: vec![
                group(&["make p.c:3", "main p.c:9"], 60, &[(0, 0.5), (8, 0.5)]),
                group(&["wrapper p.c:1", "make p.c:3"], 40, &[(8, 1.0)]),
                group(&["other p.c:5", "make p.c:3"], 1000, &[(0, 1.0)]),
            ],
            ..Report::default()
        };
        // The oracle counts from the block's start, 8 bytes before the first element: its +8 is field 0.
        let exact = site(&[(8, 300, 100), (0, 500, 0), (4, 100, 0)]);
        let rows = rows(&structure(), &["wrapper"], &exact, &[report]).unwrap();
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].field.as_str(), rows[0].exact), ("f0", 0.4));
        assert!((rows[0].reported.mean - 0.3).abs() < 1e-9 && (rows[0].off() + 0.1).abs() < 1e-9);
        // +0 and +4 of the block are both inside the field at 8.
        assert_eq!(rows[1].field, "f8");
        assert!((rows[1].reported.mean - 0.7).abs() < 1e-9 && (rows[1].exact - 0.6).abs() < 1e-9);
    }

    #[test]
    fn the_interval_is_of_all_runs_also_those_that_saw_nothing() {
        let run =
            |fields: &[(u64, f64)]| Report { groups: vec![group(&["make p.c:3"], 100, fields)], ..Report::default() };
        let reports = [run(&[(0, 1.0)]), run(&[(0, 0.8), (8, 0.2)]), run(&[(0, 1.0)])];
        let rows = rows(&structure(), &[], &site(&[(8, 9, 0), (0, 1, 0)]), &reports).unwrap();
        assert_eq!(rows[1].reported, mean(&[0.0, 0.2, 0.0]));
    }

    #[test]
    fn what_the_report_lacks_is_a_row_too() {
        let report = Report { groups: vec![group(&["make p.c:3"], 10, &[(0, 1.0)])], ..Report::default() };
        let rows = rows(&structure(), &[], &site(&[(8, 50, 0), (0, 50, 0)]), &[report]).unwrap();
        assert_eq!((rows[1].field.as_str(), rows[1].reported.mean, rows[1].exact), ("+8", 0.0, 0.5));
    }

    #[test]
    fn wide_accesses_are_divided_by_bytes() {
        let report = Report { groups: vec![group(&["make p.c:3"], 10, &[(0, 0.5), (8, 0.5)])], ..Report::default() };
        let mut exact = site(&[(8, 30, 10), (0, 10, 0)]);
        // Of field 0 all and of field 8 half: 20 and 10. Field 0 alone: 10. Field 8 and the next element's field 0: 5 and 5.
        exact.fields[0].sizes = vec![(12, 30, 0), (8, 0, 10)];
        exact.fields[1].sizes = vec![(16, 10, 0)];
        let rows = super::rows(&structure(), &[], &exact, std::slice::from_ref(&report)).unwrap();
        assert!((rows[0].exact - 0.7).abs() < 1e-9 && (rows[1].exact - 0.3).abs() < 1e-9, "{rows:?}");
        exact.fields[1].sizes = vec![(32, 10, 0)];
        let rows = super::rows(&structure(), &[], &exact, std::slice::from_ref(&report)).unwrap();
        assert!((rows[1].exact - 0.4).abs() < 1e-9, "two elements at once: {rows:?}");
    }

    #[test]
    fn a_function_allocates_on_several_lines() {
        let third = Structure { line: Some(3), ..structure() };
        assert!(third.is(&group(&["make src/p.c:3"], 1, &[]), &[]));
        assert!(!third.is(&group(&["make src/p.c:4"], 1, &[]), &[]));
        assert!(!third.is(&group(&["maker src/p.c:3"], 1, &[]), &[]));
        assert!(third.is(&group(&["Vec<T, A>::new v.rs:9", "p::make src/p.rs:3"], 1, &[]), &[]));
        assert!(!third.is(&group(&["remake src/p.c:3"], 1, &[]), &[]));
        assert!(rows(&third, &[], &site(&[(0, 1, 0)]), &[Report::default()]).is_err());
    }
}
