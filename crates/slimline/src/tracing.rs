//! What becomes of a full trace: analyzed as it comes, or written down.

mod analyst;
mod gaps;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::Range;

use slimline_analyze::full_trace::filter::Unmatched;
use slimline_analyze::full_trace::findings::findings;
use slimline_analyze::full_trace::splitting::SplitRules;
use slimline_analyze::full_trace::{TraceAnalysis, TraceBatch};
use slimline_collect::{Event, NoAllocator, PageHomes, Process, ProcessEnd, TraceOutcome, TraceSink, Unseen};
use slimline_report::full_trace::{TraceReport, TracedProcess, TracedRun};
use slimline_trace::escape::shell_word;
use slimline_trace::session::End;
use slimline_trace::stream::chunk::Chunk;
use slimline_trace::stream::decode::{Decoder, Program, Undecoded};
use slimline_trace::stream::growing::GrowingProgram;
use slimline_trace::stream::order::{Piece, StreamKey};
use slimline_trace::stream::recording::{
    Lacking, ProcessInfo, RecordedObject, RecordedTotals, Recording, RecordingWriter,
};

pub(crate) use self::analyst::Parts;
use self::analyst::{Analyst, Analyzed, Work};
use crate::recorded::{Pass, Reader, RecordedTrace};

/// Analyzes chunks as they come.
#[derive(Debug, Default)]
pub(crate) struct Live {
    program: GrowingProgram,
    decoder: Decoder,
    analyst: Analyst,
    /// What is left of one that was analyzed, for its memory.
    spare: Piece,
    /// To be put in order, by process.
    parts: BTreeMap<u32, Parts>,
    processes: BTreeMap<u32, Traced>,
    missing: Vec<String>,
    /// Time stamps that were earlier than the one before them.
    stamps_back: u64,
}

#[derive(Debug, Default)]
struct Traced {
    pid: u32,
    program: String,
    waited_ns: u64,
    is_gated: bool,
}

impl Live {
    /// Has what it sees analyzed.
    pub(crate) fn of(analysis: TraceAnalysis) -> Self {
        Self { analyst: Analyst::of(analysis), ..Self::default() }
    }

    /// Has as much of what it sees looked up as keeps up with the program.
    pub(crate) fn keeping_up(analysis: TraceAnalysis) -> Self {
        Self { analyst: Analyst::keeping_up(analysis), ..Self::default() }
    }

    /// The code that told of itself so far.
    pub(crate) fn program(&self) -> &Program {
        self.program.program()
    }

    fn begin(&mut self, process: &ProcessInfo) {
        let ProcessInfo { pid, waited_ns, is_gated, .. } = *process;
        let traced = Traced { pid, program: process.program.clone(), waited_ns, is_gated };
        self.processes.insert(process.number, traced);
    }

    /// A file with site tables. Chunks of it come later.
    fn object(&mut self, path: &str, section: Result<&[u8], &str>) {
        self.missing.extend(add_object(&mut self.program, path, section).err());
    }

    /// What was written to a stream, after all that it can know of.
    fn chunk(&mut self, chunk: Chunk<'_>) {
        let (process, stream, is_open) = (chunk.process, chunk.stream, chunk.is_open);
        let mut piece = self.piece_of(chunk);
        let work = if self.analyst.takes_words() {
            Work::Words((process, stream), (piece, is_open))
        } else {
            piece.is_plain = self.decoder.decode(self.program.program(), &piece.words, is_open, &mut piece.visits);
            Work::Piece((process, stream), piece)
        };
        self.analyst.hand_on(self.program.known(), work);
    }

    /// Keeps a part; of one that is still written whole records of what began up to `now`. How many words that are.
    fn part(&mut self, chunk: Chunk<'_>, now: Option<u64>) -> usize {
        let (process, stream, is_open, began) = (chunk.process, chunk.stream, chunk.is_open, chunk.began);
        let mut piece = self.piece_of(chunk);
        let Self { program, decoder, parts, stamps_back, .. } = self;
        let program = program.program();
        match now {
            Some(now) => drop(decoder.decode_growing(program, &piece.words, now, &mut piece.visits)),
            None => piece.is_plain = decoder.decode(program, &piece.words, is_open, &mut piece.visits),
        }
        *stamps_back += piece.find_stretches(program, began, 0);
        let words = program.records_end(&piece.visits);
        let waiting = &mut parts.entry(process).or_default().waiting;
        waiting.entry((process, stream)).or_default().push_back((began, piece));
        words
    }

    /// A chunk's words, nothing of which is decoded.
    fn piece_of(&mut self, chunk: Chunk<'_>) -> Piece {
        let mut piece = std::mem::take(&mut self.spare);
        (piece.sequence, piece.tid, piece.ended, piece.is_plain) = (chunk.sequence, chunk.tid, chunk.ended, false);
        piece.words = chunk.words.into_owned();
        piece
    }

    fn put_in_order(&mut self, process: u32) {
        if let Some(parts) = self.parts.remove(&process) {
            self.analyst.hand_on(self.program.known(), Work::Parts(parts));
        }
    }

    /// Is to read a recorded trace.
    pub(crate) fn begin_replay(&mut self, trace: &RecordedTrace) {
        let recording = trace.recording();
        self.missing.extend(not_recorded(recording));
        recording.info().processes.iter().for_each(|process| self.begin(process));
        self.program = GrowingProgram::of(&trace.known());
        self.missing.extend_from_slice(trace.missing_code());
    }

    /// Has read it.
    pub(crate) fn end_replay(&mut self, pass: &Pass) {
        let (undecoded, unordered) = pass.doubts();
        self.missing.extend(undecoded);
        self.missing.extend(unordered);
    }

    /// What happens in a run.
    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Begin(process) => self.begin(&info_of(process)),
            Event::Object { path, section, .. } => {
                self.object(&path, section.as_deref().map_err(String::as_str));
            }
            Event::Chunk(chunk) => self.chunk(chunk),
            Event::Part(chunk) => drop(self.part(chunk, None)),
            // They come as an object, with its table, and as chunks.
            Event::Code { .. } | Event::Blocks { .. } | Event::SharedMappings { .. } => {}
            Event::PutInOrder { process } => self.put_in_order(process),
            Event::End(end) => {
                if let Some(traced) = self.processes.get_mut(&end.process) {
                    traced.waited_ns = end.losses.waited_ns;
                    traced.is_gated = is_gated(&end);
                    let pid = traced.pid;
                    self.missing.extend(lost(&end).iter().map(|what| missing_of(pid, what)));
                }
            }
        }
    }

    /// Whether no thread wrote anything, for no reason that would be told.
    pub(crate) fn has_nothing(&mut self) -> bool {
        self.missing.is_empty() && self.analyst.finished().seen.values().all(|seen| seen.threads.is_empty())
    }

    /// Why filters leave nothing over, in words; empty where they leave something, or there was nothing.
    pub(crate) fn unmatched(&mut self) -> Vec<String> {
        let Some(unmatched) = self.analyst.finished().analysis.unmatched(self.program.program()) else {
            return Vec::new();
        };
        if unmatched.is_empty() {
            return vec!["no access is of all that --function, --file, --type and --variable ask for".to_owned()];
        }
        let line = |Unmatched { what, patterns, near }: Unmatched| {
            let asked = patterns.iter().map(|pattern| format!("--{what} {}", shell_word(pattern)));
            let asked = asked.collect::<Vec<_>>().join(" ");
            match near.is_empty() {
                true => format!("{asked}: no access has a {what} that is known"),
                false => format!("{asked}: no {what} with accesses has that name; there are {}", near.join(", ")),
            }
        };
        unmatched.into_iter().map(line).collect()
    }

    /// What was found in a run that ended so.
    pub(crate) fn report(
        mut self,
        command: Vec<String>,
        (end, windows): (Option<End>, Option<u32>),
        rules: &SplitRules,
    ) -> TraceReport {
        let Analyzed { analysis, seen, decoder, .. } = self.analyst.finished();
        self.missing.extend(undecoded(self.decoder.undecoded() + decoder.undecoded()));
        let found = findings(self.program.program(), analysis, rules);
        self.missing.extend(unordered(self.stamps_back));
        let run = TracedRun {
            command,
            end,
            windows,
            is_gated: self.processes.values().any(|traced| traced.is_gated),
            is_filtered: !analysis.filter().is_empty(),
            missing: self.missing,
        };
        let processes = self.processes.into_iter().map(|(number, traced)| {
            let seen = seen.remove(&number).unwrap_or_default();
            TracedProcess {
                pid: traced.pid,
                program: traced.program,
                threads: seen.threads.len() as u64,
                words: seen.words,
                waited_ns: traced.waited_ns,
            }
        });
        TraceReport::new(run, processes.collect(), &found, &analysis.checks().violations())
    }
}

/// Writes chunks as they come.
#[derive(Debug)]
pub(crate) struct Recorder {
    writer: RecordingWriter,
    /// Numbers of processes in the system, by those that they have here.
    pids: BTreeMap<u32, u32>,
    /// Why processes were not traced to their ends.
    failures: VecDeque<String>,
    /// What the translator did not tell.
    untold: Vec<String>,
    /// Where the machine has several NUMA nodes.
    homes: Option<PageHomes>,
}

impl Recorder {
    pub(crate) fn new(writer: RecordingWriter) -> Self {
        Self::asking(writer, PageHomes::of_this_machine())
    }

    /// The same, asking for homes of pages.
    pub(crate) fn asking(mut writer: RecordingWriter, homes: Option<PageHomes>) -> Self {
        if homes.is_some() {
            writer.tell_pages();
        }
        Self { writer, homes, pids: BTreeMap::new(), failures: VecDeque::new(), untold: Vec::new() }
    }

    /// Asks where the pages are of chunks that were written, and writes that down.
    fn ask_for_homes(&mut self) -> io::Result<()> {
        let Some(homes) = &mut self.homes else { return Ok(()) };
        for pages in self.writer.take_pages() {
            if let Some(told) = homes.ask(&pages) {
                self.writer.homes(&told)?;
            }
        }
        Ok(())
    }

    /// Why processes were not traced to their ends, and what the translator did not tell, in words.
    pub(crate) fn take_missing(&mut self) -> (VecDeque<String>, Vec<String>) {
        (std::mem::take(&mut self.failures), std::mem::take(&mut self.untold))
    }

    /// Writes what is left of a run that ended so. What was written, and why not all was.
    pub(crate) fn finish(mut self, outcome: &TraceOutcome) -> (RecordedTotals, io::Result<()>) {
        self.writer.ended(outcome.end, outcome.windows);
        let asked = self.writer.write_waiting().and_then(|()| self.ask_for_homes());
        if let Some(homes) = &self.homes {
            self.writer.asked_for_homes(homes.told());
        }
        let (totals, written) = self.writer.finish(outcome.stopped_early.is_none() && asked.is_ok());
        (totals, written.and(asked))
    }
}

impl TraceSink for Recorder {
    fn take(&mut self, event: Event<'_>) -> io::Result<()> {
        match event {
            Event::Begin(process) => {
                if let Some(homes) = &mut self.homes {
                    homes.begin(&process);
                }
                self.pids.insert(process.number, process.pid);
                self.writer.begin(info_of(process))
            }
            Event::Object { process, path, section, .. } => {
                // What is wrong with it is told when the trace is read, of the same bytes.
                self.writer.object(process, &path, &section.unwrap_or_default())
            }
            Event::Chunk(chunk) | Event::Part(chunk) => {
                self.writer.chunk(chunk)?;
                self.ask_for_homes()
            }
            // They come as an object, with its table, and as chunks.
            Event::Code { .. } | Event::Blocks { .. } | Event::SharedMappings { .. } => Ok(()),
            Event::PutInOrder { .. } => Ok(()),
            Event::End(end) => {
                let pid = self.pids.get(&end.process).copied().unwrap_or(0);
                self.failures.extend(failed(&end).map(|what| missing_of(pid, &what)));
                self.untold.extend(untold(&end).iter().map(|what| missing_of(pid, what)));
                self.writer.end(end.process, end.losses.waited_ns, is_gated(&end), lost(&end))?;
                self.ask_for_homes()
            }
        }
    }

    fn spare(&mut self) -> Vec<u64> {
        self.writer.spare()
    }

    /// Each stream has a file of its own.
    fn needs_order(&self) -> bool {
        false
    }

    fn take_growing(&mut self, _: Chunk<'_>, _: u64) -> io::Result<usize> {
        Ok(0)
    }
}

impl Reader for Live {
    fn take(&mut self, program: &Program, stream: StreamKey, piece: &Piece, visits: Range<usize>) {
        self.analyst.finished().update(program, &TraceBatch::of(stream, piece, visits));
    }
}

impl TraceSink for Live {
    fn take(&mut self, event: Event<'_>) -> io::Result<()> {
        self.event(event);
        Ok(())
    }

    fn spare(&mut self) -> Vec<u64> {
        self.spare = self.analyst.spare();
        std::mem::take(&mut self.spare.words)
    }

    fn needs_order(&self) -> bool {
        true
    }

    fn take_growing(&mut self, chunk: Chunk<'_>, now: u64) -> io::Result<usize> {
        Ok(self.part(chunk, Some(now)))
    }
}

/// What was not understood of the chunks, in words.
pub(crate) fn undecoded(undecoded: Undecoded) -> Vec<String> {
    let Undecoded { words, places, unknown_headers, cut_records } = undecoded;
    let mut missing = Vec::new();
    if words > 0 {
        missing.push(format!(
            "{words} words at {places} places that are no records ({unknown_headers} of no known site table): \
             a signal handler that code without instrumentation installed wrote over them, or a library's site table \
             was not found"
        ));
    }
    if cut_records > 0 {
        missing.push(format!("{cut_records} records that were not whole when their thread was killed"));
    }
    missing
}

/// What time stamps that go back cost, in words.
pub(crate) fn unordered(stamps_back: u64) -> Option<String> {
    (stamps_back > 0).then(|| {
        format!(
            "the order of threads: {stamps_back} time stamps are earlier than the one before them, as the clocks of this \
             machine's processors differ"
        )
    })
}

/// Adds the site tables of a file, or says what is missing without them.
pub(crate) fn add_object(program: &mut GrowingProgram, path: &str, section: Result<&[u8], &str>) -> Result<(), String> {
    let missing = |why: &str| format!("what {path} wrote: {why}");
    match program.add_section(section.map_err(missing)?) {
        Ok(true) => Ok(()),
        Ok(false) => Err(missing("its site table could not be read")),
        Err(error) => Err(missing(&error.to_string())),
    }
}

/// The code of a recording, and what of it is missing, in words.
pub(crate) fn program_of(recording: &Recording) -> (GrowingProgram, Vec<String>) {
    let mut program = GrowingProgram::default();
    let added = |object: &RecordedObject| add_object(&mut program, &object.path, Ok(&object.section)).err();
    let missing = recording.objects().iter().filter_map(added).collect();
    (program, missing)
}

fn info_of(process: Process) -> ProcessInfo {
    let Process { number, pid, parent_pid, program, started_ns, is_here: _, fork: _ } = process;
    ProcessInfo { number, pid, parent_pid, program, started_ns, ..ProcessInfo::default() }
}

/// What a recording lacks, in words.
pub(crate) fn not_recorded(recording: &Recording) -> Vec<String> {
    let mut missing = Vec::new();
    if !recording.info().complete {
        missing.push("what came after recording stopped: the run was not recorded to its end".to_owned());
    }
    missing.extend(recording.lacking().iter().map(Lacking::reason));
    for process in &recording.info().processes {
        missing.extend(process.missing.iter().map(|what| missing_of(process.pid, what)));
    }
    missing
}

/// Why a recording has no access: because there was none, or because what it held is gone.
pub(crate) fn why_nothing(recording: &Recording, otherwise: &str) -> String {
    let lacking: Vec<_> = recording.lacking().iter().map(Lacking::reason).collect();
    match lacking.as_slice() {
        [] => format!("holds no access: {otherwise}"),
        _ => format!("no access is left of it; missing: {}", lacking.join("; ")),
    }
}

/// As it is told in reports.
pub(crate) fn missing_of(pid: u32, what: &str) -> String {
    format!("process {pid}: {what}")
}

/// Whether not all of a process was to be traced.
fn is_gated(end: &ProcessEnd) -> bool {
    end.losses.between_windows_ns > 0 || end.losses.paused_ns > 0
}

/// What is missing of a process, in words.
pub(crate) fn lost(end: &ProcessEnd) -> Vec<String> {
    let mut missing: Vec<String> = failed(end).into_iter().collect();
    if end.is_alive {
        missing.push("it runs on, untraced".to_owned());
    }
    let losses = &end.losses;
    for (ns, when) in
        [(losses.between_windows_ns, "between windows"), (losses.paused_ns, "while the program was paused")]
    {
        if ns > 0 {
            let share = 100.0 * ns as f64 / losses.lifetime_ns.max(1) as f64;
            missing
                .push(format!("{share:.1} % of its time was not traced, {when}: counts are of the rest, not scaled"));
        }
    }
    for (count, what) in [
        (losses.untraced_chunks, "chunks of 256 KiB were thrown away, as no room was left for them"),
        (losses.untraced_children.into(), "forked children were not traced, as there was no room for them"),
        (
            losses.unread_values,
            "values were not told, as the memory was taken back or protected by another thread just after it was accessed: \
             those accesses are told without",
        ),
        (losses.untold_objects.into(), "libraries whose names are too long: what they wrote is not known"),
        (
            losses.untold_blocks.into(),
            "times that a thread got its own variables of a library that was opened while the program ran are not told, as no room was left: \
             accesses to those are by the names that instructions give",
        ),
        (
            losses.untold_mappings.into(),
            "shared mappings, as no room was left to name them: lines of these are not compared with other processes'",
        ),
        (
            losses.unseen_forks.into(),
            "child processes made by a system call (fork, clone) that slimline did not see: they are traced without their \
             parent's allocations, and their first records may have overwritten up to 256 KiB of this process's",
        ),
    ] {
        if count > 0 {
            missing.push(format!("{count} {what}"));
        }
    }
    if losses.memory_children > 0 {
        missing.push(format!(
            "{} children that share this process's memory and thread-local storage (clone with CLONE_VM): what they accessed, and \
             meanwhile the threads that made them, is not traced ({} KiB of records)",
            losses.memory_children,
            losses.lent_bytes.div_ceil(1024)
        ));
    }
    missing.extend(untold(end));
    missing
}

/// Why a process was not traced to its end, in words.
pub(crate) fn failed(end: &ProcessEnd) -> Option<String> {
    end.failure.as_ref().map(|failure| format!("it was not traced, or not all of it: {failure}"))
}

/// What its translator did not tell of a process, in words.
fn untold(end: &ProcessEnd) -> Vec<String> {
    let losses = &end.losses;
    let sorts = [
        (losses.extended_numbers, "load or store 80-bit numbers of x87 (long double)"),
        (losses.processor_states, "save or restore the processor's state (fxsave, xsave)"),
    ];
    let line = |(Unseen { instructions, runs }, what)| {
        format!(
            "accesses of {instructions} instructions that {what} and ran {runs} times: this QEMU does not tell them, 7.2 does \
             (--qemu)"
        )
    };
    let mut untold: Vec<String> = sorts.into_iter().filter(|(unseen, _)| unseen.runs > 0).map(line).collect();
    untold.extend(end.no_allocator.as_ref().map(|NoAllocator { file, is_stripped }| match is_stripped {
        true => format!(
            "blocks of the heap: {file} is stripped of the symbols by which malloc and its like are found: do not strip it (-s), or \
             link it with the C library's shared object"
        ),
        false => format!(
            "blocks of the heap: no function of {file}, or of what it loads, has the name of an allocator's that is known: \
             slimline.toml names others"
        ),
    }));
    untold
}
