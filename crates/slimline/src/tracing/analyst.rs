//! Who analyzes a trace: on a thread of its own while a program runs, as finding the records of the next chunk and looking up
//! whose the accesses of this one are take about as long.
//!
//! One piece, or one set of pieces that are to be put in order, may wait for it while it has another. Who hands on more waits too, and
//! so, at last, does the program. Where it is to keep up with the program instead, more may wait, and of what is behind only blocks are
//! followed and instructions counted ([`TraceAnalysis::pass_over`]).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::convert::Infallible;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{self, JoinHandle};

use slimline_analyze::full_trace::{TraceAnalysis, TraceBatch};
use slimline_trace::stream::decode::{Decoder, Program};
use slimline_trace::stream::growing::Known;
use slimline_trace::stream::is_a_thread_s;
use slimline_trace::stream::order::{Piece, Pieces, StreamKey, in_order};

use super::gaps::Gaps;

/// Pieces, or sets of pieces to be put in order, that may wait: a set has all chunks that a process had.
const MOST_WAITING: usize = 1;
/// The same where the analysis is to keep up: as many as are written while one is looked up. Of a process with several threads
/// each is a set of up to 32 chunks and what was not read yet of each chunk that is written; the memory of the largest ones is kept.
const MOST_BEHIND: usize = 8;

/// What was found by now.
#[derive(Debug, Default)]
pub(super) struct Analyzed {
    /// Its own, as who hands on goes on adding to another one.
    program: Program,
    pub(super) analysis: TraceAnalysis,
    /// By the process's number.
    pub(super) seen: BTreeMap<u32, Seen>,
    /// Not looked up is what others wait behind, if it is to keep up.
    gaps: Gaps,
    /// How much waits behind what is taken now.
    waiting: usize,
    /// Of what is handed on as words.
    pub(super) decoder: Decoder,
}

/// What was seen of a process.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) threads: BTreeSet<u32>,
    pub(super) words: u64,
}

impl Analyzed {
    pub(super) fn update(&mut self, program: &Program, batch: &TraceBatch<'_>) {
        let first = batch.visits.first().map_or(0, |first| first.at as usize - 1);
        let words = program.records_end(batch.visits).saturating_sub(first);
        self.see((batch.process, batch.stream), batch.tid, words as u64);
        match self.looks_up(words) {
            true => self.analysis.update(program, batch),
            false => self.analysis.pass_over(program, batch),
        }
    }

    /// Whether to look up a part of so many words.
    fn looks_up(&mut self, words: usize) -> bool {
        let is_looked_up = self.gaps.looks_up(words as u64, self.waiting);
        self.analysis.begin_part(is_looked_up, words as u64);
        is_looked_up
    }

    /// So many words were of a stream.
    fn see(&mut self, (process, stream): StreamKey, tid: u32, words: u64) {
        if is_a_thread_s(stream) {
            let seen = self.seen.entry(process).or_default();
            seen.threads.insert(tid);
            seen.words += words;
        }
    }

    /// Takes what there is to do, behind which so much waits.
    fn take(&mut self, known: &Known, work: Work, waiting: usize, spare: &mut Vec<Piece>) {
        let mut program = std::mem::take(&mut self.program);
        program.learn(known);
        self.waiting = waiting;
        match work {
            Work::Piece(stream, piece) => {
                self.update(&program, &TraceBatch::of(stream, &piece, 0..piece.visits.len()));
                spare.push(piece);
            }
            Work::Words((process, stream), (mut piece, is_open)) => {
                let is_looked_up = self.looks_up(piece.words.len());
                let Self { analysis, decoder, .. } = self;
                let words = if is_looked_up {
                    piece.is_plain = decoder.decode(&program, &piece.words, is_open, &mut piece.visits);
                    analysis.update(&program, &TraceBatch::of((process, stream), &piece, 0..piece.visits.len()));
                    program.records_end(&piece.visits)
                } else {
                    analysis.pass_over_words(&program, decoder, (process, stream), (&mut piece, is_open))
                };
                self.see((process, stream), piece.tid, words as u64);
                spare.push(piece);
            }
            Work::Parts(mut parts) => {
                let streams: Vec<StreamKey> = parts.waiting.keys().copied().collect();
                let Ok(()) = in_order(&mut parts, streams, |stream, piece, range| {
                    self.update(&program, &TraceBatch::of(stream, piece, range));
                });
                spare.append(&mut parts.done);
            }
        }
        self.program = program;
    }
}

/// What there is to do.
#[derive(Debug)]
pub(super) enum Work {
    /// What was written to a stream, after all that it can know of.
    Piece(StreamKey, Piece),
    /// The same, of which nothing is decoded; whether its chunk is open.
    Words(StreamKey, (Piece, bool)),
    /// Parts of several streams.
    Parts(Parts),
}

/// Parts of streams that are to be put in order.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    /// Each with the time stamp of its chunk.
    pub(crate) waiting: BTreeMap<StreamKey, VecDeque<(u64, Piece)>>,
    done: Vec<Piece>,
}

impl Pieces for Parts {
    type Error = Infallible;

    fn next_since(&mut self, stream: StreamKey) -> Option<u64> {
        self.waiting.get(&stream)?.front().map(|(began, _)| *began)
    }

    fn next(&mut self, stream: StreamKey) -> Result<Piece, Infallible> {
        Ok(self.waiting.get_mut(&stream).and_then(VecDeque::pop_front).map_or_else(Piece::default, |(_, piece)| piece))
    }

    fn is_done(&mut self, piece: Piece) {
        self.done.push(piece);
    }
}

/// Analyzes what it is given.
#[derive(Debug)]
pub(super) enum Analyst {
    /// Nothing waits.
    Idle(Box<Analyzed>, Vec<Piece>),
    Working {
        takes_words: bool,
        work: SyncSender<(Known, Work)>,
        /// How much of it there is.
        waiting: Arc<AtomicUsize>,
        /// Pieces that it is done with, for their memory.
        spare: Receiver<Piece>,
        thread: JoinHandle<Box<Analyzed>>,
    },
}

impl Default for Analyst {
    fn default() -> Self {
        Self::of(TraceAnalysis::default())
    }
}

impl Analyst {
    pub(super) fn of(analysis: TraceAnalysis) -> Self {
        Self::Idle(Box::new(Analyzed { analysis, ..Analyzed::default() }), Vec::new())
    }

    /// One that keeps up with the program.
    pub(super) fn keeping_up(analysis: TraceAnalysis) -> Self {
        let analyzed = Analyzed { analysis: analysis.sampled(), gaps: Gaps::keeping_up(), ..Analyzed::default() };
        Self::Idle(Box::new(analyzed), Vec::new())
    }

    /// A piece that was analyzed, or an empty one.
    pub(super) fn spare(&mut self) -> Piece {
        match self {
            Self::Idle(_, spare) => spare.pop(),
            Self::Working { spare, .. } => spare.try_recv().ok(),
        }
        .unwrap_or_default()
    }

    /// Whether it wants chunks as words, to decode no more than it asks for.
    pub(super) fn takes_words(&self) -> bool {
        match self {
            Self::Idle(analyzed, _) => analyzed.gaps.keeps_up(),
            Self::Working { takes_words, .. } => *takes_words,
        }
    }

    /// Has it done on its own thread, after all that was handed on before; here, where there can be no other thread.
    pub(super) fn hand_on(&mut self, known: Known, work: Work) {
        if let Self::Idle(analyzed, _) = self {
            match begin(std::mem::take(analyzed)) {
                Ok(working) => *self = working,
                Err(idle) => *analyzed = idle,
            }
        }
        match self {
            Self::Idle(analyzed, spare) => analyzed.take(&known, work, 0, spare),
            Self::Working { work: queue, waiting, .. } => {
                waiting.fetch_add(1, Ordering::Relaxed);
                if queue.send((known, work)).is_err() {
                    // It panicked.
                    self.finished();
                }
            }
        }
    }

    /// What was found of all that was handed on.
    pub(super) fn finished(&mut self) -> &mut Analyzed {
        if let Self::Working { .. } = self
            && let Self::Working { work, thread, .. } = std::mem::take(self)
        {
            drop(work);
            let analyzed = thread.join().unwrap_or_else(|panic| resume_unwind(panic));
            *self = Self::Idle(analyzed, Vec::new());
        }
        match self {
            Self::Idle(analyzed, _) => analyzed,
            Self::Working { .. } => unreachable!("it was joined"),
        }
    }
}

/// Begins a thread; what was found by then comes back where there can be none.
fn begin(analyzed: Box<Analyzed>) -> Result<Analyst, Box<Analyzed>> {
    let takes_words = analyzed.gaps.keeps_up();
    let (work, works) = sync_channel(if takes_words { MOST_BEHIND } else { MOST_WAITING });
    let waiting = Arc::new(AtomicUsize::new(0));
    let behind = Arc::clone(&waiting);
    let (done, spare) = channel();
    // Not moved into the thread at once: it would be lost with it.
    let (first, begins) = channel();
    match thread::Builder::new().name("analysis".to_owned()).spawn(move || run(&begins, &works, &behind, &done)) {
        Ok(thread) => {
            let _ = first.send(analyzed);
            Ok(Analyst::Working { takes_words, work, waiting, spare, thread })
        }
        Err(_) => Err(analyzed),
    }
}

fn run(
    begins: &Receiver<Box<Analyzed>>,
    works: &Receiver<(Known, Work)>,
    waiting: &AtomicUsize,
    done: &Sender<Piece>,
) -> Box<Analyzed> {
    let Ok(mut analyzed) = begins.recv() else { unreachable!("it is sent once the thread runs") };
    let mut spare = Vec::new();
    for (known, work) in works {
        let behind = waiting.fetch_sub(1, Ordering::Relaxed) - 1;
        analyzed.take(&known, work, behind, &mut spare);
        // Nobody wants them any more at the end.
        spare.drain(..).for_each(|piece| drop(done.send(piece)));
    }
    analyzed
}

#[cfg(test)]
mod tests {
    use slimline_trace::stream::decode::Decoder;
    use slimline_trace::stream::growing::GrowingProgram;
    use slimline_trace::stream::sites::{ModuleBuilder, Site, SiteKind};

    use super::*;

    #[test]
    fn all_is_analyzed_whatever_waits() {
        is_analyzed(Analyst::default());
        is_analyzed(Analyst::keeping_up(TraceAnalysis::default()));
    }

    /// Hands fifty pieces on, ten that are to be put in order, and one more after the end: all is counted.
    fn is_analyzed(mut analyst: Analyst) {
        let mut builder = ModuleBuilder::new();
        builder.segment([Site::new(SiteKind::Load, 8)]);
        let mut growing = GrowingProgram::default();
        growing.add_section(&builder.finish("a.c", "a.o", "/", "test").encode().1).unwrap();
        let program = growing.program();
        let header = program.segments()[0].header;
        let piece = |analyst: &mut Analyst, sequence| {
            let mut piece = analyst.spare();
            (piece.sequence, piece.tid) = (sequence, 7);
            piece.words = [header, 0x1000].repeat(10);
            Decoder::new().decode(program, &piece.words, false, &mut piece.visits);
            piece.find_stretches(program, 1 + sequence, 0);
            piece
        };
        for sequence in 0..50 {
            let piece = piece(&mut analyst, sequence);
            analyst.hand_on(growing.known(), Work::Piece((3, 0), piece));
        }
        let mut parts = Parts::default();
        for stream in 0..2 {
            let pieces = (0..5).map(|sequence| (1 + sequence, piece(&mut analyst, sequence)));
            let pieces = pieces.collect();
            parts.waiting.insert((4, stream), pieces);
        }
        analyst.hand_on(growing.known(), Work::Parts(parts));
        let Analyzed { analysis, seen, .. } = analyst.finished();
        assert_eq!(analysis.counts().visits(slimline_trace::stream::decode::SegmentId(0)), 600);
        assert_eq!((seen[&3].words, seen[&4].words, seen[&3].threads.len()), (1000, 200, 1));
        assert_eq!(analysis.checks().violations().count(), 0);
        // It may go on.
        let piece = piece(&mut analyst, 50);
        analyst.hand_on(growing.known(), Work::Piece((3, 0), piece));
        assert_eq!(analyst.finished().seen[&3].words, 1020);
    }
}
