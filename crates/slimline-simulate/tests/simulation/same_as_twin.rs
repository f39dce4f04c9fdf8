//! Random accesses to random machines: the simulator counts what its twin counts.

use std::sync::Arc;

use proptest::prelude::*;
use slimline_simulate::access::{Access, AccessKind, Work};
use slimline_simulate::machine::{
    Cache, Counting, Holds, Inclusion, Machine, Memory, Prefetch, Replacement, Sharing, Tlb,
};
use slimline_simulate::simulation::{LargePages, MemoryPolicy, Options};

use crate::outcome;
use crate::twin::Twin;

fn replacement() -> impl Strategy<Value = Replacement> {
    prop_oneof![
        2 => Just(Replacement::Lru),
        1 => Just(Replacement::TreePlru),
        1 => (0..4_u64).prop_map(|seed| Replacement::Random { seed }),
        1 => Just(Replacement::Rrip),
    ]
}

fn prefetch() -> impl Strategy<Value = Prefetch> {
    prop_oneof![6 => Just(Prefetch::None), 1 => Just(Prefetch::NextLine), 1 => Just(Prefetch::Stride)]
}

fn inclusion() -> impl Strategy<Value = Inclusion> {
    prop_oneof![Just(Inclusion::Inclusive), Just(Inclusion::Exclusive), Just(Inclusion::Neither)]
}

prop_compose! {
    /// Of a level; the names tell them apart.
    fn cache(level: u8, holds: Holds, cores: u32, line_bytes: u32, of: u32)(
        sets in 1..6_u64,
        ways in prop_oneof![4 => 1..5_u32, 1 => 5..22_u32],
        replacement in replacement(),
        inclusion in inclusion(),
        prefetch in prefetch(),
        cycles in 0..5_u32,
    ) -> Cache {
        let ways = if replacement == Replacement::TreePlru { ways.next_power_of_two() } else { ways };
        Cache {
            name: format!("L{level}{holds:?}"),
            level,
            holds,
            bytes: sets * u64::from(ways) * u64::from(line_bytes),
            line_bytes,
            ways,
            latency_cycles: u32::from(level) * 10 + cycles,
            sharing: Sharing::groups(cores, of),
            inclusion,
            replacement,
            prefetch,
        }
    }
}

fn caches(cores: u32, line_bytes: u32) -> impl Strategy<Value = Vec<Cache>> {
    (1..6_u8, any::<bool>(), proptest::collection::vec(0..2_u32, 5)).prop_flat_map(move |(levels, split, wider)| {
        let mut of = 1;
        let mut caches = Vec::new();
        for (level, wider) in (1..=levels).zip(wider) {
            of <<= wider;
            let split = split && level == 1;
            let holds = if split { Holds::Data } else { Holds::Unified };
            caches.push(cache(level, holds, cores, line_bytes, of));
            if split {
                caches.push(cache(level, Holds::Instructions, cores, line_bytes, of));
            }
        }
        caches
    })
}

fn tlbs() -> impl Strategy<Value = Vec<Tlb>> {
    let tlb = |name: &'static str, level, small_pages, large_pages| {
        (1..3_u32, 1..4_u32, 0..5_u32).prop_map(move |(sets, ways, latency_cycles)| Tlb {
            name: name.to_owned(),
            level,
            entries: sets * ways,
            ways,
            latency_cycles,
            small_pages,
            large_pages,
        })
    };
    prop_oneof![
        Just(Vec::new()),
        (tlb("small", 1, true, false), tlb("large", 1, false, true), tlb("both", 2, true, true))
            .prop_map(|(small, large, both)| vec![both, small, large]),
    ]
}

fn memories(cores: u32) -> impl Strategy<Value = Vec<Memory>> {
    let own: Vec<u32> = (0..cores).collect();
    let (near, far) = (own[..own.len() / 2].to_vec(), own[own.len() / 2..].to_vec());
    let memory = |name: &str, bytes, cores: Vec<u32>, latency_cycles: &[u32]| Memory {
        name: name.to_owned(),
        bytes,
        cores,
        latency_cycles: latency_cycles.to_vec(),
    };
    prop_oneof![
        Just(vec![memory("one", Some(4096), own, &[100])]),
        Just(vec![
            memory("near", Some(8192), near, &[100, 200, 0]),
            memory("far", Some(4096), far, &[200, 100, 0]),
            memory("scratch", Some(4096), Vec::new(), &[50, 60, 0]),
        ]),
    ]
}

fn machine() -> impl Strategy<Value = Machine> {
    (1..6_u32, prop_oneof![Just(1_u32), Just(16), Just(64), Just(256)])
        .prop_flat_map(|(cores, line_bytes)| {
            (Just(cores), caches(cores, line_bytes), tlbs(), memories(cores), proptest::option::of(0..300_u32))
        })
        .prop_map(|(cores, caches, tlbs, memories, transfer_cycles)| Machine {
            name: "any".to_owned(),
            cores,
            caches,
            tlbs,
            page_walk_cycles: 30,
            memories,
            transfer_cycles,
            counting: Counting::Lines,
        })
}

fn options() -> impl Strategy<Value = Options> {
    let large_pages = prop_oneof![
        Just(LargePages::None),
        Just(LargePages::All),
        Just(LargePages::Ranges(vec![0..1 << 21, 3 << 21..4 << 21])),
    ];
    let bound = |homes: Vec<(u64, u32)>| MemoryPolicy::Bound(Arc::new(homes.into_iter().collect()));
    let memory = prop_oneof![
        2 => Just(MemoryPolicy::FirstTouch),
        1 => Just(MemoryPolicy::Interleaved),
        1 => prop::collection::vec((0..3_u64, 0..3_u32), 0..4).prop_map(bound),
    ];
    (any::<bool>(), any::<bool>(), large_pages, memory).prop_map(|(classes, used_bytes, large_pages, memory)| Options {
        classes,
        used_bytes,
        large_pages,
        memory,
    })
}

prop_compose! {
    /// Near each other on a few pages, so that lines are shared and sets are full.
    fn access()(
        page in prop_oneof![4 => 0..3_u64, 1 => 510..514_u64, 1 => 2040..2050_u64],
        place in prop_oneof![4 => 0..256_u64, 2 => 0..1024_u64, 1 => 4000..4096_u64],
        bytes in prop_oneof![4 => 1..9_u32, 1 => 0..100_u32],
        core in 0..7_u32,
        key in 0..70_u32,
        kind in prop_oneof![
            4 => Just(AccessKind::Load),
            3 => Just(AccessKind::Store),
            1 => Just(AccessKind::Modify),
            1 => Just(AccessKind::Fetch),
        ],
    ) -> Access {
        Access { address: page * 4096 + place, key, bytes, thread: core, kind, work: Work::USUAL }
    }
}

fn check(machine: &Machine, options: &Options, accesses: &[Access]) -> Result<(), TestCaseError> {
    let outcome = outcome(machine, options, accesses);
    let mut twin = Twin::new(machine, options);
    accesses.iter().for_each(|access| twin.access(access));
    twin.end();
    prop_assert_eq!(outcome.events(), &twin.events[..]);
    prop_assert_eq!(outcome.machine_events(), twin.machine_events);
    prop_assert_eq!(outcome.keys(), twin.counts.keys().last().map_or(0, |last| last + 1));
    for (key, counts) in &twin.counts {
        prop_assert_eq!(&outcome.of_key(*key), counts, "key {}", key);
    }
    let sum = |column: fn(&slimline_simulate::simulation::Counts) -> u64| twin.counts.values().map(column).sum::<u64>();
    prop_assert_eq!(outcome.total().cycles, sum(|counts| counts.cycles));
    prop_assert_eq!(outcome.total().loads, sum(|counts| counts.loads));
    Ok(())
}

/// `PROPTEST_CASES=10000` looks for what is rare.
fn config() -> ProptestConfig {
    let default = ProptestConfig::default();
    ProptestConfig { cases: default.cases * 4, failure_persistence: None, ..default }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_machine(machine in machine(), options in options(), accesses in proptest::collection::vec(access(), 1..200)) {
        check(&machine, &options, &accesses)?;
    }

    #[test]
    fn any_machine_is_written_and_read(machine in machine()) {
        prop_assert_eq!(Machine::parse(&machine.to_toml()), Ok(machine));
    }

    /// Most misses of most machines are done in a way of their own; here nearly all are, of lines that one core alone uses and others.
    #[test]
    fn plain_machine(
        machine in machine(),
        large_pages in options().prop_map(|options| options.large_pages),
        accesses in proptest::collection::vec((access(), any::<bool>()), 1..400),
    ) {
        let mut machine = machine;
        for cache in &mut machine.caches {
            (cache.inclusion, cache.prefetch) = (Inclusion::Neither, Prefetch::None);
        }
        let options = Options { large_pages, ..Options::default() };
        let of_own = |(access, is_own): (Access, bool)| {
            let place = if is_own { u64::from(access.thread + 1) << 24 } else { 0 };
            Access { address: access.address + place, ..access }
        };
        check(&machine, &options, &accesses.into_iter().map(of_own).collect::<Vec<_>>())?;
    }

    #[test]
    fn counting_as_cachegrind(
        machine in machine(), options in options(), accesses in proptest::collection::vec(access(), 1..200)
    ) {
        let options = Options { used_bytes: false, ..options };
        let mut machine = Machine { cores: 1, counting: Counting::Cachegrind, ..machine };
        for cache in &mut machine.caches {
            cache.sharing = Sharing::groups(1, 1);
            (cache.inclusion, cache.prefetch) = (Inclusion::Neither, Prefetch::None);
            // A store whose second line pushes the first out of a set of one way marks nothing.
            cache.replacement = Replacement::Lru;
        }
        machine.memories.truncate(1);
        machine.memories[0].cores = vec![0];
        machine.memories[0].latency_cycles = vec![100];
        check(&machine, &options, &accesses)?;
    }
}
