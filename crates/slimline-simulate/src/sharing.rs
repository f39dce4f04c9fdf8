//! Lines that several threads access: who accesses which bytes of them.
//!
//! In two passes over the same accesses, as most lines are of one thread and need no more than its number: [`LineFinder`]
//! finds the others, [`SharedLines`] counts their accesses by place and key, and how often two threads took a line from each
//! other, and what for: who was the last to store what the other one lacked, and whether that accessed just these bytes while it
//! had the line.

mod line;
mod observed;

use rustc_hash::FxHashMap;

use self::line::{Found, Line};
pub use self::observed::ObservedLines;
use crate::access::{Access, AccessKind, Consumer};
use crate::machine::{Cache, Holds, Inclusion, MOST_CORES, Machine, MachineError, Memory, Sharing};
use crate::simulation::{Cost, Options, Simulation};

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
    /// Times that the line was gone, and came for what is accessed here: another thread had stored it.
    pub true_misses: u64,
    /// Times that the line was gone for these accesses, and was gone again before anything was accessed that others had stored.
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
    /// Times that the line came to one, and that then accessed what the other one had stored.
    pub truly: u64,
    /// What it accessed of that first.
    pub true_bytes: u64,
    /// Times that the line was gone for one, as the other one had stored, and again before it accessed any of what it lacked.
    pub falsely: u64,
    /// What the thread with the smaller number accessed while it had the line, or had stored before; and the other one.
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

/// The second pass: accesses to shared lines. Takes about 500 bytes for each of these, 100 for each thread of one, 100 for each part of one that a key
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
            let core = self.simulation.machine().core_of(thread);
            for (line, offset, bytes) in parts(access, self.line_shift) {
                let address = (line << self.line_shift) + u64::from(offset);
                let cost = self.simulation.cost(&Access { address, bytes, ..*access }, None);
                if let Some(finding) = &mut self.live
                    && let Some(owner) = finding.is_shared_now(line, thread, kind.stores())
                {
                    let owner = self.simulation.machine().core_of(owner);
                    self.lines.insert(line, Box::new(Line::held_by(owner)));
                }
                let Some(line) = self.lines.get_mut(&line) else { continue };
                let found = match cost {
                    Cost { coherence: 1.., .. } => Found::Taken,
                    Cost { misses: 1.., .. } => Found::Absent,
                    _ => Found::Held,
                };
                let part = Part { offset, bytes, key, thread };
                let (loads, stores) = (u64::from(kind != AccessKind::Store), u64::from(kind.stores()));
                let uses = Uses { loads, stores, ..Uses::default() };
                line.access(core, part, part.mask(1 << self.line_shift), uses, found);
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
            .map(|(&number, line)| line.known(number))
            .collect();
        lines.sort_unstable_by_key(|line| line.number);
        lines
    }
}

#[cfg(test)]
mod tests;
