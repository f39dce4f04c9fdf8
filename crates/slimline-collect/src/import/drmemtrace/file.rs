//! The files of a trace: one a thread (or a core), plain, of gzip, or a zip of parts that follow each other.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::read::{DeflateDecoder, MultiGzDecoder};
use zip::{CompressionMethod, ZipArchive};

/// Read in one go: a few for each thread.
const BUFFER_BYTES: usize = 1 << 16;

/// How a file is packed, by its name's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packing {
    Plain,
    Gzip,
    Zip,
}

const PACKINGS: [(&str, Packing); 3] =
    [(".trace.zip", Packing::Zip), (".trace.gz", Packing::Gzip), (".trace", Packing::Plain)];
/// What other packings' names end in that drmemtrace knows.
const UNREAD: [&str; 2] = [".trace.lz4", ".trace.sz"];

/// What a directory holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A trace, in these files.
    Trace(Vec<PathBuf>),
    /// One that is packed in a way that is not read: the first of its files.
    Unread(PathBuf),
    /// What the tracer wrote, and nobody made a trace of.
    Raw,
    /// Nothing of drmemtrace's.
    Nothing,
}

/// Looks for the files of a trace: in the directory that drmemtrace wrote, or in the directory `trace` of it.
pub(super) fn find(directory: &Path) -> io::Result<Found> {
    let below = directory.join("trace");
    let mut files = Vec::new();
    let mut unread = None;
    for entry in std::fs::read_dir(if below.is_dir() { &below } else { directory })? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if packing(&name).is_some() && path.is_file() {
            files.push(path);
        } else if UNREAD.iter().any(|end| name.ends_with(end)) {
            unread = Some(path);
        }
    }
    files.sort();
    Ok(match unread {
        _ if !files.is_empty() => Found::Trace(files),
        Some(file) => Found::Unread(file),
        None if directory.join("raw").is_dir() => Found::Raw,
        None => Found::Nothing,
    })
}

fn packing(name: &str) -> Option<Packing> {
    PACKINGS.into_iter().find(|(end, _)| name.ends_with(end)).map(|(_, packing)| packing)
}

/// A file's records.
pub(super) fn open(path: &Path) -> io::Result<Box<dyn Read>> {
    let file = File::open(path)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Ok(match packing(&name).unwrap_or(Packing::Plain) {
        Packing::Plain => Box::new(BufReader::with_capacity(BUFFER_BYTES, file)),
        Packing::Gzip => Box::new(MultiGzDecoder::new(BufReader::with_capacity(BUFFER_BYTES, file))),
        Packing::Zip => Box::new(Parts::new(file)?),
    })
}

/// The parts of a zip file, one behind the other.
struct Parts {
    file: Arc<File>,
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
    fn new(file: File) -> io::Result<Self> {
        let mut archive = ZipArchive::new(file.try_clone()?)?;
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
        Ok(Self { file: Arc::new(file), left, current: None })
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
            let stored = Stored { file: Arc::clone(&self.file), at: part.start, left: part.stored_bytes };
            let stored = BufReader::with_capacity(BUFFER_BYTES, stored);
            let reader: Box<dyn Read> =
                if part.is_deflated { Box::new(DeflateDecoder::new(stored)) } else { Box::new(stored) };
            self.current = Some((reader, part.bytes));
        }
    }
}

/// Bytes of a file that others read as well.
struct Stored {
    file: Arc<File>,
    at: u64,
    left: u64,
}

impl Read for Stored {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let bytes = self.file.read_at(&mut buffer[..most], self.at)?;
        self.at += bytes as u64;
        self.left -= bytes as u64;
        Ok(bytes)
    }
}
