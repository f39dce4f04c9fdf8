//! What `export` takes.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Write what was recorded for another tool.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
        slimline export --to callgrind -o callgrind.out && callgrind_annotate callgrind.out\n  \
        slimline export --to pprof -o profile.pb.gz && go tool pprof -top profile.pb.gz\n  \
        slimline export --to flamegraph > data.svg          open it in a browser\n  \
        slimline export --to collapsed > stacks.txt         for flamegraph.pl, inferno, speedscope\n  \
        slimline export --to speedscope -o run.speedscope.json\n  \
        slimline export --to firefox -o run.json            for profiler.firefox.com\n  \
        slimline export --to dhat -o dhat.out.json          for Valgrind's dh_view.html\n  \
        slimline export --to sarif -o advice.sarif          for code review\n  \
        slimline export run.trace --to sarif --machine measured -o advice.sarif\n  \
        slimline export --to dot | dot -Tsvg > fields.svg\n  \
        slimline export run.trace --to callgrind -o callgrind.out\n  \
        slimline export run.trace --to parquet -o run.tables\n  \
        duckdb -c \"select field, count(*) from 'run.tables/accesses-*.parquet' join\n              \
        'run.tables/keys.parquet' using (key) group by field order by 2 desc\"\n\n\
        Costs of a session are what its samples weigh, those of a trace its accesses; sums are those of \
        `slimline report`, with what belongs to no known data as such. dot and firefox are of sessions. \
        Parquet is of a trace (slimline trace -o): accesses-*.parquet, in their order, each with a key, \
        and keys.parquet, what each key is of: data, field, function, line, thread. A session of samples \
        is Parquet as it is. docs/exports.md shows each.")]
pub(crate) struct Export {
    /// Session, or trace, to read
    #[arg(value_name = "DIR", default_value = slimline_trace::session::DEFAULT_DIRECTORY)]
    pub(crate) from: PathBuf,
    /// The tool, or its format
    #[arg(long, value_enum)]
    pub(crate) to: Tool,
    /// File to write to, `-` being standard output, as without it; of parquet a directory, which must not be there yet
    #[arg(short, long, value_name = "PATH", required_if_eq("to", "parquet"))]
    pub(crate) output: Option<PathBuf>,
    /// Tell blocks of the heap apart by the functions that called for them (traces)
    #[arg(long)]
    pub(crate) callers: bool,
    /// Through which a trace is replayed for --to sarif, as `advise` does (docs/machines.md) [default: host]
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) machine: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Tool {
    /// callgrind_annotate and KCachegrind: costs of code and data, calls
    Callgrind,
    /// go tool pprof and others: stacks with data at their end, and labels
    Pprof,
    /// flamegraph.pl, inferno: a line for each stack, with data at its end
    Collapsed,
    /// A flame graph of code and data, as SVG
    Flamegraph,
    /// speedscope: samples by thread, in the order of time
    Speedscope,
    /// The Firefox Profiler: samples by thread and time
    Firefox,
    /// Valgrind's dh_view: what is allocated where, how much it is accessed
    Dhat,
    /// Code review and editors: the advice, as SARIF 2.1.0
    Sarif,
    /// Graphviz: fields, affinities and clusters of a session
    Dot,
    /// Engines that query tables: accesses of a trace
    Parquet,
}
