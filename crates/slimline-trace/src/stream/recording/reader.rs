//! Reading a recorded trace.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::columns::ColumnDecoder;
use super::frame::{self, Found, FrameKind, FrameReader};
use super::homes::{self, HOMES_FILE};
use super::{FORMAT, INFO_FILE, OBJECTS_FILE, RecordingError, TraceInfo, is_recording, stream_of};
use crate::regular_file::open_regular;
use crate::session::is_session;
use crate::stream::decode::{Decoder, Program};
use crate::stream::is_a_thread_s;
use crate::stream::order::{Piece, Pieces, StreamKey};
use crate::stream::pages::ChunkHomes;
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
    streams: BTreeMap<StreamKey, Stream>,
    homes: Vec<ChunkHomes>,
    lacking: Vec<Lacking>,
}

/// A file that is gone, ends too early or is damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lacking {
    /// The file.
    pub path: PathBuf,
    /// Frames that can be read: what comes before the first one that is not whole.
    pub left: u64,
    /// Frames that there were when the writer last told.
    pub told: u64,
}

impl Lacking {
    /// In words.
    pub fn reason(&self) -> String {
        let Self { path, left, told } = self;
        let what = match path.file_name().and_then(OsStr::to_str) {
            Some(OBJECTS_FILE) => "site tables",
            Some(HOMES_FILE) => "parts of what the kernel told of pages",
            _ => "chunks",
        };
        let path = path.display();
        match left < told {
            true => format!("{} of {told} {what} of {path}: it was cut off, damaged or removed", told - left),
            false => format!("what came behind {left} {what} of {path}: it was cut off or damaged"),
        }
    }
}

#[derive(Debug)]
struct Stream {
    path: PathBuf,
    chunks: Vec<Place>,
}

/// Where a chunk is.
#[derive(Clone, Copy, Debug)]
struct Place {
    began: u64,
    offset: u64,
}

impl Recording {
    /// Opens the trace in a directory.
    pub fn open(directory: &Path) -> Result<Self, RecordingError> {
        if !is_recording(directory) {
            let is_there = directory.try_exists().map_err(RecordingError::io(directory))?;
            let error = match is_there {
                true if is_session(directory) => RecordingError::Session,
                true => RecordingError::NoTrace,
                false => RecordingError::Missing,
            };
            return Err(error(directory.to_owned()));
        }
        let path = directory.join(INFO_FILE);
        let text = fs::read_to_string(&path).map_err(RecordingError::io(&path))?;
        let info: TraceInfo =
            serde_json::from_str(&text).map_err(|error| RecordingError::damaged(&path, error.to_string()))?;
        if info.format != FORMAT {
            return Err(RecordingError::Format { path: directory.to_owned(), found: info.format });
        }
        let mut recording =
            Self { info, objects: Vec::new(), streams: BTreeMap::new(), homes: Vec::new(), lacking: Vec::new() };
        recording.read_objects(directory)?;
        recording.read_homes(&directory.join(HOMES_FILE))?;
        let entries = fs::read_dir(directory).map_err(RecordingError::io(directory))?;
        let mut files: Vec<(StreamKey, PathBuf)> =
            entries.flatten().filter_map(|entry| Some((stream_of(&entry.path())?, entry.path()))).collect();
        files.sort();
        for (key, path) in files {
            recording.find_chunks(key, path)?;
        }
        let is_there = |name: &&String| directory.join(name).exists();
        let gone: Vec<_> = recording.info.frames.keys().filter(|name| !is_there(name)).cloned().collect();
        gone.iter().for_each(|name| recording.lacks(&directory.join(name), 0));
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

    /// Where pages and threads were, in the order in which the kernel was asked.
    pub fn homes(&self) -> &[ChunkHomes] {
        &self.homes
    }

    /// Files of which not all can be read.
    pub fn lacking(&self) -> &[Lacking] {
        &self.lacking
    }

    /// Whether there is no chunk in it that the program wrote.
    pub fn is_empty(&self) -> bool {
        let mut written = self.streams.iter().filter(|((_, stream), _)| is_a_thread_s(*stream));
        written.all(|(_, stream)| stream.chunks.is_empty())
    }

    /// All of its streams.
    pub fn streams(&self) -> Vec<StreamKey> {
        self.streams.keys().copied().collect()
    }

    /// How many chunks they have.
    pub fn chunks(&self) -> u64 {
        self.streams.values().map(|stream| stream.chunks.len() as u64).sum()
    }

    /// Its chunks, to be decoded one by one.
    pub fn pieces<'a>(
        &'a self,
        program: &'a Program,
        decoder: &'a mut Decoder,
    ) -> Result<RecordedPieces<'a>, RecordingError> {
        let frames = FrameReader::new().map_err(RecordingError::io(Path::new("zstd")))?;
        let (streams, next) = (&self.streams, HashMap::new());
        Ok(RecordedPieces {
            streams,
            next,
            open: None,
            frames,
            program,
            cut_objects: self.lacking.iter().map(|file| file.path.as_path()).find(|path| path.ends_with(OBJECTS_FILE)),
            columns: ColumnDecoder::default(),
            decoder,
            spare: Vec::new(),
            stamps_back: 0,
        })
    }

    fn read_objects(&mut self, directory: &Path) -> Result<(), RecordingError> {
        let path = &directory.join(OBJECTS_FILE);
        let Some(mut file) = self.begin(path)? else { return Ok(()) };
        let mut frames = FrameReader::new().map_err(RecordingError::io(path))?;
        for number in 0.. {
            match frames.read(&mut file).map_err(RecordingError::io(path))? {
                Found::End if number >= self.frames_of(path) => break,
                Found::Frame(FrameKind::Object, [process, path_bytes, ..]) => {
                    let path_bytes = path_bytes as usize;
                    let Some((path, section)) = frames.content().split_at_checked(path_bytes) else {
                        self.lacks(path, number);
                        break;
                    };
                    self.objects.push(RecordedObject {
                        process: process as u32,
                        path: String::from_utf8_lossy(path).into_owned(),
                        section: section.to_vec(),
                    });
                }
                Found::Frame(..) | Found::Cut | Found::End => {
                    self.lacks(path, number);
                    break;
                }
            }
        }
        Ok(())
    }

    fn read_homes(&mut self, path: &Path) -> Result<(), RecordingError> {
        let Some(mut file) = self.begin(path)? else { return Ok(()) };
        let (read, is_end) = homes::read(&mut file, &mut self.homes).map_err(RecordingError::io(path))?;
        if !is_end || read < self.frames_of(path) {
            self.lacks(path, read);
        }
        Ok(())
    }

    /// How many frames the writer told of this file at the last time.
    fn frames_of(&self, path: &Path) -> u64 {
        let name = path.file_name().and_then(OsStr::to_str);
        name.and_then(|name| self.info.frames.get(name)).copied().unwrap_or(0)
    }

    /// Of this file only so many frames can be read.
    fn lacks(&mut self, path: &Path, left: u64) {
        self.lacking.push(Lacking { path: path.to_owned(), left, told: self.frames_of(path) });
    }

    fn find_chunks(&mut self, key: StreamKey, path: PathBuf) -> Result<(), RecordingError> {
        let Some(mut file) = self.begin(&path)? else { return Ok(()) };
        let mut frames = FrameReader::new().map_err(RecordingError::io(&path))?;
        let mut chunks = Vec::new();
        loop {
            let offset = file.stream_position().map_err(RecordingError::io(&path))?;
            match frames.read(&mut file).map_err(RecordingError::io(&path))? {
                Found::End if chunks.len() as u64 >= self.frames_of(&path) => break,
                Found::Frame(FrameKind::Columns | FrameKind::Words, [_, _, began, ..]) => {
                    chunks.push(Place { began, offset });
                }
                Found::Frame(..) | Found::Cut | Found::End => {
                    self.lacks(&path, chunks.len() as u64);
                    break;
                }
            }
        }
        self.streams.insert(key, Stream { path, chunks });
        Ok(())
    }

    /// Opens a file of frames; none where it has no whole head.
    fn begin(&mut self, path: &Path) -> Result<Option<File>, RecordingError> {
        let mut file = match open_regular(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(RecordingError::io(path)(error)),
        };
        if !frame::read_head(&mut file).map_err(RecordingError::io(path))? {
            self.lacks(path, 0);
            return Ok(None);
        }
        Ok(Some(file))
    }
}

/// A recording's chunks, read one by one.
pub struct RecordedPieces<'a> {
    streams: &'a BTreeMap<StreamKey, Stream>,
    /// How many of each stream's chunks were read.
    next: HashMap<StreamKey, usize>,
    /// The file that was read last.
    open: Option<(StreamKey, File)>,
    frames: FrameReader,
    program: &'a Program,
    /// The file of site tables, where it does not have all of them.
    cut_objects: Option<&'a Path>,
    columns: ColumnDecoder,
    decoder: &'a mut Decoder,
    /// Pieces that were handed on, for their memory.
    spare: Vec<Piece>,
    stamps_back: u64,
}

impl std::fmt::Debug for RecordedPieces<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordedPieces").finish_non_exhaustive()
    }
}

impl RecordedPieces<'_> {
    /// Time stamps that were earlier than the one before them.
    pub fn stamps_back(&self) -> u64 {
        self.stamps_back
    }
}

impl Pieces for RecordedPieces<'_> {
    type Error = RecordingError;

    fn next_since(&mut self, stream: StreamKey) -> Option<u64> {
        let next = self.next.get(&stream).copied().unwrap_or(0);
        self.streams.get(&stream)?.chunks.get(next).map(|place| place.began)
    }

    /// # Errors
    /// A file is damaged, or was changed since it was opened.
    fn next(&mut self, key: StreamKey) -> Result<Piece, RecordingError> {
        let mut piece = self.spare.pop().unwrap_or_default();
        piece.is_plain = false;
        let next = self.next.entry(key).or_insert(0);
        let found = self.streams.get(&key).and_then(|stream| Some((&stream.path, stream.chunks.get(*next)?)));
        let Some((path, place)) = found else { return Ok(Piece::default()) };
        *next += 1;
        let mut file = match self.open.take() {
            Some((open, file)) if open == key => file,
            _ => open_regular(path).map_err(RecordingError::io(path))?,
        };
        file.seek(SeekFrom::Start(place.offset)).map_err(RecordingError::io(path))?;
        let Found::Frame(kind, numbers) = self.frames.read(&mut file).map_err(RecordingError::io(path))? else {
            return Err(RecordingError::damaged(path, "a chunk is gone that was there"));
        };
        self.open = Some((key, file));
        let [tid_and_count, sequence, _, ended, is_open] = numbers;
        let (tid, count) = ((tid_and_count >> 32) as u32, (tid_and_count as u32) as usize);
        let content = self.frames.content();
        let is_chunk = match kind {
            FrameKind::Columns => {
                let chunk = (&mut piece.words, &mut piece.visits);
                self.columns.decode(self.program, content, MOST_WORDS, chunk).is_some()
            }
            FrameKind::Words => {
                let is_chunk = read_words(content, &mut piece.words).is_some();
                piece.is_plain = self.decoder.decode(self.program, &piece.words, is_open & 1 != 0, &mut piece.visits);
                is_chunk
            }
            FrameKind::Object | FrameKind::Homes => false,
        };
        if !is_chunk || piece.words.len() != count {
            return Err(match self.cut_objects {
                // Without them chunks can't be read.
                Some(objects) => RecordingError::damaged(objects, "site tables are gone that chunks need"),
                None => RecordingError::damaged(path, format!("the chunk at byte {}", place.offset)),
            });
        }
        (piece.tid, piece.sequence, piece.ended) = (tid, sequence, ended);
        self.stamps_back += piece.find_stretches(self.program, place.began, 0);
        Ok(piece)
    }

    fn is_done(&mut self, piece: Piece) {
        self.spare.push(piece);
    }
}

/// Puts the words that a frame holds as they are into `words` (cleared first). None where it is no chunk.
fn read_words(content: &[u8], words: &mut Vec<u64>) -> Option<()> {
    words.clear();
    let (found, rest) = content.as_chunks();
    let is_chunk = rest.is_empty() && found.len() <= MOST_WORDS;
    is_chunk.then(|| words.extend(found.iter().map(|word| u64::from_le_bytes(*word))))
}
