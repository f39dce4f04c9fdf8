//! Accesses of recorded traces.

use std::collections::HashMap;
use std::ops::Range;

use anyhow::bail;
use slimline_analyze::full_trace::TraceBatch;
use slimline_analyze::full_trace::attributed::{AttributedAccesses, address_space, own_address};
use slimline_simulate::access::{Access, Consumer, Located};
use slimline_simulate::interleave::Interleaver;
use slimline_trace::stream::decode::{Program, SiteId};
use slimline_trace::stream::is_a_thread_s;
use slimline_trace::stream::order::{Piece, StreamKey};
use slimline_trace::stream::pages::{ChunkHomes, PAGE_BYTES};
use slimline_trace::stream::recording::Recording;

use super::{Accesses, Ended};
use crate::recorded::{Pass, Reader, RecordedTrace};
use crate::tracing::why_nothing;

/// Makes accesses of what is read, and hands them on in one order.
pub(crate) struct AttributedReader<'a> {
    accesses: AttributedAccesses,
    interleaver: Interleaver<'a>,
    stretch: Vec<Access>,
    homes: RecordedHomes<'a>,
    /// Of one stream nothing is to be put in order.
    is_alone: bool,
}

impl<'a> AttributedReader<'a> {
    /// Of a trace of which nothing was read yet.
    pub(crate) fn new(trace: &'a RecordedTrace, accesses: AttributedAccesses, consumer: &'a mut dyn Consumer) -> Self {
        let accesses_memory = |(_, stream): &&StreamKey| is_a_thread_s(*stream);
        let is_alone = trace.recording().streams().iter().filter(accesses_memory).count() == 1;
        // Whose data it is needs the order of causes; which lines threads take from each other, that of time.
        let interleaver = Interleaver::new(consumer);
        let mut interleaver = if accesses.shares_memory() { interleaver.together() } else { interleaver };
        let homes = RecordedHomes::begin(trace.recording(), &mut interleaver);
        Self { accesses, interleaver, stretch: Vec::new(), homes, is_alone }
    }

    /// By key so far: its instruction.
    pub(crate) fn sites(&self) -> Vec<SiteId> {
        self.accesses.sites()
    }

    /// What was read.
    ///
    /// # Errors
    /// No access was.
    pub(crate) fn finish(self, trace: &RecordedTrace, pass: &Pass) -> anyhow::Result<Accesses> {
        let Self { accesses, interleaver, .. } = self;
        let overlap = interleaver.finish();
        let origins = accesses.origins(trace.program());
        let recording = trace.recording();
        if origins.is_empty() {
            let why = why_nothing(recording, "the program's instrumented code made none");
            bail!("{}: {why}", trace.directory().display());
        }
        let unknown = (accesses.unseen(), accesses.unknown_blocks());
        let mut described = trace.described(pass, origins.threads().len() as u64, unknown);
        described.homes = recording.info().homes.clone();
        let pids = recording.info().processes.iter().map(|process| (process.number, process.pid)).collect();
        Ok(Accesses { trace: described, origins, overlap, pids, ended: Ended(None) })
    }
}

impl Reader for AttributedReader<'_> {
    fn take(&mut self, program: &Program, stream: StreamKey, piece: &Piece, visits: Range<usize>) {
        let Self { accesses, interleaver, stretch, homes, is_alone } = self;
        if visits.start == 0
            && let Some(told) = homes.of_chunk(stream, piece.sequence)
        {
            let thread = told.thread_node.map(|node| (accesses.thread(stream.0, piece.tid), node));
            interleaver.locate(&Located { pages: &addresses_of(told), thread, ..Located::default() });
        }
        for (since, until, range) in piece.stretches(visits) {
            let batch = TraceBatch::of(stream, piece, range);
            let mut many = |accesses: &mut Vec<Access>| {
                if *is_alone {
                    interleaver.alone(accesses);
                }
            };
            accesses.update(program, &batch, stretch, &mut many);
            match is_alone {
                true => interleaver.alone(stretch),
                false => interleaver.stretch(stream, since, until, stretch),
            }
        }
    }
}

/// Reads all accesses of a trace in a pass of their own.
pub(super) fn read(
    trace: &RecordedTrace,
    accesses: AttributedAccesses,
    consumer: &mut dyn Consumer,
) -> anyhow::Result<Accesses> {
    let mut reader = AttributedReader::new(trace, accesses, consumer);
    let pass = trace.read(&mut [&mut reader])?;
    reader.finish(trace, &pass)
}

/// Where a recorded trace's pages and threads were, by stream, and number of the chunk.
struct RecordedHomes<'a>(HashMap<(StreamKey, u64), &'a ChunkHomes>);

impl<'a> RecordedHomes<'a> {
    /// Tells each page where it was first known to be: what is asked for is told with the chunk that was read first, which is not the
    /// one whose accesses come first. Nothing is told where nobody asked.
    fn begin(recording: &'a Recording, interleaver: &mut Interleaver<'_>) -> Self {
        let (mut chunks, mut first) = (HashMap::new(), HashMap::new());
        for homes in recording.homes() {
            chunks.insert(((homes.process, homes.stream), homes.sequence), homes);
            for (page, node) in addresses_of(homes) {
                first.entry(page).or_insert(node);
            }
        }
        if let Some(homes) = &recording.info().homes {
            let first: Vec<(u64, u32)> = first.into_iter().collect();
            interleaver.locate(&Located { nodes: &homes.nodes, pages: &first, thread: None });
        }
        Self(chunks)
    }

    fn of_chunk(&self, stream: StreamKey, sequence: u64) -> Option<&'a ChunkHomes> {
        self.0.get(&(stream, sequence)).copied()
    }
}

/// Pages by their addresses, as accesses have them, and their nodes.
pub(super) fn addresses_of(homes: &ChunkHomes) -> Vec<(u64, u32)> {
    let space = address_space(homes.process);
    homes.pages.iter().map(|&(page, node)| (own_address(page.wrapping_mul(PAGE_BYTES)) ^ space, node)).collect()
}
