//! Programs that write a trace by hand, run and read: what they wrote is what is read, and they do what they do alone.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use slimline_collect::{Event, Process, ProcessEnd, RUNTIME, TracePlan, TraceSink};
use slimline_trace::session::End;
use slimline_trace::stream::chunk::Chunk;
use slimline_trace::stream::decode::{Decoder, Program, Undecoded, Visits};
use slimline_trace::stream::sites::{Module, ModuleBuilder, Site, SiteKind};

/// The program, compiled once.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    &PROGRAM
        .get_or_init(|| {
            let scratch = tempfile::tempdir().unwrap();
            let program = compile(scratch.path());
            (scratch, program)
        })
        .1
}

fn compile(scratch: &Path) -> PathBuf {
    let mut builder = ModuleBuilder::new();
    builder.segment([Site::new(SiteKind::Load, 8)]);
    builder.segment([Site::new(SiteKind::Load, 8), Site::new(SiteKind::Store, 4)]);
    builder.segment(vec![Site::new(SiteKind::Load, 8); 60]);
    let (id, blob) = builder.finish("writes.c", "writes.o", "/", "by hand").encode();
    sample_programs::by_hand::writes(scratch, id.number(), &blob, RUNTIME).unwrap()
}

/// What was read of a run.
#[derive(Default)]
struct Seen {
    processes: Vec<Process>,
    ends: Vec<ProcessEnd>,
    program: Program,
    decoder: Decoder,
    visits: Vec<Visits>,
    /// Segments that ran, by process.
    counts: BTreeMap<u32, [u64; 3]>,
    /// Of all addresses, by process.
    sums: BTreeMap<u32, u64>,
    /// Times that a stream went on after a part that nobody reads.
    gaps: u64,
    /// Number of the next chunk, by process and stream.
    next: BTreeMap<(u32, u32), u64>,
    /// Fails after so many chunks.
    limit: Option<u64>,
    /// Takes chunks while they are written.
    takes_growing: bool,
}

impl TraceSink for Seen {
    fn take(&mut self, event: Event<'_>) -> io::Result<()> {
        match event {
            Event::Begin(process) => self.processes.push(process),
            Event::Object { section, .. } => {
                let modules = Module::read_section(&section.unwrap()).unwrap();
                for (id, module) in modules.into_iter().chain([Module::of_runtime()]) {
                    self.program.add(id, module);
                }
            }
            Event::Chunk(chunk) | Event::Part(chunk) => {
                let next = self.next.entry((chunk.process, chunk.stream)).or_default();
                assert_eq!(chunk.sequence, *next, "of stream {}", chunk.stream);
                *next += 1;
                self.decoder.decode(&self.program, &chunk.words, chunk.is_open, &mut self.visits);
                self.count(chunk.process, &chunk.words);
                if let Some(left) = &mut self.limit {
                    *left = left.checked_sub(1).ok_or_else(|| io::Error::from(io::ErrorKind::StorageFull))?;
                }
            }
            Event::Code { .. } => panic!("nothing is translated"),
            Event::Blocks { .. } | Event::SharedMappings { .. } | Event::PutInOrder { .. } => {}
            Event::End(end) => self.ends.push(end),
        }
        Ok(())
    }

    fn needs_order(&self) -> bool {
        self.takes_growing
    }

    fn take_growing(&mut self, chunk: Chunk<'_>, now: u64) -> io::Result<usize> {
        self.decoder.decode_growing(&self.program, &chunk.words, now, &mut self.visits);
        self.count(chunk.process, &chunk.words);
        Ok(self.program.records_end(&self.visits))
    }
}

fn traced_with(seen: &mut Seen, arguments: &[&str]) -> End {
    let mut command: Vec<OsString> = vec![program().into()];
    command.extend(arguments.iter().map(OsString::from));
    let outcome =
        slimline_collect::trace(&command, &slimline_collect::TraceCollector::Instrumented, TracePlan::default(), seen)
            .unwrap();
    assert_eq!(outcome.stopped_early.is_some(), seen.limit.is_some());
    outcome.end
}

fn traced(arguments: &[&str]) -> (End, Seen) {
    let mut seen = Seen::default();
    let end = traced_with(&mut seen, arguments);
    (end, seen)
}

fn alone(arguments: &[&str]) -> Output {
    Command::new(program()).args(arguments).output().unwrap()
}

/// What `many(n)` writes: visits of each segment, and the sum of all addresses.
fn many(n: u64) -> ([u64; 3], u64) {
    let sixty = n / 16;
    ([n, n, sixty], 6 * (n * (n + 1) / 2) + 60 * 16 * (sixty * (sixty + 1) / 2))
}

fn times(count: u64, (visits, sum): ([u64; 3], u64)) -> ([u64; 3], u64) {
    (visits.map(|visits| visits * count), sum * count)
}

impl Seen {
    fn count(&mut self, process: u32, chunk: &[u64]) {
        let counts = self.counts.entry(process).or_default();
        let sum = self.sums.entry(process).or_default();
        for visits in &self.visits {
            // The runtime's own record has no words.
            let Some(count) = counts.get_mut(visits.segment.0 as usize) else {
                self.gaps += u64::from(visits.times);
                continue;
            };
            *count += u64::from(visits.times);
            let words = self.program.segments()[visits.segment.0 as usize].words;
            *sum += visits.places(words).flat_map(|at| &chunk[at..][..words as usize]).sum::<u64>();
        }
    }

    fn of(&self, process: u32) -> ([u64; 3], u64) {
        (self.counts[&process], self.sums[&process])
    }

    /// Nothing is missing, and nothing was passed over.
    fn check_whole(&self) {
        assert_eq!(self.decoder.undecoded(), Undecoded::default());
        assert_eq!(self.ends.len(), self.processes.len());
        for ProcessEnd { losses, failure, .. } in &self.ends {
            let lost = (losses.untraced_chunks, losses.untraced_children, losses.sequence_gaps, losses.untold_objects);
            assert_eq!((lost, failure), ((0, 0, 0, 0), &None));
        }
    }
}

const EXITED: End = End::Exited { status: 0 };

#[test]
fn all_that_is_written_is_read() {
    for n in [0, 1, 1000, 2_000_000] {
        let (end, seen) = traced(&["plain", &n.to_string()]);
        assert_eq!(end, EXITED);
        seen.check_whole();
        match n {
            0 => assert!(seen.counts.is_empty()),
            _ => assert_eq!(seen.of(0), many(n)),
        }
        assert_eq!(seen.processes.len(), 1);
        assert_eq!(seen.processes[0].program, program().to_str().unwrap());
    }
}

#[test]
fn a_cursor_may_stay_in_a_register_for_many_chunks() {
    let n = 1_000_000;
    let (end, seen) = traced(&["held", &n.to_string()]);
    assert_eq!(end, EXITED);
    seen.check_whole();
    assert_eq!(seen.of(0), times(2, many(10)).plus(([n, 0, 0], n * (n + 1) / 2)));
}

#[test]
fn alone_it_does_the_same() {
    let output = alone(&["threads", "300000"]);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"done\n"[..]));
}

#[test]
fn all_registers_but_one_are_kept() {
    assert_eq!(alone(&["registers"]).status.code(), Some(0));
    let (end, seen) = traced(&["registers"]);
    assert_eq!(end, EXITED);
    seen.check_whole();
    assert_eq!(seen.of(0), times(100_000, many(100)));
}

#[test]
fn threads_have_chunks_of_their_own() {
    for takes_growing in [false, true] {
        let mut seen = Seen { takes_growing, ..Seen::default() };
        assert_eq!(traced_with(&mut seen, &["threads", "200000"]), EXITED);
        seen.check_whole();
        assert_eq!(seen.of(0), times(8, many(200_000)).plus(times(200, many(100))));
        assert_eq!(seen.next.len(), 208);
    }
}

#[test]
fn more_threads_than_chunks_go_untraced_and_are_counted() {
    let (end, seen) = traced(&["crowd", "10"]);
    assert_eq!(end, EXITED);
    assert_eq!(seen.decoder.undecoded(), Undecoded::default());
    let losses = seen.ends[0].losses;
    assert!(losses.untraced_chunks >= 600 - 512, "{losses:?}");
}

#[test]
fn a_forked_child_has_a_trace_of_its_own() {
    let (end, seen) = traced(&["fork", "100000"]);
    assert_eq!(end, End::Exited { status: 5 });
    seen.check_whole();
    let parents = seen.processes.iter().find(|process| process.parent_pid == std::process::id()).unwrap();
    let childs = seen.processes.iter().find(|process| process.parent_pid == parents.pid).unwrap();
    assert_eq!(seen.of(parents.number), times(3, many(100_000)));
    assert_eq!(seen.of(childs.number), many(100_000));
}

/// As in containers: each has the number 1 there, the second while the first one lives on or after it, and none of them is
/// ours of that number.
#[test]
fn programs_in_other_pid_namespaces_are_told_apart() {
    let tried = Command::new("unshare").args(["-prf", "true"]).output();
    if !tried.is_ok_and(|output| output.status.success()) {
        return eprintln!("skipped: unshare -prf is refused");
    }
    let n = 3_000_000;
    for next in ["&", "; sleep 0.3;"] {
        let script = format!("for i in 1 2; do unshare -prf \"$0\" plain {n} {next} done; wait");
        let mut seen = Seen::default();
        let command =
            ["sh", "-c", &script].map(OsString::from).into_iter().chain([program().into()]).collect::<Vec<_>>();
        let outcome = slimline_collect::trace(
            &command,
            &slimline_collect::TraceCollector::Instrumented,
            TracePlan::default(),
            &mut seen,
        )
        .unwrap();
        assert_eq!(outcome.end, EXITED);
        seen.check_whole();
        assert_eq!(seen.processes.len(), 2, "{next}");
        assert_ne!(seen.processes[0].pid, seen.processes[1].pid);
        assert_eq!([seen.of(0), seen.of(1)], [many(n); 2]);
        for process in &seen.processes {
            assert!(process.pid != 1 && process.parent_pid > 1, "{process:?}");
            assert_eq!(process.program, program().to_str().unwrap());
        }
    }
}

trait Plus {
    fn plus(self, other: Self) -> Self;
}

impl Plus for ([u64; 3], u64) {
    fn plus(self, other: Self) -> Self {
        (std::array::from_fn(|i| self.0[i] + other.0[i]), self.1 + other.1)
    }
}

#[test]
fn a_program_that_takes_anothers_place_has_a_trace_of_its_own() {
    let (end, seen) = traced(&["exec", "50000"]);
    assert_eq!(end, EXITED);
    seen.check_whole();
    assert_eq!(seen.processes.len(), 2);
    assert_eq!(seen.processes[0].pid, seen.processes[1].pid);
    assert_eq!([seen.of(0), seen.of(1)], [many(50_000); 2]);
}

#[test]
fn a_child_in_its_parents_memory_writes_there() {
    let (end, seen) = traced(&["vfork", "50000"]);
    assert_eq!(end, End::Exited { status: 6 });
    seen.check_whole();
    assert_eq!(seen.of(0), times(2, many(50_000)).plus(([1, 0, 0], 1)));
}

#[test]
fn however_it_ends_nothing_is_lost() {
    for (mode, expected) in [
        ("_exit", End::Exited { status: 3 }),
        ("abort", End::Signaled { signal: 6 }),
        ("crash", End::Signaled { signal: 11 }),
        ("kill", End::Signaled { signal: 9 }),
    ] {
        let (end, seen) = traced(&[mode, "123457"]);
        assert_eq!(end, expected, "{mode}");
        seen.check_whole();
        assert_eq!(seen.of(0), many(123_457), "{mode}");
    }
}

/// Ticks of a timer interrupt records that are half written, and write some themselves: everything is read.
#[test]
fn signal_handlers_write_streams_of_their_own() {
    assert_eq!(alone(&["signals"]).status.code(), Some(0));
    let (end, seen) = traced(&["signals", "100000"]);
    assert_eq!(end, EXITED);
    seen.check_whole();
    // Sixty-fours by the handler, hundred thousands by what it interrupts.
    let ([ones, ..], _) = seen.of(0);
    let (rounds, ticks) = (ones / 100_000, ones % 100_000 / 64);
    assert_eq!(seen.of(0), times(rounds, many(100_000)).plus(times(ticks, many(64))));
    assert!(ticks >= 200, "{ticks}");
}

/// Each handler interrupts the one before, deeper than there are streams for.
#[test]
fn handlers_interrupt_handlers() {
    assert_eq!(alone(&["nested"]).status.code(), Some(0));
    let (end, seen) = traced(&["nested", "100"]);
    assert_eq!(end, EXITED);
    // Of seven levels the own one and three handlers', before and after, each time.
    assert_eq!(seen.of(0), times(100, times(8, many(16))));
    assert_eq!(seen.decoder.undecoded(), Undecoded::default());
    assert!(seen.ends[0].losses.untraced_chunks > 0);
}

#[test]
fn handlers_may_be_left_by_a_jump() {
    assert_eq!(alone(&["jumps"]).status.code(), Some(0));
    for n in ["3", "1000"] {
        let (end, seen) = traced(&["jumps", n]);
        assert_eq!(end, EXITED);
        seen.check_whole();
        assert_eq!(seen.of(0), times(n.parse().unwrap(), times(3, many(16))));
    }
}

#[test]
fn handlers_that_fork() {
    let (end, seen) = traced(&["handler-forks", "1000"]);
    assert_eq!(end, EXITED);
    seen.check_whole();
    assert_eq!(seen.of(0), times(2, many(1000)).plus(times(2, many(16))));
    assert_eq!(seen.of(1), many(16));
}

#[test]
fn programs_are_told_of_their_own_handlers() {
    assert_eq!(alone(&["dispositions"]).status.code(), Some(0));
    let (end, seen) = traced(&["dispositions"]);
    assert_eq!(end, EXITED);
    seen.check_whole();
}

#[test]
fn who_takes_no_more_does_not_hold_the_program_up() {
    let mut seen = Seen { limit: Some(3), ..Seen::default() };
    assert_eq!(traced_with(&mut seen, &["plain", "5000000"]), EXITED);
    let first = seen.counts[&0];
    assert!(first[0] > 0 && first[0] < 5_000_000);
}

#[test]
fn a_directory_that_nobody_reads_does_not_hold_the_program_up() {
    let scratch = tempfile::tempdir().unwrap();
    let mut command = Command::new(program());
    command.args(["plain", "5000000"]).env("SLIMLINE_TRACE", scratch.path());
    let output = command.output().unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"done\n"[..]));
    command.env("SLIMLINE_TRACE", scratch.path().join("not/there"));
    assert!(command.output().unwrap().status.success());
}
