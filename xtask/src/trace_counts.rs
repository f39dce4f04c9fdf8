//! `cargo xtask bench counts`: what `slimline trace` counts against the oracle's exact counts.
//!
//! Instrumented, both run the same program of the same clang at the same level, once without and once with instrumentation. What is
//! compared are loads, stores and bytes of each line that allocates, and of the fields of what it allocates. The oracle counts
//! instructions, also those of the C library, which are left out by the files that they come from; the trace counts what the
//! program asks for. So they differ by what a code generator does: a `memset` is one store here and several there, of
//! as many bytes together.
//!
//! Translated, both run the very same file, and both count instructions: all of them, the libraries' too.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use sample_programs::{Optimization, Program};
use serde::Deserialize;

use crate::compilers::Compilers;
use crate::foreign::{self, Build, inputs};
use crate::measure::timed;
use crate::oracle::{Counts, Oracle, Question, Site};
use crate::selection::select;
use crate::slimline::Slimline;
use crate::workload::{Workload, strings};
use crate::{setup, target_dir};

/// Code with a load or store for each of the source's: no vectors, and calls that Valgrind sees as such. It reads version 4 of
/// debug information.
const OPTIONS: &str = "-gdwarf-4 -fno-vectorize -fno-slp-vectorize -fno-unroll-loops -fno-optimize-sibling-calls";
/// How far counts may be apart that neither are equal nor have equal bytes: what a code generator makes one store of several.
const MOST_OFF: f64 = 0.01;
/// Lines that allocate what has less of the heap's accesses are shown together.
const LEAST_SHARE: f64 = 0.01;

/// Who counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Collector {
    /// The program, compiled by `slimline cc`.
    Instrument,
    /// QEMU, which translates the program as it is.
    Translate,
}

struct Case {
    name: &'static str,
    /// A structure whose fields are compared.
    element: Option<Element>,
    how: How,
}

/// A structure that one line allocates.
struct Element {
    /// What the oracle's name of its allocation site holds.
    site: &'static str,
    type_name: &'static str,
    bytes: u64,
    /// Where the first one begins in its block.
    start: u64,
}

enum How {
    /// One of ours, instrumented.
    Ours(&'static [&'static str]),
    /// One of ours as its users would build it.
    AsItIs(&'static [&'static str]),
    Foreign {
        build: Build,
        arguments: &'static [&'static str],
        input: fn() -> String,
    },
}

const INSTRUMENTED: &[Case] = &[
    ours("int4_two_loops", ("int4_two_loops.c", "quad", 16), &["3", "100000"]),
    ours("art", ("art.c", "f1_neuron", 64), &["1", "20000"]),
    ours("neighbor", ("neighbor.c", "neighbor", 64), &["3", "20000"]),
    ours("tsp_tree", ("build_tree", "tree", 56), &["1", "20000"]),
    ours("zones", ("zones.c", "zone", 32), &["3", "20000"]),
    ours("list_chase", ("list_chase.c", "item", 16), &["3", "20000"]),
    Case {
        name: "svm-train",
        element: Some(element(("svm-train.c:316", "svm_node", 16))),
        how: How::Foreign {
            build: foreign::SVM_TRAIN,
            arguments: &["-q", "-m", "1", "INPUT", "/dev/null"],
            input: || inputs::svm_problem(150),
        },
    },
    Case {
        name: "bzip2",
        element: None,
        how: How::Foreign { build: foreign::BZIP2, arguments: &["-c", "INPUT"], input: || inputs::numbers(12_000) },
    },
    Case {
        name: "lua",
        element: None,
        how: How::Foreign { build: foreign::LUA, arguments: &["INPUT"], input: || inputs::lua(2_000, 10) },
    },
];

/// C, C++ and Rust; the last arguments of `zones` and `threads` are threads.
const TRANSLATED: &[Case] = &[
    as_it_is("int4_two_loops", ("int4_two_loops.c", "quad", 16), 0, &["3", "100000"]),
    as_it_is("tsp_tree", ("build_tree", "tree", 56), 0, &["1", "20000"]),
    as_it_is("zones", ("zones.c:74", "zone", 32), 0, &["3", "2000", "4"]),
    as_it_is("new_array", ("new_array.cpp", "Cell", 40), 8, &["3", "20000"]),
    as_it_is("vec_struct", ("vec_struct::main library/alloc", "vec_struct::Body", 72), 0, &["3", "20000"]),
    as_it_is("threads", ("Truth::time library/alloc", "threads::Cell", 40), 0, &["3", "20000", "4"]),
];

const fn ours(name: &'static str, of: (&'static str, &'static str, u64), arguments: &'static [&'static str]) -> Case {
    Case { name, element: Some(element(of)), how: How::Ours(arguments) }
}

const fn as_it_is(
    name: &'static str,
    of: (&'static str, &'static str, u64),
    start: u64,
    arguments: &'static [&'static str],
) -> Case {
    Case { name, element: Some(Element { start, ..element(of) }), how: How::AsItIs(arguments) }
}

const fn element((site, type_name, bytes): (&'static str, &'static str, u64)) -> Element {
    Element { site, type_name, bytes, start: 0 }
}

/// What is read of `slimline trace --format json`.
#[derive(Debug, Deserialize)]
struct Traced {
    heap: Vec<Row>,
    structures: Vec<Structure>,
    sites: Vec<At>,
}

#[derive(Debug, Deserialize)]
struct Row {
    #[serde(flatten)]
    at: At,
    type_name: Option<String>,
    #[serde(flatten)]
    accesses: Accesses,
    fields: Vec<Field>,
}

#[derive(Debug, Deserialize)]
struct At {
    file: Option<String>,
    line: Option<u32>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
struct Accesses {
    loads: u64,
    stores: u64,
    loaded_bytes: u64,
    stored_bytes: u64,
}

#[derive(Debug, Deserialize)]
struct Field {
    /// None where it is not known.
    name: Option<String>,
    #[serde(flatten)]
    accesses: Accesses,
}

#[derive(Debug, Deserialize)]
struct Structure {
    name: String,
    fields: Vec<Member>,
}

#[derive(Debug, Deserialize)]
struct Member {
    name: String,
    offset: u64,
    bytes: u64,
}

impl At {
    /// Name and line of the file; empty where it is not known.
    fn place(&self) -> (String, u32) {
        (file_name(self.file.as_deref().unwrap_or_default()).to_owned(), self.line.unwrap_or(0))
    }
}

impl Accesses {
    fn add(&mut self, other: Self) {
        self.loads += other.loads;
        self.stores += other.stores;
        self.loaded_bytes += other.loaded_bytes;
        self.stored_bytes += other.stored_bytes;
    }

    fn count(self) -> u64 {
        self.loads + self.stores
    }
}

/// What both count of something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Both {
    exact: Accesses,
    traced: Accesses,
}

/// How the two are apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Equal,
    /// As many bytes, by other instructions.
    SameBytes,
    Differs,
}

impl Both {
    fn add(&mut self, other: Self) {
        self.exact.add(other.exact);
        self.traced.add(other.traced);
    }

    fn verdict(self) -> Verdict {
        let Self { exact, traced } = self;
        let numbers = |of: Accesses| (of.loads, of.stores);
        let bytes = |of: Accesses| (of.loaded_bytes, of.stored_bytes);
        match (numbers(exact) == numbers(traced), bytes(exact) == bytes(traced)) {
            (true, _) => Verdict::Equal,
            (false, true) => Verdict::SameBytes,
            (false, false) => Verdict::Differs,
        }
    }

    /// How much more loads, or stores, the trace has than there are: of both that which is further off.
    fn off(self) -> f64 {
        let Self { exact, traced } = self;
        let all = exact.count().max(1) as f64;
        let off = |exact: u64, traced: u64| (traced as f64 - exact as f64) / all;
        let (loads, stores) = (off(exact.loads, traced.loads), off(exact.stores, traced.stores));
        if loads.abs() > stores.abs() { loads } else { stores }
    }

    fn agree(self) -> bool {
        self.verdict() != Verdict::Differs || self.off().abs() <= MOST_OFF
    }

    fn row(self, program: &str, what: &str) -> String {
        let Self { exact, traced } = self;
        let verdict = match self.verdict() {
            Verdict::Equal => "equal".to_owned(),
            Verdict::SameBytes => "equal bytes".to_owned(),
            Verdict::Differs => format!("{:+.3} %", 100.0 * self.off()),
        };
        format!(
            "| {program} | {what} | {} | {} | {} | {} | {verdict} |",
            exact.loads, traced.loads, exact.stores, traced.stores
        )
    }
}

/// Compares all cases; prints a Markdown table. Whether all counts agree, or the bytes do, or they are next to nothing apart.
pub(crate) fn run(collector: Collector, only: &[String]) -> Result<bool> {
    let (cases, packages) = match collector {
        Collector::Instrument => (INSTRUMENTED, setup::TRACING),
        Collector::Translate => (TRANSLATED, setup::TRANSLATING),
    };
    let cases = select(cases.iter().collect(), |case| case.name, only)?;
    setup::install(packages)?;
    let (oracle, slimline) = (Oracle::build()?, Slimline::build()?);
    println!("| program | what | loads, exact | traced | stores, exact | traced | |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    let mut agree = true;
    for case in cases {
        let compared = case.compare(&oracle, &slimline).with_context(|| case.name.to_owned())?;
        for (what, both) in compared {
            println!("{}", both.row(case.name, &what));
            agree &= both.agree();
        }
    }
    Ok(agree)
}

impl Case {
    fn compare(&self, oracle: &Oracle, slimline: &Slimline) -> Result<Vec<(String, Both)>> {
        let (native, traced) = match &self.how {
            How::AsItIs(_) => {
                let program = Program::named(self.name)?.build(Optimization::O2, &target_dir()?.join("programs"))?;
                (program.clone(), program)
            }
            _ => (self.executable(&Compilers::clang(), "plain")?, self.executable(&slimline.compilers()?, "counted")?),
        };
        let (arguments, input) = self.arguments()?;
        let elements: Vec<_> = self.element.iter().map(|element| (element.site.to_owned(), element.bytes)).collect();
        let question = Question { program: &native, arguments: &arguments, elements: &elements, skip: &[] };
        let exact = oracle.ask(&question)?;
        let trace = slimline.session("counted");
        let workload = Workload::new(self.name, traced, arguments.clone(), input, "");
        let is_translated = matches!(self.how, How::AsItIs(_));
        let collector: &[&OsStr] = if is_translated { &["--collector".as_ref(), "translate".as_ref()] } else { &[] };
        let options = [collector, &["-o".as_ref(), trace.as_os_str()]].concat();
        timed(workload.with_input(slimline.trace(&workload.command(), &options))?)?;
        let traced: Traced = slimline.replay(&trace)?;
        std::fs::remove_dir_all(&trace).with_context(|| trace.display().to_string())?;
        let mut rows = if is_translated { Vec::new() } else { by_line(&exact, &traced) };
        if let Some(element) = &self.element {
            let site = exact.site(element.site)?;
            // Lines of the standard libraries allocate for all types, and are inlined differently deep.
            let is_of = |row: &&Row| match is_translated {
                true => row.type_name.as_deref() == Some(element.type_name),
                false => row.at.place() == place(&site.name),
            };
            let of_site: Vec<&Row> = traced.heap.iter().filter(is_of).collect();
            if is_translated {
                rows.push(by_site(site, &of_site));
            }
            rows.extend(by_field(site, &of_site, &traced.structures, element)?);
        }
        Ok(rows)
    }

    fn executable(&self, compilers: &Compilers, made: &str) -> Result<PathBuf> {
        let compilers = compilers.clone().with_options(OPTIONS);
        match &self.how {
            How::Ours(_) | How::AsItIs(_) => compilers.build(&Program::named(self.name)?, "-O2", made),
            How::Foreign { build, .. } => build.executable_by(&compilers),
        }
    }

    fn arguments(&self) -> Result<(Vec<String>, Option<PathBuf>)> {
        match &self.how {
            How::Ours(arguments) | How::AsItIs(arguments) => Ok((strings(arguments), None)),
            How::Foreign { build, arguments, input } => foreign::arguments(build.name, arguments, &input()),
        }
    }
}

/// Of a path or of what the compiler was given.
fn file_name(path: &str) -> &str {
    Path::new(path).file_name().and_then(|name| name.to_str()).unwrap_or(path)
}

/// `function(arguments) directory/file.c:7`: the file's name and the line.
fn place(name: &str) -> (String, u32) {
    let (path, line) = name.rsplit_once(':').unwrap_or((name, ""));
    let path = path.rsplit_once(' ').map_or(path, |(_, path)| path);
    (file_name(path).to_owned(), line.parse().unwrap_or(0))
}

/// Accesses of the program's own code by the line that allocates, most first; bytes of the oracle's are of all code.
fn by_line(exact: &Counts, traced: &Traced) -> Vec<(String, Both)> {
    let own: BTreeSet<&str> = traced.sites.iter().filter_map(|at| at.file.as_deref()).map(file_name).collect();
    let mut lines: BTreeMap<(String, u32), Both> = BTreeMap::new();
    for site in exact.sites.iter().filter(|site| site.id != 0) {
        let at = place(&site.name);
        if !own.contains(&*at.0) {
            continue;
        }
        let exact = &mut lines.entry(at).or_default().exact;
        for line in site.lines.iter().filter(|line| own.contains(&*place(&line.name).0)) {
            exact.loads += line.reads;
            exact.stores += line.writes;
        }
        exact.loaded_bytes += site.loaded_bytes;
        exact.stored_bytes += site.stored_bytes;
    }
    for row in &traced.heap {
        lines.entry(row.at.place()).or_default().traced.add(row.accesses);
    }
    let all: u64 = lines.values().map(|both| both.exact.count()).sum();
    let (mut rows, mut others) = (Vec::new(), Both::default());
    for ((file, line), both) in lines {
        if both.exact.count().max(both.traced.count()) as f64 >= LEAST_SHARE * all as f64 {
            rows.push((format!("{file}:{line}"), both));
        } else {
            others.add(both);
        }
    }
    rows.sort_by_key(|(_, both)| std::cmp::Reverse(both.exact.count()));
    if others != Both::default() {
        rows.push(("all other lines".to_owned(), others));
    }
    rows
}

/// All accesses to what one line allocates.
fn by_site(exact: &Site, traced: &[&Row]) -> (String, Both) {
    let Site { reads: loads, writes: stores, loaded_bytes, stored_bytes, .. } = *exact;
    let mut both = Both { exact: Accesses { loads, stores, loaded_bytes, stored_bytes }, ..Both::default() };
    traced.iter().for_each(|row| both.traced.add(row.accesses));
    (exact.name.clone(), both)
}

/// Accesses by the fields that they touch, of what one line allocates.
fn by_field(exact: &Site, traced: &[&Row], structures: &[Structure], element: &Element) -> Result<Vec<(String, Both)>> {
    let &Element { type_name, bytes, start, .. } = element;
    let structure = structures.iter().find(|it| it.name == type_name);
    let members = &structure.with_context(|| format!("the trace has no {type_name}"))?.fields;
    let fields: Vec<&Field> = traced.iter().flat_map(|row| &row.fields).collect();
    let mut found = Vec::new();
    for member in members {
        let mut both = Both::default();
        for cell in &exact.fields {
            for &(wide, reads, writes) in &cell.sizes {
                // Bytes of the member that such an access touches; one may go on into the next element.
                let of_member =
                    |at: u64| (member.offset..member.offset + member.bytes).contains(&((at + bytes - start) % bytes));
                let touched = (cell.offset..cell.offset + wide).filter(|at| of_member(*at)).count() as u64;
                if touched > 0 {
                    both.exact.loads += reads;
                    both.exact.stores += writes;
                    both.exact.loaded_bytes += reads * touched;
                    both.exact.stored_bytes += writes * touched;
                }
            }
        }
        let full = format!("{type_name}.{}", member.name);
        let is_member = |field: &&&Field| {
            let rest = field.name.as_ref().and_then(|name| name.strip_prefix(&full));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        fields.iter().filter(is_member).for_each(|field| both.traced.add(field.accesses));
        found.push((full, both));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = "\
TOTAL reads 9 writes 9 rbytes 9 wbytes 9 heap_reads 9 heap_writes 9
SITE 1 [make(int) /src/list.c:4] elem 16 blocks 9 bytes 144 maxblk 16 reads 12 writes 5 rbytes 96 wbytes 48 straddle 0
   +0    r 2 w 3  (5.88%) sizes 8:2/2 16:0/1
   +8    r 10 w 2  (17.64%) sizes 8:10/0 16:0/2
LINES (by access)
  10 r 5 w [walk list.c:9] -> site 1 [make(int) /src/list.c:4]
  2 r 0 w [memcpy memmove.S:7] -> site 1 [make(int) /src/list.c:4]
";
    const TRACED: &str = r#"{"heap": [{"file": "list.c", "line": 4, "loads": 10, "stores": 6, "loaded_bytes": 80, "stored_bytes": 48,
        "fields": [{"name": "node.next.low", "loads": 9, "stores": 3, "loaded_bytes": 72, "stored_bytes": 40}]}],
        "structures": [{"name": "node", "fields": [{"name": "key", "offset": 0, "bytes": 8}, {"name": "next", "offset": 8, "bytes": 8}]}],
        "sites": [{"file": "/src/list.c", "line": 9}]}"#;

    #[test]
    fn own_lines_and_touched_fields_are_compared() {
        let (exact, traced) = (Counts::parse(ANSWER).unwrap(), serde_json::from_str::<Traced>(TRACED).unwrap());
        let lines = by_line(&exact, &traced);
        let [(name, both)] = lines.as_slice() else { panic!("{lines:?}") };
        assert_eq!((name.as_str(), both.exact.loads, both.exact.stores), ("list.c:4", 10, 5));
        assert_eq!((both.verdict(), both.agree()), (Verdict::Differs, false));
        let (site, rows) = (exact.site("list.c:4").unwrap(), traced.heap.iter().collect::<Vec<_>>());
        let fields = by_field(site, &rows, &traced.structures, &element(("list.c:4", "node", 16))).unwrap();
        // Accesses of 16 bytes at 0 touch both, those at 8 the next element's key.
        let counts = |index: usize| (fields[index].1.exact.loads, fields[index].1.exact.stores);
        assert_eq!((counts(0), counts(1)), ((2, 5), (10, 3)));
        assert_eq!((fields[1].0.as_str(), fields[1].1.traced.loads), ("node.next", 9));
        // Behind a count of 8 bytes what begins at 8 is the first key.
        let behind = Element { start: 8, ..element(("list.c:4", "node", 16)) };
        let fields = by_field(site, &rows, &traced.structures, &behind).unwrap();
        let counts = |index: usize| (fields[index].1.exact.loads, fields[index].1.exact.stores);
        assert_eq!((counts(0), counts(1)), ((10, 3), (2, 5)));
        let (name, both) = by_site(site, &rows);
        assert_eq!((name.as_str(), both.exact.loads, both.traced.loads), ("make(int) /src/list.c:4", 12, 10));
    }

    #[test]
    fn bytes_may_be_equal_where_counts_are_not() {
        let accesses = |stores, stored_bytes| Accesses { stores, stored_bytes, ..Accesses::default() };
        let verdict = |exact, traced| Both { exact, traced }.verdict();
        assert_eq!(verdict(accesses(4, 64), accesses(4, 64)), Verdict::Equal);
        assert_eq!(verdict(accesses(4, 64), accesses(1, 64)), Verdict::SameBytes);
        assert_eq!(verdict(accesses(4, 64), accesses(1, 60)), Verdict::Differs);
    }
}
