//! From addresses to names.
//!
//! Two questions, each with its half of the crate:
//!
//! - **code**: run-time address → module, function, inline stack, file:line:column, innermost loop.
//! - **data**: address and time → object, group, element, type, field; and instruction → the type it accesses.
//!
//! The answers are rows of [`tables`], which is all that analyses and reports ever see. The core does no I/O: files are
//! asked of a [`Files`](files::Files) that the caller provides.

pub mod code;
pub mod data;
pub mod files;
pub mod hooked;
pub mod module;
pub mod resolver;
pub mod statics;
pub mod tables;
pub mod typing;
