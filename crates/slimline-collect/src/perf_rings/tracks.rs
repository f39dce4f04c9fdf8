//! The processes that are sampled from outside: what the records of all CPUs, in order of time, tell of them.

use std::collections::{HashMap, HashSet};
use std::fs;

use slimline_trace::session::{ProcessSummary, Trigger};

use super::blamer::Blamer;
use super::code::CodeFiles;
use super::image::{Image, ThreadSample};
use super::records::{Event, What};
use super::{RingOptions, Sampled};
use crate::clock::{monotonic_ns, unix_ns};
use crate::live_mappings::LiveMappings;
use crate::perf_event::TaskId;
use crate::program_run::ProgramRun;
use crate::writer_thread::WriterThread;

/// What is known of the processes, from records of any origin.
pub(super) struct Tracks {
    trigger: Trigger,
    /// What the clock's samples weigh, also those that were lost; 0 of hardware.
    period_ns: u64,
    /// Those that are recorded; `None` for all.
    pub(super) only: Option<HashSet<u32>>,
    /// Whether a process is left to others once it runs another program.
    pub(super) is_over_at_exec: bool,
    /// The thread for which an event was opened, by the event's number: samples of others are inherited from it.
    pub(super) opened_for: HashMap<u64, u32>,
    /// Threads that have events of their own.
    pub(super) own: HashSet<u32>,
    /// Processes that ran before.
    pub(super) attached: HashSet<u32>,
    pub(super) pending: Vec<Event>,
    pub(super) running: HashMap<u32, Image>,
    /// Programs that ended, and all in the order in which they were first seen, by the name of their directory.
    pub(super) ended: HashMap<String, ProcessSummary>,
    order: Vec<(u32, String)>,
    /// Programs that a process of this number ran so far.
    programs: HashMap<u32, u32>,
    files: CodeFiles,
    blamer: Blamer,
    pub(super) last_pass_ns: u64,
    pub(super) damaged: u64,
}

impl Tracks {
    pub(super) fn new(options: &RingOptions) -> Self {
        let (trigger, period_ns) = match options.sampled {
            Sampled::Clock { period_ns } => (Trigger::PerfRing, period_ns),
            Sampled::Hardware(_) => (Trigger::Counter, 0),
        };
        Self {
            trigger,
            period_ns,
            only: None,
            is_over_at_exec: false,
            opened_for: HashMap::new(),
            own: HashSet::new(),
            attached: HashSet::new(),
            pending: Vec::new(),
            running: HashMap::new(),
            ended: HashMap::new(),
            order: Vec::new(),
            programs: HashMap::new(),
            files: CodeFiles::default(),
            blamer: Blamer::new(options.skid, options.burst_instructions, options.budget_ppm),
            last_pass_ns: monotonic_ns(),
            damaged: 0,
        }
    }

    /// The next program of a process has this number.
    pub(super) fn number_programs_from(&mut self, pid: u32, number: u32) {
        self.programs.insert(pid, number);
    }

    /// Takes in what happened before `until_ns`, in order. Rings are read one after another, so that of what is younger some
    /// may still be missing.
    pub(super) fn apply(&mut self, until_ns: u64, writer: &WriterThread) {
        let waiting: Vec<Event> = std::mem::take(&mut self.pending);
        let (mut ripe, waiting): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|event| event.time_ns < until_ns);
        self.pending = waiting;
        // Those of one moment stay in the order of their ring.
        ripe.sort_by_key(|event| event.time_ns);
        for event in ripe {
            self.apply_event(event, writer);
        }
    }

    fn apply_event(&mut self, event: Event, writer: &WriterThread) {
        let Event { time_ns, task: TaskId { pid, tid }, what } = event;
        if self.only.as_ref().is_some_and(|only| !only.contains(&pid)) {
            return;
        }
        match what {
            What::Named { name, by_exec: true } => {
                let parent_pid = self.end(pid, time_ns, writer).unwrap_or(0);
                if self.is_over_at_exec {
                    self.only.get_or_insert_default().remove(&pid);
                    return;
                }
                let image = self.begin(pid, parent_pid, LiveMappings::default(), time_ns);
                image.run.thread_began(tid, time_ns);
                image.run.thread_named(tid, time_ns, &name);
                image.began_by_exec(name);
            }
            What::Named { name, by_exec: false } => self.image(pid, time_ns).run.thread_named(tid, time_ns, &name),
            What::Began { parent } if parent.pid != pid => {
                // Should the end of an earlier process of this number have been lost.
                self.end(pid, time_ns, writer);
                let mappings = self.image(parent.pid, time_ns).run.mappings().forked(time_ns);
                self.begin(pid, parent.pid, mappings, time_ns).run.thread_began(tid, time_ns);
            }
            What::Began { .. } => self.image(pid, time_ns).run.thread_began(tid, time_ns),
            What::Ended => {
                // The number may be given out again, to a thread that inherits its events.
                self.own.remove(&tid);
                let is_over = self.running.get_mut(&pid).is_some_and(|image| image.run.thread_ended(tid, time_ns));
                if is_over {
                    self.end(pid, time_ns, writer);
                }
            }
            What::Mapped(mapping) => self.image(pid, time_ns).run.mapped(mapping),
            What::Maps(text) => {
                // Of one that has ended meanwhile there is nothing left to tell.
                if self.attached.contains(&pid) || self.running.contains_key(&pid) {
                    self.image(pid, time_ns).run.saw_maps(time_ns, &text);
                }
            }
            What::Sample { event, ip, registers } => {
                if self.is_seen_twice(event, tid) {
                    return;
                }
                let weight_ns = self.period_ns;
                self.image(pid, time_ns);
                let Some(image) = self.running.get_mut(&pid) else { return };
                let sample = ThreadSample { time_ns, tid, ip, registers, weight_ns };
                image.sampled(sample, &mut self.blamer, &mut self.files);
                send_due_part(image, writer);
            }
            What::Caught { event, sample } => {
                if self.is_seen_twice(event, tid) {
                    return;
                }
                self.image(pid, time_ns);
                let Some(image) = self.running.get_mut(&pid) else { return };
                image.caught(tid, time_ns, *sample, &mut self.blamer, &mut self.files);
                send_due_part(image, writer);
            }
            What::CaughtInKernel => self.image(pid, time_ns).caught_in_kernel(),
            What::Lost(records) => self.image(pid, time_ns).lost(records),
            What::Throttled => self.image(pid, time_ns).throttled(),
        }
    }

    /// Whether a thread's sample comes from an event that it inherited, while it has one of its own: it began between two
    /// looks at its process' threads.
    fn is_seen_twice(&self, event: u64, tid: u32) -> bool {
        self.opened_for.get(&event).is_some_and(|&owner| owner != tid) && self.own.contains(&tid)
    }

    /// The program that a process runs. It begins now where its beginning was not seen.
    fn image(&mut self, pid: u32, time_ns: u64) -> &mut Image {
        if !self.running.contains_key(&pid) {
            self.begin(pid, 0, LiveMappings::default(), time_ns);
        }
        self.running.get_mut(&pid).expect("it was just made")
    }

    fn begin(&mut self, pid: u32, parent_pid: u32, mappings: LiveMappings, time_ns: u64) -> &mut Image {
        let programs = self.programs.entry(pid).or_default();
        let directory = format!("p{pid}-{programs}");
        *programs += 1;
        self.order.push((pid, directory.clone()));
        let ago_ns = monotonic_ns().saturating_sub(time_ns);
        // How long one ran before we came is not known.
        let is_new = !self.attached.contains(&pid);
        let mapped_by_s = if is_new { (unix_ns().saturating_sub(ago_ns) / 1_000_000_000) as i64 } else { i64::MIN };
        let mut run = ProgramRun::new(pid, parent_pid, directory, mappings);
        run.see(time_ns);
        self.running.entry(pid).insert_entry(Image::new(run, mapped_by_s)).into_mut()
    }

    /// Ends what a process runs; the parent's number where there was anything.
    fn end(&mut self, pid: u32, time_ns: u64, writer: &WriterThread) -> Option<u32> {
        let mut image = self.running.remove(&pid)?;
        image.run.end(time_ns);
        if image.run.has_news() {
            send_part(&mut image, writer);
        }
        self.ended.insert(image.run.directory().to_owned(), image.summary(time_ns, self.trigger, self.period_ns));
        Some(image.run.parent_pid())
    }

    /// Reads the mappings of those processes that need it. They are taken in when their time has come, as all else.
    pub(super) fn read_maps(&mut self) {
        for (&pid, image) in &mut self.running {
            let now_ns = monotonic_ns();
            // Refused or gone: the kernel's records have told the most of it.
            if image.takes_maps(now_ns)
                && let Ok(text) = fs::read(format!("/proc/{pid}/maps"))
                && !text.is_empty()
            {
                let task = TaskId { pid, tid: pid };
                self.pending.push(Event { time_ns: now_ns, task, what: What::Maps(text) });
            }
        }
    }

    pub(super) fn summaries(&self) -> Vec<ProcessSummary> {
        let now_ns = monotonic_ns();
        let mut summaries: Vec<ProcessSummary> = self
            .order
            .iter()
            .filter_map(|(pid, directory)| match self.ended.get(directory) {
                Some(summary) => Some(summary.clone()),
                None => self.running.get(pid).map(|image| image.summary(now_ns, self.trigger, self.period_ns)),
            })
            .collect();
        if let Some(first) = summaries.first_mut() {
            // Whose a record is that can't be read is not known.
            first.losses.damaged_messages = first.losses.damaged_messages.saturating_add(self.damaged);
        }
        summaries
    }
}

fn send_due_part(image: &mut Image, writer: &WriterThread) {
    if image.run.is_part_due() && writer.has_room() {
        send_part(image, writer);
    }
}

pub(super) fn send_part(image: &mut Image, writer: &WriterThread) {
    let rows = image.run.take_part();
    writer.send_part(image.run.directory(), rows);
}

#[cfg(test)]
mod tests {
    use slimline_trace::address::{Avma, FileOffset};
    use slimline_trace::session::{ProcessState, Session, SessionInfo, SessionWriter};
    use slimline_trace::tables::Mapping;

    use super::super::Rings;
    use super::super::records::Writers;
    use super::*;
    use crate::perf_event::EventAttr;
    use crate::record::tests::empty_info;
    use crate::source::Source;

    fn tracks() -> Tracks {
        Tracks::new(&RingOptions::of_clock(1000))
    }

    fn event(time_ns: u64, pid: u32, tid: u32, what: What) -> Event {
        Event { time_ns, task: TaskId { pid, tid }, what }
    }

    fn exec(time_ns: u64, pid: u32, name: &str) -> Event {
        event(time_ns, pid, pid, What::Named { name: name.to_owned(), by_exec: true })
    }

    fn sample(time_ns: u64, pid: u32, tid: u32, id: u64) -> Event {
        event(time_ns, pid, tid, What::Sample { event: id, ip: 0x1000, registers: None })
    }

    fn mapped(time_ns: u64, pid: u32, path: &str) -> Event {
        let mapping = Mapping {
            start: Avma(0x1000),
            end: Avma(0x2000),
            file_offset: FileOffset(0),
            permissions: "r-xp".to_owned(),
            device: "00:01".to_owned(),
            inode: 1,
            path: path.to_owned(),
            first_seen_ns: time_ns,
            last_seen_ns: time_ns,
        };
        event(time_ns, pid, pid, What::Mapped(mapping))
    }

    /// Applies the events, and reads the session back that came of them.
    fn recorded(mut tracks: Tracks, events: Vec<Event>) -> (tempfile::TempDir, Session) {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("session");
        let writer = WriterThread::start(SessionWriter::create(&path, &empty_info()).unwrap()).unwrap();
        tracks.pending = events;
        let rings = Rings::of_rings(Vec::new(), Writers::new(EventAttr::default(), &[]), tracks);
        let (processes, any_alive) = rings.finish(&writer);
        assert!(!any_alive);
        let (session, written) = writer.finish();
        written.unwrap();
        session.update(&SessionInfo { processes, complete: true, ..empty_info() }).unwrap();
        (scratch, Session::open(&path).unwrap())
    }

    #[test]
    fn a_tree_of_processes_is_told_apart_by_program() {
        let (_scratch, session) = recorded(
            tracks(),
            vec![
                exec(10, 7, "shell"),
                mapped(11, 7, "/bin/sh"),
                sample(12, 7, 7, 1),
                event(20, 8, 8, What::Began { parent: TaskId { pid: 7, tid: 7 } }),
                sample(21, 8, 8, 1),
                exec(30, 8, "tool"),
                // From another CPU's ring, which was read later.
                sample(25, 8, 8, 1),
                mapped(31, 8, "/bin/tool"),
                event(32, 8, 9, What::Began { parent: TaskId { pid: 8, tid: 8 } }),
                sample(33, 8, 9, 1),
                event(34, 8, 9, What::Named { name: "worker".to_owned(), by_exec: false }),
                event(35, 8, 8, What::Ended),
                event(36, 8, 9, What::Ended),
                event(40, 8, 8, What::Lost(3)),
            ],
        );
        let told: Vec<_> = session
            .processes()
            .iter()
            .map(|process| {
                (process.directory.as_str(), process.executable.as_str(), process.parent_pid, process.samples)
            })
            .collect();
        let expected = [
            ("p7-0", "/bin/sh", 0, 1),
            ("p8-0", "/bin/sh", 7, 2),
            ("p8-1", "/bin/tool", 7, 1),
            // The number was given out again: whose the loss is was not seen to begin.
            ("p8-2", "", 0, 0),
        ];
        assert_eq!(told, expected);
        let states: Vec<_> = session.processes().iter().map(|process| process.state).collect();
        use ProcessState::{Exited, Running};
        assert_eq!(states, [Running, Exited, Exited, Running]);
        assert_eq!(session.processes()[3].losses.dropped_samples, 3);
        let tool = session.load(&session.processes()[2]).unwrap();
        assert_eq!((tool.threads.tid.as_slice(), tool.threads.name[1].as_str()), (&[8, 9][..], "worker"));
        assert_eq!(tool.threads.ended_ns, [Some(35), Some(36)]);
        let child = session.load(&session.processes()[1]).unwrap();
        assert_eq!(
            (child.mappings.path.as_slice(), child.mappings.first_seen_ns[0]),
            (&["/bin/sh".to_owned()][..], 20)
        );
    }

    /// As a set-user-id program: the kernel tells of its `exec`, and takes the events away before anything is mapped.
    #[test]
    fn a_program_that_the_kernel_hides_is_told() {
        let ended = |time_ns, pid| event(time_ns, pid, pid, What::Ended);
        let events = vec![
            exec(10, 7, "su"),
            ended(11, 7),
            exec(20, 8, "tool"),
            mapped(21, 8, "/bin/tool"),
            ended(22, 8),
            exec(30, 9, "short"),
            event(31, 9, 9, What::Lost(2)),
            ended(32, 9),
        ];
        let (_scratch, session) = recorded(tracks(), events);
        let told: Vec<_> =
            session.processes().iter().map(|process| (process.executable.as_str(), process.state)).collect();
        use ProcessState::{Exited, Failed};
        assert_eq!(told, [("su", Failed), ("/bin/tool", Exited), ("", Exited)]);
        assert!(session.processes()[0].failure.as_ref().unwrap().contains("set-user-id"));
    }

    #[test]
    fn samples_of_the_agents_code_are_held_back() {
        let agent = "/run/slimline-1-a/libslimline_agent.so";
        let events = vec![mapped(1, 7, agent), sample(2, 7, 7, 1), mapped(3, 7, "/bin/tool"), sample(4, 7, 7, 1)];
        let (_scratch, session) = recorded(tracks(), events);
        let process = &session.processes()[0];
        assert_eq!((process.samples, process.losses.triggers_in_agent), (1, 1));
    }

    #[test]
    fn an_exec_ends_what_is_sampled_up_to_it() {
        let mut tracks = tracks();
        tracks.only = Some(HashSet::from([7]));
        tracks.is_over_at_exec = true;
        tracks.pending =
            vec![mapped(1, 7, "/bin/first"), sample(10, 7, 7, 1), exec(20, 7, "next"), sample(21, 7, 7, 1)];
        let scratch = tempfile::tempdir().unwrap();
        let session = SessionWriter::create(&scratch.path().join("session"), &empty_info()).unwrap();
        let writer = WriterThread::start(session).unwrap();
        let mut rings = Rings::of_rings(Vec::new(), Writers::new(EventAttr::default(), &[]), tracks);
        assert!(!rings.is_over());
        // What happened before a pass began is taken in by the next.
        rings.pass(&writer);
        rings.pass(&writer);
        assert!(rings.is_over());
        let (processes, _) = rings.finish(&writer);
        assert_eq!((processes.len(), processes[0].samples), (1, 1));
        writer.finish().1.unwrap();
    }

    #[test]
    fn only_what_was_asked_for_is_recorded() {
        let mut tracks = tracks();
        tracks.only = Some(HashSet::from([7]));
        let (_scratch, session) = recorded(
            tracks,
            vec![
                exec(10, 7, "shell"),
                event(20, 8, 8, What::Began { parent: TaskId { pid: 7, tid: 7 } }),
                sample(21, 8, 8, 1),
                sample(22, 7, 7, 1),
            ],
        );
        assert_eq!(session.processes().iter().map(|process| process.pid).collect::<Vec<_>>(), [7]);
    }

    #[test]
    fn a_thread_with_two_events_is_counted_by_its_own() {
        let mut tracks = tracks();
        // Thread 9 was made by 8 after 8 had its event, and was found by the next look as well.
        tracks.opened_for = HashMap::from([(1, 8), (2, 9)]);
        tracks.own = HashSet::from([8, 9]);
        let (_scratch, session) =
            recorded(tracks, vec![sample(10, 8, 8, 1), sample(11, 8, 9, 1), sample(12, 8, 9, 2), sample(13, 8, 10, 1)]);
        assert_eq!(session.processes()[0].samples, 3);
    }

    #[test]
    fn a_number_that_is_given_out_again_is_another_threads() {
        let mut tracks = tracks();
        tracks.opened_for = HashMap::from([(1, 8), (2, 9)]);
        tracks.own = HashSet::from([8, 9]);
        let began = What::Began { parent: TaskId { pid: 8, tid: 8 } };
        let events = vec![
            sample(10, 8, 8, 1),
            sample(11, 8, 9, 2),
            event(12, 8, 9, What::Ended),
            event(13, 8, 9, began),
            // It has no event but the one that it inherits.
            sample(14, 8, 9, 1),
        ];
        let (_scratch, session) = recorded(tracks, events);
        let threads = session.load(&session.processes()[0]).unwrap().threads;
        assert_eq!((threads.tid, threads.samples), (vec![8, 9, 9], vec![1, 1, 1]));
    }
}
