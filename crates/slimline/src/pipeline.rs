//! From a session directory to a report.

use std::cmp::Reverse;
use std::path::Path;
use std::sync::mpsc;
use std::thread;

use slimline_analyze::advise::{Floors, advise};
use slimline_analyze::analysis::Pass;
use slimline_analyze::findings::DataProfile;
use slimline_analyze::pace::TriggerCosts;
use slimline_analyze::quality::SampleQuality;
use slimline_attribute::module::store::FileStore;
use slimline_attribute::resolver::{ProcessId, ProcessTables, Resolver};
use slimline_report::assemble;
use slimline_report::view::{ProcessReport, Report};
use slimline_trace::session::{Collector, Machine, ProcessSummary, Session, SessionInfo, Trigger};

use crate::disk::Disk;

/// Parts that are decoded before they are asked for; each takes some 10 MB.
const READ_AHEAD: usize = 2;

/// Reads, attributes and analyzes the session in `directory`.
pub(crate) fn report(directory: &Path) -> anyhow::Result<Report> {
    let session = Session::open(directory)?;
    report_of(&session, session.info())
}

/// The same for each process that has samples alone, costliest first.
pub(crate) fn reports_per_process(directory: &Path) -> anyhow::Result<Vec<ProcessReport>> {
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

/// Of the processes that `info` names, which is the session's or a part of it.
fn report_of(session: &Session, info: &SessionInfo) -> anyhow::Result<Report> {
    let processes = info
        .processes
        .iter()
        .map(|summary| Ok((summary, session.load(summary)?)))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let store = FileStore::new(&Disk);
    let mut resolver = Resolver::new(&store);
    let mut quality = SampleQuality::default();
    let unit = info.collector.weight;
    let trigger_costs = trigger_costs(&info.collector);
    let profile = DataProfile { trigger_costs, unit, ..DataProfile::default() };
    let mut pass = Pass::new(&profile);
    let ids: Vec<ProcessId> =
        processes.iter().map(|(summary, process)| resolver.add_process(ProcessTables::new(summary, process))).collect();
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
        for (index, part) in parts {
            let part = part?;
            quality.update(&part.samples, &processes[index].1.stacks, unit);
            resolver.resolve(ids[index], (&part).into(), |batch| pass.push(batch));
        }
        anyhow::Ok(())
    })?;
    let resolution = resolver.finish();
    let findings = pass.finish(&resolution.tables);
    let advice = advise(&findings, &resolution.tables, &floors(&info.machine));
    Ok(assemble::report(info, &quality, &resolution, &findings, &advice))
}

/// What was measured before the run is a perf event's interrupt and signal. The kernel's tick comes anyway; what its signal
/// costs is not known.
fn trigger_costs(collector: &Collector) -> TriggerCosts {
    let perf_ns = collector.trigger_cost_ns.unwrap_or(0);
    let weighing_ns = if collector.trigger == Trigger::PerfSigtrap { perf_ns } else { 0 };
    TriggerCosts { weighing_ns, between_ns: perf_ns }
}

/// What a core of the recorded machine keeps to itself decides below which size data is left alone.
fn floors(machine: &Machine) -> Floors {
    let own = machine.caches.iter().filter(|cache| cache.level == 2 && cache.kind != "Instruction");
    match own.map(|cache| cache.bytes).max() {
        Some(cached_bytes) if cached_bytes > 0 => Floors { cached_bytes, ..Floors::default() },
        _ => Floors::default(),
    }
}
