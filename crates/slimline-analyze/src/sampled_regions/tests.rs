use slimline_attribute::tables::{Group, GroupKind, Site, Thread};
use slimline_trace::access::{Access, AccessKind, Evidence, ObjectId, Taken, WindowId};
use slimline_trace::address::Avma;

use super::*;

/// Number of executions in a burst, of three instructions each.
const TURNS: u64 = 100;
const MS: u64 = 1_000_000;

/// Two variables, `a` and `b`, which instructions 1 and 2 access, and two threads.
fn tables() -> Tables {
    let mut tables = Tables::new();
    for name in ["a", "b"] {
        tables.sites.push(Site::unknown());
        tables.groups.push(Group { name: name.to_owned(), kind: GroupKind::Static, ..Group::unattributed() });
    }
    tables.threads.extend([40, 41].map(|tid| Thread { pid: 7, tid, name: String::new() }));
    tables
}

/// What a sample of a thread at a time finds: its region, and of `a` and `b` from which byte on it loads one word after the other.
struct At {
    thread: u32,
    time_ms: u64,
    region: u32,
    a: u64,
    b: Option<u64>,
}

fn push(batch: &mut AccessBatch, number: u32, at: &At) {
    let window = WindowId(number);
    let row = |which: u32, address: u64, weight, evidence| Access {
        window,
        site: SiteId(which),
        address: Avma(address),
        bytes: 8,
        kind: AccessKind::LOAD,
        group: GroupId(which),
        object: ObjectId(which),
        offset: address,
        weight,
        evidence,
    };
    batch.begin_window(window, at.time_ms * MS, 3 * TURNS as u32);
    let sampled = Taken { cpu_ns: at.time_ms * MS, region: at.region, ..Taken::UNKNOWN };
    batch.push_sample(row(1, at.a, 4 * MS, Evidence::Cost), sampled);
    for turn in 0..TURNS {
        batch.push(row(1, at.a + 8 * turn, 0, Evidence::Execution));
        if let Some(b) = at.b {
            batch.push(row(2, b + 8 * turn, 0, Evidence::Execution));
        }
    }
}

/// Of one thread after the other.
fn batches(samples: &[At]) -> Vec<AccessBatch> {
    let mut batches: Vec<AccessBatch> = Vec::new();
    for (number, at) in (0..).zip(samples) {
        if batches.last().is_none_or(|batch| batch.thread != Some(ThreadId(at.thread))) {
            batches.push(AccessBatch::with_capacity(ThreadId(at.thread), 0));
        }
        batches.iter_mut().last().into_iter().for_each(|batch| push(batch, number, at));
    }
    batches
}

fn told(samples: &[At], ranges: Vec<TimedRange>, chosen: &[Chosen]) -> SampledRegionFindings {
    let mut regions = SampledRegions::new(TriggerCosts::default(), ranges);
    batches(samples).iter().for_each(|batch| regions.update(3, batch));
    regions.finish(&tables()).find(chosen)
}

fn by(tid: u32, path: u32, chosen: Option<usize>) -> Accessor {
    Accessor { process: 3, tid, path, chosen }
}

#[test]
fn samples_and_what_bursts_see_are_of_the_region_that_the_thread_is_in() {
    // A thread in region 5 three times, another one outside once; `b` in region 5 alone.
    let at = |thread, time_ms, region, b| At { thread, time_ms, region, a: 4096, b };
    let samples = [at(0, 1, 5, Some(8192)), at(0, 2, 5, None), at(0, 3, 5, None), at(1, 4, 0, None)];
    let named = |name: &str| Chosen::Named(name.to_owned());
    let found = told(&samples, Vec::new(), &[named("a"), named("b")]);
    let samples: Vec<(Accessor, u64)> = found.accesses.iter().map(|(who, of)| (*who, of.samples())).collect();
    assert_eq!(samples, [(by(40, 5, Some(0)), 3), (by(40, 5, Some(1)), 0), (by(41, 0, Some(0)), 1)]);
    let (in_region, b) = (&found.accesses[&by(40, 5, Some(0))], &found.accesses[&by(40, 5, Some(1))]);
    assert_eq!(found.weight_share(in_region).value, 0.75);
    // 300 of 500 accesses, and 100.
    assert_eq!((found.access_share(in_region).value, found.access_share(b).value), (0.6, 0.2));
    assert_eq!((in_region.seen_loads, b.seen_loads, found.seen()), (300, 100, (500, 4)));
    // Nobody walks: how often it was executed is not known.
    assert_eq!(in_region.estimates(), None);
    assert_eq!(found.chosen[0].reach, 4096..4896);
    // Not chosen: other data.
    let other = told(&[at(0, 1, 5, Some(8192))], Vec::new(), &[named("b")]);
    assert_eq!(other.accesses.keys().copied().collect::<Vec<_>>(), [by(40, 5, None), by(40, 5, Some(0))]);
}

#[test]
fn what_accesses_no_memory_is_apart() {
    let mut batches = batches(&[At { thread: 0, time_ms: 1, region: 5, a: 4096, b: None }]);
    batches[0].kind[0] = AccessKind::NONE;
    let mut regions = SampledRegions::new(TriggerCosts::default(), Vec::new());
    batches.iter().for_each(|batch| regions.update(3, batch));
    let attributed = regions.finish(&tables());
    let found = attributed.find(&[Chosen::Named("a".to_owned())]);
    let samples: Vec<(Accessor, u64)> = found.accesses.iter().map(|(who, of)| (*who, of.samples())).collect();
    assert_eq!(samples, [(by(40, 5, Some(0)), 0), (by(40, 5, Some(1)), 1)]);
    assert!(attributed.hottest(9).is_empty());
}

#[test]
fn memory_is_told_while_it_is_watched_and_in_its_process() {
    let at = |time_ms| At { thread: 0, time_ms, region: 1, a: 4096, b: None };
    let range = |source, during_ms: Range<u64>| TimedRange {
        range: MemoryRange { source, start: 4096 + 96, bytes: 80 },
        during_ns: during_ms.start * MS..during_ms.end * MS,
    };
    let watched = |process| RangeSource::Watched { process, number: 0 };
    let ranges = vec![
        range(watched(3), 2..3),
        range(watched(8), 0..9),
        TimedRange { during_ns: 0..u64::MAX, ..range(RangeSource::Asked(0), 0..0) },
    ];
    let all = [Chosen::Memory(0), Chosen::Memory(1), Chosen::Memory(2)];
    let found = told(&[at(1), at(2), at(3)], ranges, &all);
    let loads = |chosen| found.accesses.get(&by(40, 1, chosen)).map_or(0, |of| of.seen_loads);
    // Words 12 to 21 of a hundred.
    assert_eq!([Some(0), Some(1), Some(2), None].map(loads), [10, 0, 30, 270]);
}

#[test]
fn a_walk_tells_how_many_loads_there_were() {
    // A million turns of eight bytes in each 4 ms; every fourth sample of the other region.
    let at = |number: u64| At {
        thread: 0,
        time_ms: 4 * (number + 1),
        region: if number.is_multiple_of(4) { 2 } else { 1 },
        a: (1 << 32) + number * 8_000_000,
        b: None,
    };
    let samples: Vec<At> = (0..200).map(at).collect();
    let found = told(&samples, Vec::new(), &[Chosen::Named("a".to_owned())]);
    let estimate = |path| found.accesses[&by(40, path, Some(0))].estimates().expect("a pace")[0].clone();
    for (path, truth) in [(1, 150e6), (2, 50e6)] {
        let (low, high) = estimate(path).interval();
        assert!(low < truth && truth < high, "{path}: {low} to {high}");
        assert!((estimate(path).value() / truth - 1.0).abs() < 0.05, "{path}: {}", estimate(path).value());
    }
    let mut both = found.accesses[&by(40, 1, Some(0))].clone();
    both.add(&found.accesses[&by(40, 2, Some(0))]);
    let [loads, stores, bytes] = both.estimates().expect("a pace").map(|of| of.value());
    assert!((loads / 200e6 - 1.0).abs() < 0.05 && stores == 0.0 && (bytes / loads - 8.0).abs() < 1e-9, "{loads}");
}

#[test]
fn what_is_of_several_groups_is_divided_among_them() {
    let mut tables = tables();
    tables.groups.push(Group { name: "not followed".to_owned(), kind: GroupKind::Heap, ..Group::unattributed() });
    let seen = vec![(SiteId(1), GroupId(1), 3), (SiteId(1), GroupId(2), 1)];
    tables.inferred = slimline_attribute::tables::Inferred::default().with(GroupId(3), seen);
    let mut regions = SampledRegions::new(TriggerCosts::default(), Vec::new());
    let mut batches = batches(&[At { thread: 0, time_ms: 1, region: 1, a: 4096, b: None }]);
    batches[0].group.fill(GroupId(3));
    regions.update(3, &batches[0]);
    let found = regions.finish(&tables).find(&[Chosen::Named("a".to_owned()), Chosen::Named("b".to_owned())]);
    let of = |chosen| &found.accesses[&by(40, 1, Some(chosen))];
    assert_eq!((of(0).seen_loads, of(1).seen_loads), (75, 25));
    assert_eq!((found.access_share(of(0)).value, found.access_share(of(1)).value), (0.75, 0.25));
    assert_eq!(found.weight_share(of(0)).value + found.weight_share(of(1)).value, 1.0);
}
