//! `slimline export`

mod parquet;

use std::env;
use std::io::{self, IsTerminal, Write};
use std::path::Path;

use anyhow::{Context as _, bail};
use slimline_report::assemble::traced_costs;
use slimline_report::export::{
    CostTable, Counts, callgrind, collapsed, dhat, dot, firefox, flamegraph, pprof, sarif, speedscope,
};
use slimline_report::why_no_samples;
use slimline_simulate::access::{Access, AccessKind, Consumer};
use slimline_trace::path_text::text_of;
use slimline_trace::session::Session;
use slimline_trace::stream::recording::is_recording;

use super::write_whole;
use crate::accesses;
use crate::cli::{self, AccessInput, Tool};
use crate::pipeline;
use crate::relayouts;
use crate::say;

pub(crate) fn run(options: &cli::Export) -> anyhow::Result<u8> {
    let is_trace = is_recording(&options.from);
    if options.callers && !is_trace && options.to != Tool::Parquet {
        bail!("--callers is of traces: a session tells blocks of the heap apart by who called for them as it is");
    }
    if options.machine.is_some() && !(is_trace && options.to == Tool::Sarif) {
        bail!("--machine goes with --to sarif of a trace, which is replayed");
    }
    if options.callers && options.to == Tool::Sarif {
        bail!("--callers is of costs: advice is of types, whoever allocates them");
    }
    if let (Tool::Parquet, Some(output)) = (options.to, &options.output) {
        parquet::write_tables(options, output)?;
        return Ok(0);
    }
    if options.to == Tool::Pprof && is_standard_output(options) && io::stdout().is_terminal() {
        bail!("--to pprof is no text for a terminal: name a file (-o profile.pb.gz), or pipe it on");
    }
    if !is_trace {
        say_if_empty(&options.from)?;
    }
    let mut text = String::new();
    match options.to {
        Tool::Dot if is_trace => bail!(
            "{}: --to dot is of sessions: a page of the trace has such graphs (slimline report --format html {0})",
            options.from.display()
        ),
        Tool::Dot => dot::graph(&mut text, &pipeline::report(&options.from)?)?,
        Tool::Sarif if is_trace => {
            let here = env::current_dir().context("this directory")?;
            let report = relayouts::search(&options.from, options.machine.as_deref(), |_, _| true)?;
            text = sarif::of_trace::json(&report, &text_of(here.as_os_str()));
        }
        Tool::Sarif => {
            let report = pipeline::report(&options.from)?;
            let session = Session::open(&options.from)?;
            // Of what was attached to, or imported, the program is not known.
            let from = text_of(options.from.as_os_str());
            let of = Some(session.info().program.as_str()).filter(|program| !program.is_empty());
            text = sarif::json(&report, &session.info().working_directory, of.unwrap_or(&from));
        }
        Tool::Pprof => {
            let table = costs(options, is_trace)?;
            write(options, |out| pprof::write(out, &table))?;
            return Ok(0);
        }
        Tool::Callgrind => callgrind::write(&mut text, &costs(options, is_trace)?)?,
        Tool::Collapsed => {
            let table = costs(options, is_trace)?;
            // The format has no place for it.
            table.run.remarks.iter().take(1).for_each(|remark| say(format_args!("slimline: {remark}")));
            collapsed::write(&mut text, &table)?;
        }
        Tool::Flamegraph => flamegraph::write(&mut text, &costs(options, is_trace)?)?,
        Tool::Speedscope => text = speedscope::json(&costs(options, is_trace)?),
        Tool::Firefox if is_trace => {
            bail!("{}: accesses of a trace have no times: --to speedscope shows one", options.from.display())
        }
        Tool::Firefox => text = firefox::json(&costs(options, is_trace)?),
        Tool::Dhat => text = dhat::json(&costs(options, is_trace)?),
        Tool::Parquet => bail!("--to parquet writes a directory: name it (-o DIR)"),
    }
    write(options, |out| out.write_all(text.as_bytes()))?;
    Ok(0)
}

/// Other tools show a file without costs as it is, and not why.
fn say_if_empty(session: &Path) -> anyhow::Result<()> {
    let session = Session::open(session)?;
    if session.info().counted_samples() == 0
        && let Some(why) = why_no_samples(session.info())
    {
        say(format_args!("slimline: {}: 0 samples: {why}", session.directory().display()));
    }
    Ok(())
}

fn is_standard_output(options: &cli::Export) -> bool {
    options.output.as_deref().is_none_or(|output| output.as_os_str() == "-")
}

fn write(options: &cli::Export, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
    let output = options.output.as_deref().unwrap_or(Path::new("-"));
    write_whole(output, |out| write(out))
}

fn costs(options: &cli::Export, is_trace: bool) -> anyhow::Result<CostTable> {
    if !is_trace {
        return pipeline::costs(&options.from, matches!(options.to, Tool::Speedscope | Tool::Firefox));
    }
    let mut counted = Counted::default();
    let read = accesses::read(&AccessInput::written(&options.from, options.callers), &mut counted)?;
    Ok(traced_costs(&read.trace, &read.origins, &counted.by_key, &read.pids))
}

/// Counts accesses by key.
#[derive(Default)]
struct Counted {
    by_key: Vec<Counts>,
}

impl Consumer for Counted {
    fn take(&mut self, accesses: &[Access]) {
        for &Access { key, bytes, kind, .. } in accesses {
            let key = key as usize;
            if key >= self.by_key.len() {
                self.by_key.resize(key + 1, Counts::default());
            }
            let counts = &mut self.by_key[key];
            counts.cost += 1;
            if kind != AccessKind::Store {
                counts.loads += 1;
                counts.loaded_bytes += u64::from(bytes);
            }
            if kind.stores() {
                counts.stores += 1;
                counts.stored_bytes += u64::from(bytes);
            }
        }
    }
}
