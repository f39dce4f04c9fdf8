//! Starts the target, drains what its agent saw, and writes the session.
//!
//! ```text
//!   record ─► program (find, check) ─► run_directory (agent, config) ─► calibrate ─► spawn
//!                                                                                      │
//!   target ══ process files ══► ring ─► message ─► recorder ─► writer_thread ─► session directory
//!                               (copied) (checked)  (tables)    (Parquet parts)
//!   kernel ══ perf's rings ═══► perf_rings (event ─► records ─► image) ─┘
//! ```
//!
//! `perf_event` decodes the kernel's records, from rings and from files; `pmu` tells which hardware events to ask for, and
//! `usable_hardware` which of them are granted.
//!
//! `tracing` runs programs that write all that they access, by themselves or in a translator.
//!
//! The only crate that starts processes and reads shared memory. `unsafe` is in `ring`, `tracing::ring` (shared memory), `cut_files`
//! and `signals` (signal handlers), `started` (children that asked to be traced), `inherited` (what was there before `main`), `move_pages` and `perf_rings::event` (system calls, the kernel's rings) and `stall_kernel` (assembly of the calibration) alone.

mod agent_image;
mod allocators;
mod calibrate;
mod clock;
mod cut_files;
mod doctor;
mod drain;
mod error;
#[cfg(any(fuzzing, test))]
pub mod fuzzing;
mod import;
mod inherited;
mod limits;
mod live_mappings;
mod loaded_agent;
mod machine;
mod mapped_path;
mod mapping_history;
mod message;
mod move_pages;
mod page_homes;
pub mod perf_event;
mod perf_refusal;
mod perf_rings;
mod pid_namespace;
pub mod pmu;
mod proc_stat;
mod proc_text;
mod process_summary;
mod program;
mod program_run;
mod range_life;
mod record;
mod recorder;
mod regions;
mod ring;
mod run_directory;
mod running_program;
mod sample_rows;
mod signals;
mod source;
mod stack_interner;
mod stall_kernel;
mod started;
mod subject;
#[cfg(test)]
mod synthetic;
mod thread_roll;
mod topology;
mod tracing;
mod tree;
mod trigger;
mod until;
mod usable_hardware;
mod writer_thread;

pub use agent_image::RUNTIME;
pub use allocators::{AllocatorCall, LookedFor, MOST_ARGUMENTS, looked_for};
pub use clock::thread_cpu_ns;
pub use cut_files::{missing_pages, survive_cut_files};
pub use doctor::{Availability, Capability, CommandDiagnosis, Diagnosis, doctor};
pub use error::RecordError;
pub use import::{
    AddressFormat, AddressInput, AddressTraceError, AddressesRead, ColumnMap, DrmemtraceError, DrmemtraceInput,
    DrmemtraceLosses, ImportError, ImportOptions, ImportOutcome, Input, InputError, TableAccess, TableLosses,
    ThreadPart, TracedAccess, TracedKind, import, is_drmemtrace, open_addresses, packing_advice, read_access_table,
    read_addresses, read_drmemtrace,
};
pub use limits::{Limit, is_stack_small, no_room_for_agent};
pub use machine::describe as describe_machine;
pub use page_homes::{NumaKernel, PageHomes};
pub use program::{preloaded, program_file};
pub use record::{CollectorChoice, DEFAULT_BUDGET_PPM, DEFAULT_BURST_INSTRUCTIONS, Outcome, RecordOptions, record};
pub use regions::{RegionFunctions, RegionsOutcome, WrittenProfile, profile_regions, why_without_regions};
pub use slimline_trace::wire::AllocatorRole;
pub use stall_kernel::run_stall_kernel;
pub use topology::{Topology, TopologyNode, topology};
pub use tracing::{
    Event, Fork, FoundCode, NoAllocator, OwnBlock, Process, ProcessEnd, ProcessLosses, Qemu, QemuError, SharedRange,
    TraceCollector, TraceOutcome, TracePlan, TraceSink, Unseen, Windows, WindowsError, check_command, is_instrumented,
    site_section, trace,
};
pub use usable_hardware::NoHardware;
