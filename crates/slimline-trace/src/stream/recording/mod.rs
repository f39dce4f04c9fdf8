//! A full trace on disk.
//!
//! A directory holds
//!
//! - `trace.json`: what ran, and what is missing ([`TraceInfo`]);
//! - `objects`: the site tables of the files that wrote the trace;
//! - `p<process>-s<stream>.chunks`: what each stream holds, chunk by chunk, compressed;
//! - `homes`, where the machine has several NUMA nodes: where pages and threads were.
//!
//! Files are made of frames, each with its length and a checksum: what was cut off, as where the writer was killed, can be
//! read up to the last whole frame.
//!
//! ```text
//!    0 ┌──────────────────────────┐
//!      │ FILE_MAGIC, FORMAT       │  12 bytes; numbers are little-endian
//!   12 ├──────────────────────────┤
//!      │ CRC-32 of the rest       │  u32                          ┐
//!      │ bytes that are stored    │  u32                          │
//!      │ bytes when decompressed  │  u32                          │ a frame
//!      │ kind                     │  u32: object, columns, words, │
//!      │                          │       homes                   │
//!      │ five numbers of the kind │  u64 each                     │
//!      │ stored bytes             │  zstd                         ┘
//!      └──────────────────────────┘
//! ```
//!
//! Chunks are stored as columns (`columns`), a chunk with words that are no known records as it is.

mod columns;
mod encoder;
mod frame;
mod homes;
mod reader;
mod writer;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::session::End;
use crate::stream::order::StreamKey;
use crate::stream::pages::HomesInfo;

pub use crate::place::REGIONS_FILE;
pub use reader::{Lacking, RecordedObject, RecordedPieces, Recording};
pub use writer::{ChunkPages, RecordedTotals, RecordingWriter, earlier_recording};

/// Version of the files. Version 1: the first. 2: chunks have time stamps in the place of times.
pub const FORMAT: u32 = 2;
/// Name of the file with the [`TraceInfo`].
pub const INFO_FILE: &str = "trace.json";

/// What `trace.json` says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceInfo {
    /// [`FORMAT`].
    pub format: u32,
    /// Whether the run came to its end, and all of it was written.
    pub complete: bool,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Each process, or program that it ran.
    pub processes: Vec<ProcessInfo>,
    /// How many frames each file held by then, by its name.
    pub frames: BTreeMap<String, u64>,
    /// How the program ended, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
    /// Windows that were traced, if only those were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub windows: Option<u32>,
    /// What came of asking where pages are; none where nobody asked, as on a machine with one NUMA node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub homes: Option<HomesInfo>,
}

/// A process of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessInfo {
    /// From 0.
    pub number: u32,
    /// As the system had it.
    pub pid: u32,
    /// Of the process that made it; 0 where that is not known.
    pub parent_pid: u32,
    /// Path of its program.
    pub program: String,
    /// When tracing began (`CLOCK_MONOTONIC`).
    pub started_ns: u64,
    /// How long its threads waited for slimline.
    pub waited_ns: u64,
    /// Not all of it was to be traced: between windows nothing was, or while the program wanted that.
    #[serde(default)]
    pub is_gated: bool,
    /// What is missing of it, in words.
    pub missing: Vec<String>,
}

/// Why a recorded trace can't be written or read. Each displays as one line.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The directory holds something else.
    #[error("{}: exists and holds no trace: name another directory", .0.display())]
    InTheWay(PathBuf),
    /// Another process writes it.
    #[error("{}: another slimline is writing a trace into it; wait for its end, or name another directory (-o DIR)",
        .0.display())]
    BeingWritten(PathBuf),
    /// A trace that is about to be removed holds what slimline did not write.
    #[error("{}: holds {}, which is none of a trace's files, and would be removed: move it away first", trace.display(),
        file.display())]
    HoldsMore {
        /// The trace.
        trace: PathBuf,
        /// What it is.
        file: PathBuf,
    },
    /// Nothing is there.
    #[error("{}: no such trace (write one with: slimline trace -o DIR -- COMMAND)", .0.display())]
    Missing(PathBuf),
    /// There is no such file in it.
    #[error("{}: holds no recorded trace (it has no {INFO_FILE}; write one with: slimline trace -o DIR -- COMMAND)",
        .0.display())]
    NoTrace(PathBuf),
    /// What is there are samples.
    #[error("{}: holds no recorded trace but a session of samples, of which `slimline share` and `slimline report` tell; write \
             a trace with: slimline trace -o DIR -- COMMAND", .0.display())]
    Session(PathBuf),
    /// Written by another version.
    #[error("{}: a trace of format {found}, this slimline reads format {FORMAT}", path.display())]
    Format {
        /// The directory.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// Not what it should be.
    #[error("{}: damaged: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// How.
        reason: String,
    },
    /// The system refused.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl RecordingError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        |error| Self::Io { path: path.to_owned(), error }
    }

    fn damaged(path: &Path, reason: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), reason: reason.into() }
    }
}

/// Whether the directory holds a recorded trace.
pub fn is_recording(directory: &Path) -> bool {
    directory.join(INFO_FILE).is_file()
}

const OBJECTS_FILE: &str = "objects";
/// How names of files with chunks end.
const CHUNKS: &str = "chunks";

fn chunk_file(process: u32, stream: u32) -> String {
    format!("p{process}-s{stream}.{CHUNKS}")
}

/// The stream whose chunks are in a file, by its name.
fn stream_of(path: &Path) -> Option<StreamKey> {
    let name = path.file_name()?.to_str()?.strip_prefix('p')?.strip_suffix(CHUNKS)?.strip_suffix('.')?;
    let (process, stream) = name.split_once("-s")?;
    Some((process.parse().ok()?, stream.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::stream::chunk::Chunk;
    use crate::stream::decode::{Decoder, Program};
    use crate::stream::order::{Pieces, in_order};
    use crate::stream::pages::ChunkHomes;
    use crate::stream::sites::{Module, ModuleBuilder, Site, SiteKind};

    fn sites() -> Vec<u8> {
        let mut builder = ModuleBuilder::new();
        builder.segment([Site::new(SiteKind::Load, 8)]);
        builder.segment(vec![Site::new(SiteKind::Load, 8); 2]);
        builder.segment([Site::new(SiteKind::Acquire, 0)]);
        builder.finish("a.c", "a.o", "/", "test").encode().1
    }

    fn program() -> Program {
        let mut program = Program::new();
        for (id, module) in Module::read_section(&sites()).unwrap() {
            program.add(id, module);
        }
        program
    }

    fn chunk(stream: u32, sequence: u64, began: u64, words: &[u64]) -> Chunk<'static> {
        Chunk {
            process: 0,
            stream,
            tid: 70 + stream,
            thread_pointer: 0,
            sequence,
            began,
            ended: began + 1,
            words: words.to_vec().into(),
            is_open: false,
        }
    }

    fn write(directory: &Path, chunks: &[Chunk<'_>]) -> RecordedTotals {
        let mut writer = RecordingWriter::create(directory, vec!["a".to_owned()]).unwrap();
        writer.begin(ProcessInfo { number: 0, pid: 7, ..ProcessInfo::default() }).unwrap();
        writer.object(0, "/a", &sites()).unwrap();
        chunks.iter().for_each(|chunk| writer.chunk(chunk.clone()).unwrap());
        let (totals, written) = writer.finish(true);
        written.unwrap();
        totals
    }

    /// Of each part: its stream, its number and its words.
    fn read(directory: &Path) -> (Recording, Vec<(u32, u64, Vec<u64>)>) {
        let recording = Recording::open(directory).unwrap();
        let (program, mut decoder, mut parts) = (program(), Decoder::new(), Vec::new());
        let mut pieces = recording.pieces(&program, &mut decoder).unwrap();
        in_order(&mut pieces, recording.streams(), |(process, stream), piece, range| {
            assert_eq!((process, piece.tid), (0, 70 + stream));
            let first = piece.visits.get(range.start).map_or(0, |first| first.at as usize - 1);
            let end = program.records_end(&piece.visits[range]);
            parts.push((stream, piece.sequence, piece.words[first..end].to_vec()));
        })
        .unwrap();
        assert_eq!(pieces.stamps_back(), 0);
        (recording, parts)
    }

    fn whole(chunks: &[Chunk<'_>]) -> Vec<(u32, u64, Vec<u64>)> {
        chunks.iter().map(|chunk| (chunk.stream, chunk.sequence, chunk.words.to_vec())).collect()
    }

    fn three(h: &[u64]) -> [Chunk<'static>; 3] {
        let walk: Vec<u64> = (0..1000).flat_map(|i| [h[0], 0x1000 + i * 8]).collect();
        [chunk(0, 0, 10, &walk), chunk(1, 0, 20, &[h[1], 8, 16]), chunk(0, 1, 30, &[h[0], 5, h[0], 6])]
    }

    fn headers() -> Vec<u64> {
        program().segments().iter().map(|segment| segment.header).collect()
    }

    #[test]
    fn what_is_written_is_read_in_the_order_of_time() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("trace");
        let chunks = three(&headers());
        let totals = write(&directory, &[chunks[1].clone(), chunks[0].clone(), chunks[2].clone()]);
        let (recording, read) = read(&directory);
        assert_eq!(read, whole(&chunks));
        assert_eq!(totals.words, 2007);
        assert!(recording.info().complete && recording.lacking().is_empty());
        assert_eq!(recording.info().processes[0].pid, 7);
        let [object] = recording.objects() else { panic!() };
        assert_eq!((object.path.as_str(), object.section.as_slice()), ("/a", sites().as_slice()));
    }

    #[test]
    fn homes_of_pages_are_kept_with_their_chunks() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("trace");
        let mut writer = RecordingWriter::create(&directory, Vec::new()).unwrap();
        writer.tell_pages();
        writer.object(0, "/a", &sites()).unwrap();
        let h = headers();
        writer.chunk(chunk(1, 4, 20, &[h[1], 0x5000, 0x3008, h[0], 0x3010])).unwrap();
        writer.write_waiting().unwrap();
        let pages = ChunkPages { process: 0, stream: 1, tid: 71, sequence: 4, pages: vec![3, 5] };
        assert_eq!((writer.take_pages(), writer.take_pages()), (vec![pages], Vec::new()));
        let homes = ChunkHomes { stream: 1, sequence: 4, pages: vec![(3, 1), (5, 0)], ..ChunkHomes::default() };
        writer.homes(&homes).unwrap();
        let moved = ChunkHomes { sequence: 5, thread_node: Some(2), pages: vec![(3, 0)], ..homes.clone() };
        writer.homes(&moved).unwrap();
        let info = HomesInfo { nodes: vec![0, 1], pages: 2, moves: 1, ..HomesInfo::default() };
        writer.asked_for_homes(info.clone());
        writer.finish(true).1.unwrap();
        let recording = Recording::open(&directory).unwrap();
        assert_eq!((recording.homes(), &recording.info().homes), (&[homes.clone(), moved][..], &Some(info)));
        assert_eq!(recording.lacking(), []);
        // Without its end the rest is read, and told.
        let path = directory.join("homes");
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        let recording = Recording::open(&directory).unwrap();
        assert_eq!(recording.homes(), [homes]);
        assert_eq!(recording.lacking(), [Lacking { path, left: 1, told: 2 }]);
        assert!(recording.lacking()[0].reason().starts_with("1 of 2 parts of what the kernel told of pages of "));
        // It is one of a trace's files: the second trace after it removes them all.
        for _ in 0..2 {
            write(&directory, &three(&headers()));
        }
        assert!(Recording::open(&scratch.path().join("trace.old")).unwrap().homes().is_empty());
    }

    #[test]
    fn nothing_comes_behind_what_could_not_be_written() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("trace");
        let mut writer = RecordingWriter::create(&directory, Vec::new()).unwrap();
        let h = headers();
        let in_the_way = directory.join(chunk_file(0, 0));
        fs::create_dir(&in_the_way).unwrap();
        let failed = (0..100).find(|&sequence| writer.chunk(chunk(0, sequence, 1, &[h[0], 8])).is_err());
        assert!(failed.is_some());
        fs::remove_dir(&in_the_way).unwrap();
        assert_eq!(writer.finish(true).0, RecordedTotals::default());
        assert!(!in_the_way.exists());
        assert!(!Recording::open(&directory).unwrap().info().complete);
    }

    #[test]
    fn chunks_are_in_order_whoever_makes_their_frames() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("trace");
        let h = headers();
        // Every third one takes far longer.
        let words = |sequence: u64| [h[0], sequence].repeat(if sequence.is_multiple_of(3) { 16_000 } else { 1 });
        let chunks: Vec<_> = (0..100).map(|sequence| chunk(0, sequence, 1 + sequence, &words(sequence))).collect();
        let totals = write(&directory, &chunks);
        assert_eq!(totals.words, 2 * (34 * 16_000 + 66));
        assert_eq!(read(&directory).1, whole(&chunks));
    }

    #[test]
    fn open_chunks_end_where_their_records_do() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("trace");
        let h = headers();
        let open = Chunk { is_open: true, ..chunk(0, 0, 0, &[h[1], 8, 16, h[0], 24, 0, 0, 0]) };
        write(&directory, std::slice::from_ref(&open));
        let (_, read) = read(&directory);
        assert_eq!(read, [(0, 0, open.words[..5].to_vec())]);
    }

    #[test]
    fn streams_take_turns_at_time_stamps() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("trace");
        let h = headers();
        // Neither no stamp at all nor the first words of a chunk begin anything.
        let one = chunk(0, 0, 10, &[h[0], 5, h[2], 1, h[0], 6, h[2], 31, h[2], 40, h[0], 7]);
        let other = chunk(1, 0, 20, &[h[0], 8, h[2], 33, h[0], 9, 77, h[2], 50, h[0], 3]);
        write(&directory, &[one, other]);
        let parts: Vec<_> = read(&directory).1.into_iter().map(|(stream, _, words)| (stream, words)).collect();
        let expected = [
            (0, vec![h[0], 5, h[2], 1, h[0], 6]),
            (1, vec![h[0], 8]),
            (0, vec![h[2], 31]),
            (1, vec![h[2], 33, h[0], 9]),
            (0, vec![h[2], 40, h[0], 7]),
            (1, vec![h[2], 50, h[0], 3]),
        ];
        assert_eq!(parts, expected);
    }

    #[test]
    fn a_file_that_was_cut_off_is_read_up_to_its_last_whole_chunk() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("trace");
        let chunks = three(&headers());
        write(&directory, &chunks);
        let expected = whole(&chunks);
        let path = directory.join("p0-s0.chunks");
        let whole = fs::read(&path).unwrap();
        let mut counts = Vec::new();
        for length in 12..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            let (recording, read) = read(&directory);
            assert!(read.iter().all(|part| expected.contains(part)));
            let left = read.len() as u64 - 1;
            assert_eq!(recording.lacking(), [Lacking { path: path.clone(), left, told: 2 }]);
            counts.push(read.len());
        }
        counts.dedup();
        assert_eq!(counts, [1, 2], "the other stream's, and the first of this one");
        // Damage in the middle ends it there, too.
        let mut damaged = whole.clone();
        damaged[40] ^= 1;
        fs::write(&path, damaged).unwrap();
        assert_eq!(read(&directory).1.len(), 1);
        // Nor is a file missed that is gone altogether, or one that was not told when the writer was killed.
        fs::remove_file(&path).unwrap();
        let (recording, read_now) = read(&directory);
        let lacking = Lacking { path: path.clone(), left: 0, told: 2 };
        let told = format!("2 of 2 chunks of {}: it was cut off, damaged or removed", path.display());
        assert_eq!((recording.lacking(), read_now.len(), lacking.reason()), (&[lacking][..], 1, told));
        fs::write(&path, &whole).unwrap();
        let info = TraceInfo { frames: BTreeMap::new(), ..recording.info().clone() };
        fs::write(directory.join(INFO_FILE), serde_json::to_string(&info).unwrap()).unwrap();
        let (recording, read_now) = read(&directory);
        assert_eq!((recording.lacking().len(), read_now.len()), (0, 3));
    }

    #[test]
    fn site_tables_that_are_gone_are_told() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("trace");
        write(&directory, &three(&headers()));
        let objects = directory.join(OBJECTS_FILE);
        fs::remove_file(&objects).unwrap();
        let recording = Recording::open(&directory).unwrap();
        assert_eq!(recording.lacking(), [Lacking { path: objects.clone(), left: 0, told: 1 }]);
        // Not the file of chunks, which is whole, is to blame.
        let (program, mut decoder) = (Program::new(), Decoder::new());
        let error = recording.pieces(&program, &mut decoder).unwrap().next((0, 0)).unwrap_err().to_string();
        assert!(error.starts_with(&*objects.to_string_lossy()), "{error}");
    }

    #[test]
    fn what_is_no_trace_is_told() {
        let scratch = tempfile::tempdir().unwrap();
        let error = |directory: &Path| Recording::open(directory).unwrap_err().to_string();
        assert!(error(scratch.path()).contains("holds no recorded trace"));
        fs::write(scratch.path().join("mine"), "").unwrap();
        let refused = RecordingWriter::create(scratch.path(), Vec::new()).unwrap_err().to_string();
        assert!(refused.contains("exists and holds no trace"), "{refused}");
        let directory = scratch.path().join("trace");
        write(&directory, &[]);
        let gone = scratch.path().join("gone");
        let line = "gone: no such trace (write one with: slimline trace -o DIR -- COMMAND)";
        assert!(error(&gone).ends_with(line), "{}", error(&gone));
        fs::write(&gone, "").unwrap();
        assert!(
            error(&gone).ends_with(
                "gone: holds no recorded trace (it has no trace.json; write one with: slimline trace -o DIR -- COMMAND)"
            ),
            "{}",
            error(&gone)
        );
        let session = scratch.path().join("session");
        fs::create_dir(&session).unwrap();
        fs::write(session.join("session.json"), "{}").unwrap();
        let said = "session: holds no recorded trace but a session of samples, of which `slimline share` and \
                    `slimline report` tell; write a trace with: slimline trace -o DIR -- COMMAND";
        assert!(error(&session).ends_with(said), "{}", error(&session));
        let newer = TraceInfo { format: FORMAT + 1, ..TraceInfo::default() };
        fs::write(directory.join(INFO_FILE), serde_json::to_string(&newer).unwrap()).unwrap();
        assert!(error(&directory).contains("a trace of format 3"));
        fs::write(directory.join(INFO_FILE), "{").unwrap();
        assert!(error(&directory).contains("damaged"));
    }

    #[test]
    fn a_trace_without_chunks_costs_none_that_has_some() {
        let scratch = tempfile::tempdir().unwrap();
        let (directory, old) = (scratch.path().join("trace"), scratch.path().join("trace.old"));
        let words = || earlier_recording(&directory).map(|old| read(&old).1.remove(0).2);
        write(&directory, &three(&headers())[2..]);
        assert_eq!(words(), None);
        for _ in 0..2 {
            write(&directory, &[]);
            assert_eq!(words(), Some(three(&headers())[2].words.to_vec()));
        }
        write(&directory, &three(&headers())[1..2]);
        write(&directory, &three(&headers())[..1]);
        assert_eq!(words(), Some(three(&headers())[1].words.to_vec()));
        // What somebody keeps in it is not removed with it.
        fs::write(old.join("notes"), "").unwrap();
        let refused = RecordingWriter::create(&directory, Vec::new()).unwrap_err().to_string();
        assert!(refused.contains("trace.old/notes, which is none of a trace's files"), "{refused}");
        assert!(is_recording(&directory));
    }

    #[test]
    fn a_trace_that_is_written_is_left_alone_and_its_owners() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join("trace");
        let writer = RecordingWriter::create(&directory, Vec::new()).unwrap();
        assert_eq!(fs::metadata(&directory).unwrap().permissions().mode() & 0o777, 0o700);
        let refused = RecordingWriter::create(&directory, Vec::new()).unwrap_err().to_string();
        assert!(refused.contains("another slimline is writing a trace into it"), "{refused}");
        drop(writer);
        assert!(RecordingWriter::create(&directory, Vec::new()).is_ok());
    }
}
