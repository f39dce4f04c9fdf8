//! Threads: which of them use a data structure, and whether several do so at once while one of them stores.
//!
//! A layout is judged here as if one thread used it. Where that is not so its lines may travel between cores, which no
//! count of lines tells. This analysis does not judge what that costs; it finds out where the others must not claim
//! that all is well.

use std::collections::BTreeMap;

use slimline_attribute::tables::{GroupKind, Tables};
use slimline_trace::access::{AccessBatch, AccessKind, GroupId, ThreadId, WindowId};

use crate::analysis::{Analysis, Order, ShardInfo};
use crate::bottom::{Add, Bottom, mix};
use crate::fields::LINE_BYTES;

/// Cache lines of a group of which is kept who used them: enough to meet some again in an array of megabytes.
const LINES: usize = 256;
/// Threads kept of each line.
const USERS: usize = 4;
/// Part of a group's time, or of its accesses, from which a thread counts as a user of it.
const LEAST_PART: f64 = 0.01;
/// Lines that must have been met again, none by another thread, before threads are taken to keep to lines of their
/// own: of two that use all lines alike, this many would be met by one of them alone once in a million.
const ENOUGH_LINES: usize = 20;

/// The analysis.
#[derive(Clone, Copy, Debug, Default)]
pub struct Threads;

/// What a shard remembers, by group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ThreadState {
    groups: Vec<Users>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct Users {
    threads: BTreeMap<ThreadId, Use>,
    lines: Bottom<Line, LINES>,
}

/// What a thread does to a group.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Use {
    weight: u64,
    loads: u64,
    stores: u64,
    used: Span,
    stored: Span,
}

/// First and last moment of something; none yet where it ends before it begins.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Span {
    from_ns: u64,
    until_ns: u64,
}

impl Default for Span {
    fn default() -> Self {
        Self { from_ns: u64::MAX, until_ns: 0 }
    }
}

impl Span {
    fn extend(&mut self, other: Self) {
        self.from_ns = self.from_ns.min(other.from_ns);
        self.until_ns = self.until_ns.max(other.until_ns);
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.from_ns.max(other.from_ns) <= self.until_ns.min(other.until_ns)
    }
}

/// Who used a cache line.
#[derive(Clone, Debug, Default, PartialEq)]
struct Line {
    users: Bottom<Seen, USERS>,
    storers: Bottom<Seen, USERS>,
    /// First and last window that showed it, both with 1 added.
    windows: (u32, u32),
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Seen;

impl Add for Seen {
    fn add(&mut self, _: Self) {}
}

impl Add for Line {
    fn add(&mut self, other: Self) {
        self.users.merge(other.users);
        self.storers.merge(other.storers);
        self.windows = match (self.windows, other.windows) {
            ((0, _), windows) | (windows, (0, _)) => windows,
            (a, b) => (a.0.min(b.0), a.1.max(b.1)),
        };
    }
}

impl Line {
    fn note(&mut self, thread: ThreadId, kind: AccessKind, window: WindowId) {
        let number = window.0.saturating_add(1);
        self.users.add(u64::from(thread.0), Seen);
        if kind.stores() {
            self.storers.add(u64::from(thread.0), Seen);
        }
        let first = if self.windows.0 == 0 { number } else { self.windows.0.min(number) };
        self.windows = (first, self.windows.1.max(number));
    }

    fn was_met_again(&self) -> bool {
        self.windows.0 != self.windows.1
    }
}

/// How threads use a group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupThreads {
    /// Those that have a hundredth of its time, or of its accesses, or more; by time and accesses, the busiest first.
    pub threads: Vec<ThreadUse>,
    /// Whether they do so at the same time, and one stores; `None` where not.
    pub sharing: Option<Sharing>,
}

/// How a thread uses a group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ThreadUse {
    /// The thread.
    pub thread: ThreadId,
    /// Its share of the group's weight.
    pub share: f64,
    /// Loads seen in windows.
    pub loads: u64,
    /// Stores seen in windows.
    pub stores: u64,
}

/// Several threads of one process use a group at the same time, and at least one of them stores to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharing {
    /// Cache lines that were looked at: all that were accessed, or a random part of them.
    pub lines: usize,
    /// Those that more than one window showed.
    pub met_again: usize,
    /// Those that one thread stored to and another one used.
    pub shared: usize,
}

/// What the lines tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// Lines were seen that one thread stored to and another one used.
    Shared,
    /// Of many lines that were met again, none was seen so.
    Apart,
    /// Too few were met again.
    Unknown,
}

impl Sharing {
    /// What the lines tell.
    pub fn evidence(&self) -> Evidence {
        match (self.shared, self.met_again) {
            (1.., _) => Evidence::Shared,
            (0, ENOUGH_LINES..) => Evidence::Apart,
            (0, _) => Evidence::Unknown,
        }
    }
}

impl Analysis for Threads {
    const ORDER: Order = Order::AnyChunk;
    type State = ThreadState;
    type Findings = BTreeMap<GroupId, GroupThreads>;

    fn start(&self, _: &ShardInfo) -> ThreadState {
        ThreadState::default()
    }

    fn update(&self, state: &mut ThreadState, batch: &AccessBatch) {
        let Some(thread) = batch.thread else { return };
        for (index, window) in batch.windows.iter().enumerate() {
            let now = Span { from_ns: window.time_ns, until_ns: window.time_ns };
            for row in batch.window_rows(index) {
                let (kind, object) = (batch.kind[row], batch.object[row].0);
                // Object 0 is none that is known.
                if object == 0 || !(kind.loads() || kind.stores()) {
                    continue;
                }
                let group = batch.group[row].index();
                if group >= state.groups.len() {
                    state.groups.resize_with(group + 1, Users::default);
                }
                let users = &mut state.groups[group];
                let of_thread = users.threads.entry(thread).or_default();
                of_thread.weight += batch.weight[row];
                of_thread.used.extend(now);
                if kind.stores() {
                    of_thread.stored.extend(now);
                }
                if batch.evidence[row].is_execution() {
                    of_thread.loads += u64::from(kind.loads());
                    of_thread.stores += u64::from(kind.stores());
                }
                // An address may be one object's first and another one's later, or another process's.
                let key = (batch.address[row].0 / LINE_BYTES) ^ mix(u64::from(object));
                if let Some(line) = users.lines.of(key) {
                    line.note(thread, kind, window.id);
                }
            }
        }
    }

    fn merge(&self, into: &mut ThreadState, from: ThreadState) {
        if into.groups.len() < from.groups.len() {
            into.groups.resize_with(from.groups.len(), Users::default);
        }
        for (into, from) in into.groups.iter_mut().zip(from.groups) {
            into.merge(from);
        }
    }

    fn finish(&self, state: ThreadState, tables: &Tables) -> BTreeMap<GroupId, GroupThreads> {
        let mut groups: BTreeMap<GroupId, Users> = BTreeMap::new();
        for (group, users) in (0..).map(GroupId).zip(state.groups) {
            groups.entry(tables.inferred.only_owner(group)).or_default().merge(users);
        }
        groups
            .into_iter()
            .filter(|(_, users)| !users.threads.is_empty())
            .map(|(group, users)| {
                let threads = users.counting();
                // Stacks and thread-local data are each thread's own, whatever their group is.
                let is_private = matches!(tables.group(group).kind, GroupKind::Stack | GroupKind::ThreadLocal);
                let sharing = if is_private { None } else { users.sharing(&threads, tables) };
                (group, GroupThreads { threads, sharing })
            })
            .collect()
    }
}

impl Users {
    fn merge(&mut self, from: Self) {
        for (thread, used) in from.threads {
            let of_thread = self.threads.entry(thread).or_default();
            of_thread.weight += used.weight;
            of_thread.loads += used.loads;
            of_thread.stores += used.stores;
            of_thread.used.extend(used.used);
            of_thread.stored.extend(used.stored);
        }
        self.lines.merge(from.lines);
    }

    /// Threads that count, the busiest first.
    fn counting(&self) -> Vec<ThreadUse> {
        let sum = |of: fn(&Use) -> u64| self.threads.values().map(of).sum::<u64>();
        let (weight, accesses) = (sum(|used| used.weight), sum(|used| used.loads + used.stores));
        let part = |of: u64, whole: u64| if whole > 0 { of as f64 / whole as f64 } else { 0.0 };
        let busy = |used: &Use| part(used.weight, weight).max(part(used.loads + used.stores, accesses));
        let mut counting: Vec<(ThreadId, &Use)> = self.threads.iter().map(|(&thread, used)| (thread, used)).collect();
        counting.retain(|(_, used)| busy(used) >= LEAST_PART);
        counting.sort_by(|a, b| busy(b.1).total_cmp(&busy(a.1)).then(a.0.cmp(&b.0)));
        let view = |(thread, used): (ThreadId, &Use)| ThreadUse {
            thread,
            share: part(used.weight, weight),
            loads: used.loads,
            stores: used.stores,
        };
        counting.into_iter().map(view).collect()
    }

    fn sharing(&self, counting: &[ThreadUse], tables: &Tables) -> Option<Sharing> {
        let is_counting = |thread: ThreadId| counting.iter().any(|used| used.thread == thread);
        // Whether `a` stores while `b` uses the group: what one thread prepares for another one later is handed over.
        let at_once = |a: ThreadId, b: ThreadId| {
            a != b
                && tables.thread(a).pid == tables.thread(b).pid
                && is_counting(a)
                && is_counting(b)
                && self.threads[&a].stored.overlaps(&self.threads[&b].used)
        };
        let several = counting.iter().any(|a| counting.iter().any(|b| at_once(a.thread, b.thread)));
        several.then(|| {
            let threads = |of: &Bottom<Seen, USERS>| of.iter().map(|(id, _)| ThreadId(id as u32)).collect::<Vec<_>>();
            let is_shared = |line: &Line| {
                let users = threads(&line.users);
                threads(&line.storers).iter().any(|&a| users.iter().any(|&b| at_once(a, b)))
            };
            let lines = || self.lines.iter().map(|(_, line)| line);
            Sharing {
                lines: lines().count(),
                met_again: lines().filter(|line| line.was_met_again()).count(),
                shared: lines().filter(|line| is_shared(line)).count(),
            }
        })
    }
}
