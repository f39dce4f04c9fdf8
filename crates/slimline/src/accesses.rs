//! Reading accesses of whatever has any: traces of instrumented programs, and other tools' traces of addresses.

mod addresses;
mod beside;
mod exported;
mod keys;
mod live;
mod recorded;
mod table;

use std::io::ErrorKind;
use std::num::NonZeroU64;

use anyhow::{Context, bail};
use slimline_analyze::full_trace::attributed::AttributedAccesses;
use slimline_analyze::full_trace::heap::UnknownBlocks;
use slimline_analyze::full_trace::unseen::Unseen;
use slimline_analyze::origins::Origins;
use slimline_collect::{TraceOutcome, is_drmemtrace};
use slimline_report::full_trace::{ProgramEnd, UNKNOWN_FORKS, UNKNOWN_FREES, untraced};
use slimline_report::simulation::AccessTrace;
use slimline_simulate::access::Consumer;
use slimline_trace::session::End;
use slimline_trace::stream::decode::Program;

use self::beside::beside;
pub(crate) use self::exported::{ACCESSES, KEYS};
pub(crate) use self::recorded::AttributedReader;
use crate::cli::AccessInput;
use crate::collectors::check_unasked;
use crate::recorded::RecordedTrace;
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
pub(crate) fn read(input: &AccessInput, consumer: &mut (dyn Consumer + Send)) -> anyhow::Result<Accesses> {
    read_as(input, AttributedAccesses::new(), consumer)
}

/// The same, where memory that processes share has one address in all of them.
pub(crate) fn read_sharing(input: &AccessInput, consumer: &mut (dyn Consumer + Send)) -> anyhow::Result<Accesses> {
    read_as(input, AttributedAccesses::new().sharing_memory(), consumer)
}

fn read_as(
    input: &AccessInput,
    accesses: AttributedAccesses,
    consumer: &mut (dyn Consumer + Send),
) -> anyhow::Result<Accesses> {
    if !tells_data(input) {
        check_unasked(&input.collecting, "a trace")?;
        return beside(consumer, |consumer| addresses::read(input, consumer));
    }
    attributed(input, accesses, consumer)
}

/// The same of a recorded trace.
pub(crate) fn read_whole(trace: &RecordedTrace, consumer: &mut (dyn Consumer + Send)) -> anyhow::Result<Accesses> {
    beside(consumer, |consumer| recorded::read(trace, AttributedAccesses::new(), consumer))
}

/// The same of a trace that tells data, and each access with the part of it where it is, of so many bytes or more.
pub(crate) fn read_with_parts(
    input: &AccessInput,
    bytes: NonZeroU64,
    consumer: &mut (dyn Consumer + Send),
) -> anyhow::Result<Accesses> {
    must_tell_data(input)?;
    attributed(input, AttributedAccesses::with_parts(bytes), consumer)
}

/// The same with regions of threads, and which of these ranges of memory, by first byte and bytes, each access is to.
pub(crate) fn read_by_regions(
    input: &AccessInput,
    ranges: &[(u64, u64)],
    consumer: &mut (dyn Consumer + Send),
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
    consumer: &mut (dyn Consumer + Send),
) -> anyhow::Result<Accesses> {
    let accesses = if input.callers { accesses.by_callers() } else { accesses };
    if input.live {
        beside(consumer, |consumer| live::read(input, accesses, consumer))
    } else {
        check_unasked(&input.collecting, "a trace")?;
        let trace = RecordedTrace::open(input.trace())?;
        beside(consumer, |consumer| recorded::read(&trace, accesses, consumer))
    }
}

/// What a program has not done as a signal ended it, in words.
pub(crate) fn killed(end: End) -> Option<String> {
    let ProgramEnd { signal, signal_name, .. } = ProgramEnd::of(end)?;
    let name = signal_name.map_or_else(String::new, |name| format!("{name}, "));
    Some(format!("what the program would have done, had it not been killed by {name}signal {}", signal?))
}

/// What is not known of the accesses, in words.
pub(crate) fn unknown(program: &Program, unseen: &Unseen, blocks: UnknownBlocks) -> Vec<String> {
    let mut missing = Vec::from_iter(untraced(&unseen.untraced(program)));
    const OVERSIZED: [&str; 2] = [
        "copy or fill of more than 64 GiB: the trace is damaged",
        "copies and fills of more than 64 GiB: the trace is damaged",
    ];
    let counts = [(blocks.frees, UNKNOWN_FREES), (blocks.forks, UNKNOWN_FORKS), (unseen.oversized(), OVERSIZED)];
    for (count, [one, several]) in counts {
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
    use std::path::Path;

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
        let process = Process {
            number: 0,
            pid: 7,
            parent_pid: 1,
            program: String::new(),
            started_ns: 0,
            is_here: true,
            fork: None,
        };
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
            let trace = RecordedTrace::open(directory).unwrap();
            let read = recorded::read(&trace, AttributedAccesses::new(), &mut locality).unwrap();
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
