//! Traces of DynamoRIO's drmemtrace: a directory with a file for each thread.
//!
//! A file tells the time each time that its thread's buffer was full (some thousand accesses), so what is between two times is
//! one [`ThreadPart`], and parts of all threads come in the order in which they began. Format: `trace_entry.h` of DynamoRIO,
//! of versions 2 to 8 and newer ones as far as they are alike; what is not known is counted.

mod entry;
mod file;
mod open_files;
mod thread;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::path::{Path, PathBuf};

use self::file::Found;
use self::open_files::OpenFiles;
use self::thread::ThreadFile;
use super::TracedAccess;

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
    /// Records of types that are not known.
    pub unknown: u64,
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
        self.cut_files += other.cut_files;
        self.is_filtered |= other.is_filtered;
    }
}

/// Why such a trace can't be read. Each displays as one line.
#[derive(Debug, thiserror::Error)]
pub enum DrmemtraceError {
    /// The system refused, or a file is not packed as its name says.
    #[error("{}: {error}", file.display())]
    Read {
        /// Which one.
        file: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Nobody made a trace of what was written while the program ran.
    #[error("{}: only what drmemtrace wrote while the program ran; make a trace of it with: drrun -t drmemtrace -indir {}",
        .0.display(), .0.display())]
    Raw(PathBuf),
    /// There is no reader for it.
    #[error("{}: packed in a way that is not read; pack it anew: drrun -t drmemtrace -indir DIR -compress zip", .0.display())]
    Packing(PathBuf),
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
    file::find(directory).is_ok_and(|found| found != Found::Nothing)
}

/// Reads a trace to its end, and hands on what threads did, part by part in the order in which parts began.
///
/// # Errors
/// A file can't be read, is of another kind, or holds no data.
pub fn read_drmemtrace(
    directory: &Path,
    take: &mut dyn FnMut(ThreadPart<'_>),
) -> Result<DrmemtraceLosses, DrmemtraceError> {
    let read_error = |file: &Path| {
        let file = file.to_owned();
        |error| DrmemtraceError::Read { file, error }
    };
    let paths = match file::find(directory).map_err(read_error(directory))? {
        Found::Trace(paths) => paths,
        Found::Unread(file) => return Err(DrmemtraceError::Packing(file)),
        Found::Raw => return Err(DrmemtraceError::Raw(directory.to_owned())),
        Found::Nothing => return Err(DrmemtraceError::Empty(directory.to_owned())),
    };
    let open_files = OpenFiles::default();
    let buffer_bytes = (MOST_BUFFER_BYTES / paths.len()).clamp(LEAST_BUFFER_BYTES, FILE_BUFFER_BYTES);
    let mut files = Vec::with_capacity(paths.len());
    for path in paths {
        let reader = file::open(&open_files, &path, buffer_bytes).map_err(read_error(&path))?;
        files.push(ThreadFile::new(reader, path, buffer_bytes));
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
    if any { Ok(losses) } else { Err(DrmemtraceError::Empty(directory.to_owned())) }
}

#[cfg(test)]
mod tests;
