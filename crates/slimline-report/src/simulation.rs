//! What simulated machines did to a trace, as `slimline simulate` shows it.

use serde::Serialize;
use slimline_simulate::machine::Holds;
use slimline_simulate::simulation::{Counts, Events, Misses, Outcome};

/// Version of the JSON. 1: the first.
pub const SIMULATION_SCHEMA: u32 = 1;

/// Everything `slimline simulate` shows, and its JSON.
#[derive(Clone, Debug, Serialize)]
pub struct SimulationReport {
    /// [`SIMULATION_SCHEMA`].
    pub schema: u32,
    /// The trace.
    pub file: String,
    /// How it is written: `lackey`, `din`.
    pub format: String,
    /// In the order in which they were asked for.
    pub machines: Vec<SimulatedMachine>,
}

/// What one machine did.
#[derive(Clone, Debug, Serialize)]
pub struct SimulatedMachine {
    /// Its name.
    pub name: String,
    /// Its cores.
    pub cores: u32,
    /// Loads; a modification is a load and a store, or as the machine counts.
    pub loads: u64,
    /// Stores.
    pub stores: u64,
    /// Instruction fetches; 0 where its first level has no cache for them.
    pub fetches: u64,
    /// Of all accesses, one after the other.
    pub cycles: u64,
    /// Nearest first.
    pub caches: Vec<SimulatedCache>,
    /// Data TLBs.
    pub tlbs: Vec<SimulatedTlb>,
    /// Walks of the page table; `None` without TLBs.
    pub page_walks: Option<u64>,
    /// Memories.
    pub memories: Vec<SimulatedMemory>,
    /// Changed lines that were written to memory.
    pub memory_writes: u64,
    /// Lines that came from another core's cache.
    pub transfers: u64,
    /// Stores to lines that others held, too.
    pub upgrades: u64,
    /// How much of the lines in first-level data caches was used, where asked for.
    pub used: Option<UsedLines>,
}

/// What caches of a kind did, together.
#[derive(Clone, Debug, Serialize)]
pub struct SimulatedCache {
    /// Its name.
    pub name: String,
    /// From 1.
    pub level: u8,
    /// `data`, `instructions`, `both`.
    pub holds: &'static str,
    /// Of each.
    pub bytes: u64,
    /// Lines of a set.
    pub ways: u32,
    /// Bytes of a line.
    pub line_bytes: u32,
    /// Lines that it was asked for.
    pub lookups: u64,
    /// Those that it had not.
    pub misses: u64,
    /// By kind.
    pub load_misses: u64,
    /// See there.
    pub store_misses: u64,
    /// See there.
    pub fetch_misses: u64,
    /// Why it had not.
    pub classes: MissClasses,
    /// Lines that left for others.
    pub evictions: u64,
    /// Changed lines that were written farther.
    pub write_backs: u64,
    /// Lines that other cores' stores took.
    pub invalidations: u64,
    /// Lines that left because a cache that includes this one lost them.
    pub back_invalidations: u64,
    /// Lines fetched unasked.
    pub prefetches: u64,
    /// Those that were used.
    pub used_prefetches: u64,
}

/// Why lines were not there. They add up to the misses.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct MissClasses {
    /// First use.
    pub cold: u64,
    /// No room: of capacity or of conflict.
    pub replaced: u64,
    /// Of these, those that a fully associative cache would have, too; `None` where not asked for.
    pub capacity: Option<u64>,
    /// Of these, the others; likewise.
    pub conflict: Option<u64>,
    /// Another core wrote these bytes.
    pub coherence_true: u64,
    /// Another core wrote other bytes of the line.
    pub coherence_false: u64,
}

/// What TLBs of a kind did.
#[derive(Clone, Debug, Serialize)]
pub struct SimulatedTlb {
    /// Its name.
    pub name: String,
    /// Pages that it holds.
    pub entries: u32,
    /// Entries of a set.
    pub ways: u32,
    /// Pages that it had not.
    pub misses: u64,
}

/// What a memory did.
#[derive(Clone, Debug, Serialize)]
pub struct SimulatedMemory {
    /// Its name.
    pub name: String,
    /// Lines that accesses got from it.
    pub served: u64,
}

/// How much of lines was used.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct UsedLines {
    /// Lines that came.
    pub lines: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those that were used before the line left.
    pub used_bytes: u64,
}

impl SimulationReport {
    /// The report of these machines over one trace.
    pub fn new(file: String, format: &str, outcomes: &[Outcome], classes: bool, used: bool) -> Self {
        Self {
            schema: SIMULATION_SCHEMA,
            file,
            format: format.to_owned(),
            machines: outcomes.iter().map(|outcome| machine(outcome, classes, used)).collect(),
        }
    }

    /// As JSON, indented, with a line end.
    pub fn json(&self) -> String {
        crate::pretty(self)
    }
}

fn machine(outcome: &Outcome, classes: bool, used: bool) -> SimulatedMachine {
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
