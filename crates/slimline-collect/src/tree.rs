//! The processes of a command: those that have an agent, and those that went on to a program which can't have one (linked
//! statically, or for another C library), which are sampled from outside as soon as they are found, up to their next `exec`.
//!
//! They are looked for among the processes with an agent, which may have become one by `exec`, those that are sampled from
//! outside or could not be recorded, and the children of all these. One that has ended before it is found is not seen.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::time::Duration;

use slimline_trace::session::{ProcessState, ProcessSummary};

use crate::RecordError;
use crate::clock::monotonic_ns;
use crate::drain::{Drain, is_alive};
use crate::perf_rings::{RingOptions, Rings};
use crate::running_program::{Program, Verdict, Verdicts};
use crate::source::Source;
use crate::writer_thread::WriterThread;

/// How often processes are looked at, and how long that may take at least between two looks for each of them: a look takes
/// some ten microseconds.
const LOOK_EVERY_NS: u64 = 20_000_000;
const LOOK_EVERY_FOR_EACH_NS: u64 = 400_000;
/// Sampled from outside at one time: each takes rings of its own.
const MOST_OUTSIDE: usize = 64;
/// Processes that are not recorded and told one by one; those beyond are counted. A build may start one a millisecond.
const MOST_UNRECORDED: usize = 256;
/// Number of the first program that is sampled from outside: those with agents are numbered from 0 in each process.
const FIRST_OUTSIDE: u32 = 1000;

/// A process that is sampled from outside.
struct Outside {
    rings: Rings,
    program: Program,
}

/// All processes of a command.
pub(crate) struct Tree {
    drain: Drain,
    options: RingOptions,
    verdicts: Verdicts,
    outside: HashMap<u32, Outside>,
    /// How many there were.
    outside_so_far: u32,
    /// Those that ended, or went on to another program.
    over: Vec<ProcessSummary>,
    /// Those that are not recorded, up to [`MOST_UNRECORDED`]; the last one has the number of all others.
    unrecorded: Vec<ProcessSummary>,
    /// Those of them that are alive.
    told: HashMap<u32, Program>,
    last_look_ns: u64,
}

impl Tree {
    /// Those with an agent, and others as these options say.
    pub(crate) fn new(drain: Drain, options: RingOptions) -> Self {
        Self {
            drain,
            options,
            verdicts: Verdicts::default(),
            outside: HashMap::new(),
            outside_so_far: 0,
            over: Vec::new(),
            unrecorded: Vec::new(),
            told: HashMap::new(),
            last_look_ns: monotonic_ns(),
        }
    }

    /// Looks at what the processes and their children run now, if it is time.
    fn look(&mut self, writer: &WriterThread) {
        let now_ns = monotonic_ns();
        let known: Vec<u32> =
            self.drain.running_pids().chain(self.outside.keys().copied()).chain(self.told.keys().copied()).collect();
        if now_ns.saturating_sub(self.last_look_ns) < LOOK_EVERY_NS.max(LOOK_EVERY_FOR_EACH_NS * known.len() as u64) {
            return;
        }
        self.last_look_ns = now_ns;
        let children: Vec<u32> = known.iter().flat_map(|&pid| children_of(pid)).collect();
        let pids: HashSet<u32> = known.into_iter().chain(children).collect();
        for pid in pids {
            self.look_at(pid, now_ns, writer);
        }
    }

    fn look_at(&mut self, pid: u32, now_ns: u64, writer: &WriterThread) {
        let Some(program) = Program::of(pid) else {
            self.told.remove(&pid);
            return;
        };
        match self.outside.get(&pid) {
            Some(outside) if outside.program == program => return,
            Some(_) => self.end_outside(pid, writer),
            None => {}
        }
        if self.told.get(&pid) == Some(&program) {
            return;
        }
        let why = match self.verdicts.on(program, pid) {
            Verdict::HasAgent => return,
            Verdict::Unrecordable(why) => why,
            Verdict::Without(why) if self.outside.len() >= MOST_OUTSIDE => {
                format!("{why}, and {MOST_OUTSIDE} others are sampled from outside already")
            }
            Verdict::Without(why) => {
                match Rings::attach_until_exec(&self.options, pid, FIRST_OUTSIDE + self.outside_so_far) {
                    Ok(rings) => {
                        self.outside.insert(pid, Outside { rings, program });
                        self.outside_so_far += 1;
                        self.told.remove(&pid);
                        return;
                    }
                    // It has ended meanwhile.
                    Err(RecordError::NoSuchProcess(_)) => return,
                    Err(error) => format!("{why}; {error}"),
                }
            }
        };
        self.told.insert(pid, program);
        self.tell_unrecorded(pid, program.name(pid).to_string_lossy().into_owned(), why, now_ns);
    }

    fn tell_unrecorded(&mut self, pid: u32, executable: String, why: String, now_ns: u64) {
        if self.unrecorded.len() >= MOST_UNRECORDED {
            if let Some(last) = self.unrecorded.last_mut() {
                last.losses.children_unrecorded += 1;
            }
            return;
        }
        self.unrecorded.push(ProcessSummary {
            state: ProcessState::Failed,
            failure: Some(why),
            executable,
            ..ProcessSummary::begun(format!("p{pid}-unrecorded{}", self.unrecorded.len()), pid, now_ns)
        });
    }

    fn end_outside(&mut self, pid: u32, writer: &WriterThread) {
        if let Some(outside) = self.outside.remove(&pid) {
            self.over.extend(outside.rings.finish(writer).0);
        }
    }

    /// Whether there is anything that no agent told of.
    fn has_any(&self) -> bool {
        !self.over.is_empty() || !self.unrecorded.is_empty()
    }
}

/// The children of a process, where the kernel tells.
fn children_of(pid: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let listed = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    listed.flat_map(|list| list.split(' ').filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>()).collect()
}

impl Source for Tree {
    fn pass(&mut self, writer: &WriterThread) -> bool {
        let had_any = self.has_any();
        let mut is_time = self.drain.pass(writer);
        self.look(writer);
        // Asked before their rings are read: what an ended process left there is then read.
        let is_over = |(&pid, outside): (&u32, &Outside)| (outside.rings.is_over() || !is_alive(pid)).then_some(pid);
        let over: Vec<u32> = self.outside.iter().filter_map(is_over).collect();
        for outside in self.outside.values_mut() {
            is_time |= outside.rings.pass(writer);
        }
        for pid in over {
            self.end_outside(pid, writer);
        }
        is_time || !had_any && self.has_any()
    }

    fn write_parts(&mut self, writer: &WriterThread) {
        self.drain.write_parts(writer);
        self.outside.values_mut().for_each(|outside| outside.rings.write_parts(writer));
    }

    fn pause(&self) -> Duration {
        let pauses = self.outside.values().map(|outside| outside.rings.pause());
        pauses.fold(self.drain.pause(), Duration::min)
    }

    fn summaries(&self) -> Vec<ProcessSummary> {
        let mut summaries = self.drain.summaries();
        summaries.extend(self.over.iter().chain(&self.unrecorded).cloned());
        summaries.extend(self.outside.values().flat_map(|outside| outside.rings.summaries()));
        summaries
    }

    fn stop(&mut self) {
        self.drain.stop();
        self.outside.values_mut().for_each(|outside| outside.rings.stop());
    }

    fn finish(self, writer: &WriterThread) -> (Vec<ProcessSummary>, bool) {
        let (mut summaries, is_any_alive) = self.drain.finish(writer);
        summaries.extend(self.over.into_iter().chain(self.unrecorded));
        for (_, outside) in self.outside {
            summaries.extend(outside.rings.finish(writer).0);
        }
        (summaries, is_any_alive)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::allocators::Allocators;

    #[test]
    fn children_are_those_that_run() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let found = children_of(std::process::id());
        child.kill().unwrap();
        child.wait().unwrap();
        // Kernels without CONFIG_PROC_CHILDREN tell nothing.
        assert!(found.is_empty() || found.contains(&child.id()), "{found:?}");
        assert!(!children_of(std::process::id()).contains(&child.id()));
    }

    #[test]
    fn those_that_are_not_recorded_are_all_counted_and_the_first_are_named() {
        let scratch = tempfile::tempdir().unwrap();
        let drain = Drain::new(scratch.path().to_owned(), Arc::new(Allocators::new(&[])));
        let mut tree = Tree::new(drain, RingOptions::of_clock(1_000_000));
        for pid in 1..=MOST_UNRECORDED as u32 + 5 {
            tree.tell_unrecorded(pid, "/opt/old".to_owned(), "a program for a 32-bit CPU".to_owned(), 7);
        }
        let summaries = tree.summaries();
        let counted: u64 = summaries.iter().map(|summary| summary.losses.children_unrecorded).sum();
        assert_eq!((summaries.len(), counted), (MOST_UNRECORDED, 5));
        let mut directories: Vec<_> = summaries.iter().map(|summary| &summary.directory).collect();
        directories.dedup();
        assert_eq!(directories.len(), MOST_UNRECORDED);
    }
}
