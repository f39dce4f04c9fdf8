//! Arguments of `slimline layouts`.

use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use slimline_report::declared_layouts::TypeFilter;

use super::{rows, size};

/// Show how types lie in memory, by debug information alone: size, holes, members that cross cache lines.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        slimline layouts ./program\n  \
        slimline layouts ./program --sort holes --source 'src/*'\n  \
        slimline layouts ./program --type 'net::*' --least-size 64\n  \
        slimline layouts ./program --show 'struct node'      its members, holes and lines\n  \
        slimline layouts libfast.so part.o --format csv > layouts.csv\n  \
        slimline layouts ./program --format json > layouts.json\n  \
        slimline diff layouts.json ./program                 what has changed since\n  \
        slimline check ./program --against layouts.json      and whether it may (docs/check.md)\n\n\
        Nothing is run. Programs, shared libraries and object files of C, C++, Rust and Fortran that were \
        compiled with -g; debug information may be in files of its own, as Debian has it. Types of all files and \
        compilation units are merged where name, layout and place of declaration are the same. Lines are those \
        of 64 bytes, of a type that begins at a line's start.")]
pub(crate) struct Layouts {
    /// Programs, libraries, object files
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) wanted: WantedTypes,
    /// Show members of the types of this name, or last part of it, in the place of the table
    #[arg(long, value_name = "TYPE", conflicts_with = "types")]
    pub(crate) show: Option<String>,
    /// What to put types in order by
    #[arg(long, value_enum, default_value_t = LayoutSort::Size)]
    pub(crate) sort: LayoutSort,
    /// How to print it; csv and json have all types, and json their members
    #[arg(long, value_enum, default_value_t = TableFormat::Text)]
    pub(crate) format: TableFormat,
    /// Most rows
    #[arg(long, value_name = "N", default_value_t = 40, value_parser = rows)]
    pub(crate) rows: usize,
    /// Cut nothing to 100 columns
    #[arg(long)]
    pub(crate) wide: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableFormat {
    /// For people
    Text,
    /// For programs; the schema is versioned
    Json,
    /// One table for spreadsheets
    Csv,
}

/// Which types are looked at.
#[derive(Debug, Args)]
pub(crate) struct WantedTypes {
    /// Only types of this name, or last part of it; `*` and `?` stand for others; may be repeated
    #[arg(long = "type", value_name = "GLOB")]
    pub(crate) types: Vec<String>,
    /// Only types that are declared in files of this path, or end of it; may be repeated
    #[arg(long = "source", value_name = "GLOB")]
    pub(crate) sources: Vec<String>,
    /// Only types of so many bytes or more
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub(crate) least_size: Option<NonZeroU64>,
    /// Also types of standard libraries and of what is installed in /usr
    #[arg(long)]
    pub(crate) all: bool,
}

impl From<&WantedTypes> for TypeFilter {
    fn from(wanted: &WantedTypes) -> Self {
        Self {
            types: wanted.types.clone(),
            sources: wanted.sources.clone(),
            least_bytes: wanted.least_size.map_or(0, NonZeroU64::get),
            all: wanted.all,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LayoutSort {
    /// The largest first
    Size,
    /// Those with most bytes of holes first, then of padding
    Holes,
    /// Those with most members that cross a line first
    Crossings,
    /// By name
    Name,
}
