//! Lines that several threads access: who accesses which bytes of them.
//!
//! In two passes over the same accesses, as most lines are of one thread and need no more than its number: [`LineFinder`]
//! finds the others, [`SharedLines`] counts their accesses by place and key.

use rustc_hash::FxHashMap;

use crate::access::{Access, AccessKind, Consumer};
use crate::machine::{Cache, Holds, Inclusion, MOST_CORES, Machine, MachineError, Memory, Sharing};
use crate::simulation::{Options, Simulation};

/// Lines of a page of the first pass' table.
const PAGE_LINES: usize = 64;

/// The first pass: which lines are shared. Takes 300 bytes a page of 64 lines.
#[derive(Debug)]
pub struct LineFinder {
    line_shift: u32,
    pages: FxHashMap<u64, Box<[Owner; PAGE_LINES]>>,
}

/// Who has accessed a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Owner(u32);

impl Owner {
    const NOBODY: Self = Self(u32::MAX);
    /// A thread's number is below.
    const STORED: u32 = 1 << 31;
    const SEVERAL: u32 = Self::STORED - 2;

    fn after(self, thread: u32, stores: bool) -> Self {
        let thread = thread.min(Self::SEVERAL - 1);
        let stored = if stores { Self::STORED } else { 0 };
        match self {
            Self::NOBODY => Self(thread | stored),
            Self(before) if before & !Self::STORED == thread => Self(before | stored),
            Self(before) => Self(before & Self::STORED | Self::SEVERAL | stored),
        }
    }

    fn is_shared(self) -> bool {
        self != Self::NOBODY && self.0 & !Self::STORED == Self::SEVERAL
    }

    fn is_stored(self) -> bool {
        self != Self::NOBODY && self.0 & Self::STORED != 0
    }
}

/// Each line of an access with the part of it, as first byte and length.
fn parts(access: &Access, line_shift: u32) -> impl Iterator<Item = (u64, u32, u32)> {
    let first = access.first_byte();
    let last = first + u64::from(access.bytes.max(1) - 1);
    (first >> line_shift..=last >> line_shift).map(move |line| {
        let start = first.max(line << line_shift);
        let end = last.min(((line + 1) << line_shift) - 1);
        (line, (start - (line << line_shift)) as u32, (end - start + 1) as u32)
    })
}

impl LineFinder {
    /// Has seen nothing; lines have so many bytes, a power of two.
    pub fn new(line_bytes: u32) -> Self {
        Self { line_shift: line_bytes.trailing_zeros(), pages: FxHashMap::default() }
    }

    /// The second pass over what was found here: lines that several threads accessed, and one stored to. Each of so many
    /// threads has a core with a first level as the machine's for itself.
    ///
    /// # Errors
    /// As [`Machine::check`].
    pub fn finish(self, machine: &Machine, threads: u32) -> Result<SharedLines, MachineError> {
        let Self { line_shift, pages } = self;
        let simulation = Simulation::new(&of_threads(machine, threads), &Options::default())?;
        let mut lines = FxHashMap::default();
        let mut only_loaded = 0;
        for (page, owners) in &pages {
            for (place, owner) in (0..).zip(owners.iter()).filter(|(_, owner)| owner.is_shared()) {
                match owner.is_stored() {
                    true => drop(lines.insert(page * PAGE_LINES as u64 + place, FxHashMap::default())),
                    false => only_loaded += 1,
                }
            }
        }
        Ok(SharedLines { line_shift, simulation, lines, only_loaded })
    }
}

/// A core and a first level for each thread.
fn of_threads(machine: &Machine, threads: u32) -> Machine {
    let cores = threads.clamp(1, MOST_CORES);
    let first = machine.path(false).first().map(|&cache| Cache {
        level: 1,
        holds: Holds::Data,
        inclusion: Inclusion::Neither,
        sharing: Sharing::groups(cores, 1),
        ..machine.caches[cache].clone()
    });
    Machine {
        cores,
        caches: first.into_iter().collect(),
        tlbs: Vec::new(),
        memories: vec![Memory {
            name: "memory".to_owned(),
            bytes: None,
            cores: (0..cores).collect(),
            latency_cycles: vec![machine.memories.first().map_or(0, |memory| memory.latency_cycles[0])],
        }],
        counting: crate::machine::Counting::Lines,
        ..machine.clone()
    }
}

impl Consumer for LineFinder {
    fn take(&mut self, accesses: &[Access]) {
        for access in accesses.iter().filter(|access| access.kind != AccessKind::Fetch) {
            for (line, ..) in parts(access, self.line_shift) {
                let page = self.pages.entry(line / PAGE_LINES as u64);
                let owners = page.or_insert_with(|| Box::new([Owner::NOBODY; PAGE_LINES]));
                let owner = &mut owners[(line % PAGE_LINES as u64) as usize];
                *owner = owner.after(access.thread, access.kind.stores());
            }
        }
    }
}

/// Accesses to a part of a line with one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Part {
    /// First byte in the line.
    pub offset: u32,
    /// How many.
    pub bytes: u32,
    /// The accesses' key.
    pub key: u32,
    /// Their thread.
    pub thread: u32,
}

/// How often.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Uses {
    /// Loads; a modification is a load and a store.
    pub loads: u64,
    /// Stores.
    pub stores: u64,
    /// Times that the line was gone, as another thread had stored what is accessed.
    pub true_misses: u64,
    /// The same where it had stored other bytes of the line.
    pub false_misses: u64,
}

impl Uses {
    /// Adds others.
    pub fn add(&mut self, other: Self) {
        self.loads += other.loads;
        self.stores += other.stores;
        self.true_misses += other.true_misses;
        self.false_misses += other.false_misses;
    }

    /// Loads and stores.
    pub fn count(self) -> u64 {
        self.loads + self.stores
    }
}

/// The second pass: accesses to shared lines. Takes about 100 bytes for each part of a line that a key accesses.
#[derive(Debug)]
pub struct SharedLines {
    line_shift: u32,
    simulation: Simulation,
    lines: FxHashMap<u64, FxHashMap<Part, Uses>>,
    only_loaded: u64,
}

impl Consumer for SharedLines {
    fn take(&mut self, accesses: &[Access]) {
        for access in accesses.iter().filter(|access| access.kind != AccessKind::Fetch) {
            let &Access { key, thread, kind, .. } = access;
            for (line, offset, bytes) in parts(access, self.line_shift) {
                let address = (line << self.line_shift) + u64::from(offset);
                let cost = self.simulation.cost(&Access { address, bytes, ..*access });
                let Some(line) = self.lines.get_mut(&line) else { continue };
                let uses = line.entry(Part { offset, bytes, key, thread }).or_default();
                uses.loads += u64::from(kind != AccessKind::Store);
                uses.stores += u64::from(kind.stores());
                uses.true_misses += cost.true_sharing;
                uses.false_misses += cost.false_sharing;
            }
        }
    }
}

impl SharedLines {
    /// Bytes of a line.
    pub fn line_bytes(&self) -> u32 {
        1 << self.line_shift
    }

    /// Lines that several threads only loaded: these share them without harm.
    pub fn only_loaded(&self) -> u64 {
        self.only_loaded
    }

    /// Lines in the order of their addresses, with their parts in order.
    pub fn lines(&self) -> Vec<(u64, Vec<(Part, Uses)>)> {
        let mut lines: Vec<_> = self
            .lines
            .iter()
            .map(|(line, parts)| {
                let mut parts: Vec<(Part, Uses)> = parts.iter().map(|(part, uses)| (*part, *uses)).collect();
                parts.sort_unstable_by_key(|(part, _)| *part);
                (*line, parts)
            })
            .collect();
        lines.sort_unstable_by_key(|(line, _)| *line);
        lines
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn kinds() -> impl Strategy<Value = AccessKind> {
        prop_oneof![Just(AccessKind::Load), Just(AccessKind::Store), Just(AccessKind::Modify), Just(AccessKind::Fetch)]
    }

    #[test]
    fn who_takes_lines_from_whom() {
        use AccessKind::{Load, Modify, Store};
        let access = |thread, kind, address| Access { address, bytes: 8, thread, key: thread, kind };
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
        let expected =
            vec![(part(0, 0), uses(4, 4, 0, 2)), (part(2, 0), uses(2, 0, 1, 0)), (part(1, 8), uses(2, 2, 0, 1))];
        assert_eq!(shared.lines(), [(0, expected)]);
    }

    proptest! {
        /// As a list of all accesses tells.
        #[test]
        fn as_a_list_tells(
            accesses in prop::collection::vec((0_u64..600, 1_u32..40, 0_u32..3, kinds()), 0..60),
        ) {
            let accesses: Vec<Access> = accesses.into_iter().map(|(address, bytes, thread, kind)| {
                Access { address, bytes, thread, key: thread * 10, kind }
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
            let found: Vec<_> = shared.lines().into_iter().map(|(line, parts)| {
                let mut sum = Uses::default();
                for (part, uses) in parts {
                    assert!(part.offset + part.bytes <= 64);
                    sum.add(uses);
                }
                (line, sum.loads, sum.stores)
            }).collect();
            prop_assert_eq!(found, expected);
            prop_assert_eq!(shared.only_loaded(), only_loaded);
        }
    }
}
