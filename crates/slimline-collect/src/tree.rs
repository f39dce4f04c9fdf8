//! The processes of a command: those that have an agent, and those that went on to a program which can't have one (linked
//! statically, or for another C library), which are sampled from outside as soon as they are found.
//!
//! They are looked for among the processes with an agent, which may have become one by `exec`, and their children. One that
//! has ended before it is found is not seen.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use slimline_trace::session::{ProcessState, ProcessSummary};

use crate::RecordError;
use crate::clock::monotonic_ns;
use crate::drain::{Drain, is_alive};
use crate::perf_rings::{RingOptions, Rings};
use crate::program::{Runs, what_runs};
use crate::source::Source;
use crate::writer_thread::WriterThread;

/// How often processes are looked at, and how long that may take at least between two looks for each of them: a look takes
/// some ten microseconds.
const LOOK_EVERY_NS: u64 = 20_000_000;
const LOOK_EVERY_FOR_EACH_NS: u64 = 400_000;
/// Sampled from outside at one time: each takes rings of its own.
const MOST_OUTSIDE: usize = 64;

/// What a program's file says.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Verdict {
    /// The agent comes with it, or nothing is known.
    HasAgent,
    /// It can't have one.
    Without(String),
    /// It can't be recorded in any way.
    Unrecordable(String),
}

/// All processes of a command.
pub(crate) struct Tree {
    drain: Drain,
    options: RingOptions,
    programs: HashMap<PathBuf, Verdict>,
    outside: HashMap<u32, Rings>,
    /// Those that ended, or could not be sampled.
    over: Vec<ProcessSummary>,
    /// What was told of a process that is not recorded.
    told: HashMap<u32, PathBuf>,
    last_look_ns: u64,
}

impl Tree {
    /// Those with an agent, and others as these options say.
    pub(crate) fn new(drain: Drain, options: RingOptions) -> Self {
        Self {
            drain,
            options,
            programs: HashMap::new(),
            outside: HashMap::new(),
            over: Vec::new(),
            told: HashMap::new(),
            last_look_ns: monotonic_ns(),
        }
    }

    /// Looks at what the processes and their children run now.
    fn look(&mut self) {
        let mut pids: Vec<u32> = self.drain.running_pids().chain(self.outside.keys().copied()).collect();
        let now_ns = monotonic_ns();
        if now_ns.saturating_sub(self.last_look_ns) < LOOK_EVERY_NS.max(LOOK_EVERY_FOR_EACH_NS * pids.len() as u64) {
            return;
        }
        self.last_look_ns = now_ns;
        let children: Vec<u32> = pids.iter().flat_map(|&pid| children_of(pid)).collect();
        pids.extend(children);
        pids.sort_unstable();
        pids.dedup();
        for pid in pids {
            // Gone, or somebody else's.
            let Ok(program) = fs::read_link(format!("/proc/{pid}/exe")) else { continue };
            if self.outside.contains_key(&pid) || self.told.get(&pid) == Some(&program) {
                continue;
            }
            let why = match self.programs.entry(program.clone()).or_insert_with(|| verdict(&program)) {
                Verdict::HasAgent => continue,
                Verdict::Unrecordable(why) => why.clone(),
                Verdict::Without(why) if self.outside.len() >= MOST_OUTSIDE => {
                    format!("{why}, and {MOST_OUTSIDE} others are sampled from outside already")
                }
                Verdict::Without(why) => match Rings::attach_until_exec(&self.options, pid) {
                    Ok(rings) => {
                        self.outside.insert(pid, rings);
                        continue;
                    }
                    // It has ended meanwhile.
                    Err(RecordError::NoSuchProcess(_)) => continue,
                    Err(error) => format!("{why}; {error}"),
                },
            };
            self.over.push(ProcessSummary {
                state: ProcessState::Failed,
                failure: Some(why),
                executable: program.to_string_lossy().into_owned(),
                ..ProcessSummary::begun(format!("p{pid}-unrecorded{}", self.over.len()), pid, now_ns)
            });
            self.told.insert(pid, program);
        }
    }
}

/// What can become of a program.
fn verdict(program: &Path) -> Verdict {
    match what_runs(program) {
        Ok(Runs { without_agent: Some(why), .. }) => Verdict::Without(why),
        Err(error @ (RecordError::ForeignArchitecture { .. } | RecordError::Privileged { .. })) => {
            Verdict::Unrecordable(error.to_string())
        }
        Ok(Runs { without_agent: None, .. }) | Err(_) => Verdict::HasAgent,
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
        let over_before = self.over.len();
        let mut is_time = self.drain.pass(writer);
        self.look();
        // Asked before their rings are read: what an ended process left there is then read.
        let gone: Vec<u32> = self.outside.keys().copied().filter(|&pid| !is_alive(pid)).collect();
        for rings in self.outside.values_mut() {
            is_time |= rings.pass(writer);
        }
        for pid in gone {
            if let Some(rings) = self.outside.remove(&pid) {
                self.over.extend(rings.finish(writer).0);
            }
        }
        is_time || over_before == 0 && !self.over.is_empty()
    }

    fn write_parts(&mut self, writer: &WriterThread) {
        self.drain.write_parts(writer);
        self.outside.values_mut().for_each(|rings| rings.write_parts(writer));
    }

    fn pause(&self) -> Duration {
        let pauses = self.outside.values().map(Rings::pause);
        pauses.fold(self.drain.pause(), Duration::min)
    }

    fn summaries(&self) -> Vec<ProcessSummary> {
        let mut summaries = self.drain.summaries();
        summaries.extend(self.over.iter().cloned());
        summaries.extend(self.outside.values().flat_map(Rings::summaries));
        summaries
    }

    fn stop(&mut self) {
        self.drain.stop();
        self.outside.values_mut().for_each(Rings::stop);
    }

    fn finish(self, writer: &WriterThread) -> (Vec<ProcessSummary>, bool) {
        let (mut summaries, is_any_alive) = self.drain.finish(writer);
        summaries.extend(self.over);
        for (_, rings) in self.outside {
            summaries.extend(rings.finish(writer).0);
        }
        (summaries, is_any_alive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_for_glibc_has_an_agent_and_what_is_gone_is_left_alone() {
        assert_eq!(verdict(&std::env::current_exe().unwrap()), Verdict::HasAgent);
        assert_eq!(verdict(Path::new("/no/such/program (deleted)")), Verdict::HasAgent);
    }

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
}
