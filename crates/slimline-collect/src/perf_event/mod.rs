//! Records of perf_event, as the kernel writes them into ring buffers and `perf record` into files.
//!
//! ```text
//!   bytes ──► RawRecord (header, body) ──► Events: which event wrote it ──► Record (fields, trailer)
//!                                                                             └─► Sample ─► DataSource, …
//!                                                                                   └─► Caught, Weighing ─► row
//! ```
//!
//! Which fields a record has is said by nothing but its event's [`EventAttr`]. No length that a record states is
//! trusted, no field is skipped that others follow, and nothing here does I/O: a ring and a file feed the same decoder.
//! The order of the fields is that of `perf_output_sample` in the kernel's `kernel/events/core.c`.

mod attr;
mod branches;
mod caught;
mod counters;
mod data_source;
#[cfg(test)]
pub(crate) mod encode;
mod events;
mod fields;
mod ibs;
mod raw;
mod record;
mod sample;
mod served;
mod spe;
#[cfg(test)]
mod tests;
mod trailer;
mod weighing;

pub use attr::{EventAttr, Flags, branch_sample_type, event_type, read_format, sample_type, software_event};
pub use branches::{Branch, BranchStack};
pub use caught::{Caught, Taken};
pub use counters::{Counter, Counters};
pub use data_source::{Blocked, DataSource, Level, LevelKind, Operation, Snoop, TlbLookup};
pub use events::Events;
pub use fields::{ByteOrder, Fields, Malformed, Words};
pub use ibs::IbsOp;
pub use raw::{HEADER_BYTES, RawRecord, misc_bits, record_type};
pub use record::{Decoded, Mapping, MappingOrigin, Record, Task};
pub use sample::{CallchainFrame, Context, Registers, Sample, UserStack, Weight};
pub use spe::{SpeRecord, SpeRecords, spe_event};
pub use trailer::{RecordId, TaskId};
pub use weighing::{Weighing, period_ns};
