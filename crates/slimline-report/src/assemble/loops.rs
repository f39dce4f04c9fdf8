//! Loops. A function inlined at two calls has its loop twice in the binary; a reader of the source sees one.

use std::collections::HashMap;

use slimline_analyze::findings::{Findings, LoopFindings};
use slimline_attribute::tables::Tables;

use super::breakdowns::interval;
use crate::view;

pub(super) fn view(found: &LoopFindings, findings: &Findings, tables: &Tables) -> view::Loop {
    let row = &tables.loops[found.loop_id.index()];
    view::Loop {
        function: row.function.clone(),
        file: row.file.clone(),
        first_line: row.first_line,
        last_line: row.last_line,
        column: row.columns.map(|(first, _)| first),
        module: tables.modules[row.module.index()].file_name().to_owned(),
        module_path: tables.modules[row.module.index()].path.clone(),
        start_address: row.start.0,
        end_address: row.end.0,
        share: found.share.value,
        share_interval: interval(&found.share),
        no_memory_share: found.computing,
        depth: row.depth,
        inner: tables.loops_around_in_place(found.loop_id) as u32,
        groups: found
            .groups
            .iter()
            .map(|part| {
                let group = findings.groups.iter().find(|group| group.group == part.group);
                let offset = |field: usize| group.map(|group| group.fields[field].offset);
                let used = part.fields.iter().filter(|field| !field.only_spanned);
                let (fields, field_shares) =
                    used.filter_map(|field| Some((offset(field.field)?, field.share))).collect();
                view::LoopGroup { id: part.group.0, share: part.share, samples: part.samples, fields, field_shares }
            })
            .collect(),
        served: None, // of all its copies, once these are joined
    }
}

/// `loops` with copies of one loop made one row, costliest first, and for each row of `loops` where it went.
pub(super) fn with_copies_joined(
    loops: Vec<view::Loop>,
    is_copy: impl Fn(usize, usize) -> bool,
) -> (Vec<view::Loop>, Vec<usize>) {
    let mut merged: Vec<(view::Loop, Vec<usize>)> = Vec::new();
    for (row, found) in loops.into_iter().enumerate() {
        match merged.iter_mut().find(|(_, rows)| is_copy(rows[0], row)) {
            Some((into, rows)) => {
                merge(into, found);
                rows.push(row);
            }
            None => merged.push((found, vec![row])),
        }
    }
    merged.sort_by(|a, b| b.0.share.total_cmp(&a.0.share));
    let mut at_place: HashMap<_, usize> = HashMap::new();
    merged.iter().for_each(|(found, _)| *at_place.entry(place(found)).or_default() += 1);
    let is_alone: Vec<bool> = merged.iter().map(|(found, _)| at_place[&place(found)] == 1).collect();
    for ((found, _), _) in merged.iter_mut().zip(is_alone).filter(|(_, is_alone)| *is_alone) {
        (found.column, found.inner) = (None, 0);
    }
    let mut went = vec![0; merged.iter().map(|(_, rows)| rows.len()).sum()];
    for (to, (_, rows)) in merged.iter().enumerate() {
        rows.iter().for_each(|&row| went[row] = to);
    }
    (merged.into_iter().map(|(found, _)| found).collect(), went)
}

/// What a row tells of where its loop is, but for what tells it from others there.
fn place(found: &view::Loop) -> (&str, &str, Option<&str>, u32, u32) {
    (&found.module, &found.function, found.file.as_deref(), found.first_line, found.last_line)
}

fn merge(into: &mut view::Loop, from: view::Loop) {
    into.share += from.share;
    into.no_memory_share += from.no_memory_share;
    // The ends' sums hold the sum.
    into.share_interval.low += from.share_interval.low;
    into.share_interval.high = (into.share_interval.high + from.share_interval.high).min(1.0);
    for part in from.groups {
        match into.groups.iter_mut().find(|known| known.id == part.id) {
            Some(known) => {
                known.share += part.share;
                known.samples += part.samples;
                for (field, share) in part.fields.into_iter().zip(part.field_shares) {
                    match known.fields.iter().position(|&at| at == field) {
                        Some(place) => known.field_shares[place] += share,
                        None => {
                            known.fields.push(field);
                            known.field_shares.push(share);
                        }
                    }
                }
            }
            None => into.groups.push(part),
        }
    }
    into.groups.sort_by(|a, b| b.share.total_cmp(&a.share));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(function: &str, lines: [u32; 2], depth: u32, share: f64, fields: &[u64]) -> view::Loop {
        view::Loop {
            function: function.to_owned(),
            file: Some("bodies.c".to_owned()),
            first_line: lines[0],
            last_line: lines[1],
            share,
            share_interval: view::Interval { low: share - 0.01, high: share + 0.01 },
            depth,
            groups: vec![view::LoopGroup {
                id: 3,
                share,
                samples: 8,
                fields: fields.to_vec(),
                field_shares: fields.iter().map(|_| share / fields.len() as f64).collect(),
            }],
            ..view::Loop::default()
        }
    }

    #[test]
    fn copies_of_an_inlined_loop_are_one_row() {
        let loops = vec![
            found("kick", [22, 23], 2, 0.375, &[48]),
            found("drift", [30, 31], 2, 0.25, &[0]),
            found("drift", [30, 31], 2, 0.25, &[24, 0]),
        ];
        let (merged, went) = with_copies_joined(loops, |a, b| a.min(b) == 1 && a.max(b) == 2);
        assert_eq!(went, [1, 0, 0]);
        assert_eq!(merged[1], found("kick", [22, 23], 2, 0.375, &[48]));
        assert_eq!((merged.len(), merged[0].share, merged[0].depth), (2, 0.5, 2));
        let both = view::LoopGroup {
            id: 3,
            share: 0.5,
            samples: 16,
            fields: vec![0, 24],
            field_shares: vec![0.25 + 0.125, 0.125],
        };
        assert_eq!(merged[0].groups, [both]);
        assert!((merged[0].share_interval.low - 0.48).abs() < 1e-9);
    }

    /// A loop inside of another one on its lines says so where the other one is a row.
    #[test]
    fn a_nest_on_the_same_lines_is_told_apart_where_there_is_need() {
        let at = |function, inner| view::Loop { inner, ..found(function, [7, 9], 1, 0.25, &[0]) };
        let (merged, _) = with_copies_joined(vec![at("both", 0), at("both", 1), at("inner", 1)], |_, _| false);
        assert_eq!(merged.iter().map(|found| found.inner).collect::<Vec<_>>(), [0, 1, 0]);
    }

    #[test]
    fn loops_on_one_line_are_told_apart_by_column() {
        let at = |column, lines| view::Loop { column: Some(column), ..found("sum", lines, 1, 0.25, &[0]) };
        let elsewhere = view::Loop { module: "other.so".to_owned(), ..at(5, [9, 9]) };
        let other = view::Loop { function: "product".to_owned(), ..at(5, [9, 9]) };
        let loops = vec![at(3, [7, 7]), at(31, [7, 7]), at(5, [9, 9]), elsewhere, other];
        let (merged, _) = with_copies_joined(loops, |_, _| false);
        let columns: Vec<_> = merged.iter().map(|found| found.column).collect();
        assert_eq!(columns, [Some(3), Some(31), None, None, None], "names tell the last three apart");
    }
}
