//! Code that translated processes have run: what their records mean, read before whoever gets these.

use std::collections::btree_map::Entry as BTreeEntry;
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use slimline_trace::path_text::{bytes_of, path_of};
use slimline_trace::stream::chunk::Chunk;
use slimline_trace::stream::record::ModuleId;
use slimline_trace::stream::ring::ObjectHead;
use slimline_trace::stream::translated::{CodeHead, Counter, Described, FILE_EXTENSION, Position, SiteCode};

use super::object::is_stripped;
use super::{Event, NoAllocator, ProcessEnd, ProcessLosses, TraceSink, Unseen};
use crate::mapped_path::mapped_path;

/// Segments of one module, from one on, that come from one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundCode {
    /// The module.
    pub module: ModuleId,
    /// The number of the first one.
    pub first: u32,
    /// Path of the file; none of code that is in no file.
    pub file: Option<String>,
    /// What they consist of, in order.
    pub sites: Vec<SiteCode>,
    /// Names of functions that they call, by [`SegmentCode::function`].
    pub functions: Arc<[String]>,
}

/// A process's file of descriptions.
#[derive(Debug)]
struct CodeFile {
    file: File,
    /// None until it is written.
    head: Option<CodeHead>,
    /// Up to where it was read.
    read_to: u64,
    files: Vec<String>,
    functions: Arc<[String]>,
    segments: u32,
}

impl CodeFile {
    fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let (files, functions) = (Vec::new(), Arc::default());
        Ok(Self { file, head: None, read_to: CodeHead::BYTES as u64, files, functions, segments: 0 })
    }

    /// What it counts by now that is not told of the process.
    fn add_to(&self, end: &mut ProcessEnd) {
        let mut head = [0; CodeHead::BYTES];
        if self.file.read_exact_at(&mut head, 0).is_ok() && CodeHead::read(&head).is_some() {
            add_losses(&mut end.losses, |counter| CodeHead::counted(&head, counter));
            let first = self.files.first().filter(|_| CodeHead::counted(&head, Counter::AllocatorFiles) == 0);
            end.no_allocator =
                first.map(|file| NoAllocator { file: file.clone(), is_stripped: is_stripped(&path_of(file)) });
        }
    }

    /// What is new in it.
    fn read(&mut self) -> io::Result<Vec<FoundCode>> {
        let mut head = [0; CodeHead::BYTES];
        match self.file.read_exact_at(&mut head, 0) {
            // It was made just now.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(Vec::new()),
            read => read?,
        }
        let written = CodeHead::written(&head);
        self.head = self.head.or_else(|| CodeHead::read(&head));
        let module = self.head.and_then(|head| ModuleId::from_number(head.module));
        let Some(module) = module.filter(|_| written > self.read_to) else { return Ok(Vec::new()) };
        // The program can scribble here: no more is read than there is.
        let mut new = Vec::new();
        (&self.file).seek(SeekFrom::Start(self.read_to))?;
        (&self.file).take(written - self.read_to).read_to_end(&mut new)?;
        let (mut found, mut rest) = (Vec::<FoundCode>::new(), new.as_slice());
        while let Some((described, bytes)) = Described::read(rest) {
            rest = &rest[bytes..];
            let site = match described {
                Described::File(path) => {
                    self.files.push(mapped_path(&bytes_of(&path), 0, None));
                    continue;
                }
                Described::Function(name) => {
                    self.functions = self.functions.iter().cloned().chain([name]).collect();
                    continue;
                }
                Described::Site(site) => site,
            };
            let file = site.file.and_then(|file| self.files.get(file as usize));
            let goes_on = |last: &&mut FoundCode| last.file.as_ref() == file;
            match found.last_mut().filter(goes_on) {
                Some(last) => {
                    last.sites.push(site);
                    last.functions = Arc::clone(&self.functions);
                }
                None => {
                    let (file, functions) = (file.cloned(), Arc::clone(&self.functions));
                    found.push(FoundCode { module, first: self.segments, file, sites: vec![site], functions });
                }
            }
            self.segments += u32::from(site.position != Position::Joins);
        }
        self.read_to = written - rest.len() as u64;
        Ok(found)
    }
}

/// Adds what a process counted.
fn add_losses(losses: &mut ProcessLosses, counted: impl Fn(Counter) -> u64) {
    let unseen = |[instructions, runs, told]: [Counter; 3]| match counted(told) {
        0 => Unseen { instructions: counted(instructions), runs: counted(runs) },
        _ => Unseen::default(),
    };
    losses.unread_values += counted(Counter::UnreadValues);
    losses.extended_numbers = unseen([Counter::NumberInstructions, Counter::NumberRuns, Counter::NumbersTold]);
    losses.processor_states = unseen([Counter::StateInstructions, Counter::StateRuns, Counter::StatesTold]);
}

/// Tells a sink of code before it gets records of it.
pub(super) struct WithCode<'s> {
    sink: &'s mut dyn TraceSink,
    directory: PathBuf,
    /// By the number of the process in the system, and which of its files it is: a program that becomes another one makes a new one.
    files: BTreeMap<(u32, u32), CodeFile>,
    /// Of each process its number in the system, and which of those that had it it is.
    pids: HashMap<u32, (u32, usize)>,
}

/// `<pid>-<n>.code`
fn numbers_of(name: &str) -> Option<(u32, u32)> {
    let (pid, number) = name.strip_suffix(FILE_EXTENSION)?.strip_suffix('.')?.split_once('-')?;
    Some((pid.parse().ok()?, number.parse().ok()?))
}

impl<'s> WithCode<'s> {
    /// Of all translated processes whose rings are in `directory`.
    pub(super) fn new(sink: &'s mut dyn TraceSink, directory: PathBuf) -> Self {
        Self { sink, directory, files: BTreeMap::new(), pids: HashMap::new() }
    }

    /// Tells of all that is described by now, of all processes: what one has forked runs what that had described.
    fn tell(&mut self, process: u32) -> io::Result<()> {
        self.find_files()?;
        let mut found = Vec::new();
        for file in self.files.values_mut() {
            found.extend(file.read()?);
        }
        if found.is_empty() { Ok(()) } else { self.sink.take(Event::Code { process, found }) }
    }

    /// The file of a process, which it made when it began.
    fn file_of(&self, (pid, index): (u32, usize)) -> Option<&CodeFile> {
        self.files.range((pid, 0)..=(pid, u32::MAX)).nth(index).map(|(_, file)| file)
    }

    /// Opens files that are new, where any process's is not known.
    fn find_files(&mut self) -> io::Result<()> {
        if self.pids.values().all(|process| self.file_of(*process).is_some()) {
            return Ok(());
        }
        for entry in fs::read_dir(&self.directory)?.flatten() {
            let name = entry.file_name();
            if let Some(numbers) = name.to_str().and_then(numbers_of)
                && let BTreeEntry::Vacant(unknown) = self.files.entry(numbers)
            {
                unknown.insert(CodeFile::open(&entry.path())?);
            }
        }
        Ok(())
    }

    /// The object where the program has it, and not where it is in the translator.
    fn in_the_program(&self, process: u32, head: ObjectHead) -> ObjectHead {
        let of_process = self.pids.get(&process).and_then(|process| self.file_of(*process)?.head);
        let guest_base = of_process.map_or(0, |head| head.guest_base);
        // Threads' pointers are the translator's, too.
        ObjectHead { start: head.start.wrapping_sub(guest_base), block_below: 0, ..head }
    }
}

impl TraceSink for WithCode<'_> {
    fn take(&mut self, event: Event<'_>) -> io::Result<()> {
        match event {
            Event::Begin(process) => {
                let before = self.pids.values().filter(|(pid, _)| *pid == process.pid).count();
                self.pids.insert(process.number, (process.pid, before));
                self.sink.take(Event::Begin(process))
            }
            Event::Object { process, path, head, section } => {
                self.tell(process)?;
                let head = self.in_the_program(process, head);
                // What it says of records of its own is not asked: none of them comes.
                self.sink.take(Event::Object { process, path, head, section: Ok(section.unwrap_or_default()) })
            }
            Event::Chunk(ref chunk) | Event::Part(ref chunk) => {
                self.tell(chunk.process)?;
                self.sink.take(event)
            }
            Event::End(mut end) => {
                self.tell(end.process)?;
                if let Some(file) = self.pids.get(&end.process).and_then(|process| self.file_of(*process)) {
                    file.add_to(&mut end);
                }
                self.sink.take(Event::End(end))
            }
            event => self.sink.take(event),
        }
    }

    fn spare(&mut self) -> Vec<u64> {
        self.sink.spare()
    }

    fn needs_order(&self) -> bool {
        self.sink.needs_order()
    }

    fn take_growing(&mut self, chunk: Chunk<'_>, now: u64) -> io::Result<usize> {
        self.tell(chunk.process)?;
        self.sink.take_growing(chunk, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_told_is_lost() {
        let losses = |counts: [u64; 7]| {
            let mut losses = ProcessLosses::default();
            add_losses(&mut losses, |counter| counts[counter as usize]);
            (losses.unread_values, losses.extended_numbers, losses.processor_states)
        };
        let unseen = |instructions, runs| Unseen { instructions, runs };
        assert_eq!(losses([5, 3, 100, 0, 1, 2, 0]), (5, unseen(3, 100), unseen(1, 2)));
        // Each sort for itself: one that is told has run once before it was.
        assert_eq!(losses([0, 3, 1, 1, 1, 2, 0]), (0, Unseen::default(), unseen(1, 2)));
        assert_eq!(losses([0, 3, 1, 0, 1, 1, 1]), (0, unseen(3, 1), Unseen::default()));
    }

    #[test]
    fn files_are_of_processes_by_their_numbers() {
        assert_eq!(numbers_of("77-12.code"), Some((77, 12)));
        for other in ["77-12.trace", "77.code", "a-1.code", "77-1code", ""] {
            assert_eq!(numbers_of(other), None, "{other}");
        }
    }
}
