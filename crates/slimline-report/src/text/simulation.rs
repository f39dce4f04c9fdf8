//! Simulated machines as text.

use std::fmt::{self, Write};

use slimline_trace::escape::plain;

use super::full_trace::more;
use super::number::{bytes, count, percent, plural, plural_of};
use super::table::{Column, Rows, shorten_end, shorten_path};
use super::{HEADING, STRONG, WIDTH};
use crate::full_trace::Position;
use crate::simulation::{
    AccessTrace, Breakdowns, DataRow, MissClasses, Offender, SimulatedCache, SimulatedMachine, SimulatedRow,
    SimulationReport,
};

/// Columns of a name.
const NAME_COLUMNS: usize = 16;

/// Writes the report; tables of data, lines and the like have at most so many rows.
///
/// # Errors
/// As `out`.
pub fn simulation(out: &mut impl Write, report: &SimulationReport, most: usize) -> fmt::Result {
    access_trace(out, &report.trace)?;
    for machine in &report.machines {
        writeln!(out)?;
        one(out, machine, most)?;
    }
    Ok(())
}

/// What accesses are of.
pub(super) fn access_trace(out: &mut impl Write, trace: &AccessTrace) -> fmt::Result {
    let of = match trace.format {
        "trace" | "session" => shorten_end(&plain(&trace.command.join(" ")), WIDTH / 2),
        format => format.to_owned(),
    };
    let threads = trace.threads.map_or_else(String::new, |threads| format!(", {}", plural(threads, "thread")));
    writeln!(out, "{} ({of}){threads}", plain(&trace.file))?;
    for missing in &trace.missing {
        writeln!(out, "Missing: {}", plain(missing))?;
    }
    Ok(())
}

fn one(out: &mut impl Write, machine: &SimulatedMachine, most: usize) -> fmt::Result {
    let SimulatedMachine { loads, stores, fetches, cycles, .. } = *machine;
    writeln!(out, "{STRONG}{}{STRONG:#}, {}", plain(&machine.name), plural(u64::from(machine.cores), "core"))?;
    let fetched = if fetches > 0 {
        format!(", {}", plural_of(fetches, "instruction fetch", "instruction fetches"))
    } else {
        String::new()
    };
    writeln!(out, "  {}, {}{fetched}", plural(loads, "load"), plural(stores, "store"))?;
    writeln!(out, "  {} cycles, {:.2} an access", count(cycles), machine.cycles_each())?;
    caches(out, machine)?;
    why(out, machine)?;
    lines(out, machine)?;
    rest(out, machine)?;
    match &machine.by {
        Some(by) => breakdowns(out, machine, by, most),
        None => Ok(()),
    }
}

fn name(cache: &SimulatedCache) -> String {
    plain(&cache.name)
}

fn caches(out: &mut impl Write, machine: &SimulatedMachine) -> fmt::Result {
    writeln!(out, "\n{HEADING}Misses{HEADING:#}")?;
    let has_fetches = machine.fetches > 0;
    let mut columns = vec![
        Column::Shortened("cache", NAME_COLUMNS),
        Column::Number("size"),
        Column::Number("ways"),
        Column::Number("lines asked for"),
        Column::Number("missed"),
        Column::Number("share"),
        Column::Number("by loads"),
        Column::Number("by stores"),
    ];
    if has_fetches {
        columns.push(Column::Number("by fetches"));
    }
    let mut rows = Rows::new(&columns, false);
    for cache in machine.asked_caches() {
        let mut cells = vec![
            name(cache),
            bytes(cache.bytes),
            cache.ways.to_string(),
            count(cache.lookups),
            count(cache.misses),
            percent(cache.miss_share()),
            count(cache.load_misses),
            count(cache.store_misses),
        ];
        if has_fetches {
            cells.push(count(cache.fetch_misses));
        }
        rows.push(cells);
    }
    rows.write(out, 2)
}

fn why(out: &mut impl Write, machine: &SimulatedMachine) -> fmt::Result {
    writeln!(out, "\n{HEADING}Why they missed{HEADING:#}")?;
    let columns = [&[Column::Shortened("cache", NAME_COLUMNS)], &classes(machine)[..]].concat();
    let mut rows = Rows::new(&columns, false);
    for cache in machine.asked_caches() {
        rows.push([vec![name(cache)], class_cells(machine, &cache.classes)].concat());
    }
    rows.write(out, 2)
}

/// Why a machine's caches can miss.
fn classes(machine: &SimulatedMachine) -> Vec<Column<'static>> {
    let named = machine.caches.first().map(|cache| cache.classes.named(machine)).unwrap_or_default();
    named.into_iter().map(|(name, _)| Column::Number(name)).collect()
}

fn class_cells(machine: &SimulatedMachine, classes: &MissClasses) -> Vec<String> {
    classes.named(machine).into_iter().map(|(_, misses)| count(misses)).collect()
}

/// A column that is shown where anything is in it.
pub(crate) type LineColumn = (&'static str, fn(&SimulatedCache) -> u64);

/// What became of lines in a machine's caches.
pub(crate) fn line_columns(machine: &SimulatedMachine) -> Vec<LineColumn> {
    let all: [LineColumn; 6] = [
        ("evicted", |cache| cache.evictions),
        ("written back", |cache| cache.write_backs),
        ("invalidated", |cache| cache.invalidations),
        ("by inclusion", |cache| cache.back_invalidations),
        ("prefetched", |cache| cache.prefetches),
        ("and used", |cache| cache.used_prefetches),
    ];
    all.into_iter().filter(|(_, of)| machine.caches.iter().any(|cache| of(cache) > 0)).collect()
}

fn lines(out: &mut impl Write, machine: &SimulatedMachine) -> fmt::Result {
    let shown = line_columns(machine);
    if shown.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{HEADING}Lines{HEADING:#}")?;
    let columns = shown.iter().map(|(title, _)| Column::Number(title));
    let columns: Vec<Column> = [Column::Shortened("cache", NAME_COLUMNS)].into_iter().chain(columns).collect();
    let mut rows = Rows::new(&columns, false);
    for cache in machine.asked_caches() {
        rows.push([name(cache)].into_iter().chain(shown.iter().map(|(_, of)| count(of(cache)))).collect());
    }
    rows.write(out, 2)
}

fn rest(out: &mut impl Write, machine: &SimulatedMachine) -> fmt::Result {
    if !machine.tlbs.is_empty() {
        writeln!(out, "\n{HEADING}Pages{HEADING:#}")?;
        let columns = [
            Column::Shortened("TLB", NAME_COLUMNS),
            Column::Number("entries"),
            Column::Number("ways"),
            Column::Number("missed"),
        ];
        let mut rows = Rows::new(&columns, false);
        for tlb in &machine.tlbs {
            rows.push(vec![plain(&tlb.name), count(tlb.entries.into()), count(tlb.ways.into()), count(tlb.misses)]);
        }
        rows.write(out, 2)?;
    }
    writeln!(out, "\n{HEADING}Memory{HEADING:#}")?;
    for memory in &machine.memories {
        writeln!(out, "  {} lines served by {}", count(memory.served), plain(&memory.name))?;
    }
    writeln!(out, "  {} lines written back", count(machine.memory_writes))?;
    if machine.cores > 1 {
        writeln!(out, "  {} lines came from another core's cache", count(machine.transfers))?;
    }
    if let Some(used) = &machine.used {
        let share = percent(used.share().unwrap_or(0.0));
        writeln!(out, "  {share} of the bytes of {} lines in the first level were used", count(used.lines))?;
    }
    Ok(())
}

/// Columns of what a row is of.
const ROW_COLUMNS: usize = 30;
/// Where there are many other columns.
const LEAST_COLUMNS: usize = 20;

fn breakdowns(out: &mut impl Write, machine: &SimulatedMachine, by: &Breakdowns, most: usize) -> fmt::Result {
    table(out, "By data", "data", &by.data, most)?;
    let path: Vec<&str> = by.data.first().iter().flat_map(|row| &row.counts.caches).map(|c| c.name.as_str()).collect();
    // What is nearest, and what costs most.
    let mut shown = vec![0, path.len().saturating_sub(1)];
    shown.dedup();
    for place in shown.into_iter().filter(|&place| place < path.len()) {
        why_by_data(out, machine, &by.data, place, most)?;
    }
    for (title, column, rows) in [
        ("By field", "field", &by.fields),
        ("By function", "function", &by.functions),
        ("By line", "line", &by.lines),
        ("By thread", "thread", &by.threads),
    ] {
        // One row says nothing new.
        if rows.len() > 1 {
            table(out, title, column, rows, most)?;
        }
    }
    offenders(out, &path, &by.offenders, most)
}

/// Columns beside those of so many caches that shares and a number of accesses leave of the page.
fn left_beside(caches: usize) -> usize {
    const SHARE: usize = 9;
    const ACCESSES: usize = 15;
    const CYCLES_EACH: usize = 13;
    const INDENT: usize = 2;
    let others = INDENT + SHARE * (1 + caches) + ACCESSES + CYCLES_EACH + INDENT;
    WIDTH.saturating_sub(others)
}

/// Callers that are part of a name.
const NAMED_CALLERS: usize = 3;

/// What a row of data is called.
pub(crate) fn data_name(name: Option<&str>, data: &DataRow) -> String {
    let Some(Position { file, line, function, .. }) = &data.allocated_at else {
        return name.map_or_else(|| "(not known)".to_owned(), plain);
    };
    let file = file.as_deref().map(file_name);
    let place = match (file, line, function) {
        (Some(file), Some(line), _) => plain(&format!("{file}:{line}")),
        (.., Some(function)) => plain(function),
        _ => "heap".to_owned(),
    };
    let callers = data.callers.iter().take(NAMED_CALLERS).filter_map(|caller| caller.function.as_deref());
    let callers: String = callers.map(|caller| format!(" < {}", plain(caller))).collect();
    match name.or(data.type_name.as_deref()) {
        Some(name) => format!("{}, {place}{callers}", plain(name)),
        None => place + &callers,
    }
}

/// The last part of a path; of Rust's `mod.rs`, which there are many of, with the directory.
fn file_name(path: &str) -> &str {
    let wanted = if path.ends_with("/mod.rs") { 2 } else { 1 };
    path.rmatch_indices('/').nth(wanted - 1).map_or(path, |(at, _)| &path[at + 1..])
}

/// What a row is called.
pub(crate) fn row_name(row: &SimulatedRow) -> String {
    match (&row.data, &row.name) {
        (Some(data), name) => data_name(name.as_deref(), data),
        (None, Some(name)) => plain(name),
        (None, None) => "(not known)".to_owned(),
    }
}

/// The same in a table; data's names are shortened by that.
fn shown_name(row: &SimulatedRow) -> String {
    let name = row_name(row);
    if row.data.is_some() { name } else { shorten_path(&name, ROW_COLUMNS) }
}

fn table(out: &mut impl Write, title: &str, column: &'static str, all: &[SimulatedRow], most: usize) -> fmt::Result {
    let Some(first) = all.first() else { return Ok(()) };
    let is_written = all.iter().any(|row| row.counts.memory_writes > 0);
    let written = if is_written { ", lines written to memory" } else { "" };
    writeln!(
        out,
        "\n{HEADING}{title}: share of cycles; misses of each cache{written} in 100 lines asked for{HEADING:#}"
    )?;
    let has_callers = all.iter().filter_map(|row| row.data.as_ref()).any(|data| !data.callers.is_empty());
    let numbers = first.counts.caches.len() + usize::from(first.counts.used.is_some()) + usize::from(is_written);
    let left = left_beside(numbers);
    let mut columns = vec![
        Column::Shortened(
            column,
            if has_callers { left.max(ROW_COLUMNS) } else { left.clamp(LEAST_COLUMNS, ROW_COLUMNS) },
        ),
        Column::Number("share"),
        Column::Number("accesses"),
        Column::Number("cycles each"),
    ];
    let names: Vec<String> = first.counts.caches.iter().map(|cache| plain(&cache.name)).collect();
    let has_used = first.counts.used.is_some();
    columns.extend(names.iter().map(|name| Column::Number(name)));
    if is_written {
        columns.push(Column::Number("written"));
    }
    if has_used {
        columns.push(Column::Number("used"));
    }
    let mut rows = Rows::new(&columns, false);
    for row in all.iter().take(most) {
        let counts = &row.counts;
        let mut cells = vec![
            shown_name(row),
            percent(counts.share),
            count(counts.accesses),
            format!("{:.1}", counts.cycles_each()),
        ];
        cells.extend(counts.caches.iter().map(|cache| percent(counts.of_lines(cache.misses))));
        if is_written {
            cells.push(percent(counts.of_lines(counts.memory_writes)));
        }
        if has_used {
            cells.push(counts.used.and_then(|used| used.share()).map_or_else(String::new, percent));
        }
        rows.push(cells);
    }
    rows.write(out, 2)?;
    more(out, all.len(), most)
}

/// Why lines were not in one cache.
fn why_by_data(
    out: &mut impl Write,
    machine: &SimulatedMachine,
    data: &[SimulatedRow],
    place: usize,
    most: usize,
) -> fmt::Result {
    let of = |row: &SimulatedRow| row.counts.caches[place].misses;
    let is_told = |row: &&SimulatedRow| of(row) + row.counts.caches[place].write_backs > 0;
    let mut all: Vec<&SimulatedRow> = data.iter().filter(is_told).collect();
    let Some(first) = all.first() else { return Ok(()) };
    let cache = plain(&first.counts.caches[place].name);
    all.sort_by_key(|row| std::cmp::Reverse(of(row)));
    writeln!(out, "\n{HEADING}Why {cache} missed, by data{HEADING:#}")?;
    let mut columns =
        [&[Column::Shortened("data", ROW_COLUMNS), Column::Number("missed")], &classes(machine)[..]].concat();
    let is_written = all.iter().any(|row| row.counts.caches[place].write_backs > 0);
    columns.extend(is_written.then_some(Column::Number("written back")));
    let mut rows = Rows::new(&columns, false);
    for row in all.iter().take(most) {
        let cache = &row.counts.caches[place];
        let written = is_written.then(|| count(cache.write_backs));
        let cells = vec![row_name(row), count(cache.misses)].into_iter();
        rows.push(cells.chain(class_cells(machine, &cache.classes)).chain(written).collect());
    }
    rows.write(out, 2)?;
    more(out, all.len(), most)
}

/// Variable and line.
pub(crate) fn offender_names(offender: &Offender) -> [String; 2] {
    let line = offender.file.as_ref().zip(offender.line).map(|(file, line)| format!("{file}:{line}"));
    [offender.variable.as_deref(), line.as_deref()].map(|name| name.map_or_else(|| "(not known)".to_owned(), plain))
}

fn offenders(out: &mut impl Write, path: &[&str], all: &[Offender], most: usize) -> fmt::Result {
    let misses = |offender: &Offender| offender.misses.last().copied().unwrap_or(0);
    let all: Vec<&Offender> = all.iter().filter(|offender| misses(offender) > 0).collect();
    let Some(cache) = path.last().filter(|_| !all.is_empty()) else { return Ok(()) };
    writeln!(out, "\n{HEADING}Who misses {} most{HEADING:#}", plain(cache))?;
    let columns = [
        Column::Shortened("variable", 28),
        Column::Shortened("line", 36),
        Column::Number("accesses"),
        Column::Number("missed"),
    ];
    let mut rows = Rows::new(&columns, false);
    for offender in all.iter().take(most) {
        let [variable, line] = offender_names(offender);
        rows.push(vec![variable, shorten_path(&line, 36), count(offender.accesses), count(misses(offender))]);
    }
    rows.write(out, 2)?;
    more(out, all.len(), most)
}

#[cfg(test)]
mod tests {
    use slimline_simulate::access::{Access, AccessKind, Consumer as _, Work};
    use slimline_simulate::machine::Machine;
    use slimline_simulate::simulation::{Options, Simulation};

    use super::super::a_run;
    use super::*;

    #[test]
    fn files_are_told_apart() {
        let names = ["/w/src/main.rs", "main.rs", "alloc/src/raw_vec/mod.rs", "ptr/mod.rs", "mod.rs", "a/b/mod.rs.c"];
        let expected = ["main.rs", "main.rs", "raw_vec/mod.rs", "ptr/mod.rs", "mod.rs", "mod.rs.c"];
        assert_eq!(names.map(file_name), expected);
    }

    #[test]
    fn a_fill_of_many_lines_misses_each_once() {
        let machine = Machine::parse(
            r#"name = "small"
            cache = [{ name = "L1", level = 1, holds = "data", size = 128, line = 64, ways = 2, latency = 1 }]
            memory = [{ name = "memory", latency = 100 }]"#,
        );
        let asked = Options::default();
        let mut simulation = Simulation::new(&machine.unwrap(), &asked).unwrap();
        // One store to 100 lines, of which all but the last two are written to memory.
        simulation.take(&[Access {
            address: 0,
            key: 0,
            bytes: 6400,
            thread: 0,
            kind: AccessKind::Store,
            work: Work::USUAL,
        }]);
        let outcomes = [simulation.finish()];
        let report = SimulationReport::new(a_run::trace(), &outcomes, &a_run::origins(), &asked);
        let mut out = String::new();
        super::simulation(&mut out, &report, 3).unwrap();
        let row = a_run::unstyled(&out).lines().find(|line| line.starts_with("  CDF")).unwrap().to_owned();
        let cells: Vec<&str> = row.split_whitespace().rev().take(4).collect();
        assert_eq!(cells, ["%", "98.0", "%", "100.0"], "{row}");
    }

    #[test]
    fn a_small_report() {
        let asked = Options { classes: true, used_bytes: true, ..Options::default() };
        let mut simulation = Simulation::new(&a_run::machine(), &asked).unwrap();
        simulation.take(&a_run::accesses());
        let outcomes = [simulation.finish()];
        let report = SimulationReport::new(a_run::trace(), &outcomes, &a_run::origins(), &asked);
        let mut out = String::new();
        super::simulation(&mut out, &report, 3).unwrap();
        insta::assert_snapshot!(a_run::unstyled(&out));
        let csv = report.csv();
        assert!(csv.contains("\ntwo nodes,L1,counts,src/filter.c,301,80,40,39\n"), "{csv}");
    }
}
