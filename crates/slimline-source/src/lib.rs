//! Sources of C and C++ as tokens.
//!
//! One lexer for all that reads sources: directives and marks, loops around a line, structures that are to be changed.

pub mod tokens;
