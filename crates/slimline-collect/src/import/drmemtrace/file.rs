//! The files of a trace: one a thread, or one a core; plain, packed, or a zip of parts that follow each other.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use flate2::read::DeflateDecoder;
use zip::{CompressionMethod, ZipArchive};

use super::entry::is_trace;
use super::open_files::{Bytes, OpenFiles};
use crate::import::input::{InputError, check_kind, unpack};

/// What names of a thread's file end in, before what says how it is packed.
const NAMES: [&str; 2] = [".trace", ".memtrace"];
/// Ends of packed files' names.
const PACKED: [&str; 8] = ["zip", "gz", "lz4", "zst", "sz", "xz", "bz2", "lz"];
const ZIP: [u8; 4] = *b"PK\x03\x04";
/// What drmemtrace puts beside a trace: times and cores of threads, in files that look like others of it.
const SCHEDULE: &str = "_schedule.bin";
/// Bytes to know a file by.
const LEAST_BUFFER_BYTES: usize = 1 << 12;

/// What a directory holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A trace, in these files.
    Trace(Vec<PathBuf>),
    /// Several ones, each a part of the run: the directory of the first.
    Windows(PathBuf),
    /// What the tracer wrote, and nobody made a trace of.
    Raw,
    /// Nothing of drmemtrace's.
    Nothing,
}

/// Looks for the files of a trace: in the directory that drmemtrace wrote, or in the directory `trace` of it.
pub(super) fn find(directory: &Path) -> io::Result<Found> {
    let below = directory.join("trace");
    let (mut files, mut windows) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(if below.is_dir() { &below } else { directory })? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            windows.extend(name.starts_with("window.").then_some(path));
        } else if path.is_file() && (is_name(&name) || !name.contains(SCHEDULE) && begins_as_trace(&path)) {
            files.push(path);
        }
    }
    files.sort();
    Ok(match windows.into_iter().min() {
        _ if !files.is_empty() => Found::Trace(files),
        Some(first) => Found::Windows(first),
        None if directory.join("raw").is_dir() => Found::Raw,
        None => Found::Nothing,
    })
}

fn is_name(name: &str) -> bool {
    let unpacked = name.rsplit_once('.').filter(|(_, end)| PACKED.contains(end)).map_or(name, |(name, _)| name);
    NAMES.iter().any(|end| unpacked.ends_with(end))
}

/// Whether a file is of a trace, whatever its name.
fn begins_as_trace(path: &Path) -> bool {
    let read = || {
        let mut begin = Vec::new();
        let reader = open(&OpenFiles::default(), path, LEAST_BUFFER_BYTES).ok()?;
        reader.take(super::ENTRY_BYTES as u64).read_to_end(&mut begin).ok()?;
        Some(is_trace(&begin))
    };
    read().unwrap_or(false)
}

/// Whether a file is a zip of parts that are a trace together.
pub(super) fn is_zip_of_trace(path: &Path) -> bool {
    is_zip(path).unwrap_or(false) && begins_as_trace(path)
}

fn is_zip(path: &Path) -> io::Result<bool> {
    let mut begin = Vec::new();
    if std::fs::metadata(path)?.is_file() {
        File::open(path)?.take(ZIP.len() as u64).read_to_end(&mut begin)?;
    }
    Ok(begin == ZIP)
}

/// A file's records, of which so many bytes are read at a time.
pub(super) fn open(files: &OpenFiles, path: &Path, buffer_bytes: usize) -> Result<Box<dyn Read>, InputError> {
    if is_zip(path).map_err(InputError::Read)? {
        return Ok(Box::new(Parts::new(files, path, buffer_bytes).map_err(InputError::Read)?));
    }
    let (begin, rest) = unpack(Box::new(files.whole(path)), buffer_bytes).map_err(InputError::Read)?;
    check_kind(&begin, path)?;
    Ok(Box::new(Cursor::new(begin).chain(rest)))
}

/// The parts of a zip file, one behind the other.
struct Parts {
    file: Bytes,
    buffer_bytes: usize,
    /// Those that were not begun, the last one first.
    left: Vec<Part>,
    current: Option<(Box<dyn Read>, u64)>,
}

#[derive(Clone, Debug)]
struct Part {
    start: u64,
    stored_bytes: u64,
    bytes: u64,
    is_deflated: bool,
}

impl Parts {
    fn new(files: &OpenFiles, path: &Path, buffer_bytes: usize) -> io::Result<Self> {
        let mut archive = ZipArchive::new(File::open(path)?)?;
        check_whole(path, archive.offset(), archive.comment().len())?;
        let mut left = Vec::with_capacity(archive.len());
        // Chunks stand in the order in which they were written.
        for index in (0..archive.len()).rev() {
            let part = archive.by_index_raw(index)?;
            let name = String::from_utf8_lossy(part.name_raw()).into_owned();
            let is_deflated = match part.compression() {
                CompressionMethod::Stored => false,
                CompressionMethod::Deflated => true,
                other => return Err(io::Error::other(format!("{name} is packed by {other}"))),
            };
            let start = part.data_start().ok_or_else(|| io::Error::other("a part without a beginning"))?;
            left.push(Part { start, stored_bytes: part.compressed_size(), bytes: part.size(), is_deflated });
        }
        Ok(Self { file: files.whole(path), buffer_bytes, left, current: None })
    }
}

/// Whether a zip file is all of the file that it is in, which its reader does not need it to be.
///
/// # Errors
/// Other bytes are before or behind it.
fn check_whole(path: &Path, before: u64, comment_bytes: usize) -> io::Result<()> {
    const END_BYTES: u64 = 22;
    const END: &[u8; 4] = b"PK\x05\x06";
    let file = File::open(path)?;
    let mut end = [0; END.len()];
    let at = file.metadata()?.len().checked_sub(END_BYTES + comment_bytes as u64);
    if let Some(at) = at {
        file.read_exact_at(&mut end, at)?;
    }
    match before == 0 && &end == END {
        true => Ok(()),
        false => Err(io::Error::other("other bytes are before or behind the zip file: are several files in one?")),
    }
}

impl Read for Parts {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some((reader, left)) = &mut self.current {
                let bytes = reader.read(buffer)?;
                if bytes > 0 {
                    *left = left.saturating_sub(bytes as u64);
                    return Ok(bytes);
                }
                if *left > 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            let Some(part) = self.left.pop() else { return Ok(0) };
            let stored = self.file.part(part.start, part.stored_bytes);
            let stored = BufReader::with_capacity(self.buffer_bytes, stored);
            let reader: Box<dyn Read> =
                if part.is_deflated { Box::new(DeflateDecoder::new(stored)) } else { Box::new(stored) };
            self.current = Some((reader, part.bytes));
        }
    }
}
