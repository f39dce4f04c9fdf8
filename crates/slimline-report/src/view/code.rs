//! Loops, and the weight by code and by thread.

use serde::{Deserialize, Serialize};

use super::{Interval, Served};

/// A loop.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Loop {
    /// Function that holds it.
    pub function: String,
    /// Source file; none without debug information.
    pub file: Option<String>,
    /// First line; 0 where not known.
    pub first_line: u32,
    /// Last line.
    pub last_line: u32,
    /// First column, where another loop of `loops` is on the same line.
    pub column: Option<u32>,
    /// File name of the module that holds its code.
    pub module: String,
    /// Path of that module, as it was mapped.
    #[serde(default)]
    pub module_path: String,
    /// Lowest link-time address of its code in the module; of copies made by inlining, that of the costliest.
    pub start_address: u64,
    /// The address after the highest.
    pub end_address: u64,
    /// Share of the session's weight.
    pub share: f64,
    /// 95 % interval of `share`.
    pub share_interval: Interval,
    /// The part of `share` that no memory instruction could be blamed for: computing.
    pub no_memory_share: f64,
    /// Nesting, 1 for an outermost loop; of copies made by inlining, that of the costliest.
    pub depth: u32,
    /// Loops around it that are on the same lines, where another loop of `loops` is on them.
    pub inner: u32,
    /// Data it touches, costliest first.
    pub groups: Vec<LoopGroup>,
    /// What hardware tells of its samples; none where nothing.
    pub served: Option<Served>,
}

/// What a loop touches of one group.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct LoopGroup {
    /// The group.
    pub id: u32,
    /// Share of the session's weight that this loop spends on it.
    pub share: f64,
    /// Samples that `share` rests on; with none the loop was only seen in bursts to access it.
    pub samples: u64,
    /// Offsets of its fields, hottest first.
    pub fields: Vec<u64>,
    /// For each of `fields`, the share of the session's weight that this loop spends on it.
    #[serde(default)]
    pub field_shares: Vec<f64>,
}

/// A line of the source that costs time, or whose accesses to data are known. `breakdowns.lines` has the same shares,
/// and code without lines as well.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Line {
    /// Source file, as debug information has it.
    pub file: String,
    /// The line.
    pub line: u32,
    /// Share of the session's weight: of code that is of this line, also where it was inlined elsewhere.
    pub share: f64,
    /// 95 % interval of `share`.
    pub share_interval: Interval,
    /// Samples.
    pub samples: u64,
    /// What it accesses in loops, as far as samples and bursts saw it.
    pub groups: Vec<LineGroup>,
}

/// What a line accesses of one group.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct LineGroup {
    /// The group.
    pub id: u32,
    /// Offsets of its fields, ascending.
    pub fields: Vec<u64>,
}

/// The session's weight by something else than data; each sums to 1.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Breakdowns {
    /// By element type.
    pub types: Vec<Row>,
    /// By function.
    pub functions: Vec<Row>,
    /// By source line.
    pub lines: Vec<Row>,
    /// By thread.
    pub threads: Vec<Row>,
    /// By the innermost region that the thread was in; empty where regions were not recorded.
    #[serde(default)]
    pub regions: Vec<Row>,
}

/// One row of a breakdown.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Row {
    /// Type, function, `file:line`, thread or region.
    pub name: String,
    /// More words: module, function, file.
    pub detail: String,
    /// Share of the session's weight.
    pub share: f64,
    /// 95 % interval of `share`.
    pub share_interval: Interval,
    /// Samples.
    pub samples: u64,
}
