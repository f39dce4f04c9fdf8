//! `cargo xtask bench collectors`: one program by all three collectors, sampled, instrumented and translated, side by side.
//!
//! Samples weigh time, traces count accesses. Both are shown; what can be compared are shares of accesses: those that the bursts behind
//! samples saw, with the bias of what runs slowly taken out where that is known, and those of traces. The program is the same clang's
//! for all of them, with and without the pass.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use sample_programs::Program;
use serde::Deserialize;

use crate::compilers::Compilers;
use crate::measure::timed;
use crate::selection::select;
use crate::setup;
use crate::slimline::{Group, Slimline};
use crate::workload::Workload;

/// A program of ours that mostly works on one structure of the heap, and arguments that keep it busy for about a second.
struct Case {
    name: &'static str,
    structure: &'static str,
    arguments: &'static [&'static str],
}

const CASES: &[Case] = &[
    Case { name: "int4_two_loops", structure: "quad", arguments: &["40"] },
    Case { name: "tsp_tree", structure: "tree", arguments: &["40", "1000000"] },
    Case { name: "zones", structure: "zone", arguments: &["100", "16000", "1"] },
    Case { name: "list_chase", structure: "item", arguments: &["40", "500000"] },
    Case { name: "new_array", structure: "Cell", arguments: &["150"] },
];

/// Of an access that reaches several fields a trace counts one to each, and samples a part: so none does.
const OPTIONS: &str = "-O2 -g -fno-vectorize -fno-slp-vectorize";
/// In a second there are a thousand samples, a hundredth is three points at most.
const FREQUENCY: &[&str] = &["-F", "1000"];
/// How far shares of accesses of two traces may be apart: start-up and the C library are in the translated one alone.
const TRACES_APART: f64 = 0.02;
/// And sampled ones from the translated one's: the goal that `cargo xtask bench agreement` is held to.
const SAMPLED_APART: f64 = 0.05;

/// What is read of `slimline trace --format json`.
#[derive(Debug, Deserialize)]
struct Traced {
    total: Count,
    heap: Vec<Block>,
}

#[derive(Debug, Deserialize)]
struct Count {
    accesses: u64,
}

#[derive(Debug, Deserialize)]
struct Block {
    type_name: Option<String>,
    accesses: u64,
    fields: Vec<Member>,
}

#[derive(Debug, Deserialize)]
struct Member {
    /// None where it is not known.
    name: Option<String>,
    accesses: u64,
}

/// Shares of the whole run: the structure's, and its fields' of it.
#[derive(Debug, Default, PartialEq)]
struct Shares {
    structure: f64,
    fields: BTreeMap<String, f64>,
}

impl Shares {
    /// Of a structure that has so many of all accesses, so many of them in each field.
    fn of(structure: u64, all: u64, fields: impl IntoIterator<Item = (String, u64)>) -> Self {
        let part = |of: u64, whole: u64| of as f64 / whole.max(1) as f64;
        let mut shares = Self { structure: part(structure, all), fields: BTreeMap::new() };
        for (field, accesses) in fields {
            *shares.fields.entry(field).or_default() += part(accesses, structure);
        }
        shares
    }

    fn of_trace(traced: &Traced, structure: &str) -> Self {
        let is_of = |block: &&Block| block.type_name.as_deref() == Some(structure);
        let blocks: Vec<&Block> = traced.heap.iter().filter(is_of).collect();
        let own = |member: &Member| {
            let name = member.name.as_deref()?;
            Some((name.strip_prefix(structure)?.strip_prefix('.')?.to_owned(), member.accesses))
        };
        let fields = blocks.iter().flat_map(|block| block.fields.iter().filter_map(own));
        Self::of(blocks.iter().map(|block| block.accesses).sum(), traced.total.accesses, fields)
    }

    /// Of the time, and of the accesses that were seen.
    fn of_samples(groups: &[Group], structure: &str) -> [Self; 2] {
        let [mut time, mut accesses] = [Self::default(), Self::default()];
        let all: u64 = groups.iter().map(|group| group.loads + group.stores).sum();
        for group in groups.iter().filter(|group| group.is_made_of(structure)) {
            let seen = (group.loads + group.stores) as f64 / all.max(1) as f64;
            for (shares, own) in [(&mut time, group.share), (&mut accesses, seen)] {
                shares.structure += own;
            }
            for field in &group.fields {
                *time.fields.entry(field.name.clone()).or_default() += group.share * field.share;
                *accesses.fields.entry(field.name.clone()).or_default() += seen * field.access_share;
            }
        }
        for shares in [&mut time, &mut accesses] {
            let whole = shares.structure;
            shares.fields.values_mut().for_each(|share| *share /= if whole > 0.0 { whole } else { 1.0 });
        }
        [time, accesses]
    }

    fn field(&self, name: &str) -> f64 {
        self.fields.get(name).copied().unwrap_or_default()
    }
}

/// A row of the table.
struct Row {
    what: String,
    /// Of all accesses the C library's are in the translated trace alone, and in samples by what they take: not the same thing.
    is_compared: bool,
    sampled_time: f64,
    sampled: f64,
    instrumented: f64,
    translated: f64,
}

impl Row {
    fn agrees(&self) -> bool {
        !self.is_compared
            || (self.instrumented - self.translated).abs() <= TRACES_APART
                && (self.sampled - self.translated).abs() <= SAMPLED_APART
    }
}

/// Compares all cases; prints a Markdown table. Whether all agree.
pub(crate) fn run(only: &[String]) -> Result<bool> {
    let cases = select(CASES.iter().collect(), |case| case.name, only)?;
    setup::install(setup::TRACING)?;
    setup::install(setup::TRANSLATING)?;
    let slimline = Slimline::build()?;
    println!("| program | what | time, sampled | accesses, sampled | instrumented | translated | |");
    println!("| --- | --- | ---: | ---: | ---: | ---: | --- |");
    let mut agree = true;
    for case in cases {
        for row in case.compare(&slimline).with_context(|| case.name.to_owned())? {
            let [time, sampled, instrumented, translated] =
                [row.sampled_time, row.sampled, row.instrumented, row.translated].map(|share| share * 100.0);
            let verdict = match (row.is_compared, row.agrees()) {
                (false, _) => "",
                (true, true) => "agree",
                (true, false) => "differ",
            };
            println!(
                "| {} | {} | {time:.1} % | {sampled:.1} % | {instrumented:.1} % | {translated:.1} % | {verdict} |",
                case.name, row.what
            );
            agree &= row.agrees();
        }
    }
    Ok(agree)
}

impl Case {
    fn compare(&self, slimline: &Slimline) -> Result<Vec<Row>> {
        let program = Program::named(self.name)?;
        let native = Compilers::clang().build(&program, OPTIONS, "plain-collectors")?;
        let instrumented = slimline.compilers()?.build(&program, OPTIONS, "instrumented-collectors")?;
        let [time, sampled] = self.sampled(slimline, &native)?;
        let instrumented = self.traced(slimline, &instrumented, &[])?;
        let translated = self.traced(slimline, &native, &["--collector".as_ref(), "translate".as_ref()])?;
        ensure!(translated.structure > 0.0, "no accesses to {} were traced", self.structure);
        let row = |what: String, is_compared, of: &dyn Fn(&Shares) -> f64| Row {
            what,
            is_compared,
            sampled_time: of(&time),
            sampled: of(&sampled),
            instrumented: of(&instrumented),
            translated: of(&translated),
        };
        let mut rows = vec![row(self.structure.to_owned(), false, &|shares| shares.structure)];
        let rest = |shares: &Shares| 1.0 - shares.structure;
        rows.push(row("all others".to_owned(), false, &rest));
        for field in translated.fields.keys() {
            rows.push(row(format!("{}.{field}", self.structure), true, &|shares| shares.field(field)));
        }
        // Where stores of neighbours were joined, one counts for each.
        let elsewhere = |shares: &Shares| (1.0 - shares.fields.values().sum::<f64>()).max(0.0);
        rows.push(row(format!("{}, no field", self.structure), true, &elsewhere));
        Ok(rows)
    }

    fn workload(&self, executable: &Path) -> Workload {
        let arguments = self.arguments.iter().map(|argument| (*argument).to_owned()).collect();
        Workload::new(self.name, executable.to_owned(), arguments, None, "")
    }

    fn sampled(&self, slimline: &Slimline, executable: &Path) -> Result<[Shares; 2]> {
        let (workload, session) = (self.workload(executable), slimline.session("collectors"));
        timed(workload.with_input(slimline.record(&workload.command(), &session, FREQUENCY))?)?;
        let report = slimline.report(&session)?;
        std::fs::remove_dir_all(&session).with_context(|| session.display().to_string())?;
        Ok(Shares::of_samples(&report.groups, self.structure))
    }

    fn traced(&self, slimline: &Slimline, executable: &Path, options: &[&OsStr]) -> Result<Shares> {
        let (workload, trace) = (self.workload(executable), slimline.session("collectors"));
        let options = [options, &["-o".as_ref(), trace.as_os_str()]].concat();
        timed(workload.with_input(slimline.trace(&workload.command(), &options))?)?;
        let traced: Traced = slimline.replay(&trace)?;
        std::fs::remove_dir_all(&trace).with_context(|| trace.display().to_string())?;
        Ok(Shares::of_trace(&traced, self.structure))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slimline::Field;

    #[test]
    fn shares_of_a_trace_are_of_all_and_of_the_structure() {
        let text = r#"{"total": {"accesses": 200}, "heap": [
            {"type_name": "pair", "accesses": 80, "fields": [
                {"name": "pair.a", "accesses": 60}, {"name": "pair.b", "accesses": 10}, {"name": null, "accesses": 10}]},
            {"type_name": "pair", "accesses": 20, "fields": [{"name": "pair.a", "accesses": 20}]},
            {"type_name": null, "accesses": 50, "fields": [{"name": null, "accesses": 50}]}]}"#;
        let shares = Shares::of_trace(&serde_json::from_str(text).unwrap(), "pair");
        let fields = [("a".to_owned(), 0.8), ("b".to_owned(), 0.1)].into();
        assert_eq!(shares, Shares { structure: 0.5, fields });
    }

    #[test]
    fn samples_tell_time_and_accesses() {
        let field =
            |name: &str, share, access_share| Field { name: name.to_owned(), share, access_share, ..Field::default() };
        let group = |type_name: &str, share, loads, fields| Group {
            type_name: Some(type_name.to_owned()),
            share,
            loads,
            fields,
            ..Group::default()
        };
        let groups = [
            group("struct pair", 0.6, 10, vec![field("a", 1.0, 0.5), field("b", 0.0, 0.5)]),
            group("struct pair", 0.2, 10, vec![field("a", 0.5, 1.0)]),
            group("long", 0.2, 60, vec![]),
        ];
        let [time, accesses] = Shares::of_samples(&groups, "pair");
        assert!((time.structure - 0.8).abs() < 1e-12 && (time.field("a") - 0.875).abs() < 1e-12, "{time:?}");
        assert!((accesses.structure - 0.25).abs() < 1e-12, "{accesses:?}");
        assert!((accesses.field("a") - 0.75).abs() < 1e-12 && (accesses.field("b") - 0.25).abs() < 1e-12);
    }
}
