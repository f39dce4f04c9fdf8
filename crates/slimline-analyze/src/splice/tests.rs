//! Programs whose counts are known, windows started by a clock, and what splicing makes of them.

use super::*;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

/// A program: accesses by stream with the time each takes, loops, and branches.
#[derive(Clone, Debug)]
enum Code {
    Access(u32, u64),
    Repeat(u32, Vec<Code>),
    /// One of them, at random.
    Either(Vec<Vec<Code>>),
}

use Code::{Access, Either, Repeat};

/// Each stream of the range once.
fn straight(streams: Range<u32>, ns: u64) -> Vec<Code> {
    streams.map(|stream| Access(stream, ns)).collect()
}

/// One stream again and again.
fn again(times: u32, stream: u32, ns: u64) -> Code {
    Repeat(times, vec![Access(stream, ns)])
}

fn execute(code: &[Code], random: &mut Random, trace: &mut Vec<(u32, u64)>) {
    for part in code {
        match part {
            Access(stream, ns) => trace.push((*stream, *ns)),
            Repeat(times, body) => (0..*times).for_each(|_| execute(body, random, trace)),
            Either(ways) => execute(&ways[random.below(ways.len() as u64) as usize], random, trace),
        }
    }
}

/// What a run showed, and what it executed.
struct Run {
    sequences: Sequences,
    exact: Vec<f64>,
}

/// Runs `code` over and over; each microsecond or so a window of `length` accesses, one an instruction, begins behind the one
/// that then executes.
fn run(code: &[Code], length: usize) -> Run {
    const PERIOD_NS: u64 = 1000;
    let mut random = Random::of(7);
    let mut trace = Vec::new();
    while trace.len() < 1_000_000 {
        execute(code, &mut random, &mut trace);
    }
    let streams = trace.iter().map(|&(stream, _)| stream).max().unwrap() as usize + 1;
    let mut exact = vec![0.0; streams];
    trace.iter().for_each(|&(stream, _)| exact[stream as usize] += 1.0);
    let mut sequences = Sequences::default();
    let (mut now, mut next) = (0, PERIOD_NS);
    for (at, &(_, ns)) in trace.iter().enumerate() {
        now += ns;
        if now >= next {
            next = now + PERIOD_NS + random.below(PERIOD_NS / 8);
            let first = sequences.accesses.len();
            sequences.accesses.extend(trace[at + 1..].iter().take(length).map(|&(stream, _)| stream));
            let end = sequences.accesses.len();
            if end > first {
                let (id, instructions) = (sequences.windows.len() as u32, (end - first) as u32);
                sequences.windows.push(Sequence { id, first, end, blamed: 0, weight: PERIOD_NS, instructions });
            }
        }
    }
    Run { sequences, exact }
}

impl Run {
    /// Counts in the windows as they are.
    fn seen(&self) -> Vec<f64> {
        let mut counts = vec![0.0; self.exact.len()];
        self.sequences.accesses.iter().for_each(|&stream| counts[stream as usize] += 1.0);
        counts
    }

    fn spliced(&self) -> Vec<f64> {
        let weights = WindowWeight { time: 1.0, instructions: 1.0 };
        executions(&self.sequences, &vec![weights; self.sequences.windows.len()], self.exact.len(), MOST_RUNS)
    }

    /// How far the shares of the fields are off at most, where `field` says which field a stream accesses.
    fn off(&self, counts: &[f64], field: impl Fn(usize) -> usize) -> f64 {
        let shares = |counts: &[f64]| {
            let mut shares = vec![0.0; counts.len()];
            let all: f64 = counts.iter().sum();
            counts.iter().enumerate().for_each(|(stream, count)| shares[field(stream)] += count / all);
            shares
        };
        shares(counts).iter().zip(shares(&self.exact)).map(|(found, exact)| (found - exact).abs()).fold(0.0, f64::max)
    }
}

/// How far off are the shares of the streams below and above `middle`, as seen and as spliced?
fn check(code: &[Code], length: usize, middle: usize, seen: Range<f64>, spliced_at_most: f64) {
    let run = run(code, length);
    let half = |stream: usize| usize::from(stream >= middle);
    let (before, after) = (run.off(&run.seen(), half), run.off(&run.spliced(), half));
    assert!(seen.contains(&before), "seen {before}, spliced {after}");
    assert!(after <= spliced_at_most, "seen {before}, spliced {after}");
}

#[test]
fn a_body_longer_than_a_window_is_seen_whole() {
    let code = [straight(0..300, 1), straight(300..600, 10)].concat();
    for (length, seen) in [(50, 0.3..0.4), (100, 0.2..0.3), (150, 0.1..0.3), (250, 0.05..0.2)] {
        check(&code, length, 300, seen, 0.01);
    }
}

/// bzip2's case: the sign of the error turns with the length of the window, as measured (docs/agreement.md).
#[test]
fn the_length_of_the_window_does_not_matter() {
    let code = [straight(0..300, 1), straight(300..350, 25), straight(350..500, 1)].concat();
    for length in [60, 180, 300] {
        check(&code, length, 300, 0.0..0.7, 0.01);
    }
}

/// An interpreter: the same accesses before each of several others, told apart by what was before them.
#[test]
fn accesses_are_known_by_those_before_them() {
    let mut code = Vec::new();
    for operation in 0..6 {
        code.extend(straight(0..10, 1));
        code.push(Access(20 + operation, if operation == 0 { 50 } else { 1 }));
        code.extend(straight(40 + 10 * operation..50 + 10 * operation, 1));
    }
    let run = run(&code, 50);
    let (seen, spliced) = (run.off(&run.seen(), |stream| stream), run.off(&run.spliced(), |stream| stream));
    assert!(seen > 0.002 && spliced < 0.001, "seen {seen}, spliced {spliced}");
}

/// Iterations that look the same: only weights tell how many there are, and not to the last point.
#[test]
fn counted_loops_keep_their_count() {
    let code = [again(150, 0, 1), again(50, 1, 10)];
    check(&code, 50, 1, 0.1..0.2, 0.05);
    check(&code, 100, 1, 0.0..0.1, 0.05);
    let code = [vec![again(100, 0, 5)], straight(1..62, 1)].concat();
    check(&code, 50, 1, 0.05..0.3, 0.05);
}

#[test]
fn branches_keep_their_odds() {
    let code = [
        Either(vec![straight(0..40, 1), straight(40..80, 3)]),
        Either(vec![straight(80..120, 8), straight(120..200, 1)]),
    ];
    check(&code, 50, 120, 0.05..0.3, 0.02);
}

/// Which of two loops that run long runs faster, no sequence tells: that is what paces are for.
#[test]
fn phases_keep_their_times() {
    let code = [Repeat(20_000, straight(0..30, 4)), Repeat(20_000, straight(30..60, 1))];
    let run = run(&code, 100);
    let spliced = run.spliced();
    let slow = spliced[..30].iter().sum::<f64>() / spliced.iter().sum::<f64>();
    assert!((slow - 0.8).abs() < 0.01, "{slow}");
    // With their paces, they have their counts.
    let pace = |window: &Sequence| if run.sequences.accesses[window.first] < 30 { 1.0 } else { 4.0 };
    let weights: Vec<WindowWeight> =
        run.sequences.windows.iter().map(|window| WindowWeight { time: 1.0, instructions: pace(window) }).collect();
    let paced = executions(&run.sequences, &weights, 60, MOST_RUNS);
    assert!(run.off(&paced, |stream| usize::from(stream >= 30)) < 0.01);
}

/// What ends windows early, nothing is known to follow: what was seen stands for all.
#[test]
fn ends_that_nothing_follows_stay_ends() {
    let window = |id: u32, first, end| Sequence { id, first, end, blamed: 0, weight: 1, instructions: 40 };
    let sequences =
        Sequences { windows: vec![window(0, 0, 2), window(1, 2, 4), window(2, 4, 5)], accesses: vec![0, 1, 0, 1, 2] };
    let weights = [400.0, 400.0, 800.0].map(|instructions| WindowWeight { time: 1.0, instructions });
    let found = executions(&sequences, &weights, 4, MOST_RUNS);
    let near = |found: f64, exact: f64| (found - exact).abs() < 0.05 * exact;
    assert!(near(found[0], 20.0) && near(found[1], 20.0) && near(found[2], 20.0) && found[3] == 0.0, "{found:?}");
    assert_eq!(executions(&Sequences::default(), &[], 2, MOST_RUNS), [0.0, 0.0]);
}

/// Branches and loops of up to a few windows' length, most of it fast and some of it slow.
fn programs() -> impl Strategy<Value = Vec<Code>> {
    let ns = prop_oneof![4 => Just(1_u64), 1 => 2_u64..12];
    let block = (4_u32..60, ns).prop_map(|(length, ns)| Repeat(length, vec![Access(0, ns)]));
    let part = prop_oneof![
        3 => block.clone().prop_map(|block| vec![block]),
        1 => prop::collection::vec(prop::collection::vec(block.clone(), 1..3), 2..4).prop_map(|ways| vec![Either(ways)]),
        1 => (2_u32..5, prop::collection::vec(block, 1..3)).prop_map(|(times, body)| vec![Repeat(times, body)]),
    ];
    prop::collection::vec(part, 2..8).prop_map(|parts| {
        let mut streams = 0;
        name(parts.concat(), &mut streams)
    })
}

/// Gives each access of straight code a stream of its own.
fn name(code: Vec<Code>, streams: &mut u32) -> Vec<Code> {
    let named = |part| match part {
        Repeat(length, body) => match body[..] {
            [Access(_, ns)] => {
                *streams += length;
                straight(*streams - length..*streams, ns)
            }
            _ => vec![Repeat(length, name(body, streams))],
        },
        Either(ways) => vec![Either(ways.into_iter().map(|way| name(way, streams)).collect())],
        access @ Access(..) => vec![access],
    };
    code.into_iter().flat_map(named).collect()
}

proptest! {
    // The estimate draws lots, and so does the simulation: with other programs each run, one in hundreds misses any bound.
    #![proptest_config(ProptestConfig { cases: 12, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::default() })]

    /// Fields are blocks of twenty streams. Loops whose turns look alike are not counted well, hence the bound.
    #[test]
    fn fields_have_their_exact_shares(code in programs(), length in 60_usize..200) {
        let run = run(&code, length);
        let off = run.off(&run.spliced(), |stream| stream / 20);
        prop_assert!(off <= 0.02, "seen {}, spliced {off}", run.off(&run.seen(), |stream| stream / 20));
    }
}
