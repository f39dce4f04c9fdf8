//! Frames: pieces of a file that are whole or not there.

use std::fs::File;
use std::io::{self, Read, Write};

use super::FORMAT;

/// First bytes of every file of frames.
const FILE_MAGIC: [u8; 8] = *b"slimfram";
const FILE_HEAD_BYTES: usize = 12;
const HEAD_BYTES: usize = 56;
/// Most that a frame may hold: site tables of the largest programs. Guards against lengths that nobody wrote.
const MOST_BYTES: u32 = 1 << 30;
/// Fast enough to keep up with a program; higher levels gain little on columns.
const LEVEL: i32 = 1;

/// What a frame holds, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum FrameKind {
    /// Numbers: process, bytes of the path. Path and section.
    Object = 1,
    /// Numbers: words, sequence, time stamps of its beginning and end, bit 0: the chunk was open. Columns.
    Columns = 2,
    /// The same. The words as they are.
    Words = 3,
    /// Where pages were (`homes`).
    Homes = 4,
}

/// Begins a file.
pub(super) fn write_head(out: &mut impl Write) -> io::Result<()> {
    out.write_all(&FILE_MAGIC)?;
    out.write_all(&FORMAT.to_le_bytes())
}

/// Makes frames. Keeps its memory: what it takes would go back to the system and come anew each time.
pub(super) struct FrameWriter {
    compressor: zstd::bulk::Compressor<'static>,
}

impl std::fmt::Debug for FrameWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FrameWriter").finish_non_exhaustive()
    }
}

impl FrameWriter {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { compressor: zstd::bulk::Compressor::new(LEVEL)? })
    }

    /// Makes `bytes` a frame.
    pub(super) fn make(
        &mut self,
        kind: FrameKind,
        numbers: [u64; 5],
        content: &[u8],
        bytes: &mut Vec<u8>,
    ) -> io::Result<()> {
        let too_long = |_| io::Error::other("a frame of more than 4 GiB");
        bytes.resize(HEAD_BYTES + zstd::zstd_safe::compress_bound(content.len()), 0);
        let stored = self.compressor.compress_to_buffer(content, &mut bytes[HEAD_BYTES..])?;
        bytes.truncate(HEAD_BYTES + stored);
        let stored = u32::try_from(stored).map_err(too_long)?;
        let length = u32::try_from(content.len()).map_err(too_long)?;
        for (at, number) in (4..).step_by(4).zip([stored, length, kind as u32]) {
            bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
        }
        for (at, number) in (16..).step_by(8).zip(numbers) {
            bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        let checksum = crc32fast::hash(&bytes[4..]);
        bytes[..4].copy_from_slice(&checksum.to_le_bytes());
        Ok(())
    }
}

/// Reads the beginning of a file; false where it is not one of frames of this format.
pub(super) fn read_head(file: &mut File) -> io::Result<bool> {
    let mut head = [0; FILE_HEAD_BYTES];
    let length = read_up_to(file, &mut head)?;
    Ok(length == head.len() && head[..8] == FILE_MAGIC && head[8..] == FORMAT.to_le_bytes())
}

/// What there is at this place of a file.
#[derive(Debug)]
pub(super) enum Found {
    /// Its content is what [`FrameReader::content`] has.
    Frame(FrameKind, [u64; 5]),
    End,
    /// Not a whole frame.
    Cut,
}

/// Reads frames. Keeps its memory, as [`FrameWriter`] does.
pub(super) struct FrameReader {
    decompressor: zstd::bulk::Decompressor<'static>,
    stored: Vec<u8>,
    content: Vec<u8>,
}

impl FrameReader {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { decompressor: zstd::bulk::Decompressor::new()?, stored: Vec::new(), content: Vec::new() })
    }

    /// What the frame holds that was read last.
    pub(super) fn content(&self) -> &[u8] {
        &self.content
    }

    /// Reads the next frame.
    pub(super) fn read(&mut self, file: &mut File) -> io::Result<Found> {
        let mut head = [0; HEAD_BYTES];
        match read_up_to(file, &mut head)? {
            0 => return Ok(Found::End),
            HEAD_BYTES => {}
            _ => return Ok(Found::Cut),
        }
        let u32_at = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let [checksum, stored, length, kind] = [0, 4, 8, 12].map(u32_at);
        let numbers = [16, 24, 32, 40, 48].map(|at| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32);
        let kinds = [FrameKind::Object, FrameKind::Columns, FrameKind::Words, FrameKind::Homes];
        let Some(kind) = kinds.into_iter().find(|known| *known as u32 == kind) else { return Ok(Found::Cut) };
        if stored > MOST_BYTES || length > MOST_BYTES {
            return Ok(Found::Cut);
        }
        self.stored.clear();
        let read = file.take(u64::from(stored)).read_to_end(&mut self.stored)?;
        let mut crc = crc32fast::Hasher::new();
        crc.update(&head[4..]);
        crc.update(&self.stored);
        if read != stored as usize || crc.finalize() != checksum {
            return Ok(Found::Cut);
        }
        self.content.clear();
        self.content.reserve(length as usize);
        match self.decompressor.decompress_to_buffer(&self.stored, &mut self.content) {
            Ok(found) if found == length as usize => Ok(Found::Frame(kind, numbers)),
            _ => Ok(Found::Cut),
        }
    }
}

/// Fills the buffer as far as the file goes.
fn read_up_to(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        match file.read(&mut buffer[length..]) {
            Ok(0) => break,
            Ok(read) => length += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}
