//! Code that translated processes have run: what their records mean, read before whoever gets these.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
            let segment = match described {
                Described::File(path) => {
                    self.files.push(path);
                    continue;
                }
                Described::Function(name) => {
                    self.functions = self.functions.iter().cloned().chain([name]).collect();
                    continue;
                }
                Described::Segment(segment) => segment,
            };
            let file = segment.file.and_then(|file| self.files.get(file as usize));
            let goes_on = |last: &&mut FoundCode| last.file.as_ref() == file;
            match found.last_mut().filter(goes_on) {
                Some(last) => {
                    last.segments.push(segment);
                    last.functions = Arc::clone(&self.functions);
                }
                None => {
                    let (file, functions) = (file.cloned(), Arc::clone(&self.functions));
                    found.push(FoundCode { module, first: self.segments, file, segments: vec![segment], functions });
                }
            }
            self.segments += 1;
        }
        self.read_to = written - rest.len() as u64;
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
        self.find_files()?;
        let mut found = Vec::new();
        for file in self.files.values_mut() {
            found.extend(file.read()?);
        }
        if found.is_empty() { Ok(()) } else { self.sink.take(Event::Code { process, found }) }
    }

    /// Opens the files of processes of which none is known.
    fn find_files(&mut self) -> io::Result<()> {
        let has_file = |pid: &u32| self.files.values().any(|file| file.head.is_some_and(|head| head.pid == *pid));
        if self.pids.values().all(has_file) {
            return Ok(());
        }
        for entry in fs::read_dir(&self.directory)?.flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let is_of_code = name.strip_suffix(FILE_EXTENSION).is_some_and(|name| name.ends_with('.'));
            if is_of_code && !self.files.contains_key(&name) {
                self.files.insert(name, CodeFile::open(&entry.path())?);
            }
        }
        Ok(())
    }

    /// The object where the program has it, and not where it is in the translator.
    fn in_the_program(&self, process: u32, head: ObjectHead) -> ObjectHead {
        let pid = self.pids.get(&process);
        let of_process = self.files.values().filter_map(|file| file.head).find(|head| Some(&head.pid) == pid);
        let guest_base = of_process.map_or(0, |head| head.guest_base);
        // Threads' pointers are the translator's, too.
        ObjectHead { start: head.start.wrapping_sub(guest_base), block_below: 0, ..head }
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
