//! Pure analyses over access batches, and the advice that follows from them.
//!
//! ```text
//!   AccessBatch ──► hot      l_d by group, type, loop, line, function, thread
//!               ──► threads  which threads use a group, and whether at once
//!               ──► streams  site × group: sums, strides, offsets ─┬─► structure ─► fields ─► affinity ─► clusters
//!                      ├─ coverage   what is told of the weight, and why not the rest
//!                      ├─ pace       how fast each loop runs       │
//!                      ├─ splice     what was executed between     │
//!                      │             windows                       │
//!                      └─ neighbors  which sites share elements  ──┘
//! ```
//!
//! [`findings`] runs it all in one pass; [`full_trace`] is of programs that write down every access. Nothing here does I/O or prints. Answers depend on what was observed, never
//! on how it was cut into shards: see [`analysis`].

pub mod advise;
pub mod affinity;
pub mod analysis;
mod bottom;
pub mod clusters;
pub mod comparison;
pub mod cost_paths;
pub mod coverage;
pub mod declared_layout;
mod extents;
pub mod fields;
pub mod findings;
pub mod full_trace;
pub mod histogram;
pub mod hot;
pub mod neighbors;
pub mod nests;
pub mod number;
pub mod object_layout;
pub mod object_learning;
pub mod origins;
pub mod pace;
pub mod placement;
pub mod places;
pub mod quality;
pub mod region_accesses;
pub mod relayout;
pub mod reuse;
mod sampled_origins;
pub mod sampled_regions;
pub mod sampled_sharing;
mod sequences;
pub mod service;
pub mod share;
pub mod sharing;
pub mod simulated;
mod splice;
pub mod streams;
pub mod stride;
pub mod structure;
pub mod threads;
pub mod ties;
mod unrolled;
