//! What is linked into instrumented programs: it hands out the chunks that their code writes into.
//!
//! ```text
//!   instrumented code ── the chunk is full ──► entry ──► thread ──► ring ──► <directory>/<pid>-<n>.trace
//!                                                          │
//!                                                          └─ nobody reads ──► scratch
//! ```
//!
//! Instrumented code writes records at its thread's cursor (`__slimline_cursor`) by itself, and calls
//! `__slimline_next_chunk` where the cursor's [`ROOM_BIT`](slimline_trace::stream::ring::ROOM_BIT) is clear: at a
//! thread's first record, and at the end of each chunk. That is all that ever runs of this crate, but for what is done
//! when the process or a library begins, a thread ends, a child is forked or a signal handler runs.
//!
//! Rules of the house: the program behaves as it would alone. No allocation from its heap, no output, no change of
//! `errno`, no descriptor that stays open; signals wait while a chunk is exchanged. No function of
//! another library is called but a few of the C library's, when the process or a thread begins and for the program's
//! own signal handlers, where a thread's own variables are made when it asks for them (`dynamic_blocks`), and, where directives of the source say so, of the library that is preloaded for these (`marks`): whatever else is
//! called might be instrumented, and come back. Nothing has to be done when the process ends, however it does: the
//! reader finds what is in chunks that were not published.
//!
//! Built as an archive with the feature `archive`; without it nothing is exported.
#![no_std]
#![cfg_attr(not(feature = "archive"), allow(dead_code))] // the entry points are what uses the rest

#[cfg(test)]
extern crate std;

#[cfg(feature = "archive")]
mod atomics;
#[cfg(feature = "archive")]
mod children;
#[cfg(feature = "archive")]
mod copies;
#[cfg(feature = "archive")]
mod dynamic_blocks;
#[cfg(feature = "archive")]
mod entry;
mod gate;
#[cfg(feature = "archive")]
mod handlers;
#[cfg(feature = "archive")]
mod hooks;
mod kernel;
#[cfg(feature = "archive")]
mod lock_calls;
// Two sources that the agent has too: the rules are the same wherever our memory lies in a program's.
#[cfg(feature = "archive")]
#[path = "../../slimline-agent/src/locks.rs"]
mod locks;
#[cfg(feature = "archive")]
mod mappings;
#[cfg(feature = "archive")]
mod marks;
mod objects;
#[path = "../../slimline-agent/src/own_memory.rs"]
mod own_memory;
#[cfg(all(feature = "archive", not(test)))]
mod panic;
#[cfg(feature = "archive")]
mod process;
mod ring;
mod scratch;
mod shared_mappings;
mod stream;
#[cfg(feature = "archive")]
mod thread;
#[cfg(feature = "archive")]
mod weak;
#[cfg(feature = "archive")]
mod words;
