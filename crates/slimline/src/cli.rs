//! The command line.

mod accesses;
mod collector;
mod comparison;
mod compiling;
mod export;
mod layouts;
mod regions;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use slimline_collect::{ColumnMap, DEFAULT_BUDGET_PPM, DEFAULT_BURST_INSTRUCTIONS};

pub(crate) use self::accesses::{
    AccessInput, Histogram, Layout, Learn, ObjectInput, PictureFormat, Place, Reuse, Share, Simulate, TraceFormat, size,
};
pub(crate) use self::collector::{CollectorOptions, TraceCollector};
pub(crate) use self::comparison::{Check, CheckFormat, Diff, Limits, hot_field};
pub(crate) use self::compiling::{
    CARGO_OPTIONS, COMPILE_OPTIONS, COMPILERS, Cargo, Compile, Gcc, Links, gcc_help, with_subcommand,
};
pub(crate) use self::export::{Export, Tool};
pub(crate) use self::layouts::{LayoutSort, Layouts, TableFormat};
pub(crate) use self::regions::{Regions, address};

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
        Exit status: 0 done, 1 a check failed, 2 bad usage, bad input or unwritable output; `record` ends \
        with the status of the program it ran (128 + n where signal n killed it), or with 2 where it could \
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
    /// Compile and link Fortran as flang does, for `slimline trace`
    #[command(disable_help_flag = true)]
    Flang(Compile),
    /// Compile and link C as gcc does, for `slimline trace`: where clang can't; slower
    #[command(name = "gcc", disable_help_flag = true)]
    Gcc(Gcc),
    /// Compile and link C++ as g++ does, likewise
    #[command(name = "g++", disable_help_flag = true)]
    GccCPlusPlus(Gcc),
    /// Compile and link Fortran as gfortran does, likewise
    #[command(name = "gfortran", disable_help_flag = true)]
    Gfortran(Gcc),
    /// Run cargo, which builds Rust programs for `slimline trace`
    #[command(disable_help_flag = true)]
    Cargo(Cargo),
    Links(Links),
    /// Print the header by which a program says what of it `trace` is to trace, where its regions are, and what is watched
    Header {
        /// The source of a Fortran module that says regions and what is watched, instead of the one of C and C++
        #[arg(long)]
        fortran: bool,
    },
    Import(Import),
    Report(Report),
    Advise(Advise),
    Annotate(Annotate),
    Export(Export),
    Histogram(Histogram),
    Layout(Layout),
    Layouts(Layouts),
    Diff(Diff),
    Check(Check),
    Learn(Learn),
    Place(Place),
    Simulate(Simulate),
    Regions(Regions),
    Reuse(Reuse),
    Share(Share),
    Machine(MachineName),
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

/// Sample a run of an unmodified program.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        slimline record -- ./program arguments\n  \
        slimline record -o before.data -F 2000 -- python3 script.py\n  \
        slimline record -p 4711                  a process that runs already, until Ctrl-C or its end\n  \
        slimline record -p 4711,4712 -- sleep 10 two of them, for ten seconds\n  \
        mpirun -n 4 slimline record -o run -- ./program     each rank into run/rank-N; report run shows all\n\n\
        The program keeps its streams, directory, limits and exit status. INT, QUIT, TERM and HUP sent to slimline \
        are passed on to it, and its end is waited for. It can see that it is recorded, by \
        LD_PRELOAD and SLIMLINE_RUN in its environment, descriptors from 900 on and one signal's handler \
        (docs/what-a-program-sees.md). Programs that can't be preloaded (static ones, Go, musl) and those that run \
        already are sampled from outside, by perf's ring buffers, and see nothing. An existing slimline.data with \
        samples becomes slimline.data.old.\n\n\
        Allocators of the program's own are those of slimline.toml in this directory, or of the file that \
        SLIMLINE_CONFIGURATION names.")]
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
    /// Tell samples by OpenMP's regions and those that the program marks, too, and time these: `slimline regions`
    /// of the session shows which data each waits for
    #[arg(long, conflicts_with = "pid")]
    pub(crate) regions: bool,
    /// Sample processes that run already, until they end, Ctrl-C, or the end of COMMAND, which is not recorded then
    #[arg(short, long, value_name = "PID", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) pid: Vec<u32>,
    /// Program and its arguments
    #[arg(required_unless_present = "pid", trailing_var_arg = true, value_name = "COMMAND")]
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

/// Run a program that was compiled with `slimline cc` or `slimline cargo`, and count each of its accesses.
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("way").required(true).args(["live", "output", "replay"]),
    after_help = "Examples:\n  \
        slimline trace --live -- ./program arguments\n  \
        slimline trace --live --format json --report run.json -- ./program\n  \
        slimline trace --live --keep-up -- ./program  far faster; what data is accessed is sampled\n  \
        slimline trace -o run.trace -- ./program     each access, in order, on disk\n  \
        slimline trace --replay run.trace            the same report of it\n\n\
        The program keeps its streams, directory, limits and exit status; the report goes to standard error when \
        it has ended, or to the file of --report. Programs and libraries that are not instrumented run as they are \
        and are not seen. \
        A trace that is there becomes run.trace.old."
)]
pub(crate) struct Trace {
    /// Analyze while the program runs; nothing is written to disk
    #[arg(long)]
    pub(crate) live: bool,
    /// Look up only as many accesses as keeps up with the program, which else waits for it. Counts by instruction, function and
    /// line are of all; which blocks of the heap and static variables they are to, and fields that follow from blocks, are estimates,
    /// and so is all that --variable asks for
    #[arg(long, requires = "live", conflicts_with_all = ["output", "replay"])]
    pub(crate) keep_up: bool,
    #[command(flatten)]
    pub(crate) collecting: CollectorOptions,
    /// With --collector translate: what is loaded and stored, too, of up to 8 bytes; slower. Instrumented programs tell it where they were
    /// compiled with --slimline-values
    #[arg(long, conflicts_with = "replay")]
    pub(crate) values: bool,
    /// Write the trace to this directory; what it is asked for (filters, --callers) is told when it is shown: --replay DIR
    /// --callers
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
    /// Tell OpenMP's regions, too, and memory that the program has watched: `slimline regions DIR` then tells accesses by these
    #[arg(long, requires = "output")]
    pub(crate) regions: bool,
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
    /// Tell blocks of the heap apart by the functions that called for them, not only by the line that allocates; callers
    /// that began while tracing was paused are (unknown). Of a trace that was written: --replay DIR --callers
    #[arg(long, conflicts_with_all = ["output", "window"])]
    pub(crate) callers: bool,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Write the report to this file, `-` for standard output; else it goes to standard error, so that the program's output
    /// stays its own, or with --replay to standard output
    #[arg(long, value_name = "FILE", conflicts_with = "output")]
    pub(crate) report: Option<PathBuf>,
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
    #[arg(required_unless_present = "replay", trailing_var_arg = true, value_name = "COMMAND")]
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
        Reads perf.data of file and pipe mode, also compressed (perf record -z). Samples weigh the \
        latency that the hardware measured, else their period; those of the kernel's code are counted \
        and left out. \
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
Read a table of samples (CSV with a line of column names, or Parquet); which
column is what: NAME=COLUMN[:FORMAT][*FACTOR],…

  variable           name of the data that was accessed
  address, size      of the access
  index              number of the element accessed; =COLUMN*8 for elements of 8 bytes
  kind               load or store, R or W, or whether it is a store (0, 1)
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

/// Show which data costs the time, in which loops; of a trace all that is found in it, as a page.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        slimline report\n  \
        slimline report --by loop before.data\n  \
        slimline report --tui                    browse it: data, fields, loops, source; h shows the keys\n  \
        slimline report --per-process run        run holds a session, or one for each rank\n  \
        slimline report --format html > report.html   one page for a browser, with the advice\n  \
        slimline report --format html run.trace > trace.html   of a trace: advice, caches, reuse, sharing and more\n  \
        slimline report --format json | jq '.groups[0].fields'\n  \
        slimline report --by field --format csv > fields.csv\n\n\
        A trace (slimline trace -o) has a page (docs/report-page.md), for which it is read several times: counts, and what advise, simulate \
        --classes --used-bytes, reuse, share, histogram and place tell of it. These also have it each by itself, as text and JSON, \
        and slimline trace --replay the counts.")]
pub(crate) struct Report {
    #[command(flatten)]
    pub(crate) input: Input,
    /// Of a trace: whose caches and memories (docs/machines.md) [default: host]
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) machine: Option<String>,
    /// What to cut the time by
    #[arg(long, value_enum, default_value_t = By::Group)]
    pub(crate) by: By,
    /// How to print it; csv, json and html have all, whatever --rows and --percent-limit say
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub(crate) format: ReportFormat,
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
    /// Browse it in this terminal, from data to fields, loops and source; --by says what is shown first
    #[arg(long, conflicts_with_all = ["format", "rows", "percent_limit", "wide", "per_process", "callers", "verbose", "quality"])]
    pub(crate) tui: bool,
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
    /// Regions, of what was recorded with --regions
    Region,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Text,
    /// For programs; the schema is versioned
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PageFormat {
    /// For people
    Text,
    /// For programs; the schema is versioned
    Json,
    /// One page for a browser, which needs nothing else
    Html,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// For people
    Text,
    /// For programs; the schema is versioned
    Json,
    /// Tables for spreadsheets
    Csv,
    /// One page for a browser, which needs nothing else
    Html,
}

/// Say what to change, why, and by how much it would help.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  slimline advise\n  slimline advise --format json before.data | jq '.advice[].code'\n  \
        slimline trace -o run.trace -- ./program && slimline advise run.trace\n  \
        slimline advise run.trace --patch change.diff && patch -p1 -d . < change.diff\n  \
        slimline advise run.trace --format html > advice.html\n\n\
        Of a session, gains are predicted by lines that loops touch. A trace is replayed through the machine with \
        each layout that its accesses suggest (docs/advice.md): what is advised has been tried."
)]
pub(crate) struct Advise {
    #[command(flatten)]
    pub(crate) input: Input,
    /// Through which a trace is replayed (docs/machines.md) [default: host]
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) machine: Option<String>,
    /// Write what is advised of a trace as a patch of the program's C or C++ sources, where every use of the structure is understood
    #[arg(long, value_name = "FILE")]
    pub(crate) patch: Option<PathBuf>,
    /// The compile_commands.json of the program, where slimline cc has not compiled all of it
    #[arg(long, value_name = "FILE", requires = "patch")]
    pub(crate) compile_commands: Option<PathBuf>,
    /// How to print it; html is of a trace (of a session: slimline report --format html)
    #[arg(long, value_enum, default_value_t = PageFormat::Text)]
    pub(crate) format: PageFormat,
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

/// Say what this machine, and a command on it, allow and why.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  slimline doctor\n  slimline doctor -- ./program\n\n\
        Allocators of the program's own are those of slimline.toml in this directory, or of the file that \
        SLIMLINE_CONFIGURATION names.")]
pub(crate) struct Doctor {
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Program to look at; it is not run
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

/// Write down a machine, to change it or to keep what was measured.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  slimline machine                           what the kernel tells of this one\n  \
        slimline machine measured > here.toml      what its caches and memory take, and what is to be had of the last level\n  \
        slimline advise run.trace --machine here.toml\n\n\
        docs/machines.md explains each line.")]
pub(crate) struct MachineName {
    /// host, measured, a name or a file
    #[arg(value_name = "NAME|FILE", default_value = "host")]
    pub(crate) name: String,
}

/// Compile a small program, record it, and print report and advice.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  slimline demo\n  slimline demo --html\n  \
        slimline demo --keep demo && slimline annotate demo/slimline.data body")]
pub(crate) struct Demo {
    /// Keep the program and its session in this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) keep: Option<PathBuf>,
    /// Write the report as a page for a browser, too: slimline-demo.html in this directory, or in that of --keep
    #[arg(long)]
    pub(crate) html: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Input {
    /// Session to read, or a directory of several that are taken together; report and advise: or a trace
    #[arg(value_name = "DIR", default_value = slimline_trace::session::DEFAULT_DIRECTORY)]
    pub(crate) session: PathBuf,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    /// What is wrapped by hand must fit into the page, or it is wrapped once more.
    #[test]
    fn help_is_wrapped_once() {
        let compilers = [COMPILE_OPTIONS, compiling::GCC_NOTES, compiling::GCC_EXAMPLES, CARGO_OPTIONS];
        for own in compilers.into_iter().chain([COLUMNS_HELP, accesses::COLUMNS_HELP]) {
            assert!(own.lines().all(|line| line.chars().count() <= 100), "{own}");
        }
        for command in Cli::command().get_subcommands().cloned() {
            let name = command.get_name().to_owned();
            let shown = command.term_width(100).render_long_help().to_string();
            for lines in shown.lines().collect::<Vec<_>>().windows(3) {
                // A line with a word or two between long ones was cut off another one.
                let [before, line, after] = [0, 1, 2].map(|n| lines[n].trim());
                let is_stub = before.len() > 80 && !line.is_empty() && line.len() < 16 && after.len() > 60;
                assert!(!is_stub, "{name}: {line}");
            }
        }
    }
}
