//! Small streams whose counts anybody can follow.

use slimline_simulate::access::{Access, AccessKind, Work};
use slimline_simulate::machine::Machine;
use slimline_simulate::simulation::{LargePages, Misses, Options};

use crate::{access, outcome};

use AccessKind::{Load, Store};

/// Two cores with a first level of two lines of 64 bytes, and a second level of eight for both.
fn two_cores(more: &str) -> Machine {
    let text = format!(
        r#"
        name = "two cores"
        cores = 2
        {more}
        cache = [
            {{ name = "L1", level = 1, holds = "data", size = 128, line = 64, ways = 2, latency = 4 }},
            {{ name = "L2", level = 2, size = 512, line = 64, ways = 8, latency = 20, shared_by = "all" }},
        ]
        memory = [{{ name = "DRAM", latency = 100 }}]
        "#
    );
    Machine::parse(&text).unwrap()
}

/// Core 0 counts in the first eight bytes of a line, core 1 in the second.
#[test]
fn neighbours_in_a_line_share_it_falsely() {
    let accesses: Vec<Access> =
        (0..20).map(|turn| access(turn % 2, AccessKind::Modify, u64::from(turn % 2) * 8, 8)).collect();
    let outcome = outcome(&two_cores("transfer = 70"), &Options::default(), &accesses);
    let total = outcome.total();
    let l1 = total.misses[0];
    // The first of each core is cold; each of the other 18 loads finds its line taken by the other's store.
    assert_eq!((l1.loads, l1.stores, l1.cold, l1.coherence_false, l1.coherence_true), (20, 0, 2, 18, 0));
    // Each core's but the very first access has to ask the other one, which has changed the line.
    assert_eq!((outcome.machine_events().transfers, outcome.machine_events().upgrades), (19, 19));
    assert_eq!((outcome.events()[0].invalidations, total.misses[1].total()), (19, 1));
    // One load from memory, 19 from the other core, 20 stores that hit.
    assert_eq!((total.cycles, total.served_by_memory), (100 + 19 * 70 + 20 * 4, vec![1]));
}

/// One counter for both.
#[test]
fn a_counter_is_shared_truly() {
    let accesses: Vec<Access> = (0..20).map(|turn| access(turn % 2, AccessKind::Modify, 0, 8)).collect();
    let l1 = outcome(&two_cores(""), &Options::default(), &accesses).total().misses[0];
    assert_eq!((l1.total(), l1.cold, l1.coherence_true, l1.coherence_false), (20, 2, 18, 0));
}

/// Two cores with first levels of two lines and second levels of eight of their own. Of these accesses' keys, the number of each:
/// misses for stores of the other core, true and false ones, of either level.
fn of_two_levels(accesses: &[(u32, AccessKind, u64)]) -> Vec<[(u64, u64); 2]> {
    let machine = Machine::parse(
        r#"
        name = "two levels"
        cores = 2
        cache = [
            { name = "L1", level = 1, holds = "data", size = 128, line = 64, ways = 2, latency = 4 },
            { name = "L2", level = 2, size = 512, line = 64, ways = 8, latency = 20 },
        ]
        memory = [{ name = "DRAM", latency = 100 }]
        "#,
    )
    .unwrap();
    let numbered = accesses.iter().zip(0..);
    let all: Vec<Access> =
        numbered.map(|(&(core, kind, at), key)| Access { key, ..access(core, kind, at, 8) }).collect();
    let outcome = outcome(&machine, &Options::default(), &all);
    let told =
        |key| [0, 1].map(|cache| outcome.of_key(key).misses[cache]).map(|of| (of.coherence_true, of.coherence_false));
    (0..all.len() as u32).map(told).collect()
}

const NONE: [(u64, u64); 2] = [(0, 0); 2];
const TRUE: [(u64, u64); 2] = [(1, 0); 2];
const FALSE: [(u64, u64); 2] = [(0, 1); 2];

/// A miss of a line that another core's store took is for what is accessed until it is gone again.
#[test]
fn a_store_whose_core_then_loads_the_others_word_shares_truly() {
    let turn = [(0, Store, 0), (0, Load, 8), (1, Store, 8), (1, Load, 0)];
    let found = of_two_levels(&turn.repeat(3));
    // First uses; then each store finds the line taken, and the load after it is what it was for.
    let later = [TRUE, NONE, TRUE, NONE];
    assert_eq!(found, [[NONE; 4], later, later].concat());
    // Without the loads it is for nothing, and to load what the core has stored itself tells it nothing.
    let own = [(0, Store, 0), (0, Load, 0), (1, Store, 8), (1, Load, 8)];
    assert_eq!(of_two_levels(&own.repeat(2))[4..], [FALSE, NONE, FALSE, NONE]);
}

#[test]
fn what_a_miss_was_not_for_the_next_one_may_be() {
    // 1 stores 8, which 0 does not load before 1 stores 16; and then does, of what came for 24.
    let before = [(0, Load, 0), (1, Store, 8), (0, Load, 0), (1, Store, 16)];
    let found = of_two_levels(&[&before[..], &[(0, Load, 24), (0, Load, 8)]].concat());
    assert_eq!(found, [NONE, NONE, FALSE, NONE, TRUE, NONE]);
    // What came with a true one has been told.
    let both = [(0, Load, 0), (1, Store, 8), (1, Store, 16), (0, Load, 8), (1, Store, 8), (0, Load, 16)];
    assert_eq!(of_two_levels(&both), [NONE, NONE, NONE, TRUE, NONE, FALSE]);
}

#[test]
fn a_line_that_left_the_first_level_may_still_be_for_something_in_the_second() {
    // Two other lines make room of the first level's two, and the second one has it still: the miss of that was for 8.
    let before = [(0, Load, 0), (1, Store, 8), (0, Load, 0), (0, Load, 64), (0, Load, 128)];
    let found = of_two_levels(&[&before[..], &[(0, Load, 8)]].concat());
    assert_eq!(found, [NONE, NONE, [(0, 1), (1, 0)], NONE, NONE, NONE]);
    // The load before that brings it to the first level again, where it hits.
    let found = of_two_levels(&[&before[..], &[(0, Load, 16), (0, Load, 8)]].concat());
    assert_eq!(found, [NONE, NONE, [(0, 1), (1, 0)], NONE, NONE, NONE, NONE]);
    // It leaves the second level, too.
    let room = (1..9).map(|line| (0, Load, line * 64));
    let all: Vec<_> = before.into_iter().chain(room).chain([(0, Load, 8)]).collect();
    assert_eq!((of_two_levels(&all)[2], of_two_levels(&all)[13]), (FALSE, NONE));
}

/// What was changed is written back for who changed it first, not for who wants the room.
#[test]
fn who_changes_lines_has_them_written_back() {
    let text = r#"
        name = "small"
        cache = [
            { name = "L1", level = 1, holds = "data", size = 64, line = 64, ways = 1, latency = 1 },
            { name = "L2", level = 2, size = 128, line = 64, ways = 2, latency = 10 },
        ]
        memory = [{ name = "DRAM", latency = 100 }]
    "#;
    let with_key =
        |key, kind, line: u64| Access { address: line * 64, bytes: 8, thread: 0, key, kind, work: Work::USUAL };
    // 1 loads what 2 and then 3 store; 4 takes its place in the first level, 3 changes it again, 4 two more lines.
    let accesses = [
        with_key(1, Load, 0),
        with_key(2, Store, 0),
        with_key(3, Store, 0),
        with_key(4, Load, 1),
        with_key(3, Store, 0),
        with_key(4, Load, 2),
        with_key(4, Load, 3),
    ];
    let outcome = outcome(&Machine::parse(text).unwrap(), &Options::default(), &accesses);
    let written = |key| {
        let counts = outcome.of_key(key);
        (counts.write_backs, counts.memory_writes)
    };
    // For 2 to the second level; for 3 there, and from there to memory.
    assert_eq!([1, 2, 3, 4].map(written), [(vec![0, 0], 0), (vec![1, 0], 0), (vec![1, 1], 1), (vec![0, 0], 0),]);
    assert_eq!((outcome.events()[0].write_backs, outcome.events()[1].write_backs), (2, 1));
}

/// Three lines in turn through a cache of two: all miss. In a cache of one way and two sets 0 and 2 push each other out,
/// and a full associative one of two lines would keep them.
#[test]
fn capacity_and_conflict() {
    let machine = |ways: u32| {
        let text = format!(
            r#"
            name = "small"
            cache = [{{ name = "L1", level = 1, holds = "data", size = 128, line = 64, ways = {ways}, latency = 1 }}]
            memory = [{{ name = "DRAM", latency = 100 }}]
            "#
        );
        Machine::parse(&text).unwrap()
    };
    let options = Options { classes: true, ..Options::default() };
    let in_turn = |lines: &[u64]| -> Vec<Access> {
        (0..4).flat_map(|_| lines).map(|line| access(0, Load, line * 64, 4)).collect()
    };
    let l1 = outcome(&machine(2), &options, &in_turn(&[0, 1, 2])).total().misses[0];
    assert_eq!((l1.total(), l1.cold, l1.capacity, l1.conflict), (12, 3, 9, 0));
    let l1 = outcome(&machine(1), &options, &in_turn(&[0, 2])).total().misses[0];
    assert_eq!((l1.total(), l1.cold, l1.capacity, l1.conflict), (8, 2, 0, 6));
}

/// An access of 8 bytes at 60 touches two lines.
#[test]
fn a_straddling_access_touches_both_lines() {
    let machine = two_cores("");
    let found = outcome(&machine, &Options::default(), &[access(0, Load, 60, 8), access(0, Load, 64, 4)]).total();
    assert_eq!(found.lookups(&machine), [3, 2]);
    assert_eq!((found.loads, found.further_lines, found.misses[0].loads), (2, 1, 2));
    let as_cachegrind = Machine::named("valgrind").unwrap();
    let once = outcome(&as_cachegrind, &Options::default(), &[access(0, Load, 60, 8), access(0, Load, 64, 4)]).total();
    assert_eq!((once.loads, once.misses[1].loads, once.misses[2].loads), (2, 1, 1));
}

/// Elements of 64 bytes of which one field of 8 is read.
#[test]
fn an_eighth_of_each_line_is_used() {
    let accesses: Vec<Access> = (0..10).map(|n| access(0, Load, n * 64 + 16, 8)).collect();
    let options = Options { used_bytes: true, ..Options::default() };
    let total = outcome(&two_cores(""), &options, &accesses).total();
    assert_eq!((total.fetched_lines, total.used_bytes), (10, 80));
}

/// 20 MiB page by page through a TLB of 128 entries: each page misses; of 2 MiB pages there are ten. Where
/// half of it lies on large ones, the small ones push them out.
#[test]
fn large_pages_miss_less() {
    let machine = Machine::named("dinero-i5").unwrap();
    let accesses: Vec<Access> = (0..2).flat_map(|_| 0..5120).map(|page| access(0, Store, page << 12, 8)).collect();
    let misses = |large_pages| {
        outcome(&machine, &Options { large_pages, ..Options::default() }, &accesses).total().tlb_misses[0]
    };
    assert_eq!(misses(LargePages::None), 10_240);
    assert_eq!(misses(LargePages::All), 10);
    assert_eq!(misses(LargePages::Ranges(vec![0..4096, 4096..10 << 20])), 2 * (2560 + 5));
}

/// A walk over lines is foreseen up to the border of each page.
#[test]
fn the_next_line_is_there_already() {
    let machine = |prefetch: &str| {
        let text = format!(
            r#"
            name = "small"
            cache = [{{ name = "L1", level = 1, size = "32 KiB", line = 64, ways = 8, latency = 1, prefetch = "{prefetch}" }}]
            memory = [{{ name = "DRAM", latency = 100 }}]
            "#
        );
        Machine::parse(&text).unwrap()
    };
    let walk: Vec<Access> = (0..256).map(|line| access(0, Load, line * 64, 8)).collect();
    let misses = |prefetch| outcome(&machine(prefetch), &Options::default(), &walk).total().misses[0].total();
    // Of each page of 64 lines the first misses; where strides are learned, three of the first page do, and one of each
    // other, as the stride is known.
    assert_eq!((misses("none"), misses("next-line"), misses("stride")), (256, 4, 3 + 3));
}

/// An exclusive second level fetches what its own first level has not got, whatever another core's has: here the first line
/// of a kilobyte that nobody but that other core has used.
#[test]
fn another_cores_lines_do_not_keep_a_cache_from_fetching() {
    let machine = Machine::parse(
        r#"
        name = "exclusive"
        cores = 2
        cache = [
            { name = "L1", level = 1, size = 64, line = 16, ways = 4, latency = 1 },
            { name = "L2", level = 2, size = 64, line = 16, ways = 4, latency = 10, inclusion = "exclusive", prefetch = "next-line" },
        ]
        memory = [{ name = "DRAM", latency = 100 }]
        "#,
    );
    let accesses = [access(0, Load, 1024, 8), access(1, Load, 1008, 8), access(1, Load, 1024, 8)];
    let outcome = outcome(&machine.unwrap(), &Options::default(), &accesses);
    // After each miss, and after what was fetched so is used.
    assert_eq!((outcome.events()[1].prefetches, outcome.events()[1].used_prefetches), (3, 1));
    assert_eq!(outcome.total().misses[1].total(), 2);
}

/// A second level that takes what leaves the first, which may have come there unasked: whatever had taken a line from it
/// before, or had not, by then it has held it. Of the last of these accesses of line 1: misses of the second level.
fn last_after_victims(accesses: &[(u32, AccessKind, u64)]) -> Misses {
    let machine = Machine::parse(
        r#"
        name = "victims"
        cores = 2
        cache = [
            { name = "L1", level = 1, holds = "data", size = 128, line = 64, ways = 2, latency = 1, prefetch = "next-line" },
            { name = "L2", level = 2, size = 256, line = 64, ways = 4, latency = 10, inclusion = "exclusive" },
        ]
        memory = [{ name = "DRAM", latency = 100 }]
        "#,
    )
    .unwrap();
    let all = accesses.iter().map(|&(core, kind, address)| access(core, kind, address, 8));
    let last = Access { key: 1, ..access(0, Load, 64, 8) };
    let accesses: Vec<Access> = all.chain([last]).collect();
    outcome(&machine, &Options::default(), &accesses).of_key(1).misses[1]
}

/// Line 1 goes to core 0's second level, core 1 takes it, and it comes back by the next-line prefetch of line 0.
const BACK: [(u32, AccessKind, u64); 5] =
    [(0, Load, 64), (0, Load, 20 * 64), (1, Store, 64), (0, Load, 0), (0, Load, 40 * 64)];

#[test]
fn only_the_last_store_that_took_a_line_counts() {
    // Of what was written before that one core 0 has had all.
    let misses = last_after_victims(&[&BACK[..], &[(1, Store, 64 + 8)]].concat());
    assert_eq!((misses.total(), misses.coherence_true, misses.coherence_false), (1, 0, 1), "{misses:?}");
    let misses = last_after_victims(&[&BACK[..], &[(1, Store, 64)]].concat());
    assert_eq!((misses.total(), misses.coherence_true, misses.coherence_false), (1, 1, 0), "{misses:?}");
}

#[test]
fn a_line_that_came_back_and_had_to_make_room_was_replaced() {
    let misses = last_after_victims(&[&BACK[..], &[(0, Load, 60 * 64), (0, Load, 80 * 64)]].concat());
    assert_eq!((misses.total(), misses.replaced()), (1, 1), "{misses:?}");
}

#[test]
fn a_line_that_nobody_asked_for_was_held_all_the_same() {
    let misses = last_after_victims(&[(0, Load, 0), (0, Load, 20 * 64), (0, Load, 40 * 64), (0, Load, 60 * 64)]);
    assert_eq!((misses.total(), misses.replaced()), (1, 1), "{misses:?}");
}

/// What core 1 has touched first lives near it.
#[test]
fn pages_live_where_they_were_touched_first() {
    let text = r#"
        name = "two nodes"
        cores = 2
        cache = [{ name = "L1", level = 1, size = 64, line = 64, ways = 1, latency = 1 }]
        memory = [
            { name = "node0", cores = "0", latency = [100, 300] },
            { name = "node1", cores = "1", latency = [300, 100] },
        ]
    "#;
    let accesses = [(1, 0), (0, 64), (0, 4096), (1, 128)].map(|(core, address)| access(core, Load, address, 8));
    let total = outcome(&Machine::parse(text).unwrap(), &Options::default(), &accesses).total();
    assert_eq!((total.served_by_memory, total.served_from_afar, total.cycles), (vec![1, 3], 1, 100 + 300 + 100 + 100));
}

/// Addresses at the end of what there is, empty and long accesses, a core that the machine has not got.
#[test]
fn nothing_is_out_of_bounds() {
    let any = |address, bytes, core| Access { address, key: 3, bytes, thread: core, kind: Store, work: Work::USUAL };
    let accesses = [any(u64::MAX, 64, 9), any(0, 0, 1), any(1 << 48, 1 << 20, 0), any(u64::MAX - 7, 8, 0)];
    for name in slimline_simulate::machine::NAMES {
        let found = outcome(&Machine::named(name).unwrap(), &Options::default(), &accesses);
        assert_eq!((found.total().stores, found.keys(), found.of_key(2).stores), (4, 4, 0), "{name}");
    }
    let none = outcome(&two_cores(""), &Options::default(), &[]);
    assert_eq!((none.keys(), none.total().cycles, none.of_key(7).loads), (0, 0, 0));
}
