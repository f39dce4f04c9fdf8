use slimline_trace::access::{Access as Row, AccessKind as Kind, Evidence as Of, ObjectId, WindowId};
use slimline_trace::address::Avma;

use super::*;
use crate::sharing::Way;

const UPDATE: Kind = Kind::LOAD_STORE;

/// A burst: when, of which thread, and how often it does what at which address.
type Burst = (u64, u32, Kind, u64, u32);

fn batches(bursts: &[Burst]) -> Vec<AccessBatch> {
    let of_burst = |(number, &(time_ns, thread, kind, address, times)): (usize, &Burst)| {
        let window = WindowId(number as u32);
        let row = |weight, evidence| Row {
            window,
            site: SiteId(0),
            address: Avma(address),
            bytes: 8,
            kind,
            group: GroupId(0),
            object: ObjectId(1),
            offset: address % 4096,
            weight,
            evidence,
        };
        let mut batch = AccessBatch::with_capacity(ThreadId(thread), 8);
        batch.begin_window(window, time_ns, 300);
        batch.push(row(10, Of::Cost));
        (0..times).for_each(|_| batch.push(row(0, Of::Execution)));
        batch
    };
    bursts.iter().enumerate().map(of_burst).collect()
}

fn found(bursts: &[Burst]) -> SampledFindings {
    let mut lines = SampledLines { has_bursts: true, ..SampledLines::new(64) };
    let mut finder = LineFinder::new(64);
    for &(_, thread, kind, address, _) in bursts {
        finder.take(&Vec::from_iter(accessed(address, 8, kind, thread)));
    }
    lines.finders.push(finder);
    let mut pass = lines.finish();
    batches(bursts).iter().for_each(|batch| pass.update(0, batch));
    let mut tables = Tables::new();
    let thread = |tid| slimline_attribute::tables::Thread { pid: 7, tid, name: String::new() };
    tables.threads = (0..3).map(|n| thread(100 + n)).collect();
    pass.finish(&tables)
}

/// Two threads by turns, each at its own address.
fn by_turns(turns: u64, kinds: [Kind; 2], addresses: [u64; 2]) -> Vec<Burst> {
    let turn = |n: u64| {
        let thread = (n % 2) as usize;
        (1000 + n, thread as u32, kinds[thread], addresses[thread], 5)
    };
    (0..turns).map(turn).collect()
}

#[test]
fn counters_in_one_line_are_shared_falsely() {
    let mut bursts = by_turns(20, [UPDATE; 2], [0x1000, 0x1008]);
    // Elsewhere, alone.
    bursts.extend((0..20).map(|n| (2000 + n, 0, Kind::LOAD, 0x8000, 5)));
    let told = found(&bursts);
    assert_eq!(told.found.shared, []);
    let ([row], [sampled]) = (&told.found.falsely[..], &told.of_falsely[..]) else { panic!("{told:?}") };
    // The first look at each tells of nothing; from then on each is one time.
    assert_eq!(
        (row.lines, row.apart_bytes, row.uses()),
        (1, 8, Uses { loads: 100, stores: 100, true_misses: 0, false_misses: 18 })
    );
    // 200 of 300 accesses, half of the samples.
    assert!((sampled.accesses.value - 2.0 / 3.0).abs() < 1e-9, "{sampled:?}");
    assert_eq!((sampled.weight.value, sampled.weight.samples), (0.5, 20));
    assert!(sampled.weight.low < 0.36 && sampled.weight.high > 0.64 && !sampled.is_rare());
    let evidence = Evidence { is_bursts: true, looks: 40, accesses: 300, threads: 2, timeless: 0 };
    assert_eq!((told.evidence, told.undecided.lines), (evidence, 0));
}

#[test]
fn one_variable_of_two_threads_is_shared_truly() {
    let told = found(&by_turns(20, [UPDATE; 2], [0x1000; 2]));
    let [row] = &told.found.shared[..] else { panic!("{told:?}") };
    assert_eq!((row.way, row.writers, row.is_uniform, row.uses().true_misses), (Way::Updated, 2, true, 18));
    assert!(told.found.falsely.is_empty());
    let told = found(&by_turns(20, [Kind::STORE, Kind::LOAD], [0x1000; 2]));
    assert_eq!((told.found.shared[0].way, told.found.shared[0].uses().true_misses), (Way::Told, 9));
}

#[test]
fn who_sets_up_and_reads_at_the_end_shares_nothing() {
    let mut bursts = vec![(1, 0, Kind::STORE, 0x1000, 5)];
    bursts.extend((0..200).map(|n| (10 + n, 1, UPDATE, 0x1000, 5)));
    bursts.push((1000, 0, Kind::LOAD, 0x1000, 5));
    let told = found(&bursts);
    assert_eq!((told.found.shared.len(), told.found.falsely.len(), told.found.in_turn_lines), (0, 0, 1), "{told:?}");
    // Of 202 looks 2 are at the other thread: if both were at it alike 4 changes were expected, and fewer are seen four times in
    // ten.
    assert_eq!(told.undecided.lines, 1);
    let change = 2.0 * 2.0 / 202.0 * 200.0 / 202.0;
    let needed = (203..).find(|&looks| few_changes(looks, change) <= MISSED).unwrap();
    assert_eq!(told.undecided.needed_looks, needed);
    assert_eq!(needed, 395);
    // Ten looks at each, one thread after the other one.
    let after = |n: u64| (n, u32::from(n > 4 && n < 15), UPDATE, 0x1000, 5);
    let told = found(&(1..=20).map(after).collect::<Vec<_>>());
    assert_eq!((told.found.shared.len(), told.undecided.lines, told.found.in_turn_lines), (0, 0, 1), "{told:?}");
}

#[test]
fn too_few_looks_are_said() {
    // There, back and there again: two times, of which nobody knows whether there were more.
    let told = found(&by_turns(3, [UPDATE; 2], [0x1000, 0x1008]));
    assert_eq!((told.found.falsely.len(), told.undecided.lines), (0, 1));
    assert_eq!(told.undecided.members, [(0, 0)]);
    // Of three looks one is at the other: 4 of 9 are changes. Fewer than 4 among 15 are seen with 4.6 %.
    assert_eq!(told.undecided.needed_looks, 16);
    // One after the other is no reason to ask.
    assert_eq!(found(&by_turns(2, [UPDATE; 2], [0x1000, 0x1008])).undecided, Undecided::default());
}

#[test]
fn how_likely_few_changes_are() {
    // Of three places none to three may be changes: all of them are fewer than four.
    assert!((few_changes(4, 0.5) - 1.0).abs() < 1e-12);
    // Of 13: (1 + 13 + 78 + 286) / 8192.
    assert!((few_changes(14, 0.5) - 378.0 / 8192.0).abs() < 1e-12);
    assert!(few_changes(14, 0.5) <= MISSED && few_changes(13, 0.5) > MISSED);
}

#[test]
fn looks_without_a_time_tell_no_order() {
    let bursts: Vec<Burst> = by_turns(20, [UPDATE; 2], [0x1000; 2])
        .into_iter()
        .map(|(_, thread, kind, at, n)| (0, thread, kind, at, n))
        .collect();
    let told = found(&bursts);
    assert_eq!((told.found.shared.len(), told.evidence.timeless, told.evidence.looks), (0, 20, 20));
}

#[test]
fn elements_of_an_array_have_one_name() {
    assert_eq!(of_all_elements("edge[2].at[1]"), "edge[].at[]");
    assert_eq!(of_all_elements("a.b"), "a.b");
}

#[test]
fn thousands_of_threads_are_looked_through_in_time() {
    // Each hands on to the next one, and comes again once.
    let users: Vec<User> = (0..2).flat_map(|_| (0..3000).map(|n| User { thread: ThreadId(n), stores: true })).collect();
    // Of two each is seen twice, in turn: four looks, half of which each; 14 are enough.
    assert_eq!(more_looks(&users).map(|needed| (needed.looks, needed.of)), Some((14, 4)));
}
