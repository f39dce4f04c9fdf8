//! Machine models as data, and the simulation of caches, TLBs and memories over a stream of accesses.
//!
//! [`access`] is what all of it takes in, and [`interleave`] puts those of several threads into one order. [`machine`] says
//! what a machine is: caches, TLBs, memories, which cores share what; [`simulation`] what it does to each access. [`reuse`]
//! tells how far apart accesses to one line are, and so the misses of caches of every size. [`relocated`] and [`relaid`] hand accesses on as they
//! were if objects lay elsewhere or structures had another layout, [`footprint`] counts lines that are accessed at all, [`page_use`] who
//! uses which pages, [`prefetched`] hands accesses on as they were with prefetches, and [`waiting`] estimates what a core waits then. Nothing here does I/O, prints,
//! or needs another crate of slimline.
#![forbid(unsafe_code)]

pub mod access;
mod chance;
pub mod extents;
pub mod footprint;
pub mod interleave;
pub mod locality;
pub mod machine;
mod numbers;
pub mod page_use;
pub mod prefetched;
pub mod relaid;
pub mod relocated;
pub mod reuse;
pub mod sharing;
pub mod simulation;
pub mod spread;
pub mod touched;
pub mod waiting;
pub mod windows;
