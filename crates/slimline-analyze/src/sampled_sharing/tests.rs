use slimline_trace::access::{Access as Row, AccessKind as Kind, Evidence as Of, ObjectId, WindowId};
use slimline_trace::address::Avma;
use slimline_trace::served::Served;
use slimline_trace::tables::{Access as AccessRow, Accesses, Blocks, Sample, Samples, ThreadRow, Within};
use slimline_trace::wire::{BurstEnd, Quality};

use super::*;
use crate::sharing::Way;

const UPDATE: Kind = Kind::LOAD_STORE;

/// A burst: when, of which thread, and how often it does what at which address. Without any time it is a sample alone.
type Burst = (u64, u32, Kind, u64, u32);

/// Threads of a process.
const THREADS: u32 = 3;

/// As a session has them.
fn tables(bursts: &[Burst]) -> (Samples, Accesses) {
    let (mut samples, mut accesses) = (Samples::default(), Accesses::default());
    for (window, &(time_ns, thread, kind, address, times)) in (0..).zip(bursts) {
        let address = Avma(address);
        samples.push(Sample {
            time_ns,
            thread: ThreadRow::new(thread as usize),
            cpu_ns: 0,
            weight: 10,
            sampled_ip: Avma(0x40),
            ip: Avma(0x40),
            address,
            stack_pointer: Avma(0),
            access_bytes: 8,
            kind,
            quality: Quality::Exact,
            block: None,
            stack: None,
            accesses: times,
            burst_instructions: times,
            burst_end: BurstEnd::Limit,
            served: Served::UNKNOWN,
            within: Within::default(),
        });
        (0..times)
            .for_each(|_| accesses.push(AccessRow { window, ip: Avma(0x40), address, bytes: 8, kind, block: None }));
    }
    (samples, accesses)
}

/// The same as it is when all is attributed, of threads from this one on.
fn batches(bursts: &[Burst], first_thread: u32) -> Vec<AccessBatch> {
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
        let mut batch = AccessBatch::with_capacity(ThreadId(first_thread + thread), 8);
        batch.begin_window(window, time_ns, 300);
        batch.push(row(10, Of::Cost));
        (0..times).for_each(|_| batch.push(row(0, Of::Execution)));
        batch
    };
    bursts.iter().enumerate().map(of_burst).collect()
}

/// What is found in both passes over processes, each of which comes in two parts.
fn found_in(processes: &[&[Burst]]) -> SampledFindings {
    let mut lines = SampledLines::new(64);
    for (process, bursts) in processes.iter().enumerate() {
        let (early, late) = bursts.split_at(bursts.len() / 2);
        for (samples, accesses) in [tables(early), tables(late)] {
            let blocks = &Blocks::default();
            lines.update(process, PartTables { samples: &samples, accesses: &accesses, blocks });
        }
    }
    let mut pass = lines.finish();
    let mut tables = Tables::new();
    for (process, bursts) in (0..).zip(processes) {
        batches(bursts, process * THREADS).iter().for_each(|batch| pass.update(process as usize, batch));
        let thread =
            |n| slimline_attribute::tables::Thread { pid: 7 + process, tid: 100 * process + n, name: String::new() };
        tables.threads.extend((0..THREADS).map(thread));
    }
    pass.finish(&tables)
}

fn found(bursts: &[Burst]) -> SampledFindings {
    found_in(&[bursts])
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
    let evidence = Evidence { is_bursts: true, looks: 40, accesses: 300, threads: 2, timeless: 0, overlap: Some(1.0) };
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
    // Of 202 looks 2 are at the other thread. Where both are at it alike too few changes are seen among 480 looks with 5.01 %,
    // among 481 with 4.97 %.
    assert_eq!((told.undecided.lines, told.undecided.needed_looks), (1, 481));
    // Ten looks at each, one thread after the other one.
    let after = |n: u64| (n, u32::from(n > 4 && n < 15), UPDATE, 0x1000, 5);
    let told = found(&(1..=20).map(after).collect::<Vec<_>>());
    assert_eq!((told.found.shared.len(), told.undecided.lines, told.found.in_turn_lines), (0, 0, 1), "{told:?}");
}

#[test]
fn threads_that_ran_one_after_the_other_are_said() {
    let bursts: Vec<Burst> = (0..20).map(|n| (1000 + n, u32::from(n >= 10), UPDATE, 0x1000, 5)).collect();
    let told = found(&bursts);
    assert_eq!((told.found.in_turn_lines, told.undecided.lines, told.evidence.overlap), (1, 0, Some(0.0)));
}

#[test]
fn too_few_looks_are_said() {
    // There, back and there again: two times, of which nobody knows whether there were more.
    let told = found(&by_turns(3, [UPDATE; 2], [0x1000, 0x1008]));
    assert_eq!((told.found.falsely.len(), told.undecided.lines), (0, 1));
    assert_eq!(told.undecided.members, [(0, 0)]);
    // Of three looks one is at the other: among 17 fewer than four changes are seen with 4.3 %, among 16 with 5.9 %.
    assert_eq!(told.undecided.needed_looks, 17);
    // Where only one stores, and two of three looks are at it, it takes 26.
    let told = found(&by_turns(3, [Kind::STORE, Kind::LOAD], [0x1000; 2]));
    assert_eq!((told.undecided.lines, told.undecided.needed_looks), (1, 26));
    // One after the other is no reason to ask.
    assert_eq!(found(&by_turns(2, [UPDATE; 2], [0x1000, 0x1008])).undecided, Undecided::default());
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
fn single_samples_are_looks_where_there_are_no_bursts() {
    let bare: Vec<Burst> = by_turns(20, [UPDATE; 2], [0x1000, 0x1008])
        .into_iter()
        .map(|(time_ns, thread, kind, at, _)| (time_ns, thread, kind, at, 0))
        .collect();
    let told = found(&bare);
    // The second one from 1001 to behind 1019, the first one to behind 1018.
    let overlap = Some(10.0 * (18.0 / 19.0) / 10.0);
    let evidence = Evidence { is_bursts: false, looks: 20, accesses: 40, threads: 2, timeless: 0, overlap };
    let [row] = &told.found.falsely[..] else { panic!("{told:?}") };
    let uses = Uses { loads: 20, stores: 20, true_misses: 0, false_misses: 18 };
    assert_eq!((row.uses(), told.evidence), (uses, evidence));
    assert_eq!(told.of_falsely[0].weight.samples, 20);
    // Beside a burst they are none, but cost what they cost.
    let mut bursts = bare.clone();
    bursts.push((3000, 2, Kind::LOAD, 0x8000, 5));
    let told = found(&bursts);
    let evidence = Evidence { is_bursts: true, looks: 1, accesses: 5, threads: 1, timeless: 0, overlap: None };
    assert_eq!((told.found.falsely.len(), told.evidence), (0, evidence));
}

#[test]
fn lines_that_threads_only_load_are_counted() {
    let mut bursts = by_turns(20, [Kind::LOAD; 2], [0x1000, 0x1008]);
    bursts.extend([(50, 0, Kind::STORE, 0x2000, 1), (51, 0, Kind::LOAD, 0x3000, 1)]);
    // Nothing is known of what is nowhere.
    bursts.extend([(52, 0, Kind::STORE, 0, 1), (53, 1, Kind::STORE, 0, 1), (54, 1, Kind::NONE, 0x3000, 1)]);
    let told = found(&bursts);
    assert_eq!((told.only_loaded, told.found, told.undecided), (1, SharingFindings::default(), Undecided::default()));
}

#[test]
fn processes_have_memory_of_their_own() {
    // Threads of two processes at the same address; each of these lines is of one thread.
    let of = |thread: u32, address| -> Vec<Burst> {
        (0..20).map(|n| (10 * n + u64::from(thread), thread, UPDATE, address, 5)).collect()
    };
    let (one, other) = (of(0, 0x1000), of(1, 0x1000));
    let told = found_in(&[&one, &other]);
    assert_eq!((&told.found, told.only_loaded, told.evidence.threads), (&SharingFindings::default(), 0, 2));
    // In the second one two threads share what the first one has for itself.
    let told = found_in(&[&one, &by_turns(20, [UPDATE; 2], [0x1000; 2])]);
    let [row] = &told.found.shared[..] else { panic!("{told:?}") };
    let threads: BTreeSet<u32> = row.threads.iter().map(|(thread, _)| *thread).collect();
    let thread = |thread: u32| told.origins.threads()[thread as usize];
    assert_eq!((row.lines, row.uses().true_misses, threads), (1, 18, BTreeSet::from([THREADS, THREADS + 1])));
    assert_eq!((thread(0).process, thread(THREADS).process, thread(THREADS).tid), (0, 1, 100));
}
