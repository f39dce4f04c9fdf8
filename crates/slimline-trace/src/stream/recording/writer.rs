//! Writing a recorded trace.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, DirEntry, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use twox_hash::XxHash64;

pub use super::encoder::ChunkPages;
use super::encoder::{Encoded, Encoders};
use super::frame::{self, FrameKind, FrameWriter};
use super::homes::{self, HOMES_FILE};
use super::{
    CHUNKS, FORMAT, INFO_FILE, OBJECTS_FILE, ProcessInfo, REGIONS_FILE, RecordingError, TraceInfo, chunk_file,
    is_recording, stream_of,
};
use crate::place::{OLD, beside, foreign_in, is_being_written, open_locked, private_directory};
use crate::session::End;
use crate::stream::chunk::Chunk;
use crate::stream::growing::GrowingProgram;
use crate::stream::is_a_thread_s;
use crate::stream::pages::{ChunkHomes, HomesInfo};

/// Name of [`INFO_FILE`] until all of it is there.
const INFO_TEMPORARY: &str = "trace.json.tmp";

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordedTotals {
    /// Words of all chunks that the program wrote.
    pub words: u64,
    /// Bytes of their frames.
    pub bytes: u64,
}

/// A trace that is being written. Each chunk goes to its file as soon as it is a frame: where this process is killed some
/// chunks are lost, and what comes after.
#[derive(Debug)]
pub struct RecordingWriter {
    directory: PathBuf,
    /// Says to others that it is being written, until this one is gone.
    _lock: File,
    info: TraceInfo,
    totals: RecordedTotals,
    /// Hashes of the objects that were written.
    objects: HashSet<u64>,
    /// What they tell.
    program: GrowingProgram,
    encoders: Encoders,
    /// Of chunks that became frames, where they are asked for.
    pages: Vec<ChunkPages>,
    /// Something could not be written: what would come after it is not, so that what is there has no gap.
    has_failed: bool,
}

impl RecordingWriter {
    /// Makes the directory (mode 0700, unless there is an empty one). A trace that is there and holds any chunk becomes
    /// `<directory>.old`, in place of an older one; one that holds none is removed, so that the older one stays.
    ///
    /// # Errors
    /// Something else is there, or in a trace that would be removed, or another slimline writes there.
    pub fn create(directory: &Path, command: Vec<String>) -> Result<Self, RecordingError> {
        set_aside(directory)?;
        let made = directory.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| private_directory(directory));
        match made {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(RecordingError::io(directory)(error));
            }
            _ => {}
        }
        let lock = open_locked(directory).map_err(RecordingError::io(directory))?;
        let lock = lock.ok_or_else(|| RecordingError::BeingWritten(directory.to_owned()))?;
        let info = TraceInfo { format: FORMAT, command, ..TraceInfo::default() };
        let writer = Self {
            directory: directory.to_owned(),
            _lock: lock,
            info,
            totals: RecordedTotals::default(),
            objects: HashSet::new(),
            program: GrowingProgram::default(),
            encoders: Encoders::new().map_err(RecordingError::io(directory))?,
            pages: Vec::new(),
            has_failed: false,
        };
        writer.write_info().map_err(RecordingError::io(directory))?;
        Ok(writer)
    }

    /// A process begins.
    pub fn begin(&mut self, process: ProcessInfo) -> io::Result<()> {
        self.info.processes.push(process);
        self.write_info()
    }

    /// A process ends: what is known of it by now.
    pub fn end(&mut self, number: u32, waited_ns: u64, is_gated: bool, missing: Vec<String>) -> io::Result<()> {
        self.write_waiting()?;
        if let Some(process) = self.info.processes.iter_mut().find(|process| process.number == number) {
            process.waited_ns = waited_ns;
            process.is_gated = is_gated;
            process.missing = missing;
        }
        self.write_info()
    }

    /// A process loaded a file with this section of site tables; written once. What is wrong with them who reads the trace finds.
    pub fn object(&mut self, process: u32, path: &str, section: &[u8]) -> io::Result<()> {
        let content = [path.as_bytes(), section].concat();
        // Processes of a run mostly have the same ones, which mean the same for all.
        if !self.objects.insert(XxHash64::oneshot(path.len() as u64, &content)) {
            return Ok(());
        }
        let _ = self.program.add_section(section);
        let numbers = [process.into(), path.len() as u64, 0, 0, 0];
        let mut frame = Vec::new();
        FrameWriter::new()?.make(FrameKind::Object, numbers, &content, &mut frame)?;
        self.append(OBJECTS_FILE, &frame)
    }

    /// A stream's next chunk, written by the objects that were told. What is wrong with writing it a later call may tell.
    pub fn chunk(&mut self, chunk: Chunk<'_>) -> io::Result<()> {
        if self.encoders.is_full() {
            self.write_next()?;
        }
        self.encoders.begin(self.program.known(), chunk);
        Ok(())
    }

    /// From now on tells of each chunk which pages it touches ([`Self::take_pages`]).
    pub fn tell_pages(&mut self) {
        self.encoders.tells_pages = true;
    }

    /// The pages of chunks that have become frames since this was called last.
    pub fn take_pages(&mut self) -> Vec<ChunkPages> {
        std::mem::take(&mut self.pages)
    }

    /// Where a chunk's pages are.
    pub fn homes(&mut self, homes: &ChunkHomes) -> io::Result<()> {
        let (mut content, mut frame) = (Vec::new(), Vec::new());
        let numbers = homes::encode(homes, &mut content);
        FrameWriter::new()?.make(FrameKind::Homes, numbers, &content, &mut frame)?;
        self.append(HOMES_FILE, &frame)
    }

    /// What came of asking for homes of pages.
    pub fn asked_for_homes(&mut self, homes: HomesInfo) {
        self.info.homes = Some(homes);
    }

    /// Memory of a chunk that was written, or of none.
    pub fn spare(&mut self) -> Vec<u64> {
        self.encoders.spare()
    }

    /// Writes the chunk that has waited longest; false where none does.
    fn write_next(&mut self) -> io::Result<bool> {
        let Some(encoded) = self.encoders.finish() else { return Ok(false) };
        if self.has_failed {
            return Ok(false);
        }
        self.has_failed = true;
        let Encoded { process, stream, words, frame, pages } = encoded?;
        self.pages.extend(pages);
        self.append(&chunk_file(process, stream), &frame)?;
        self.has_failed = false;
        if is_a_thread_s(stream) {
            self.totals.words += words;
        }
        self.totals.bytes += frame.len() as u64;
        self.encoders.keep(frame);
        Ok(true)
    }

    /// The program has ended, and of its run so many windows were traced, if only windows were.
    pub fn ended(&mut self, end: End, windows: Option<u32>) {
        (self.info.end, self.info.windows) = (Some(end), windows);
    }

    /// Writes what waits, and the last `trace.json`: all that was written, and why not all was.
    pub fn finish(mut self, complete: bool) -> (RecordedTotals, io::Result<()>) {
        let mut written = self.write_waiting();
        self.info.complete = complete && !self.has_failed;
        let told = self.write_info();
        if written.is_ok() {
            written = told;
        }
        (self.totals, written)
    }

    /// Writes all chunks that wait, up to one that can't be.
    pub fn write_waiting(&mut self) -> io::Result<()> {
        while self.write_next()? {}
        Ok(())
    }

    /// Opened for each frame: there may be more streams than descriptors.
    fn append(&mut self, name: &str, frame: &[u8]) -> io::Result<()> {
        let path = self.directory.join(name);
        let mut file = OpenOptions::new().append(true).create(true).open(path)?;
        if file.metadata()?.len() == 0 {
            frame::write_head(&mut file)?;
        }
        file.write_all(frame)?;
        match self.info.frames.get_mut(name) {
            Some(frames) => *frames += 1,
            None => drop(self.info.frames.insert(name.to_owned(), 1)),
        }
        Ok(())
    }

    /// In one step: nobody sees half a file.
    fn write_info(&self) -> io::Result<()> {
        let path = self.directory.join(INFO_FILE);
        let temporary = self.directory.join(INFO_TEMPORARY);
        let written = File::create(&temporary).and_then(|file| Ok(serde_json::to_writer_pretty(file, &self.info)?));
        let told = written.and_then(|()| fs::rename(&temporary, path));
        if told.is_err() {
            // Where there is no room for it, an empty one would be left.
            let _ = fs::remove_file(temporary);
        }
        told
    }
}

/// Where the trace is that was recorded before the one in `directory`, if it holds any chunk.
pub fn earlier_recording(directory: &Path) -> Option<PathBuf> {
    let old = beside(directory, OLD);
    (is_recording(&old) && holds_chunks(&old).ok()?).then_some(old)
}

/// Moves the trace away that is there, or removes it.
fn set_aside(directory: &Path) -> Result<(), RecordingError> {
    let is_free = match fs::read_dir(directory) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => return Err(RecordingError::io(directory)(error)),
    };
    if is_free {
        return Ok(());
    }
    if !is_recording(directory) {
        return Err(RecordingError::InTheWay(directory.to_owned()));
    }
    if is_being_written(directory) {
        return Err(RecordingError::BeingWritten(directory.to_owned()));
    }
    if !holds_chunks(directory).map_err(RecordingError::io(directory))? {
        return remove(directory);
    }
    let old = beside(directory, OLD);
    if is_recording(&old) {
        remove(&old)?;
    }
    fs::rename(directory, &old).map_err(RecordingError::io(&old))
}

/// Whether a program wrote any of them.
fn holds_chunks(directory: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(directory)? {
        if stream_of(&entry?.path()).is_some_and(|(_, stream)| is_a_thread_s(stream)) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_of_chunks(path: &Path) -> bool {
    path.extension() == Some(OsStr::new(CHUNKS))
}

fn remove(directory: &Path) -> Result<(), RecordingError> {
    match foreign_in(directory, is_of_trace).map_err(RecordingError::io(directory))? {
        Some(file) => Err(RecordingError::HoldsMore { trace: directory.to_owned(), file }),
        None => fs::remove_dir_all(directory).map_err(RecordingError::io(directory)),
    }
}

/// What is foreign of an entry of a trace.
fn is_of_trace(entry: &DirEntry) -> io::Result<Option<PathBuf>> {
    let (path, name) = (entry.path(), entry.file_name());
    let is_own = is_of_chunks(&path)
        || [INFO_FILE, INFO_TEMPORARY, OBJECTS_FILE, HOMES_FILE, REGIONS_FILE].map(OsStr::new).contains(&&*name);
    Ok((!is_own || entry.file_type()?.is_dir()).then_some(path))
}
