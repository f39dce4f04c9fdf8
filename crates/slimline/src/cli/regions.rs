//! Arguments of `slimline regions`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgGroup, Args};

use super::{TableFormat, rows};

/// Time a program's OpenMP regions by thread: work, waiting, and what OpenMP costs.
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("source").required(true).args(["profile", "command"]),
    after_help = "Examples:\n  \
        slimline regions -- ./program arguments\n  \
        slimline regions -o before.regions -- ./program    keep it, too\n  \
        slimline regions before.regions --format csv       of what was kept\n  \
        slimline regions --against before.regions -- ./program    what has changed\n\n\
        For programs of gcc (libgomp) and clang (LLVM's libomp), as they are: a library is preloaded that sees their calls \
        into OpenMP's runtime. Regions of your own are marked by slimline_region_begin(\"name\") and slimline_region_end() \
        (slimline header). Times are as ompP has them: execT is all of a region, bodyT its body, enterT and exitT getting in \
        and out, exitBarT the barrier at its end; execC counts executions. What counting costs is measured in each process, \
        and taken away.\n\n\
        Overhead is synchronization (waiting for critical sections, at barriers and for tasks), imbalance (waiting at the end \
        of what is shared), limited parallelism (no work for this thread: single, few sections) and management (starting \
        and ending teams and tasks). gcc makes no call for `master` and for loops with a static schedule: their time is that \
        of the region around them.\n\n\
        The program keeps its streams, directory, limits and exit status; the report goes to standard error when it has \
        ended, or to the file of --report."
)]
pub(crate) struct Regions {
    /// What `slimline regions -o` wrote
    #[arg(value_name = "PROFILE")]
    pub(crate) profile: Option<PathBuf>,
    /// Also write what was counted to this file; one that is there becomes FILE.old
    #[arg(short, long, value_name = "FILE", conflicts_with = "profile")]
    pub(crate) output: Option<PathBuf>,
    /// Compare with an earlier run, kept by -o, region by region (text and JSON)
    #[arg(long, value_name = "PROFILE")]
    pub(crate) against: Option<PathBuf>,
    /// Write the report to this file instead; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// How to print it
    #[arg(long, value_enum, default_value_t = TableFormat::Text)]
    pub(crate) format: TableFormat,
    /// Most regions, and rows of lists of them
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = rows)]
    pub(crate) rows: usize,
    /// Program and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}
