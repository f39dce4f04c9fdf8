//! `cargo xtask bench agreement`: field access shares as reported against the oracle's exact counts.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use sample_programs::{Optimization, Program};

use crate::measure::timed;
use crate::oracle::{Oracle, Question, Site, site_name};
use crate::slimline::{Field, Group, Report, Slimline};
use crate::{foreign, target_dir};

/// Issue 2: fields with at least this share of their group's accesses…
const FIELD_SHARE_AT_LEAST: f64 = 0.05;
/// …may be off by this much.
const OFF_AT_MOST: f64 = 0.02;

/// Programs of ours, each with one group to compare.
const OURS: &[&str] = &["int4_two_loops", "tsp_tree", "zones", "particles", "new_array"];

/// One group of one program.
struct Case {
    program: String,
    executable: PathBuf,
    arguments: Vec<String>,
    /// Part of the name that the oracle gives the allocation site.
    site: String,
    element_bytes: u64,
    /// Where the first element starts in its block.
    start: u64,
    /// Allocator wrappers that the oracle must look through.
    skip: &'static [&'static str],
    /// How to tell the group in the report.
    group: GroupBy,
}

/// How a report's groups are told to be the case's.
enum GroupBy {
    /// By name, which is the variable's.
    Name(String),
    /// By a function on the allocation call path: its groups are added up, as the oracle's site adds all callers.
    AllocatingFunction(&'static str),
}

/// Compares all cases; prints a Markdown table. Whether every field is within the bound.
pub(crate) fn run(only: &[String]) -> Result<bool> {
    let (slimline, oracle) = (Slimline::build()?, Oracle::build()?);
    let mut cases = ours()?;
    cases.extend(foreign_cases()?);
    cases.retain(|case| only.is_empty() || only.contains(&case.program));
    if cases.is_empty() {
        bail!("no such case: {}", only.join(" "));
    }
    println!("| program | field | reported, % | exact, % | off, points |\n| --- | --- | --- | --- | --- |");
    let mut all_within = true;
    for case in &cases {
        let elements = [(case.site.clone(), case.element_bytes)];
        let question =
            Question { program: &case.executable, arguments: &case.arguments, elements: &elements, skip: case.skip };
        let counts = oracle.ask(&question).with_context(|| case.program.clone())?;
        let session = slimline.session("agreement");
        let mut native = Command::new(&case.executable);
        native.args(&case.arguments);
        timed(slimline.record(&native, &session)).with_context(|| case.program.clone())?;
        let report = slimline.report(&session)?;
        for row in compare(case, counts.site(&case.site)?, &report).with_context(|| case.program.clone())? {
            let off = row.reported - row.exact;
            println!(
                "| {} | {} | {:.1} | {:.1} | {:+.1} |",
                case.program,
                row.field,
                row.reported * 100.0,
                row.exact * 100.0,
                off * 100.0
            );
            all_within &= off.abs() <= OFF_AT_MOST;
        }
    }
    println!("\nbound: {} points for fields of at least {} %", OFF_AT_MOST * 100.0, FIELD_SHARE_AT_LEAST * 100.0);
    Ok(all_within)
}

fn ours() -> Result<Vec<Case>> {
    let directory = target_dir()?.join("programs");
    OURS.iter()
        .map(|name| {
            let program = Program::named(name)?;
            let group = program.truth()?.groups.into_iter().next().context("no group")?;
            let at = group.allocated_at.as_ref().context("not allocated")?;
            Ok(Case {
                program: program.name.clone(),
                executable: program.build(Optimization::O2, &directory)?,
                arguments: Vec::new(),
                site: site_name(&program, at),
                element_bytes: group.element_bytes,
                start: group.start,
                skip: &[],
                group: GroupBy::Name(group.name),
            })
        })
        .collect()
}

fn foreign_cases() -> Result<Vec<Case>> {
    let programs = foreign::build()?;
    Ok(vec![
        // The sparse vectors: `struct svm_node { int index; double value; }`.
        Case {
            program: "svm-train".to_owned(),
            executable: programs.svm_train,
            arguments: ["-q", "-m", "1", &path(&programs.svm_input), "/dev/null"].map(str::to_owned).to_vec(),
            site: "read_problem(char const*) svm-train.c".to_owned(),
            element_bytes: 16,
            start: 0,
            skip: &[],
            group: GroupBy::AllocatingFunction("read_problem"),
        },
        // `struct Table`, one block each.
        Case {
            program: "lua".to_owned(),
            executable: programs.lua,
            arguments: vec![path(&programs.lua_input)],
            site: "luaH_new ltable.c".to_owned(),
            element_bytes: 56,
            start: 0,
            skip: &["l_alloc", "luaM_malloc_", "luaM_realloc_", "luaC_newobj"],
            group: GroupBy::AllocatingFunction("luaH_new"),
        },
        // `EState`: one block of 55,768 bytes, counters and arrays in it.
        Case {
            program: "bzip2".to_owned(),
            executable: programs.bzip2,
            arguments: ["-k", "-f", &path(&programs.bzip2_input)].map(str::to_owned).to_vec(),
            site: "BZ2_bzCompressInit bzlib.c:168".to_owned(),
            element_bytes: 55768,
            start: 0,
            skip: &["default_bzalloc"],
            group: GroupBy::AllocatingFunction("BZ2_bzCompressInit bzlib.c:168"),
        },
    ])
}

fn path(path: &Path) -> String {
    path.display().to_string()
}

/// A field's share of its group's accesses, both ways.
#[derive(Debug, PartialEq)]
struct Row {
    field: String,
    reported: f64,
    exact: f64,
}

/// The fields that matter by either count.
fn compare(case: &Case, site: &Site, report: &Report) -> Result<Vec<Row>> {
    let groups: Vec<&Group> = report.groups.iter().filter(|group| case.is(group)).collect();
    if groups.is_empty() {
        let names: Vec<&str> = report.groups.iter().map(|group| group.name.as_str()).collect();
        bail!("the report has no such group, but: {}", names.join(", "));
    }
    // Fields of groups with the same type are the same; a group without one has fields by offset.
    let mut fields: Vec<(&Field, u64)> = Vec::new();
    for field in groups.iter().flat_map(|group| &group.fields) {
        let accesses = field.loads + field.stores;
        match fields.iter_mut().find(|(known, _)| known.offset == field.offset && known.bytes == field.bytes) {
            Some((_, sum)) => *sum += accesses,
            None => fields.push((field, accesses)),
        }
    }
    let reported_all: u64 = fields.iter().map(|(_, accesses)| accesses).sum();
    let exact_all: u64 = site.fields.iter().map(|field| field.reads + field.writes).sum();
    if reported_all == 0 || exact_all == 0 {
        bail!("no accesses to compare");
    }

    let mut rows: Vec<Row> = fields
        .iter()
        .map(|(field, accesses)| Row {
            field: field.name.clone(),
            reported: *accesses as f64 / reported_all as f64,
            exact: 0.0,
        })
        .collect();
    for cell in &site.fields {
        let offset = (cell.offset + case.element_bytes - case.start % case.element_bytes) % case.element_bytes;
        let exact = (cell.reads + cell.writes) as f64 / exact_all as f64;
        // The smallest field that holds the access: a member of a union or an array, not the whole.
        let within = |(at, _): &(usize, &(&Field, u64))| {
            (fields[*at].0.offset..fields[*at].0.offset + fields[*at].0.bytes).contains(&offset)
        };
        match fields.iter().enumerate().filter(within).min_by_key(|(_, (field, _))| field.bytes) {
            Some((at, _)) => rows[at].exact += exact,
            None => rows.push(Row { field: format!("+{offset}"), reported: 0.0, exact }),
        }
    }
    rows.retain(|row| row.reported.max(row.exact) >= FIELD_SHARE_AT_LEAST);
    Ok(rows)
}

impl Case {
    fn is(&self, group: &Group) -> bool {
        match &self.group {
            GroupBy::Name(name) => group.name == *name,
            GroupBy::AllocatingFunction(function) => group
                .allocated_at
                .as_ref()
                .is_some_and(|place| place.stack.iter().any(|frame| frame.replace('/', " ").contains(function))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle;
    use crate::slimline::AllocatedAt;

    fn case() -> Case {
        Case {
            program: "p".to_owned(),
            executable: PathBuf::new(),
            arguments: Vec::new(),
            site: "main p.c:3".to_owned(),
            element_bytes: 16,
            start: 8,
            skip: &[],
            group: GroupBy::AllocatingFunction("make"),
        }
    }

    fn group(function: &str, fields: &[(u64, u64, u64)]) -> Group {
        Group {
            allocated_at: Some(AllocatedAt { stack: vec![format!("{function} p.c:3")] }),
            fields: fields
                .iter()
                .map(|&(offset, loads, stores)| Field { offset, bytes: 8, name: format!("f{offset}"), loads, stores })
                .collect(),
            ..Group::default()
        }
    }

    fn report(groups: Vec<Group>) -> Report {
        Report { groups }
    }

    fn site(fields: &[(u64, u64, u64)]) -> Site {
        let fields = fields.iter().map(|&(offset, reads, writes)| oracle::Field { offset, reads, writes }).collect();
        let name = "main p.c:3".to_owned();
        Site { id: 1, name, element_bytes: 16, blocks: 1, bytes: 160, reads: 0, writes: 0, fields }
    }

    #[test]
    fn shares_are_added_up_over_groups_and_shifted_by_the_start() {
        let report = report(vec![
            group("make", &[(0, 30, 10), (8, 20, 0)]),
            group("make", &[(8, 40, 0)]),
            group("other", &[(0, 1000, 0)]),
        ]);
        // The oracle counts from the block's start, 8 bytes before the first element: its +8 is field 0.
        let rows = compare(&case(), &site(&[(8, 300, 100), (0, 500, 0), (4, 100, 0)]), &report).unwrap();
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].field.as_str(), rows[0].reported, rows[0].exact), ("f0", 0.4, 0.4));
        // +0 and +4 of the block are both inside the field at 8.
        assert_eq!((rows[1].field.as_str(), rows[1].reported), ("f8", 0.6));
        assert!((rows[1].exact - 0.6).abs() < 1e-9);
    }

    #[test]
    fn what_the_report_lacks_is_a_row_too() {
        let report = report(vec![group("make", &[(0, 10, 0)])]);
        let rows = compare(&case(), &site(&[(8, 50, 0), (0, 50, 0)]), &report).unwrap();
        assert_eq!((rows[1].field.as_str(), rows[1].reported, rows[1].exact), ("+8", 0.0, 0.5));
    }

    #[test]
    fn no_group_is_an_error() {
        assert!(compare(&case(), &site(&[(0, 1, 0)]), &report(vec![group("other", &[(0, 1, 0)])])).is_err());
    }
}
