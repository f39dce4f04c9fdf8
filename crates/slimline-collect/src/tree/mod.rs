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

mod debugged;
mod outside;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::time::Duration;

use slimline_trace::path_text::text_of;
use slimline_trace::session::{AddsTo, ProcessState, ProcessSummary};

use self::debugged::Debugged;
use self::outside::{Outside, Outsiders};
use crate::clock::monotonic_ns;
use crate::drain::Drain;
use crate::loaded_agent::{LoadedAgent, Presence, environment_address};
use crate::perf_rings::{RingOptions, Rings};
use crate::proc_stat;
use crate::running_program::{Program, Running, Verdict, Verdicts};
use crate::source::Source;
use crate::started::tasks_of;
use crate::writer_thread::WriterThread;

/// How often processes are looked at, and how long that may take at least between two looks for each of them: a look takes
/// some ten microseconds.
const LOOK_EVERY_NS: u64 = 20_000_000;
const LOOK_EVERY_FOR_EACH_NS: u64 = 400_000;
/// Processes that are not recorded and told one by one; those beyond are counted. A build may start one a millisecond.
const MOST_UNRECORDED: usize = 256;
/// Looks after which a process with an agent that has made no file will make none: a forked one makes it before anything else.
const LOOKS_FOR_FILE: u32 = 3;
/// The same of a thread without a ring. It takes one as soon as it begins.
const LOOKS_FOR_RING: u32 = 5;
/// All processes of a command.
pub(crate) struct Tree {
    drain: Drain,
    agent: LoadedAgent,
    verdicts: Verdicts,
    /// The command's own process, if its children are left unrecorded.
    only: Option<u32>,
    outside: Outsiders,
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
    debugged: Debugged,
    last_look_ns: u64,
}

impl Tree {
    /// Those with this agent, and others as these options say; with `only` this process alone.
    pub(crate) fn new(drain: Drain, agent: LoadedAgent, options: RingOptions, only: Option<u32>) -> Self {
        Self {
            drain,
            agent,
            verdicts: Verdicts::default(),
            only,
            outside: Outsiders::new(options),
            unrecorded: Vec::new(),
            told: HashMap::new(),
            without_file: HashMap::new(),
            without_ring: HashMap::new(),
            with_agent: HashMap::new(),
            went_on: HashSet::new(),
            debugged: Debugged::default(),
            last_look_ns: monotonic_ns(),
        }
    }

    /// Looks at what the processes and their children run now, if it is time.
    fn look(&mut self, writer: &WriterThread) {
        let now_ns = monotonic_ns();
        let others = self.told.keys().chain(&self.went_on).copied();
        let with_agents = self.drain.running_pids().chain(self.drain.given_up_pids());
        let known: HashSet<u32> = with_agents.chain(self.outside.ids()).chain(others).collect();
        if now_ns.saturating_sub(self.last_look_ns) < LOOK_EVERY_NS.max(LOOK_EVERY_FOR_EACH_NS * known.len() as u64) {
            return;
        }
        self.last_look_ns = now_ns;
        self.went_on.clear();
        let children: Vec<u32> = known.iter().flat_map(|&pid| children_of(pid)).collect();
        let is_followed = |pid: &u32| self.only.is_none_or(|only| only == *pid);
        let pids: HashSet<u32> = known.into_iter().chain(children).filter(is_followed).collect();
        self.with_agent.retain(|pid, _| pids.contains(pid));
        self.without_file.retain(|pid, _| pids.contains(pid));
        self.without_ring.retain(|(pid, _), _| pids.contains(pid));
        self.debugged.retain(&pids);
        for pid in pids {
            if let Some(events) = self.drain.events_of(pid) {
                self.debugged.look_at(pid, events);
            }
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
                let why = "one of its threads was made by a system call (clone) that slimline's library did not see";
                self.told.insert(tid, (program, self.unrecorded.len()));
                let name = Running::of(pid).map_or_else(String::new, |of| of.name().to_string_lossy().into_owned());
                self.tell_unrecorded(tid, name, format!("{why}{refused}"), now_ns);
            }
        }
    }

    fn sample_thread_from_outside(&mut self, (process, tid): (u32, u32), program: Program) -> Result<(), String> {
        let attach = |options: &_, number| Rings::attach_thread_until_exec(options, (process, tid), number);
        if let Some(rings) = self.outside.attach(attach)? {
            let adds_to = self.drain.directory_of(process).map(AddsTo::Thread);
            self.outside.insert(tid, Outside { rings, process, program, adds_to });
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
        match self.outside.program_of(pid) {
            Some(sampled) if sampled == program => return,
            Some(_) => self.outside.end(pid, writer),
            None => {}
        }
        let has_agent = |&(of, begun): &(Program, u64)| of == program && environment_address(pid) == Some(begun);
        if let Some((_, place)) = self.told.get(&pid).filter(|(told, _)| *told == program) {
            if let (Some(summary), Some((user_ns, system_ns))) = (self.unrecorded.get_mut(*place), cpu_times_ns(pid)) {
                (summary.user_ns, summary.system_ns) = (Some(user_ns), Some(system_ns));
            }
            return;
        }
        let is_refused_still = self.drain.is_refused_still(pid, program);
        // Its mappings are read once a look, and not for what was refused before.
        let given_up = if is_refused_still { None } else { self.drain.given_up(pid) };
        let given_up = given_up.map(|given_up| (given_up.directory.clone(), given_up.is_refused));
        if is_refused_still || given_up.is_some() {
            self.told.remove(&pid);
            self.with_agent.remove(&pid);
            if let Some((directory, false)) = given_up
                && let Err(refused) = self.sample_from_outside(pid, program, Some(directory), writer)
            {
                self.drain.refuse_given_up(pid, program, &refused);
            }
            if let Some(times_ns) = cpu_times_ns(pid).filter(|_| self.outside.program_of(pid).is_none()) {
                self.drain.set_cpu_times_of_given_up(pid, times_ns);
            }
            return;
        }
        if self.with_agent.get(&pid).is_some_and(has_agent) {
            return;
        }
        // What it was told as is over.
        self.told.remove(&pid);
        self.with_agent.remove(&pid);
        let name = text_of(running.name().as_os_str()).into_owned();
        let why = match self.verdicts.on(&running) {
            Verdict::MayHaveAgent => match self.agent.presence_in(pid) {
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
        if let Err(refused) = self.sample_from_outside(pid, program, None, writer) {
            self.told.insert(pid, (program, self.unrecorded.len()));
            self.tell_unrecorded(pid, name, format!("{why}{refused}"), now_ns);
        }
    }

    /// Samples `pid` as long as it runs `program`, which has the summary in directory `given_up` if its agent gave up. Where it
    /// can't be done: why, to be put behind why it has no agent.
    fn sample_from_outside(
        &mut self,
        pid: u32,
        program: Program,
        given_up: Option<String>,
        writer: &WriterThread,
    ) -> Result<(), String> {
        self.outside.end_threads_of(pid, writer);
        let attach = |options: &_, number| Rings::attach_until_exec(options, pid, number);
        let Some(rings) = self.outside.attach(attach)? else { return Ok(()) };
        let is_same = Program::of(pid) == Some(program)
            && given_up.as_ref().is_none_or(|directory| {
                self.drain.given_up(pid).is_some_and(|program| program.directory == *directory)
            });
        if is_same {
            let adds_to = given_up.map(AddsTo::Rest);
            self.outside.insert(pid, Outside { rings, process: pid, program, adds_to });
        } else {
            // The rings opened too late to show the exec, so their samples may be of either program.
            self.went_on.insert(pid);
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

    /// Whether there is anything that no agent told of.
    fn has_any(&self) -> bool {
        self.outside.has_ended_any() || !self.unrecorded.is_empty()
    }
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
        let (is_time_outside, over) = self.outside.pass(writer);
        is_time |= is_time_outside;
        self.went_on.extend(over);
        is_time || !had_any && self.has_any()
    }

    fn write_parts(&mut self, writer: &WriterThread) {
        self.drain.write_parts(writer);
        self.outside.write_parts(writer);
    }

    fn pause(&self) -> Duration {
        self.outside.pause().into_iter().fold(self.drain.pause(), Duration::min)
    }

    fn summaries(&self) -> Vec<ProcessSummary> {
        let mut summaries = self.drain.summaries();
        summaries.extend(self.unrecorded.iter().cloned());
        summaries.extend(self.outside.summaries());
        summaries
    }

    fn stop(&mut self) {
        self.drain.stop();
        self.outside.stop();
    }

    fn finish(self, writer: &WriterThread) -> (Vec<ProcessSummary>, bool) {
        let (mut summaries, is_any_alive) = self.drain.finish(writer);
        summaries.extend(self.unrecorded);
        summaries.extend(self.outside.finish(writer));
        (summaries, is_any_alive)
    }
}

#[cfg(test)]
mod tests;
