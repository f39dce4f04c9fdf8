//! An allocator that takes hints: objects of one hint lie side by side.
//!
//! A program often knows which of its objects it will use together, and has no way to say so: malloc puts them in the order
//! that they are made. Here each allocation takes a hint, some numbers; what is allocated with the same numbers lies in the
//! same buckets of a few lines or pages, whenever it is made. (Where many threads make them all the time: see [below](#threads).)
//!
//! # A mesh
//!
//! The nodes of a mesh come in the order of a file, which says nothing of where they are. A solver goes through them patch by
//! patch, again and again.
//!
//! **Make the context.** It has dimensions, as the mesh has: here two, x and y, of eight strips each. Every pair of strips is an
//! arena of its own.
//!
//! ```
//! use slimline_tidy::{Box, Context, Pool};
//!
//! struct Node {
//!     x: f64,
//!     y: f64,
//!     value: f64,
//!     beside: [Option<usize>; 2],
//! }
//!
//! const SIDE: usize = 64;
//! const STRIPS: usize = 8;
//!
//! let mesh = Context::new(&[STRIPS, STRIPS])?;
//! let pool = Pool::new(&mesh);
//! # let file: Vec<usize> = (0..SIDE * SIDE).map(|at| at * 2741 % (SIDE * SIDE)).collect();
//!
//! // Give the hint. `file` has the nodes in no order.
//! let mut nodes: Vec<Option<Box<Node>>> = (0..SIDE * SIDE).map(|_| None).collect();
//! for at in file {
//!     let (row, column) = (at / SIDE, at % SIDE);
//!     let node = Node {
//!         x: column as f64,
//!         y: row as f64,
//!         value: 1.0,
//!         beside: [at.checked_sub(1), Some(at + 1).filter(|next| *next < SIDE * SIDE)],
//!     };
//!     // Nodes of eight by eight are a patch.
//!     nodes[at] = Some(pool.alloc(node, &[row * STRIPS / SIDE, column * STRIPS / SIDE])?);
//! }
//!
//! // Walk, in the order of the hints: the 64 nodes of a patch, 56 bytes each, are in one bucket of a page.
//! let mut sum = 0.0;
//! for patch in 0..STRIPS * STRIPS {
//!     let (top, left) = (patch / STRIPS * (SIDE / STRIPS), patch % STRIPS * (SIDE / STRIPS));
//!     for at in (top..top + SIDE / STRIPS).flat_map(|row| (left..left + SIDE / STRIPS).map(move |column| row * SIDE + column)) {
//!         let node = nodes[at].as_mut().expect("all are made");
//!         node.value += node.x * 0.5 + node.y + node.beside.iter().flatten().count() as f64;
//!         sum += node.value;
//!     }
//! }
//! # assert!(sum > 0.0);
//!
//! // Measure what it costs.
//! let now = mesh.statistics();
//! assert_eq!((now.objects, now.arenas), (4096, 64));
//! assert_eq!(now.bytes, 4096 * size_of::<Node>());
//! // 64 nodes are 3584 bytes: each patch has one bucket of 4096, and an eighth of it is not used.
//! assert_eq!((now.buckets, now.wasted_bytes), (64, 64 * (4096 - 3584)));
//! # Ok::<(), slimline_tidy::Error>(())
//! ```
//!
//! `wasted_bytes` is what the hints cost: room in buckets that no object has. What they gain is to be measured where the program
//! runs: by its own time, or by `slimline layout`, which tells beforehand whether, and by how much, objects should lie otherwise.
//!
//! # What to choose
//!
//! - **A dimension** for each thing that says what is used together: a coordinate, the number of a subtree, a phase of the
//!   program, a type. A value counts modulo its dimension, so a hash will do as well as a coordinate.
//! - **Its size** so that what is used together, and no more, has the same hint. Best is about what fills a bucket: with 4096 bytes
//!   and nodes of 56 some 73 nodes. Arenas of a few buckets are as good; of one or two objects each they waste a bucket for
//!   each arena, and then smaller buckets ([`Context::with_bucket_bytes`]) or fewer arenas are better. `wasted_bytes` tells.
//! - **Order**: the last dimension varies fastest, which says where arenas are in the table and nothing of where
//!   objects lie. Any order will do.
//! - **Several types** that are used together share a context and its hints: each has a [`Pool`] of its own there.
//! - **Collections** take a [`Hinted`], with the feature `allocator-api2`.
//!
//! # When not to use it
//!
//! - Objects that are made in the order in which they are used already lie so.
//! - Objects that fit into the cache all together gain nothing.
//! - An array of values, where it will do, is better than any allocator.
//! - A hint that tells nothing gains nothing, and costs: where each object is of another hint by chance, and all is in a cache,
//!   allocating takes about twice as long as by malloc (docs/tidy.md has the numbers).
//! - Objects larger than a bucket have no neighbours: they are the allocator below's.
//!
//! # Threads
//!
//! Any thread may allocate, and free what another one allocated. What has the same hint lies in the same arena, whoever makes
//! it. An arena is its first thread's, for which its lock costs next to nothing; once several threads want it, it is all threads',
//! with a lock that is held for some nanoseconds. After 250 turns that threads took in allocating there, each of them has an arena of its
//! own of that hint: what many threads make and free for long is in as many places as there are such threads. A signal's handler must not use a context.

#![warn(missing_debug_implementations)]

mod arena;
mod below;
mod biased;
mod bucket;
#[cfg(feature = "c")]
mod c;
mod context;
mod dimensions;
mod fence;
mod hinted;
mod lanes;
mod large;
mod lock;
mod occupancy;
mod page_map;
mod pool;
mod slab;
mod statistics;
mod table;

pub use context::Context;
pub use dimensions::{MAX_ARENAS, MAX_DIMENSIONS};
pub use hinted::Hinted;
pub use occupancy::UNIT_BYTES;
pub use pool::{Box, Pool};
pub use statistics::Statistics;

/// Bytes of a bucket at least.
pub const MIN_BUCKET_BYTES: usize = 64;

/// Bytes of a bucket at most.
pub const MAX_BUCKET_BYTES: usize = 8192;

/// Bytes of a bucket where nothing else is said.
pub const DEFAULT_BUCKET_BYTES: usize = 4096;

/// Why there is no context, or no memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// More than [`MAX_DIMENSIONS`].
    #[error("{0} dimensions, of which a context has {MAX_DIMENSIONS} at most")]
    TooManyDimensions(usize),
    /// A dimension, counted from 0, whose size is 0.
    #[error("the size of dimension {0}, counted from 0, is 0")]
    EmptyDimension(usize),
    /// The product of the dimensions is more than [`MAX_ARENAS`].
    #[error("the dimensions' product is more than {MAX_ARENAS}")]
    TooManyArenas,
    /// Buckets of a size that none are of.
    #[error("buckets of {0} bytes: it must be a power of two from {MIN_BUCKET_BYTES} to {MAX_BUCKET_BYTES}")]
    BucketBytes(usize),
    /// A hint that is not of the context.
    #[error("a hint of {given} values for {dimensions} dimensions")]
    HintLength {
        /// Its values.
        given: usize,
        /// The context's dimensions.
        dimensions: usize,
    },
    /// The allocator below has no memory.
    #[error("no memory")]
    OutOfMemory,
}

/// Ends the program: what it uses the memory for can't be trusted any more.
#[cold]
fn corruption(what: &str) -> ! {
    eprintln!("tidy: {what}");
    std::process::abort();
}
