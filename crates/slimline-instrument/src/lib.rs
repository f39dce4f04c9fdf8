//! Programs that write down every access of theirs.
//!
//! - [`llvm`]: the part of LLVM that is used, through the library of the compiler at hand.
//! - [`rewrite`]: bitcode in, bitcode out that writes records as [`slimline_trace::stream`] has them.
//! - [`driver`]: clang with the rewriter inside.
//! - [`cargo`]: cargo with rustcs that have it behind them.
//! - [`gcc`]: gcc, g++ and gfortran, whose calls of hooks become such records: the slower way.
//! - `directives`: pragmas of a source that say what is watched, and where regions are.
//! - [`syntax`]: what clang says of a source without compiling it.
//! - `naming`: which variable, type and member an access is of, from debug information.

pub mod cargo;
mod directives;
pub mod driver;
pub mod gcc;
pub mod llvm;
mod naming;
pub mod rewrite;
pub mod syntax;
