//! However the stream is cut, the findings are the same.

use proptest::prelude::*;
use slimline_analyze::analysis::{Analysis, Order, run, shard_of};
use slimline_analyze::findings::DataProfile;
use slimline_trace::access::AccessBatch;
use slimline_trace::served::{MemoryLevel, Served};

use crate::synthetic::{Program, load, store};

/// Some loops over two arrays and nodes in `threads` threads, by pseudo-random numbers from `seed`.
fn program(seed: u64, threads: u32, windows: u32) -> Program {
    let mut state = seed | 1;
    let mut random = move |limit: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % limit
    };
    let mut program = Program::new();
    let element = program.doubles("cell", &["a", "b", "c", "d", "e"]);
    let arrays = [program.array("typed", Some(element), 40 << 16), program.array("untyped", None, 48 << 16)];
    let nodes = program.nodes("nodes", None, 64, 24);
    let loops = [program.a_loop("f", 1, 2), program.a_loop("g", 3, 4), program.a_loop("h", 5, 6)];
    let sites: Vec<_> = (0..9).map(|site| program.site(loops[site % 3])).collect();
    for _ in 0..windows {
        let thread = random(u64::from(threads)) as u32;
        let weight = 1 + random(2_000_000);
        let mut site = || sites[random(9) as usize];
        let (first, second) = (site(), site());
        match random(4) {
            0 if random(2) == 0 => {
                let step = load(first, arrays[random(2) as usize], random(1000) * 8, 0);
                let (latency_cycles, level) = (Some(random(900) as u32), Some(MemoryLevel::ALL[random(12) as usize]));
                program.sample_served(thread, step, weight, Served { latency_cycles, level, ..Served::UNKNOWN });
            }
            0 => program.sample(thread, load(first, arrays[random(2) as usize], random(1000) * 8, 0), weight),
            1 => {
                let order = random(64) as u32;
                let steps = [load(first, nodes, 0, 0), store(second, nodes, 8 * random(3), 0)];
                program.node_window(thread, &steps, |turn| (order + turn * 7) % 64, random(20) as u32, weight);
            }
            kind => {
                let (array, size) = if kind == 2 { (arrays[0], 40) } else { (arrays[1], 48) };
                let steps = [load(first, array, 8 * random(5), size), store(second, array, 8 * random(5), size)];
                program.window(thread, &steps, random(1000) as i64, random(40) as i64, weight);
            }
        }
    }
    program
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn split_and_merge_is_the_whole(seed: u64, shards in 1usize..12, workers in 1usize..4, threads in 1u32..5) {
        let program = program(seed, threads, 60);
        let mut cut: Vec<Vec<AccessBatch>> = vec![Vec::new(); shards];
        for (number, batch) in program.batches.iter().enumerate() {
            cut[shard_of(DataProfile::ORDER, number, batch.thread, shards)].push(batch.clone());
        }
        prop_assert_eq!(run(&DataProfile::default(), cut, workers, &program.tables), program.findings());
    }

    #[test]
    fn shards_may_come_in_any_order(seed: u64, rotation in 0usize..40) {
        let program = program(seed, 3, 60);
        let mut batches = program.batches.clone();
        let count = batches.len().max(1);
        batches.rotate_left(rotation % count);
        let shards: Vec<Vec<AccessBatch>> = batches.into_iter().map(|batch| vec![batch]).collect();
        prop_assert_eq!(run(&DataProfile::default(), shards, 2, &program.tables), program.findings());
    }
}

#[test]
fn a_thousand_threads_are_as_right_as_one() {
    assert_eq!(DataProfile::ORDER, Order::AnyChunk);
    let program = program(42, 1000, 4000);
    let mut threads: Vec<Vec<AccessBatch>> = vec![Vec::new(); 1000];
    for batch in &program.batches {
        threads[batch.thread.expect("a batch with rows").index()].push(batch.clone());
    }
    assert_eq!(run(&DataProfile::default(), threads, 2, &program.tables), program.findings());
}

/// The check that the tests above can fail: another stream gives other findings.
#[test]
fn a_lost_batch_is_noticed() {
    let program = program(42, 3, 60);
    let mut less = program.clone();
    less.batches.pop();
    assert_ne!(less.findings(), program.findings());
}
