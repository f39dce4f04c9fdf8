//! Directives of a program's source that say what is watched and where regions are: those of ompP and Opari
//! (`#pragma omp inst data(vec, sizeof(vec), "vec")`, `!$POMP INST DATA(a, n*n*8, "a")`).
//!
//! Compilers pass over them. Here the text of a source is rewritten, so that a call stands in a directive's place and everything
//! else where it was. Preprocessing is the compiler's: what it leaves out may stand in the text, and is left out again.
//!
//! ```text
//!   #pragma omp inst data(vec, sizeof(vec), "vec")
//!             __slim_data(vec, sizeof(vec), "vec")     a macro, which ends in a semicolon
//! ```
//!
//! Of C and C++ no line, no column and no size changes, so that precompiled headers of a rewritten source are valid for what is on disk.

pub(crate) mod c;
pub(crate) mod fortran;

/// What a directive asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    /// Accesses to memory are to be counted by a name.
    Data,
    /// A region begins.
    Begin,
    /// It ends; `altend` says so of one that is left in another way.
    End,
}

impl Asked {
    /// By the word behind `inst`, in lower case.
    fn named(word: &[u8]) -> Option<Self> {
        match word {
            b"data" => Some(Self::Data),
            b"begin" => Some(Self::Begin),
            b"end" | b"altend" => Some(Self::End),
            _ => None,
        }
    }

    /// What is called for it in Fortran.
    fn function(self) -> &'static str {
        match self {
            Self::Data => "slimline_inst_data",
            Self::Begin => "slimline_inst_begin",
            Self::End => "slimline_inst_end",
        }
    }

    /// How many arguments it has.
    fn arguments(self) -> usize {
        match self {
            Self::Data => 3,
            Self::Begin | Self::End => 1,
        }
    }

    /// What is wrong, as the compiler is to say it: without quotes.
    fn complaint(self, fault: Fault) -> String {
        let (name, takes) = match self {
            Self::Data => ("inst data", "three arguments: an address, a number of bytes, and a name in quotes"),
            Self::Begin => ("inst begin", "one argument: a name without quotes"),
            Self::End => ("inst end", "one argument: a name without quotes"),
        };
        match fault {
            Fault::Arguments => format!("{name} takes {takes}"),
            Fault::Open => format!("{name} lacks a closing parenthesis"),
            Fault::Trailing => format!("{name} ends with its parenthesis, but there is more on the line"),
            Fault::Body => format!("{name} can not be all that if, else or a loop has: put it into braces"),
            Fault::Within => format!("{name} stands within a statement that goes on behind it"),
        }
    }
}

/// What can be wrong with a directive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    Arguments,
    Open,
    Trailing,
    /// A compiler that passes over it takes what follows.
    Body,
    /// A comment may stand there, but no statement.
    Within,
}
