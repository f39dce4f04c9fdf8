//! Reading accesses of whatever has any: traces of instrumented programs, and other tools' traces of addresses.

mod addresses;
mod exported;
mod keys;
mod live;
mod table;

use std::collections::HashMap;
use std::io::ErrorKind;
use std::num::NonZeroU64;
use std::path::Path;

use anyhow::{Context, bail};
use slimline_analyze::full_trace::TraceBatch;
use slimline_analyze::full_trace::attributed::{AttributedAccesses, address_space, own_address};
use slimline_analyze::full_trace::unseen::Unseen;
use slimline_analyze::origins::Origins;
use slimline_collect::{TraceOutcome, is_drmemtrace};
use slimline_report::full_trace::{ProgramEnd, UNKNOWN_FREES, untraced};
use slimline_report::simulation::AccessTrace;
use slimline_simulate::access::{Access, Consumer, Located};
use slimline_simulate::interleave::Interleaver;
use slimline_trace::session::End;
use slimline_trace::stream::decode::{Decoder, Program};
use slimline_trace::stream::is_a_thread_s;
use slimline_trace::stream::order::StreamKey;
use slimline_trace::stream::pages::{ChunkHomes, PAGE_BYTES};
use slimline_trace::stream::recording::Recording;

pub(crate) use self::exported::{ACCESSES, KEYS};
use crate::cli::AccessInput;
use crate::collectors::check_unasked;
use crate::progress::read_in_order;
use crate::tracing::{not_recorded, program_of, undecoded, unordered, why_nothing};
use crate::{is_broken_pipe, say};

/// What was read.
pub(crate) struct Accesses {
    pub(crate) trace: AccessTrace,
    /// What the accesses' keys stand for.
    pub(crate) origins: Origins,
    /// Which part of what all threads but the busiest accessed they did while another one was at it; none where threads are not told, or
    /// there is one.
    pub(crate) overlap: Option<f64>,
    /// Numbers of processes in the trace, and in the system, in the order in which they began.
    pub(crate) pids: Vec<(u32, u32)>,
    pub(crate) ended: Ended,
}

/// How the program ended that ran for it.
pub(crate) struct Ended(Option<TraceOutcome>);

impl Ended {
    /// The program's run, if one ran for it.
    pub(crate) fn outcome(&self) -> Option<&TraceOutcome> {
        self.0.as_ref()
    }

    /// The exit status, now that the report was written, or could not be; where a program ran for it, this process ends here
    /// ([`end_as`]).
    pub(crate) fn status(&self, written: anyhow::Result<()>) -> anyhow::Result<u8> {
        match &self.0 {
            None => written.map(|()| 0),
            Some(outcome) => end_as(outcome, written),
        }
    }
}

/// Ends this process as the program ended, now that its report was written, or could not be: with 2 where the program succeeded
/// and there is no report.
pub(crate) fn end_as(outcome: &TraceOutcome, written: anyhow::Result<()>) -> ! {
    match written {
        Err(error) if !is_broken_pipe(&error) => {
            say(format_args!("slimline: {error:#}"));
            outcome.exit_in_vain()
        }
        _ => outcome.exit(),
    }
}

/// Reads all accesses, and hands them on in one order.
pub(crate) fn read(input: &AccessInput, consumer: &mut dyn Consumer) -> anyhow::Result<Accesses> {
    if !tells_data(input) {
        check_unasked(&input.collecting, "a trace")?;
        return addresses::read(input, consumer);
    }
    attributed(input, AttributedAccesses::new(), consumer)
}

/// The same of a trace that tells data, and each access with the part of it where it is, of so many bytes or more.
pub(crate) fn read_with_parts(
    input: &AccessInput,
    bytes: NonZeroU64,
    consumer: &mut dyn Consumer,
) -> anyhow::Result<Accesses> {
    must_tell_data(input)?;
    attributed(input, AttributedAccesses::with_parts(bytes), consumer)
}

/// The same with regions of threads, and which of these ranges of memory, by first byte and bytes, each access is to.
pub(crate) fn read_by_regions(
    input: &AccessInput,
    ranges: &[(u64, u64)],
    consumer: &mut dyn Consumer,
) -> anyhow::Result<Accesses> {
    must_tell_data(input)?;
    attributed(input, AttributedAccesses::new().by_regions_and_ranges(ranges), consumer)
}

fn must_tell_data(input: &AccessInput) -> anyhow::Result<()> {
    if tells_data(input) {
        return Ok(());
    }
    must_be_there(input)?;
    bail!(
        "{}: tells no data, or not where in it: compile the program with slimline cc, gcc or cargo, and have its accesses \
         written by slimline trace -o DIR -- COMMAND",
        input.trace().display()
    );
}

/// Whether the accesses come with what they are of, as ours do; other tools tell addresses.
fn tells_data(input: &AccessInput) -> bool {
    let trace = input.trace();
    input.live || trace.is_dir() && input.columns.is_none() && !is_drmemtrace(trace) && !exported::is_exported(trace)
}

fn attributed(
    input: &AccessInput,
    accesses: AttributedAccesses,
    consumer: &mut dyn Consumer,
) -> anyhow::Result<Accesses> {
    let accesses = if input.callers { accesses.by_callers() } else { accesses };
    if input.live {
        live::read(input, accesses, consumer)
    } else {
        check_unasked(&input.collecting, "a trace")?;
        recorded(input.trace(), accesses, consumer)
    }
}

fn recorded(
    directory: &Path,
    mut accesses: AttributedAccesses,
    consumer: &mut dyn Consumer,
) -> anyhow::Result<Accesses> {
    let recording = Recording::open(directory)?;
    let mut trace = AccessTrace {
        file: directory.display().to_string(),
        format: "trace",
        command: recording.info().command.clone(),
        homes: recording.info().homes.clone(),
        ..AccessTrace::default()
    };
    let (program, missing_code) = program_of(&recording);
    trace.missing.extend(missing_code);
    let program = program.program();
    let mut decoder = Decoder::new();
    // Whose data it is needs the order of causes; which lines threads take from each other, that of time.
    let (mut interleaver, mut stretch) = (Interleaver::new(consumer), Vec::new());
    let homes = RecordedHomes::of(&recording);
    let accesses_memory = |(_, stream): &&StreamKey| is_a_thread_s(*stream);
    let is_alone = recording.streams().iter().filter(accesses_memory).count() == 1;
    homes.begin(&mut interleaver);
    let stamps_back = read_in_order(&recording, (program, &mut decoder), |stream, piece, range| {
        if range.start == 0
            && let Some(told) = homes.of_chunk(stream, piece.sequence)
        {
            let thread = told.thread_node.map(|node| (accesses.thread(stream.0, piece.tid), node));
            interleaver.locate(&Located { pages: &addresses_of(told), thread, ..Located::default() });
        }
        for (since, until, range) in piece.stretches(range) {
            let batch = TraceBatch::of(stream, piece, range);
            let mut many = |accesses: &mut Vec<Access>| {
                if is_alone {
                    interleaver.alone(accesses);
                }
            };
            accesses.update(program, &batch, &mut stretch, &mut many);
            match is_alone {
                true => interleaver.alone(&mut stretch),
                false => interleaver.stretch(stream, since, until, &mut stretch),
            }
        }
    })?;
    let overlap = interleaver.finish();
    trace.missing.extend(unordered(stamps_back));
    let unknown = (accesses.unseen(), accesses.unknown_frees());
    trace.missing.extend(missing(&recording, (program, &decoder), unknown));
    let origins = accesses.origins(program);
    if origins.is_empty() {
        let why = why_nothing(&recording, "the program's instrumented code made none");
        bail!("{}: {why}", directory.display());
    }
    trace.threads = Some(origins.threads().len() as u64);
    let pids = recording.info().processes.iter().map(|process| (process.number, process.pid)).collect();
    Ok(Accesses { trace, origins, overlap, pids, ended: Ended(None) })
}

/// Where a recorded trace's pages and threads were.
struct RecordedHomes<'a> {
    /// Nodes of the machine; none where nobody asked.
    nodes: Option<&'a [u32]>,
    /// By stream, and number of the chunk.
    chunks: HashMap<(StreamKey, u64), &'a ChunkHomes>,
    /// Each page where it was first known to be: what is asked for is told with the chunk that was read first, which is not the one
    /// whose accesses come first.
    first: Vec<(u64, u32)>,
}

impl<'a> RecordedHomes<'a> {
    fn of(recording: &'a Recording) -> Self {
        let (mut chunks, mut first) = (HashMap::new(), HashMap::new());
        for homes in recording.homes() {
            chunks.insert(((homes.process, homes.stream), homes.sequence), homes);
            for (page, node) in addresses_of(homes) {
                first.entry(page).or_insert(node);
            }
        }
        let nodes = recording.info().homes.as_ref().map(|homes| homes.nodes.as_slice());
        Self { nodes, chunks, first: first.into_iter().collect() }
    }

    fn begin(&self, interleaver: &mut Interleaver<'_>) {
        if let Some(nodes) = self.nodes {
            interleaver.locate(&Located { nodes, pages: &self.first, thread: None });
        }
    }

    fn of_chunk(&self, stream: StreamKey, sequence: u64) -> Option<&'a ChunkHomes> {
        self.chunks.get(&(stream, sequence)).copied()
    }
}

/// Pages by their addresses, as accesses have them, and their nodes.
fn addresses_of(homes: &ChunkHomes) -> Vec<(u64, u32)> {
    let space = address_space(homes.process);
    homes.pages.iter().map(|&(page, node)| (own_address(page.wrapping_mul(PAGE_BYTES)) ^ space, node)).collect()
}

/// What is missing of a recorded trace, in words.
pub(crate) fn missing(
    recording: &Recording,
    (program, decoder): (&Program, &Decoder),
    (unseen, unknown_frees): (&Unseen, u64),
) -> Vec<String> {
    let mut missing = Vec::from_iter(recording.info().end.and_then(killed));
    missing.extend(not_recorded(recording));
    missing.extend(undecoded(decoder));
    missing.extend(unknown(program, unseen, unknown_frees));
    missing
}

/// What a program has not done as a signal ended it, in words.
fn killed(end: End) -> Option<String> {
    let ProgramEnd { signal, signal_name, .. } = ProgramEnd::of(end)?;
    let name = signal_name.map_or_else(String::new, |name| format!("{name}, "));
    Some(format!("what the program would have done, had it not been killed by {name}signal {}", signal?))
}

/// What is not known of the accesses, in words.
fn unknown(program: &Program, unseen: &Unseen, unknown_frees: u64) -> Vec<String> {
    let mut missing = Vec::from_iter(untraced(&unseen.untraced(program)));
    const OVERSIZED: [&str; 2] = [
        "copy or fill of more than 64 GiB: the trace is damaged",
        "copies and fills of more than 64 GiB: the trace is damaged",
    ];
    for (count, [one, several]) in [(unknown_frees, UNKNOWN_FREES), (unseen.oversized(), OVERSIZED)] {
        if count > 0 {
            missing.push(format!("{count} {}", if count == 1 { one } else { several }));
        }
    }
    missing
}

/// What is not there is told as such, and how to make it.
fn must_be_there(input: &AccessInput) -> anyhow::Result<()> {
    let file = input.trace().display();
    match input.trace().metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound && input.trace().as_os_str() != "-" => {
            bail!("{file}: No such file or directory (write a trace with: slimline trace -o DIR -- COMMAND)")
        }
        Err(error) if input.trace().as_os_str() != "-" => Err(error).with_context(|| file.to_string()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use slimline_collect::{Event, NumaKernel, PageHomes, Process, ProcessEnd, ProcessLosses, TopologyNode, TraceSink};
    use slimline_simulate::locality::{HomesOf, Locality};
    use slimline_simulate::machine::Machine;
    use slimline_trace::session::End;
    use slimline_trace::stream::chunk::Chunk;
    use slimline_trace::stream::pages::HomesInfo;
    use slimline_trace::stream::recording::RecordingWriter;
    use slimline_trace::stream::ring::ObjectHead;
    use slimline_trace::stream::sites::{Module, ModuleBuilder, Site, SiteKind};

    use super::*;
    use crate::tracing::Recorder;

    /// Pages below 0x10000 are on node 0, those above on node 1, and one nowhere. Thread 70 is on node 0, thread 71 on node 1.
    struct TwoNodes;

    impl NumaKernel for TwoNodes {
        fn nodes_of_pages(&mut self, pid: u32, addresses: &[u64]) -> io::Result<Vec<i32>> {
            assert_eq!(pid, 7);
            Ok(addresses.iter().map(|at| if *at == 0x30000 { -2 } else { i32::from(*at >= 0x10000) }).collect())
        }

        fn cpu_of(&mut self, _: u32, tid: u32) -> Option<u32> {
            Some(tid - 70)
        }

        fn now_ms(&mut self) -> u32 {
            0
        }
    }

    fn section() -> Vec<u8> {
        let mut builder = ModuleBuilder::new();
        builder.segment([Site::new(SiteKind::Load, 8)]);
        builder.finish("a.c", "a.o", "/", "test").encode().1
    }

    fn record(directory: &Path, homes: Option<PageHomes>) {
        let mut recorder = Recorder::asking(RecordingWriter::create(directory, Vec::new()).unwrap(), homes);
        let process =
            Process { number: 0, pid: 7, parent_pid: 1, program: String::new(), started_ns: 0, is_here: true };
        recorder.take(Event::Begin(process)).unwrap();
        recorder
            .take(Event::Object {
                process: 0,
                path: "/a".to_owned(),
                head: ObjectHead { start: 0, offset: 0, block_below: 0 },
                section: Ok(section()),
            })
            .unwrap();
        let mut program = Program::new();
        for (id, module) in Module::read_section(&section()).unwrap() {
            program.add(id, module);
        }
        let header = program.segments()[0].header;
        for (stream, addresses) in [(0, [0x1000, 0x20000, 0x30000, 0x2000]), (1, [0x1040, 0x20040, 0x21000, 0x22000])] {
            let words: Vec<u64> = addresses.into_iter().flat_map(|at| [header, at]).collect();
            let chunk = Chunk {
                process: 0,
                stream,
                tid: 70 + stream,
                thread_pointer: 0,
                sequence: 0,
                began: 10 + u64::from(stream),
                ended: 20,
                words: words.into(),
                is_open: false,
            };
            recorder.take(Event::Chunk(chunk)).unwrap();
        }
        let losses = ProcessLosses::default();
        recorder
            .take(Event::End(ProcessEnd { process: 0, losses, failure: None, is_alive: false, no_allocator: None }))
            .unwrap();
        let outcome = TraceOutcome {
            end: End::Exited { status: 0 },
            processes: 1,
            windows: None,
            stopped_early: None,
            profiles: Vec::new(),
        };
        recorder.finish(&outcome).1.unwrap();
    }

    /// From a kernel's answers, by way of the trace on disk, to near and far.
    #[test]
    fn homes_of_pages_go_the_way_of_the_data() {
        let scratch = tempfile::tempdir().unwrap();
        let machine = Machine::parse(
            "name = \"m\"\ncores = 2\ncache = [{ name = \"L1\", level = 1, holds = \"data\", size = 256, line = 64, \
             ways = 2, latency = 2 }]\nmemory = [{ name = \"node0\", cores = \"0\", latency = [100, 300] }, \
             { name = \"node1\", cores = \"1\", latency = [300, 100] }]\n",
        );
        let machine = machine.unwrap();
        let found = |directory: &Path| {
            let mut locality = Locality::new(&machine).unwrap();
            let read = recorded(directory, AttributedAccesses::new(), &mut locality).unwrap();
            (locality.finish().unwrap(), read.trace)
        };
        let node = |number| TopologyNode { number, cpus: vec![number], bytes: 1 << 30, distances: vec![10, 20] };
        let asked = scratch.path().join("asked");
        record(&asked, Some(PageHomes::of(&[node(0), node(1)], Box::new(TwoNodes))));
        let (of_kernel, trace) = found(&asked);
        assert_eq!(of_kernel.homes, HomesOf::Kernel { has_costs: true });
        // Of thread 70 two of three known are near, of thread 71 three of four.
        let sum = |of: fn(&slimline_simulate::locality::KeyLocality) -> u64| of_kernel.keys.iter().map(of).sum::<u64>();
        assert_eq!((sum(|key| key.homed), sum(|key| key.near)), (7, 5));
        assert_eq!(sum(|key| key.costs.cycles), 2 * 300 + 6 * 100);
        let info = HomesInfo { nodes: vec![0, 1], pages: 5, not_present: 1, ..HomesInfo::default() };
        assert_eq!((trace.homes, trace.missing), (Some(info), Vec::<String>::new()));
        // With one node nobody asks: what is touched first by the one is far from the other.
        let simulated = scratch.path().join("simulated");
        record(&simulated, None);
        let (first_touch, trace) = found(&simulated);
        assert_eq!((first_touch.homes, trace.homes), (HomesOf::FirstTouch, None));
        assert!(!simulated.join("homes").exists());
        let near: u64 = first_touch.keys.iter().map(|key| key.near).sum();
        assert_eq!(near, 6);
    }
}
