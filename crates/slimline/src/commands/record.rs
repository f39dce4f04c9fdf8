//! `slimline record`

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use slimline_collect::{AllocatorCall, CollectorChoice, Outcome, RecordOptions};
use slimline_report::{failures, few_samples, why_no_samples};
use slimline_trace::path_text::text_of;
use slimline_trace::session::{
    FoundAllocator, REGION_STEPS_FILE, REGIONS_FILE, Rank, Unlooked, earlier_session, place_of_rank,
};

use slimline_trace::tables::Table as _;

use crate::cli::{self, Collector, Frequency};
use crate::configuration::{self, Configuration};
use crate::region_profiles::{self, NO_REGION, Taken};
use crate::say;

/// Records, says on standard error what was written, and ends as the target ended.
pub(crate) fn run(options: &cli::Record) -> anyhow::Result<u8> {
    let outcome = record(options, false)?;
    outcome.exit()
}

/// Records and says what was written. `keeps_files`: see [`RecordOptions::keeps_files`].
pub(crate) fn record(options: &cli::Record, keeps_files: bool) -> anyhow::Result<Outcome> {
    let output = match Rank::of(|name| env::var(name).ok()) {
        Some(rank) => place_of_rank(&options.output, rank)?,
        None => options.output.clone(),
    };
    let recorded = RecordOptions {
        output,
        period_ns: match options.frequency {
            Frequency::Auto => None,
            Frequency::Fixed(hertz) => Some(1_000_000_000 / u64::from(hertz)),
        },
        collector: match options.collector {
            Collector::Auto => CollectorChoice::Auto,
            Collector::Clock => CollectorChoice::Clock,
            Collector::Pmu => CollectorChoice::Pmu,
        },
        burst_instructions: options.burst,
        budget_ppm: (options.budget * 10_000.0).round() as u32,
        follow_children: !options.no_children,
        attach: options.pid.clone(),
        out_of_process: options.out_of_process,
        with_regions: options.regions,
        calibration: calibration()?,
        allocators: allocators(options)?,
        keeps_files,
        ..RecordOptions::new(options.command.clone())
    };
    let outcome = slimline_collect::record(&recorded)?;
    let outcome = if options.regions { with_regions(outcome, options) } else { outcome };
    tell(&outcome);
    tell_allocators(&outcome, &recorded.allocators);
    Ok(outcome)
}

/// Puts profiles of regions beside the samples of their processes, with where their code is in the source, and where their threads were.
fn with_regions(mut outcome: Outcome, options: &cli::Record) -> Outcome {
    for (pid, steps) in std::mem::take(&mut outcome.region_steps) {
        let Some(process) = outcome.info.processes.iter().rfind(|process| process.pid == pid) else { continue };
        let place = outcome.directory.join(&process.directory).join(REGION_STEPS_FILE);
        let written =
            steps.to_parquet().map_err(anyhow::Error::from).and_then(|content| Ok(fs::write(place, content)?));
        if let Err(error) = written {
            outcome.info.stopped_early.get_or_insert(format!("regions of samples could not be written ({error:#})"));
        }
    }
    let Taken { profiles, missing } = Taken::of(&outcome.profiles, outcome.end(), &options.command);
    missing.iter().for_each(|what| say(format_args!("slimline: missing: {what}")));
    if profiles.is_empty() {
        say(format_args!("slimline: {NO_REGION}"));
    }
    for profile in profiles {
        // Of several programs that were one process the last one wrote it.
        let Some(process) = outcome.info.processes.iter().rfind(|process| process.pid == profile.process) else {
            say(format_args!("slimline: missing: samples of process {}, which has regions", profile.process));
            continue;
        };
        let place = outcome.directory.join(&process.directory).join(REGIONS_FILE);
        if let Err(error) = region_profiles::keep(&place, &[profile]) {
            outcome.info.stopped_early.get_or_insert(format!("regions could not be written ({error:#})"));
        }
    }
    outcome
}

/// Functions of the program's own allocators, as `slimline.toml` tells them.
fn allocators(options: &cli::Record) -> anyhow::Result<Vec<AllocatorCall>> {
    let configuration = Configuration::here()?;
    let Some(program) = options.command.first().filter(|_| configuration.has_allocators()) else {
        return Ok(Vec::new());
    };
    let file = slimline_collect::preloaded(program)?.filter(|_| options.pid.is_empty());
    file.map_or(Ok(Vec::new()), |file| configuration.allocator_calls(Some(&file)))
}

/// What of the program's own allocators is not followed, and why. (Of those that are known `session.json` has it.)
fn tell_allocators(outcome: &Outcome, asked: &[AllocatorCall]) {
    if !asked.is_empty() && !outcome.info.collector.track_allocations {
        return say(format_args!(
            "slimline: allocators of {} are not followed: the program was sampled from outside",
            configuration::FILE
        ));
    }
    let found = || outcome.info.processes.iter().flat_map(|process| &process.allocators);
    let is_asked = |allocator: &&FoundAllocator| asked.iter().any(|call| call.function == allocator.function);
    let mut told = BTreeSet::new();
    for allocator in found().filter(is_asked) {
        if let Some(why) = allocator.outcome.why_not()
            && told.insert(&allocator.function)
        {
            say(format_args!("slimline: blocks of `{}` are not followed: {why}", allocator.function));
        }
    }
    let unlooked: BTreeSet<Unlooked> =
        outcome.info.processes.iter().flat_map(|process| &process.unlooked).copied().collect();
    for unlooked in unlooked {
        let objects = unlooked.objects();
        say(format_args!("slimline: functions of {} were not looked for in {objects}", configuration::FILE));
    }
    let is_missing = |call: &&AllocatorCall| !found().any(|allocator| allocator.function == call.function);
    for call in asked.iter().filter(is_missing) {
        say(format_args!(
            "slimline: {}: no program that was recorded has `{}` among what it loads",
            configuration::FILE,
            call.function
        ));
    }
}

/// The command that runs the calibration loop.
pub(super) fn calibration() -> anyhow::Result<Vec<OsString>> {
    let myself = env::current_exe().context("can't find slimline's own program file")?;
    Ok(vec![myself.into_os_string(), cli::CALIBRATE.into()])
}

fn tell(outcome: &Outcome) {
    let info = &outcome.info;
    let samples = info.counted_samples();
    let accesses: u64 = info.processes.iter().map(|process| process.accesses).sum();
    let directory = text_of(outcome.directory.as_os_str());
    let processes = match info.process_count() {
        0 | 1 => String::new(),
        n => format!(", {n} processes"),
    };
    let why_none = if samples == 0 { why_no_samples(info) } else { None };
    let remark = match (&info.stopped_early, why_none) {
        (Some(reason), _) => format!(" taken; {reason}"),
        (None, Some(why)) => format!(": {why}"),
        (None, None) => String::new(),
    };
    // What the reader may have wanted to keep, where this run is no substitute for it.
    let is_poor = samples == 0 || info.stopped_early.is_some();
    let earlier = match earlier_session(&outcome.directory).filter(|_| is_poor) {
        Some(earlier) => format!("; the session before it is {}", text_of(earlier.as_os_str())),
        None => String::new(),
    };
    // What was chosen, where something better was looked for.
    let chosen = match &info.collector.second_best {
        Some(why) => format!("; by the {}: {why}", info.collector.name),
        None => String::new(),
    };
    say(format_args!(
        "slimline: {directory}: {samples} samples, {accesses} accesses{processes}{remark}{earlier}{chosen}"
    ));
    // Nobody asked for that.
    if let Some(why) = slimline_collect::no_room_for_agent().filter(|why| *why == info.collector.trigger_reason) {
        say(format_args!("slimline: sampled from outside: {why}"));
    }
    if let Some(few) = few_samples(info) {
        say(format_args!("slimline: {few}"));
    }
    if let Some(pid) = outcome.runs_on {
        say(format_args!(
            "slimline: process {pid} runs on, the command: it ignores SIGTERM (kill -KILL {pid} ends it)"
        ));
    }
    failures(info).iter().for_each(|line| say(format_args!("slimline: {line}")));
}

impl cli::Record {
    /// A recording of `program` with the defaults, but `frequency`.
    pub(crate) fn of(program: OsString, output: PathBuf, frequency: Frequency) -> Self {
        Self {
            output,
            collector: Collector::Auto,
            frequency,
            burst: slimline_collect::DEFAULT_BURST_INSTRUCTIONS,
            budget: cli::DEFAULT_BUDGET_PERCENT,
            no_children: false,
            out_of_process: false,
            regions: false,
            pid: Vec::new(),
            command: vec![program],
        }
    }
}
