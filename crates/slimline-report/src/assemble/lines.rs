//! Lines of the source: what each costs, and what it accesses.

use std::collections::{BTreeMap, BTreeSet};

use slimline_analyze::findings::Findings;
use slimline_attribute::tables::{CodePlace, Tables};

use super::breakdowns::interval;
use crate::view;

/// Lines that have samples, and those whose accesses to fields loops were seen to make.
pub(super) fn view(findings: &Findings, tables: &Tables) -> Vec<view::Line> {
    let mut lines: BTreeMap<(&str, u32), view::Line> = BTreeMap::new();
    for row in &findings.hot.lines {
        if let Some(CodePlace::Line { file, line }) = &row.key {
            let found = view::Line {
                file: file.clone(),
                line: *line,
                share: row.share.value,
                share_interval: interval(&row.share),
                samples: row.share.samples,
                groups: Vec::new(),
            };
            lines.insert((file, *line), found);
        }
    }
    let rows: BTreeMap<_, _> = findings.groups.iter().map(|group| (group.group, group)).collect();
    let mut accessed: BTreeMap<(&str, u32), BTreeMap<u32, BTreeSet<u64>>> = BTreeMap::new();
    for part in findings.loops.iter().flat_map(|found| &found.groups) {
        let Some(group) = rows.get(&part.group) else { continue };
        for field in part.fields.iter().filter(|field| !field.only_spanned) {
            let places = field.sites.iter().filter_map(|&site| tables.site(site).position());
            for at in places.filter(|at| at.line > 0) {
                let of_line = accessed.entry((&at.file, at.line)).or_default();
                of_line.entry(part.group.0).or_default().insert(group.fields[field.field].offset);
            }
        }
    }
    for ((file, line), groups) in accessed {
        let unsampled = || view::Line { file: file.to_owned(), line, ..view::Line::default() };
        let row = lines.entry((file, line)).or_insert_with(unsampled);
        let groups = groups.into_iter();
        row.groups = groups.map(|(id, fields)| view::LineGroup { id, fields: fields.into_iter().collect() }).collect();
    }
    let mut lines: Vec<view::Line> = lines.into_values().collect();
    // Those that cost the same stay in the order of files and lines.
    lines.sort_by(|a, b| b.share.total_cmp(&a.share));
    lines
}
