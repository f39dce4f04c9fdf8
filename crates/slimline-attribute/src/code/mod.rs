//! The control flow of functions that have samples, and its loops.
//!
//! ```text
//!   flow          code ──► basic blocks and edges        jump_table   where an indirect jump goes
//!   nest          edges ──► loops in loops (Havlak)      source       loops ──► lines, copies of one loop joined
//!   no_return     calls that end a block                 passes_on    functions that only hand memory on
//! ```

pub(crate) mod effects;
pub mod flow;
mod jump_table;
pub mod nest;
mod no_return;
pub mod passes_on;
pub mod source;
