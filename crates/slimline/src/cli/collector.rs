//! Who tells of a program's accesses.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Who tells of the accesses of a program that is run.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct CollectorOptions {
    /// Who tells of a program's accesses
    #[arg(long, value_enum, default_value_t)]
    pub(crate) collector: TraceCollector,
    /// With --collector translate: the qemu-x86_64 to use, else the first in PATH
    #[arg(long, value_name = "PATH")]
    pub(crate) qemu: Option<PathBuf>,
}

/// The same by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum TraceCollector {
    /// The program, compiled by slimline cc, c++, gcc, flang or cargo
    #[default]
    Instrument,
    /// QEMU, which translates any program, libraries included
    Translate,
}
