//! What simulated machines did: levels, misses by class, and whose they are.

use std::fmt::{self, Write};

use crate::html::bar::{self, Part, TONES};
use crate::html::page::Escaped;
use crate::html::table::{Cell, Column, Table};
use crate::simulation::{
    Breakdowns, MissClasses, Offender, SimulatedCache, SimulatedMachine, SimulatedRow, SimulationReport,
};
use crate::text::number::{count, percent, plural, plural_of};
use crate::text::simulation::{line_columns, offender_names, row_name};

pub(super) fn machines(out: &mut impl Write, report: &SimulationReport) -> fmt::Result {
    for machine in &report.machines {
        one(out, machine)?;
    }
    Ok(())
}

fn one(out: &mut impl Write, machine: &SimulatedMachine) -> fmt::Result {
    let SimulatedMachine { name, cores, loads, stores, fetches, cycles, .. } = machine;
    let fetched = match fetches {
        0 => String::new(),
        n => format!(", {}", plural_of(*n, "instruction fetch", "instruction fetches")),
    };
    writeln!(
        out,
        "<h3>{}, {}</h3>\n<p>{}, {}{fetched}; {} cycles, {:.2} an access</p>",
        Escaped(name),
        plural(u64::from(*cores), "core"),
        plural(*loads, "load"),
        plural(*stores, "store"),
        count(*cycles),
        machine.cycles_each()
    )?;
    misses(out, machine)?;
    why(
        out,
        machine,
        "Why they missed",
        "cache",
        machine.asked_caches().map(|cache| (cache.name.clone(), &cache.classes)),
    )?;
    lines(out, machine)?;
    pages(out, machine)?;
    memory(out, machine)?;
    match &machine.by {
        Some(by) => breakdowns(out, machine, by),
        None => writeln!(out, "<p class=\"faint\">Whose the accesses are the trace does not tell.</p>"),
    }
}

fn misses(out: &mut impl Write, machine: &SimulatedMachine) -> fmt::Result {
    let has_fetches = machine.fetches > 0;
    let mut columns = vec![
        Column::Text("cache"),
        Column::Number("size"),
        Column::Number("ways"),
        Column::Number("lines asked for"),
        Column::Number("missed"),
        Column::Number("share"),
        Column::Bar("of those asked for"),
        Column::Number("by loads"),
        Column::Number("by stores"),
    ];
    columns.extend(has_fetches.then_some(Column::Number("by fetches")));
    let mut table = Table::new("Misses of each level", &columns);
    for cache in machine.asked_caches() {
        let SimulatedCache { name, bytes, ways, lookups, misses, .. } = cache;
        let mut cells =
            vec![Cell::text(name), Cell::bytes(*bytes), Cell::count(u64::from(*ways)), Cell::count(*lookups)];
        cells.extend([
            Cell::count(*misses),
            Cell::share(cache.miss_share()),
            Cell::bar(bar::filled(cache.miss_share())),
        ]);
        cells.extend([Cell::count(cache.load_misses), Cell::count(cache.store_misses)]);
        cells.extend(has_fetches.then(|| Cell::count(cache.fetch_misses)));
        table.row(&cells);
    }
    table.write_unsorted(out)
}

/// Misses by class, of caches or of data.
fn why<'m>(
    out: &mut impl Write,
    machine: &SimulatedMachine,
    caption: &str,
    of: &str,
    rows: impl Iterator<Item = (String, &'m MissClasses)>,
) -> fmt::Result {
    let rows: Vec<(String, Vec<(&str, u64)>)> = rows.map(|(name, classes)| (name, classes.named(machine))).collect();
    let Some((_, classes)) = rows.first() else { return Ok(()) };
    let named: Vec<(&str, &str)> = TONES.iter().zip(classes).map(|(tone, (name, _))| (*tone, *name)).collect();
    let mut columns = vec![Column::Text(of), Column::Number("missed"), Column::Bar("why")];
    columns.extend(named.iter().map(|(_, name)| Column::Number(name)));
    let mut table = Table::searched(caption, &columns);
    for (name, classes) in &rows {
        let all: u64 = classes.iter().map(|(_, misses)| misses).sum();
        let part = |(tone, (name, misses)): (&&'static str, &(&str, u64))| Part {
            class: tone,
            name: (*name).to_owned(),
            share: *misses as f64 / all.max(1) as f64,
        };
        let parts: Vec<Part> = TONES.iter().zip(classes).map(part).collect();
        let bar = if all == 0 { String::new() } else { bar::small("why", &parts) };
        let mut cells = vec![Cell::long_text(name), Cell::count(all), Cell::bar(bar)];
        cells.extend(classes.iter().map(|(_, misses)| Cell::count(*misses)));
        table.row(&cells);
    }
    table.write(out)?;
    out.write_str(&bar::legend(&named))
}

fn lines(out: &mut impl Write, machine: &SimulatedMachine) -> fmt::Result {
    let shown = line_columns(machine);
    if shown.is_empty() {
        return Ok(());
    }
    let columns: Vec<Column<'_>> =
        [Column::Text("cache")].into_iter().chain(shown.iter().map(|(name, _)| Column::Number(name))).collect();
    let mut table = Table::new("What became of lines", &columns);
    for cache in machine.asked_caches() {
        let counts = shown.iter().map(|(_, of)| Cell::count(of(cache)));
        table.row(&[Cell::text(&cache.name)].into_iter().chain(counts).collect::<Vec<_>>());
    }
    table.write_unsorted(out)
}

fn pages(out: &mut impl Write, machine: &SimulatedMachine) -> fmt::Result {
    if machine.tlbs.is_empty() {
        return Ok(());
    }
    let columns = [Column::Text("TLB"), Column::Number("entries"), Column::Number("ways"), Column::Number("missed")];
    let mut table = Table::new("Pages", &columns);
    for tlb in &machine.tlbs {
        let [entries, ways] = [tlb.entries, tlb.ways].map(|n| Cell::count(n.into()));
        table.row(&[Cell::text(&tlb.name), entries, ways, Cell::count(tlb.misses)]);
    }
    table.write_unsorted(out)
}

fn memory(out: &mut impl Write, machine: &SimulatedMachine) -> fmt::Result {
    let columns = [Column::Text("memory"), Column::Number("lines")];
    let mut table = Table::new("Memory", &columns);
    for memory in &machine.memories {
        table.row(&[Cell::text(&format!("served by {}", memory.name)), Cell::count(memory.served)]);
    }
    table.row(&[Cell::text("written back"), Cell::count(machine.memory_writes)]);
    if machine.cores > 1 {
        table.row(&[Cell::text("from another core's cache"), Cell::count(machine.transfers)]);
    }
    table.write_unsorted(out)?;
    match machine.used.as_ref().and_then(|used| Some((used.share()?, used.lines))) {
        Some((share, lines)) => writeln!(
            out,
            "<p>{} of the bytes of {} lines in the first level were used.</p>",
            Escaped(percent(share)),
            count(lines)
        ),
        None => Ok(()),
    }
}

fn breakdowns(out: &mut impl Write, machine: &SimulatedMachine, by: &Breakdowns) -> fmt::Result {
    cut(out, "data", "Data", &by.data)?;
    let path = by.data.first().map(|row| row.counts.caches.as_slice()).unwrap_or_default();
    // What is nearest, and what costs most.
    let mut told = vec![0, path.len().saturating_sub(1)];
    told.dedup();
    for place in told.into_iter().filter(|&place| place < path.len()) {
        let missed = by.data.iter().filter(|row| row.counts.caches[place].misses > 0);
        let mut missed: Vec<&SimulatedRow> = missed.collect();
        missed.sort_by_key(|row| std::cmp::Reverse(row.counts.caches[place].misses));
        let rows = missed.into_iter().map(|row| (row_name(row), &row.counts.caches[place].classes));
        why(out, machine, &format!("Why {} missed, by data", path[place].name), "data", rows)?;
    }
    for (of, heading, rows) in [
        ("field", "Fields", &by.fields),
        ("function", "Functions", &by.functions),
        ("line", "Lines", &by.lines),
        ("thread", "Threads", &by.threads),
    ] {
        // One row says nothing new.
        if rows.len() > 1 {
            cut(out, of, heading, rows)?;
        }
    }
    offenders(out, path.last().map_or("", |cache| &cache.name), &by.offenders)
}

/// Cycles and misses, cut by something.
fn cut(out: &mut impl Write, of: &str, heading: &str, rows: &[SimulatedRow]) -> fmt::Result {
    let Some(first) = rows.first() else { return Ok(()) };
    writeln!(out, "<h4>{heading}</h4>")?;
    let is_written = rows.iter().any(|row| row.counts.memory_writes > 0);
    let has_used = first.counts.used.is_some();
    let has_kind = first.data.is_some();
    let mut columns = vec![Column::Text(of)];
    columns.extend(has_kind.then_some(Column::Text("kind")));
    columns.extend([
        Column::Number("cycles"),
        Column::Bar("of all"),
        Column::Number("accesses"),
        Column::Number("cycles each"),
    ]);
    columns.extend(first.counts.caches.iter().map(|cache| Column::Number(&cache.name)));
    columns.extend(is_written.then_some(Column::Number("written")));
    columns.extend(has_used.then_some(Column::Number("used")));
    let written = if is_written { ", lines written to memory" } else { "" };
    let used = if has_used { "; the part of the lines' bytes that was used" } else { "" };
    let caption =
        format!("{heading} by their share of the cycles; misses of each cache{written} in 100 lines asked for{used}");
    let mut table = Table::searched(&caption, &columns);
    for row in rows {
        let counts = &row.counts;
        let mut cells = vec![Cell::long_text(&row_name(row))];
        if has_kind {
            cells.push(row.data.as_ref().map_or_else(Cell::nothing, |data| Cell::text(data.kind)));
        }
        cells.extend([
            Cell::share(counts.share),
            Cell::bar(bar::filled(counts.share)),
            Cell::count(counts.accesses),
            Cell::number(&format!("{:.1}", counts.cycles_each()), counts.cycles_each()),
        ]);
        cells.extend(counts.caches.iter().map(|cache| Cell::share(counts.of_lines(cache.misses))));
        cells.extend(is_written.then(|| Cell::share(counts.of_lines(counts.memory_writes))));
        if has_used {
            cells.push(counts.used.and_then(|used| used.share()).map_or_else(Cell::nothing, Cell::share));
        }
        table.row(&cells);
    }
    table.write(out)
}

fn offenders(out: &mut impl Write, cache: &str, all: &[Offender]) -> fmt::Result {
    let misses = |offender: &Offender| offender.misses.last().copied().unwrap_or(0);
    let all: Vec<&Offender> = all.iter().filter(|offender| misses(offender) > 0).collect();
    let Some(most) = all.iter().map(|offender| misses(offender)).max() else { return Ok(()) };
    writeln!(out, "<h4>Who misses {} most</h4>", Escaped(cache))?;
    let columns = [
        Column::Text("variable"),
        Column::Text("line"),
        Column::Number("accesses"),
        Column::Number("missed"),
        Column::Bar("of the most"),
    ];
    let caption = format!("Variables and lines by their misses of {cache}");
    let mut table = Table::searched(&caption, &columns);
    for offender in all {
        let [variable, line] = offender_names(offender);
        let missed = misses(offender);
        let bar = Cell::bar(bar::of_most(missed, most));
        let cells = [Cell::long_text(&variable), Cell::long_text(&line), Cell::count(offender.accesses)];
        table.row(&[&cells[..], &[Cell::count(missed), bar]].concat());
    }
    table.write(out)
}
