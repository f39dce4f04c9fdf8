use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::access::Work;

fn kinds() -> impl Strategy<Value = AccessKind> {
    prop_oneof![Just(AccessKind::Load), Just(AccessKind::Store), Just(AccessKind::Modify), Just(AccessKind::Fetch)]
}

use AccessKind::{Load, Modify, Store};

/// Eight bytes; loads and stores have keys of their own.
fn word(thread: u32, kind: AccessKind, address: u64) -> Access {
    Access { address, bytes: 8, thread, key: thread * 2 + u32::from(kind == Store), kind, work: Work::USUAL }
}

/// The first of the lines that these accesses share.
fn first_line(accesses: &[Access]) -> SharedLine {
    let mut finder = LineFinder::new(64);
    finder.take(accesses);
    let mut shared = finder.finish(&Machine::named("valgrind").unwrap(), 3).unwrap();
    shared.take(accesses);
    shared.lines().swap_remove(0)
}

fn misses(line: &SharedLine) -> Vec<(u32, u32, u64, u64)> {
    let told = |(part, uses): &(Part, Uses)| (part.thread, part.offset, uses.true_misses, uses.false_misses);
    let mut told: Vec<_> = line.parts.iter().map(told).collect();
    told.sort_unstable();
    told
}

#[test]
fn who_stores_its_word_and_then_loads_the_others_is_told_something() {
    let turn = [word(0, Store, 0), word(0, Load, 8), word(1, Store, 8), word(1, Load, 0)];
    // By turns, and in lockstep, where the load of 0 already finds the line gone.
    let lockstep = [turn[0], turn[2], turn[1], turn[3]];
    for turn in [turn, lockstep] {
        let line = first_line(&turn.repeat(3));
        // The first time each came for what it had not had before, and so did 1's store in lockstep, but the load of 0 there.
        let of_0 = if turn[1].thread == 0 { 2 } else { 3 };
        assert_eq!(misses(&line), [(0, 0, 0, 0), (0, 8, of_0, 0), (1, 0, 2, 0), (1, 8, 0, 0)]);
        let between = Between { truly: of_0 + 2, true_bytes: 0xffff, ..Between::default() };
        assert_eq!(line.pairs, [((0, 1), between)]);
    }
}

#[test]
fn what_a_line_came_with_for_nothing_is_unseen_still() {
    let before = [word(0, Store, 0), word(1, Load, 8), word(0, Store, 0), word(1, Load, 8), word(1, Load, 24)];
    let line = first_line(&[&before[..], &[word(0, Store, 16), word(1, Load, 0)]].concat());
    assert_eq!(misses(&line), [(0, 0, 0, 0), (0, 16, 0, 0), (1, 0, 1, 0), (1, 8, 0, 1), (1, 24, 0, 0)]);
    let both = Between { truly: 1, true_bytes: 0xff, falsely: 1, false_bytes: [0xff, 0xff00_ff00] };
    assert_eq!(line.pairs, [((0, 1), both)]);
    // Not where it had to make room in between: eight lines of the same set.
    let room = (1..9).map(|n| word(1, Load, n * 4096));
    let all: Vec<Access> = before.into_iter().chain(room).chain([word(1, Load, 0)]).collect();
    let between = Between { falsely: 1, false_bytes: [0xff, 0xff00_ff00], ..Between::default() };
    assert_eq!(first_line(&all).pairs, [((0, 1), between)]);
    // What it came for once it does not come for again: 1 has had 16 with 0.
    let twice = [word(0, Store, 0), word(0, Store, 16), word(1, Load, 0), word(0, Store, 0), word(1, Load, 16)];
    let line = first_line(&[&[word(1, Load, 8)], &twice[..]].concat());
    assert_eq!((line.pairs[0].1.truly, line.pairs[0].1.falsely), (1, 1));
}

#[test]
fn threads_that_have_one_first_level_take_nothing_from_each_other() {
    let mut shared = SharedLines::in_one_pass(&Machine::named("valgrind").unwrap()).unwrap();
    let other = LIVE_CORES;
    shared.take(&[word(0, Store, 0), word(1, Store, 8), word(0, Store, 0), word(other, Store, 16), word(1, Load, 16)]);
    // It came to 0 and its core; the other one there accesses what 1 has stored.
    shared.take(&[word(0, Load, 16), word(other, Load, 8), word(0, Load, 8)]);
    let [line] = &shared.lines()[..] else { panic!() };
    let between = Between { truly: 2, true_bytes: 0xffff00, ..Between::default() };
    assert_eq!(line.pairs, [((1, other), between)]);
    assert!(misses(line).contains(&(other, 8, 1, 0)) && misses(line).contains(&(0, 8, 0, 0)), "{line:?}");
}

#[test]
fn who_takes_lines_from_whom() {
    let access = |thread, kind, address| Access { address, bytes: 8, thread, key: thread, kind, work: Work::USUAL };
    // Two count in their own eight bytes; a third one reads what the first one counted.
    let run = [access(0, Modify, 0), access(1, Modify, 8), access(0, Modify, 0), access(2, Load, 0)];
    // Shared, but nobody stores; of one thread.
    let others = [access(0, Load, 128), access(1, Load, 128), access(1, Store, 256)];
    let all = [&run[..], &others, &run].concat();
    let mut finder = LineFinder::new(64);
    finder.take(&all);
    let mut shared = finder.finish(&Machine::named("valgrind").unwrap(), 3).unwrap();
    shared.take(&all);
    assert_eq!((shared.only_loaded(), shared.line_bytes()), (1, 64));
    let uses = |loads, stores, true_misses, false_misses| Uses { loads, stores, true_misses, false_misses };
    let part = |thread, offset| Part { offset, bytes: 8, key: thread, thread };
    // The first one lost the line to the second one three times, and never what it had read.
    let expected = vec![(part(0, 0), uses(4, 4, 0, 2)), (part(2, 0), uses(2, 0, 1, 0)), (part(1, 8), uses(2, 2, 0, 1))];
    let [line] = &shared.lines()[..] else { panic!() };
    assert_eq!((line.number, &line.parts), (0, &expected));
    // In order: 1 stored at 8; 0 at 0, which 2 loads for the first time; 0 has the line again; 1 had lost it to 0; 0 to 1;
    // 2 to 0.
    let between = |truly, true_bytes, falsely, false_bytes| Between { truly, true_bytes, falsely, false_bytes };
    let expected = [((0, 1), between(0, 0, 3, [0xff, 0xff00])), ((0, 2), between(1, 0xff, 0, [0, 0]))];
    assert_eq!(line.pairs, expected);
}

type Pairs = Vec<(u64, (u32, u32), Between)>;

fn pairs_of(shared: &SharedLines) -> Pairs {
    let lines = shared.lines().into_iter();
    lines.flat_map(|line| line.pairs.into_iter().map(move |(pair, between)| (line.number, pair, between))).collect()
}

/// By a list of all accesses: each time that others have stored to a line since a thread's last access to it, the line comes to
/// that thread, until others store again. It is for what the thread accesses by then that others have stored since the line last
/// came for anything, and else for nothing. Caches hold all of it.
fn by_looking_back(accesses: &[Access]) -> Pairs {
    let mut found = BTreeMap::<(u64, (u32, u32)), Between>::new();
    let of_data = accesses.iter().filter(|access| access.kind != AccessKind::Fetch);
    let all: Vec<(u64, u32, BTreeSet<u64>, bool)> = of_data
        .flat_map(|access| parts(access, 6).map(move |part| (access, part)))
        .map(|(access, (line, first, count))| {
            (line, access.thread, (first..first + count).map(u64::from).collect(), access.kind.stores())
        })
        .collect();
    let holders: BTreeSet<(u64, u32)> = all.iter().map(|(line, thread, ..)| (*line, *thread)).collect();
    for (line, thread) in holders {
        let of_line: Vec<_> = all.iter().filter(|access| access.0 == line).collect();
        let is_taken = |access: &&(u64, u32, BTreeSet<u64>, bool)| access.1 != thread && access.3;
        let own: Vec<usize> = (0..of_line.len()).filter(|&at| of_line[at].1 == thread).collect();
        let mut has_seen = own[0];
        for (last, came) in own.iter().copied().zip(own.iter().copied().skip(1)) {
            let Some(taker) = of_line[last..came].iter().rfind(|access| is_taken(access)) else { continue };
            let gone = (came..of_line.len()).find(|&at| is_taken(&of_line[at])).unwrap_or(of_line.len());
            let stored_since = |since: usize| {
                let stores = of_line[since..came].iter().filter(|access| is_taken(access));
                stores.flat_map(|access| access.2.iter().map(|byte| (*byte, access.1))).collect::<BTreeMap<u64, u32>>()
            };
            let mask = |bytes: &BTreeMap<u64, u32>, by: u32| {
                bytes.iter().filter(|(_, thread)| **thread == by).fold(0, |mask, (byte, _)| mask | 1_u64 << byte)
            };
            let held = || of_line[came..gone].iter().filter(|access| access.1 == thread);
            let mut unseen = stored_since(has_seen);
            let first = held().find(|access| access.2.iter().any(|byte| unseen.contains_key(byte)));
            if let Some(first) = first {
                unseen.retain(|byte, _| first.2.contains(byte));
                let from = *unseen.values().next().unwrap();
                let between = found.entry((line, (thread.min(from), thread.max(from)))).or_default();
                between.truly += 1;
                between.true_bytes |= mask(&unseen, from);
                has_seen = came;
            } else {
                let from = taker.1;
                let between = found.entry((line, (thread.min(from), thread.max(from)))).or_default();
                let own = usize::from(thread > from);
                between.falsely += 1;
                between.false_bytes[own] |= held().flat_map(|access| &access.2).fold(0, |mask, byte| mask | 1 << byte);
                between.false_bytes[1 - own] |= mask(&stored_since(last), from);
            }
        }
    }
    found.into_iter().map(|((line, pair), between)| (line, pair, between)).collect()
}

proptest! {
    /// Of a line that two threads have accessed before, one pass tells of all that follows what two passes tell.
    #[test]
    fn one_pass_tells_the_same(
        accesses in prop::collection::vec((0_u64..600, 1_u32..40, 0_u32..3, kinds()), 0..60),
    ) {
        let accesses: Vec<Access> = accesses.into_iter().map(|(address, bytes, thread, kind)| {
            Access { address, bytes, thread, key: thread, kind, work: Work::USUAL }
        }).collect();
        let machine = Machine::named("valgrind").unwrap();
        let mut finder = LineFinder::new(64);
        finder.take(&accesses);
        let mut two = finder.finish(&machine, 3).unwrap();
        two.take(&accesses);
        let mut one = SharedLines::in_one_pass(&machine).unwrap();
        accesses.chunks(7).for_each(|part| one.take(part));
        prop_assert_eq!(one.only_loaded(), two.only_loaded());
        prop_assert_eq!(pairs_of(&one), pairs_of(&two));
        prop_assert_eq!(two.before_shared(), 0);
        let before = one.before_shared();
        let (one, two) = (one.lines(), two.lines());
        prop_assert_eq!(one.len(), two.len());
        for (one, two) in one.iter().zip(&two) {
            let of = |line: &SharedLine, thread| {
                let parts = line.parts.iter().filter(move |(part, _)| part.thread == thread);
                parts.map(|(_, uses)| uses.count()).sum::<u64>()
            };
            // What is lacking is what one thread did alone.
            let lacking = (0..3).filter(|&thread| of(one, thread) < of(two, thread)).count();
            prop_assert!(one.number == two.number && lacking <= 1);
        }
        // A modification is one access here, and a load and a store there.
        let lacks = |lines: &[SharedLine]| lines.iter().flat_map(|line| &line.parts).map(|(_, uses)| uses.count()).sum::<u64>();
        let lacking = lacks(&two) - lacks(&one);
        prop_assert!(before <= lacking && lacking <= 2 * before);
    }

    /// As a list of all accesses tells.
    #[test]
    fn as_a_list_tells(
        accesses in prop::collection::vec((0_u64..600, 1_u32..40, 0_u32..3, kinds()), 0..60),
    ) {
        let accesses: Vec<Access> = accesses.into_iter().map(|(address, bytes, thread, kind)| {
            Access { address, bytes, thread, key: thread * 10, kind, work: Work::USUAL }
        }).collect();
        let mut finder = LineFinder::new(64);
        accesses.chunks(7).for_each(|part| finder.take(part));
        let mut shared = finder.finish(&Machine::named("valgrind").unwrap(), 3).unwrap();
        shared.take(&accesses);
        let mut only_loaded = 0;
        let mut expected = Vec::new();
        for line in 0..11_u64 {
            // By each byte of each access.
            let touches = |access: &&Access| {
                access.kind != AccessKind::Fetch
                    && (access.address..access.address + u64::from(access.bytes)).any(|byte| byte / 64 == line)
            };
            let of_line: Vec<&Access> = accesses.iter().filter(touches).collect();
            let is_shared = of_line.iter().any(|access| access.thread != of_line[0].thread);
            if is_shared && of_line.iter().any(|access| access.kind.stores()) {
                let count = |stores: bool| of_line.iter().filter(|access| match stores {
                    true => access.kind.stores(),
                    false => access.kind != AccessKind::Store,
                }).count() as u64;
                expected.push((line, count(false), count(true)));
            } else if is_shared {
                only_loaded += 1;
            }
        }
        let found: Vec<_> = shared.lines().into_iter().map(|line| {
            let mut sum = Uses::default();
            for (part, uses) in line.parts {
                assert!(part.offset + part.bytes <= 64);
                sum.add(uses);
            }
            let went = line.pairs.iter().map(|(_, between)| (between.truly, between.falsely));
            let went = went.fold((0, 0), |sum, more| (sum.0 + more.0, sum.1 + more.1));
            assert_eq!(went, (sum.true_misses, sum.false_misses));
            (line.number, sum.loads, sum.stores)
        }).collect();
        prop_assert_eq!(pairs_of(&shared), by_looking_back(&accesses));
        prop_assert_eq!(found, expected);
        prop_assert_eq!(shared.only_loaded(), only_loaded);
    }
}
