//! The processes of a command: those that have an agent, and those that went on to a program which can't have one (linked
//! statically, or for another C library) or was started without (`env -i`), which are sampled from outside as soon as they are
//! found, up to their next `exec`.
//!
//! A child that was made behind its agent's back, as by a system call in assembly or by `clone` with its parent's memory, has the
//! agent in its memory but no file: it is sampled from outside, too.
//!
//! So is a thread that its process's agent did not see begin, as by `clone` with a thread's flags, and a process whose agent gave
//! up: it may not go on behind a seccomp filter, and does not begin under a debugger.
//!
//! They are looked for among the processes with an agent, which may have become one by `exec`, those that are sampled from
//! outside or could not be recorded, and the children of all these. One that has ended before it is found is not seen.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::time::Duration;

use slimline_trace::path_text::text_of;
use slimline_trace::session::{ProcessState, ProcessSummary};

use crate::RecordError;
use crate::clock::monotonic_ns;
use crate::drain::{Drain, is_alive};
use crate::loaded_agent::{LoadedAgent, Presence, environment_address};
use crate::perf_rings::{RingOptions, Rings};
use crate::proc_stat;
use crate::running_program::{Program, Running, Verdict, Verdicts};
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
/// Looks after which a process with an agent that has made no file will make none: a forked one makes it before anything else.
const LOOKS_FOR_FILE: u32 = 3;
/// The same of a thread without a ring. It takes one as soon as it begins.
const LOOKS_FOR_RING: u32 = 5;
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
    agent: LoadedAgent,
    options: RingOptions,
    verdicts: Verdicts,
    /// By process, or by thread where the others of its process are recorded.
    outside: HashMap<u32, Outside>,
    /// How many there were.
    outside_so_far: u32,
    /// Those that ended, or went on to another program.
    over: Vec<ProcessSummary>,
    /// Those that are not recorded, up to [`MOST_UNRECORDED`]; the last one has the number of all others.
    unrecorded: Vec<ProcessSummary>,
    /// Those of them that are alive, with their places there.
    told: HashMap<u32, (Program, usize)>,
    /// Those that have an agent in their memory and no file, and how often that was seen.
    without_file: HashMap<u32, u32>,
    /// Threads that have no ring of their process's agent, and how often that was seen.
    without_ring: HashMap<(u32, u32), u32>,
    /// Those that have an agent, and where their environment lies: the same file may be run again without.
    with_agent: HashMap<u32, (Program, u64)>,
    /// Those that went on to another program, which is to be looked at.
    went_on: HashSet<u32>,
    last_look_ns: u64,
}

impl Tree {
    /// Those with this agent, and others as these options say.
    pub(crate) fn new(drain: Drain, agent: LoadedAgent, options: RingOptions) -> Self {
        Self {
            drain,
            agent,
            options,
            verdicts: Verdicts::default(),
            outside: HashMap::new(),
            outside_so_far: 0,
            over: Vec::new(),
            unrecorded: Vec::new(),
            told: HashMap::new(),
            without_file: HashMap::new(),
            without_ring: HashMap::new(),
            with_agent: HashMap::new(),
            went_on: HashSet::new(),
            last_look_ns: monotonic_ns(),
        }
    }

    /// Looks at what the processes and their children run now, if it is time.
    fn look(&mut self, writer: &WriterThread) {
        let now_ns = monotonic_ns();
        let given_up = self.drain.given_up();
        let others = self.outside.keys().chain(self.told.keys()).chain(&self.went_on).chain(given_up).copied();
        let known: HashSet<u32> = self.drain.running_pids().chain(others).collect();
        if now_ns.saturating_sub(self.last_look_ns) < LOOK_EVERY_NS.max(LOOK_EVERY_FOR_EACH_NS * known.len() as u64) {
            return;
        }
        self.last_look_ns = now_ns;
        self.went_on.clear();
        let children: Vec<u32> = known.iter().flat_map(|&pid| children_of(pid)).collect();
        let pids: HashSet<u32> = known.into_iter().chain(children).collect();
        self.with_agent.retain(|pid, _| pids.contains(pid));
        self.without_file.retain(|pid, _| pids.contains(pid));
        self.without_ring.retain(|(pid, _), _| pids.contains(pid));
        for pid in pids {
            self.look_at(pid, now_ns, writer);
            if self.with_agent.contains_key(&pid) {
                self.look_at_threads(pid, now_ns);
            }
        }
    }

    /// Looks for threads that the agent of their process does not know, as it did not see them begin.
    fn look_at_threads(&mut self, pid: u32, now_ns: u64) {
        let unknown = tasks_of(pid).filter(|&tid| tid != pid && !self.drain.has_ring_of(pid, tid));
        for tid in unknown.collect::<Vec<_>>() {
            let looks = self.without_ring.entry((pid, tid)).or_default();
            *looks += 1;
            let Some((program, _)) = self.with_agent.get(&pid).filter(|_| *looks == LOOKS_FOR_RING) else { continue };
            let program = *program;
            if let Err(refused) = self.sample_thread_from_outside((pid, tid), program) {
                let why =
                    format!("its thread {tid} was made by a system call (clone) that slimline's library did not see");
                self.told.insert(tid, (program, self.unrecorded.len()));
                let name = Running::of(pid).map_or_else(String::new, |of| of.name().to_string_lossy().into_owned());
                self.tell_unrecorded(tid, name, format!("{why}{refused}"), now_ns);
            }
        }
    }

    fn sample_thread_from_outside(&mut self, task: (u32, u32), program: Program) -> Result<(), String> {
        if self.outside.len() >= MOST_OUTSIDE {
            return Err(format!(", and {MOST_OUTSIDE} others are sampled from outside already"));
        }
        let number = FIRST_OUTSIDE + self.outside_so_far;
        match Rings::attach_thread_until_exec(&self.options, task, number) {
            Ok(rings) => {
                self.outside.insert(task.1, Outside { rings, program });
                self.outside_so_far += 1;
            }
            Err(RecordError::NoSuchProcess(_)) => {}
            Err(error) => return Err(format!("; {error}")),
        }
        Ok(())
    }

    fn look_at(&mut self, pid: u32, now_ns: u64, writer: &WriterThread) {
        let Some(running) = Running::of(pid) else {
            self.told.remove(&pid);
            self.drain.forget_given_up(pid);
            return;
        };
        let program = running.program();
        match self.outside.get(&pid) {
            Some(outside) if outside.program == program => return,
            Some(_) => self.end_outside(pid, writer),
            None => {}
        }
        let has_agent = |&(of, begun): &(Program, u64)| of == program && environment_address(pid) == Some(begun);
        if let Some((_, place)) = self.told.get(&pid).filter(|(told, _)| *told == program) {
            if let (Some(summary), Some((user_ns, system_ns))) = (self.unrecorded.get_mut(*place), cpu_times_ns(pid)) {
                (summary.user_ns, summary.system_ns) = (Some(user_ns), Some(system_ns));
            }
            return;
        }
        let has_given_up = self.drain.given_up().contains(&pid);
        if !has_given_up && self.with_agent.get(&pid).is_some_and(has_agent) {
            return;
        }
        // What it was told as is over.
        self.told.remove(&pid);
        self.with_agent.remove(&pid);
        let name = text_of(running.name().as_os_str()).into_owned();
        let why = match self.verdicts.on(&running) {
            Verdict::MayHaveAgent => match self.agent.presence_in(pid) {
                // The agent's file holds the reason.
                Presence::Loaded { .. } if has_given_up => format!("the agent of {name} gave up"),
                Presence::Loaded { .. }
                    if program != Program::Hidden && !self.drain.has_file_of(pid) && is_forked(pid) =>
                {
                    let looks = self.without_file.entry(pid).or_default();
                    *looks += 1;
                    if *looks < LOOKS_FOR_FILE {
                        return;
                    }
                    format!("{name} was made by a system call (fork or clone) that slimline's library did not see")
                }
                Presence::Loaded { begun } => {
                    // Of those that hide, one program looks like the next.
                    if program != Program::Hidden {
                        self.with_agent.insert(pid, (program, begun));
                    }
                    return;
                }
                Presence::Unknown => return,
                Presence::Missing(why) => format!("{name} {why}"),
            },
            Verdict::Without(why) => why,
            Verdict::Unrecordable(why) => {
                self.told.insert(pid, (program, self.unrecorded.len()));
                self.tell_unrecorded(pid, name, why, now_ns);
                return;
            }
        };
        if let Err(refused) = self.sample_from_outside(pid, program) {
            self.told.insert(pid, (program, self.unrecorded.len()));
            self.tell_unrecorded(pid, name, format!("{why}{refused}"), now_ns);
        }
    }

    /// Samples `pid` as long as it runs `program`. Where it can't be done: why, to be put behind why it has no agent.
    fn sample_from_outside(&mut self, pid: u32, program: Program) -> Result<(), String> {
        if self.outside.len() >= MOST_OUTSIDE {
            return Err(format!(", and {MOST_OUTSIDE} others are sampled from outside already"));
        }
        match Rings::attach_until_exec(&self.options, pid, FIRST_OUTSIDE + self.outside_so_far) {
            // It went on to another one before the rings would have told, and they may be of either.
            Ok(_) if Program::of(pid) != Some(program) => _ = self.went_on.insert(pid),
            Ok(rings) => {
                self.outside.insert(pid, Outside { rings, program });
                self.outside_so_far += 1;
            }
            // It has ended meanwhile.
            Err(RecordError::NoSuchProcess(_)) => {}
            Err(error) => return Err(format!("; {error}")),
        }
        Ok(())
    }

    fn tell_unrecorded(&mut self, pid: u32, executable: String, why: String, now_ns: u64) {
        if self.unrecorded.len() >= MOST_UNRECORDED {
            if let Some(last) = self.unrecorded.last_mut() {
                last.losses.children_unrecorded += 1;
            }
            return;
        }
        let (user_ns, system_ns) = cpu_times_ns(pid).unzip();
        self.unrecorded.push(ProcessSummary {
            state: ProcessState::Failed,
            failure: Some(why),
            executable,
            user_ns,
            system_ns,
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

/// Says of a process that is not recorded how much CPU time it is known to have used.
fn with_cpu_time(summary: ProcessSummary) -> ProcessSummary {
    let used_ns = summary.user_ns.unwrap_or(0) + summary.system_ns.unwrap_or(0);
    let failure = summary.failure.map(|why| match used_ns {
        0 => why,
        _ => format!("{why}; it used at least {:.2} s of CPU time", used_ns as f64 / 1e9),
    });
    ProcessSummary { failure, ..summary }
}

/// CPU time of a process in user mode and in the kernel, so far.
fn cpu_times_ns(pid: u32) -> Option<(u64, u64)> {
    const NS_PER_S: u64 = 1_000_000_000;
    const USER_TICKS: usize = 14;
    const SYSTEM_TICKS: usize = 15;
    let line = proc_stat::line_of(pid)?;
    let ns_per_tick = NS_PER_S / rustix::param::clock_ticks_per_second();
    let ns = |field| Some(proc_stat::number::<u64>(&line, field)?.saturating_mul(ns_per_tick));
    Some((ns(USER_TICKS)?, ns(SYSTEM_TICKS)?))
}

/// Whether a process runs what the one that made it ran then.
fn is_forked(pid: u32) -> bool {
    const FLAGS: usize = 9;
    const PF_FORKNOEXEC: u64 = 0x40;
    proc_stat::number_of(pid, FLAGS).is_some_and(|flags: u64| flags & PF_FORKNOEXEC != 0)
}

/// The threads of a process.
fn tasks_of(pid: u32) -> impl Iterator<Item = u32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| task.file_name().to_str()?.parse().ok())
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
            self.went_on.insert(pid);
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
        summaries.extend(self.over.iter().cloned().chain(self.unrecorded.iter().cloned().map(with_cpu_time)));
        summaries.extend(self.outside.values().flat_map(|outside| outside.rings.summaries()));
        summaries
    }

    fn stop(&mut self) {
        self.drain.stop();
        self.outside.values_mut().for_each(|outside| outside.rings.stop());
    }

    fn finish(self, writer: &WriterThread) -> (Vec<ProcessSummary>, bool) {
        let (mut summaries, is_any_alive) = self.drain.finish(writer);
        summaries.extend(self.over.into_iter().chain(self.unrecorded.into_iter().map(with_cpu_time)));
        for (_, outside) in self.outside {
            summaries.extend(outside.rings.finish(writer).0);
        }
        (summaries, is_any_alive)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::path::{Path, PathBuf};
    use std::process::{Child, Command, Stdio};
    use std::sync::Arc;

    use slimline_trace::session::SessionWriter;
    use tempfile::TempDir;

    use super::*;
    use crate::allocators::Allocators;
    use crate::loaded_agent::tests::some_library;
    use crate::proc_text::tests::Sleeper;
    use crate::record::tests::empty_info;

    fn tree(scratch: &TempDir) -> Tree {
        let drain = Drain::new(scratch.path().to_owned(), Arc::new(Allocators::new(&[])));
        let agent = LoadedAgent::new(scratch.path().join("libagent.so"));
        Tree::new(drain, agent, RingOptions::of_clock(1_000_000))
    }

    fn writer(scratch: &TempDir) -> WriterThread {
        let session = SessionWriter::create(&scratch.path().join("session"), &empty_info()).unwrap();
        WriterThread::start(session).unwrap()
    }

    /// As if it had gone on between the look and the moment when its events were open.
    #[test]
    fn what_a_process_goes_on_to_is_not_sampled_as_what_it_was() {
        let scratch = tempfile::tempdir().unwrap();
        let mut tree = tree(&scratch);
        let sleeper = Sleeper::start();
        let pid = sleeper.child.id();
        let before = Program::of(std::process::id()).unwrap();
        if let Err(refused) = tree.sample_from_outside(pid, before) {
            return eprintln!("skipped: the kernel refuses to sample from outside{refused}");
        }
        assert!(tree.outside.is_empty() && tree.went_on.contains(&pid));
        tree.sample_from_outside(pid, Program::of(pid).unwrap()).unwrap();
        assert!(tree.outside.contains_key(&pid));
    }

    /// Shells that each wait for a line, then go on to the next: a copy of the shell, and what it is started by.
    fn shells(scratch: &TempDir, programs: &[(&str, &str)], preloaded: &Path) -> Child {
        let mut script = "read go".to_owned();
        for (name, through) in programs[1..].iter().rev() {
            let quoted = script.replace('\'', "'\\''");
            script = format!("read go; exec {through} {} -c '{quoted}'", scratch.path().join(name).display());
        }
        for (name, _) in programs {
            let path = scratch.path().join(name);
            if !path.exists() {
                fs::copy("/bin/sh", path).unwrap();
            }
        }
        let mut shell = Command::new(scratch.path().join(programs[0].0));
        shell.args(["-c", &script]).env("LD_PRELOAD", preloaded).stdin(Stdio::piped()).spawn().unwrap()
    }

    /// Has the shell go on, and waits until the next one has begun.
    fn go_on(child: &mut Child, tree: &Tree, name: &str) {
        let before = environment_address(child.id());
        child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        let is_there = || {
            // Asked before and after: what runs it is something else for a moment.
            let begun = environment_address(child.id());
            let runs = Running::of(child.id()).is_some_and(|running| running.name().ends_with(name));
            let is_known = tree.agent.presence_in(child.id()) != Presence::Unknown;
            runs && is_known && begun != before && begun == environment_address(child.id())
        };
        while !is_there() {
            std::thread::yield_now();
        }
    }

    fn agent_file(scratch: &TempDir) -> PathBuf {
        let path = scratch.path().join("libagent.so");
        fs::copy(some_library(), &path).unwrap();
        path
    }

    fn wait_for_agent(child: &Child, tree: &Tree) {
        while !matches!(tree.agent.presence_in(child.id()), Presence::Loaded { .. }) {
            std::thread::yield_now();
        }
    }

    /// `sudo` again, after something else in the same process.
    #[test]
    fn a_program_that_comes_back_is_told_again() {
        let scratch = tempfile::tempdir().unwrap();
        let (mut tree, writer) = (tree(&scratch), writer(&scratch));
        let agent = agent_file(&scratch);
        let mut child = shells(&scratch, &[("refused", ""), ("other", "env"), ("refused", "env")], &agent);
        let pid = child.id();
        wait_for_agent(&child, &tree);
        tree.verdicts.plant(&Running::of(pid).unwrap(), Verdict::Unrecordable("it is refused".to_owned()));
        let mut told = Vec::new();
        let mut look_twice = |tree: &mut Tree| {
            tree.look_at(pid, 7, &writer);
            tree.look_at(pid, 8, &writer);
            told.push((tree.unrecorded.len(), tree.told.contains_key(&pid), tree.with_agent.contains_key(&pid)));
        };
        look_twice(&mut tree);
        go_on(&mut child, &tree, "other");
        look_twice(&mut tree);
        go_on(&mut child, &tree, "refused");
        look_twice(&mut tree);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(told, [(1, true, false), (1, false, true), (2, true, false)]);
    }

    /// The same file, by `env -i`.
    #[test]
    fn a_program_that_runs_itself_again_without_the_agent_is_seen() {
        let scratch = tempfile::tempdir().unwrap();
        let (mut tree, writer) = (tree(&scratch), writer(&scratch));
        let agent = agent_file(&scratch);
        let mut child = shells(&scratch, &[("one", ""), ("one", "env"), ("one", "env -i")], &agent);
        let pid = child.id();
        wait_for_agent(&child, &tree);
        let mut seen = Vec::new();
        let mut look = |tree: &mut Tree| {
            tree.look_at(pid, 7, &writer);
            // Where the kernel refuses to sample it from outside, that is told.
            let is_without = tree.outside.contains_key(&pid) || tree.unrecorded.len() == 1;
            seen.push((tree.with_agent.contains_key(&pid), is_without));
        };
        look(&mut tree);
        go_on(&mut child, &tree, "one");
        look(&mut tree);
        go_on(&mut child, &tree, "one");
        look(&mut tree);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(seen, [(true, false), (true, false), (false, true)]);
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

    #[test]
    fn those_that_are_not_recorded_are_all_counted_and_the_first_are_named() {
        let scratch = tempfile::tempdir().unwrap();
        let mut tree = tree(&scratch);
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
