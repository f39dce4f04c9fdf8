//! The command line.

use std::ffi::OsString;
use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use slimline_collect::{ColumnMap, DEFAULT_BUDGET_PPM, DEFAULT_BURST_INSTRUCTIONS};

/// Name of the hidden subcommand that runs the calibration loop.
pub(crate) const CALIBRATE: &str = "calibration-loop";
/// Percentage of the CPU time that samples take where `--budget` does not say otherwise.
pub(crate) const DEFAULT_BUDGET_PERCENT: f64 = DEFAULT_BUDGET_PPM as f64 / 10_000.0;

/// Says which data a program waits for, why, and what layout would be better.
#[derive(Debug, Parser)]
#[command(
    name = "slimline",
    version,
    max_term_width = 100,
    arg_required_else_help = true,
    after_help = "Examples:\n  \
        slimline record -- ./program arguments    sample a run into slimline.data\n  \
        slimline report                           which data costs the time, in which loops\n  \
        slimline advise                           what to change, with the new definitions\n  \
        slimline import perf.data                 the same reports of what perf recorded\n  \
        slimline demo                             all three on a small program, in a few seconds\n\n\
        Exit status: 0 done, 1 a check failed, 2 bad usage, bad input or unwritable output; `record` ends\n\
        with the status of the program it ran (128 + n where signal n killed it), or with 2 where it could\n\
        not start it or not record all of it."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Record(Record),
    Trace(Trace),
    /// Compile and link C as clang does, for `slimline trace`
    #[command(name = "cc", disable_help_flag = true)]
    CompileC(Compile),
    /// Compile and link C++ as clang++ does, for `slimline trace`
    #[command(name = "c++", disable_help_flag = true)]
    CompileCPlusPlus(Compile),
    /// Run cargo, which builds Rust programs for `slimline trace`
    #[command(disable_help_flag = true)]
    Cargo(Cargo),
    /// Print the C header by which a program says what of it `trace` is to trace
    Header,
    Import(Import),
    Report(Report),
    Advise(Advise),
    Annotate(Annotate),
    Export(Export),
    Histogram(Histogram),
    Place(Place),
    Simulate(Simulate),
    Reuse(Reuse),
    Share(Share),
    Doctor(Doctor),
    Demo(Demo),
    /// The known loop that `record` samples to learn this machine's skid and what an interrupt costs.
    #[command(name = CALIBRATE, hide = true)]
    Calibrate {
        /// How much CPU time
        microseconds: u64,
    },
}

/// Samples a second and thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Frequency {
    /// As this machine allows.
    Auto,
    /// In Hz.
    Fixed(u32),
}

fn frequency(text: &str) -> Result<Frequency, String> {
    if text == "auto" {
        return Ok(Frequency::Auto);
    }
    let hertz = text.parse().ok().filter(|hertz| (1..=10_000).contains(hertz));
    hertz.map(Frequency::Fixed).ok_or_else(|| "neither `auto` nor a number from 1 to 10000".to_owned())
}

/// A percentage above 0, up to 100.
fn percentage(text: &str) -> Result<f64, String> {
    let percent = text.parse::<f64>().ok().filter(|percent| *percent > 0.0 && *percent <= 100.0);
    percent.ok_or_else(|| "not a percentage above 0, up to 100".to_owned())
}

/// A percentage, 0 to 100.
fn percentage_or_none(text: &str) -> Result<f64, String> {
    let percent = text.parse::<f64>().ok().filter(|percent| (0.0..=100.0).contains(percent));
    percent.ok_or_else(|| "not a percentage from 0 to 100".to_owned())
}

/// A number of rows, 1 or more.
fn rows(text: &str) -> Result<usize, String> {
    text.parse::<usize>().ok().filter(|&rows| rows > 0).ok_or_else(|| "not a number of rows, 1 or more".to_owned())
}

fn sampled_lines(text: &str) -> Result<usize, String> {
    let lines = text.parse::<usize>().ok().filter(|lines| (64..=1 << 26).contains(lines));
    lines.ok_or_else(|| "not a number of lines, 64 to 67108864".to_owned())
}

/// Sample a run of an unmodified program.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        slimline record -- ./program arguments\n  \
        slimline record -o before.data -F 2000 -- python3 script.py\n  \
        slimline record -p 4711                  a process that runs already, until Ctrl-C or its end\n  \
        slimline record -p 4711,4712 -- sleep 10 two of them, for ten seconds\n  \
        mpirun -n 4 slimline record -o run -- ./program     each rank into run/rank-N; report run shows all\n\n\
        The program keeps its streams, directory, limits and exit status. It can see that it is recorded, by\n\
        LD_PRELOAD and SLIMLINE_RUN in its environment, descriptors from 900 on and one signal's handler\n\
        (docs/what-a-program-sees.md). Programs that can't be preloaded (static ones, Go, musl) and those that run\n\
        already are sampled from outside, by perf's ring buffers, and see nothing. An existing slimline.data with\n\
        samples becomes slimline.data.old.")]
pub(crate) struct Record {
    /// Directory to write the session to
    #[arg(short, long, value_name = "DIR", default_value = slimline_trace::session::DEFAULT_DIRECTORY)]
    pub(crate) output: PathBuf,
    /// How to collect; `auto` takes the best this machine has for the command and says which
    #[arg(long, value_enum, default_value_t = Collector::Auto)]
    pub(crate) collector: Collector,
    /// Samples a second and thread, 1 to 10000; `auto` takes up to 1000, so that interrupts take about
    /// a hundredth of the CPU time on this machine
    #[arg(short = 'F', long, value_name = "HZ", default_value = "auto", value_parser = frequency)]
    pub(crate) frequency: Frequency,
    /// Instructions to emulate in a burst, 0 to 512
    #[arg(long, value_name = "N", default_value_t = DEFAULT_BURST_INSTRUCTIONS, value_parser = clap::value_parser!(u32).range(0..=512))]
    pub(crate) burst: u32,
    /// Percentage of the program's CPU time that samples may take before they go without a burst (one in 16 has one
    /// all the same, and samples without one cost what they cost), and following heap blocks half as much
    #[arg(long, value_name = "PERCENT", default_value_t = DEFAULT_BUDGET_PERCENT, value_parser = percentage)]
    pub(crate) budget: f64,
    /// Leave processes that the program starts unrecorded
    #[arg(long)]
    pub(crate) no_children: bool,
    /// Sample from outside, by perf's ring buffers, also where the library could be preloaded: nothing of the
    /// program is changed; blocks of its heap are not told apart
    #[arg(long)]
    pub(crate) out_of_process: bool,
    /// Sample processes that run already, until they end, Ctrl-C, or the end of COMMAND, which is not recorded then
    #[arg(short, long, value_name = "PID", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pid: Vec<u32>,
    /// Program and its arguments
    #[arg(
        required_unless_present = "pid",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    pub(crate) command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Collector {
    /// The best this machine offers for the command
    Auto,
    /// A timer and emulated bursts; needs no hardware counter and no privilege
    Clock,
    /// Hardware address sampling (AMD IBS, Intel PEBS, Arm SPE)
    Pmu,
}

/// What a compiler takes besides clang's arguments.
pub(crate) const COMPILE_OPTIONS: &str = "\
Options of slimline's own:
  --slimline-values  Have what is loaded and stored told, too, of all up to 8 bytes: `slimline trace` shows least, greatest,
                     zeros and the narrowest type of each field. Code and trace are about twice as large";

/// Arguments of a compiler.
#[derive(Debug, Args)]
#[command(before_help = COMPILE_OPTIONS, after_help = "Examples:\n  \
        make CC='slimline cc' CXX='slimline c++'\n  \
        slimline c++ -O2 -o program program.cpp && slimline trace --live -- ./program\n  \
        make CC='slimline cc --slimline-values'\n\n\
        The code is optimized as it would be, and debug information is added (-g). SLIMLINE_CLANG names the clang to\n\
        use, of version 19 to 22 with its libLLVM; else the newest in PATH is taken. Ends with clang's status, or\n\
        with 2 where the code can't be traced.")]
pub(crate) struct Compile {
    /// As clang takes them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    pub(crate) arguments: Vec<OsString>,
}

/// What cargo takes besides its own arguments.
pub(crate) const CARGO_OPTIONS: &str = "\
Options of slimline's own:
  --slimline-values  Have what is loaded and stored told, too, of all up to 8 bytes (see slimline cc)

Examples:
  slimline cargo build --release
  slimline trace --live -- target/slimline/x86_64-unknown-linux-gnu/release/program
  slimline trace --live -- slimline cargo test --release";

/// Arguments of cargo.
#[derive(Debug, Args)]
#[command(before_help = CARGO_OPTIONS)]
pub(crate) struct Cargo {
    /// As cargo takes them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    pub(crate) arguments: Vec<OsString>,
}

/// Run a program that was compiled with `slimline cc` or `slimline cargo`, and count each of its accesses.
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("way").required(true).args(["live", "output", "replay"]),
    after_help = "Examples:\n  \
        slimline trace --live -- ./program arguments\n  \
        slimline trace --live --format json -- ./program | jq '.heap[0].fields'\n  \
        slimline trace -o run.trace -- ./program     each access, in order, on disk\n  \
        slimline trace --replay run.trace            the same report of it\n\n\
        The program keeps its streams, directory, limits and exit status; the report goes to standard output when\n\
        it has ended. Programs and libraries that are not instrumented run as they are and are not seen.\n\
        A trace that is there becomes run.trace.old."
)]
pub(crate) struct Trace {
    /// Analyze while the program runs; nothing is written to disk
    #[arg(long)]
    pub(crate) live: bool,
    /// Write the trace to this directory
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Show a trace that was written
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    pub(crate) replay: Option<PathBuf>,
    /// Trace only windows of the run: on=10ms,off=90ms, or on=ACCESSES,off=TIME; gaps are of half to one and a half of
    /// that time
    #[arg(long, value_name = "WINDOW", conflicts_with = "replay")]
    pub(crate) window: Option<slimline_collect::Windows>,
    /// Begin untraced; the program says when, by slimline_start() (slimline header)
    #[arg(long, conflicts_with = "replay")]
    pub(crate) paused: bool,
    /// Count only accesses in functions of this name, or inlined into them; `*` and `?` stand for others. Several: in one
    /// of them
    #[arg(long = "function", value_name = "GLOB")]
    pub(crate) functions: Vec<String>,
    /// Count only accesses in files of this name, or path
    #[arg(long = "file", value_name = "GLOB")]
    pub(crate) files: Vec<String>,
    /// Count only accesses of members of types of this name
    #[arg(long = "type", value_name = "GLOB")]
    pub(crate) types: Vec<String>,
    /// Count only accesses of variables of this name
    #[arg(long = "variable", value_name = "GLOB")]
    pub(crate) variables: Vec<String>,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Most rows of a table
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = rows)]
    pub(crate) rows: usize,
    /// Fields are cold below this percentage of what their structure's have on average
    #[arg(long, value_name = "PERCENT", default_value_t = 50.0, value_parser = percentage_or_none)]
    pub(crate) cold: f64,
    /// Structures are split above this percentage of what structures have on average
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, value_parser = percentage_or_none)]
    pub(crate) hot: f64,
    /// Program and its arguments
    #[arg(
        required_unless_present = "replay",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "COMMAND"
    )]
    pub(crate) command: Vec<OsString>,
}

/// Make a session of what another tool recorded.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        perf mem record -- ./program && slimline import perf.data && slimline report\n  \
        perf record -d -e cpu/mem-loads,ldlat=30/P -g -o loads.data -- ./program\n  \
        slimline import loads.data -o loads.session\n  \
        perf record -d -e ibs_op// -o - -- ./program | slimline import -\n  \
        slimline import samples.csv --columns 'variable=name,file=source,line=line,latency=cycles'\n\n\
        Reads perf.data of file and pipe mode, also compressed (perf record -z). Samples weigh the\n\
        latency that the hardware measured, else their period; those of the kernel's code are counted\n\
        and left out.\n\
        Reports read the programs' files on this machine: import where they are.")]
pub(crate) struct Import {
    /// The file; `-` reads standard input
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Directory to write the session to
    #[arg(short, long, value_name = "DIR", default_value = slimline_trace::session::DEFAULT_DIRECTORY)]
    pub(crate) output: PathBuf,
    /// Read a table of samples; which column is what: NAME=COLUMN[:FORMAT][*FACTOR],…
    #[arg(long, value_name = "MAP", long_help = COLUMNS_HELP)]
    pub(crate) columns: Option<ColumnMap>,
}

/// What `--columns` takes.
const COLUMNS_HELP: &str = "\
Read a table of samples (CSV with a line of column names); which column is what:
NAME=COLUMN[:FORMAT][*FACTOR],…

  variable           name of the data that was accessed
  address, size      of the access
  index              number of the element accessed; =COLUMN*8 for elements of 8 bytes
  kind               load or store, R or W
  function, file, line, ip
                     where the instruction is
  process, thread, cpu
                     who; a CPU stands for the thread where none is told
  time               when; time=COLUMN:s for seconds, also :ms, :us, :ns
  latency            cycles that the access took; or weight, what the sample stands for
  level              where the data came from: a name (l1, line_fill_buffer, l2, l3,
                     local_dram…), :perf for perf_mem_data_src, :pebs for Intel's
                     encoding (hexadecimal)

Numbers are decimal, or hexadecimal after 0x; with :hex also without it.
Cells that are empty, ?, ??, - or N/A tell nothing.";

/// Show which data costs the time, in which loops.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        slimline report\n  \
        slimline report --by loop before.data\n  \
        slimline report --per-process run        run holds a session, or one for each rank\n  \
        slimline report --format json | jq '.groups[0].fields'")]
pub(crate) struct Report {
    #[command(flatten)]
    pub(crate) input: Input,
    /// What to cut the time by
    #[arg(long, value_enum, default_value_t = By::Group)]
    pub(crate) by: By,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Most rows of a table
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = rows)]
    pub(crate) rows: usize,
    /// Sum up what is below this many percent of the time [default: 0.5, or what five samples are, at most 5]
    #[arg(long, value_name = "PERCENT", value_parser = percentage_or_none)]
    pub(crate) percent_limit: Option<f64>,
    /// Cut nothing to 100 columns: tables are as wide as what is in them
    #[arg(long)]
    pub(crate) wide: bool,
    /// A report for each process, costliest first, in place of one of all
    #[arg(long)]
    pub(crate) per_process: bool,
    /// Show the call path that allocated each data structure, too
    #[arg(long)]
    pub(crate) callers: bool,
    /// Tell all of how the session was recorded: rate, bursts, heap, own cost
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Show instead how much of the time is resolved to objects and fields, and why the rest is not
    #[arg(long, conflicts_with_all = ["by", "callers"])]
    pub(crate) quality: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    /// Data structures, their fields, and loops
    Group,
    /// Element types
    Type,
    /// Fields of all data structures
    Field,
    /// Loops and the data they touch
    Loop,
    /// Source lines
    Line,
    /// Functions
    Function,
    /// Threads
    Thread,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Text,
    /// For programs; the schema is versioned
    Json,
}

/// Say what to change, why, and by how much it would help.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  slimline advise\n  slimline advise --format json before.data | jq '.advice[].code'"
)]
pub(crate) struct Advise {
    #[command(flatten)]
    pub(crate) input: Input,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Tell all of how the session was recorded: rate, bursts, heap, own cost
    #[arg(short, long)]
    pub(crate) verbose: bool,
}

/// Show a structure as pahole prints it, with the cost of each field.
#[derive(Debug, Args)]
#[command(
    override_usage = "slimline annotate [OPTIONS] [DIR] TYPE",
    after_help = "Examples:\n  slimline annotate 'struct node'\n  slimline annotate before.data node"
)]
pub(crate) struct Annotate {
    /// Session (default slimline.data), then the type's name or its last part
    #[arg(required = true, num_args = 1..=2, value_name = "[DIR] TYPE")]
    pub(crate) words: Vec<String>,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

/// Write the findings for another tool.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  slimline export --to dot | dot -Tsvg > fields.svg")]
pub(crate) struct Export {
    #[command(flatten)]
    pub(crate) input: Input,
    /// The tool
    #[arg(long, value_enum)]
    pub(crate) to: Tool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Tool {
    /// Graphviz: fields, affinities and clusters
    Dot,
}

/// Pass accesses through simulated caches, TLBs and memories: by data, field, line, function and thread.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        slimline trace -o run.trace -- ./program && slimline simulate run.trace\n  \
        slimline simulate run.trace --machine host --machine big.toml --classes --used-bytes\n  \
        slimline simulate run.trace --format csv       who misses: variable, file, line\n  \
        valgrind --tool=lackey --trace-mem=yes --log-file=run.lackey ./program\n  \
        slimline simulate run.lackey --machine valgrind --format json | jq '.machines[0].caches'\n\n\
        A machine is `host` (its caches as the kernel tells them, with usual latencies, no TLB and no\n\
        prefetcher), `valgrind` (Cachegrind's counts), `dinero-i5`, `pena-sp`, or a file; docs/machines.md\n\
        says how to write one. Threads run on the cores in turn, in the order of their first accesses.")]
pub(crate) struct Simulate {
    #[command(flatten)]
    pub(crate) input: AccessInput,
    /// What to simulate; several take one pass together
    #[arg(long, value_name = "NAME|FILE", default_value = "host")]
    pub(crate) machine: Vec<String>,
    /// Tell misses of capacity from those of conflict; takes longer
    #[arg(long)]
    pub(crate) classes: bool,
    /// Tell how much of each line was used; takes longer
    #[arg(long)]
    pub(crate) used_bytes: bool,
    /// All data lies on pages of 2 MiB, not of 4 KiB
    #[arg(long)]
    pub(crate) large_pages: bool,
    /// How to print it
    #[arg(long, value_enum, default_value_t = TableFormat::Text)]
    pub(crate) format: TableFormat,
    /// Most rows of a table
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = rows)]
    pub(crate) rows: usize,
}

/// Tell where in data it is accessed and missed: its hot parts, for placing or splitting it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        slimline trace -o run.trace -- ./program && slimline histogram run.trace\n  \
        slimline histogram run.trace --part 4K --data grid --data table.c:37\n  \
        slimline histogram run.trace --format svg > parts.svg\n\n\
        Blocks that one instruction allocates lie over each other, by offset. Data that is no known block (static\n\
        variables, stacks, what is gone by as a pointer of that name) is by address, in parts\n\
        that begin at multiples of their size. An access counts in the part of its first byte, what is copied or\n\
        filled in each. Parts of data that has more than 4096 are larger than asked for, by a power of two.")]
pub(crate) struct Histogram {
    #[command(flatten)]
    pub(crate) input: AccessInput,
    /// Whose misses (docs/machines.md)
    #[arg(long, value_name = "NAME|FILE", default_value = "host")]
    pub(crate) machine: String,
    /// Bytes of a part: a number, or one of KiB, MiB or GiB (4K, 2M, 1G)
    #[arg(long, value_name = "BYTES", default_value = "64", value_parser = size)]
    pub(crate) part: NonZeroU64,
    /// Only data of this name, of this type, or allocated at this file:line; may be repeated
    #[arg(long, value_name = "NAME|TYPE|FILE:LINE")]
    pub(crate) data: Vec<String>,
    /// How to print it
    #[arg(long, value_enum, default_value_t = PictureFormat::Text)]
    pub(crate) format: PictureFormat,
    /// Most data that text and picture show
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = rows)]
    pub(crate) rows: usize,
}

/// Tell which data to place in a small, faster memory, whole or in part, and what other choices would save.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        slimline trace -o run.trace -- ./program && slimline place run.trace --machine pena-sp\n  \
        slimline place run.trace --machine hbm.toml --memory HBM --room 8M --part 64K\n\n\
        The machine has a memory that is limited and faster than those near to its cores (docs/machines.md). What is\n\
        saved are the lines that the others served, times the difference of latencies: caches miss what they missed.\n\
        Blocks that one instruction allocates are placed together; where one lives at a time, and of variables, a range\n\
        can be. Data that does not live at the same time does not share room here.")]
pub(crate) struct Place {
    #[command(flatten)]
    pub(crate) input: AccessInput,
    /// Where it would run (docs/machines.md)
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) machine: String,
    /// Which of its memories to place data in [default: the fastest that is limited and near to no core]
    #[arg(long, value_name = "NAME")]
    pub(crate) memory: Option<String>,
    /// What fits there: a number of bytes, or one of KiB, MiB or GiB (4K, 2M, 1G) [default: the memory's size]
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub(crate) room: Option<NonZeroU64>,
    /// Where data can be cut, at the finest, a line or more: a number of bytes, or one of KiB, MiB or GiB
    #[arg(long, value_name = "BYTES", default_value = "4K", value_parser = size)]
    pub(crate) part: NonZeroU64,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Most rows of the first table
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = rows)]
    pub(crate) rows: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PictureFormat {
    /// For people
    Text,
    /// For programs; the schema is versioned
    Json,
    /// A line for each part
    Csv,
    /// A picture
    Svg,
}

/// A number of bytes, from 1.
fn size(text: &str) -> Result<NonZeroU64, String> {
    let units = [("K", 10), ("M", 20), ("G", 30)];
    let unit = units.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)));
    let (digits, shift) = unit.unwrap_or((text, 0));
    let bytes = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    bytes
        .and_then(NonZeroU64::new)
        .ok_or_else(|| "wanted is a number of bytes from 1, with K, M or G behind it".to_owned())
}

/// Tell how far apart accesses to the same data are, which cache it needs, and why it waits.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        slimline trace -o run.trace -- ./program && slimline reuse run.trace\n  \
        slimline reuse run.trace --machine two-nodes.toml      near: share of accesses to the own node\n  \
        slimline reuse run.trace --sampled 10000               long runs, in bounded memory\n  \
        slimline reuse run.trace --format json | jq '.data[0].miss_ratios'\n\n\
        The distance of an access is the number of other lines accessed since the last access to its line, as\n\
        the cache that serves it has seen them: a fully associative cache of more lines than that keeps it.\n\
        Distances count lines of all data. Threads run on the machine's cores in turn.")]
pub(crate) struct Reuse {
    #[command(flatten)]
    pub(crate) input: AccessInput,
    /// Whose caches, lines and memories (docs/machines.md)
    #[arg(long, value_name = "NAME|FILE", default_value = "host")]
    pub(crate) machine: String,
    /// Take the distances of some lines only, at most so many at a time; misses have an interval then, and cycles, strides
    /// and lines of code are not told
    #[arg(long, value_name = "LINES", value_parser = sampled_lines)]
    pub(crate) sampled: Option<usize>,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Most rows of a table
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = rows)]
    pub(crate) rows: usize,
}

/// Tell which data threads share, truly or only by the line, who stores what, and how to part it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        slimline trace -o run.trace -- ./program && slimline share run.trace\n  \
        slimline share run.trace --format json | jq '.falsely_shared[0].fix'\n\n\
        Bytes that several threads use, and one stores to, are truly shared: uniformly where the thread with\n\
        most accesses has less than twice as many as the next one. Where threads use other bytes of the same\n\
        line, and one stores, the line is shared falsely.")]
pub(crate) struct Share {
    #[command(flatten)]
    pub(crate) input: AccessInput,
    /// Whose lines and first level (docs/machines.md)
    #[arg(long, value_name = "NAME|FILE", default_value = "host")]
    pub(crate) machine: String,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Most of each sort of sharing
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = rows)]
    pub(crate) rows: usize,
}

/// Where accesses come from.
#[derive(Debug, Args)]
pub(crate) struct AccessInput {
    /// Directory that `slimline trace -o` wrote, or a file of Valgrind's lackey or in Dinero's format; `-` reads standard
    /// input
    #[arg(value_name = "TRACE")]
    pub(crate) trace: PathBuf,
    /// How a file is written, where its first line does not tell
    #[arg(long, value_enum)]
    pub(crate) from: Option<TraceFormat>,
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TraceFormat {
    /// valgrind --tool=lackey --trace-mem=yes
    Lackey,
    /// Dinero's din: label and address
    Din,
}

/// Say what this machine, and a command on it, allow and why.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  slimline doctor\n  slimline doctor -- ./program")]
pub(crate) struct Doctor {
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Program to look at; it is not run
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// Compile a small program, record it, and print report and advice.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  slimline demo\n  slimline demo --keep demo && slimline annotate demo/slimline.data body"
)]
pub(crate) struct Demo {
    /// Keep the program and its session in this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) keep: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Input {
    /// Session to read, or a directory of several that are taken together
    #[arg(value_name = "DIR", default_value = slimline_trace::session::DEFAULT_DIRECTORY)]
    pub(crate) session: PathBuf,
}
