//! Reading a recorded trace.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::frame::{self, Found, FrameKind, FrameReader};
use super::{FORMAT, INFO_FILE, OBJECTS_FILE, RecordingError, TraceInfo, columns, is_recording};
use crate::regular_file::open_regular;
use crate::stream::chunk::Chunk;
use crate::stream::decode::Program;
use crate::stream::ring::{CHUNK_BYTES, OVERFLOW_BYTES};

/// Words that a chunk can have.
const MOST_WORDS: usize = (CHUNK_BYTES + OVERFLOW_BYTES) / 8;

/// A file with site tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedObject {
    /// Number of the process that loaded it.
    pub process: u32,
    /// Where it was.
    pub path: String,
    /// Its section of site tables.
    pub section: Vec<u8>,
}

/// A recorded trace that was opened.
#[derive(Debug)]
pub struct Recording {
    info: TraceInfo,
    objects: Vec<RecordedObject>,
    /// All chunks, in the order in which they were published.
    chunks: Vec<Place>,
    files: Vec<ChunkFile>,
    cut: Vec<PathBuf>,
}

#[derive(Debug)]
struct ChunkFile {
    path: PathBuf,
    process: u32,
    stream: u32,
}

/// Where a chunk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    /// Those that were never full come last.
    last_ns: u64,
    sequence: u64,
    file: usize,
    offset: u64,
}

impl Recording {
    /// Opens the trace in a directory.
    pub fn open(directory: &Path) -> Result<Self, RecordingError> {
        if !is_recording(directory) {
            return Err(RecordingError::NoTrace(directory.to_owned()));
        }
        let path = directory.join(INFO_FILE);
        let text = fs::read_to_string(&path).map_err(RecordingError::io(&path))?;
        let info: TraceInfo =
            serde_json::from_str(&text).map_err(|error| RecordingError::damaged(&path, error.to_string()))?;
        if info.format != FORMAT {
            return Err(RecordingError::Format { path: directory.to_owned(), found: info.format });
        }
        let mut recording = Self { info, objects: Vec::new(), chunks: Vec::new(), files: Vec::new(), cut: Vec::new() };
        recording.read_objects(&directory.join(OBJECTS_FILE))?;
        let entries = fs::read_dir(directory).map_err(RecordingError::io(directory))?;
        let mut files: Vec<ChunkFile> = entries.flatten().filter_map(|entry| chunk_file(&entry.path())).collect();
        files.sort_by_key(|file| (file.process, file.stream));
        for file in files {
            recording.find_chunks(file)?;
        }
        recording.chunks.sort();
        Ok(recording)
    }

    /// What ran.
    pub fn info(&self) -> &TraceInfo {
        &self.info
    }

    /// Files with site tables.
    pub fn objects(&self) -> &[RecordedObject] {
        &self.objects
    }

    /// Files that end within a chunk: what comes behind the last whole one is lost.
    pub fn cut(&self) -> &[PathBuf] {
        &self.cut
    }

    /// Reads all chunks in the order in which they were published.
    ///
    /// # Errors
    /// A file is damaged, or was changed since it was opened.
    pub fn read(&self, program: &Program, mut take: impl FnMut(Chunk<'_>)) -> Result<(), RecordingError> {
        let mut open: Option<(usize, File)> = None;
        let mut frames = FrameReader::new().map_err(RecordingError::io(Path::new("zstd")))?;
        let mut words = Vec::new();
        for place in &self.chunks {
            let ChunkFile { path, process, stream } = &self.files[place.file];
            let mut file = match open.take() {
                Some((index, file)) if index == place.file => file,
                _ => open_regular(path).map_err(RecordingError::io(path))?,
            };
            file.seek(SeekFrom::Start(place.offset)).map_err(RecordingError::io(path))?;
            let Found::Frame(kind, numbers) = frames.read(&mut file).map_err(RecordingError::io(path))? else {
                return Err(RecordingError::damaged(path, "a chunk is gone that was there"));
            };
            let [tid_and_count, sequence, first_ns, last_ns, is_open] = numbers;
            let (tid, count) = ((tid_and_count >> 32) as u32, (tid_and_count as u32) as usize);
            read_words(program, kind, frames.content(), &mut words)
                .filter(|()| words.len() == count)
                .ok_or_else(|| RecordingError::damaged(path, format!("the chunk at byte {}", place.offset)))?;
            let (process, stream, is_open) = (*process, *stream, is_open & 1 != 0);
            let words = Cow::Borrowed(&words[..]);
            take(Chunk { process, stream, tid, sequence, first_ns, last_ns, words, is_open });
            open = Some((place.file, file));
        }
        Ok(())
    }

    fn read_objects(&mut self, path: &Path) -> Result<(), RecordingError> {
        let Some(mut file) = self.begin(path)? else { return Ok(()) };
        let mut frames = FrameReader::new().map_err(RecordingError::io(path))?;
        loop {
            match frames.read(&mut file).map_err(RecordingError::io(path))? {
                Found::End => return Ok(()),
                Found::Frame(FrameKind::Object, [process, path_bytes, ..]) => {
                    let path_bytes = path_bytes as usize;
                    let Some((path, section)) = frames.content().split_at_checked(path_bytes) else { continue };
                    self.objects.push(RecordedObject {
                        process: process as u32,
                        path: String::from_utf8_lossy(path).into_owned(),
                        section: section.to_vec(),
                    });
                }
                Found::Frame(..) | Found::Cut => {
                    self.cut.push(path.to_owned());
                    return Ok(());
                }
            }
        }
    }

    fn find_chunks(&mut self, chunk_file: ChunkFile) -> Result<(), RecordingError> {
        let path = chunk_file.path.clone();
        let index = self.files.len();
        self.files.push(chunk_file);
        let Some(mut file) = self.begin(&path)? else { return Ok(()) };
        let mut frames = FrameReader::new().map_err(RecordingError::io(&path))?;
        loop {
            let offset = file.stream_position().map_err(RecordingError::io(&path))?;
            match frames.read(&mut file).map_err(RecordingError::io(&path))? {
                Found::End => return Ok(()),
                Found::Frame(FrameKind::Columns | FrameKind::Words, numbers) => {
                    let [_, sequence, _, last_ns, _] = numbers;
                    let last_ns = if last_ns == 0 { u64::MAX } else { last_ns };
                    self.chunks.push(Place { last_ns, sequence, file: index, offset });
                }
                Found::Frame(..) | Found::Cut => {
                    self.cut.push(path);
                    return Ok(());
                }
            }
        }
    }

    /// Opens a file of frames; none where it has no whole head.
    fn begin(&mut self, path: &Path) -> Result<Option<File>, RecordingError> {
        let mut file = match open_regular(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(RecordingError::io(path)(error)),
        };
        if !frame::read_head(&mut file).map_err(RecordingError::io(path))? {
            self.cut.push(path.to_owned());
            return Ok(None);
        }
        Ok(Some(file))
    }
}

/// Puts what a frame holds into `words` (cleared first). None where it is no chunk.
fn read_words(program: &Program, kind: FrameKind, content: &[u8], words: &mut Vec<u64>) -> Option<()> {
    words.clear();
    match kind {
        FrameKind::Columns => columns::decode(program, content, MOST_WORDS, words),
        FrameKind::Words => {
            let (found, rest) = content.as_chunks();
            let is_chunk = rest.is_empty() && found.len() <= MOST_WORDS;
            is_chunk.then(|| words.extend(found.iter().map(|word| u64::from_le_bytes(*word))))
        }
        FrameKind::Object => None,
    }
}

/// `p<process>-s<stream>.chunks`
fn chunk_file(path: &Path) -> Option<ChunkFile> {
    let name = path.file_name()?.to_str()?.strip_prefix('p')?.strip_suffix(".chunks")?;
    let (process, stream) = name.split_once("-s")?;
    Some(ChunkFile { path: path.to_owned(), process: process.parse().ok()?, stream: stream.parse().ok()? })
}
