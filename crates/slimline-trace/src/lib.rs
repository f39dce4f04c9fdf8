//! What was observed, and nothing of what it means.
//!
//! Every collector ends in the types of this crate and every analysis starts from them:
//!
//! - [`wire`]: the records that an injected runtime writes into shared memory. `no_std`, size-pinned, versioned.
//! - [`access`]: the [`AccessBatch`](access::AccessBatch), the columns every analysis reads.
//! - [`served`]: what hardware tells of an access: latency, memory level, TLB.
//! - [`stream`]: the trace of an instrumented program: words of a record, and the site tables that say what they mean.
//! - [`address`]: typed addresses, so that a run-time address, a link-time address and a file offset can't be mixed up.
//! - [`path_text`]: paths as text, whatever bytes they are. `no_std` but for whole paths.
//! - [`script`]: what the kernel runs for a script. `no_std`.
//!
//! With the feature `session` (the default) also
//!
//! - [`cpp_names`]: names of C++ as they are written;
//! - [`escape`]: foreign names as a terminal or a shell can take them;
//! - [`fortran_names`]: names as Fortran's compilers link them, as they are written;
//! - [`regular_file`]: how files are opened that other files name;
//! - [`toolchain_source`]: which source files are a toolchain's;
//! - [`tables`]: what was recorded of a process, as columns in memory and Parquet on disk;
//! - [`session`]: the directory they live in.

#![cfg_attr(not(feature = "session"), no_std)]

pub mod access;
pub mod address;
#[cfg(feature = "session")]
pub mod cpp_names;
#[cfg(feature = "session")]
pub mod escape;
#[cfg(feature = "session")]
pub mod fortran_names;
pub mod path_text;
#[cfg(feature = "session")]
mod place;
#[cfg(feature = "session")]
pub mod regular_file;
pub mod script;
pub mod served;
#[cfg(feature = "session")]
pub mod session;
pub mod stream;
#[cfg(feature = "session")]
pub mod tables;
#[cfg(feature = "session")]
pub mod toolchain_source;
pub mod wire;
