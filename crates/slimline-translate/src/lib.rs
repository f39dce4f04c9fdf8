//! What QEMU's user mode loads: a plugin that writes every access of the program that it translates into a ring, as instrumented programs
//! do.
//!
//! ```text
//!   QEMU translates a block ──► translation: instructions that access memory ──► <directory>/<pid>-<n>.code
//!                                    │
//!   QEMU runs it ──► access: a record at the thread's cursor ──► slimline-runtime ──► <directory>/<pid>-<n>.trace
//!        allocators ──► heap: a record of each block ─────────────────┘
//! ```
//!
//! The runtime is the one that is linked into instrumented programs, archive and all: rings, chunks, threads that end, forks and readers
//! that are gone are the same there and here. What differs is who writes records, and that nobody knows beforehand which code there is:
//! each instruction is described before it runs first (`slimline_trace::stream::translated`).
//!
//! One plugin for all versions of QEMU: its functions are looked up when it is loaded ([`qemu`]).

#[cfg(feature = "plugin")]
mod access;
pub mod allocators;
pub mod code;
#[cfg(feature = "plugin")]
mod code_file;
#[cfg(feature = "plugin")]
mod descriptions;
#[cfg(feature = "plugin")]
mod exec;
#[cfg(feature = "plugin")]
mod extended;
#[cfg(feature = "plugin")]
mod heap;
#[cfg(feature = "plugin")]
mod qemu;
pub mod records;
#[cfg(feature = "plugin")]
mod registers;
#[cfg(feature = "plugin")]
mod translation;
#[cfg(feature = "plugin")]
mod values;
