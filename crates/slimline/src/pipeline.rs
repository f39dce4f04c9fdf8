//! From a session directory to a report.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::mpsc;
use std::thread;

use anyhow::{Context as _, ensure};
use slimline_analyze::advise::{Floors, advise};
use slimline_analyze::analysis::{Analysis, Pass};
use slimline_analyze::cost_paths::CostPaths;
use slimline_analyze::findings::DataProfile;
use slimline_analyze::pace::TriggerCosts;
use slimline_analyze::quality::SampleQuality;
use slimline_analyze::sampled_regions::{AttributedRegions, SampledRegions, TimedRange};
use slimline_analyze::sampled_sharing::{SampledFindings, SampledLines};
use slimline_attribute::module::store::FileStore;
use slimline_attribute::resolver::{ProcessId, ProcessTables, Resolution, Resolver};
use slimline_regions::Profile;
use slimline_report::assemble;
use slimline_report::export::CostTable;
use slimline_report::regions::SessionRegions;
use slimline_report::simulation::AccessTrace;
use slimline_report::view::{ProcessReport, Report};
use slimline_trace::session::{Collector, Machine, Process, ProcessSummary, Session, SessionInfo, Trigger};
use slimline_trace::stream::recording::is_recording;
use slimline_trace::tables::Mappings;

use crate::disk::{Disk, check_whole};
use crate::region_profiles;
use crate::ties::with_ties;

/// What the samples of a session weigh together at most: 36 years of CPU time, and the events of as many. A sample's weight
/// is added up in several places, but in none of them more than once or twice.
const MOST_WEIGHT: u64 = 1 << 60;

/// A process with what its samples and accesses are read from.
type Loaded<'a> = (&'a ProcessSummary, Process);

/// Parts that are decoded before they are asked for; each takes some 10 MB.
const READ_AHEAD: usize = 2;

/// Reads, attributes and analyzes the session in `directory`.
pub(crate) fn report(directory: &Path) -> anyhow::Result<Report> {
    check_no_trace(directory)?;
    let session = Session::open(directory)?;
    report_of(&session, session.info())
}

/// A full trace is no session of samples.
fn check_no_trace(directory: &Path) -> anyhow::Result<()> {
    let shown = directory.display();
    ensure!(
        !is_recording(directory),
        "{shown} is a full trace, not a session of samples: slimline trace --replay {shown}, or for a page of all that is found in it \
         slimline report --format html {shown}"
    );
    Ok(())
}

/// The same for each process that has samples alone, costliest first.
pub(crate) fn reports_per_process(directory: &Path) -> anyhow::Result<Vec<ProcessReport>> {
    check_no_trace(directory)?;
    let session = Session::open(directory)?;
    let mut processes: Vec<&ProcessSummary> =
        session.processes().iter().filter(|process| process.samples > 0 || !session.info().complete).collect();
    processes.sort_by_key(|process| Reverse(process.weight));
    let report_of_one = |process: &ProcessSummary| {
        let alone = SessionInfo { processes: vec![process.clone()], ..session.info().clone() };
        let report = report_of(&session, &alone)?;
        let ProcessSummary { pid, directory, executable, .. } = process.clone();
        anyhow::Ok(ProcessReport { pid, directory, executable, report })
    };
    processes.into_iter().map(report_of_one).collect()
}

/// What threads share in a session, in lines of so many bytes. It is read twice.
pub(crate) fn sharing(session: &Session, line_bytes: u32) -> anyhow::Result<(AccessTrace, SampledFindings)> {
    let info = session.info();
    let processes = load(session, info)?;
    let mut lines = SampledLines::new(line_bytes);
    processes.iter().for_each(|(_, process)| lines.add_process(&process.mappings));
    for (index, (_, process)) in processes.iter().enumerate() {
        for part in process.parts() {
            lines.update(index, (&part?).into());
        }
    }
    let mut pass = lines.finish();
    let store = FileStore::new(&Disk);
    let mut resolver = Resolver::new(&store);
    let ids = add(&mut resolver, &processes);
    let mut weight = 0;
    for (index, (_, process)) in processes.iter().enumerate() {
        for part in process.parts() {
            let part = part?;
            weight = weight_with(session, weight, &part.samples.weight)?;
            resolver.resolve(ids[index], (&part).into(), |batch| pass.update(index, batch));
        }
    }
    let resolution = resolver.finish();
    check_whole()?;
    let found = pass.finish(&resolution.tables);
    let mut missing = Vec::new();
    if !info.complete {
        missing.push("the recording was cut off: what came after is not known".to_owned());
    }
    if found.evidence.timeless > 0 {
        missing.push(format!("{} samples have no time, so nobody knows their order", found.evidence.timeless));
    }
    let trace = AccessTrace {
        file: session.directory().display().to_string(),
        format: "session",
        command: info.command.clone(),
        threads: Some(found.evidence.threads),
        missing,
        ..AccessTrace::default()
    };
    Ok((trace, found))
}

/// The regions of a process, if it wrote them.
pub(crate) fn regions_of(session: &Session, process: &ProcessSummary) -> anyhow::Result<Option<Profile>> {
    let kept = session.regions_file(process);
    let profiles = kept.is_file().then(|| region_profiles::read(&kept)).transpose()?;
    Ok(profiles.and_then(|profiles| profiles.into_iter().next()))
}

/// What samples of a session tell by regions, data still to be chosen.
pub(crate) fn regions(session: &Session, ranges: Vec<TimedRange>) -> anyhow::Result<AttributedRegions> {
    let info = session.info();
    let processes = load(session, info)?;
    let store = FileStore::new(&Disk);
    let mut resolver = Resolver::new(&store);
    let ids = add(&mut resolver, &processes);
    let mut regions = SampledRegions::new(trigger_costs(&info.collector), ranges);
    let mut weight = 0;
    for (index, (_, process)) in processes.iter().enumerate() {
        for part in process.parts() {
            let part = part?;
            weight = weight_with(session, weight, &part.samples.weight)?;
            resolver.resolve(ids[index], (&part).into(), |batch| regions.update(index as u32, batch));
        }
    }
    let resolution = resolver.finish();
    check_whole()?;
    Ok(regions.finish(&resolution.tables))
}

/// The costs of the session in `directory` by path of code and data, and with `timed` each sample by itself, too.
pub(crate) fn costs(directory: &Path, timed: bool) -> anyhow::Result<CostTable> {
    check_no_trace(directory)?;
    let session = Session::open(directory)?;
    let info = session.info();
    let profile = DataProfile { by_instruction: true, ..profile_of(info) };
    let Analyzed { quality, resolution, regions, found: (findings, costs), .. } =
        analyzed(&session, info, &(profile, CostPaths { timed }), true)?;
    let report = assemble::report(info, &quality, &resolution, &findings, &[], &regions);
    Ok(assemble::session_costs(info, &report, &resolution.tables, &findings, &costs))
}

/// Of the processes that `info` names, which is the session's or a part of it.
fn report_of(session: &Session, info: &SessionInfo) -> anyhow::Result<Report> {
    let Analyzed { quality, resolution, modules, regions, found } = analyzed(session, info, &profile_of(info), false)?;
    let advice = advise(&found, &resolution.tables, &floors(&info.machine));
    let advice = with_ties(advice, &resolution.tables, &modules)?;
    Ok(assemble::report(info, &quality, &resolution, &found, &advice, &regions))
}

fn profile_of(info: &SessionInfo) -> DataProfile {
    let trigger_costs = trigger_costs(&info.collector);
    DataProfile { trigger_costs, unit: info.collector.weight, ..DataProfile::default() }
}

/// What an analysis of a session found.
struct Analyzed<F> {
    quality: SampleQuality,
    resolution: Resolution,
    /// Paths of all files of code that were mapped.
    modules: BTreeSet<String>,
    regions: SessionRegions,
    found: F,
}

/// Reads, attributes and analyzes the processes that `info` names; `callers` says whether it is resolved who called where samples
/// were taken.
fn analyzed<A: Analysis>(
    session: &Session,
    info: &SessionInfo,
    analysis: &A,
    callers: bool,
) -> anyhow::Result<Analyzed<A::Findings>> {
    let processes = load(session, info)?;
    let store = FileStore::new(&Disk);
    let resolver = Resolver::new(&store);
    let mut resolver = if callers { resolver.with_call_paths() } else { resolver };
    let mut quality = SampleQuality::default();
    let unit = info.collector.weight;
    let mut pass = Pass::new(analysis);
    let ids = add(&mut resolver, &processes);
    thread::scope(|scope| {
        // Decoding is half of the work: it goes on while the part before is resolved.
        let (sender, parts) = mpsc::sync_channel(READ_AHEAD);
        let processes = &processes;
        scope.spawn(move || {
            for (index, (_, process)) in processes.iter().enumerate() {
                for part in process.parts() {
                    if sender.send((index, part)).is_err() {
                        return; // a damaged part has ended the reading
                    }
                }
            }
        });
        let mut weight = 0;
        for (index, part) in parts {
            let part = part?;
            weight = weight_with(session, weight, &part.samples.weight)?;
            quality.update(&part.samples, &processes[index].1.stacks, unit);
            resolver.resolve(ids[index], (&part).into(), |batch| pass.push(batch));
        }
        anyhow::Ok(())
    })?;
    let resolution = resolver.finish();
    check_whole()?;
    let found = pass.finish(&resolution.tables);
    let regions =
        processes.iter().map(|(summary, process)| anyhow::Ok((process.threads.len(), regions_of(session, summary)?)));
    let regions = SessionRegions::of(regions.collect::<anyhow::Result<Vec<_>>>()?);
    let modules = processes.iter().flat_map(|(_, process)| code_of(&process.mappings)).map(str::to_owned).collect();
    Ok(Analyzed { quality, resolution, modules, regions, found })
}

fn code_of(mappings: &Mappings) -> impl Iterator<Item = &str> {
    let rows = mappings.path.iter().zip(&mappings.permissions);
    rows.filter(|(path, permissions)| path.starts_with('/') && permissions.contains('x')).map(|(path, _)| path.as_str())
}

/// The processes that `info` names.
fn load<'a>(session: &Session, info: &'a SessionInfo) -> anyhow::Result<Vec<Loaded<'a>>> {
    info.processes.iter().map(|summary| Ok((summary, session.load(summary)?))).collect()
}

fn add<'a>(resolver: &mut Resolver<'a>, processes: &'a [Loaded<'a>]) -> Vec<ProcessId> {
    processes.iter().map(|(summary, process)| resolver.add_process(ProcessTables::new(summary, process))).collect()
}

/// The sum, of a session's samples.
fn weight_with(session: &Session, sum: u64, weights: &[u64]) -> anyhow::Result<u64> {
    add_weights(sum, weights)
        .with_context(|| format!("{}: damaged: its samples weigh too much", session.directory().display()))
}

/// The sum, where all that is counted of samples can be added up without overflow.
fn add_weights(sum: u64, weights: &[u64]) -> Option<u64> {
    weights.iter().try_fold(sum, |sum, &weight| sum.checked_add(weight).filter(|&sum| sum <= MOST_WEIGHT))
}

/// What was measured before the run is a perf event's interrupt and signal. The kernel's tick comes anyway; what its signal
/// costs is not known.
fn trigger_costs(collector: &Collector) -> TriggerCosts {
    let perf_ns = collector.trigger_cost_ns.unwrap_or(0);
    let weighing_ns = if collector.trigger == Trigger::PerfSigtrap { perf_ns } else { 0 };
    TriggerCosts { weighing_ns, between_ns: perf_ns }
}

/// What a core of the recorded machine keeps to itself decides below which size data is left alone, and what its last level holds up to
/// which size it is not sure that lines come from memory. Of a machine that does not tell usual sizes are taken.
fn floors(machine: &Machine) -> Floors {
    let of_data = || machine.caches.iter().filter(|cache| cache.kind != "Instruction" && cache.bytes > 0);
    let own = of_data().filter(|cache| cache.level == 2).map(|cache| cache.bytes).max();
    let last = of_data().max_by_key(|cache| (cache.level, cache.bytes)).map(|cache| cache.bytes);
    let usual = Floors::default();
    Floors {
        cached_bytes: own.unwrap_or(usual.cached_bytes),
        last_level_bytes: last.unwrap_or(usual.last_level_bytes),
        ..usual
    }
}

#[cfg(test)]
mod tests {
    use slimline_trace::session::Cache;

    use super::*;

    #[test]
    fn floors_are_those_of_the_recorded_machine() {
        let cache = |level, kind: &str, bytes| Cache {
            level,
            kind: kind.to_owned(),
            bytes,
            line_bytes: 64,
            ways: 8,
            shared_by: "0".to_owned(),
        };
        let told = |caches: &[Cache]| {
            let floors = floors(&Machine { caches: caches.to_vec(), ..Machine::default() });
            (floors.cached_bytes, floors.last_level_bytes)
        };
        let [first, second, third] =
            [(1, 32), (2, 2048), (3, 65536)].map(|(level, kib)| cache(level, "Unified", kib << 10));
        let code = cache(4, "Instruction", 1 << 30);
        assert_eq!(told(&[first.clone(), second.clone(), third, code]), (2 << 20, 64 << 20));
        assert_eq!(told(&[first, second]), (2 << 20, 2 << 20));
        let usual = Floors::default();
        assert_eq!(told(&[]), (usual.cached_bytes, usual.last_level_bytes));
        assert_eq!(told(&[cache(3, "Unified", 0)]), (usual.cached_bytes, usual.last_level_bytes));
    }

    #[test]
    fn weights_that_no_run_has_are_refused() {
        assert_eq!(add_weights(5, &[1, 0, 2]), Some(8));
        assert_eq!(add_weights(0, &[u64::MAX, u64::MAX]), None);
        assert_eq!(add_weights(MOST_WEIGHT, &[0]), Some(MOST_WEIGHT));
        assert_eq!(add_weights(MOST_WEIGHT, &[1]), None);
    }
}
