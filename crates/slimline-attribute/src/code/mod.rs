//! The control flow of functions that have samples, and its loops.
//!
//! ```text
//!   flow          code ──► basic blocks and edges        jump_table   where an indirect jump goes
//!   nest          edges ──► loops in loops (Havlak)      source       loops ──► lines, copies of one loop joined
//! ```

pub mod flow;
mod jump_table;
pub mod nest;
mod no_return;
pub mod source;
