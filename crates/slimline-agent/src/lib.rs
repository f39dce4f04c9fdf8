//! The library preloaded into the target: allocations, triggers and emulated bursts.
//!
//! ```text
//!   trigger ──signal──► handler ──► burst ──► recorder ──► <run dir>/<pid>-<n>.ring
//!                         │           │            ▲
//!                       unwind      blocks         │
//!                                     ▲            │
//!   malloc, mmap ──────► hooks ──► context ────────┘
//! ```
//!
//! Rules of the house: the target behaves as it would alone. No standard library, no unwinding, no call of the
//! target's `malloc`, no output, no change of `errno`; whatever can run in a signal handler takes no lock that it could
//! find taken, and no descriptor number, signal or stack that the target could notice.
//!
//! Built as a shared object with the feature `preload`; without it nothing is exported, which is how tests see it.
#![no_std]
#![cfg_attr(not(feature = "preload"), allow(dead_code))] // the entry points are what uses the rest
#![warn(clippy::std_instead_of_core)]

#[cfg(test)]
extern crate std;

// The recorder's side.
mod alignment;
mod blame;
mod burst;
mod children;
mod clock;
mod confine;
mod descriptors;
mod handler;
mod kernel;
mod library;
#[cfg(feature = "preload")]
mod lock_calls;
mod locks;
mod maps;
mod memory;
mod memory_functions;
#[cfg(feature = "preload")]
mod onward;
mod own_memory;
#[cfg(feature = "preload")]
mod pending;
mod process;
mod recorder;
mod registers;
mod resolve;
mod segments;
mod signals;
#[cfg(feature = "preload")]
mod system_call;
mod tables;
mod text;
mod thread;
mod trigger;

// The allocation side.
mod blocks;
mod boundary_tags;
mod context;
mod entries;
mod follow;
mod hooks;
mod next;
mod ranges;
mod unwind;

#[cfg(all(feature = "preload", not(test)))]
mod panic;
