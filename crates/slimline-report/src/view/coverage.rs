//! How much of the session's weight is resolved, and why not the rest: what `slimline report --quality` shows.

use serde::{Deserialize, Serialize};

/// Shares of the session's weight. An access of unknown type may be into a structure, so it counts as one.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Coverage {
    /// Of samples that a memory access is blamed for; the rest is computing, but for what is unknown.
    pub accesses: f64,
    /// Of samples whose code nobody could look at.
    #[serde(default)]
    pub unknown: f64,
    /// Of those, to an object that has a name.
    pub objects: f64,
    /// Of accesses into structures, and of those that may be.
    pub structures: f64,
    /// Of those, to a field that has a name.
    pub fields: f64,
    /// What is missing from `objects` and from `fields`, costliest first.
    pub missing: Vec<Missing>,
}

/// Accesses that lack something for one reason.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct Missing {
    /// `object`, `type` or `field`. A type that is missing is of the accesses, and of the object; its field is, too.
    pub what: String,
    /// Of objects: `no_address`, `no_mapping`, `no_call_path`, `no_variable`, `no_frame`, `unseen_mapping`,
    /// `not_followed`. Of types: `no_debug_info`, `no_operand`, `too_long`, `thread_local`, `gather`, `spill`,
    /// `no_variable`, `untyped`, `from_caller`, `call_result`, `no_pointer`, `arithmetic`, `paths_disagree`,
    /// `offset_runs`, `outside_type`. Of fields: `no_offset`, `outside_fields`.
    pub reason: String,
    /// Share of the session's weight.
    pub share: f64,
    /// What does it to what, costliest first: not all.
    pub examples: Vec<MissingUse>,
}

/// What an access does to what.
#[derive(Clone, Debug, Default, Serialize, Deserialize, PartialEq)]
pub struct MissingUse {
    /// The function.
    pub function: String,
    /// File name of its module.
    pub module: String,
    /// Its line, as `file:line`; its address in the module where that is not known.
    pub place: String,
    /// The data structure.
    pub group: String,
    /// Share of the session's weight.
    pub share: f64,
}
