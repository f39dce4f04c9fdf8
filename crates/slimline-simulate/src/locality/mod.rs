//! Why accesses wait, by key: reuse distances, cycles, homes of pages and strides, all in one pass (after MACPO, ICPP 2012).
//!
//! An access that touches several lines counts once for each.

mod asked;
pub mod exchange;
mod strides;
mod walking;
mod walks;

use rustc_hash::FxHashMap;

use self::asked::Asked;
pub use self::strides::{Stride, Strides};
pub use self::walking::{KeyWalks, Walking};
pub use self::walks::{Walk, Walks};
use crate::access::{Access, AccessKind, Consumer, Located, TOGETHER};
use crate::machine::{Machine, MachineError};
use crate::reuse::{CoreSets, CoreSetsError, Histogram, ReuseDistances, TooManyLines};
use crate::simulation::{Cost, Homes, MemoryPolicy, Options, Simulation};

/// Why an access took longer than a hit in the first level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Its line was never accessed before.
    FirstUse = 0,
    /// Its line was accessed after fewer others than the first level has room for, and was gone all the same.
    Thrashing = 1,
    /// More other lines were accessed since than the first level has room for.
    Capacity = 2,
    /// Another core's store took the line.
    Coherence = 3,
    /// A memory served it that is not the core's own.
    Remote = 4,
}

impl Cause {
    /// All of them, in their order.
    pub const ALL: [Self; 5] = [Self::FirstUse, Self::Thrashing, Self::Capacity, Self::Coherence, Self::Remote];
}

/// Sums over accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Costs {
    /// Accesses.
    pub count: u64,
    /// Those of them to lines that were accessed before.
    pub reuses: u64,
    /// Distances of those.
    pub distances: u64,
    /// Cycles, one after the other.
    pub cycles: u64,
    /// Cycles beyond those of a hit in the first level, by [`Cause`].
    pub waited: [u64; 5],
}

impl Costs {
    /// Takes in an access to a line: why it waited, if it did, and its distance, if it has one.
    #[inline]
    fn note(&mut self, cost: &Cost, cause: Cause, distance: Option<u32>) {
        self.count += 1;
        self.reuses += u64::from(distance.is_some());
        self.distances += u64::from(distance.unwrap_or(0));
        self.cycles += cost.cycles;
        self.waited[cause as usize] += cost.cycles - cost.hit_cycles;
    }

    /// Adds others.
    pub fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.reuses += other.reuses;
        self.distances += other.distances;
        self.cycles += other.cycles;
        self.waited.iter_mut().zip(other.waited).for_each(|(sum, more)| *sum += more);
    }
}

/// What is known of a key.
#[derive(Clone, Debug)]
pub struct KeyLocality {
    /// Sums.
    pub costs: Costs,
    /// Accesses of which it is known where their page lives, and where their thread was: all where that is simulated.
    pub homed: u64,
    /// Those of them to pages that live in the memory near to their core.
    pub near: u64,
    /// Its distances.
    pub histogram: Histogram,
    /// How it goes through memory.
    pub walking: Walking,
}

impl Default for KeyLocality {
    fn default() -> Self {
        Self { costs: Costs::default(), homed: 0, near: 0, histogram: Histogram::coarse(), walking: Walking::default() }
    }
}

/// Takes accesses in. Memory: that of [`ReuseDistances`] and of the machine's caches, and some kilobytes a key.
#[derive(Debug)]
pub struct Locality {
    simulation: Simulation,
    distances: ReuseDistances,
    homes: Homes,
    /// What a kernel told; none where nobody asked.
    asked: Option<Asked>,
    first_level_lines: u64,
    line_shift: u32,
    keys: Vec<KeyLocality>,
    /// Accesses so far.
    accesses: u64,
    /// Those that occurred, and where each is by its keys.
    pairs: Vec<Pair>,
    pair_of: FxHashMap<(u32, u32), usize>,
    /// By key: where its last pair is. Mostly the next one is the same.
    recent_pairs: Vec<usize>,
    failed: Option<TooManyLines>,
}

/// Why nothing can be told of such a machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LocalityError {
    /// It can't be simulated.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// Its cores share caches crosswise.
    #[error(transparent)]
    CoreSets(#[from] CoreSetsError),
}

impl Locality {
    /// Nothing was accessed yet.
    ///
    /// # Errors
    /// The machine is none, or its cores share caches crosswise.
    pub fn new(machine: &Machine) -> Result<Self, LocalityError> {
        let simulation = Simulation::new(machine, &Options::default())?;
        let first = machine.path(false).first().map(|&cache| machine.caches[cache].lines());
        Ok(Self {
            distances: ReuseDistances::new(CoreSets::of_machine(machine)?),
            homes: Homes::new(machine, MemoryPolicy::FirstTouch),
            asked: None,
            first_level_lines: first.unwrap_or(0),
            line_shift: machine.line_bytes().trailing_zeros(),
            simulation,
            keys: Vec::new(),
            accesses: 0,
            pairs: Vec::new(),
            pair_of: FxHashMap::default(),
            recent_pairs: Vec::new(),
            failed: None,
        })
    }

    /// Reads what these accesses, which come next, will need.
    fn read_ahead(&mut self, accesses: &[Access]) {
        self.simulation.read_ahead(accesses);
        let mut lines = [(0, 0); TOGETHER];
        let mut count = 0;
        // Lines of code have no distances, and so are to have no numbers.
        for access in accesses.iter().filter(|access| access.kind != AccessKind::Fetch) {
            let core = self.simulation.machine().core_of(access.thread);
            lines[count] = (core, access.first_byte() >> self.line_shift);
            count += 1;
        }
        self.distances.read_ahead(&lines[..count]);
    }

    fn one(&mut self, access: &Access) {
        let access = Access { address: access.first_byte(), ..*access };
        if access.key as usize >= self.keys.len() {
            self.keys.resize(access.key as usize + 1, KeyLocality::default());
            self.recent_pairs.resize(access.key as usize + 1, 0);
        }
        self.accesses += 1;
        let of_key = &mut self.keys[access.key as usize];
        of_key.walking.add(&access, self.accesses);
        let last = access.address + u64::from(access.bytes.max(1) - 1);
        let lines = access.address >> self.line_shift..=last >> self.line_shift;
        self.failed = lines.map(|line| self.line(&access, line)).find_map(Result::err);
    }

    fn line(&mut self, access: &Access, line: u64) -> Result<(), TooManyLines> {
        let Access { key, thread, .. } = *access;
        let core = self.simulation.machine().core_of(thread);
        let reuse = self.distances.access(core, line, key)?;
        let first = access.address.max(line << self.line_shift);
        let last = (access.address + u64::from(access.bytes.max(1) - 1)).min(((line + 1) << self.line_shift) - 1);
        let part = Access { address: first, bytes: (last - first + 1) as u32, ..*access };
        let nodes = self.asked.as_ref().and_then(|asked| asked.nodes(thread, first));
        let memories = nodes.and_then(|nodes| self.asked.as_ref()?.memories(nodes));
        let cost = self.simulation.cost(&part, memories);
        let cause = match reuse {
            _ if cost.is_from_afar => Cause::Remote,
            _ if cost.coherence > 0 => Cause::Coherence,
            None => Cause::FirstUse,
            Some(reuse) if u64::from(reuse.distance) < self.first_level_lines => Cause::Thrashing,
            Some(_) => Cause::Capacity,
        };
        let distance = reuse.map(|reuse| reuse.distance);
        if let Some(reuse) = reuse {
            let pair = self.pair(reuse.previous.key, key);
            self.pairs[pair].costs.note(&cost, cause, distance);
        }
        let of_key = &mut self.keys[key as usize];
        match distance {
            Some(distance) => of_key.histogram.add(distance.into(), 1.0),
            None => of_key.histogram.add_first(1.0),
        }
        let is_near = match (&self.asked, nodes) {
            (Some(_), nodes) => nodes.map(|(home, node)| home == node),
            (None, _) => Some(self.homes.is_near(core as usize, first)),
        };
        of_key.homed += u64::from(is_near.is_some());
        of_key.near += u64::from(is_near == Some(true));
        of_key.costs.note(&cost, cause, distance);
        Ok(())
    }

    /// Where the pair of these keys is.
    #[inline]
    fn pair(&mut self, before: u32, key: u32) -> usize {
        let recent = self.recent_pairs[key as usize];
        if self.pairs.get(recent).is_some_and(|pair| (pair.before, pair.key) == (before, key)) {
            return recent;
        }
        let place = *self.pair_of.entry((before, key)).or_insert_with(|| {
            self.pairs.push(Pair { before, key, costs: Costs::default() });
            self.pairs.len() - 1
        });
        self.recent_pairs[key as usize] = place;
        place
    }

    /// What was found.
    ///
    /// # Errors
    /// There were too many lines.
    pub fn finish(self) -> Result<LocalityFindings, TooManyLines> {
        let homes = match (&self.asked, self.simulation.machine().memories.len()) {
            (Some(asked), _) => HomesOf::Kernel { has_costs: asked.has_memories() },
            (None, 1) => HomesOf::OneMemory,
            (None, _) => HomesOf::FirstTouch,
        };
        let Self { simulation, keys, pairs, failed, distances, .. } = self;
        match failed {
            Some(error) => Err(error),
            None => Ok(LocalityFindings {
                machine: simulation.machine().clone(),
                homes,
                lines: distances.lines().into(),
                keys,
                pairs,
            }),
        }
    }
}

impl Consumer for Locality {
    fn take(&mut self, accesses: &[Access]) {
        for together in accesses.chunks(TOGETHER) {
            self.read_ahead(together);
            for access in together.iter().filter(|access| access.kind != AccessKind::Fetch) {
                if self.failed.is_some() {
                    return;
                }
                self.one(access);
            }
        }
    }

    fn locate(&mut self, located: &Located<'_>) {
        let machine = self.simulation.machine();
        self.asked.get_or_insert_with(|| Asked::new(machine)).take(located);
    }
}

/// Where homes of pages come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HomesOf {
    /// A kernel told, of most.
    Kernel {
        /// Cycles are of them, too: all nodes are memories of the machine (`node0`, `node1` …). Else cycles, and what is waited
        /// for, are as by first touch.
        has_costs: bool,
    },
    /// Pages live where they are touched first, in the simulation.
    FirstTouch,
    /// The machine has one memory.
    OneMemory,
}

/// What was found.
#[derive(Debug)]
pub struct LocalityFindings {
    /// The machine.
    pub machine: Machine,
    /// Where homes of pages come from.
    pub homes: HomesOf,
    /// Lines that were accessed.
    pub lines: u64,
    /// By key.
    pub keys: Vec<KeyLocality>,
    /// In the order in which they first occurred.
    pub pairs: Vec<Pair>,
}

/// Accesses to a line, by who accessed it before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// Key of the access before.
    pub before: u32,
    /// Key of these.
    pub key: u32,
    /// Their sums.
    pub costs: Costs,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Work;

    const MACHINE: &str = r#"
        name = "small"
        cores = 2
        cache = [{ name = "L1", level = 1, holds = "data", size = 256, line = 64, ways = 2, latency = 2 }]
        memory = [
            { name = "node0", cores = "0", latency = [100, 300] },
            { name = "node1", cores = "1", latency = [300, 100] },
        ]
    "#;

    fn found(accesses: &[(u32, u32, AccessKind, u64)]) -> LocalityFindings {
        let mut locality = Locality::new(&Machine::parse(MACHINE).unwrap()).unwrap();
        let accesses: Vec<Access> = accesses
            .iter()
            .map(|&(thread, key, kind, address)| Access { address, key, bytes: 8, thread, kind, work: Work::USUAL })
            .collect();
        accesses.chunks(3).for_each(|part| locality.take(part));
        locality.finish().unwrap()
    }

    fn costs(count: u64, reuses: u64, distances: u64, cycles: u64, waited: [u64; 5]) -> Costs {
        Costs { count, reuses, distances, cycles, waited }
    }

    /// Two sets of two lines: lines 0, 2, 4, 6 are of one set.
    #[test]
    fn each_cause_by_hand() {
        use AccessKind::{Load, Store};
        // Three lines of one set in turn: two others between, four lines of room, and they are gone.
        let thrashing: Vec<_> = (0..6).map(|n| (0, 7, Load, n % 3 * 128)).collect();
        let found_thrashing = found(&thrashing);
        assert_eq!(found_thrashing.keys[7].costs, costs(6, 3, 6, 600, [294, 294, 0, 0, 0]));
        assert_eq!(found_thrashing.pairs, [Pair { before: 7, key: 7, costs: costs(3, 3, 6, 300, [0, 294, 0, 0, 0]) }]);
        assert_eq!((found_thrashing.lines, found_thrashing.keys[7].near), (3, 6));
        // Eight lines in turn.
        let capacity: Vec<_> = (0..16).map(|n| (0, 0, Load, n % 8 * 64)).collect();
        assert_eq!(found(&capacity).keys[0].costs, costs(16, 8, 56, 1600, [784, 0, 784, 0, 0]));
        // The second core's page is the first one's: each miss of it goes far.
        let remote = found(&[(0, 0, Load, 0), (1, 1, Load, 64), (1, 1, Load, 64), (1, 2, Load, 8192)]);
        assert_eq!(remote.keys[1].costs, costs(2, 1, 0, 302, [0, 0, 0, 0, 298]));
        assert_eq!([remote.keys[0].near, remote.keys[1].near, remote.keys[2].near], [1, 0, 1]);
        // A store takes the line from the other core; it comes back from near memory.
        let shared = found(&[(0, 0, Load, 0), (1, 1, Store, 0), (0, 2, Load, 0), (0, 3, Load, 0)]);
        assert_eq!(shared.keys[2].costs, costs(1, 1, 0, 100, [0, 0, 0, 98, 0]));
        assert_eq!(shared.keys[3].costs, costs(1, 1, 0, 2, [0; 5]));
    }

    #[test]
    fn what_straddles_lines_counts_for_each() {
        let mut locality = Locality::new(&Machine::parse(MACHINE).unwrap()).unwrap();
        let access = Access { address: 60, key: 0, bytes: 8, thread: 0, kind: AccessKind::Modify, work: Work::USUAL };
        locality.take(&[access, access, Access { kind: AccessKind::Fetch, address: 4096, ..access }]);
        let found = locality.finish().unwrap();
        assert_eq!(found.lines, 2, "lines of code are none");
        // A modification is a load, then a store that hits.
        assert_eq!(found.keys[0].costs, costs(4, 2, 2, 2 * 102 + 2 * 4, [196, 0, 0, 0, 0]));
    }

    /// The kernel says otherwise than first touch would have it: page 0 is on the second node, where thread 1 is, and thread 2,
    /// which is simulated on the first core.
    #[test]
    fn homes_that_are_told_are_taken_and_what_is_not_told_is_not_counted() {
        let load =
            |thread, key, address| Access { address, key, bytes: 8, thread, kind: AccessKind::Load, work: Work::USUAL };
        let run = |machine: &str, pages: &[(u64, u32)]| {
            let mut locality = Locality::new(&Machine::parse(machine).unwrap()).unwrap();
            locality.locate(&Located { pages, nodes: &[0, 1], ..Located::default() });
            for thread in [(0, 0), (1, 1), (2, 1)] {
                locality.locate(&Located { thread: Some(thread), ..Located::default() });
            }
            // Each line once: all of memory. Of page 2 and thread 3 nothing is told.
            locality.take(&[load(0, 0, 0), load(1, 1, 64), load(2, 2, 128), load(0, 3, 4096), load(0, 4, 8192)]);
            locality.take(&[load(3, 5, 192)]);
            locality.finish().unwrap()
        };
        let pages = [(0, 1), (4096, 0)];
        let found = run(MACHINE, &pages);
        let counts: Vec<_> = found.keys.iter().map(|key| (key.homed, key.near)).collect();
        assert_eq!(counts, [(1, 0), (1, 1), (1, 1), (1, 1), (0, 0), (0, 0)]);
        let cycles: Vec<u64> = found.keys.iter().map(|key| key.costs.cycles).collect();
        // The last two as if simulated: page 2 is touched first by core 0, page 0 by core 1.
        assert_eq!(cycles, [300, 100, 100, 100, 100, 100]);
        assert_eq!(found.keys[0].costs.waited, [0, 0, 0, 0, 298]);
        assert_eq!(found.homes, HomesOf::Kernel { has_costs: true });
        // Of a machine whose memories are no such nodes the ratio is the same, and cycles are simulated.
        let other = run(&MACHINE.replace("\"node1\"", "\"far\""), &pages);
        assert_eq!(other.homes, HomesOf::Kernel { has_costs: false });
        let counts: Vec<_> = other.keys.iter().map(|key| (key.homed, key.near)).collect();
        assert_eq!(counts, [(1, 0), (1, 1), (1, 1), (1, 1), (0, 0), (0, 0)]);
        let cycles: Vec<u64> = other.keys.iter().map(|key| key.costs.cycles).collect();
        assert_eq!(cycles, [100, 300, 100, 100, 100, 300]);
        assert_eq!(found_without(MACHINE), HomesOf::FirstTouch);
    }

    fn found_without(machine: &str) -> HomesOf {
        Locality::new(&Machine::parse(machine).unwrap()).unwrap().finish().unwrap().homes
    }
}
