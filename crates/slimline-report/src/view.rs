//! The view: what every form of a report shows, as data.
//!
//! This is also the JSON of `slimline report --format json` and `slimline advise --format json`. Names are part of the
//! stable interface; [`SCHEMA`] counts incompatible changes. It is read back whole or not at all: nothing but this
//! version's tests and benchmarks reads it into these types. Shares are of the session's weight and sum to 1 over
//! `groups`, the unattributed one included; a field's share is of its group.

mod advice;
mod code;
mod coverage;
mod group;
mod served;
mod session;

use serde::{Deserialize, Serialize};

pub use self::advice::{Advice, NewLayout, PlacedField, Predicted};
pub use self::code::{Breakdowns, Line, LineGroup, Loop, LoopGroup, Row};
pub use self::coverage::{Coverage, Missing, MissingUse};
pub use self::group::{Affinity, Field, Group, GroupThread, Layout, LayoutMember, Place, Position, Sharing};
pub use self::served::{Latency, Served, ServedBy};
pub use self::session::{Bursts, Lost, Named, Quality, Session, Unnamed};

/// Version of the JSON. 1: the first.
pub const SCHEMA: u32 = 1;

/// A whole report.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: u32,
    /// What was run and how well it was seen.
    pub session: Session,
    /// Data structures, costliest first; the unattributed rest is among them.
    pub groups: Vec<Group>,
    /// Loops that access memory, costliest first.
    pub loops: Vec<Loop>,
    /// The same weight by code and by thread.
    pub breakdowns: Breakdowns,
    /// Lines of the source, costliest first, with what they access.
    #[serde(default)]
    pub lines: Vec<Line>,
    /// How much of the weight is resolved, and why not the rest.
    pub coverage: Coverage,
    /// What to change.
    pub advice: Vec<Advice>,
}

/// A report for each process that has samples, costliest first: `slimline report --per-process --format json`.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct PerProcess {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The processes.
    pub processes: Vec<ProcessReport>,
}

/// The report of one process alone.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq)]
pub struct ProcessReport {
    /// Kernel's number.
    pub pid: u32,
    /// Its subdirectory of the session; behind that of its rank, where a parallel run was recorded.
    pub directory: String,
    /// Path of the executable it ran.
    pub executable: String,
    /// Shares are of its own weight.
    pub report: Report,
}

/// A share with its 95 % interval.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl From<(f64, f64)> for Interval {
    fn from((low, high): (f64, f64)) -> Self {
        Self { low, high }
    }
}
