//! Simulated machines as text.

use std::fmt::{self, Write};

use slimline_trace::escape::plain;

use super::number::{bytes, count, percent, plural};
use super::table::{Column, Rows};
use super::{HEADING, STRONG};
use crate::simulation::{SimulatedCache, SimulatedMachine, SimulationReport};

/// Columns of a name.
const NAME_COLUMNS: usize = 16;

/// Writes the report.
///
/// # Errors
/// As `out`.
pub fn simulation(out: &mut impl Write, report: &SimulationReport) -> fmt::Result {
    for (number, machine) in report.machines.iter().enumerate() {
        if number > 0 {
            writeln!(out)?;
        }
        one(out, report, machine)?;
    }
    Ok(())
}

fn one(out: &mut impl Write, report: &SimulationReport, machine: &SimulatedMachine) -> fmt::Result {
    let SimulatedMachine { loads, stores, fetches, cycles, .. } = *machine;
    writeln!(out, "{STRONG}{}{STRONG:#}, {}", plain(&machine.name), plural(u64::from(machine.cores), "core"))?;
    writeln!(out, "  {} ({})", plain(&report.file), report.format)?;
    let fetched = if fetches > 0 { format!(", {} instruction fetches", count(fetches)) } else { String::new() };
    writeln!(out, "  {} loads, {} stores{fetched}", count(loads), count(stores))?;
    let accesses = (loads + stores + fetches).max(1);
    writeln!(out, "  {} cycles, {:.2} an access", count(cycles), cycles as f64 / accesses as f64)?;
    caches(out, machine)?;
    why(out, machine)?;
    lines(out, machine)?;
    rest(out, machine)
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
    for cache in &machine.caches {
        let mut cells = vec![
            name(cache),
            bytes(cache.bytes),
            cache.ways.to_string(),
            count(cache.lookups),
            count(cache.misses),
            percent(cache.misses as f64 / cache.lookups.max(1) as f64),
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
    let has_classes = machine.caches.iter().any(|cache| cache.classes.capacity.is_some());
    let is_shared = machine.cores > 1;
    let mut columns = vec![Column::Shortened("cache", NAME_COLUMNS), Column::Number("first use")];
    match has_classes {
        true => columns.extend([Column::Number("capacity"), Column::Number("conflict")]),
        false => columns.push(Column::Number("replaced")),
    }
    if is_shared {
        columns.extend([Column::Number("shared"), Column::Number("falsely shared")]);
    }
    let mut rows = Rows::new(&columns, false);
    for cache in &machine.caches {
        let classes = &cache.classes;
        let mut cells = vec![name(cache), count(classes.cold)];
        match (classes.capacity, classes.conflict) {
            (Some(capacity), Some(conflict)) => cells.extend([count(capacity), count(conflict)]),
            _ => cells.push(count(classes.replaced)),
        }
        if is_shared {
            cells.extend([count(classes.coherence_true), count(classes.coherence_false)]);
        }
        rows.push(cells);
    }
    rows.write(out, 2)
}

/// A column that is shown where anything is in it.
type LineColumn = (&'static str, fn(&SimulatedCache) -> u64);

fn lines(out: &mut impl Write, machine: &SimulatedMachine) -> fmt::Result {
    let all: [LineColumn; 6] = [
        ("evicted", |cache| cache.evictions),
        ("written back", |cache| cache.write_backs),
        ("invalidated", |cache| cache.invalidations),
        ("by inclusion", |cache| cache.back_invalidations),
        ("prefetched", |cache| cache.prefetches),
        ("and used", |cache| cache.used_prefetches),
    ];
    let shown: Vec<LineColumn> =
        all.into_iter().filter(|(_, of)| machine.caches.iter().any(|cache| of(cache) > 0)).collect();
    if shown.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{HEADING}Lines{HEADING:#}")?;
    let columns = shown.iter().map(|(title, _)| Column::Number(title));
    let columns: Vec<Column> = [Column::Shortened("cache", NAME_COLUMNS)].into_iter().chain(columns).collect();
    let mut rows = Rows::new(&columns, false);
    for cache in &machine.caches {
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
        let share = percent(used.used_bytes as f64 / used.bytes.max(1) as f64);
        writeln!(out, "  {share} of the bytes of {} lines in the first level were used", count(used.lines))?;
    }
    Ok(())
}
