//! Arguments of `slimline regions`.

use std::ffi::OsString;
use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::{ArgGroup, Args};

use super::accesses::size;
use super::{CollectorOptions, ReportFormat, rows};

/// Time a program's OpenMP regions by thread: work, waiting, and what OpenMP costs.
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("source").required(true).args(["profile", "command"]),
    after_help = "Examples:\n  \
        slimline regions -- ./program arguments\n  \
        slimline regions -o before.regions -- ./program    keep it, too\n  \
        slimline regions before.regions --format csv       of what was kept\n  \
        slimline regions --format html --report regions.html -- ./program    a page for a browser\n  \
        slimline regions --against before.regions -- ./program    what has changed\n  \
        slimline regions --data grid --data cell.mass -- ./program    accesses of these, too\n  \
        slimline record --regions -- ./program && slimline regions slimline.data  samples of it\n  \
        slimline trace --regions -o run.trace -- ./program && slimline regions run.trace --data grid\n\n\
        For programs of gcc (libgomp) and clang (LLVM's libomp), as they are: a library is preloaded that sees their calls \
        into OpenMP's runtime. Regions of your own are marked by slimline_region_begin(\"name\") and slimline_region_end() \
        (slimline header). Times are as ompP has them: execT is all of a region, bodyT its body, enterT and exitT getting in \
        and out, exitBarT the barrier at its end; execC counts executions. What counting costs is measured in each process, \
        and taken away.\n\n\
        Overhead is synchronization (waiting for critical sections, at barriers and for tasks), imbalance (waiting at the end \
        of what is shared), limited parallelism (no work for this thread: single, few sections) and management (starting \
        and ending teams and tasks). gcc makes no call for `master` and for loops with a static schedule: their time is that \
        of the region around them.\n\n\
        Accesses are told by region, thread and data of programs that slimline cc, gcc or cargo has compiled, or, with --collector \
        translate, of any: as they run, where --data, --data-addr, --machine or --live asks for them, or of a trace that was written \
        with --regions. Times are longer then, by far: for times run the program without. Data is also what the program has watched, \
        by slimline_watch(start, bytes, \"name\"). SLIMLINE_DATA_ADDR, SLIMLINE_DATA_SIZE and SLIMLINE_DATA_NAME are as the options, \
        of several with commas between.\n\n\
        The program keeps its streams, directory, limits and exit status; the report goes to standard error when it has \
        ended, or to the file of --report."
)]
pub(crate) struct Regions {
    /// What `slimline regions -o`, `slimline record --regions` or `slimline trace --regions -o` wrote
    #[arg(value_name = "PROFILE|SESSION|TRACE")]
    pub(crate) profile: Option<PathBuf>,
    /// Functions of this name are regions, too, where the program was compiled with -finstrument-functions; `*` and `?` stand for
    /// others; may be repeated [default: all of those functions]
    #[arg(long = "function", value_name = "GLOB", conflicts_with_all = ["profile", "live", "data", "data_addr", "machine"])]
    pub(crate) functions: Vec<String>,
    /// Also write what was counted to this file; one that is there becomes FILE.old
    #[arg(short, long, value_name = "FILE", conflicts_with = "profile")]
    pub(crate) output: Option<PathBuf>,
    /// Compare with an earlier run, kept by -o, region by region (not in CSV)
    #[arg(long, value_name = "PROFILE")]
    pub(crate) against: Option<PathBuf>,
    /// Count accesses to data of this name, of this type, to this member (type.member), or to what is allocated at this file:line, each
    /// by itself; file:name tells variables of one name apart; `*` and `?` stand for others; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) data: Vec<String>,
    /// Count accesses to the memory that begins at this address; may be repeated
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub(crate) data_addr: Vec<u64>,
    /// Bytes of that, in the order of --data-addr: a number, or one of KiB, MiB or GiB (4K, 2MiB, "1 GiB")
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub(crate) data_size: Vec<NonZeroU64>,
    /// What to call it, likewise [default: its address]
    #[arg(long, value_name = "NAME")]
    pub(crate) data_name: Vec<String>,
    /// Whose misses and cycles accesses have (docs/machines.md)
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) machine: Option<String>,
    /// Count accesses while the program runs, also where no data is named
    #[arg(long, requires = "command")]
    pub(crate) live: bool,
    #[command(flatten)]
    pub(crate) collecting: CollectorOptions,
    /// Write the report to this file instead; `-` is standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// How to print it
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub(crate) format: ReportFormat,
    /// Most regions, and rows of lists of them, as text; other formats have all
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = rows)]
    pub(crate) rows: usize,
    /// Program and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// An address, as `0x…` or in decimal.
pub(crate) fn address(text: &str) -> Result<u64, String> {
    let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.map_err(|_| "not an address: a number, hexadecimal after 0x".to_owned())
}
