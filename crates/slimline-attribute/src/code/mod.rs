//! The control flow of functions that have samples, and its loops.
//!
//! ```text
//!   flow          code ──► basic blocks and edges        jump_table   where an indirect jump goes
//!   nest          edges ──► loops in loops (Havlak)      source       loops ──► lines, copies of one loop joined
//!   no_return     calls that end a block                 hands_on     functions that only hand memory on
//!   imports       where calls and jumps to other functions go
//!   runtime_calls calls of the tracing runtime in instrumented code
//!   steps         whether a loop's steps could be done in another order
//!   order         the same for the loops around a line of a source
//! ```

pub(crate) mod effects;
pub mod flow;
pub mod hands_on;
pub(crate) mod imports;
mod jump_table;
pub mod nest;
pub mod no_return;
pub mod order;
mod runtime_calls;
pub mod source;
mod steps;
