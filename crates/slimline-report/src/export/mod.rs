//! What was recorded, written for other tools.
//!
//! ```text
//!   session ─► assemble::session_costs ─┐               ┌─► callgrind, pprof, collapsed, flamegraph
//!                                       ├─► CostTable ──┼─► speedscope, firefox
//!   trace ───► assemble::traced_costs ──┘               └─► dhat
//!   session ─► view::Report ──────────────────────────────► dot, sarif
//! ```
//!
//! All that tell costs are made of one [`CostTable`], so they can't disagree, and its sums are those of the report: each row's
//! cost has a data structure, the unattributed one included. Each format is a function of the table that does no I/O.

pub mod callgrind;
pub mod collapsed;
pub mod dhat;
pub mod dot;
pub mod firefox;
pub mod flamegraph;
pub mod pprof;
pub mod sarif;
pub mod speedscope;
mod tree;

use slimline_trace::escape::plain;
use slimline_trace::session::WeightUnit;

/// What an export says that wrote it.
const PROGRAM: &str = concat!("slimline ", env!("CARGO_PKG_VERSION"));

/// Costs by path of code and data.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CostTable {
    /// What was run, and what its costs are.
    pub run: Run,
    /// Frames of code, by number.
    pub frames: Vec<CodeFrame>,
    /// Stacks of numbers of `frames`, outermost first; never empty.
    pub stacks: Vec<Vec<u32>>,
    /// Data structures, by number.
    pub groups: Vec<DataGroup>,
    /// Data structures and their fields, by number.
    pub data: Vec<DataPath>,
    /// Threads, by number.
    pub threads: Vec<ThreadName>,
    /// Costs, costliest first.
    pub rows: Vec<CostRow>,
    /// Samples by themselves, in the order of time; empty where that was not asked for, and of traces.
    pub timed: Vec<TimedRow>,
}

/// What was run, and what its costs are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// Program and arguments.
    pub command: Vec<String>,
    /// What costs count.
    pub unit: CostUnit,
    /// Whether costs, loads and stores are all that there were. Else costs are of samples, and loads and stores are those
    /// that bursts showed.
    pub is_exact: bool,
    /// Nanoseconds from one sample to the next; 0 without a clock.
    pub period_ns: u64,
    /// When it began: nanoseconds since 1970; 0 where not known.
    pub started_unix_ns: u64,
    /// How long it took; 0 where not known.
    pub duration_ns: u64,
    /// What a reader must know before trusting the numbers, as sentences: how many samples, by what clock, what is missing.
    pub remarks: Vec<String>,
}

/// What costs count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CostUnit {
    /// What samples weigh.
    Sampled(WeightUnit),
    /// Accesses, of a trace that has each.
    #[default]
    Accesses,
}

impl CostUnit {
    /// What it is, in a word.
    pub const fn noun(self) -> &'static str {
        match self {
            Self::Sampled(unit) => unit.noun(),
            Self::Accesses => "accesses",
        }
    }

    /// What it is counted in.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Sampled(WeightUnit::TimeNs) => "nanoseconds",
            Self::Sampled(WeightUnit::LatencyCycles) => "cycles",
            Self::Sampled(WeightUnit::Period | WeightUnit::Samples) | Self::Accesses => "count",
        }
    }

    /// Whether it is time.
    pub const fn is_time(self) -> bool {
        matches!(self, Self::Sampled(WeightUnit::TimeNs))
    }
}

/// What stands for callers that are not known.
const UNKNOWN_CALLERS: &str = "(unknown callers)";
/// What stands for a function that is not known.
pub(crate) const UNKNOWN_CODE: &str = "(unknown code)";

/// A function on a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct CodeFrame {
    /// Name.
    pub function: String,
    /// File name of the module; empty where not known.
    pub module: String,
    /// Source file; `None` where not known.
    pub file: Option<String>,
    /// Line in it; 0 where not known.
    pub line: u32,
}

impl CodeFrame {
    /// What stands for callers that are not known.
    pub(crate) fn unknown_callers() -> Self {
        Self { function: UNKNOWN_CALLERS.to_owned(), ..Self::default() }
    }

    /// Whether it stands for code that is not known.
    pub fn is_unknown(&self) -> bool {
        self.module.is_empty() && [UNKNOWN_CALLERS, UNKNOWN_CODE].contains(&&*self.function)
    }
}

/// A data structure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DataGroup {
    /// Name.
    pub name: String,
    /// `heap`, `static`, …, `unattributed`, as in reports.
    pub kind: String,
    /// Element type; `None` where not known.
    pub type_name: Option<String>,
    /// Where it is allocated or declared; `None` where not known.
    pub place: Option<CodeFrame>,
    /// Call path that allocates it, innermost first; empty where it is not allocated.
    pub allocated_by: Vec<CodeFrame>,
    /// Objects that were seen.
    pub blocks: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl DataGroup {
    /// As what it stands on a stack: `bodies [heap]`, and `unattributed` where the kind is all that it says.
    pub fn label(&self) -> String {
        if self.name == self.kind { self.name.clone() } else { format!("{} [{}]", self.name, self.kind) }
    }

    /// Whether it is no known data.
    pub fn is_unattributed(&self) -> bool {
        self.kind == "unattributed"
    }
}

/// A data structure, or a field of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DataPath {
    /// Which of [`CostTable::groups`].
    pub group: u32,
    /// The field; `None` for what is in none.
    pub field: Option<DataField>,
}

/// A field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct DataField {
    /// Name, as reports have it; of what is unattributed, why.
    pub name: String,
    /// Its type as the language spells it; `None` where not known.
    pub type_name: Option<String>,
}

/// A thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadName {
    /// Process.
    pub pid: u32,
    /// Kernel's number.
    pub tid: u32,
    /// Name; empty where not known.
    pub name: String,
}

/// What one path of code and data costs on one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CostRow {
    /// Which of [`CostTable::stacks`].
    pub stack: u32,
    /// Which of [`CostTable::data`].
    pub data: u32,
    /// Which of [`CostTable::threads`].
    pub thread: u32,
    /// What was seen there.
    pub cost: Counts,
}

/// What was seen of something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Samples; 0 in a trace.
    pub samples: u64,
    /// Cost in [`Run::unit`].
    pub cost: u64,
    /// Loads.
    pub loads: u64,
    /// Stores.
    pub stores: u64,
    /// Bytes of the loads.
    pub loaded_bytes: u64,
    /// Bytes of the stores.
    pub stored_bytes: u64,
}

impl Counts {
    /// Adds what was seen elsewhere.
    pub fn add(&mut self, other: &Self) {
        self.samples += other.samples;
        self.cost += other.cost;
        self.loads += other.loads;
        self.stores += other.stores;
        self.loaded_bytes += other.loaded_bytes;
        self.stored_bytes += other.stored_bytes;
    }
}

/// A sample, or a part of one, by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimedRow {
    /// When, from the beginning of the recording.
    pub time_ns: u64,
    /// Which of [`CostTable::stacks`].
    pub stack: u32,
    /// Which of [`CostTable::data`].
    pub data: u32,
    /// Which of [`CostTable::threads`].
    pub thread: u32,
    /// Its part of the sample's cost.
    pub cost: u64,
}

impl CostTable {
    /// What all rows cost together.
    pub fn total(&self) -> Counts {
        let mut total = Counts::default();
        self.rows.iter().for_each(|row| total.add(&row.cost));
        total
    }

    /// The data structure of a row of [`CostTable::data`].
    pub fn group_of(&self, data: u32) -> &DataGroup {
        &self.groups[self.data[data as usize].group as usize]
    }

    /// As what data stands on stacks, outermost first: `bodies [heap]`, then `bodies.x`, where there is a field.
    pub fn data_labels(&self, data: u32) -> Vec<String> {
        let (group, path) = (self.group_of(data), &self.data[data as usize]);
        let field = path.field.as_ref().map(|field| field_label(group, field));
        [group.label()].into_iter().chain(field).collect()
    }
}

/// A field with its structure, so that it is told from others of its name where it stands alone: `bodies.x`, `buffer+40`.
fn field_label(group: &DataGroup, field: &DataField) -> String {
    if group.is_unattributed() {
        return field.name.clone();
    }
    let between = if field.name.starts_with(['+', '[']) { "" } else { "." };
    format!("{}{between}{}", group.name, field.name)
}

/// Text on one line, as formats of lines need it.
fn one_line(text: &str) -> String {
    plain(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_in_a_namespace_without_a_name_is_known() {
        let frame = |function: &str| CodeFrame { function: function.to_owned(), ..CodeFrame::default() };
        assert!(CodeFrame::unknown_callers().is_unknown() && frame(UNKNOWN_CODE).is_unknown());
        assert!(!frame("(anonymous namespace)::drift(body*)").is_unknown());
    }
}
