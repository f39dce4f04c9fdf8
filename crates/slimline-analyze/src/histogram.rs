//! What happened in each part of data: accesses and misses over its extent.
//!
//! The blocks that one instruction allocates lie over each other, by offset. What goes by the name of a variable outside
//! known blocks is by address, from the lowest that was accessed; of several processes over each other.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;

use rustc_hash::FxHashMap;
use slimline_simulate::simulation::{Counts, Outcome};

use crate::full_trace::attributed::own_address;
use crate::origins::{By, Origins, Part, Whose};

/// The parts of one group of data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    /// Which of [`Origins::data`].
    pub data: u32,
    /// Bytes of a part; 0 where nothing is known of the data, and all of it is one part.
    pub part_bytes: u64,
    /// From the first byte to the last: of blocks the largest, of variables what was accessed.
    pub extent_bytes: u64,
    /// Of the first part, what lies before the first byte.
    pub before_bytes: u64,
    /// All parts together.
    pub total: Counts,
    /// Those that were accessed, by the offset of their first byte.
    pub parts: Vec<(u64, Counts)>,
}

/// What there is of the parts of one group of data.
pub(crate) struct Parts<T> {
    /// Which of [`Origins::data`].
    pub(crate) data: u32,
    /// As in [`Histogram`].
    pub(crate) part_bytes: u64,
    /// From the first byte to the last: of blocks the largest, of variables all parts that were accessed.
    pub(crate) extent_bytes: u64,
    /// Of variables: bytes of the first part before what was accessed, and of the last one behind it, where that is known.
    pub(crate) beside_bytes: [u64; 2],
    /// By the offset of their first byte.
    pub(crate) parts: Vec<(u64, T)>,
}

/// What each key has, summed up by part; of keys that have nothing there is none. `extents` are those of keys, in their order, as
/// far as they are known.
pub(crate) fn by_part<T: Clone>(
    origins: &Origins,
    extents: &[Range<u64>],
    of_key: impl Fn(u32) -> Option<T>,
    add: impl Fn(&mut T, &T),
) -> Vec<Parts<T>> {
    let mut part_bytes: FxHashMap<u32, u64> = FxHashMap::default();
    let mut first: FxHashMap<(u32, Whose), u64> = FxHashMap::default();
    for key in 0..origins.keys().len() as u32 {
        let (data, part) = (origins.number(key, By::Data), origins.of(key).part);
        let bytes = part_bytes.entry(data).or_default();
        *bytes = part.bytes.max(*bytes);
    }
    let start = |part: Part, bytes: u64| part.start.checked_div(bytes).map_or(0, |number| number * bytes);
    for key in 0..origins.keys().len() as u32 {
        let (data, part) = (origins.number(key, By::Data), origins.of(key).part);
        let start = start(part, part_bytes[&data]);
        let first = first.entry((data, part.whose)).or_insert(start);
        *first = start.min(*first);
    }
    let place = |key| {
        let (data, part) = (origins.number(key, By::Data), origins.of(key).part);
        let start = start(part, part_bytes[&data]);
        let base = match part.whose {
            Whose::Variable { .. } => first[&(data, part.whose)],
            Whose::Block | Whose::Nobodys => 0,
        };
        (data, start - base)
    };
    // Offsets of the first byte that was accessed, and behind the last.
    let mut reaches: FxHashMap<u32, Range<u64>> = FxHashMap::default();
    for (key, extent) in (0..).zip(extents).filter(|(_, extent)| !extent.is_empty()) {
        let (data, whose) = (origins.number(key, By::Data), origins.of(key).part.whose);
        if let (Whose::Variable { .. }, Some(&base)) = (whose, first.get(&(data, whose))) {
            let bytes = extent.end - extent.start;
            let start = own_address(extent.start).saturating_sub(base);
            let reach = reaches.entry(data).or_insert(start..start + bytes);
            *reach = reach.start.min(start)..reach.end.max(start + bytes);
        }
    }
    let add_some = |sum: &mut Option<T>, more: Option<T>| match (sum.as_mut(), more) {
        (Some(sum), Some(more)) => add(sum, &more),
        (None, more) => *sum = more,
        (Some(_), None) => {}
    };
    let mut parts: BTreeMap<u32, Vec<(u64, T)>> = BTreeMap::new();
    for ((data, offset), sum) in origins.sums(place, of_key, add_some) {
        if let Some(sum) = sum {
            parts.entry(data).or_default().push((offset, sum));
        }
    }
    let of_data = |(data, mut parts): (u32, Vec<(u64, T)>)| {
        parts.sort_by_key(|(offset, _)| *offset);
        let bytes = part_bytes[&data];
        let end = parts.last().map_or(0, |(offset, _)| offset + bytes);
        let extent_bytes = match origins.data()[data as usize].largest_block_bytes {
            0 => end,
            largest => largest,
        };
        let beside_bytes = reaches.get(&data).map_or([0; 2], |reach| [reach.start, end.saturating_sub(reach.end)]);
        Parts { data, part_bytes: bytes, extent_bytes, beside_bytes, parts }
    };
    parts.into_iter().map(of_data).collect()
}

/// Of all data, most cycles first. They add up to what the machine did. `extents` are those of keys, in their order.
pub fn histograms(outcome: &Outcome, origins: &Origins, extents: &[Range<u64>]) -> Vec<Histogram> {
    let of_key = |key| Some(outcome.of_key(key)).filter(|counts| counts.accesses() > 0);
    let mut found: Vec<Histogram> = by_part(origins, extents, of_key, Counts::add)
        .into_iter()
        .map(|Parts { data, part_bytes, extent_bytes, beside_bytes: [before_bytes, behind], parts }| {
            let mut total = outcome.of_key(u32::MAX);
            parts.iter().for_each(|(_, counts)| total.add(counts));
            let extent_bytes = extent_bytes.saturating_sub(before_bytes + behind);
            Histogram { data, part_bytes, extent_bytes, before_bytes, total, parts }
        })
        .collect();
    found.sort_by_key(|found| Reverse(found.total.cycles));
    found
}

/// How much of the data it takes to have half of all: the smallest part of `parts`, from 0 to 1 of an extent of that many,
/// of which the greatest together have half of the sum. None where there is nothing.
pub fn half_is_in(parts: &[u64], extent: u64) -> Option<f64> {
    let sum: u64 = parts.iter().sum();
    if sum == 0 || extent == 0 {
        return None;
    }
    let mut sorted = parts.to_vec();
    sorted.sort_unstable_by_key(|&count| Reverse(count));
    let mut so_far = 0;
    let needed = sorted.iter().take_while(|&&count| {
        let is_needed = 2 * so_far < sum;
        so_far += count;
        is_needed
    });
    Some((needed.count() as f64 / extent as f64).min(1.0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use slimline_simulate::access::{Access, AccessKind, Consumer as _, Work};
    use slimline_simulate::machine::Machine;
    use slimline_simulate::simulation::{Options, Simulation};

    use super::*;
    use crate::origins::{Data, Names, Origin};

    const MACHINE: &str = r#"
        name = "one line"
        cache = [{ name = "L1", level = 1, size = 64, line = 64, ways = 1, latency = 1 }]
        memory = [{ name = "memory", latency = 100 }]
    "#;

    /// What the accesses of these keys to these lines come to, of keys that stand for these parts of data.
    fn histograms_of(
        parts: &[(u32, Part)],
        data: Vec<Data>,
        accesses: &[(u32, u64)],
        extents: &[Range<u64>],
    ) -> Vec<Histogram> {
        let mut simulation = Simulation::new(&Machine::parse(MACHINE).unwrap(), &Options::default()).unwrap();
        for &(key, line) in accesses {
            let kind = AccessKind::Load;
            simulation.take(&[Access { address: line * 64, key, bytes: 1, thread: 0, kind, work: Work::USUAL }]);
        }
        let keys = parts.iter().map(|&(data, part)| Origin { data, part, ..Origin::default() }).collect();
        histograms(&simulation.finish(), &Origins::new(keys, data, Names::default(), Vec::new()), extents)
    }

    fn loads_and_misses(found: &Histogram) -> Vec<(u64, u64, u64)> {
        found.parts.iter().map(|(offset, counts)| (*offset, counts.loads, counts.misses[0].total())).collect()
    }

    #[test]
    fn parts_are_by_offset_and_as_large_as_the_largest() {
        let block = |start, bytes| Part { whose: Whose::Block, start, bytes };
        let of = |process, start| Part { whose: Whose::Variable { process }, start, bytes: 64 };
        let data = vec![Data { largest_block_bytes: 1000, ..Data::default() }, Data::default(), Data::default()];
        let parts = [
            (0, block(64, 64)),
            (0, block(128, 128)),
            (0, block(0, 64)),
            (1, of(0, 0x1040)),
            (1, of(0, 0x1000)),
            (1, of(3, 0x9040)),
            (2, Part::default()),
        ];
        // Each line but the second access to line 7 is missed.
        let accesses = [(0, 1), (2, 0), (1, 7), (1, 7), (3, 2), (4, 3), (4, 4), (5, 5), (6, 6)];
        let found = histograms_of(&parts, data, &accesses, &[]);
        let [first, second, third] = &found[..] else { panic!("{found:?}") };
        assert_eq!((first.data, first.part_bytes, first.extent_bytes), (1, 64, 128));
        // In process 3 it begins at 0x9040.
        assert_eq!(loads_and_misses(first), [(0, 3, 3), (64, 1, 1)]);
        assert_eq!((second.data, second.part_bytes, second.extent_bytes), (0, 128, 1000));
        assert_eq!(loads_and_misses(second), [(0, 2, 2), (128, 2, 1)]);
        assert_eq!((third.data, third.part_bytes, third.extent_bytes), (2, 0, 0));
        assert_eq!((loads_and_misses(third), third.total.loads), (vec![(0, 1, 1)], 1));
    }

    /// A variable from 0x1028 to 0x1098, whose parts begin at multiples of 64, and a block of 72 bytes.
    #[test]
    fn sizes_are_of_what_was_accessed_and_not_of_its_parts() {
        let of = |start| Part { whose: Whose::Variable { process: 0 }, start, bytes: 64 };
        let block = |start| Part { whose: Whose::Block, start, bytes: 64 };
        let data = vec![Data::default(), Data { largest_block_bytes: 72, ..Data::default() }];
        let parts = [(0, of(0x1000)), (0, of(0x1080)), (1, block(0)), (1, block(64))];
        let extents = [0x1028..0x1030, 0x1080..0x1098, 0x9000..0x9040, 0x9040..0x9048];
        let found = histograms_of(&parts, data, &[(0, 0), (1, 2), (1, 3), (2, 7), (3, 8)], &extents);
        let sizes: Vec<_> = found.iter().map(|of| (of.data, of.before_bytes, of.extent_bytes)).collect();
        assert_eq!(sizes, [(0, 0x28, 0x70), (1, 0, 72)]);
    }

    #[test]
    fn half_is_in_the_greatest() {
        assert_eq!(half_is_in(&[1, 5, 2, 2], 10), Some(0.1));
        assert_eq!(half_is_in(&[1, 1, 1, 1], 4), Some(0.5));
        assert_eq!((half_is_in(&[0, 0], 2), half_is_in(&[], 0)), (None, None));
    }

    proptest! {
        #[test]
        fn no_fewer_parts_have_half(parts in proptest::collection::vec(0_u64..9, 1..9)) {
            let sum: u64 = parts.iter().sum();
            let least = (0_u32..1 << parts.len())
                .filter(|set| {
                    let of_set: u64 = (0..parts.len()).filter(|part| set >> part & 1 != 0).map(|part| parts[part]).sum();
                    2 * of_set >= sum
                })
                .map(u32::count_ones)
                .min();
            let expected = least.filter(|_| sum > 0).map(|least| f64::from(least) / 9.0);
            prop_assert_eq!(half_is_in(&parts, 9), expected);
        }
    }
}
