//! Lines that several threads access: who accesses which bytes of them.
//!
//! In two passes over the same accesses, as most lines are of one thread and need no more than its number: [`LineFinder`]
//! finds the others, [`SharedLines`] counts their accesses by place and key, and how often two threads took a line from each
//! other: who was the last to store what the other one then lacked, and whether that accessed just these bytes.

mod observed;

use rustc_hash::FxHashMap;

pub use self::observed::ObservedLines;
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
pub fn parts(access: &Access, line_shift: u32) -> impl Iterator<Item = (u64, u32, u32)> {
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

    /// A thread accesses a line. The thread that had it alone, where it is shared from now on.
    fn is_shared_now(&mut self, line: u64, thread: u32, stores: bool) -> Option<u32> {
        let page = self.pages.entry(line / PAGE_LINES as u64);
        let owners = page.or_insert_with(|| Box::new([Owner::NOBODY; PAGE_LINES]));
        let owner = &mut owners[(line % PAGE_LINES as u64) as usize];
        let before = std::mem::replace(owner, owner.after(thread, stores));
        (owner.is_shared() && !before.is_shared()).then_some(before.0 & !Owner::STORED)
    }

    /// Lines that several threads accessed, and one stored to.
    pub fn shared(&self) -> impl Iterator<Item = u64> {
        self.several().filter(|(_, owner)| owner.is_stored()).map(|(line, _)| line)
    }

    /// Lines that several threads accessed.
    fn several(&self) -> impl Iterator<Item = (u64, Owner)> {
        let lines = self.pages.iter().flat_map(|(page, owners)| {
            (0..).zip(owners.iter()).map(move |(place, owner)| (page * PAGE_LINES as u64 + place, *owner))
        });
        lines.filter(|(_, owner)| owner.is_shared())
    }

    /// Lines that several threads only loaded: these share them without harm.
    pub fn only_loaded(&self) -> u64 {
        self.several().filter(|(_, owner)| !owner.is_stored()).count() as u64
    }

    fn owner(&self, line: u64) -> Owner {
        let owners = self.pages.get(&(line / PAGE_LINES as u64));
        owners.map_or(Owner::NOBODY, |owners| owners[(line % PAGE_LINES as u64) as usize])
    }

    /// The second pass over what was found here: lines that several threads accessed, and one stored to. Each of so many
    /// threads has a core with a first level as the machine's for itself.
    ///
    /// # Errors
    /// As [`Machine::check`].
    pub fn finish(self, machine: &Machine, threads: u32) -> Result<SharedLines, MachineError> {
        let simulation = Simulation::new(&of_threads(machine, threads), &Options::default())?;
        let lines = self.shared().map(|line| (line, Box::default())).collect();
        Ok(SharedLines { line_shift: self.line_shift, simulation, lines, only_loaded: self.only_loaded(), live: None })
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
                self.is_shared_now(line, access.thread, access.kind.stores());
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

impl Part {
    /// Its bytes as a mask; of longer lines than 64 bytes a bit is of several.
    pub fn mask(&self, line_bytes: u32) -> u64 {
        let shift = (line_bytes / 64).max(1).trailing_zeros();
        let (first, last) = (self.offset >> shift, (self.offset + self.bytes.max(1) - 1) >> shift);
        (u64::MAX >> (63 - (last - first).min(63))) << first.min(63)
    }
}

/// What two threads took from each other in a line. Bytes are masks as [`Part::mask`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Between {
    /// Times that one accessed what the other one had stored since it had the line.
    pub truly: u64,
    /// These bytes.
    pub true_bytes: u64,
    /// Times that the line was gone for one, as the other one had stored other bytes of it.
    pub falsely: u64,
    /// What the thread with the smaller number accessed then, or had stored; and the other one.
    pub false_bytes: [u64; 2],
}

/// A line that several threads access, and one stores to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedLine {
    /// Its address, in lines.
    pub number: u64,
    /// Accesses, in the order of their parts.
    pub parts: Vec<(Part, Uses)>,
    /// By two threads, the one with the smaller number first, in order.
    pub pairs: Vec<((u32, u32), Between)>,
}

/// A line in the second pass.
#[derive(Debug)]
struct Line {
    parts: FxHashMap<Part, Uses>,
    pairs: FxHashMap<(u32, u32), Between>,
    /// By bit of a mask, who stored it last.
    writers: [u32; 64],
    /// Who stored last, and the last one before that is another.
    last: [u32; 2],
    /// By thread: what others have stored since its last access.
    unseen: Vec<(u32, u64)>,
}

/// No thread.
const NO_ONE: u32 = u32::MAX;

impl Default for Line {
    fn default() -> Self {
        Self {
            parts: FxHashMap::default(),
            pairs: FxHashMap::default(),
            writers: [NO_ONE; 64],
            last: [NO_ONE; 2],
            unseen: Vec::new(),
        }
    }
}

impl Line {
    /// A thread accesses these bytes; the line was gone for it so many times, for their sake and for others'.
    fn access(&mut self, thread: u32, bytes: u64, stores: bool, missed: [u64; 2]) {
        let place = self.unseen.iter().position(|(of, _)| *of == thread).unwrap_or_else(|| {
            self.unseen.push((thread, 0));
            self.unseen.len() - 1
        });
        let unseen = std::mem::take(&mut self.unseen[place].1);
        if missed != [0, 0] {
            self.went(thread, bytes, unseen, missed);
        }
        if stores {
            for (_, unseen) in self.unseen.iter_mut().filter(|(of, _)| *of != thread) {
                *unseen |= bytes;
            }
            bits(bytes).for_each(|bit| self.writers[bit] = thread);
            if self.last[0] != thread {
                self.last = [thread, self.last[0]];
            }
        }
    }

    /// What is known of it, in order.
    fn told(&self, number: u64) -> SharedLine {
        let mut parts: Vec<(Part, Uses)> = self.parts.iter().map(|(part, uses)| (*part, *uses)).collect();
        parts.sort_unstable_by_key(|(part, _)| *part);
        let mut pairs: Vec<_> = self.pairs.iter().map(|(pair, between)| (*pair, *between)).collect();
        pairs.sort_unstable_by_key(|(pair, _)| *pair);
        SharedLine { number, parts, pairs }
    }

    /// The line goes to a thread that had not seen these bytes.
    fn went(&mut self, thread: u32, bytes: u64, unseen: u64, [truly, falsely]: [u64; 2]) {
        let lacked = bytes & unseen;
        let from = match bits(lacked).next() {
            Some(bit) => self.writers[bit],
            None => self.last[usize::from(self.last[0] == thread)],
        };
        if from == NO_ONE || from == thread {
            return;
        }
        let stored = bits(unseen).filter(|&bit| self.writers[bit] == from).fold(0, |mask, bit| mask | 1 << bit);
        let between = self.pairs.entry((thread.min(from), thread.max(from))).or_default();
        between.truly += truly;
        between.falsely += falsely;
        if truly > 0 {
            between.true_bytes |= lacked & stored;
        }
        if falsely > 0 {
            let (own, other) = if thread < from { (0, 1) } else { (1, 0) };
            between.false_bytes[own] |= bytes;
            between.false_bytes[other] |= stored;
        }
    }
}

/// Places of the bits that are set.
fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let bit = (mask != 0).then(|| mask.trailing_zeros() as usize)?;
        mask &= mask - 1;
        Some(bit)
    })
}

/// The second pass: accesses to shared lines. Takes about 500 bytes for each of these, 100 for each part of one that a key
/// accesses, and 60 for each two threads that took one from each other.
#[derive(Debug)]
pub struct SharedLines {
    line_shift: u32,
    simulation: Simulation,
    lines: FxHashMap<u64, Box<Line>>,
    only_loaded: u64,
    /// Finds the lines itself.
    live: Option<Finding>,
}

/// What a single pass needs to find lines: twice as much as a [`LineFinder`].
#[derive(Debug)]
struct Finding {
    finder: LineFinder,
    /// By page and line: accesses while one thread has it.
    alone: FxHashMap<u64, Box<[u32; PAGE_LINES]>>,
}

impl Finding {
    /// As [`LineFinder::is_shared_now`].
    fn is_shared_now(&mut self, line: u64, thread: u32, stores: bool) -> Option<u32> {
        let becomes_shared = self.finder.is_shared_now(line, thread, stores);
        if becomes_shared.is_none() && !self.finder.owner(line).is_shared() {
            let page = self.alone.entry(line / PAGE_LINES as u64).or_insert_with(|| Box::new([0; PAGE_LINES]));
            let count = &mut page[(line % PAGE_LINES as u64) as usize];
            *count = count.saturating_add(1);
        }
        becomes_shared
    }

    /// Accesses to lines that are shared by now, from before they were.
    fn before(&self) -> u64 {
        let alone = |line: u64| {
            let page = self.alone.get(&(line / PAGE_LINES as u64));
            page.map_or(0, |page| u64::from(page[(line % PAGE_LINES as u64) as usize]))
        };
        self.finder.shared().map(alone).sum()
    }
}

/// Cores of a run whose threads are not known before: of more threads some have the same.
const LIVE_CORES: u32 = 64;

impl Consumer for SharedLines {
    fn take(&mut self, accesses: &[Access]) {
        for access in accesses.iter().filter(|access| access.kind != AccessKind::Fetch) {
            let &Access { key, thread, kind, .. } = access;
            for (line, offset, bytes) in parts(access, self.line_shift) {
                let address = (line << self.line_shift) + u64::from(offset);
                let cost = self.simulation.cost(&Access { address, bytes, ..*access }, None);
                if let Some(finding) = &mut self.live
                    && let Some(owner) = finding.is_shared_now(line, thread, kind.stores())
                {
                    // It has seen what there is.
                    self.lines.insert(line, Box::new(Line { unseen: vec![(owner, 0)], ..Line::default() }));
                }
                let Some(line) = self.lines.get_mut(&line) else { continue };
                let part = Part { offset, bytes, key, thread };
                let uses = line.parts.entry(part).or_default();
                uses.loads += u64::from(kind != AccessKind::Store);
                uses.stores += u64::from(kind.stores());
                uses.true_misses += cost.true_sharing;
                uses.false_misses += cost.false_sharing;
                let missed = [cost.true_sharing, cost.false_sharing];
                line.access(thread, part.mask(1 << self.line_shift), kind.stores(), missed);
            }
        }
    }
}

impl SharedLines {
    /// What is found in one pass, where there can be no second one: of each line what happens from when a second thread comes.
    /// Lines that are only loaded are kept, too. Of more than [`LIVE_CORES`] threads several have one first level.
    ///
    /// # Errors
    /// As [`Machine::check`].
    pub fn in_one_pass(machine: &Machine) -> Result<Self, MachineError> {
        let finder = LineFinder::new(machine.line_bytes());
        let simulation = Simulation::new(&of_threads(machine, LIVE_CORES), &Options::default())?;
        let lines = FxHashMap::default();
        let line_shift = finder.line_shift;
        let live = Some(Finding { finder, alone: FxHashMap::default() });
        Ok(Self { line_shift, simulation, lines, only_loaded: 0, live })
    }

    /// Bytes of a line.
    pub fn line_bytes(&self) -> u32 {
        1 << self.line_shift
    }

    /// Lines that several threads only loaded: these share them without harm.
    pub fn only_loaded(&self) -> u64 {
        self.only_loaded + self.live.as_ref().map_or(0, |finding| finding.finder.only_loaded())
    }

    /// Of [one pass](Self::in_one_pass): accesses to lines that are shared, from before a second thread came. Nobody knows
    /// of what they are.
    pub fn before_shared(&self) -> u64 {
        self.live.as_ref().map_or(0, Finding::before)
    }

    /// Whether one stores to the line.
    fn is_stored(&self, line: u64) -> bool {
        self.live.as_ref().is_none_or(|finding| finding.finder.owner(line).is_stored())
    }

    /// Lines in the order of their addresses.
    pub fn lines(&self) -> Vec<SharedLine> {
        let mut lines: Vec<_> = self
            .lines
            .iter()
            .filter(|(line, _)| self.is_stored(**line))
            .map(|(&number, line)| line.told(number))
            .collect();
        lines.sort_unstable_by_key(|line| line.number);
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

    /// For each access to a line that its thread has accessed before: what others stored there since then, by a list of all
    /// accesses. Caches hold all of it, so the line is gone where anybody stored.
    fn by_looking_back(accesses: &[Access]) -> Pairs {
        let mut found = std::collections::BTreeMap::<(u64, (u32, u32)), Between>::new();
        let mut done: Vec<(u64, u32, Vec<u64>, bool)> = Vec::new();
        let of_data = accesses.iter().filter(|access| access.kind != AccessKind::Fetch);
        for (access, (line, first, count)) in
            of_data.flat_map(|access| parts(access, 6).map(move |part| (access, part)))
        {
            let bytes: Vec<u64> = (first..first + count).map(u64::from).collect();
            let before = done.iter().rposition(|(at, thread, ..)| *at == line && *thread == access.thread);
            let since = before.map_or(&[][..], |before| &done[before + 1..]);
            let stores: Vec<_> = since.iter().filter(|(at, .., stores)| *at == line && *stores).collect();
            let last_of = |byte: u64| stores.iter().rev().find(|store| store.2.contains(&byte)).map(|store| store.1);
            let by = |thread| move |byte: &u64| last_of(*byte) == Some(thread);
            let mask = |bytes: Vec<u64>| bytes.into_iter().fold(0, |mask, byte| mask | 1_u64 << byte);
            if let Some(last) = stores.last() {
                let lacked = bytes.iter().find_map(|byte| last_of(*byte));
                let from = lacked.unwrap_or(last.1);
                let between = found.entry((line, (access.thread.min(from), access.thread.max(from)))).or_default();
                if lacked.is_some() {
                    between.truly += 1;
                    between.true_bytes |= mask(bytes.iter().copied().filter(by(from)).collect());
                } else {
                    let own = usize::from(access.thread > from);
                    between.falsely += 1;
                    between.false_bytes[own] |= mask(bytes.clone());
                    between.false_bytes[1 - own] |= mask((0..64).filter(by(from)).collect());
                }
            }
            done.push((line, access.thread, bytes, access.kind.stores()));
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
                Access { address, bytes, thread, key: thread, kind }
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
}
