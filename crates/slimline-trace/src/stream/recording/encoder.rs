//! Chunks become frames: on threads of their own, as that takes several times as long as to write a chunk, and no chunk needs
//! to know of another.

use std::collections::VecDeque;
use std::io;
use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use super::columns::ColumnEncoder;
use super::frame::{FrameKind, FrameWriter};
use crate::stream::chunk::Chunk;
use crate::stream::decode::{Decoder, Program, Visits};
use crate::stream::growing::Known;
use crate::stream::pages::touched_pages;

/// Threads beyond this one gain little: who reads the chunks is alone.
const MOST_THREADS: usize = 4;
/// Chunks that a thread has or that wait for it.
const MOST_WAITING: usize = 2;

/// A chunk that became a frame.
#[derive(Debug, Default)]
pub(super) struct Encoded {
    pub(super) process: u32,
    pub(super) stream: u32,
    /// Words that the frame has.
    pub(super) words: u64,
    pub(super) frame: Vec<u8>,
    /// Pages that it touches; none where nobody wants to know them.
    pub(super) pages: Option<ChunkPages>,
}

/// The pages that a chunk touches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChunkPages {
    /// The process' number in the trace.
    pub process: u32,
    /// The stream's number in the process.
    pub stream: u32,
    /// The kernel's number of the thread.
    pub tid: u32,
    /// The chunk's number in the stream.
    pub sequence: u64,
    /// Numbers of the pages, in their order.
    pub pages: Vec<u64>,
}

/// Makes frames of chunks, one after the other. Keeps its memory.
#[derive(Debug)]
struct ChunkEncoder {
    decoder: Decoder,
    visits: Vec<Visits>,
    columns: ColumnEncoder,
    content: Vec<u8>,
    frames: FrameWriter,
}

impl ChunkEncoder {
    fn new() -> io::Result<Self> {
        Ok(Self {
            decoder: Decoder::new(),
            visits: Vec::new(),
            columns: ColumnEncoder::default(),
            content: Vec::new(),
            frames: FrameWriter::new()?,
        })
    }

    /// A chunk that was written by the objects of `program`.
    fn encode(&mut self, program: &Program, chunk: &Chunk<'_>, buffers: Buffers) -> io::Result<Encoded> {
        let Buffers { mut frame, tells_pages } = buffers;
        let Self { decoder, visits, columns, content, frames } = self;
        let before = decoder.undecoded();
        decoder.decode(program, &chunk.words, chunk.is_open, visits);
        let records_end = program.records_end(visits);
        let is_whole = decoder.undecoded().words == before.words && (chunk.is_open || records_end == chunk.words.len());
        content.clear();
        let (kind, words) = if is_whole {
            columns.encode(program, &chunk.words, visits, content);
            (FrameKind::Columns, records_end)
        } else {
            let words = chunk.words.iter().rposition(|word| *word != 0).map_or(0, |last| last + 1);
            let words = if chunk.is_open { words } else { chunk.words.len() };
            content.extend(chunk.words[..words].iter().flat_map(|word| word.to_le_bytes()));
            (FrameKind::Words, words)
        };
        let Chunk { process, stream, tid, sequence, began, ended, is_open, .. } = *chunk;
        let numbers = [words as u64 | u64::from(tid) << 32, sequence, began, ended, is_open.into()];
        frames.make(kind, numbers, content, &mut frame)?;
        let pages = tells_pages.then(|| {
            let mut pages = Vec::new();
            touched_pages(program, &chunk.words, visits, &mut pages);
            ChunkPages { process, stream, tid, sequence, pages }
        });
        Ok(Encoded { process, stream, words: words as u64, frame, pages })
    }
}

/// What a frame is made in, and what to tell besides.
#[derive(Debug)]
struct Buffers {
    frame: Vec<u8>,
    tells_pages: bool,
}

type Job = (Known, Chunk<'static>, Buffers);

#[derive(Debug)]
struct Worker {
    jobs: SyncSender<Job>,
    /// Each job's frame, and its words for their memory.
    done: Receiver<(io::Result<Encoded>, Vec<u64>)>,
    thread: JoinHandle<()>,
}

impl Worker {
    fn new() -> io::Result<Self> {
        let mut encoder = ChunkEncoder::new()?;
        let (jobs, waiting) = sync_channel::<Job>(MOST_WAITING);
        let (finished, done) = sync_channel(MOST_WAITING);
        let thread = thread::Builder::new().name("recording".to_owned()).spawn(move || {
            let mut program = Program::new();
            for (known, chunk, buffers) in waiting {
                program.learn(&known);
                let encoded = encoder.encode(&program, &chunk, buffers);
                if finished.send((encoded, chunk.words.into_owned())).is_err() {
                    break;
                }
            }
        })?;
        Ok(Self { jobs, done, thread })
    }
}

/// Makes frames of chunks, several at a time.
#[derive(Debug)]
pub(super) struct Encoders {
    workers: Vec<Worker>,
    /// Whose jobs are not finished, in the order in which they were given.
    order: VecDeque<usize>,
    next: usize,
    /// For their memory.
    words: Vec<Vec<u64>>,
    frames: Vec<Vec<u8>>,
    /// Whether to tell of each chunk which pages it touches.
    pub(super) tells_pages: bool,
}

impl Encoders {
    /// # Errors
    /// There can't be any thread, or no memory for it.
    pub(super) fn new() -> io::Result<Self> {
        let count = thread::available_parallelism().map_or(1, NonZero::get).min(MOST_THREADS);
        let mut workers = vec![Worker::new()?];
        // One is enough.
        workers.extend((1..count).map_while(|_| Worker::new().ok()));
        Ok(Self { workers, order: VecDeque::new(), next: 0, words: Vec::new(), frames: Vec::new(), tells_pages: false })
    }

    /// Whether a chunk has to be finished before another one can be begun.
    pub(super) fn is_full(&self) -> bool {
        self.order.len() >= self.workers.len() * MOST_WAITING
    }

    /// Begins a chunk that was written by the objects that are known.
    pub(super) fn begin(&mut self, known: Known, chunk: Chunk<'_>) {
        let chunk = Chunk { words: chunk.words.into_owned().into(), ..chunk };
        let buffers = Buffers { frame: self.frames.pop().unwrap_or_default(), tells_pages: self.tells_pages };
        // Turn by turn: chunks take about as long as each other.
        self.order.push_back(self.next);
        if self.workers[self.next].jobs.send((known, chunk, buffers)).is_err() {
            self.lost(self.next);
        }
        self.next = (self.next + 1) % self.workers.len();
    }

    /// The next chunk in the order in which they were begun; none where none is left.
    pub(super) fn finish(&mut self) -> Option<io::Result<Encoded>> {
        let worker = self.order.pop_front()?;
        let Ok((encoded, words)) = self.workers[worker].done.recv() else { self.lost(worker) };
        self.words.push(words);
        Some(encoded)
    }

    /// Words of a chunk that is finished, for their memory.
    pub(super) fn spare(&mut self) -> Vec<u64> {
        self.words.pop().unwrap_or_default()
    }

    /// Takes a frame's memory back.
    pub(super) fn keep(&mut self, frame: Vec<u8>) {
        self.frames.push(frame);
    }

    /// A thread ends by itself only where it panicked.
    fn lost(&mut self, worker: usize) -> ! {
        let Worker { jobs, done, thread } = self.workers.swap_remove(worker);
        drop((jobs, done));
        match thread.join() {
            Err(panic) => resume_unwind(panic),
            Ok(()) => unreachable!("it goes on as long as there may be jobs"),
        }
    }
}
