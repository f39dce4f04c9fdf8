//! Names: what an imported file says by itself of addresses, where no program's file can be asked.

use super::column::named_cell;
use super::table;
use crate::address::Avma;

/// What has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NameKind {
    /// A variable: all of its bytes that were seen.
    Variable,
    /// An instruction, or all those of a line.
    Code,
}

named_cell!(NameKind { Variable => "variable", Code => "code" });

table! {
    /// Addresses with names, in the order in which they were first seen. They do not overlap.
    Names of
    /// A variable or an instruction with a name.
    Name in "names" {
        /// First address.
        start: Avma as Delta,
        /// Address after the last.
        end: Avma as Delta,
        /// What it is.
        kind: NameKind as Dictionary,
        /// Name of the variable, or of the function; empty where it is not told.
        name: String as Dictionary,
        /// Source file of code; empty where it is not told.
        file: String as Dictionary,
        /// Line in it, from 1; 0 where it is not told.
        line: u32 as Delta,
    }
}
