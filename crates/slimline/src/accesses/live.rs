//! Accesses of a program while it runs: nothing is written to disk.
//!
//! Kept are the parts of its streams that wait to be put in order (as for `slimline trace --live`: a copy of 32 chunks of 256 KiB
//! at most, and of one a stream), one stretch of each thread, and what whoever takes the accesses keeps. While these are taken the
//! program waits, once its chunks are full.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::ops::Range;

use slimline_analyze::full_trace::TraceBatch;
use slimline_analyze::full_trace::attributed::AttributedAccesses;
use slimline_attribute::module::store::FileStore;
use slimline_collect::{Event, PageHomes, TracePlan, TraceSink};
use slimline_report::simulation::AccessTrace;
use slimline_simulate::access::{Access, Consumer, Located};
use slimline_simulate::interleave::Interleaver;
use slimline_trace::path_text::text_of;
use slimline_trace::stream::chunk::Chunk;
use slimline_trace::stream::decode::{Decoder, Program};
use slimline_trace::stream::growing::GrowingProgram;
use slimline_trace::stream::order::{Piece, StreamKey, in_order};
use slimline_trace::stream::pages::touched_pages;
use slimline_trace::stream::recording::ChunkPages;

use super::recorded::addresses_of;
use super::{Accesses, Ended, killed, unknown};
use crate::cli::AccessInput;
use crate::collectors::{collector, why_untraced};
use crate::disk::Disk;
use crate::made_tables::WithMadeTables;
use crate::recorded::directories;
use crate::say;
use crate::tracing::{Parts, add_object, failed, lost, missing_of, undecoded, unordered};

/// Runs the program, and hands its accesses on.
pub(super) fn read(
    input: &AccessInput,
    accesses: AttributedAccesses,
    consumer: &mut dyn Consumer,
) -> anyhow::Result<Accesses> {
    let command = &input.command;
    let collector = collector(&input.collecting, command, false)?;
    let plan = TracePlan { with_regions: accesses.tells_regions(), ..TracePlan::default() };
    let interleaver = Interleaver::new(consumer);
    let interleaver = if accesses.shares_memory() { interleaver.together() } else { interleaver };
    let mut live = Live {
        taken: Taken { accesses, interleaver, stretch: Vec::new(), nodes: HashMap::new() },
        homes: PageHomes::of_this_machine(),
        pages: Vec::new(),
        program: GrowingProgram::default(),
        decoder: Decoder::new(),
        spare: Piece::default(),
        parts: BTreeMap::new(),
        told_up_to: HashMap::new(),
        pids: BTreeMap::new(),
        missing: Vec::new(),
        failure: None,
        modules: Vec::new(),
        stamps_back: 0,
    };
    if let Some(homes) = &live.homes {
        live.taken.interleaver.locate(&Located { nodes: &homes.told().nodes, ..Located::default() });
    }
    let store = FileStore::new(&Disk);
    let mut sink = WithMadeTables::new(&mut live, &store);
    let outcome = slimline_collect::trace(command, &collector, plan, &mut sink)?;
    let Live { taken, program, decoder, mut missing, failure, modules, stamps_back, homes, pids, .. } = live;
    let overlap = taken.interleaver.finish();
    missing.extend(killed(outcome.end));
    missing.extend(unordered(stamps_back));
    missing.extend(undecoded(decoder.undecoded()));
    missing.extend(unknown(program.program(), taken.accesses.unseen(), taken.accesses.unknown_blocks()));
    let origins = taken.accesses.origins(program.program());
    if origins.is_empty() {
        say(format_args!("slimline: nothing was traced: {}", why_untraced(&collector, command, failure.as_deref())));
        let rest = missing.iter().filter(|what| failure.as_ref() != Some(what));
        rest.for_each(|what| say(format_args!("slimline: missing: {what}")));
        outcome.exit();
    }
    let words = command.iter().map(|word| text_of(word).into_owned());
    let trace = AccessTrace {
        file: "live".to_owned(),
        format: "trace",
        command: words.collect(),
        threads: Some(origins.threads().len() as u64),
        missing,
        homes: homes.map(|homes| homes.told()),
        modules,
        directories: directories(program.program()),
    };
    Ok(Accesses { trace, origins, overlap, pids: pids.into_iter().collect(), ended: Ended(Some(outcome)) })
}

struct Live<'a> {
    taken: Taken<'a>,
    /// Where the machine has several nodes.
    homes: Option<PageHomes>,
    /// Of a chunk, for their memory.
    pages: Vec<u64>,
    program: GrowingProgram,
    decoder: Decoder,
    /// What is left of one that was handed on, for its memory.
    spare: Piece,
    /// To be put in order, by process.
    parts: BTreeMap<u32, Parts>,
    /// By stream whose chunk is still written: what was before that time was handed on.
    told_up_to: HashMap<StreamKey, u64>,
    pids: BTreeMap<u32, u32>,
    missing: Vec<String>,
    /// The first of it that says why a process, or an object, was not traced.
    failure: Option<String>,
    /// Paths of what told of its code.
    modules: Vec<String>,
    stamps_back: u64,
}

/// What becomes of records.
struct Taken<'a> {
    accesses: AttributedAccesses,
    interleaver: Interleaver<'a>,
    stretch: Vec<Access>,
    /// Of threads, by their streams, where the kernel told.
    nodes: HashMap<StreamKey, u32>,
}

impl Taken<'_> {
    fn take(&mut self, program: &Program, stream: StreamKey, piece: &Piece, range: Range<usize>) {
        if let Some(&node) = self.nodes.get(&stream) {
            let thread = self.accesses.thread(stream.0, piece.tid);
            self.interleaver.locate(&Located { thread: Some((thread, node)), ..Located::default() });
        }
        for (since, until, range) in piece.stretches(range) {
            let batch = TraceBatch::of(stream, piece, range);
            self.accesses.update(program, &batch, &mut self.stretch, &mut |_| {});
            self.interleaver.stretch(stream, since, until, &mut self.stretch);
        }
    }
}

impl Live<'_> {
    /// Decodes a part; of one that is still written whole records of what began up to `now`. With it, when it began, and how many
    /// words it has.
    fn piece(&mut self, chunk: Chunk<'_>, now: Option<u64>) -> (u64, Piece, usize) {
        let stream = (chunk.process, chunk.stream);
        let mut piece = std::mem::take(&mut self.spare);
        (piece.sequence, piece.tid, piece.is_plain) = (chunk.sequence, chunk.tid, false);
        piece.words = chunk.words.into_owned();
        let before = match now {
            Some(now) => {
                // What is told by then ended by then.
                piece.ended = self.decoder.decode_growing(self.program.program(), &piece.words, now, &mut piece.visits);
                self.told_up_to.insert(stream, piece.ended)
            }
            None => {
                piece.ended = chunk.ended;
                piece.is_plain =
                    self.decoder.decode(self.program.program(), &piece.words, chunk.is_open, &mut piece.visits);
                self.told_up_to.remove(&stream)
            }
        };
        let after = before.unwrap_or(0);
        self.stamps_back += piece.find_stretches(self.program.program(), chunk.began, after);
        self.ask_for_homes(stream, &piece);
        let words = self.program.program().records_end(&piece.visits);
        (chunk.began.max(after), piece, words)
    }

    /// Asks the kernel, while the program still runs, where that is which was accessed.
    fn ask_for_homes(&mut self, stream: StreamKey, piece: &Piece) {
        let Some(homes) = &mut self.homes else { return };
        let mut pages = std::mem::take(&mut self.pages);
        touched_pages(self.program.program(), &piece.words, &piece.visits, &mut pages);
        let chunk = ChunkPages { process: stream.0, stream: stream.1, tid: piece.tid, sequence: piece.sequence, pages };
        if let Some(told) = homes.ask(&chunk) {
            self.taken.nodes.extend(told.thread_node.map(|node| (stream, node)));
            self.taken.interleaver.locate(&Located { pages: &addresses_of(&told), ..Located::default() });
        }
        self.pages = chunk.pages;
    }

    /// Keeps a part. How many words it has.
    fn part(&mut self, chunk: Chunk<'_>, now: Option<u64>) -> usize {
        let stream @ (process, _) = (chunk.process, chunk.stream);
        let (began, piece, words) = self.piece(chunk, now);
        let waiting = &mut self.parts.entry(process).or_default().waiting;
        waiting.entry(stream).or_default().push_back((began, piece));
        words
    }

    fn put_in_order(&mut self, process: u32) {
        let Some(mut parts) = self.parts.remove(&process) else { return };
        let streams: Vec<StreamKey> = parts.waiting.keys().copied().collect();
        let Self { taken, program, .. } = self;
        let Ok(()) =
            in_order(&mut parts, streams, |stream, piece, range| taken.take(program.program(), stream, piece, range));
    }
}

impl TraceSink for Live<'_> {
    fn take(&mut self, event: Event<'_>) -> io::Result<()> {
        match event {
            Event::Begin(process) => {
                if let Some(homes) = &mut self.homes {
                    homes.begin(&process);
                }
                self.pids.insert(process.number, process.pid);
            }
            Event::Object { path, section, .. } => {
                let added = add_object(&mut self.program, &path, section.as_deref().map_err(String::as_str));
                self.failure = self.failure.take().or_else(|| added.as_ref().err().cloned());
                self.missing.extend(added.err());
                self.modules.push(path);
            }
            Event::Chunk(chunk) => {
                let stream = (chunk.process, chunk.stream);
                let (_, piece, _) = self.piece(chunk, None);
                let Self { taken, program, .. } = self;
                taken.take(program.program(), stream, &piece, 0..piece.visits.len());
                self.spare = piece;
            }
            Event::Part(chunk) => drop(self.part(chunk, None)),
            // They come as an object, with its table, and as chunks.
            Event::Code { .. } | Event::Blocks { .. } | Event::SharedMappings { .. } => {}
            Event::PutInOrder { process } => self.put_in_order(process),
            Event::End(end) => {
                let pid = self.pids.get(&end.process).copied().unwrap_or(0);
                let failure = failed(&end).map(|what| missing_of(pid, &what));
                self.failure = self.failure.take().or(failure);
                self.missing.extend(lost(&end).iter().map(|what| missing_of(pid, what)));
            }
        }
        Ok(())
    }

    fn spare(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.spare.words)
    }

    fn needs_order(&self) -> bool {
        true
    }

    fn take_growing(&mut self, chunk: Chunk<'_>, now: u64) -> io::Result<usize> {
        Ok(self.part(chunk, Some(now)))
    }
}
