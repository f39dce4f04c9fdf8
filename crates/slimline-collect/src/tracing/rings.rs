//! All processes of a traced run: finding their rings, draining them.

use std::collections::{HashMap, HashSet};
use std::fs::{self, DirEntry};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::mapped_path::mapped_path;
use slimline_trace::path_text::{path_of, text_of_existing};
use slimline_trace::stream::chunk::Chunk;
use slimline_trace::stream::ring::FILE_EXTENSION;

use super::ring::{ChunkHead, OpenError, RingFile, now};
use super::{Event, Process, ProcessEnd, ProcessLosses, TraceSink, site_section};
use crate::clock::monotonic_ns;
use crate::drain::{is_alive, is_old};
use crate::pid_namespace::{Numbers, Origin};
use crate::process_summary::JUST_BEGUN;

/// How often the directory is looked at, and processes that may have vanished.
const LOOK_EVERY_NS: u64 = 5_000_000;

/// The processes of a run.
#[derive(Debug)]
pub(super) struct Rings {
    directory: PathBuf,
    /// In the order in which they were found.
    running: Vec<Running>,
    /// Names of files that are dealt with.
    known: HashSet<String>,
    processes: u32,
    /// The process that was started, and its program.
    started: (u32, String),
    /// Path of each program by [`RingFile::image`], which forked children share.
    programs: HashMap<u64, String>,
    /// The file that a process runs.
    runs: fn(u32) -> Option<PathBuf>,
    last_look_ns: u64,
    /// Since when all gates are closed, where they are.
    closed_since_ns: Option<u64>,
    /// Words of processes that have ended.
    ended_words: u64,
}

#[derive(Debug)]
struct Running {
    number: u32,
    path: PathBuf,
    ring: RingFile,
    numbers: Numbers,
    objects_to: usize,
    blocks_to: usize,
    mappings_to: usize,
    next: HashMap<u32, Next>,
    sequence_gaps: u64,
    started_ns: u64,
    /// Words that were handed on.
    taken_words: u64,
    /// How long its gate was closed by us, but for the last time …
    closed_ns: u64,
    /// … which began then.
    closed_since_ns: Option<u64>,
}

/// How far a stream was handed on.
#[derive(Clone, Copy, Debug, Default)]
struct Next {
    /// Number of its next chunk.
    sequence: u64,
    /// Words of that which were handed on while it was written.
    words: usize,
}

/// Takes nothing.
struct Nobody;

impl TraceSink for Nobody {
    fn take(&mut self, _: Event<'_>) -> std::io::Result<()> {
        Ok(())
    }

    fn needs_order(&self) -> bool {
        false
    }

    fn take_growing(&mut self, _: Chunk<'_>, _: u64) -> std::io::Result<usize> {
        Ok(0)
    }
}

/// Whether a sink takes more.
type Taken = std::io::Result<()>;

impl Rings {
    /// Looks for rings in `directory`, of the process `pid`, which began as `program`, and of those that come of it; `runs` says what file a
    /// process runs.
    pub(super) fn new(directory: &Path, (pid, program): (u32, &Path), runs: fn(u32) -> Option<PathBuf>) -> Self {
        let program = std::path::absolute(program).unwrap_or_else(|_| program.to_owned());
        Self {
            directory: directory.to_owned(),
            running: Vec::new(),
            known: HashSet::new(),
            processes: 0,
            started: (pid, text_of_existing(program.as_os_str())),
            programs: HashMap::new(),
            runs,
            last_look_ns: 0,
            closed_since_ns: None,
            ended_words: 0,
        }
    }

    /// Words of full chunks so far.
    pub(super) fn words_taken(&self) -> u64 {
        self.ended_words + self.running.iter().map(|running| running.taken_words).sum::<u64>()
    }

    /// Has all programs record nothing from now on, or what they want recorded again.
    pub(super) fn set_open(&mut self, is_open: bool, now_ns: u64) {
        self.closed_since_ns = (!is_open).then_some(now_ns);
        self.running.iter_mut().for_each(|running| running.set_open(is_open, now_ns));
    }

    /// Processes so far.
    pub(super) fn processes(&self) -> u32 {
        self.processes
    }

    /// Hands on what there is. Whether there was anything.
    pub(super) fn pass(&mut self, sink: &mut dyn TraceSink) -> io::Result<bool> {
        let now_ns = monotonic_ns();
        let looks = now_ns.saturating_sub(self.last_look_ns) >= LOOK_EVERY_NS;
        if looks {
            self.last_look_ns = now_ns;
            self.find(false, sink)?;
        }
        let mut any = false;
        let mut over = Vec::new();
        for (index, running) in self.running.iter_mut().enumerate() {
            // Asked before draining: what an ended process wrote is then drained.
            let is_over = looks && (!running.numbers.may_live() || running.ring.is_cut());
            any |= running.drain(sink)?;
            if is_over {
                over.push(index);
            }
        }
        // What a program left that its process has exchanged for another one.
        if looks {
            for (index, running) in self.running.iter().enumerate() {
                let is_followed = self.running[index + 1..].iter().any(|later| later.replaces(running));
                if is_followed && !over.contains(&index) {
                    over.push(index);
                }
            }
            over.sort_unstable();
        }
        for index in over.into_iter().rev() {
            any = true;
            let mut running = self.running.remove(index);
            self.ended_words += running.taken_words;
            let is_removed = running.end(true, sink)?;
            // The next process of that number, as of the next container, calls its own the same.
            if is_removed && let Some(name) = running.path.file_name().and_then(|name| name.to_str()) {
                self.known.remove(name);
            }
        }
        Ok(any)
    }

    /// Tells all programs that nobody reads any more, also those that have begun since.
    pub(super) fn stop(&mut self) {
        // It fails only where the sink does.
        let _ = self.find(false, &mut Nobody);
        self.running.iter().for_each(|running| running.ring.stop());
    }

    /// Hands on the rest, of those that live on up to now.
    pub(super) fn finish(&mut self, sink: &mut dyn TraceSink) -> Taken {
        self.find(true, sink)?;
        self.running.iter().for_each(|running| running.ring.stop());
        for mut running in std::mem::take(&mut self.running) {
            let is_gone = !running.numbers.may_live();
            running.end(is_gone, sink)?;
        }
        Ok(())
    }

    /// Looks for new ones. `is_last`: nothing more will come of those that are not ready.
    fn find(&mut self, is_last: bool, sink: &mut dyn TraceSink) -> Taken {
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok().map(|name| (entry, name)));
        let mut names: Vec<(u32, u32, String, DirEntry)> = names
            .filter(|(_, name)| !self.known.contains(name))
            .filter_map(|(entry, name)| ring_of(&name).map(|(pid, number)| (pid, number, name, entry)))
            .collect();
        // The rings of one process in the order in which it made them.
        names.sort_by_key(|&(pid, number, ..)| (pid, number));
        let mut begun = Vec::new();
        for (pid, _, name, entry) in names {
            let path = entry.path();
            // Before the look: a file that is still empty when its process is gone stays so. In another namespace the
            // number is another process', so it must also have stayed so for a while, and one that is alive says nothing.
            let is_old = is_old(&entry);
            let is_gone = is_last || is_old && !is_alive(pid);
            match RingFile::open(&path) {
                Ok(ring) => begun.push((name, path, ring)),
                Err(OpenError::Empty) if is_gone => {
                    let begun = if is_old { "" } else { JUST_BEGUN };
                    let why = format!("the size of its files is limited (ulimit -f){begun}");
                    self.without_ring(name, pid, why, sink)?;
                }
                Err(OpenError::Version(found)) => {
                    let why = format!("it is linked with version {found} of the runtime: link it anew");
                    self.without_ring(name, pid, why, sink)?;
                }
                // Looked at again.
                Err(OpenError::Empty | OpenError::NotReady | OpenError::Io) => {}
            }
        }
        // A parent made its ring before its children made theirs.
        begun.sort_by_key(|(_, _, ring)| ring.started_ns());
        for (name, path, ring) in begun {
            if ring.fork().is_some() {
                // What its parent had by then was handed to us before: that comes first.
                self.running.iter_mut().try_for_each(|running| running.drain(sink).map(drop))?;
            }
            self.begin(name, path, ring, sink)?;
        }
        Ok(())
    }

    fn begin(&mut self, name: String, path: PathBuf, ring: RingFile, sink: &mut dyn TraceSink) -> Taken {
        let numbers = ring.numbers();
        let program = self.program_of(&ring, numbers);
        let number = self.processes;
        let mut running = Running {
            number,
            path,
            started_ns: ring.started_ns(),
            ring,
            numbers,
            objects_to: 0,
            blocks_to: 0,
            mappings_to: 0,
            next: HashMap::new(),
            sequence_gaps: 0,
            taken_words: 0,
            closed_ns: 0,
            closed_since_ns: None,
        };
        if self.closed_since_ns.is_some() {
            running.set_open(false, monotonic_ns());
        }
        let process = Process {
            number,
            pid: numbers.pid,
            parent_pid: numbers.parent_pid,
            program,
            started_ns: running.started_ns,
            is_here: numbers.origin == Origin::Here,
            fork: running.ring.fork(),
        };
        self.processes += 1;
        self.known.insert(name);
        sink.take(Event::Begin(process))?;
        let taken = running.tell_objects(sink);
        self.running.push(running);
        taken
    }

    /// What a process runs: of one that has ended what it was started as, or what the process that it was forked from ran.
    fn program_of(&mut self, ring: &RingFile, numbers: Numbers) -> String {
        let running = (numbers.origin == Origin::Here).then(|| (self.runs)(numbers.pid)).flatten();
        let is_first = self.programs.is_empty();
        let program = running
            .map(|path| mapped_path(path.as_os_str().as_bytes(), 0, Some(numbers.pid)))
            .or_else(|| self.programs.get(&ring.image()).cloned())
            .or_else(|| (is_first && numbers.pid == self.started.0).then(|| self.started.1.clone()))
            .unwrap_or_default();
        self.programs.insert(ring.image(), program.clone());
        program
    }

    fn without_ring(&mut self, name: String, pid: u32, why: String, sink: &mut dyn TraceSink) -> Taken {
        let number = self.processes;
        self.processes += 1;
        self.known.insert(name);
        let process = Process {
            number,
            pid,
            parent_pid: 0,
            program: String::new(),
            started_ns: monotonic_ns(),
            is_here: false,
            fork: None,
        };
        sink.take(Event::Begin(process))?;
        let losses = ProcessLosses::default();
        sink.take(Event::End(ProcessEnd {
            process: number,
            losses,
            failure: Some(why),
            is_alive: false,
            no_allocator: None,
        }))
    }
}

impl Running {
    /// Whether it is of the program that a process exchanged `earlier`'s for.
    fn replaces(&self, earlier: &Self) -> bool {
        let process = |running: &Self| (running.numbers.pid, running.numbers.origin, running.ring.pid_namespace());
        process(self) == process(earlier) && self.ring.image() != earlier.ring.image()
    }

    fn set_open(&mut self, is_open: bool, now_ns: u64) {
        self.ring.set_open(is_open);
        if let Some(since_ns) = self.closed_since_ns.take() {
            self.closed_ns += now_ns.saturating_sub(since_ns);
        }
        self.closed_since_ns = (!is_open).then_some(now_ns);
    }

    fn tell_objects(&mut self, sink: &mut dyn TraceSink) -> Taken {
        let (objects, end) = self.ring.objects(self.objects_to);
        self.objects_to = end;
        for (head, path) in objects {
            let section = site_section(&path_of(&path));
            sink.take(Event::Object { process: self.number, path, head, section })?;
        }
        let (process, blocks) = (self.number, self.ring.blocks(self.blocks_to));
        self.blocks_to += blocks.len();
        if !blocks.is_empty() {
            sink.take(Event::Blocks { process, blocks })?;
        }
        let mappings = self.ring.shared_mappings(self.mappings_to);
        self.mappings_to += mappings.len();
        if mappings.is_empty() { Ok(()) } else { sink.take(Event::SharedMappings { process, mappings }) }
    }

    /// Hands on all full chunks, those of one stream in their order. Whether there were any.
    fn drain(&mut self, sink: &mut dyn TraceSink) -> io::Result<bool> {
        if !self.ring.has_full() {
            return Ok(false);
        }
        let now = now();
        let chunks = self.ring.chunks(now);
        let streams = chunks.chunk_by(|one, other| one.stream == other.stream);
        let is_put_in_order = sink.needs_order() && streams.clone().count() > 1;
        let mut any = false;
        for chunks in streams {
            for chunk in chunks {
                // What was handed on by `now` of all streams is all that was written by then: what was published later is taken
                // up to then, as is what is still written.
                if chunk.is_full && !(is_put_in_order && chunk.ended > now) {
                    self.hand_on(chunk, is_put_in_order, sink)?;
                    any = true;
                    continue;
                }
                if is_put_in_order {
                    self.hand_on_growing(chunk, now, sink)?;
                }
                break;
            }
        }
        if is_put_in_order {
            sink.take(Event::PutInOrder { process: self.number })?;
        }
        Ok(any)
    }

    /// What was handed on of this chunk. Where others are missing before it, the program wrote over their slots.
    fn next(&mut self, head: &ChunkHead) -> Next {
        let next = self.next.entry(head.stream).or_default();
        if next.sequence != head.sequence {
            self.sequence_gaps += 1;
            *next = Next { sequence: head.sequence, words: 0 };
        }
        *next
    }

    fn hand_on(&mut self, head: &ChunkHead, is_part: bool, sink: &mut dyn TraceSink) -> Taken {
        let next = self.next(head);
        self.next.insert(head.stream, Next { sequence: next.sequence.wrapping_add(1), words: 0 });
        let mut words = sink.spare();
        self.ring.take(head, next.words, &mut words);
        self.taken_words += words.len() as u64;
        self.tell_objects(sink)?;
        let chunk = self.chunk(head, words, head.words.is_none());
        sink.take(if is_part { Event::Part(chunk) } else { Event::Chunk(chunk) })
    }

    fn hand_on_growing(&mut self, head: &ChunkHead, now: u64, sink: &mut dyn TraceSink) -> Taken {
        let next = self.next(head);
        let mut words = sink.spare();
        self.ring.peek_growing(head, next.words, &mut words);
        self.tell_objects(sink)?;
        let taken = sink.take_growing(self.chunk(head, words, true), now)?;
        self.taken_words += taken as u64;
        self.next.insert(head.stream, Next { words: next.words + taken, ..next });
        Ok(())
    }

    fn chunk(&self, head: &ChunkHead, words: Vec<u64>, is_open: bool) -> Chunk<'static> {
        let &ChunkHead { stream, tid, thread_pointer, sequence, began, ended, .. } = head;
        let (process, words) = (self.number, words.into());
        Chunk { process, stream, tid, thread_pointer, sequence, began, ended, words, is_open }
    }

    /// Hands on what is left, also of chunks that were not published. Whether the file is removed.
    fn end(&mut self, is_gone: bool, sink: &mut dyn TraceSink) -> io::Result<bool> {
        for head in self.ring.chunks(u64::MAX) {
            if head.is_full {
                self.hand_on(&head, true, sink)?;
            } else {
                let next = self.next(&head);
                let mut words = sink.spare();
                self.ring.peek(&head, next.words, &mut words);
                self.tell_objects(sink)?;
                sink.take(Event::Part(self.chunk(&head, words, true)))?;
            }
        }
        sink.take(Event::PutInOrder { process: self.number })?;
        let now_ns = monotonic_ns();
        let lifetime_ns = now_ns.saturating_sub(self.started_ns);
        self.set_open(true, now_ns);
        let losses = ProcessLosses {
            sequence_gaps: self.sequence_gaps,
            lifetime_ns,
            between_windows_ns: self.closed_ns.min(lifetime_ns),
            paused_ns: self.ring.paused_ns(now_ns).min(lifetime_ns),
            ..self.ring.losses()
        };
        let failures = [
            (losses.is_cut_off, "the file that it shares with slimline was cut off"),
            (losses.has_no_words, WITHOUT_WORDS),
        ];
        let failure = failures.into_iter().find(|(is_so, _)| *is_so).map(|(_, failure)| failure.to_owned());
        sink.take(Event::End(ProcessEnd {
            process: self.number,
            losses,
            failure,
            is_alive: !is_gone,
            no_allocator: None,
        }))?;
        // Gives the memory back. Where that fails the directory's end does it.
        Ok(fs::remove_file(&self.path).is_ok())
    }
}

/// What is said of a process with [`ProcessLosses::has_no_words`].
const WITHOUT_WORDS: &str = "its program is not instrumented, and of the C library's keys (pthread_key_create) that have their values \
    beside each thread's pointer no two that follow each other are free for its instrumented libraries; build the program with slimline \
    too";

/// Process and number of a ring's file; none where the name is no such one.
fn ring_of(file_name: &str) -> Option<(u32, u32)> {
    let name = file_name.strip_suffix(FILE_EXTENSION)?.strip_suffix('.')?;
    let (pid, number) = name.split_once('-')?;
    Some((pid.parse().ok()?, number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Why processes were not traced.
    #[derive(Default)]
    struct Failures(Vec<String>);

    impl TraceSink for Failures {
        fn take(&mut self, event: Event<'_>) -> io::Result<()> {
            if let Event::End(end) = event {
                self.0.extend(end.failure);
            }
            Ok(())
        }

        fn needs_order(&self) -> bool {
            false
        }

        fn take_growing(&mut self, _: Chunk<'_>, _: u64) -> io::Result<usize> {
            Ok(0)
        }
    }

    /// The first process of a container, which has another number here than it says.
    #[test]
    fn an_empty_ring_is_told_at_the_end_whoever_has_its_number() {
        let scratch = tempfile::tempdir().unwrap();
        fs::write(scratch.path().join(format!("1-0.{FILE_EXTENSION}")), "").unwrap();
        let mut rings = Rings::new(scratch.path(), (4_194_999, Path::new("/bin/true")), |_| None);
        let mut failures = Failures::default();
        rings.pass(&mut failures).unwrap();
        assert!(failures.0.is_empty(), "it may still become larger: {:?}", failures.0);
        rings.finish(&mut failures).unwrap();
        assert_eq!(failures.0, ["the size of its files is limited (ulimit -f), or it had only just begun"]);
        assert_eq!(rings.processes(), 1);
    }
}
