//! The command line of what reads accesses: traces, and files of other tools.

use std::ffi::OsString;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use slimline_analyze::object_learning::LEAST_OBJECTS;
use slimline_collect::ColumnMap;
use slimline_simulate::machine::size::bytes_of;

use super::{CollectorOptions, Format, PageFormat, ReportFormat, rows};

/// Pass accesses through simulated caches, TLBs and memories: by data, field, line, function and thread.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        slimline trace -o run.trace -- ./program && slimline simulate run.trace\n  \
        slimline simulate --live -- ./program\n  \
        slimline simulate run.trace --machine host --machine big.toml --classes --used-bytes\n  \
        slimline simulate run.trace --format csv       who misses: variable, file, line\n  \
        slimline simulate run.trace --format html > caches.html\n  \
        valgrind --tool=lackey --trace-mem=yes --log-file=run.lackey ./program\n  \
        slimline simulate run.lackey --machine valgrind --format json | jq '.machines[0].caches'\n  \
        slimline simulate run.parquet --columns 'address=addr,size=bytes,kind=is_write,thread=tid,ip=pc'\n\n\
        A machine is `host` (its caches as the kernel tells them, with usual latencies, no TLB and no \
        prefetcher), `measured` (the same with latencies and the part of the last level that is to be had, measured \
        now), `valgrind` (Cachegrind's counts), `dinero-i5`, `pena-sp`, or a file; docs/machines.md \
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
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub(crate) format: ReportFormat,
    /// Most rows of a table of the text; other formats have all
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = rows)]
    pub(crate) rows: usize,
}

/// Tell where in data it is accessed and missed: its hot parts, for placing or splitting it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        slimline trace -o run.trace -- ./program && slimline histogram run.trace\n  \
        slimline histogram --live -- ./program\n  \
        slimline histogram run.trace --part 4K --data grid --data table.c:37\n  \
        slimline histogram run.trace --format svg > parts.svg\n  \
        slimline histogram run.trace --format html > parts.html\n\n\
        Blocks that one instruction allocates lie over each other, by offset. Data that is no known block (static \
        variables, stacks, what is gone by as a pointer of that name) is by address, in parts \
        that begin at multiples of their size. An access counts in the part of its first byte, what is copied or \
        filled in each. Parts of data that has more than 4096 are larger than asked for, by a power of two.")]
pub(crate) struct Histogram {
    #[command(flatten)]
    pub(crate) input: AccessInput,
    /// Whose misses (docs/machines.md)
    #[arg(long, value_name = "NAME|FILE", default_value = "host")]
    pub(crate) machine: String,
    /// Bytes of a part: a number, or one of KiB, MiB or GiB (4K, 2MiB, "1 GiB")
    #[arg(long, value_name = "BYTES", default_value = "64", value_parser = size)]
    pub(crate) part: NonZeroU64,
    /// Only data of this name, of this type, or allocated at this file:line, all of several; `*` and `?` stand for others; may be
    /// repeated
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
        slimline place --machine pena-sp --live -- ./program\n  \
        slimline place run.trace --machine hbm.toml --memory HBM --room 8M --part 64K\n  \
        slimline place run.trace --machine pena-sp --format html > placement.html\n\n\
        The machine has a memory that is limited and faster than those near to its cores (docs/machines.md). What is \
        saved are the lines that the others served, times the difference of latencies: caches miss what they missed. \
        Blocks that one instruction allocates are placed together; where one lives at a time, and of variables, a range \
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
    /// What fits there: a number of bytes, or one of KiB, MiB or GiB (4K, 2MiB, "1 GiB") [default: the memory's size]
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub(crate) room: Option<NonZeroU64>,
    /// Where data can be cut, at the finest, a line or more: a number of bytes, or one of KiB, MiB or GiB
    #[arg(long, value_name = "BYTES", default_value = "4K", value_parser = size)]
    pub(crate) part: NonZeroU64,
    /// How to print it
    #[arg(long, value_enum, default_value_t = PageFormat::Text)]
    pub(crate) format: PageFormat,
    /// Most rows of the first table
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = rows)]
    pub(crate) rows: usize,
}

/// A recorded trace, and which of its objects are near each other.
#[derive(Debug, Args)]
pub(crate) struct ObjectInput {
    /// Directory that `slimline trace -o` wrote
    #[arg(value_name = "TRACE")]
    pub(crate) trace: PathBuf,
    /// Two accesses to objects are near with fewer than so many from the one to the other
    #[arg(long, value_name = "ACCESSES", default_value_t = 2, value_parser = clap::value_parser!(u16).range(2..=64))]
    pub(crate) window: u16,
    /// What is drawn by chance is drawn by this
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub(crate) seed: u64,
}

/// Tell in which order objects of the heap should lie, by who is accessed next to whom, and what that would save.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        slimline trace -o run.trace -- ./program && slimline layout run.trace\n  \
        slimline layout run.trace --window 4 --machine big.toml --order order.csv\n  \
        slimline layout second.trace --order-from first.trace     # trained on one, tried on another\n  \
        slimline layout run.trace --graph objects.svg --picture pages.svg\n  \
        slimline layout run.trace --order-by node.id --order ids     # elements of arrays are objects, too\n  \
        slimline layout run.trace --order-by edge.from --order-by edge.to --order edges.csv\n  \
        slimline layout run.trace --format json | jq '.orders[] | {order, caches}'\n\n\
        Objects are blocks of the heap, from when each is allocated until it is freed; with --order-by elements of arrays of structures, too. Two are neighbours of the access graph where one \
        thread accesses one and then, within the window, the other; accesses to anything but objects do not count. Communities of the graph (Louvain) lie side by \
        side, and within them objects in the order of their Fiedler vector. Every order is replayed: the trace goes through \
        the machine with all objects where that order puts them, as an allocator that never reuses memory would; \
        only the original one reuses it as the program did, and only it keeps alignments beyond 16 bytes. Orders are made of the run that \
        they are judged by: what is saved is an upper bound for other inputs.")]
pub(crate) struct Layout {
    #[command(flatten)]
    pub(crate) input: ObjectInput,
    /// Whose misses (docs/machines.md)
    #[arg(long, value_name = "NAME|FILE", default_value = "host")]
    pub(crate) machine: String,
    /// Write the hierarchical order to this file: CSV, an object a line (- for standard output; the report goes to standard error then)
    #[arg(long, value_name = "FILE")]
    pub(crate) order: Option<PathBuf>,
    /// Objects are known by what this field holds: --order writes its values, a line each, to order an input file by; --order-from
    /// finds objects again by it. May be repeated, where one field says too little: values are separated by commas
    #[arg(long, value_name = "FIELD")]
    pub(crate) order_by: Vec<String>,
    /// Also try the order that another run's accesses make, to see what an order is worth in a run that it was not made of
    #[arg(long, value_name = "TRACE")]
    pub(crate) order_from: Option<PathBuf>,
    /// Also try objects that are larger by so many bytes each: whether the order depends on their size
    #[arg(long, value_name = "BYTES,BYTES", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    pub(crate) larger_by: Vec<u64>,
    /// Draw the access graph of the objects of most weight: FILE.svg, FILE.dot for Graphviz, FILE.graphml for others
    #[arg(long, value_name = "FILE")]
    pub(crate) graph: Option<PathBuf>,
    /// Draw which pages of objects are accessed when, as they lay, as they were allocated and in the hierarchical order
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) picture: Option<PathBuf>,
    /// Most objects of the graph
    #[arg(long, value_name = "N", default_value_t = 200, requires = "graph", value_parser = rows)]
    pub(crate) graph_objects: usize,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Most rows of the table of types
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = rows)]
    pub(crate) rows: usize,
}

/// Tell which fields of objects say with whom they are accessed, and so how to allocate them.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        make CC='slimline cc --slimline-values' && slimline trace -o run.trace -- ./program\n  \
        slimline learn run.trace\n  \
        slimline learn run.trace --trees 100 --format json | jq '.types[] | {type_name, verdict, code}'\n\n\
        Objects and their access graph are those of `slimline layout`, but elements of arrays of structures are objects of their own. Random forests \
        learn to say the community that an object is in by its features: its fields as they were loaded first, those of objects that it \
        points to, its address, number of allocation and index, its size and the line that allocates it. Five folds are held out in \
        turn. Importance is by Gini's impurity, which favours fields of many values; loss is what accuracy falls by when a \
        feature's values are exchanged among objects. Where fields say it and the place does not, the code for slimline-tidy is printed \
        (docs/tidy.md).")]
pub(crate) struct Learn {
    #[command(flatten)]
    pub(crate) input: ObjectInput,
    /// Trees of forests, of which the best is told
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_values_t = [100, 200, 400, 500], value_parser = trees)]
    pub(crate) trees: Vec<usize>,
    /// Objects of a type that are learned from at most; where there are more, communities are drawn
    #[arg(long, value_name = "N", default_value_t = 5000, value_parser = objects)]
    pub(crate) most_objects: usize,
    /// On which it is tried whether an order saves anything (docs/machines.md)
    #[arg(long, value_name = "NAME|FILE", default_value = "host")]
    pub(crate) machine: String,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Most features of a type
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = rows)]
    pub(crate) rows: usize,
}

/// A number of objects that something can be learned from.
fn objects(text: &str) -> Result<usize, String> {
    let objects = text.parse().ok().filter(|objects| *objects >= LEAST_OBJECTS);
    objects.ok_or_else(|| format!("not a number from {LEAST_OBJECTS} on"))
}

/// A number of trees.
fn trees(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|trees| (1..=10_000).contains(trees))
        .ok_or_else(|| "not a number from 1 to 10000".to_owned())
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
    /// One page for a browser, which needs nothing else
    Html,
}

/// A number of bytes, from 1.
pub(crate) fn size(text: &str) -> Result<NonZeroU64, String> {
    let bytes = bytes_of(text).and_then(NonZeroU64::new);
    bytes.ok_or_else(|| {
        "not a size: a number of bytes from 1, or one of KiB, MiB or GiB as in 4K, 4KiB or \"4 KiB\"".to_owned()
    })
}

/// Tell how far apart accesses to the same data are, which cache it needs, and why it waits.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        slimline trace -o run.trace -- ./program && slimline reuse run.trace\n  \
        slimline reuse --live -- ./program\n  \
        slimline reuse run.trace --machine two-nodes.toml      near: share of accesses to the own node\n  \
        slimline reuse run.trace --sampled 10000               long runs, in bounded memory\n  \
        slimline reuse run.trace --format json | jq '.data[0].miss_ratios'\n  \
        slimline reuse run.trace --format csv                  who reuses what: lines, distance, cycles\n  \
        slimline reuse run.trace --format html > reuse.html    miss-ratio curves and histograms\n\n\
        The distance of an access is the number of other lines accessed since the last access to its line, as \
        the cache that serves it has seen them: a fully associative cache of more lines than that keeps it. \
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
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub(crate) format: ReportFormat,
    /// Most rows of a table of the text; other formats have all
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = rows)]
    pub(crate) rows: usize,
}

/// Tell which data threads share, truly or only by the line, who stores what, and how to part it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        slimline trace -o run.trace -- ./program && slimline share run.trace\n  \
        slimline share --live -- ./program\n  \
        slimline record -o run -- ./program && slimline share run\n  \
        slimline share run.trace --format json | jq '.falsely_shared[0].fix'\n  \
        slimline share run.trace --format html > sharing.html\n\n\
        Told are lines that two threads take from each other three times or more, and none of them in less than \
        1 of 1000 of the other one's accesses: what is set up before and read at the end is in nobody's way. \
        What one has stored and the other then accesses, before it loses the line again, is truly shared: uniformly \
        where the thread with most accesses to a byte has less than twice as many as the next one. Where the other \
        one accesses no such byte while it has the line, it is shared falsely. Each time that a line goes over is taken to cost as much as 100 \
        accesses that hit, whatever the machine; slimline simulate has the machine's own cycles. Where less than a \
        tenth of what the threads did, all but the busiest, was done while others were at it, what they used in turn is \
        not judged.\n\n\
        Of a session (`slimline record`) told are lines that were seen to go from thread to thread three times or \
        more; how often they went is not known, so the cost is the share of the samples.")]
pub(crate) struct Share {
    #[command(flatten)]
    pub(crate) input: AccessInput,
    /// Whose lines and first level (docs/machines.md)
    #[arg(long, value_name = "NAME|FILE", default_value = "host")]
    pub(crate) machine: String,
    /// How to print it
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub(crate) format: ReportFormat,
    /// Most of each sort of sharing
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = rows)]
    pub(crate) rows: usize,
}

/// Where accesses come from.
#[derive(Debug, Args)]
pub(crate) struct AccessInput {
    /// Directory that `slimline trace -o` wrote (`share`: or `slimline record`), one of
    /// DynamoRIO's drmemtrace, or of `slimline export --to parquet`; a file of Valgrind's lackey or in Dinero's
    /// format, or with --columns a table (`histogram`, `place`: the first only); `-` reads standard input
    #[arg(value_name = "TRACE", required_unless_present = "live")]
    trace: Option<PathBuf>,
    /// Run a program and take its accesses as they come: nothing is written to disk, and memory grows with the data that is
    /// accessed, not with the run. It was compiled with `slimline cc`, `gcc` or `cargo`, or --collector translate runs it as it is
    #[arg(long, requires = "command", conflicts_with_all = ["trace", "from"])]
    pub(crate) live: bool,
    #[command(flatten)]
    pub(crate) collecting: CollectorOptions,
    /// How a file is written, where its first line does not tell
    #[arg(long, value_enum)]
    pub(crate) from: Option<TraceFormat>,
    /// Read a table of accesses; which column is what: NAME=COLUMN[:FORMAT][*FACTOR],…
    #[arg(long, value_name = "MAP", value_parser = access_columns, conflicts_with_all = ["live", "from"], long_help = COLUMNS_HELP)]
    pub(crate) columns: Option<ColumnMap>,
    /// Tell blocks of the heap apart by the functions that called for them, not only by the line that allocates
    #[arg(long)]
    pub(crate) callers: bool,
    /// Write the report to this file, `-` for standard output; else it goes there, or with --live to standard error, so that
    /// the program's output stays its own
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// With --live: program and its arguments
    #[arg(last = true, conflicts_with = "trace", value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

impl AccessInput {
    /// What `slimline trace -o` wrote.
    pub(crate) fn written(trace: &Path, callers: bool) -> Self {
        let (trace, collecting) = (Some(trace.to_owned()), CollectorOptions::default());
        Self { trace, live: false, collecting, from: None, columns: None, callers, report: None, command: Vec::new() }
    }

    /// A program that is run.
    pub(crate) fn run(command: &[OsString], collecting: &CollectorOptions) -> Self {
        let (command, collecting) = (command.to_vec(), collecting.clone());
        Self { trace: None, live: true, collecting, from: None, columns: None, callers: false, report: None, command }
    }

    /// What to read; nothing where a program is to be run.
    pub(crate) fn trace(&self) -> &Path {
        self.trace.as_deref().unwrap_or(Path::new(""))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TraceFormat {
    /// valgrind --tool=lackey --trace-mem=yes
    Lackey,
    /// Dinero's din: label and address
    Din,
}

/// What `--columns` takes here.
pub(super) const COLUMNS_HELP: &str = "\
Read a table of accesses, each row one (CSV with a line of column names, or
Parquet); which column is what: NAME=COLUMN[:FORMAT][*FACTOR],…

  address, size      of the access; a size that is not told is taken for 1
  kind               load, store or modify; L, S, M; R, W, RW; or whether it is
                     a store (0, 1)
  process, thread, cpu
                     who; a CPU stands for the thread where none is told
  function, file, line, ip
                     where the instruction is
  variable           name of the data that was accessed
  time               when; time=COLUMN:s for seconds, also :ms, :us, :ns: rows
                     are taken in that order (some 40 bytes of memory a row),
                     else as they stand

Numbers are decimal, or hexadecimal after 0x; with :hex also without it.
Cells that are empty, ?, ??, - or N/A tell nothing.";

/// Which column of a table of accesses is what.
fn access_columns(text: &str) -> Result<ColumnMap, String> {
    let map = text.parse::<ColumnMap>()?;
    map.check_accesses().map(|()| map)
}

fn sampled_lines(text: &str) -> Result<usize, String> {
    let lines = text.parse::<usize>().ok().filter(|lines| (64..=1 << 26).contains(lines));
    lines.ok_or_else(|| "not a number of lines, 64 to 67108864".to_owned())
}
