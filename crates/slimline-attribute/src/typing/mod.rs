//! What the debug information knows about data: layouts, statics, and which type an instruction accesses.
//!
//! ```text
//!   DWARF ──debug_info──► Die ──shape──► size, fields ──layout──► rows of `Tables::types` ──leaves──► field at offset
//!                          ▲
//!   code ──flow, infer──► type and offset of a memory instruction
//!   exported            ► structures that other modules know
//!   statics, heap, frame ► element type of a group; what lies where in a function's frame
//! ```
//!
//! Absent on purpose: I/O (the caller loads and decompresses sections), printing, and any guess. Where the debug
//! information does not tell, the answer is a [`Reason`](infer::Reason), and the caller counts it.

mod bound;
mod code_ranges;
pub mod debug_info;
pub mod definitions;
mod descend;
mod effort;
pub mod element;
pub mod exported;
mod flow;
pub mod frame;
mod function;
pub mod heap;
pub mod infer;
pub mod layout;
pub mod leaves;
pub mod library_strings;
mod location;
mod memory;
mod scope;
mod shape;
mod spelling;
mod state;
pub mod statics;
mod template_names;
mod transfer;
mod unit_index;
mod value;
mod vector;
mod virtual_bases;
