//! Traces of DynamoRIO's drmemtrace: a directory with a file for each thread or core, or one file.
//!
//! A file tells the time each time that its thread's buffer was full (some thousand accesses), so what is between two times is
//! one [`ThreadPart`], and parts of all threads come in the order in which they began. A core's file has several threads, each with
//! a header and a footer of its own, which are not the file's begin and end. Format: `trace_entry.h` of DynamoRIO, of versions 1
//! to 8 and newer ones as far as they are alike; what is not known is counted.

mod entry;
mod file;
mod open_files;
mod thread;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::{Path, PathBuf};

use slimline_trace::stream::recording::is_recording;

use self::entry::{ENTRY_BYTES, is_trace};
use self::file::Found;
use self::open_files::OpenFiles;
use self::thread::ThreadFile;
use super::TracedAccess;
use super::input::{Input, InputError};

/// Read of a file in one go: less where there are many, as each has a buffer or two.
const FILE_BUFFER_BYTES: usize = 1 << 16;
const MOST_BUFFER_BYTES: usize = 1 << 25;
const LEAST_BUFFER_BYTES: usize = 1 << 12;

/// Part of what a thread did.
#[derive(Debug)]
pub struct ThreadPart<'a> {
    /// Which file it is of: one thread's, mostly.
    pub file: u32,
    /// The process's number, 0 where it is not told.
    pub process: u64,
    /// The thread's number.
    pub thread: u64,
    /// When it began, in microseconds.
    pub since_us: u64,
    /// When it ended; none where that is not told.
    pub until_us: Option<u64>,
    /// What was accessed, each with the address of its instruction.
    pub accesses: &'a [(TracedAccess, u64)],
}

/// What a trace holds beside accesses, or lacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DrmemtraceLosses {
    /// Prefetches, which are passed over.
    pub prefetches: u64,
    /// Of caches, likewise.
    pub flushes: u64,
    /// Records and markers of types that are not known.
    pub unknown: u64,
    /// Accesses behind the end of a thread, of nobody.
    pub of_nobody: u64,
    /// Files that end before their thread did.
    pub cut_files: u64,
    /// The tracer left out what hit its own filter, a small cache.
    pub is_filtered: bool,
}

impl DrmemtraceLosses {
    fn add(&mut self, other: &Self) {
        self.prefetches += other.prefetches;
        self.flushes += other.flushes;
        self.unknown += other.unknown;
        self.of_nobody += other.of_nobody;
        self.cut_files += other.cut_files;
        self.is_filtered |= other.is_filtered;
    }
}

/// Why such a trace can't be read. Each displays as one line.
#[derive(Debug, thiserror::Error)]
pub enum DrmemtraceError {
    /// It can't be read, or is packed otherwise than what is read.
    #[error("{}: {error}", file.display())]
    Read {
        /// Which one.
        file: PathBuf,
        /// Why.
        error: InputError,
    },
    /// Nobody made a trace of what was written while the program ran.
    #[error("{}: only what drmemtrace wrote while the program ran; make a trace of it with: drrun -t drmemtrace -indir {}",
        .0.display(), .0.display())]
    Raw(PathBuf),
    /// Several traces, each of a part of the run.
    #[error("holds traces of several windows of the run: give one of them, as {}", .0.display())]
    Windows(PathBuf),
    /// It does not begin as such files do.
    #[error("{}: {reason}", file.display())]
    Foreign {
        /// Which one.
        file: PathBuf,
        /// What is in the way.
        reason: &'static str,
    },
    /// There is no access in it.
    #[error("{}: holds no access", .0.display())]
    Empty(PathBuf),
}

/// Whether a directory is one of drmemtrace.
pub fn is_drmemtrace(directory: &Path) -> bool {
    !is_recording(directory) && file::find(directory).is_ok_and(|found| found != Found::Nothing)
}

/// A trace of addresses that was opened.
#[derive(Debug)]
pub enum AddressInput {
    /// One of drmemtrace.
    Drmemtrace(DrmemtraceInput),
    /// Another one, which is text.
    Text(Input),
}

/// One of drmemtrace that was opened.
#[derive(Debug)]
pub struct DrmemtraceInput {
    path: PathBuf,
    stream: Option<Input>,
}

/// Opens a trace of addresses: a directory of drmemtrace or one of its files, or text; `-` for standard input.
///
/// # Errors
/// A file can't be opened, or is packed otherwise than what is read.
pub fn open_addresses(path: &Path) -> Result<AddressInput, InputError> {
    let path = path.to_owned();
    if path.is_dir() || file::is_zip_of_trace(&path) {
        return Ok(AddressInput::Drmemtrace(DrmemtraceInput { path, stream: None }));
    }
    let input = Input::open(&path)?;
    Ok(match is_trace(input.begin()) {
        true => AddressInput::Drmemtrace(DrmemtraceInput { path, stream: Some(input) }),
        false => AddressInput::Text(input),
    })
}

/// Reads a trace to its end, and hands on what threads did, part by part in the order in which parts began.
///
/// # Errors
/// A file can't be read, is of another kind, or holds no data.
pub fn read_drmemtrace(
    input: DrmemtraceInput,
    take: &mut dyn FnMut(ThreadPart<'_>),
) -> Result<DrmemtraceLosses, DrmemtraceError> {
    let DrmemtraceInput { path: input, stream } = input;
    let read_error = |file: &Path| {
        let file = file.to_owned();
        |error| DrmemtraceError::Read { file, error }
    };
    let open_files = OpenFiles::default();
    let mut files = Vec::new();
    if let Some(stream) = stream {
        files.push(ThreadFile::new(stream.into_stream(), input.clone(), FILE_BUFFER_BYTES));
    } else {
        let paths = match input.is_dir() {
            false => vec![input.clone()],
            true => match file::find(&input).map_err(InputError::Read).map_err(read_error(&input))? {
                Found::Trace(paths) => paths,
                Found::Windows(first) => return Err(DrmemtraceError::Windows(first)),
                Found::Raw => return Err(DrmemtraceError::Raw(input)),
                Found::Nothing => return Err(DrmemtraceError::Empty(input)),
            },
        };
        let buffer_bytes = (MOST_BUFFER_BYTES / paths.len()).clamp(LEAST_BUFFER_BYTES, FILE_BUFFER_BYTES);
        for path in paths {
            let reader = file::open(&open_files, &path, buffer_bytes).map_err(read_error(&path))?;
            files.push(ThreadFile::new(reader, path, buffer_bytes));
        }
    }
    // Files by when their next part begins.
    let mut next = BinaryHeap::new();
    for (index, file) in files.iter_mut().enumerate() {
        next.extend(file.read_part()?.map(|since| Reverse((since, index))));
    }
    let mut any = false;
    while let Some(Reverse((_, index))) = next.pop() {
        let file = &mut files[index];
        any |= !file.part(index as u32).accesses.is_empty();
        take(file.part(index as u32));
        next.extend(file.read_part()?.map(|since| Reverse((since, index))));
    }
    let mut losses = DrmemtraceLosses::default();
    files.iter().for_each(|file| losses.add(&file.losses));
    if any { Ok(losses) } else { Err(DrmemtraceError::Empty(input)) }
}

#[cfg(test)]
mod tests;
