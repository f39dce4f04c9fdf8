//! Data TLBs of one core.

use std::ops::Range;

use super::array::{Array, Line, Names};
use super::counters::Counters;
use crate::machine::{LARGE_PAGE_BYTES, Machine, Replacement, SMALL_PAGE_BYTES};

/// Which addresses lie on pages of 2 MiB; others lie on pages of 4 KiB.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LargePages {
    /// None.
    #[default]
    None,
    /// All.
    All,
    /// Those in these ranges, which are sorted and do not overlap.
    Ranges(Vec<Range<u64>>),
}

impl LargePages {
    fn holds(&self, address: u64) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Ranges(ranges) => {
                let behind = ranges.partition_point(|range| range.end <= address);
                ranges.get(behind).is_some_and(|range| range.contains(&address))
            }
        }
    }
}

/// Tells large pages from small ones in what holds both; no address has this page.
const LARGE: u64 = 1 << 59;

/// The TLBs of one core.
#[derive(Debug)]
pub(super) struct Tlbs {
    arrays: Vec<Array>,
    /// Those that hold small pages and those that hold large ones, nearest first.
    ways: [Vec<usize>; 2],
    latency_cycles: Vec<u64>,
    walk_cycles: u64,
    /// The page that was used last: using it again changes nothing in the TLBs.
    last: Option<u64>,
    /// Cycles of using it again.
    again_cycles: u64,
}

impl Tlbs {
    pub(super) fn new(machine: &Machine) -> Self {
        let way = |large: bool| {
            let mut way: Vec<usize> = (0..machine.tlbs.len())
                .filter(|&tlb| if large { machine.tlbs[tlb].large_pages } else { machine.tlbs[tlb].small_pages })
                .collect();
            way.sort_by_key(|&tlb| machine.tlbs[tlb].level);
            way
        };
        let array = |tlb: &crate::machine::Tlb| {
            Array::new(u64::from(tlb.entries / tlb.ways), tlb.ways, Replacement::Lru, 0, Names::Places)
        };
        Self {
            arrays: machine.tlbs.iter().map(array).collect(),
            ways: [way(false), way(true)],
            latency_cycles: machine.tlbs.iter().map(|tlb| u64::from(tlb.latency_cycles)).collect(),
            walk_cycles: u64::from(machine.page_walk_cycles),
            last: None,
            again_cycles: 0,
        }
    }

    /// Looks up the pages of the bytes from `first` to `last`.
    pub(super) fn access(&mut self, first: u64, last: u64, large: &LargePages, key: u32, counters: &mut Counters) {
        let mut address = first;
        loop {
            let is_large = large.holds(address);
            let bytes = if is_large { LARGE_PAGE_BYTES } else { SMALL_PAGE_BYTES };
            let page = (address / bytes) + if is_large { LARGE } else { 0 };
            if self.last != Some(page) {
                self.last = Some(page);
                self.again_cycles = self.ways[usize::from(is_large)].first().map_or(0, |&tlb| self.latency_cycles[tlb]);
                self.look_up(page, is_large, key, counters);
            } else if self.again_cycles > 0 {
                counters.extra_cycles(key, self.again_cycles);
            }
            address = (address / bytes + 1) * bytes;
            if address > last {
                return;
            }
        }
    }

    fn look_up(&mut self, page: u64, is_large: bool, key: u32, counters: &mut Counters) {
        let way = &self.ways[usize::from(is_large)];
        let line = Line { at: page, number: page };
        let mut cycles = self.walk_cycles;
        let mut missed = 0;
        for &tlb in way {
            if let Some(place) = self.arrays[tlb].find(line) {
                self.arrays[tlb].touch(line, place, 0, 0);
                cycles = self.latency_cycles[tlb];
                break;
            }
            self.arrays[tlb].insert(line, 0);
            counters.tlb_miss(key, tlb);
            missed += 1;
        }
        if missed == way.len() {
            counters.page_walk(key);
        }
        counters.extra_cycles(key, cycles);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_what_lies_in_them() {
        let ranges = LargePages::Ranges(vec![0..10, 20..30]);
        let held: Vec<u64> = (0..40).filter(|&address| ranges.holds(address)).collect();
        assert_eq!(held, (0..10).chain(20..30).collect::<Vec<u64>>());
    }
}
