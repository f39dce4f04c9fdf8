//! OpenMP constructs of a running program, timed by region and thread, as ompP does.
//!
//! ```text
//!   OMPT of LLVM's libomp ──┐
//!   GOMP_* of GCC's libgomp ┼──► live ──► stack, path ──► format ──► $SLIMLINE_REGIONS/<pid>.regions
//!   marks in the source ────┘   (clock,   (pure)                             │ read
//!                               threads)                                     ▼
//!                                 │        profile (flat, call graph), overhead
//!                                 ├──► traced: the stream of a program that is traced, the agent of one that is sampled
//!                                 └──► steps: for who samples from outside
//! ```
//!
//! What is left of the arrow to `format` runs inside the program: built as a shared object with the feature `preload`.
//! Without that, this crate reads profiles.

mod cost;
mod format;
mod kind;
mod overhead;
mod path;
mod profile;
mod stack;
mod team;
mod times;

// Inside the program.
#[cfg(feature = "preload")]
mod functions;
#[cfg(feature = "preload")]
mod gomp;
#[cfg(feature = "preload")]
mod live;
#[cfg(feature = "preload")]
mod marks;
#[cfg(feature = "preload")]
mod ompt;
#[cfg(feature = "preload")]
mod process;
#[cfg(feature = "preload")]
mod steps;
#[cfg(feature = "preload")]
mod traced;
#[cfg(feature = "preload")]
mod watched;
#[cfg(feature = "preload")]
mod written;

pub use cost::{Cost, Subtracted};
pub use format::{
    DIRECTORY_VARIABLE, FUNCTIONS_VARIABLE, ReadError, STEPS_SUFFIX, STEPS_VARIABLE, SUFFIX, VERSION, read, read_all,
};
pub use kind::{Kind, Phase};
pub use overhead::{Analysis, OverheadReport, Overheads};
pub use path::{MAX_PATHS, Node, PathId, Paths, Place, ROOT, Region};
pub use profile::{Code, Ended, Mapping, Profile, Row, Run, Table, Thread, Watched};
pub use stack::{Entry, Stack};
pub use team::Team;
pub use times::Times;
