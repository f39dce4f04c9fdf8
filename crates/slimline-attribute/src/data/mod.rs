//! From addresses to data: which object an address lies in, and what a person would call it.
//!
//! ```text
//!   timed           what covered an address at a time          wrappers    which functions only pass memory on
//!   address_space   a process: images, stacks, mappings        call_path   allocation call path ──► its own frames
//!   names           what an imported file names by itself
//!   shared_memory   which mappings are the same memory in several processes
//! ```

pub mod address_space;
pub mod call_path;
pub mod names;
pub mod shared_memory;
pub mod timed;
pub mod wrappers;
