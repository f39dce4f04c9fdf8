use super::*;
use crate::machine::NAMES;

/// A machine that is as it should be.
const GOOD: &str = r#"name = "small"
cores = 4

[[cache]]
name = "L1"
level = 1
holds = "data"
size = "32 KiB"
line = 64
ways = 8
latency = 4

[[cache]]
name = "L2"
level = 2
size = 1048576
line = 64
ways = "full"
latency = 14
shared_by = ["0,2", "1,3"]
inclusion = "inclusive"
replacement = "random"
seed = 7

[[tlb]]
name = "DTLB"
level = 1
entries = 64
ways = "full"
pages = ["4 KiB", "2 MiB"]

[[memory]]
name = "DRAM"
latency = 200
"#;

#[test]
fn a_machine_is_as_it_is_told() {
    let machine = Machine::parse(GOOD).unwrap();
    let [l1, l2] = &machine.caches[..] else { panic!("{machine:?}") };
    assert_eq!((l1.holds, l1.sets(), l1.sharing.cache_of_core.as_slice()), (Holds::Data, 64, &[0, 1, 2, 3][..]));
    assert_eq!((l2.holds, l2.sets(), l2.ways), (Holds::Unified, 1, 16384));
    assert_eq!(l2.sharing.cache_of_core, [0, 1, 0, 1]);
    assert_eq!((l2.inclusion, l2.replacement), (Inclusion::Inclusive, Replacement::Random { seed: 7 }));
    assert_eq!((machine.tlbs[0].ways, machine.tlbs[0].large_pages), (64, true));
    assert_eq!((machine.memories[0].cores.len(), machine.memories[0].latency_cycles[0]), (4, 200));
}

#[test]
fn named_machines_are_as_published() {
    let machines: Vec<Machine> = NAMES.map(|name| Machine::named(name).unwrap()).into();
    let caches = |machine: &Machine| {
        machine.path(false).iter().map(|&place| machine.caches[place].bytes >> 10).collect::<Vec<_>>()
    };
    assert_eq!(machines.iter().map(caches).collect::<Vec<_>>(), [vec![32, 8192], vec![64, 256, 8192], vec![32, 8192]]);
    assert_eq!(machines.iter().map(|machine| machine.name.as_str()).collect::<Vec<_>>(), NAMES);
    assert_eq!(machines[0].counting, Counting::Cachegrind);
    assert_eq!((machines[1].tlbs[0].entries, machines[1].tlbs[0].ways), (128, 4));
    let memories: Vec<_> = machines[2].memories.iter().map(|memory| memory.latency_cycles[0]).collect();
    assert_eq!((machines[2].cores, memories), (8, vec![200, 20]));
    assert_eq!(Machine::named("none"), None);
}

/// Each wrong machine is the good one with one line changed.
#[test]
fn what_is_wrong_is_told_in_one_line() {
    let cases = [
        ("cores = 4", "cores = 0", "cores = 0: not 1 to 1024"),
        ("cores = 4", "core = 4", "line 2: unknown field `core`, expected one of"),
        ("cores = 4", "cores = 4\ncounting = \"cachegrind\"", "counting as Cachegrind is of one core, not of 4"),
        ("level = 2", "level = 1", "cache L2: a second one of level 1 for data"),
        ("level = 2", "level = 3", "cache L2: level 3, but no cache of level 2 for data"),
        ("name = \"L2\"", "name = \"L1\"", "L1: two have this name"),
        ("\"32 KiB\"", "\"32 kB\"", "cache L1: size = \"32 kB\": not a size as in \"32 KiB\" (B, KiB, MiB, GiB)"),
        ("\"32 KiB\"", "33000", "cache L1: 33000 bytes are no multiple of a set's 512 (8 ways of 64 bytes)"),
        ("\"32 KiB\"", "0", "cache L1: 0 bytes are no multiple of a set's 512 (8 ways of 64 bytes)"),
        ("\"32 KiB\"", "\"1024 GiB\"", "cache L1: 17179869184 lines: at most 67108864 can be simulated"),
        ("\"32 KiB\"", "\"99999999999 GiB\"", "cache L1: size = \"99999999999 GiB\": not a size"),
        ("line = 64\nways = 8", "line = 48\nways = 8", "cache L1: a line of 48 bytes: not a power of two up to 4096"),
        ("line = 64\nways = 8", "line = 0\nways = 8", "cache L1: a line of 0 bytes: not a power of two up to 4096"),
        (
            "line = 64\nways = 8",
            "line = 128\nways = 8",
            "cache L2: a line of 64 bytes, but L1 has 128: all caches have the same",
        ),
        ("ways = 8", "ways = 0", "cache L1: no ways"),
        ("ways = 8", "ways = \"many\"", "cache L1: ways = \"many\": neither a number nor \"full\""),
        ("latency = 14", "latency = 3", "cache L2: 3 cycles, less than the 4 of L1 before it"),
        ("\"0,2\"", "\"0,1\"", "cache L2: shared_by: core 1 is told twice"),
        ("\"0,2\"", "\"0\"", "cache L2: shared_by: core 2 has none"),
        ("\"0,2\"", "\"0,4\"", "cache L2: cores \"4\" of \"0,4\": there are 4 (from 0)"),
        ("\"0,2\"", "\"0;2\"", "cache L2: \"0;2\" is no list of cores as in \"0-3,8\""),
        ("[\"0,2\", \"1,3\"]", "0", "cache L2: shared_by = 0: at least one core has it"),
        ("ways = 8", "ways = 8\nshared_by = 2", "cache L2: cores that share one L1 do not share one L2"),
        ("ways = 8", "ways = 8\nseed = 2", "cache L1: a seed, but its replacement is not random"),
        (
            "\"random\"\nseed = 7",
            "\"tree-plru\"",
            "cache L2: tree-plru needs a power of two of ways up to 64, not 16384",
        ),
        ("\"random\"", "\"mru\"", "unknown variant `mru`, expected one of"),
        ("entries = 64", "entries = 0", "TLB DTLB: 0 entries of 0 ways: needs 1 to 1048576, a multiple of the ways"),
        ("\"2 MiB\"", "\"1 GiB\"", "TLB DTLB: pages of 1073741824 bytes: there are those of 4 KiB and of 2 MiB"),
        ("latency = 200", "latency = [200, 300]", "memory DRAM: 2 latencies: needs one, or one from each of the 1"),
        ("latency = 200", "latency = 200\ncores = \"0-2\"", "core 3 is near to no memory"),
        ("latency = 200", "latency = 200\nsize = \"0 B\"", "memory DRAM: a size of 0 holds nothing"),
        ("[[memory]]\nname = \"DRAM\"\nlatency = 200\n", "", "no memory"),
    ];
    for (right, wrong, message) in cases {
        assert!(GOOD.contains(right), "{right}");
        let error = Machine::parse(&GOOD.replacen(right, wrong, 1)).unwrap_err().to_string();
        assert!(error.contains(message) && !error.contains('\n'), "{wrong}: {error}");
    }
}
