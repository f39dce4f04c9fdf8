//! What simulated machines did to a trace, as `slimline simulate` shows it.

mod outcomes;

use serde::Serialize;
use slimline_analyze::origins::{Data, DataKind, Origins};
use slimline_simulate::simulation::{Options, Outcome};
use slimline_trace::escape::plain;
use slimline_trace::stream::pages::HomesInfo;

use crate::full_trace::{Position, known};

/// Version of the JSON. 1: the first.
pub const SIMULATION_SCHEMA: u32 = 1;

/// Everything `slimline simulate` shows, and its JSON.
#[derive(Clone, Debug, Serialize)]
pub struct SimulationReport {
    /// [`SIMULATION_SCHEMA`].
    pub schema: u32,
    /// What was read.
    pub trace: AccessTrace,
    /// In the order in which they were asked for.
    pub machines: Vec<SimulatedMachine>,
}

/// What accesses are of.
#[derive(Clone, Debug, Default, Serialize)]
pub struct AccessTrace {
    /// File or directory.
    pub file: String,
    /// How it is written: `trace` (of `slimline trace`), `session` (of `slimline record`), `lackey`, `din`.
    pub format: &'static str,
    /// Program and arguments; none where the trace does not tell.
    pub command: Vec<String>,
    /// Threads; none where the trace does not tell.
    pub threads: Option<u64>,
    /// What is missing, in words; empty where nothing is.
    pub missing: Vec<String>,
    /// What came of asking the kernel where pages are; none where nobody asked.
    #[serde(skip)]
    pub homes: Option<HomesInfo>,
    /// Paths of the program and libraries whose code it is of, where the trace tells them.
    #[serde(skip)]
    pub modules: Vec<String>,
    /// Directories that names of source files may be relative to: those that compilers ran in.
    #[serde(skip)]
    pub directories: Vec<String>,
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
    /// By what it did it for; none where the trace does not tell.
    pub by: Option<Breakdowns>,
}

/// What a machine did, cut in several ways. Each adds up to the whole.
#[derive(Clone, Debug, Serialize)]
pub struct Breakdowns {
    /// By heap group or variable, most cycles first; what belongs to none is a row without a name.
    pub data: Vec<SimulatedRow>,
    /// By type and member.
    pub fields: Vec<SimulatedRow>,
    /// By function.
    pub functions: Vec<SimulatedRow>,
    /// By line.
    pub lines: Vec<SimulatedRow>,
    /// By thread: process number and thread id.
    pub threads: Vec<SimulatedRow>,
    /// By variable and line, most misses of the farthest cache first.
    pub offenders: Vec<Offender>,
    /// By line, data and field, most cycles first.
    pub uses: Vec<UseRow>,
}

/// What a machine did for one thing.
#[derive(Clone, Debug, Serialize)]
pub struct SimulatedRow {
    /// What it is called; none where it is not known.
    pub name: Option<String>,
    /// Of data: more of it.
    #[serde(flatten)]
    pub data: Option<DataRow>,
    /// Numbers.
    #[serde(flatten)]
    pub counts: RowCounts,
}

/// What data is.
#[derive(Clone, Debug, Serialize)]
pub struct DataRow {
    /// `heap`, `static`, `variable`, `unattributed`.
    pub kind: &'static str,
    /// Type that is allocated.
    #[serde(rename = "type")]
    pub type_name: Option<String>,
    /// Where it is allocated.
    pub allocated_at: Option<Position>,
    /// Where a static variable is declared.
    pub declared_at: Option<Position>,
    /// The functions that called for it, innermost first, where data is told apart by them.
    pub callers: Vec<Position>,
    /// Blocks.
    pub blocks: u64,
    /// The most bytes that lived at a time.
    pub peak_bytes: u64,
}

/// Numbers of a row.
#[derive(Clone, Debug, Serialize)]
pub struct RowCounts {
    /// Of the machine's cycles.
    pub share: f64,
    /// Loads and stores.
    pub accesses: u64,
    /// Loads.
    pub loads: u64,
    /// Stores.
    pub stores: u64,
    /// Lines that the first level was asked for: a copy or fill is one access to many.
    pub lines: u64,
    /// One after the other.
    pub cycles: u64,
    /// Of each cache that holds data, nearest first.
    pub caches: Vec<RowMisses>,
    /// Pages that each TLB had not, in the machine's order.
    pub tlb_misses: Vec<u64>,
    /// Lines that each memory served, in the machine's order.
    pub served: Vec<u64>,
    /// Those that were not served by the memory near to the core.
    pub served_from_afar: u64,
    /// Lines that its stores changed and that were written to memory.
    pub memory_writes: u64,
    /// How much of the lines that it brought was used, where asked for.
    pub used: Option<UsedLines>,
}

impl RowCounts {
    /// Mean cycles of an access.
    pub(crate) fn cycles_each(&self) -> f64 {
        self.cycles as f64 / self.accesses.max(1) as f64
    }

    /// So many of the lines that the first level was asked for.
    pub(crate) fn of_lines(&self, lines: u64) -> f64 {
        lines as f64 / self.lines.max(1) as f64
    }
}

/// Misses of a row.
#[derive(Clone, Debug, Serialize)]
pub struct RowMisses {
    /// The cache.
    pub name: String,
    /// Lines that it had not.
    pub misses: u64,
    /// Why.
    pub classes: MissClasses,
    /// Lines that these stores changed first and that it wrote farther: to a cache or to memory.
    pub write_backs: u64,
}

/// Who misses.
#[derive(Clone, Debug, Serialize)]
pub struct Offender {
    /// Variable; none where it is not known.
    pub variable: Option<String>,
    /// File.
    pub file: Option<String>,
    /// Line.
    pub line: Option<u32>,
    /// Loads and stores.
    pub accesses: u64,
    /// Misses of each cache that holds data, nearest first.
    pub misses: Vec<u64>,
    /// Lines that each wrote farther after these stores had changed them.
    pub write_backs: Vec<u64>,
}

/// What a line does to a field of data.
#[derive(Clone, Debug, Serialize)]
pub struct UseRow {
    /// File; none where it is not known.
    pub file: Option<String>,
    /// Line.
    pub line: Option<u32>,
    /// Function.
    pub function: Option<String>,
    /// Which of [`Breakdowns::data`], from 0.
    pub data: u32,
    /// Type and member.
    pub field: Option<String>,
    /// Of the machine's cycles.
    pub share: f64,
    /// Loads and stores.
    pub accesses: u64,
    /// Misses of each cache that holds data, nearest first.
    pub misses: Vec<u64>,
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
    /// Another core took the line, and what it wrote was accessed before the line was gone again.
    pub coherence_true: u64,
    /// Another core took the line, and nothing was accessed that was new.
    pub coherence_false: u64,
}

impl MissClasses {
    /// What each is called, and its misses: those that caches of this machine can have.
    pub(crate) fn named(&self, machine: &SimulatedMachine) -> Vec<(&'static str, u64)> {
        let mut named = vec![("first use", self.cold)];
        match (self.capacity, self.conflict) {
            (Some(capacity), Some(conflict)) => named.extend([("capacity", capacity), ("conflict", conflict)]),
            _ => named.push(("replaced", self.replaced)),
        }
        if machine.cores > 1 {
            named.extend([("shared", self.coherence_true), ("falsely shared", self.coherence_false)]);
        }
        named
    }
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

impl UsedLines {
    /// The part that was used; none where no line came.
    pub(crate) fn share(&self) -> Option<f64> {
        (self.bytes > 0).then(|| self.used_bytes as f64 / self.bytes as f64)
    }
}

impl SimulatedMachine {
    /// Mean cycles of an access.
    pub(crate) fn cycles_each(&self) -> f64 {
        self.cycles as f64 / (self.loads + self.stores + self.fetches).max(1) as f64
    }

    /// Its caches, but for those of instructions where no instruction was fetched.
    pub(crate) fn asked_caches(&self) -> impl Iterator<Item = &SimulatedCache> {
        self.caches.iter().filter(|cache| self.fetches > 0 || cache.holds != "instructions")
    }
}

impl SimulatedCache {
    /// The part of what it was asked for that it had not.
    pub(crate) fn miss_share(&self) -> f64 {
        self.misses as f64 / self.lookups.max(1) as f64
    }
}

impl SimulationReport {
    /// The report of these machines over one trace. `asked` is what the machines were to tell.
    pub fn new(trace: AccessTrace, outcomes: &[Outcome], origins: &Origins, asked: &Options) -> Self {
        let machines = outcomes.iter().map(|outcome| SimulatedMachine {
            by: (!origins.is_empty()).then(|| outcomes::breakdowns(outcome, origins, asked)),
            ..outcomes::machine(outcome, asked.classes, asked.used_bytes)
        });
        Self { schema: SIMULATION_SCHEMA, trace, machines: machines.collect() }
    }

    /// Miss offenders as CSV, a line for each machine, variable, line of code and cache that missed, or wrote back what was changed.
    pub fn csv(&self) -> String {
        let mut out = "machine,cache,variable,file,line,accesses,misses,write_backs\n".to_owned();
        for machine in &self.machines {
            let caches: Vec<&SimulatedCache> =
                machine.caches.iter().filter(|cache| cache.holds != "instructions").collect();
            for offender in machine.by.iter().flat_map(|by| &by.offenders) {
                let Offender { variable, file, line, accesses, misses, write_backs } = offender;
                let texts = [variable, file].map(|text| csv_cell(text.as_deref().unwrap_or_default()));
                let line = line.map_or_else(String::new, |line| line.to_string());
                let counts = caches.iter().zip(misses.iter().zip(write_backs));
                for (cache, (misses, written)) in counts.filter(|(_, (misses, written))| **misses + **written > 0) {
                    let [variable, file] = &texts;
                    let [machine, cache] = [&machine.name, &cache.name].map(|name| csv_cell(name));
                    out += &format!("{machine},{cache},{variable},{file},{line},{accesses},{misses},{written}\n");
                }
            }
        }
        out
    }

    /// As JSON, indented, with a line end.
    pub fn json(&self) -> String {
        crate::pretty(self)
    }
}

/// What a group of data is, as reports show it.
pub(crate) fn data_row(data: &Data) -> DataRow {
    let place = &data.allocated_at;
    DataRow {
        kind: data.kind.name(),
        type_name: known(&data.type_name),
        allocated_at: (data.kind == DataKind::Heap).then(|| place.into()),
        declared_at: (data.kind == DataKind::Static && !place.file.is_empty()).then(|| place.into()),
        callers: data.callers.iter().map(Position::from).collect(),
        blocks: data.blocks,
        peak_bytes: data.peak_bytes,
    }
}

/// The two parts of `file:line`.
pub fn file_and_line(text: &str) -> (Option<String>, Option<u32>) {
    match text.rsplit_once(':') {
        Some((file, line)) => (known(file), line.parse().ok()),
        None => (known(text), None),
    }
}

/// A cell on one line without control characters, quoted where it has to be (RFC 4180).
pub(crate) fn csv_cell(text: &str) -> String {
    let text = plain(text);
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text,
    }
}
