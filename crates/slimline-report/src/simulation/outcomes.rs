//! What simulated machines tell, as the report has it.

use std::collections::HashMap;

use slimline_analyze::origins::{By, Origins};
use slimline_analyze::simulated::{offenders, rows, uses};
use slimline_simulate::machine::Holds;
use slimline_simulate::simulation::{Counts, Events, Misses, Options, Outcome};

use super::{
    Breakdowns, MissClasses, Offender, RowCounts, RowMisses, SimulatedCache, SimulatedMachine, SimulatedMemory,
    SimulatedRow, SimulatedTlb, UseRow, UsedLines, data_row, file_and_line,
};
use crate::full_trace::known;

pub(super) fn machine(outcome: &Outcome, classes: bool, used: bool) -> SimulatedMachine {
    let machine = outcome.machine();
    let total = outcome.total();
    let lookups = total.lookups(machine);
    let mut caches: Vec<SimulatedCache> = (0..machine.caches.len())
        .map(|place| {
            let (cache, misses, events) = (&machine.caches[place], &total.misses[place], &outcome.events()[place]);
            let Events { evictions, write_backs, invalidations, back_invalidations, prefetches, used_prefetches } =
                *events;
            SimulatedCache {
                name: cache.name.clone(),
                level: cache.level,
                holds: match cache.holds {
                    Holds::Data => "data",
                    Holds::Instructions => "instructions",
                    Holds::Unified => "both",
                },
                bytes: cache.bytes,
                ways: cache.ways,
                line_bytes: cache.line_bytes,
                lookups: lookups[place],
                misses: misses.total(),
                load_misses: misses.loads,
                store_misses: misses.stores,
                fetch_misses: misses.fetches,
                classes: miss_classes(misses, classes),
                evictions,
                write_backs,
                invalidations,
                back_invalidations,
                prefetches,
                used_prefetches,
            }
        })
        .collect();
    caches.sort_by_key(|cache| cache.level);
    let tlb = |(tlb, &misses): (&slimline_simulate::machine::Tlb, &u64)| SimulatedTlb {
        name: tlb.name.clone(),
        entries: tlb.entries,
        ways: tlb.ways,
        misses,
    };
    let Counts { loads, stores, fetches, cycles, .. } = total;
    let events = outcome.machine_events();
    SimulatedMachine {
        name: machine.name.clone(),
        cores: machine.cores,
        loads,
        stores,
        fetches,
        cycles,
        caches,
        tlbs: machine.tlbs.iter().zip(&total.tlb_misses).map(tlb).collect(),
        page_walks: (!machine.tlbs.is_empty()).then_some(total.page_walks),
        memories: machine
            .memories
            .iter()
            .zip(&total.served_by_memory)
            .map(|(memory, &served)| SimulatedMemory { name: memory.name.clone(), served })
            .collect(),
        memory_writes: events.memory_writes,
        transfers: events.transfers,
        upgrades: events.upgrades,
        used: used.then(|| UsedLines {
            lines: total.fetched_lines,
            bytes: total.fetched_lines * u64::from(machine.line_bytes()),
            used_bytes: total.used_bytes,
        }),
        by: None,
    }
}

pub(super) fn breakdowns(outcome: &Outcome, origins: &Origins, asked: &Options) -> Breakdowns {
    let total = outcome.total();
    let named = |by| {
        let row = |row: &slimline_analyze::simulated::SimulatedRow| SimulatedRow {
            name: known(origins.name(row.of)),
            data: None,
            counts: row_counts(outcome, &row.counts, &total, asked),
        };
        rows(outcome, origins, by).iter().map(row).collect()
    };
    let of_data = rows(outcome, origins, By::Data);
    let places: HashMap<u32, u32> = of_data.iter().map(|row| row.of).zip(0..).collect();
    let data = of_data.into_iter().map(|row| {
        let data = &origins.data()[row.of as usize];
        SimulatedRow {
            name: known(&data.name),
            data: Some(data_row(data)),
            counts: row_counts(outcome, &row.counts, &total, asked),
        }
    });
    let threads = rows(outcome, origins, By::Thread).into_iter().map(|row| {
        let thread = origins.threads()[row.of as usize];
        SimulatedRow {
            name: Some(format!("process {} thread {}", thread.process, thread.tid)),
            data: None,
            counts: row_counts(outcome, &row.counts, &total, asked),
        }
    });
    let path = outcome.machine().path(false);
    let offenders = offenders(outcome, origins).into_iter().map(|row| {
        let (variable, line) = row.of;
        let (file, line) = file_and_line(origins.name(line));
        Offender {
            variable: known(origins.name(variable)),
            file,
            line,
            accesses: row.counts.accesses(),
            misses: path.iter().map(|&cache| row.counts.misses[cache].total()).collect(),
            write_backs: path.iter().map(|&cache| row.counts.write_backs[cache]).collect(),
        }
    });
    let uses = uses(outcome, origins).into_iter().map(|row| {
        let (file, line) = file_and_line(origins.name(row.of.line));
        UseRow {
            file,
            line,
            function: known(origins.name(row.of.function)),
            data: places[&row.of.data],
            field: known(origins.name(row.of.field)),
            share: if total.cycles == 0 { 0.0 } else { row.counts.cycles as f64 / total.cycles as f64 },
            accesses: row.counts.accesses(),
            misses: path.iter().map(|&cache| row.counts.misses[cache].total()).collect(),
        }
    });
    Breakdowns {
        uses: uses.collect(),
        data: data.collect(),
        fields: named(By::Field),
        functions: named(By::Function),
        lines: named(By::Line),
        threads: threads.collect(),
        offenders: offenders.collect(),
    }
}

fn row_counts(outcome: &Outcome, counts: &Counts, total: &Counts, asked: &Options) -> RowCounts {
    let machine = outcome.machine();
    let caches = machine.path(false).into_iter().map(|cache| {
        let misses = &counts.misses[cache];
        RowMisses {
            name: machine.caches[cache].name.clone(),
            misses: misses.total(),
            classes: miss_classes(misses, asked.classes),
            write_backs: counts.write_backs[cache],
        }
    });
    RowCounts {
        share: if total.cycles == 0 { 0.0 } else { counts.cycles as f64 / total.cycles as f64 },
        accesses: counts.loads + counts.stores,
        loads: counts.loads,
        stores: counts.stores,
        lines: counts.loads + counts.stores + counts.further_lines,
        cycles: counts.cycles,
        caches: caches.collect(),
        tlb_misses: counts.tlb_misses.clone(),
        served: counts.served_by_memory.clone(),
        served_from_afar: counts.served_from_afar,
        memory_writes: counts.memory_writes,
        used: asked.used_bytes.then(|| UsedLines {
            lines: counts.fetched_lines,
            bytes: counts.fetched_lines * u64::from(machine.line_bytes()),
            used_bytes: counts.used_bytes,
        }),
    }
}

fn miss_classes(misses: &Misses, classes: bool) -> MissClasses {
    MissClasses {
        cold: misses.cold,
        replaced: misses.replaced(),
        capacity: classes.then_some(misses.capacity),
        conflict: classes.then_some(misses.conflict),
        coherence_true: misses.coherence_true,
        coherence_false: misses.coherence_false,
    }
}
