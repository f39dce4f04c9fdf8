//! What threads share, of a run that was sampled: of bursts, each of them consecutive accesses of one thread, or where there are
//! none of single samples.
//!
//! Each is a look at one thread at one time:
//!
//! ```text
//!   thread 1   ··S S··············S··········S S·······     S  a burst that stores to the line
//!   thread 2   ········S S·S··············S············
//!                     └ 1┘       └ 2┘     └ 3┘ └ 4┘         the line went over, at least once each
//! ```
//!
//! Each time that is seen stands for one or more, however much happened in between: so sharing is told from
//! [`LEAST_HAND_OVERS`](crate::sharing::LEAST_HAND_OVERS) of these times on, as of a trace. It is as sure as the bursts are: a burst
//! begins when its thread is stopped and goes ahead in memory as it is then, so where the thread branches on what others change it
//! may really go elsewhere; and two that overlap are in the order in which they begin. How often the line really went is not
//! known; what it costs is the share of the samples in what was shared. Where one thread was seen before and after another one, but
//! not often enough, it is asked whether two threads that were at it alike would have been seen in turn often enough (`enough`).
//!
//! In two passes, as most lines are of one thread: the first one needs no names. Lines of memory that processes share are looked up by
//! addresses that all of them have in common ([`CommonMemory`]).

mod common_memory;
mod enough;
mod overlap;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::{FxHashMap, FxHashSet};
use slimline_attribute::resolver::PartTables;
use slimline_attribute::tables::Tables;
use slimline_simulate::access::{Access, AccessKind, Consumer as _, Work};
use slimline_simulate::sharing::{LineFinder, ObservedLines, Part, SharedLine, Uses, parts};
use slimline_trace::access::{self, AccessBatch, GroupId, SiteId, ThreadId};
use slimline_trace::tables::Mappings;

use self::common_memory::CommonMemory;
pub use self::enough::ENOUGH_LOOKS;
use self::enough::{Needed, User, more_looks};
use self::overlap::{Looked, overlap};
use crate::origins::Origins;
use crate::sampled_origins::{self, SampledKey};
use crate::share::{Clusters, Share, Tally, Wholes};
use crate::sharing::{LEAST_COST, Member, SharingFindings, findings};

/// The first pass: which lines several threads were seen at.
#[derive(Debug)]
pub struct SampledLines {
    line_bytes: u32,
    /// By process.
    finders: Vec<LineFinder>,
    /// Of memory that processes share, by addresses that are common to them …
    common: CommonMemory,
    common_finder: LineFinder,
    /// … and numbers of threads that are.
    threads: FxHashMap<(usize, u32), u32>,
    has_bursts: bool,
}

impl SampledLines {
    /// Has seen nothing; lines have so many bytes, a power of two.
    pub fn new(line_bytes: u32) -> Self {
        Self {
            line_bytes,
            finders: Vec::new(),
            common: CommonMemory::default(),
            common_finder: LineFinder::new(line_bytes),
            threads: FxHashMap::default(),
            has_bursts: false,
        }
    }

    /// Says what the next process has mapped. Of one of which that is not said, nothing is shared with others.
    pub fn add_process(&mut self, mappings: &Mappings) {
        self.common.add_process(mappings);
    }

    /// Takes in a part of a process, which are counted from 0.
    pub fn update(&mut self, process: usize, part: PartTables<'_>) {
        while self.finders.len() <= process {
            self.finders.push(LineFinder::new(self.line_bytes));
        }
        let PartTables { samples, accesses, .. } = part;
        self.has_bursts |= !accesses.is_empty();
        let (mut seen, mut common) = (Vec::new(), Vec::new());
        for (row, window) in samples.windows() {
            let (thread, time_ns) = (samples.thread[row].index() as u32, samples.time_ns[row]);
            seen.extend(accessed(samples.address[row].0, samples.access_bytes[row], samples.kind[row], thread));
            for row in window {
                seen.extend(accessed(accesses.address[row].0, accesses.bytes[row], accesses.kind[row], thread));
            }
            if self.common.has_any(process) {
                let next = self.threads.len() as u32;
                let thread = *self.threads.entry((process, thread)).or_insert(next);
                seen.retain(|access| {
                    let address = self.common.address(process, access.address, time_ns);
                    common.extend(address.map(|address| Access { address, thread, ..*access }));
                    address.is_none()
                });
                self.common_finder.take(&common);
                common.clear();
            }
            self.finders[process].take(&seen);
            seen.clear();
        }
    }

    /// The second pass.
    pub fn finish(self) -> SampledSharing {
        let Self { line_bytes, finders, common, common_finder, has_bursts, .. } = self;
        SampledSharing {
            line_bytes,
            shared: finders.iter().map(|finder| finder.shared().collect()).collect(),
            common,
            common_lines: common_finder.shared().collect(),
            only_loaded: finders.iter().chain([&common_finder]).map(LineFinder::only_loaded).sum(),
            has_bursts,
            keys: FxHashMap::default(),
            spots: Vec::new(),
            lines: FxHashMap::default(),
            looks: Vec::new(),
            windows: Vec::new(),
            samples: Vec::new(),
            weight: Tally::default(),
            threads: BTreeMap::new(),
            timeless: 0,
        }
    }
}

/// An access as lines are found by; None where nothing is known of it.
fn accessed(address: u64, bytes: u16, kind: access::AccessKind, thread: u32) -> Option<Access> {
    let kind = match (kind.loads(), kind.stores()) {
        (false, false) => return None,
        (true, false) => AccessKind::Load,
        (false, true) => AccessKind::Store,
        (true, true) => AccessKind::Modify,
    };
    (address != 0).then_some(Access { address, key: 0, bytes: bytes.into(), thread, kind, work: Work::USUAL })
}

/// A part of a line, as one instruction of one thread accesses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Spot {
    /// Number of the line among [`SampledSharing::lines`].
    line: u32,
    offset: u32,
    bytes: u32,
    thread: ThreadId,
    site: SiteId,
    group: GroupId,
    /// Of its first byte in the object.
    object_offset: u64,
}

/// What one look saw of one spot.
#[derive(Clone, Copy, Debug)]
struct Look {
    time_ns: u64,
    window: u32,
    key: u32,
    loads: u32,
    stores: u32,
}

/// The second pass. Takes 24 bytes for each part of a shared line that a look sees, and 100 for each that an instruction of a
/// thread ever accesses.
#[derive(Debug)]
pub struct SampledSharing {
    line_bytes: u32,
    /// By process.
    shared: Vec<FxHashSet<u64>>,
    common: CommonMemory,
    /// By common addresses.
    common_lines: FxHashSet<u64>,
    only_loaded: u64,
    has_bursts: bool,
    keys: FxHashMap<Spot, u32>,
    spots: Vec<Spot>,
    /// By process and line.
    lines: FxHashMap<(usize, u64), u32>,
    looks: Vec<Look>,
    /// Loads and stores that each look saw.
    windows: Vec<u32>,
    /// Of samples in shared lines: which, and their weight.
    samples: Vec<(u32, u64)>,
    weight: Tally,
    threads: BTreeMap<ThreadId, Looked>,
    timeless: u64,
}

/// What was found in samples.
#[derive(Clone, Debug)]
pub struct SampledFindings {
    /// As of a trace. Counts are of what was seen; times that a line was gone are the least.
    pub found: SharingFindings,
    /// What the keys in it are.
    pub origins: Origins,
    /// Bytes of a line.
    pub line_bytes: u32,
    /// Lines that several threads were only seen to load.
    pub only_loaded: u64,
    /// How much was seen.
    pub evidence: Evidence,
    /// Of each of `found.shared`.
    pub of_shared: Vec<Sampled>,
    /// Of each of `found.falsely`.
    pub of_falsely: Vec<Sampled>,
    /// Where more has to be seen.
    pub undecided: Undecided,
}

/// How much was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Whether looks are bursts, and not single samples.
    pub is_bursts: bool,
    /// Looks at threads that saw any access.
    pub looks: u64,
    /// Loads and stores that they saw.
    pub accesses: u64,
    /// Threads that were looked at.
    pub threads: u64,
    /// Looks of which nobody knows when they were.
    pub timeless: u64,
    /// Which part of what all threads did, but for the one with most looks, they did while another one of their process, or of one that shares
    /// memory with it, was at it, too, each from its first look to its last; none where there is one thread.
    pub overlap: Option<f64>,
}

/// Shares that samples tell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sampled {
    /// Of the loads and stores that were seen.
    pub accesses: Share,
    /// Of the weight of all samples.
    pub weight: Share,
}

impl Sampled {
    /// Whether it surely costs too little to change anything for it.
    pub fn is_rare(&self) -> bool {
        self.weight.high < LEAST_COST
    }
}

/// Lines where a thread was seen before and after another one, and one of them to store, too rarely to tell.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Undecided {
    /// How many.
    pub lines: u64,
    /// What is in them, most looks first.
    pub members: Vec<Member>,
    /// Looks at the run, as they were taken, with which all of them would be told.
    pub needed_looks: u64,
}

impl SampledSharing {
    /// Takes in a batch of a process.
    pub fn update(&mut self, process: usize, batch: &AccessBatch) {
        let Some(thread) = batch.thread else { return };
        let mut seen: FxHashMap<u32, (u32, u32)> = FxHashMap::default();
        for (index, window) in batch.windows.iter().enumerate() {
            let mut size = 0;
            for row in batch.window_rows(index) {
                let evidence = batch.evidence[row];
                if evidence.has_cost() {
                    self.weight.add(batch.weight[row]);
                }
                let Some(access) = accessed(batch.address[row].0, batch.bytes[row], batch.kind[row], thread.0) else {
                    continue;
                };
                // Of a run with bursts samples tell costs; when those were that a burst has before it is not known.
                let is_seen = if self.has_bursts { evidence.is_execution() } else { evidence.has_cost() };
                let (loads, stores) = (u32::from(access.kind != AccessKind::Store), u32::from(access.kind.stores()));
                size += if is_seen { loads + stores } else { 0 };
                let mut is_first = true;
                let common = self.common.address(process, access.address, window.time_ns);
                let access = Access { address: common.unwrap_or(access.address), ..access };
                for (line, offset, bytes) in parts(&access, self.line_bytes.trailing_zeros()) {
                    let (shared, process) = match common {
                        Some(_) => (Some(&self.common_lines), CommonMemory::OF_NO_PROCESS),
                        None => (self.shared.get(process), process),
                    };
                    if !shared.is_some_and(|shared| shared.contains(&line)) {
                        continue;
                    }
                    let start = line * u64::from(self.line_bytes) + u64::from(offset);
                    let next = self.lines.len() as u32;
                    let line = *self.lines.entry((process, line)).or_insert(next);
                    let object_offset = batch.offset[row].wrapping_add(start.wrapping_sub(access.address));
                    let (site, group) = (batch.site[row], batch.group[row]);
                    let key = self.key(Spot { line, offset, bytes, thread, site, group, object_offset });
                    if evidence.has_cost() && std::mem::take(&mut is_first) {
                        self.samples.push((key, batch.weight[row]));
                    }
                    if is_seen {
                        let sums = seen.entry(key).or_default();
                        *sums = (sums.0 + loads, sums.1 + stores);
                    }
                }
            }
            if size == 0 {
                continue;
            }
            let company = self.common.company(process);
            self.threads.entry(thread).or_insert_with(|| Looked::never(process, company)).look(window.time_ns);
            let number = self.windows.len() as u32;
            self.windows.push(size);
            if window.time_ns == 0 {
                self.timeless += 1;
                seen.clear();
            }
            let look = |(key, (loads, stores))| Look { time_ns: window.time_ns, window: number, key, loads, stores };
            self.looks.extend(seen.drain().map(look));
        }
    }

    fn key(&mut self, spot: Spot) -> u32 {
        let next = self.spots.len() as u32;
        let key = *self.keys.entry(spot).or_insert(next);
        if key == next {
            self.spots.push(spot);
        }
        key
    }

    /// Answers.
    pub fn finish(mut self, tables: &Tables) -> SampledFindings {
        self.looks
            .sort_unstable_by_key(|look| (look.time_ns, look.window, self.spots[look.key as usize].line, look.key));
        let origins = self.origins(tables);
        let (lines, users) = self.observed();
        let found = findings(&lines, self.line_bytes, &origins);
        let mut wholes = Wholes::default();
        self.windows.iter().for_each(|&size| wholes.add(size.into()));
        let of_shared: Vec<&BTreeSet<u32>> = found.shared.iter().map(|row| &row.keys).collect();
        let of_falsely: Vec<&BTreeSet<u32>> = found.falsely.iter().map(|row| &row.keys).collect();
        let undecided = self.undecided(&users, &of_shared, &of_falsely, &origins);
        let of_shared = self.shares(&of_shared, &wholes);
        let of_falsely = self.shares(&of_falsely, &wholes);
        let evidence = Evidence {
            is_bursts: self.has_bursts,
            looks: wholes.count,
            accesses: wholes.sizes,
            threads: self.threads.len() as u64,
            timeless: self.timeless,
            overlap: overlap(self.threads.values()),
        };
        let Self { line_bytes, only_loaded, .. } = self;
        SampledFindings { found, origins, line_bytes, only_loaded, evidence, of_shared, of_falsely, undecided }
    }

    /// All lines as they were seen, and who was seen at each, in the order of looks.
    fn observed(&self) -> (Vec<SharedLine>, BTreeMap<u32, Vec<User>>) {
        let mut lines = ObservedLines::default();
        let mut users: BTreeMap<u32, Vec<User>> = BTreeMap::new();
        let of = |look: &Look| self.spots[look.key as usize];
        for of_line in self.looks.chunk_by(|a, b| (a.window, of(a).line) == (b.window, of(b).line)) {
            let Spot { line, thread, .. } = of(&of_line[0]);
            let part = |look: &Look| {
                let Spot { offset, bytes, thread, .. } = of(look);
                let uses = Uses { loads: look.loads.into(), stores: look.stores.into(), ..Uses::default() };
                (Part { offset, bytes, key: look.key, thread: thread.0 }, uses)
            };
            let seen: Vec<(Part, Uses)> = of_line.iter().map(part).collect();
            lines.look(line.into(), self.line_bytes, &seen);
            let stores = seen.iter().any(|(_, uses)| uses.stores > 0);
            users.entry(line).or_default().push(User { thread, stores });
        }
        (lines.lines(), users)
    }

    fn shares(&self, rows: &[&BTreeSet<u32>], wholes: &Wholes) -> Vec<Sampled> {
        let mut rows_of: FxHashMap<u32, Vec<usize>> = FxHashMap::default();
        for (row, keys) in rows.iter().enumerate() {
            keys.iter().for_each(|key| rows_of.entry(*key).or_default().push(row));
        }
        let mut clusters = vec![Clusters::default(); rows.len()];
        let mut weights = vec![Tally::default(); rows.len()];
        for of_window in self.looks.chunk_by(|a, b| a.window == b.window) {
            let mut parts: BTreeMap<usize, u64> = BTreeMap::new();
            for look in of_window {
                for row in rows_of.get(&look.key).into_iter().flatten() {
                    *parts.entry(*row).or_default() += u64::from(look.loads) + u64::from(look.stores);
                }
            }
            let size = u64::from(self.windows[of_window[0].window as usize]);
            parts.into_iter().for_each(|(row, part)| clusters[row].add(part, size));
        }
        for (key, weight) in &self.samples {
            rows_of.get(key).into_iter().flatten().for_each(|row| weights[*row].add(*weight));
        }
        let share = |(clusters, weight): (&Clusters, &Tally)| Sampled {
            accesses: clusters.share_of(wholes),
            weight: weight.share_of(&self.weight),
        };
        clusters.iter().zip(&weights).map(share).collect()
    }

    fn undecided(
        &self,
        users: &BTreeMap<u32, Vec<User>>,
        shared: &[&BTreeSet<u32>],
        falsely: &[&BTreeSet<u32>],
        origins: &Origins,
    ) -> Undecided {
        let told = shared.iter().chain(falsely).flat_map(|keys| keys.iter());
        let told: FxHashSet<u32> = told.map(|key| self.spots[*key as usize].line).collect();
        let mut looks: FxHashMap<u32, u64> = FxHashMap::default();
        let mut needed_looks = 0;
        for (line, users) in users.iter().filter(|(line, _)| !told.contains(line)) {
            if let Some(Needed { looks: needed, of }) = more_looks(users) {
                needed_looks = needed_looks.max((self.windows.len() as u64).saturating_mul(needed).div_ceil(of));
                looks.insert(*line, users.len() as u64);
            }
        }
        let mut members: BTreeMap<Member, u64> = BTreeMap::new();
        for (spot, origin) in self.spots.iter().zip(origins.keys()) {
            if let Some(looks) = looks.get(&spot.line) {
                let most = members.entry((origin.data, origin.field)).or_default();
                *most = (*most).max(*looks);
            }
        }
        let mut members: Vec<(Member, u64)> = members.into_iter().collect();
        members.sort_by_key(|(_, looks)| Reverse(*looks));
        Undecided {
            lines: looks.len() as u64,
            members: members.into_iter().map(|(member, _)| member).collect(),
            needed_looks,
        }
    }

    fn origins(&self, tables: &Tables) -> Origins {
        let keys = self.spots.iter().map(|spot| SampledKey {
            thread: spot.thread,
            region: 0,
            site: spot.site,
            group: tables.sole_owner(spot.group, spot.site),
            object_offset: spot.object_offset,
            ranges: 0,
            accesses: 0,
        });
        // Of threads that were never looked at there is no key.
        sampled_origins::origins(tables, keys, |thread| {
            self.threads.get(&thread).map_or(0, |looked| looked.process as u32)
        })
    }
}

#[cfg(test)]
mod tests;
