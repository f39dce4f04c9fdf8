//! Distances of chosen lines by key.

use super::{CoreSets, CoreSetsError, Estimate, SampledDistances};
use crate::access::{Access, AccessKind, Consumer, TOGETHER};
use crate::machine::Machine;

/// Takes accesses in, and estimates by key. An access that touches several lines counts once for each.
#[derive(Debug)]
pub struct SampledKeys {
    machine: Machine,
    distances: SampledDistances,
    line_shift: u32,
    keys: Vec<SampledKey>,
}

/// What is known of a key.
#[derive(Clone, Debug, Default)]
pub struct SampledKey {
    /// All accesses, to chosen lines or not.
    pub accesses: u64,
    /// Of those to chosen lines.
    pub estimate: Estimate,
}

impl SampledKey {
    /// Takes in another key.
    pub fn merge(&mut self, other: &Self) {
        self.accesses += other.accesses;
        self.estimate.merge(&other.estimate);
    }
}

impl SampledKeys {
    /// As [`SampledDistances::new`]. The machine says which cores share caches.
    ///
    /// # Errors
    /// Its cores share caches crosswise.
    pub fn new(machine: &Machine, most_lines: usize, most_share: f64) -> Result<Self, CoreSetsError> {
        Ok(Self {
            machine: machine.clone(),
            distances: SampledDistances::new(CoreSets::of_machine(machine)?, most_lines, most_share),
            line_shift: machine.line_bytes().trailing_zeros(),
            keys: Vec::new(),
        })
    }

    /// The machine.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// By key.
    pub fn keys(&self) -> &[SampledKey] {
        &self.keys
    }

    /// Share of all lines that are chosen, now.
    pub fn share(&self) -> f64 {
        self.distances.share()
    }
}

impl SampledKeys {
    /// Reads what these accesses, which come next, will need.
    fn read_ahead(&mut self, accesses: &[Access]) {
        let data = accesses.iter().filter(|access| access.kind != AccessKind::Fetch);
        let Self { machine, line_shift, distances, .. } = self;
        let line = |access: &Access| (machine.core_of(access.thread), access.ends().0 >> *line_shift);
        distances.read_ahead(data.map(line));
    }

    fn take_together(&mut self, accesses: &[Access]) {
        for access in accesses.iter().filter(|access| access.kind != AccessKind::Fetch) {
            let &Access { key, thread, .. } = access;
            if key as usize >= self.keys.len() {
                self.keys.resize(key as usize + 1, SampledKey::default());
            }
            let of_key = &mut self.keys[key as usize];
            let core = self.machine.core_of(thread);
            let (first, last) = access.ends();
            let (mut line, last) = (first >> self.line_shift, last >> self.line_shift);
            loop {
                of_key.accesses += 1;
                if let Some(sampled) = self.distances.access(core, line, key) {
                    of_key.estimate.add(&sampled);
                }
                if line == last {
                    break;
                }
                line += 1;
            }
        }
    }
}

impl Consumer for SampledKeys {
    fn take(&mut self, accesses: &[Access]) {
        for together in accesses.chunks(TOGETHER) {
            self.read_ahead(together);
            self.take_together(together);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Work;

    /// Of so many lines that are gone through again and again, chosen ones or all.
    #[test]
    fn reading_ahead_changes_nothing() {
        const LINES: u64 = 30_000;
        let machine = Machine::named("valgrind").unwrap();
        for share in [1.0, 0.3] {
            let mut keys = SampledKeys::new(&machine, LINES as usize, share).unwrap();
            let mut alone = SampledDistances::new(CoreSets::of_machine(&machine).unwrap(), LINES as usize, share);
            let mut expected = Estimate::default();
            let lines: Vec<u64> = (0..4 * LINES).map(|at| at * 7919 % LINES).collect();
            for line in &lines {
                if let Some(sampled) = alone.access(0, *line, 0) {
                    expected.add(&sampled);
                }
            }
            let (kind, work) = (AccessKind::Load, Work::USUAL);
            let access = |line: &u64| Access { address: line * 64, key: 0, bytes: 8, thread: 0, kind, work };
            keys.take(&lines.iter().map(access).collect::<Vec<_>>());
            assert_eq!(keys.keys()[0].estimate.histogram(), expected.histogram(), "{share}");
        }
    }

    /// Where all lines are chosen nothing is estimated.
    #[test]
    fn keys_have_their_own() {
        let machine = Machine::named("valgrind").unwrap();
        let mut keys = SampledKeys::new(&machine, 1000, 1.0).unwrap();
        let access =
            |key, address| Access { address, key, bytes: 8, thread: 0, kind: AccessKind::Load, work: Work::USUAL };
        for pass in 0..3 {
            (0..10).for_each(|line| keys.take(&[access(pass.min(1), line * 64)]));
        }
        keys.take(&[access(2, 60)]);
        let found = |key: usize| {
            let SampledKey { accesses, estimate } = &keys.keys()[key];
            let histogram = estimate.histogram();
            (*accesses, histogram.first(), histogram.distances().collect::<Vec<_>>())
        };
        assert_eq!(found(0), (10, 10.0, vec![]));
        assert_eq!(found(1), (20, 0.0, vec![(9, 20.0)]));
        assert_eq!(found(2), (2, 0.0, vec![(9, 2.0)]));
        let mut all = keys.keys()[0].clone();
        all.merge(&keys.keys()[1]);
        assert_eq!((all.accesses, all.estimate.histogram().total(), keys.share()), (30, 30.0, 1.0));
    }
}
