//! An allocator that takes hints: objects of one hint lie side by side.

#![warn(missing_debug_implementations)]

mod arena;
mod below;
mod bucket;
#[cfg(feature = "c")]
mod c;
mod context;
mod dimensions;
mod hinted;
mod large;
mod lock;
mod occupancy;
mod page_map;
mod pool;
mod slab;
mod statistics;

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
