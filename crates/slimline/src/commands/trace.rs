//! `slimline trace`

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::path::Path;

use slimline_analyze::full_trace::TraceAnalysis;
use slimline_analyze::full_trace::filter::Filter;
use slimline_analyze::full_trace::splitting::SplitRules;
use slimline_attribute::module::store::FileStore;
use slimline_collect::{TraceCollector, TraceOutcome, TracePlan, TraceSink};
use slimline_report::full_trace::TraceReport;
use slimline_report::text;
use slimline_trace::escape::shell_word;
use slimline_trace::path_text::text_of;
use slimline_trace::stream::decode::{Program, SiteId};
use slimline_trace::stream::recording::{
    REGIONS_FILE, RecordedTotals, Recording, RecordingWriter, TraceInfo, earlier_recording,
};

use super::{ReportPlace, show};
use crate::accesses::end_as;
use crate::cli;
use crate::collectors::{check_unasked, collector, why_untraced};
use crate::configuration::{Configuration, FILE};
use crate::disk::Disk;
use crate::made_tables::WithMadeTables;
use crate::recorded::{Pass, RecordedTrace};
use crate::region_profiles::{self, NO_REGION, Taken};
use crate::say;
use crate::tracing::{Live, Recorder, program_of};

/// Runs the program, analyzes or writes what it tells while it runs, and ends as it ended. Or shows what was written.
pub(crate) fn run(options: &cli::Trace) -> anyhow::Result<u8> {
    match (&options.replay, &options.output) {
        (Some(directory), _) => replay(options, directory),
        (None, Some(directory)) => record(options, directory),
        (None, None) => live(options),
    }
}

fn rules(options: &cli::Trace) -> SplitRules {
    SplitRules { live: options.hot / 100.0, cold: options.cold / 100.0, ..SplitRules::default() }
}

fn words(command: &[OsString]) -> Vec<String> {
    command.iter().map(|word| text_of(word).into_owned()).collect()
}

fn plan(options: &cli::Trace) -> TracePlan {
    TracePlan { windows: options.window, is_paused: options.paused, with_regions: options.regions }
}

fn filter(options: &cli::Trace) -> Filter {
    let cli::Trace { functions, files, types, variables, .. } = options;
    let [functions, files, types, variables] = [functions, files, types, variables].map(Vec::clone);
    Filter { functions, files, types, variables }
}

fn analysis(options: &cli::Trace) -> TraceAnalysis {
    let analysis = TraceAnalysis::of(filter(options));
    if options.callers { analysis.by_callers() } else { analysis }
}

/// Runs the command and hands on what it tells.
fn trace(options: &cli::Trace, collector: &TraceCollector, sink: &mut impl TraceSink) -> anyhow::Result<TraceOutcome> {
    let store = FileStore::new(&Disk);
    Ok(slimline_collect::trace(&options.command, collector, plan(options), &mut WithMadeTables::new(sink, &store))?)
}

fn live(options: &cli::Trace) -> anyhow::Result<u8> {
    let collector = collector(&options.collecting, &options.command, options.values)?;
    let place = ReportPlace::open(options.report.as_deref(), true)?;
    let analysis = analysis(options);
    let mut live = if options.keep_up { Live::keeping_up(analysis) } else { Live::of(analysis) };
    let outcome = trace(options, &collector, &mut live)?;
    if has_any(options, &collector, &outcome, !live.has_nothing(), None) {
        if let Some(configuration) = own_allocators(&collector) {
            say_never_called(&configuration, live.program());
        }
        if in_vain(&mut live) {
            outcome.exit_in_vain();
        }
        let ended = (Some(outcome.end), outcome.windows);
        let report = live.report(words(&options.command), ended, &rules(options));
        end_as(&outcome, show_report(options, place, &report));
    }
    outcome.exit()
}

fn record(options: &cli::Trace, directory: &Path) -> anyhow::Result<u8> {
    let collector = collector(&options.collecting, &options.command, options.values)?;
    // An older trace is moved away for the new one: not for a command that can't be.
    slimline_collect::check_command(&options.command)?;
    let mut recorder = Recorder::new(RecordingWriter::create(directory, words(&options.command))?);
    let mut outcome = trace(options, &collector, &mut recorder)?;
    let (mut failures, untold) = recorder.take_missing();
    let (RecordedTotals { words, bytes }, written) = recorder.finish(&outcome);
    outcome.stopped_early = outcome.stopped_early.or(written.err());
    if options.regions && words > 0 {
        let Taken { profiles, missing } = Taken::of(&outcome.profiles, outcome.end, &options.command);
        missing.iter().for_each(|what| say(format_args!("slimline: missing: {what}")));
        if profiles.is_empty() {
            say(format_args!("slimline: {NO_REGION}"));
        } else if let Err(error) = region_profiles::keep(&directory.join(REGIONS_FILE), &profiles) {
            outcome.stopped_early = outcome.stopped_early.or(Some(io::Error::other(format!("{error:#}"))));
        }
    }
    let is_why = words == 0 && outcome.stopped_early.is_none();
    let why = is_why.then(|| failures.pop_front()).flatten();
    if has_any(options, &collector, &outcome, words > 0, why.as_deref()) {
        let place = shell_word(&text_of(directory.as_os_str()));
        say(format_args!(
            "slimline: {}: {words} words of trace in {bytes} bytes (slimline trace --replay {place})",
            text_of(directory.as_os_str())
        ));
        if let Some(configuration) = own_allocators(&collector)
            && let Ok(recording) = Recording::open(directory)
        {
            say_never_called(&configuration, program_of(&recording).0.program());
        }
    }
    // The rest of what is missing is told when the trace is shown; this, another run may have.
    let mut missing = failures.into_iter().chain(untold);
    if let Some(first) = missing.next() {
        let more = match missing.count() {
            0 => String::new(),
            more => format!(" (and {more} more such lines: --replay)"),
        };
        say(format_args!("slimline: {}: missing: {first}{more}", text_of(directory.as_os_str())));
    }
    if let Some(earlier) = earlier_recording(directory).filter(|_| words == 0) {
        say(format_args!("slimline: the trace before it is {}", text_of(earlier.as_os_str())));
    }
    if let Some(error) = &outcome.stopped_early {
        say(format_args!(
            "slimline: {}: recording stopped early: {error}; kept is what was written before",
            text_of(directory.as_os_str())
        ));
    }
    outcome.exit()
}

/// The file that names allocators of the program's own, if that is to be looked into. Those of a program that is translated are looked up
/// before it runs; what is wrong with the file its compilation told.
fn own_allocators(collector: &TraceCollector) -> Option<Configuration> {
    let (TraceCollector::Instrumented, Ok(configuration)) = (collector, Configuration::here()) else { return None };
    configuration.has_allocators().then_some(configuration)
}

/// Says which allocators slimline.toml names in vain: a name that is misspelt, or of a function that was inlined everywhere, is else as if
/// nothing had been said.
fn say_never_called(configuration: &Configuration, program: &Program) {
    let sites = (0..program.site_count() as u32).map(|number| program.site(SiteId(number)));
    let called: BTreeSet<&str> =
        sites.filter(|(_, site)| site.kind.makes_block()).map(|(module, site)| module.name(site.detail)).collect();
    let called: Vec<&str> = called.into_iter().collect();
    for function in configuration.never_called(&called) {
        say(format_args!(
            "slimline: {FILE}: `{function}`: no code that was traced calls it, so its blocks are not known (misspelt, inlined into \
             its callers, or compiled without this file)"
        ));
    }
}

/// Whether anything was traced, where processes told something to report; says so if not, and which failure is why.
fn has_any(
    options: &cli::Trace,
    collector: &TraceCollector,
    outcome: &TraceOutcome,
    is_told: bool,
    failure: Option<&str>,
) -> bool {
    if outcome.processes > 0 && is_told {
        return true;
    }
    // What was told could not be written: that is said by itself.
    if outcome.stopped_early.is_some() {
        return false;
    }
    let let_be = match options.paused || options.window.is_some() {
        true => ", or --paused or --window let none be traced",
        false => "",
    };
    say(format_args!("slimline: nothing was traced: {}{let_be}", why_untraced(collector, &options.command, failure)));
    false
}

/// Whether there are accesses and filters want none of them; says what there is, if so.
fn in_vain(live: &mut Live) -> bool {
    let why = live.unmatched();
    why.iter().for_each(|why| say(format_args!("slimline: {why}")));
    !why.is_empty()
}

fn replay(options: &cli::Trace, directory: &Path) -> anyhow::Result<u8> {
    check_unasked(&options.collecting, "--replay")?;
    let trace = RecordedTrace::open_traced(directory)?;
    let place = ReportPlace::open(options.report.as_deref(), false)?;
    let mut live = Live::of(analysis(options));
    live.begin_replay(&trace);
    let pass = trace.read(&mut [&mut live])?;
    live.end_replay(&pass);
    if in_vain(&mut live) {
        return Ok(2);
    }
    show_report(options, place, &report_of(live, trace.recording(), &rules(options)))?;
    Ok(0)
}

fn report_of(live: Live, recording: &Recording, rules: &SplitRules) -> TraceReport {
    let TraceInfo { command, end, windows, .. } = recording.info();
    live.report(command.clone(), (*end, *windows), rules)
}

/// What of a trace is counted where nothing is left out; it is to read `trace`.
pub(super) fn counting(trace: &RecordedTrace) -> Live {
    let mut live = Live::of(TraceAnalysis::of(Filter::default()));
    live.begin_replay(trace);
    live
}

/// The counts, once all was read.
pub(super) fn counted(mut live: Live, recording: &Recording, pass: &Pass) -> TraceReport {
    live.end_replay(pass);
    report_of(live, recording, &SplitRules::default())
}

fn show_report(options: &cli::Trace, place: ReportPlace, report: &TraceReport) -> anyhow::Result<()> {
    show(options.format, place, || report.json(), |out| text::trace(out, report, options.rows))
}
