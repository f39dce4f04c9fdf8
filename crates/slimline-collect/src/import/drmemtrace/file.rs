//! The files of a trace: one a thread (or a core), plain, of gzip or lz4, or a zip of parts that follow each other.

use std::io::{self, BufRead as _, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::{DeflateDecoder, MultiGzDecoder};
use lz4_flex::frame::FrameDecoder;
use zip::{CompressionMethod, ZipArchive};

use super::open_files::{Bytes, OpenFiles};

/// How a file is packed, by its name's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packing {
    Plain,
    Gzip,
    Lz4,
    Zip,
}

const PACKINGS: [(&str, Packing); 4] = [
    (".trace.zip", Packing::Zip),
    (".trace.gz", Packing::Gzip),
    (".trace.lz4", Packing::Lz4),
    (".trace", Packing::Plain),
];
/// What another packing's names end in that drmemtrace knows.
const UNREAD: &str = ".trace.sz";

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
        } else if name.ends_with(UNREAD) {
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

/// A file's records, of which so many bytes are read at a time.
pub(super) fn open(files: &OpenFiles, path: &Path, buffer_bytes: usize) -> io::Result<Box<dyn Read>> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let whole = || BufReader::with_capacity(buffer_bytes, files.whole(path));
    Ok(match packing(&name).unwrap_or(Packing::Plain) {
        Packing::Plain => Box::new(whole()),
        Packing::Gzip => Box::new(MultiGzDecoder::new(whole())),
        Packing::Lz4 => Box::new(Frames(Some(FrameDecoder::new(whole())))),
        Packing::Zip => Box::new(Parts::new(files, path, buffer_bytes)?),
    })
}

/// The frames of an lz4 file, one behind the other.
struct Frames(Option<FrameDecoder<BufReader<Bytes>>>);

impl Read for Frames {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(frame) = &mut self.0 {
            let bytes = frame.read(buffer)?;
            if bytes > 0 || buffer.is_empty() {
                return Ok(bytes);
            }
            // Its end, or that of the file: a decoder for the next one, as blocks may be of another size there.
            let mut rest = self.0.take().map(FrameDecoder::into_inner);
            if rest.as_mut().is_some_and(|rest| rest.fill_buf().is_ok_and(<[u8]>::is_empty)) {
                break;
            }
            self.0 = rest.map(FrameDecoder::new);
        }
        Ok(0)
    }
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
        let mut archive = ZipArchive::new(std::fs::File::open(path)?)?;
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
