//! Lines of the source: what each costs, misses and touches, and which fields of which data.
//!
//! A trace tells which line makes an access, not which loop that is in: where the page of a session has loops, this one has lines.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::{self, Write};

use crate::html::matrix::{self, MOST_FIELDS, Matrix};
use crate::html::page::Escaped;
use crate::html::source::{Annotated, AnnotatedLine};
use crate::simulation::{Breakdowns, SimulatedMachine, SimulatedRow, SimulationReport, UseRow};
use crate::source::Source;
use crate::text::file_name;
use crate::text::number::{count, percent};
use crate::text::simulation::row_name;

/// Lines and data that cost less are not shown for themselves.
const LEAST_SHARE: f64 = 0.005;
/// Most lines whose surroundings are shown, and most data with a table of lines by fields.
const MOST_LINES: usize = 80;
const MOST_DATA: usize = 12;
/// What a line names of a structure; it may go through all of it.
const MOST_NAMED: usize = 8;

/// Source files that lines are shown of, costliest first.
pub(super) fn files(report: &SimulationReport) -> Vec<&str> {
    told_machine(report).map_or_else(Vec::new, |(_, by)| files_of(&hot_lines(by)))
}

fn files_of<'a>(lines: &[(&'a str, u32, f64)]) -> Vec<&'a str> {
    let mut files: Vec<&str> = Vec::new();
    for &(file, ..) in lines {
        if !files.contains(&file) {
            files.push(file);
        }
    }
    files
}

/// The machine that lines are told of.
fn told_machine(report: &SimulationReport) -> Option<(&SimulatedMachine, &Breakdowns)> {
    let machine = report.machines.first()?;
    Some((machine, machine.by.as_ref()?))
}

/// Files, lines and their shares, most costly first.
fn hot_lines(by: &Breakdowns) -> Vec<(&str, u32, f64)> {
    let mut shares: BTreeMap<(&str, u32), f64> = BTreeMap::new();
    for (file, line, of) in by.uses.iter().filter_map(placed) {
        *shares.entry((file, line)).or_default() += of.share;
    }
    let mut lines: Vec<_> = shares.into_iter().map(|((file, line), share)| (file, line, share)).collect();
    lines.retain(|(.., share)| *share >= LEAST_SHARE);
    lines.sort_by(|a, b| b.2.total_cmp(&a.2));
    lines.truncate(MOST_LINES);
    lines
}

fn placed(of: &UseRow) -> Option<(&str, u32, &UseRow)> {
    Some((of.file.as_deref()?, of.line?, of))
}

/// A table for each of the data that cost most, of lines by fields.
pub(super) fn by_fields(out: &mut impl Write, report: &SimulationReport) -> fmt::Result {
    let Some((machine, by)) = told_machine(report) else {
        return writeln!(out, "<p>Whose the accesses are the trace does not tell.</p>");
    };
    writeln!(
        out,
        "<p class=\"faint\">Shares of the cycles of {}. A trace tells which line makes an access, not which loop that is in.</p>",
        Escaped(&machine.name)
    )?;
    let data = by.data.iter().enumerate().filter(|(_, row)| row.counts.share >= LEAST_SHARE);
    let tables = data.filter_map(|(number, row)| table(by, number as u32, row)).take(MOST_DATA);
    let tables: Vec<Matrix<'_>> = tables.collect();
    if tables.is_empty() {
        return writeln!(out, "<p>Of no data that costs enough are several fields known.</p>");
    }
    tables.iter().try_for_each(|table| table.write(out))
}

/// Of a line: by field, and in all.
type Shares = (Vec<Option<f64>>, f64);

/// None where its fields are not known, or are not told apart.
fn table<'a>(by: &'a Breakdowns, number: u32, row: &'a SimulatedRow) -> Option<Matrix<'a>> {
    let of_data = || by.uses.iter().filter(|of| of.data == number);
    let mut fields: BTreeMap<&str, f64> = BTreeMap::new();
    for (field, share) in of_data().filter_map(|of| Some((of.field.as_deref()?, of.share))) {
        *fields.entry(field).or_default() += share;
    }
    if fields.len() < 2 {
        return None;
    }
    let mut fields: Vec<(&str, f64)> = fields.into_iter().collect();
    fields.sort_by(|a, b| b.1.total_cmp(&a.1));
    let more_fields = fields.len().saturating_sub(MOST_FIELDS);
    fields.truncate(MOST_FIELDS);
    let mut rows: BTreeMap<(&str, u32, &str), Shares> = BTreeMap::new();
    let of_all = |share: f64| if row.counts.share > 0.0 { share / row.counts.share } else { 0.0 };
    for of in of_data() {
        let code = (
            of.file.as_deref().unwrap_or_default(),
            of.line.unwrap_or_default(),
            of.function.as_deref().unwrap_or_default(),
        );
        let (shares, all) = rows.entry(code).or_insert_with(|| (vec![None; fields.len()], 0.0));
        *all += of_all(of.share);
        if let Some(column) = fields.iter().position(|(field, _)| of.field.as_deref() == Some(*field)) {
            *shares[column].get_or_insert(0.0) += of_all(of.share);
        }
    }
    let name = |(file, line, function): (&str, u32, &str)| match (file.is_empty(), function.is_empty()) {
        (true, true) => "(not known)".to_owned(),
        (true, false) => function.to_owned(),
        _ => format!("{function} {}:{line}", file_name(file)).trim_start().to_owned(),
    };
    let mut rows: Vec<matrix::Row> =
        rows.into_iter().map(|(code, (shares, all))| matrix::Row { name: name(code), shares, all }).collect();
    rows.sort_by(|a, b| b.all.total_cmp(&a.all));
    Some(Matrix {
        caption: format!("Lines and what they use of {}: shares of its cycles", data_name(by, row)),
        code: "line",
        fields: fields.iter().map(|(field, _)| (member(field), (*field).to_owned())).collect(),
        more_fields,
        rows,
    })
}

/// What data is called, with where it is allocated or declared only where others are called so.
fn data_name(by: &Breakdowns, row: &SimulatedRow) -> String {
    match &row.name {
        Some(name) if by.data.iter().filter(|other| other.name == row.name).count() == 1 => name.clone(),
        _ => row_name(row),
    }
}

/// The member of `type.member`; of types without a name the place in their name has a point, too.
fn member(field: &str) -> &str {
    let behind = match field.starts_with('(') {
        true => field.split_once(").").map(|(_, member)| member),
        false => field.split_once('.').map(|(_, member)| member),
    };
    behind.unwrap_or(field)
}

/// The source around the lines that cost most.
pub(super) fn annotated(
    out: &mut impl Write,
    report: &SimulationReport,
    sources: &HashMap<String, Source>,
) -> fmt::Result {
    let told = told_machine(report).map(|(machine, by)| (machine, by, hot_lines(by)));
    let Some((machine, by, hot)) = told.filter(|(.., hot)| !hot.is_empty()) else {
        return writeln!(
            out,
            "<p>Of no accesses that cost enough are lines known: was the program compiled with -g?</p>"
        );
    };
    let caption = format!("Lines that cost most, by the cycles of {}", machine.name);
    let (caches, columns) = columns(by);
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    for file in files_of(&hot) {
        let of_file = || by.uses.iter().filter_map(placed).filter(|(of, ..)| *of == file);
        let mut lines: BTreeMap<u32, Vec<&UseRow>> = BTreeMap::new();
        of_file().for_each(|(_, line, of)| lines.entry(line).or_default().push(of));
        let mut shown = Annotated {
            path: file,
            caption: &caption,
            remarks: functions(of_file().map(|(.., of)| of)),
            columns: &columns,
            lines: lines.iter().map(|(&line, uses)| (line, annotated_line(by, uses, &caches))).collect(),
            shown: BTreeSet::new(),
        };
        hot.iter().filter(|(of, ..)| *of == file).for_each(|&(_, line, _)| shown.show(line, line));
        shown.write(out, sources.get(file))?;
    }
    Ok(())
}

/// Places of the nearest and of the farthest cache in [`UseRow::misses`], and heads of columns.
fn columns(by: &Breakdowns) -> (Vec<usize>, Vec<String>) {
    let caches = by.data.first().map_or(&[][..], |row| &row.counts.caches);
    let mut places = vec![0, caches.len().saturating_sub(1)];
    places.dedup();
    places.retain(|place| *place < caches.len());
    let missed = places.iter().map(|&place| format!("{} misses", caches[place].name));
    (places.clone(), ["accesses".to_owned()].into_iter().chain(missed).chain(["cycles".to_owned()]).collect())
}

/// What functions of a file cost, most first.
fn functions<'a>(of_file: impl Iterator<Item = &'a UseRow>) -> Vec<String> {
    let mut shares: BTreeMap<&str, f64> = BTreeMap::new();
    for of in of_file {
        *shares.entry(of.function.as_deref().unwrap_or_default()).or_default() += of.share;
    }
    let mut shares: Vec<(&str, f64)> = shares.into_iter().collect();
    shares.retain(|(name, share)| !name.is_empty() && *share >= LEAST_SHARE);
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    shares.iter().map(|(name, share)| format!("{name}: {}", percent(*share))).collect()
}

fn annotated_line(by: &Breakdowns, uses: &[&UseRow], caches: &[usize]) -> AnnotatedLine {
    let accesses: u64 = uses.iter().map(|of| of.accesses).sum();
    let missed = |&place: &usize| uses.iter().filter_map(|of| of.misses.get(place)).sum::<u64>();
    let numbers = [accesses].into_iter().chain(caches.iter().map(missed));
    let mut data: Vec<(u32, Vec<&str>)> = Vec::new();
    for of in uses {
        let place = data.iter().position(|(data, _)| *data == of.data).unwrap_or_else(|| {
            data.push((of.data, Vec::new()));
            data.len() - 1
        });
        data[place].1.extend(of.field.as_deref().map(member));
    }
    let name = |data: u32| by.data.get(data as usize).map(|row| data_name(by, row)).unwrap_or_default();
    let touched = |(data, mut fields): (u32, Vec<&str>)| {
        fields.sort_unstable();
        fields.dedup();
        let more = fields.len().saturating_sub(MOST_NAMED);
        let mut named: Vec<String> = fields.iter().take(MOST_NAMED).map(|field| (*field).to_owned()).collect();
        named.extend((more > 0).then(|| format!("+{more}")));
        let fields = if named.is_empty() { String::new() } else { format!(" {{{}}}", named.join(" ")) };
        Escaped(&format!("{}{fields}", name(data))).to_string()
    };
    AnnotatedLine {
        numbers: numbers.map(count).collect(),
        share: uses.iter().map(|of| of.share).sum(),
        touches: data.into_iter().map(touched).collect::<Vec<_>>().join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_what_stands_behind_its_type() {
        assert_eq!(member("body.position.x"), "position.x");
        assert_eq!(member("(anonymous struct at counters.c:13).count[]"), "count[]");
        assert_eq!(member("body+16"), "body+16");
    }
}
