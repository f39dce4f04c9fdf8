//! `slimline regions`

use std::fs;
use std::io;
use std::path::Path;

use anyhow::{Context, bail};
use slimline_analyze::region_accesses::region_accesses;
use slimline_collect::{profile_regions, why_without_regions};
use slimline_regions::{Kind, Profile, read_all};
use slimline_report::regions::{RegionsReport, SampledProcess, SampledRegionsRun, TracedRegions};
use slimline_report::{html, text};
use slimline_simulate::extents::Extents;
use slimline_simulate::simulation::Options;
use slimline_trace::session::{Session, is_session};
use slimline_trace::stream::recording::{REGIONS_FILE, is_recording};

use super::{ReportPlace, show};
use crate::accesses::{self, Accesses};
use crate::cli::{self, AccessInput, Format, ReportFormat};
use crate::collectors::check_unasked;
use crate::machines::{machine, simulation};
use crate::pipeline;
use crate::region_data::Asked;
use crate::region_profiles::{self, NO_REGION, NO_REGION_IN_SESSION, Taken};
use crate::{is_broken_pipe, say};

/// Runs the program and shows where its threads were, or shows what was kept of that.
pub(crate) fn run(options: &cli::Regions) -> anyhow::Result<u8> {
    let report = |kept: &Path| region_profiles::read(kept).map(|profiles| RegionsReport::new(profiles, Vec::new()));
    let against = options.against.as_deref().map(report).transpose()?;
    let beside = |now: RegionsReport| match &against {
        Some(then) => now.against(then),
        None => now,
    };
    let asked = Asked::of(options)?;
    if let Some(input) = options.profile.as_deref().filter(|input| is_recording(input)) {
        check_unasked(&options.collecting, "a trace")?;
        let place = ReportPlace::open(options.report.as_deref(), false)?;
        let accesses = AccessInput::written(input, false);
        return counted(options, place, asked, &accesses, beside);
    }
    if let Some(input) = options.profile.as_deref().filter(|input| is_session(input)) {
        check_unasked(&options.collecting, "a session")?;
        if options.machine.is_some() {
            bail!("--machine: samples are not simulated: trace the program (slimline trace --regions -o DIR)");
        }
        let place = ReportPlace::open(options.report.as_deref(), false)?;
        return sampled(options, place, asked, input, beside);
    }
    if let Some(kept) = &options.profile {
        if asked.is_any() {
            bail!(
                "{}: has no accesses: name a session (slimline record --regions), a trace (slimline trace --regions -o DIR), or a command",
                kept.display()
            );
        }
        let now = beside(report(kept)?);
        shown(options, ReportPlace::open(options.report.as_deref(), false)?, &now)?;
        return Ok(0);
    }
    if asked.is_any() || options.live {
        if options.output.is_some() {
            bail!("-o keeps times alone: for accesses write a trace (slimline trace --regions -o DIR)");
        }
        let place = ReportPlace::open(options.report.as_deref(), true)?;
        let accesses = AccessInput::run(&options.command, &options.collecting);
        return counted(options, place, asked, &accesses, beside);
    }
    check_unasked(&options.collecting, "times alone")?;
    timed(options, beside)
}

/// Times the regions of a program, which runs as it is.
fn timed(options: &cli::Regions, beside: impl FnOnce(RegionsReport) -> RegionsReport) -> anyhow::Result<u8> {
    if let Some(why) = why_without_regions(&options.command)? {
        bail!("{}: link it dynamically, with glibc", why.replace("the agent", "what times regions"));
    }
    if let Some(output) = &options.output {
        check_output(output)?;
    }
    let place = ReportPlace::open(options.report.as_deref(), true)?;
    let functions = match options.functions.as_slice() {
        [] => None,
        names => Some(region_profiles::functions(&options.command, names)?),
    };
    let outcome = profile_regions(&options.command, functions.as_ref())?;
    let Taken { profiles, mut missing } = Taken::of(&outcome.profiles, outcome.end, &options.command);
    let is_function = |profile: &Profile| profile.nodes.iter().any(|node| node.region.kind == Kind::Function);
    if functions.is_some() && !profiles.iter().any(is_function) {
        missing.push("functions: none of them was entered that was compiled with -finstrument-functions".to_owned());
    }
    if outcome.runs_on {
        missing.push("processes that the command started and that run on".to_owned());
    }
    if profiles.is_empty() {
        missing.iter().for_each(|what| say(format_args!("slimline: missing: {what}")));
        // Where something is missing that may be why.
        if missing.is_empty() {
            say(format_args!("slimline: {NO_REGION}"));
        }
        outcome.exit(true);
    }
    let kept = options.output.as_deref().map_or(Ok(()), |output| region_profiles::keep(output, &profiles));
    let written = kept.and_then(|()| shown(options, place, &beside(RegionsReport::new(profiles, missing))));
    match written {
        Err(error) if !is_broken_pipe(&error) => {
            say(format_args!("slimline: {error:#}"));
            outcome.exit(true)
        }
        _ => outcome.exit(false),
    }
}

/// What another program wrote stays.
fn check_output(output: &Path) -> anyhow::Result<()> {
    match fs::read(output) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let directory = output.parent().filter(|directory| !directory.as_os_str().is_empty());
            if let Some(directory) = directory.filter(|directory| !directory.is_dir()) {
                bail!("{}: no such directory", directory.display());
            }
            Ok(())
        }
        Err(error) => Err(error).with_context(|| output.display().to_string()),
        Ok(bytes) if read_all(&bytes).is_ok() => Ok(()),
        Ok(_) => bail!("{}: is there already, and no profile of regions: name another file", output.display()),
    }
}

/// Counts accesses by region, thread and data.
fn counted(
    options: &cli::Regions,
    place: ReportPlace,
    asked: Asked,
    input: &AccessInput,
    beside: impl FnOnce(RegionsReport) -> RegionsReport,
) -> anyhow::Result<u8> {
    let name = options.machine.as_deref().unwrap_or("host");
    let machine = machine(name)?;
    let mut simulation = simulation(&machine, name, &Options::default())?;
    let mut extents = Extents::handing_on(&mut simulation);
    let Accesses { trace, origins, pids, ended, .. } = accesses::read_by_regions(input, &asked.ranges(), &mut extents)?;
    let (extents, bytes) = extents.finish_with_bytes();
    let outcome = simulation.finish();
    let report = || {
        let Taken { profiles, mut missing } = match ended.outcome() {
            Some(run) => Taken::of(&run.profiles, run.end, &options.command),
            None => recorded(input.trace())?,
        };
        missing.extend(trace.missing);
        missing.extend(asked.doubts(&profiles));
        // A program that has run would have to run again for a name that is misspelt.
        let (asked, complaints) = match ended.outcome() {
            Some(_) => asked.known(&origins),
            None => (asked, Vec::new()),
        };
        missing.extend(complaints.iter().cloned());
        let chosen = asked.chosen(&origins, "was accessed")?;
        let (accesses, found) = region_accesses(&outcome, &origins, (&extents, &bytes), &chosen);
        let of_pid = |pid: u32| profiles.iter().find(|profile| profile.process == pid).cloned();
        let by_process: Vec<(u32, Profile)> =
            pids.iter().filter_map(|&(process, pid)| Some((process, of_pid(pid)?))).collect();
        let rows = asked.rows(&origins, &found, &by_process);
        let traced = TracedRegions {
            machine: outcome.machine(),
            cycles: outcome.total().cycles,
            accesses: &accesses,
            chosen: &rows,
            pids: &pids,
            command: &trace.command,
        };
        shown(options, place, &beside(RegionsReport::traced(profiles, missing, &traced)))?;
        if complaints.is_empty() { Ok(()) } else { bail!(complaints.join("; ")) }
    };
    ended.status(report())
}

/// Tells samples by region, thread and data.
fn sampled(
    options: &cli::Regions,
    place: ReportPlace,
    asked: Asked,
    directory: &Path,
    beside: impl FnOnce(RegionsReport) -> RegionsReport,
) -> anyhow::Result<u8> {
    let session = Session::open(directory)?;
    let info = session.info();
    let profiles = info.processes.iter().map(|process| pipeline::regions_of(&session, process));
    let profiles: Vec<Option<Profile>> = profiles.collect::<anyhow::Result<_>>()?;
    if profiles.iter().all(Option::is_none) {
        bail!("{}: {NO_REGION_IN_SESSION}", directory.display());
    }
    let mut missing = Vec::new();
    if !info.complete {
        missing.push("the recording was cut off: what came after is not known".to_owned());
    }
    let found = pipeline::regions(&session, asked.timed_ranges(&profiles))?;
    let known: Vec<(u32, Profile)> =
        (0..).zip(&profiles).filter_map(|(process, profile)| Some((process, profile.clone()?))).collect();
    missing.extend(asked.doubts(profiles.iter().flatten()));
    let asked = asked.or_hottest(&found);
    let chosen = asked.chosen(found.origins(), "samples or bursts met")?;
    let processes = info.processes.iter().zip(profiles);
    let processes: Vec<SampledProcess> =
        processes.map(|(process, profile)| SampledProcess { pid: process.pid, profile }).collect();
    let sums = found.find(&chosen);
    let rows = asked.rows(found.origins(), &sums.chosen, &known);
    let run = SampledRegionsRun {
        found: &sums,
        unit: info.collector.weight,
        chosen: &rows,
        processes: &processes,
        command: &info.command,
    };
    shown(options, place, &beside(RegionsReport::sampled(missing, &run)))?;
    Ok(0)
}

/// Regions of a trace; none where it was written without.
fn recorded(trace: &Path) -> anyhow::Result<Taken> {
    let kept = trace.join(REGIONS_FILE);
    if kept.is_file() {
        return Ok(Taken { profiles: region_profiles::read(&kept)?, missing: Vec::new() });
    }
    let missing = "regions: the trace was written without (slimline trace --regions), or none was met".to_owned();
    Ok(Taken { profiles: Vec::new(), missing: vec![missing] })
}

fn shown(options: &cli::Regions, place: ReportPlace, report: &RegionsReport) -> anyhow::Result<()> {
    let text = |out: &mut String| text::regions(out, report, options.rows);
    match options.format {
        ReportFormat::Json => show(Format::Json, place, || report.json(), text),
        ReportFormat::Text => show(Format::Text, place, || report.json(), text),
        ReportFormat::Csv => {
            report.missing.iter().for_each(|what| say(format_args!("slimline: missing: {what}")));
            place.print(&report.csv())
        }
        ReportFormat::Html => {
            let mut page = String::new();
            html::regions(&mut page, report)?;
            place.print(&page)
        }
    }
}
