//! All processes of a run: finding their files, draining them, handing their rows on.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::{self, DirEntry};
use std::mem::offset_of;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use slimline_trace::path_text::DELETED;
use slimline_trace::session::{ProcessState, ProcessSummary};
use slimline_trace::wire::{PROCESS_FILE_EXTENSION, ProcessHeader, RING_BYTES};

use crate::allocators::Allocators;
use crate::clock::monotonic_ns;
use crate::loaded_agent::environment_address;
use crate::mapped_path::executable_of;
use crate::pid_namespace::{Numbers, Origin};
use crate::process_summary::{NoFile, without_file};
use crate::range_life::RangeLives;
use crate::recorder::Recorder;
use crate::ring::{OpenError, ProcessFile};
use crate::running_program::Program;
use crate::source::{PartSchedule, Source};
use crate::writer_thread::WriterThread;
use crate::{proc_stat, proc_text};

/// Pauses between passes: half a ring at the default rate, and what a ring that fills quickly may need.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
/// A pause is halved where a ring got fuller than this …
const BUSY_WORDS: usize = RING_BYTES / 8 / 4;
/// … and lengthened where none got as full as this.
const IDLE_WORDS: usize = RING_BYTES / 8 / 10;
/// How often processes are looked after that vanished without a word.
const LOOK_FOR_GONE_EVERY_NS: u64 = 500_000_000;
/// An agent makes its file and gives it its size one after the other.
const TIME_TO_GROW: Duration = Duration::from_secs(1);

/// The processes of a run.
#[derive(Debug)]
pub(crate) struct Drain {
    run_directory: PathBuf,
    /// What the agents were told to look for.
    allocators: Arc<Allocators>,
    /// Running, by the name of their file. A process that gets the number of one that has ended makes a file of its name.
    running: HashMap<String, Recorder>,
    /// Ended, by directory.
    ended: HashMap<String, ProcessSummary>,
    /// Names and directories of all, in the order in which they were first seen.
    order: Vec<(String, String)>,
    /// Of all of them.
    directories: HashSet<String>,
    /// Files that could not be removed: nothing comes of them any more.
    left: HashSet<String>,
    pause: Duration,
    schedule: PartSchedule,
    last_look_ns: u64,
    /// Processes that run on though their agents gave up.
    given_up: HashMap<u32, GivenUp>,
    /// Of those that ended last, for children that are found after them: numbers, when they began, and their ranges.
    left_ranges: VecDeque<((u64, u32), u64, RangeLives)>,
}

/// A program whose agent gave up.
#[derive(Debug)]
pub(crate) struct GivenUp {
    /// Directory of its summary.
    pub(crate) directory: String,
    /// Whether it can't be sampled from outside, as its summary says.
    pub(crate) is_refused: bool,
    /// What it ran then, and where its environment lay. As long as neither changes, its mappings need not be read.
    refused_as: Option<(Program, u64)>,
    /// The agent's file, as `/proc/<pid>/maps` ends its path. The program has it mapped until `exec`.
    file_name: String,
}

/// Processes whose ranges are kept for children that are found after their end.
const MOST_LEFT_RANGES: usize = 256;

impl Drain {
    /// Looks for process files in `run_directory`.
    pub(crate) fn new(run_directory: PathBuf, allocators: Arc<Allocators>) -> Self {
        let now_ns = monotonic_ns();
        Self {
            run_directory,
            allocators,
            running: HashMap::new(),
            ended: HashMap::new(),
            order: Vec::new(),
            directories: HashSet::new(),
            left: HashSet::new(),
            pause: Duration::from_millis(5),
            schedule: PartSchedule::starting(now_ns),
            last_look_ns: now_ns,
            given_up: HashMap::new(),
            left_ranges: VecDeque::new(),
        }
    }

    /// Hands ranges of parents on to their children, of which these were just found.
    fn inherit(&mut self, mut forked: Vec<(u64, String)>) {
        // A child may have children of its own among them.
        forked.sort_unstable();
        let now_ns = monotonic_ns();
        for (_, name) in forked {
            let Some((from, forked_ns)) = self.running.get(&name).and_then(Recorder::fork) else { continue };
            let is_parent = |numbers: (u64, u32), started_ns: u64| numbers == from && started_ns <= forked_ns;
            let running = self.running.iter_mut().filter(|(other, recorder)| {
                **other != name && is_parent(recorder.own_numbers(), recorder.started_ns())
            });
            let ranges = match running.max_by_key(|(_, recorder)| recorder.started_ns()) {
                Some((_, parent)) => parent.ranges_at(forked_ns, now_ns),
                None => {
                    let left = self.left_ranges.iter_mut().rev();
                    let mut left = left.filter(|(numbers, started_ns, _)| is_parent(*numbers, *started_ns));
                    let Some((_, _, ranges)) = left.next() else { continue };
                    ranges.alive_at(forked_ns)
                }
            };
            if let Some(child) = self.running.get_mut(&name) {
                child.inherit(ranges, forked_ns);
            }
        }
    }

    /// Whether an agent of process `pid` ever made a file.
    pub(crate) fn has_file_of(&self, pid: u32) -> bool {
        self.running.values().any(|recorder| recorder.pid() == Some(pid))
            || self.ended.values().any(|summary| summary.pid == pid)
    }

    /// Processes whose agents gave up, for example because they confined themselves, and made no file since.
    pub(crate) fn given_up_pids(&self) -> impl Iterator<Item = u32> {
        self.given_up.keys().copied()
    }

    /// What `pid` runs now, if that program's agent gave up. Forgets a program that has ended.
    pub(crate) fn given_up(&mut self, pid: u32) -> Option<&GivenUp> {
        let Entry::Occupied(entry) = self.given_up.entry(pid) else { return None };
        // Unreadable as long as the process hides.
        if maps_file(pid, &entry.get().file_name)? {
            Some(entry.into_mut())
        } else {
            entry.remove();
            None
        }
    }

    /// Says in the summary of a program that gave up why it can't be sampled from outside either.
    pub(crate) fn refuse_given_up(&mut self, pid: u32, program: Program, why: &str) {
        let Some(given_up) = self.given_up.get_mut(&pid) else { return };
        given_up.is_refused = true;
        given_up.refused_as = environment_address(pid).map(|begun| (program, begun));
        if let Some(failure) = self.ended.get_mut(&given_up.directory).and_then(|summary| summary.failure.as_mut()) {
            failure.push_str(why);
        }
    }

    /// Whether `pid` still runs the program that gave up and was refused.
    pub(crate) fn is_refused_still(&self, pid: u32, program: Program) -> bool {
        let refused_as = self.given_up.get(&pid).and_then(|given_up| given_up.refused_as);
        refused_as.is_some_and(|(ran, begun)| ran == program && environment_address(pid) == Some(begun))
    }

    /// Says in the summary of a program that gave up how much CPU time its process has used.
    pub(crate) fn set_cpu_times_of_given_up(&mut self, pid: u32, (user_ns, system_ns): (u64, u64)) {
        let directory = self.given_up.get(&pid).map(|given_up| given_up.directory.as_str());
        if let Some(summary) = directory.and_then(|directory| self.ended.get_mut(directory)) {
            (summary.user_ns, summary.system_ns) = (Some(user_ns), Some(system_ns));
        }
    }

    /// Forgets a process that has ended.
    pub(crate) fn forget_given_up(&mut self, pid: u32) {
        self.given_up.remove(&pid);
    }

    /// Directory of the program that process `pid` runs, if its agent records it.
    pub(crate) fn directory_of(&self, pid: u32) -> Option<String> {
        self.latest_of(pid).map(|recorder| recorder.directory().to_owned())
    }

    /// Descriptors of the perf events that the agent of process `pid` has; 0 for none.
    pub(crate) fn events_of(&self, pid: u32) -> Option<[u32; 2]> {
        self.latest_of(pid).filter(|recorder| !recorder.has_ended()).map(Recorder::events)
    }

    fn latest_of(&self, pid: u32) -> Option<&Recorder> {
        let of_process = self.running.values().filter(|recorder| recorder.pid() == Some(pid));
        of_process.max_by_key(|recorder| recorder.started_ns())
    }

    /// Whether the agent of process `pid` records its thread `tid`; also where nothing is known of the process.
    pub(crate) fn has_ring_of(&self, pid: u32, tid: u32) -> bool {
        self.latest_of(pid).is_none_or(|recorder| recorder.has_ended() || recorder.has_ring_of(tid))
    }

    /// Processes that may run still.
    pub(crate) fn running_pids(&self) -> impl Iterator<Item = u32> {
        self.running.values().filter(|recorder| !recorder.has_ended()).filter_map(Recorder::pid)
    }

    /// A subdirectory of the session for a program of process `pid`, which made the file `name`.
    fn new_directory(&mut self, pid: u32, name: &str) -> String {
        let number = name.split_once('-').and_then(|(_, number)| number.parse().ok()).unwrap_or(0);
        let mut candidates = (number..=u32::MAX).map(|number| format!("p{pid}-{number}"));
        let directory = candidates.find(|candidate| !self.directories.contains(candidate)).unwrap_or_default();
        self.directories.insert(directory.clone());
        directory
    }

    /// Looks for new ones. `is_last`: nothing more will come of those that are not ready.
    fn find_processes(&mut self, is_last: bool) {
        // A run directory that can't be read shows no processes; nothing better can be done while the target runs.
        let mut forked = Vec::new();
        for entry in fs::read_dir(&self.run_directory).into_iter().flatten().flatten() {
            let Ok(file_name) = entry.file_name().into_string() else { continue };
            let Some(name) = process_of(&file_name) else { continue };
            if self.running.contains_key(name) || self.left.contains(name) {
                continue;
            }
            let says = pid_of(name);
            // Before the look: a file that is still empty when its process is gone stays so. In another namespace the
            // number is another process', so it must also have stayed so for a while, and one that is alive says nothing.
            let is_old = is_old(&entry);
            let is_gone = is_last || is_old && !is_alive(says);
            match ProcessFile::open(&entry.path()) {
                Ok(file) => {
                    let numbers = Numbers::here(
                        file.header_u64(offset_of!(ProcessHeader, pid_namespace)),
                        file.header_u32(offset_of!(ProcessHeader, pid)),
                        file.header_u32(offset_of!(ProcessHeader, parent_pid)),
                    );
                    let directory = self.new_directory(numbers.pid, name);
                    let executable = (numbers.origin == Origin::Here).then(|| executable_of(numbers.pid));
                    // Checked afterwards: the process may have gone on to another program since it made the file.
                    let is_same_program = || maps_file(numbers.pid, &file_name) != Some(false);
                    let executable = executable.filter(|path| !path.is_empty() && is_same_program());
                    let allocators = Arc::clone(&self.allocators);
                    let recorder = Recorder::new(file, numbers, directory.clone(), executable, allocators);
                    if let Some(pid) = recorder.pid() {
                        self.given_up.remove(&pid);
                    }
                    forked.extend(recorder.fork().map(|(_, forked_ns)| (forked_ns, name.to_owned())));
                    self.running.insert(name.to_owned(), recorder);
                    self.order.push((name.to_owned(), directory));
                }
                Err(OpenError::Empty) if is_gone => {
                    self.take_unrecorded(name, &NoFile::Empty { is_new: !is_old });
                }
                Err(OpenError::Refused { error }) => self.take_unrecorded(name, &NoFile::Refused(error)),
                // Looked at again in the next pass.
                Err(OpenError::Empty | OpenError::NotReady | OpenError::Io(_)) => {}
                // Left alone: it is not of this run.
                Err(OpenError::Version { .. }) => {}
            }
        }
        self.inherit(forked);
    }

    /// A process that could not make its file.
    fn take_unrecorded(&mut self, name: &str, why: &NoFile) {
        let pid = pid_of(name);
        let directory = self.new_directory(pid, name);
        let summary = without_file(pid, directory.clone(), monotonic_ns(), why, &self.run_directory);
        self.ended.insert(directory.clone(), summary);
        self.order.push((name.to_owned(), directory));
        self.remove_file(name);
    }

    /// Gives its memory back. Where that fails the directory's end does it. Returns whether the file is gone.
    fn remove_file(&mut self, name: &str) -> bool {
        let is_gone = fs::remove_file(self.run_directory.join(file_name(name))).is_ok();
        if !is_gone {
            self.left.insert(name.to_owned());
        }
        is_gone
    }

    fn end_process(&mut self, name: &str, writer: &WriterThread) {
        let Some(mut recorder) = self.running.remove(name) else { return };
        recorder.settle_all();
        if recorder.has_news() {
            send_part(&mut recorder, writer);
        }
        let may_live = recorder.may_live();
        let summary = recorder.summary(monotonic_ns(), may_live);
        let has_given_up = may_live && !recorder.is_cut() && summary.state == ProcessState::Failed;
        self.ended.insert(recorder.directory().to_owned(), summary);
        let is_removed = self.remove_file(name);
        if let Some(pid) = recorder.pid().filter(|_| has_given_up) {
            let mark = if is_removed { DELETED } else { "" };
            let file_name = format!("{}{mark}", file_name(name));
            // Another program of the process may have ended before it in the same pass.
            if maps_file(pid, &file_name) != Some(false) {
                let directory = recorder.directory().to_owned();
                self.given_up.insert(pid, GivenUp { directory, is_refused: false, refused_as: None, file_name });
            }
        }
        if self.left_ranges.len() == MOST_LEFT_RANGES {
            self.left_ranges.pop_front();
        }
        self.left_ranges.push_back((recorder.own_numbers(), recorder.started_ns(), recorder.into_ranges()));
    }
}

impl Source for Drain {
    fn pause(&self) -> Duration {
        self.pause
    }

    fn pass(&mut self, writer: &WriterThread) -> bool {
        self.find_processes(false);
        let now_ns = monotonic_ns();
        let mut fullest = 0;
        let looks_for_gone = now_ns - self.last_look_ns >= LOOK_FOR_GONE_EVERY_NS;
        let mut over = Vec::new();
        for (name, recorder) in &mut self.running {
            // Asked before draining: what an ended process wrote is then drained.
            let is_gone = looks_for_gone && !recorder.may_live();
            let is_over = recorder.has_ended() || recorder.is_cut() || is_gone;
            fullest = fullest.max(recorder.drain(now_ns, is_over));
            if is_over {
                over.push(name.clone());
            } else if recorder.is_part_due() && writer.has_room() {
                send_part(recorder, writer);
            }
        }
        let is_any_over = !over.is_empty();
        for name in over {
            self.end_process(&name, writer);
        }
        if looks_for_gone {
            self.last_look_ns = now_ns;
        }
        self.pause = match fullest {
            BUSY_WORDS.. => (self.pause / 2).max(SHORTEST_PAUSE),
            ..IDLE_WORDS => (self.pause * 5 / 4).min(LONGEST_PAUSE),
            _ => self.pause,
        };
        let is_time = self.schedule.is_due(now_ns) && writer.has_room();
        is_time || is_any_over && self.ended.len() == 1
    }

    fn write_parts(&mut self, writer: &WriterThread) {
        if !self.schedule.take(monotonic_ns()) {
            return;
        }
        for recorder in self.running.values_mut().filter(|recorder| recorder.has_news()) {
            send_part(recorder, writer);
        }
    }

    fn finish(mut self, writer: &WriterThread) -> (Vec<ProcessSummary>, bool) {
        self.find_processes(true);
        let now_ns = monotonic_ns();
        let mut any_alive = false;
        for name in self.running.keys().cloned().collect::<Vec<_>>() {
            let recorder = self.running.get_mut(&name).expect("its own key");
            recorder.stop();
            recorder.drain(now_ns, true);
            any_alive |= !recorder.has_ended() && recorder.may_live();
            self.end_process(&name, writer);
        }
        (self.summaries(), any_alive)
    }

    fn stop(&mut self) {
        self.find_processes(false);
        self.running.values().for_each(Recorder::stop);
    }

    fn summaries(&self) -> Vec<ProcessSummary> {
        let now_ns = monotonic_ns();
        let summary = |(name, directory): &(String, String)| match self.ended.get(directory) {
            Some(summary) => summary.clone(),
            None => self.running[name].summary(now_ns, true),
        };
        self.order.iter().map(summary).collect()
    }
}

fn send_part(recorder: &mut Recorder, writer: &WriterThread) {
    let rows = recorder.take_part();
    writer.send_part(recorder.directory(), rows);
}

/// The name of the file of process `name`.
fn file_name(name: &str) -> String {
    format!("{name}.{PROCESS_FILE_EXTENSION}")
}

/// Whether `pid` has a file of this name mapped, whatever directory it sees it in; `None` if its mappings can't be read.
fn maps_file(pid: u32, file_name: &str) -> Option<bool> {
    let mappings = proc_text::read(&format!("/proc/{pid}/maps")).ok().filter(|mappings| !mappings.is_empty())?;
    Some(mappings.lines().any(|line| line.strip_suffix(file_name).is_some_and(|path| path.ends_with('/'))))
}

/// `<pid>-<n>` where `file_name` is that of a process file.
fn process_of(file_name: &str) -> Option<&str> {
    let name = file_name.strip_suffix(PROCESS_FILE_EXTENSION)?.strip_suffix('.')?;
    let (pid, number) = name.split_once('-')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(pid) && is_number(number)).then_some(name)
}

/// The process id in such a name; 0 where it is none.
fn pid_of(name: &str) -> u32 {
    name.split('-').next().and_then(|pid| pid.parse().ok()).unwrap_or(0)
}

/// Whether a file was made so long ago that its process has had the time to say how large it is.
pub(crate) fn is_old(file: &DirEntry) -> bool {
    let made = file.metadata().and_then(|found| found.modified());
    made.is_ok_and(|made| made.elapsed().is_ok_and(|age| age >= TIME_TO_GROW))
}

/// Whether `pid` runs (a zombie does not, unless threads of it outlive its first one).
pub(crate) fn is_alive(pid: u32) -> bool {
    proc_stat::line_of(pid).is_some_and(|line| says_alive(&line))
}

fn says_alive(line: &str) -> bool {
    const STATE: usize = 3;
    const THREADS: usize = 20;
    match proc_stat::text(line, STATE) {
        Some("Z") => proc_stat::number(line, THREADS).is_some_and(|threads: u32| threads > 1),
        None | Some("X") => false,
        Some(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_process_files_are_taken() {
        assert_eq!(process_of("4711-0.ring"), Some("4711-0"));
        for other in ["config", "4711.ring", "-0.ring", "4711-.ring", "../x-0.ring", "4711-0ring", "libagent.so"] {
            assert_eq!(process_of(other), None, "{other}");
        }
    }

    use slimline_trace::session::{ProcessState, SessionWriter};
    use slimline_trace::wire::{self, MessageKind};

    use crate::proc_text::tests::Sleeper;
    use crate::record::tests::empty_info;
    use crate::synthetic::{SyntheticProcess, SyntheticSample};

    fn writer(scratch: &tempfile::TempDir) -> WriterThread {
        let session = SessionWriter::create(&scratch.path().join("session"), &empty_info()).unwrap();
        WriterThread::start(session).unwrap()
    }

    #[test]
    fn a_process_that_exits_is_finished_and_its_memory_given_back() {
        let scratch = tempfile::tempdir().unwrap();
        let writer = writer(&scratch);
        let path = scratch.path().join("4194999-0.ring");
        let process = SyntheticProcess::create(&path, 4_194_999);
        process.own_slot(0, 7);
        process.push(0, MessageKind::Sample, &SyntheticSample::default().words());
        let mut drain = Drain::new(scratch.path().to_owned(), Arc::new(Allocators::new(&[])));
        drain.pass(&writer);
        assert!(path.exists());
        process.push(0, MessageKind::Sample, &SyntheticSample::default().words());
        process.set_state(wire::ProcessState::Exited);
        drain.pass(&writer);
        assert!(!path.exists());
        drain.pass(&writer);
        let (summaries, any_alive) = drain.finish(&writer);
        assert_eq!((summaries.len(), summaries[0].samples, any_alive), (1, 2, false));
        assert_eq!(summaries[0].state, ProcessState::Exited);
        writer.finish().1.unwrap();
        assert!(scratch.path().join("session/p4194999-0/part-00000.json").exists());
    }

    #[test]
    fn processes_that_live_on_are_told_to_stop() {
        let scratch = tempfile::tempdir().unwrap();
        let writer = writer(&scratch);
        let own = std::process::id();
        let alive = SyntheticProcess::create(&scratch.path().join(format!("{own}-0.ring")), own);
        let killed = SyntheticProcess::create(&scratch.path().join("4194999-0.ring"), 4_194_999);
        let mut drain = Drain::new(scratch.path().to_owned(), Arc::new(Allocators::new(&[])));
        drain.pass(&writer);
        assert!(!alive.is_stopped());
        let (mut summaries, any_alive) = drain.finish(&writer);
        summaries.sort_by_key(|summary| summary.pid != own);
        assert_eq!(
            summaries.iter().map(|summary| summary.state).collect::<Vec<_>>(),
            [ProcessState::Running, ProcessState::Gone]
        );
        assert!(any_alive && alive.is_stopped() && killed.is_stopped());
        writer.finish().1.unwrap();
    }

    #[test]
    fn a_number_that_is_given_out_again_is_another_process() {
        let scratch = tempfile::tempdir().unwrap();
        let writer = writer(&scratch);
        let path = scratch.path().join("4194999-0.ring");
        let mut drain = Drain::new(scratch.path().to_owned(), Arc::new(Allocators::new(&[])));
        for _ in 0..3 {
            let process = SyntheticProcess::create(&path, 4_194_999);
            process.own_slot(0, 7);
            process.push(0, MessageKind::Sample, &SyntheticSample::default().words());
            process.set_state(wire::ProcessState::Exited);
            drain.pass(&writer);
            assert!(!path.exists());
        }
        let (summaries, _) = drain.finish(&writer);
        let told: Vec<_> = summaries.iter().map(|summary| (summary.directory.as_str(), summary.samples)).collect();
        assert_eq!(told, [("p4194999-0", 1), ("p4194999-1", 1), ("p4194999-2", 1)]);
        writer.finish().1.unwrap();
    }

    #[test]
    fn a_process_that_may_make_no_large_files_is_told() {
        let scratch = tempfile::tempdir().unwrap();
        let writer = writer(&scratch);
        let alive = std::process::id();
        let old = std::time::SystemTime::now() - 2 * TIME_TO_GROW;
        let empty =
            |pid: u32, number: u32| fs::File::create(scratch.path().join(format!("{pid}-{number}.ring"))).unwrap();
        for pid in [alive, 4_194_999] {
            empty(pid, 0);
            empty(pid, 1).set_modified(old).unwrap();
        }
        let mut drain = Drain::new(scratch.path().to_owned(), Arc::new(Allocators::new(&[])));
        drain.pass(&writer);
        // Of one that is alive, or has the number of one that is, it may still become larger.
        assert_eq!(drain.summaries().iter().map(|one| one.pid).collect::<Vec<_>>(), [4_194_999]);
        let (summaries, any_alive) = drain.finish(&writer);
        assert_eq!((summaries.len(), any_alive), (4, false));
        for summary in summaries {
            let failure = summary.failure.unwrap();
            let is_new = summary.directory.ends_with("-0");
            assert!(failure.contains("(ulimit -f)") && failure.ends_with("begun") == is_new, "{failure}");
            assert_eq!(summary.state, ProcessState::Failed);
        }
        writer.finish().1.unwrap();
    }

    /// In whatever order programs of one process are seen to end.
    #[test]
    fn the_program_that_gave_up_is_the_one_that_has_its_file_mapped() {
        let scratch = tempfile::tempdir().unwrap();
        let writer = writer(&scratch);
        let (own, sleeper) = (std::process::id(), Sleeper::start());
        let other = sleeper.child.id();
        // This process maps them all. The other one is as if it had called exec since.
        let failed = |pid: u32, number: u32| {
            let process = SyntheticProcess::create(&scratch.path().join(format!("{pid}-{number}.ring")), pid);
            process.set_state(wire::ProcessState::Failed);
            process
        };
        let processes = [failed(own, 3), failed(other, 0), failed(other, 1)];
        let mut drain = Drain::new(scratch.path().to_owned(), Arc::new(Allocators::new(&[])));
        drain.pass(&writer);
        assert_eq!(drain.given_up_pids().collect::<Vec<_>>(), [own]);
        assert_eq!(drain.given_up(own).map(|program| program.directory.clone()), Some(format!("p{own}-3")));
        drop(processes);
        assert!(drain.given_up(own).is_none());
        assert_eq!(drain.given_up_pids().count(), 0);
        let summaries = drain.finish(&writer).0;
        let named = summaries.iter().filter(|summary| !summary.executable.is_empty());
        let named: Vec<u32> = named.map(|summary| summary.pid).collect();
        assert_eq!(named, [own], "what the other one runs now is not the program that gave up");
        writer.finish().1.unwrap();
    }

    #[test]
    fn a_process_that_cuts_its_memory_off_ends_alone() {
        let scratch = tempfile::tempdir().unwrap();
        let writer = writer(&scratch);
        let own = std::process::id();
        let [cut, whole] = [0, 1].map(|number| scratch.path().join(format!("{own}-{number}.ring")));
        let processes = [&cut, &whole].map(|path| {
            let process = SyntheticProcess::create(path, own);
            process.own_slot(0, 7);
            process.push(0, MessageKind::Sample, &SyntheticSample::default().words());
            process
        });
        let mut drain = Drain::new(scratch.path().to_owned(), Arc::new(Allocators::new(&[])));
        drain.pass(&writer);
        fs::File::options().write(true).open(&cut).unwrap().set_len(0).unwrap();
        drain.pass(&writer);
        assert!(!cut.exists() && whole.exists());
        processes[1].push(0, MessageKind::Sample, &SyntheticSample::default().words());
        let (mut summaries, any_alive) = drain.finish(&writer);
        summaries.sort_by(|a, b| a.directory.cmp(&b.directory));
        assert_eq!((summaries[0].state, summaries[0].pid, summaries[0].samples), (ProcessState::Failed, own, 1));
        assert!(summaries[0].failure.as_ref().is_some_and(|failure| failure.contains("cut off")));
        assert_eq!((summaries[1].state, summaries[1].samples, any_alive), (ProcessState::Running, 2, true));
        writer.finish().1.unwrap();
    }

    #[test]
    fn tells_the_living_from_the_dead() {
        let says = |state: char, threads: u32| {
            says_alive(&format!("7 (a ) b) {state} 1 7 7 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 {threads} 0 99 0\n"))
        };
        assert!(says('S', 1) && says('Z', 2) && !says('Z', 1) && !says('X', 2) && !says_alive("7 (a"));
        assert!(is_alive(std::process::id()));
        assert!(!is_alive(u32::MAX));
        assert!(is_alive(Sleeper::start().child.id()), "whatever its name");
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        while is_alive(pid) {
            std::thread::yield_now();
        }
        assert!(fs::exists(format!("/proc/{pid}")).unwrap(), "a zombie is dead, though it has its number still");
        child.wait().unwrap();
    }
}
