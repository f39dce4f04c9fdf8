//! A profile as a whole: all threads, by region and as a call graph.

use std::collections::{BTreeMap, HashMap};

use crate::cost::Cost;
use crate::kind::Kind;
use crate::path::{Node, PathId, Paths, Place, ROOT, Region};
use crate::times::Times;

/// A thread of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// The TID of tables: the initial thread's is 0, a worker's its number in the first team that it was in where that is free.
    pub number: u32,
    /// Its number in the kernel.
    pub kernel_id: u32,
}

/// What was counted on one path by one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// The path, which is one of the profile's.
    pub path: PathId,
    /// The thread's number.
    pub thread: u32,
    /// What was counted.
    pub times: Times,
}

/// A stretch of the process's memory that has what is in a file, and that it may not write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Its first address.
    pub start: u64,
    /// The address behind it.
    pub end: u64,
    /// Where it begins in the file, in bytes.
    pub offset: u64,
    /// Its code may be executed. A translator may say so of no code.
    pub is_code: bool,
    /// The file.
    pub path: String,
}

/// Memory that a program had watched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// First byte.
    pub start: u64,
    /// How many.
    pub bytes: u64,
    /// As the program calls it; may be empty.
    pub name: String,
    /// From when on, by `CLOCK_MONOTONIC`.
    pub from_ns: u64,
    /// Until when; [`u64::MAX`] where it was watched to the end.
    pub until_ns: u64,
}

/// Where code is in the source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Code {
    /// Its address in the process.
    pub address: u64,
    /// The function that it is in; empty where that is not known.
    pub function: String,
    /// The file; empty where that is not known.
    pub file: String,
    /// The line, or 0.
    pub line: u32,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With this status.
    Status(i32),
    /// By this signal.
    Signal(i32),
}

/// The run that a process was in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// How its command ended.
    pub ended: Ended,
    /// The command.
    pub command: Vec<String>,
}

/// The profile of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// The process's number.
    pub process: u32,
    /// The run that it was in, where who started that has said so.
    pub run: Option<Run>,
    /// When that began, by `CLOCK_MONOTONIC`; 0 in files of before.
    pub began_ns: u64,
    /// How long it was profiled, in nanoseconds.
    pub duration_ns: u64,
    /// Regions entered that there was no path for: their time is that of the region around them.
    pub lost_regions: u64,
    /// Threads that could not be written, as they were being counted when a signal ended the process.
    pub lost_threads: u64,
    /// What counting an execution of a region cost; none where that could not be measured.
    pub cost: Option<Cost>,
    /// Its code, and what else of files it may not write, when it ended.
    pub mappings: Vec<Mapping>,
    /// Where code of its regions is in the source, as far as that was looked up. The library does not: who started the process does.
    pub code: Vec<Code>,
    /// Memory that it had watched, by the numbers that its stream has for it.
    pub watched: Vec<Watched>,
    /// Ends of watching what was not watched.
    pub unknown_unwatches: u64,
    /// Begins and ends of regions that came while their thread was counting another: in signals' handlers, and in allocators that are regions.
    pub lost_events: u64,
    /// Changes of a thread's path that could not be written.
    pub lost_steps: u64,
    /// Ends of marked regions that had not begun on their thread, in their task.
    pub unknown_ends: u64,
    /// Its threads.
    pub threads: Vec<Thread>,
    /// Its paths but the root, parents first: path `n` is at `n - 1`.
    pub nodes: Vec<Node>,
    /// What was counted.
    pub rows: Vec<Row>,
}

/// A region's table: what ompP prints of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The region.
    pub region: Region,
    /// By thread number. Of a region that is within itself by way of others, the inclusive times count that twice.
    pub threads: Vec<(u32, Times)>,
    /// Over all threads.
    pub sum: Times,
}

impl Profile {
    /// A path's last region and the path before it.
    #[must_use]
    pub fn node(&self, path: PathId) -> Option<&Node> {
        self.nodes.get((path.0 as usize).checked_sub(1)?)
    }

    /// All paths but the root, parents before their children.
    pub fn paths(&self) -> impl Iterator<Item = (PathId, &Node)> {
        (1..).map(PathId).zip(&self.nodes)
    }

    /// The file that a code address is in, and where in it, in bytes. None where no file is there.
    #[must_use]
    pub fn locate(&self, address: u64) -> Option<(&str, u64)> {
        let mapping = self.mappings.iter().find(|mapping| (mapping.start..mapping.end).contains(&address))?;
        Some((&mapping.path, mapping.offset.checked_add(address - mapping.start)?))
    }

    /// Where the code at an address is in the source. None where that was not looked up.
    #[must_use]
    pub fn code(&self, address: u64) -> Option<&Code> {
        self.code.iter().find(|code| code.address == address)
    }

    /// Code addresses that its regions begin and end at, each once, from the smallest; each with that of a byte of the instruction
    /// that is meant. Most are where a call returns to, which is behind it.
    #[must_use]
    pub fn addresses(&self) -> Vec<(u64, u64)> {
        let begin = |node: &Node| match node.region.place {
            Place::Code { address, .. } if node.region.kind == Kind::Function => Some((address, address)),
            Place::Code { address, .. } => Some((address, address.saturating_sub(1))),
            Place::Name(_) => None,
        };
        let ends = self.rows.iter().map(|row| row.times.end_address).filter(|address| *address != 0);
        let ends = ends.map(|address| (address, address - 1));
        let mut addresses: Vec<(u64, u64)> = self.nodes.iter().filter_map(begin).chain(ends).collect();
        addresses.sort_unstable();
        addresses.dedup();
        addresses
    }

    /// The same where regions that `same` makes one are one, with the new path of each path but the root, by
    /// [`nodes`](Self::nodes).
    #[must_use]
    pub fn unified(&self, same: impl Fn(&Region) -> Region) -> (Self, Vec<PathId>) {
        let mut paths = Paths::new();
        let mut new: Vec<PathId> = Vec::with_capacity(self.nodes.len());
        for (_, node) in self.paths() {
            // Parents come first. There are no more paths than there were.
            let parent = (node.parent.0 as usize).checked_sub(1).map_or(ROOT, |place| new[place]);
            new.push(paths.child(parent, &same(&node.region)).unwrap_or(parent));
        }
        let mut rows: BTreeMap<(PathId, u32), Times> = BTreeMap::new();
        for row in &self.rows {
            rows.entry((new[row.path.0 as usize - 1], row.thread)).or_default().add(&row.times);
        }
        let nodes = paths.iter().map(|(_, node)| node.clone()).collect();
        let rows = rows.into_iter().map(|((path, thread), times)| Row { path, thread, times }).collect();
        (Self { nodes, rows, ..self.clone() }, new)
    }

    /// The flat profile: a table for each region, in the order in which they were first met.
    #[must_use]
    pub fn flat(&self) -> Vec<Table> {
        let mut places = HashMap::new();
        let mut tables: Vec<(Region, BTreeMap<u32, Times>)> = Vec::new();
        for (_, node) in self.paths() {
            places.entry(&node.region).or_insert_with(|| {
                tables.push((node.region.clone(), BTreeMap::new()));
                tables.len() - 1
            });
        }
        for row in &self.rows {
            let Some(place) = self.node(row.path).and_then(|node| places.get(&node.region)) else { continue };
            tables[*place].1.entry(row.thread).or_default().add(&row.times);
        }
        let table = |(region, threads): (Region, BTreeMap<u32, Times>)| {
            let mut sum = Times::default();
            threads.values().for_each(|times| sum.add(times));
            Table { region, threads: threads.into_iter().collect(), sum }
        };
        tables.into_iter().map(table).collect()
    }

    /// The call graph: times of each path over all threads, in the order of [`nodes`](Self::nodes).
    ///
    /// A task is below the region that created it, whoever executed it and when: its time is no part of that region's.
    #[must_use]
    pub fn call_graph(&self) -> Vec<Times> {
        let mut sums = vec![Times::default(); self.nodes.len()];
        for row in &self.rows {
            if let Some(sum) = (row.path.0 as usize).checked_sub(1).and_then(|place| sums.get_mut(place)) {
                sum.add(&row.times);
            }
        }
        sums
    }
}
