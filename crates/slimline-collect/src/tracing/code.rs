//! Code that translated processes have run: what their records mean, read before whoever gets these.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::PathBuf;

use slimline_trace::stream::chunk::Chunk;
use slimline_trace::stream::record::ModuleId;
use slimline_trace::stream::ring::ObjectHead;
use slimline_trace::stream::translated::{CodeHead, Described, FILE_EXTENSION, SegmentCode};

use super::{Event, TraceSink};

/// Segments of one module, from one on, that come from one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundCode {
    /// The module.
    pub module: ModuleId,
    /// The number of the first one.
    pub first: u32,
    /// Path of the file; none of code that is in no file.
    pub file: Option<String>,
    /// What they are, in order.
    pub segments: Vec<SegmentCode>,
}

/// A process's file of descriptions.
#[derive(Debug)]
struct CodeFile {
    file: File,
    /// None until it is written.
    head: Option<CodeHead>,
    /// What was read and is not whole.
    rest: Vec<u8>,
    files: Vec<String>,
    segments: u32,
}

impl CodeFile {
    /// What is new in it.
    fn read(&mut self) -> io::Result<Vec<FoundCode>> {
        self.file.read_to_end(&mut self.rest)?;
        let mut at = 0;
        if self.head.is_none() {
            self.head = CodeHead::read(&self.rest);
            at = CodeHead::BYTES;
        }
        let module = self.head.and_then(|head| ModuleId::from_number(head.module));
        let Some(module) = module else { return Ok(Vec::new()) };
        let mut found: Vec<FoundCode> = Vec::new();
        while let Some((described, bytes)) = Described::read(&self.rest[at..]) {
            at += bytes;
            let segment = match described {
                Described::File(path) => {
                    self.files.push(path);
                    continue;
                }
                Described::Segment(segment) => segment,
            };
            let file = segment.file.and_then(|file| self.files.get(file as usize));
            match found.last_mut().filter(|last| last.file.as_ref() == file) {
                Some(last) => last.segments.push(segment),
                None => {
                    found.push(FoundCode { module, first: self.segments, file: file.cloned(), segments: vec![segment] })
                }
            }
            self.segments += 1;
        }
        self.rest.drain(..at);
        Ok(found)
    }
}

/// Tells a sink of code before it gets records of it.
pub(super) struct WithCode<'s> {
    sink: &'s mut dyn TraceSink,
    directory: PathBuf,
    /// By name.
    files: HashMap<String, CodeFile>,
    /// Of each process its number in the system.
    pids: HashMap<u32, u32>,
}

impl<'s> WithCode<'s> {
    /// Of all translated processes whose rings are in `directory`.
    pub(super) fn new(sink: &'s mut dyn TraceSink, directory: PathBuf) -> Self {
        Self { sink, directory, files: HashMap::new(), pids: HashMap::new() }
    }

    /// Tells of all that is described by now, of all processes: what one has forked runs what that had described.
    fn tell(&mut self, process: u32) -> io::Result<()> {
        for entry in fs::read_dir(&self.directory)?.flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            if name.strip_suffix(FILE_EXTENSION).is_some_and(|name| name.ends_with('.'))
                && !self.files.contains_key(&name)
            {
                let file = File::open(entry.path())?;
                let file = CodeFile { file, head: None, rest: Vec::new(), files: Vec::new(), segments: 0 };
                self.files.insert(name, file);
            }
        }
        let mut found = Vec::new();
        for file in self.files.values_mut() {
            found.extend(file.read()?);
        }
        if found.is_empty() { Ok(()) } else { self.sink.take(Event::Code { process, found }) }
    }

    /// The object where the program has it, and not where it is in the translator.
    fn in_the_program(&self, process: u32, head: ObjectHead) -> ObjectHead {
        let pid = self.pids.get(&process);
        let of_process = self.files.values().filter_map(|file| file.head).find(|head| Some(&head.pid) == pid);
        let guest_base = of_process.map_or(0, |head| head.guest_base);
        ObjectHead { start: head.start.wrapping_sub(guest_base), ..head }
    }
}

impl TraceSink for WithCode<'_> {
    fn take(&mut self, event: Event<'_>) -> io::Result<()> {
        match event {
            Event::Begin(process) => {
                self.pids.insert(process.number, process.pid);
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
