//! What a file tells of a recording as a whole.

use slimline_trace::session::{Imported, Machine, SampledEvent, WeightUnit};

/// What is known besides samples; empty or 0 for what is not.
#[derive(Clone, Debug, Default)]
pub(super) struct Description {
    pub(super) machine: Machine,
    pub(super) command: Vec<String>,
    pub(super) weight: WeightUnit,
    pub(super) events: Vec<SampledEvent>,
    /// Time between two samples, of a clock.
    pub(super) period_ns: u64,
    pub(super) started_ns: u64,
    pub(super) ended_ns: u64,
    pub(super) started_unix_ns: u64,
    /// Why it is not whole.
    pub(super) stopped_early: Option<String>,
    pub(super) counts: Imported,
}
