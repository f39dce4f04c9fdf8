//! How the memory system served samples, as far as hardware tells.

use std::fmt::{self, Write};

use slimline_trace::escape::plain;
use slimline_trace::served::MemoryLevel;

use super::number::{count, percent};
use super::table::{Column, Rows, shorten};
use super::{Limits, fold, heading};
use crate::view::{Group, Report, Served, ServedBy};

/// Share from which a level, or something else that samples were, is told.
const WORTH_TELLING: f64 = 0.005;

/// How the data of the first `shown` groups was served.
pub(super) fn groups(out: &mut impl Write, report: &Report, shown: &[Group], limits: Limits) -> fmt::Result {
    let Some(whole) = &report.session.served else { return Ok(()) };
    heading(out, "MEMORY")?;
    let mut rows = Rows::on_page(
        &[
            Column::Number("latency"),
            Column::Shortened("data", 20),
            Column::Number("samples"),
            Column::Number("cycles"),
            Column::Number("median"),
            Column::Number("95 %"),
            Column::Text("served by"),
        ],
        limits,
    );
    let of_groups = shown.iter().filter_map(|group| Some((group.name.as_str(), group.served.as_ref()?)));
    let all: Vec<(&str, &Served)> = of_groups.chain([("all", whole)]).collect();
    for (name, served) in &all {
        let latency = served.latency.as_ref();
        let cycles = |cycles: Option<u64>| cycles.map(count).unwrap_or_default();
        rows.push(vec![
            latency.map(|latency| percent(latency.share)).unwrap_or_default(),
            plain(name),
            count(served.samples),
            mean_cycles(served),
            cycles(latency.and_then(|latency| latency.median_cycles)),
            cycles(latency.and_then(|latency| latency.p95_cycles)),
            levels(served, limits.columns(3)),
        ]);
    }
    rows.write(out, 2)?;
    for (name, served) in &all {
        let others = others(served);
        if !others.is_empty() {
            fold(out, &format!("{}: {others}", shorten(&plain(name), limits.columns(40))), 2, 4)?;
        }
    }
    let mut least: Vec<u64> = report.session.events.iter().filter_map(|event| event.least_latency_cycles).collect();
    least.sort_unstable();
    match least.first() {
        // A load event and a store event: the loads'.
        Some(cycles) => fold(out, &format!("of loads only those that took {cycles} cycles or more were sampled"), 2, 4),
        None => Ok(()),
    }
}

/// Mean latency; empty where it was not measured.
pub(crate) fn mean_cycles(served: &Served) -> String {
    served.latency.map(|latency| count(latency.mean_cycles.round() as u64)).unwrap_or_default()
}

/// `L1 62 %, DRAM 20 %`: the levels that served most, at most so many.
pub(crate) fn levels(served: &Served, most: usize) -> String {
    let mut levels: Vec<&ServedBy> = served.levels.iter().filter(|by| by.share >= WORTH_TELLING).collect();
    levels.sort_by(|a, b| b.share.total_cmp(&a.share));
    levels.truncate(most);
    let told = levels.iter().map(|by| format!("{} {:.0} %", label(by.level), by.share * 100.0));
    told.collect::<Vec<_>>().join(", ")
}

/// What served it, and what else was true of the accesses.
pub(crate) fn levels_and_others(served: &Served) -> String {
    let told = [levels(served, usize::MAX), others(served)];
    let told: Vec<&str> = told.iter().map(String::as_str).filter(|told| !told.is_empty()).collect();
    told.join("; ")
}

/// `HitM 0.6 %, TLB miss 31.0 %`: what else was true of the accesses; empty where next to nothing was.
pub(crate) fn others(served: &Served) -> String {
    let others = [
        ("HitM", served.modified_share),
        ("TLB miss", served.tlb_miss_share),
        ("remote", served.remote_share),
        ("locked", served.locked_share),
    ];
    let told = others.iter().filter_map(|(name, share)| {
        let share = share.filter(|&share| share >= WORTH_TELLING)?;
        Some(format!("{name} {}", percent(share)))
    });
    told.collect::<Vec<_>>().join(", ")
}

/// As engineers call it.
fn label(level: MemoryLevel) -> &'static str {
    match level {
        MemoryLevel::L1 => "L1",
        MemoryLevel::LineFillBuffer => "LFB",
        MemoryLevel::L2 => "L2",
        MemoryLevel::L3 => "L3",
        MemoryLevel::L4 => "L4",
        MemoryLevel::RemoteCache => "remote cache",
        MemoryLevel::LocalDram => "DRAM",
        MemoryLevel::RemoteDram => "remote DRAM",
        MemoryLevel::Pmem => "PMEM",
        MemoryLevel::Cxl => "CXL",
        MemoryLevel::Io => "I/O",
        MemoryLevel::Uncached => "uncached",
    }
}
