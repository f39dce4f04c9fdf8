//! A small profile, and accesses of the same run, for the tests of what shows regions.

use std::collections::BTreeMap;

use slimline_analyze::pace::TriggerCosts;
use slimline_analyze::region_accesses::{Accessor, Chosen, ChosenData, RegionAccesses};
use slimline_analyze::sampled_regions::SampledRegions;
use slimline_attribute::tables::{self, Group, GroupKind, Site, Tables};
use slimline_regions::{
    Code, Cost, Ended, Kind, Mapping, Node, PathId, Place, Profile, Region, Row, Run, Thread, Times,
};
use slimline_simulate::simulation::Counts;
use slimline_trace::access::{
    Access, AccessBatch, AccessKind, Evidence, GroupId, ObjectId, SiteId, Taken, ThreadId, WindowId,
};
use slimline_trace::address::Avma;
use slimline_trace::session::WeightUnit;

use super::{ChosenRow, RegionsReport, SampledProcess, SampledRegionsRun, TracedRegions};
use crate::text::a_run::machine;

/// In nanoseconds.
pub(crate) const MS: u64 = 1_000_000;

/// Two threads at a loop in a parallel region that the compiler has made two of, and a region that is marked.
pub(crate) fn profile() -> Profile {
    let node = |parent, kind, address| Node { parent: PathId(parent), region: Region::at(kind, address) };
    let marked = Region { kind: Kind::User, place: Place::Name("read input".into()) };
    // Enter, body, exit barrier, exit.
    let row = |path, thread, count, inclusive: [u64; 4], exclusive: [u64; 4], end_address| {
        let [inclusive_ns, exclusive_ns] = [inclusive, exclusive].map(|times| times.map(|time| time * MS));
        let times = Times { count, inclusive_ns, exclusive_ns, end_address, ..Times::default() };
        Row { path: PathId(path), thread, times }
    };
    let code = |address, line, function: &str| Code {
        address,
        line,
        function: function.to_owned(),
        file: "/src/sum.c".to_owned(),
    };
    Profile {
        process: 42,
        run: Some(Run { ended: Ended::Signal(11), command: vec!["./sum".into(), "9".into()] }),
        duration_ns: 100 * MS,
        cost: Some(Cost { inside_ps: 0, outside_ps: 0 }),
        mappings: vec![Mapping { start: 0, end: 1000, offset: 0, is_code: true, path: "/opt/sum".into() }],
        code: vec![
            code(16, 10, "main"),
            code(32, 12, "main._omp_fn.0"),
            code(36, 15, "main._omp_fn.0"),
            code(48, 12, "main._omp_fn.0"),
        ],
        threads: vec![Thread { number: 0, kernel_id: 42 }, Thread { number: 1, kernel_id: 43 }],
        nodes: vec![
            Node { parent: PathId(0), region: marked },
            node(0, Kind::Parallel, 16),
            node(2, Kind::Loop, 32),
            node(2, Kind::Loop, 48),
        ],
        rows: vec![
            row(1, 0, 1, [0, 20, 0, 0], [0, 20, 0, 0], 0),
            row(2, 0, 1, [1, 58, 0, 1], [1, 0, 0, 1], 16),
            row(2, 1, 1, [2, 58, 0, 0], [2, 0, 0, 0], 16),
            row(3, 0, 1, [0, 30, 8, 0], [0, 30, 8, 0], 36),
            row(3, 1, 1, [0, 38, 0, 0], [0, 38, 0, 0], 36),
            row(4, 0, 1, [0, 20, 0, 0], [0, 20, 0, 0], 36),
            row(4, 1, 1, [0, 20, 0, 0], [0, 20, 0, 0], 36),
        ],
        ..Profile::default()
    }
}

/// The same where accesses were traced: both threads load `a` in the loop, the second misses more; `b` is not accessed; the first thread
/// stores other data outside of regions.
pub(crate) fn traced(profile: Profile) -> RegionsReport {
    let machine = machine();
    let accesses = |loads, stores, misses: [u64; 2], served_from_afar, cycles| {
        let mut counts = Counts { loads, stores, served_from_afar, cycles, ..Counts::default() };
        counts.misses.resize_with(2, Default::default);
        counts.misses.iter_mut().zip(misses).for_each(|(of, misses)| of.loads = misses);
        RegionAccesses { counts, bytes: (loads + stores) * 8 }
    };
    let by = |tid, path, chosen| Accessor { process: 0, tid, path, chosen };
    let accesses = BTreeMap::from([
        (by(42, 0, None), accesses(0, 300, [40, 38], 0, 4_400)),
        (by(42, 3, Some(0)), accesses(4_800, 0, [600, 100], 0, 26_000)),
        (by(43, 3, Some(0)), accesses(4_800, 0, [2_400, 1_200], 900, 402_000)),
        (by(43, 3, None), accesses(40, 20, [2, 0], 0, 140)),
    ]);
    let found =
        ChosenData { reach: 0x7f00..0x9f00, titles: vec!["variable a".to_owned()], blocks: 1, bytes: Some(0x2000) };
    let chosen = [ChosenRow::named("a", &found), ChosenRow::named("b", &ChosenData::default())];
    let command = profile.run.as_ref().map(|run| run.command.clone()).unwrap_or_default();
    let pids = [(0, profile.process)];
    let cycles = accesses.values().map(|of| of.counts.cycles).sum();
    let traced = TracedRegions {
        machine: &machine,
        cycles,
        accesses: &accesses,
        chosen: &chosen,
        pids: &pids,
        command: &command,
    };
    RegionsReport::traced(vec![profile], Vec::new(), &traced)
}

/// The same where it was sampled: both threads walk over `a` in the loop, and the first was once outside of regions. There is a path that
/// nobody knows.
pub(crate) fn sampled(profile: Profile) -> RegionsReport {
    let mut tables = Tables::new();
    tables.sites.push(Site::unknown());
    tables.groups.push(Group { name: "a".to_owned(), kind: GroupKind::Static, ..Group::unattributed() });
    tables.threads.extend([42, 43].map(|tid| tables::Thread { pid: 42, tid, name: String::new() }));
    let mut regions = SampledRegions::new(TriggerCosts::default(), Vec::new());
    for thread in 0..2 {
        let mut batch = AccessBatch::with_capacity(ThreadId(thread), 0);
        for number in 0..60 {
            let window = WindowId(100 * thread + number);
            let row = |turn: u64, weight, evidence| Access {
                window,
                site: SiteId(1),
                address: Avma((1 << 32) + 8_000_000 * u64::from(number) + 8 * turn),
                bytes: 8,
                kind: AccessKind::LOAD,
                group: GroupId(1),
                object: ObjectId(1),
                offset: 8 * turn,
                weight,
                evidence,
            };
            batch.begin_window(window, u64::from(number) * 4 * MS, 300);
            let region = match (thread, number) {
                (0, 59) => 0,
                (1, 59) => 9,
                _ => 3,
            };
            let sampled = Taken { cpu_ns: u64::from(number + 1) * 4 * MS, region, ..Taken::UNKNOWN };
            batch.push_sample(row(0, 4 * MS, Evidence::Cost), sampled);
            (0..100).for_each(|turn| batch.push(row(turn, 0, Evidence::Execution)));
        }
        regions.update(0, &batch);
    }
    let found = regions.finish(&tables).find(&[Chosen::Named("a".to_owned())]);
    let chosen = [ChosenRow::named("a", &found.chosen[0])];
    let command = profile.run.as_ref().map(|run| run.command.clone()).unwrap_or_default();
    let processes = [SampledProcess { pid: profile.process, profile: Some(profile) }];
    let run = SampledRegionsRun {
        found: &found,
        unit: WeightUnit::TimeNs,
        chosen: &chosen,
        processes: &processes,
        command: &command,
    };
    RegionsReport::sampled(Vec::new(), &run)
}
