//! `slimline share`

use std::path::Path;

use anyhow::{Context, bail};
use slimline_analyze::sharing::findings;
use slimline_report::html::Finding;
use slimline_report::sharing::SharingReport;
use slimline_report::text;
use slimline_simulate::machine::Machine;
use slimline_simulate::sharing::{LineFinder, SharedLines};
use slimline_trace::session::{Session, SessionError};
use slimline_trace::stream::recording::is_recording;

use super::{ReportPlace, show_table};
use crate::accesses::{self, Accesses, Ended};
use crate::cli::{self, AccessInput};
use crate::collectors::check_unasked;
use crate::machines::machine;
use crate::pipeline;

/// Tells what threads share: of samples; of what is written in a first pass which lines, in a second one who does what to them; of what runs in
/// one.
pub(crate) fn run(options: &cli::Share) -> anyhow::Result<u8> {
    let machine = machine(&options.machine)?;
    let place = ReportPlace::of(&options.input)?;
    if !options.input.live
        && let Some(session) = session(options.input.trace())?
    {
        check_unasked(&options.input.collecting, "a session")?;
        let (trace, sampled) = pipeline::sharing(&session, machine.line_bytes())?;
        let weight = session.info().collector.weight.noun();
        let report = SharingReport::of_samples(trace, &machine.name, &sampled, weight);
        let pid_of = |process: u32| session.processes().get(process as usize).map(|summary| summary.pid);
        let report = report.with_pids(pid_of);
        return shown(options, place, &report).map(|()| 0);
    }
    let (report, ended) = report(&options.input, (&machine, &options.machine))?;
    ended.status(shown(options, place, &report))
}

/// Of what has each access: on this machine, which the command line calls so.
fn report(input: &AccessInput, (machine, name): (&Machine, &str)) -> anyhow::Result<(SharingReport, Ended)> {
    if input.trace().as_os_str() == "-" {
        bail!("-: standard input can be read once only, and share reads a trace twice: give a file");
    }
    let mut lines = if input.live {
        SharedLines::in_one_pass(machine).with_context(|| format!("--machine {name}"))?
    } else {
        let mut finder = LineFinder::new(machine.line_bytes());
        let Some(threads) = accesses::read_sharing(input, &mut finder)?.trace.threads else {
            bail!("{}: tells no threads: share is for what `slimline trace -o` wrote", input.trace().display());
        };
        shared_lines(finder, threads, (machine, name))?
    };
    let mut read = accesses::read_sharing(input, &mut lines)?;
    let before = lines.before_shared();
    if before > 0 {
        read.trace
            .missing
            .push(format!("{before} accesses to shared lines from before a second thread came to them: {LIVE}"));
    }
    Ok((found(&read, &lines, machine), read.ended))
}

/// Who takes in, in a second pass, what so many threads do to the lines that a first one found.
pub(super) fn shared_lines(
    finder: LineFinder,
    threads: u64,
    (machine, name): (&Machine, &str),
) -> anyhow::Result<SharedLines> {
    let threads = u32::try_from(threads).unwrap_or(u32::MAX);
    finder.finish(machine, threads).with_context(|| format!("--machine {name}"))
}

/// What that found.
pub(super) fn found(read: &Accesses, lines: &SharedLines, machine: &Machine) -> SharingReport {
    let found = findings(&lines.lines(), lines.line_bytes(), &read.origins);
    let of_lines = (lines.line_bytes(), lines.only_loaded(), read.overlap);
    let report = SharingReport::new(read.trace.clone(), &machine.name, of_lines, &found, &read.origins);
    let report =
        report.with_pids(|process| read.pids.iter().find(|(number, _)| *number == process).map(|(_, pid)| *pid));
    SharingReport { alone_accesses: lines.before_shared(), ..report }
}

/// Why a single pass lacks something.
const LIVE: &str = "--live sees a run once, a trace is read twice";

/// The session of samples, or several, that it is; none of what is a trace.
fn session(path: &Path) -> anyhow::Result<Option<Session>> {
    if !path.is_dir() || is_recording(path) {
        return Ok(None);
    }
    match Session::open(path) {
        Err(SessionError::NotASession(_)) => Ok(None),
        opened => Ok(Some(opened?)),
    }
}

fn shown(options: &cli::Share, place: ReportPlace, report: &SharingReport) -> anyhow::Result<()> {
    let text = |out: &mut String| text::sharing(out, report, options.rows);
    let found = (&report.trace, Finding::Sharing(report));
    show_table((options.format, place), found, || report.json(), || report.csv(), text)
}
