//! Memory that processes share: each byte of it has one address for all of them, wherever it lies in each.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use slimline_simulate::access::Access;
use slimline_trace::stream::decode::{Program, SegmentId};
use slimline_trace::stream::record::SHARED;

use super::TraceBatch;
use super::attributed::{address_space, own_address};

/// Above all processes' address spaces: each shared object has one of its own, counted down from here.
const LAST_SPACE: u32 = 0xffff;
/// Address spaces of objects. Of what is mapped beyond, processes are not compared.
const MOST_OBJECTS: u32 = 0x7fff;
/// Where an object begins in its address space, so that no byte of it is at address 0.
const FIRST_ADDRESS: u64 = 1 << 44;

/// A mapping of a process.
#[derive(Clone, Copy, Debug)]
struct Mapping {
    end: u64,
    /// The common address of its first byte; none where it is not shared.
    common: Option<u64>,
}

/// What is shared in each process.
#[derive(Debug, Default)]
pub(super) struct SharedMemory {
    told: Option<SegmentId>,
    known_segments: usize,
    /// Numbers of objects, by what the trace calls them.
    objects: FxHashMap<u64, u32>,
    /// By process, then by first address. They do not overlap.
    mappings: FxHashMap<u32, BTreeMap<u64, Mapping>>,
}

impl SharedMemory {
    /// Takes in what a batch tells of mappings. Such batches come by themselves.
    pub(super) fn follow(&mut self, program: &Program, batch: &TraceBatch<'_>) {
        if self.known_segments < program.segments().len() {
            self.known_segments = program.segments().len();
            self.told = program.segment_of(SHARED.word());
        }
        let told = self.told;
        for visits in batch.visits.iter().filter(|visits| told == Some(visits.segment)) {
            let words = program.segments()[visits.segment.0 as usize].words;
            for words in batch.words_of_each(*visits, words) {
                if let &[start, bytes, object, offset] = words {
                    self.map(batch.process, start..start.saturating_add(bytes), (object, offset));
                }
            }
        }
    }

    fn map(&mut self, process: u32, addresses: std::ops::Range<u64>, (object, offset): (u64, u64)) {
        let next = self.objects.len() as u32;
        let common = match object {
            0 => None,
            object => {
                let number = *self.objects.entry(object).or_insert(next);
                let base = FIRST_ADDRESS.saturating_add(offset);
                (number < MOST_OBJECTS).then(|| base ^ address_space(LAST_SPACE - number))
            }
        };
        let mappings = self.mappings.entry(process).or_default();
        let overlapping: Vec<(u64, Mapping)> = mappings
            .range(..addresses.end)
            .rev()
            .take_while(|(_, mapping)| mapping.end > addresses.start)
            .map(|(start, mapping)| (*start, *mapping))
            .collect();
        for (start, Mapping { end, common }) in overlapping {
            mappings.remove(&start);
            if start < addresses.start {
                mappings.insert(start, Mapping { end: addresses.start, common });
            }
            if end > addresses.end {
                let common = common.map(|common| common + (addresses.end - start));
                mappings.insert(addresses.end, Mapping { end, common });
            }
        }
        if common.is_some() && !addresses.is_empty() {
            mappings.insert(addresses.start, Mapping { end: addresses.end, common });
        }
    }

    /// Gives accesses of a process to shared memory their common addresses.
    pub(super) fn unify(&self, process: u32, accesses: &mut [Access]) {
        let Some(mappings) = self.mappings.get(&process).filter(|mappings| !mappings.is_empty()) else { return };
        let (Some((&first, _)), Some((_, last))) = (mappings.first_key_value(), mappings.last_key_value()) else {
            return;
        };
        let mut recent = (0..0, 0);
        for access in accesses {
            let address = own_address(access.address);
            if !(first..last.end).contains(&address) {
                continue;
            }
            if !recent.0.contains(&address) {
                let Some((&start, mapping)) = mappings.range(..=address).next_back() else { continue };
                let Some(common) = mapping.common.filter(|_| address < mapping.end) else { continue };
                recent = (start..mapping.end, common);
            }
            access.address = recent.1 + (address - recent.0.start);
        }
    }
}

#[cfg(test)]
mod tests {
    use slimline_simulate::access::{AccessKind, Work};

    use super::*;

    fn common(shared: &SharedMemory, process: u32, address: u64) -> u64 {
        let mut access = [Access {
            address: address ^ address_space(process),
            key: 0,
            bytes: 8,
            thread: 0,
            kind: AccessKind::Load,
            work: Work::USUAL,
        }];
        shared.unify(process, &mut access);
        access[0].address
    }

    #[test]
    fn the_same_bytes_of_an_object_have_one_address_in_all_processes() {
        let mut shared = SharedMemory::default();
        shared.map(0, 0x1000..0x3000, (7, 0));
        shared.map(1, 0x9000..0xa000, (7, 0x1000));
        shared.map(1, 0x1000..0x2000, (8, 0));
        assert_eq!(common(&shared, 0, 0x2010), common(&shared, 1, 0x9010));
        assert_ne!(common(&shared, 0, 0x1000), common(&shared, 1, 0x1000), "another object");
        let private = 0x5000;
        assert_eq!(common(&shared, 0, private), private);
        assert_eq!(common(&shared, 1, private), private ^ address_space(1));
    }

    #[test]
    fn what_is_unmapped_is_private_again() {
        let mut shared = SharedMemory::default();
        shared.map(3, 0x1000..0x5000, (7, 0));
        shared.map(3, 0x2000..0x3000, (0, 0));
        let own = |address| address ^ address_space(3);
        assert_eq!(common(&shared, 3, 0x2800), own(0x2800));
        assert_eq!(common(&shared, 3, 0x3000) - common(&shared, 3, 0x1000), 0x2000);
        shared.map(3, 0..u64::MAX, (0, 0));
        assert_eq!(common(&shared, 3, 0x1000), own(0x1000));
    }
}
