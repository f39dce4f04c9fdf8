//! What becomes of a full trace: analyzed as it comes, or written down.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::rc::Rc;

use slimline_analyze::full_trace::filter::Filter;
use slimline_analyze::full_trace::findings::findings;
use slimline_analyze::full_trace::splitting::SplitRules;
use slimline_analyze::full_trace::{TraceAnalysis, TraceBatch};
use slimline_collect::{Event, Process, ProcessEnd, TraceSink};
use slimline_report::full_trace::{TraceReport, TracedProcess};
use slimline_trace::stream::chunk::Chunk;
use slimline_trace::stream::decode::{Decoder, Program, Undecoded, Visits};
use slimline_trace::stream::recording::{ProcessInfo, RecordedTotals, RecordingWriter};
use slimline_trace::stream::sites::Module;

/// Analyzes chunks as they come.
#[derive(Debug, Default)]
pub(crate) struct Live {
    program: Rc<Program>,
    decoder: Decoder,
    analysis: TraceAnalysis,
    visits: Vec<Visits>,
    processes: BTreeMap<u32, Traced>,
    missing: Vec<String>,
}

#[derive(Debug, Default)]
struct Traced {
    pid: u32,
    program: String,
    threads: BTreeSet<u32>,
    words: u64,
    waited_ns: u64,
}

impl Live {
    /// Has seen nothing, and tells what the filter wants.
    pub(crate) fn of(filter: Filter) -> Self {
        Self { analysis: TraceAnalysis::of(filter), ..Self::default() }
    }

    /// Something is missing.
    pub(crate) fn miss(&mut self, what: String) {
        self.missing.push(what);
    }

    /// A process of a recorded trace.
    pub(crate) fn begin(&mut self, process: &ProcessInfo) {
        let traced = Traced {
            pid: process.pid,
            program: process.program.clone(),
            waited_ns: process.waited_ns,
            ..Traced::default()
        };
        self.processes.insert(process.number, traced);
    }

    /// A file with site tables. Chunks of it come later.
    pub(crate) fn object(&mut self, path: &str, section: Result<&[u8], &str>) {
        if let Err(why) = add_object(&mut self.program, section) {
            self.missing.push(format!("what {path} wrote: {why}"));
        }
    }

    /// All site tables so far.
    pub(crate) fn program(&self) -> Rc<Program> {
        Rc::clone(&self.program)
    }

    /// What was written to a stream.
    pub(crate) fn chunk(&mut self, chunk: &Chunk<'_>) {
        let &Chunk { process, stream, sequence, tid, ref words, is_open, .. } = chunk;
        self.decoder.decode(&self.program, words, is_open, &mut self.visits);
        if let Some(traced) = self.processes.get_mut(&process) {
            traced.threads.insert(tid);
            traced.words += self.program.records_end(&self.visits) as u64;
        }
        let batch = TraceBatch { process, stream, sequence, visits: &self.visits, words };
        self.analysis.update(&self.program, &batch);
    }

    /// What happens in a run.
    pub(crate) fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Begin(process) => self.begin(&info_of(process)),
            Event::Object { path, section, .. } => {
                self.object(&path, section.as_deref().map_err(String::as_str));
            }
            Event::Chunk(chunk) => self.chunk(&chunk),
            Event::End(end) => {
                if let Some(traced) = self.processes.get_mut(&end.process) {
                    traced.waited_ns = end.losses.waited_ns;
                    let pid = traced.pid;
                    self.missing.extend(lost(&end).iter().map(|what| missing_of(pid, what)));
                }
            }
        }
    }

    /// What was found.
    pub(crate) fn report(mut self, command: Vec<String>, rules: &SplitRules) -> TraceReport {
        let Undecoded { words, places, unknown_headers, cut_records } = self.decoder.undecoded();
        if words > 0 {
            self.missing.push(format!(
                "{words} words at {places} places that are no records ({unknown_headers} of no known site table): \
                 a signal handler that code without instrumentation installed wrote over them, or a library's site table \
                 was not found"
            ));
        }
        if cut_records > 0 {
            self.missing.push(format!("{cut_records} records that were not whole when their thread was killed"));
        }
        let found = findings(&self.program, &self.analysis, rules);
        if !self.analysis.filter().is_empty() {
            let unwanted = found.unwanted.count();
            self.missing.push(format!("{unwanted} accesses that --function, --file, --type or --variable leave out"));
        }
        if !found.heap.is_empty() && self.processes.values().any(|traced| traced.threads.len() > 1) {
            self.missing.push(
                "the order of threads within their last 256 KiB of trace: what one has just allocated, accesses of others may \
                 not be counted for"
                    .to_owned(),
            );
        }
        let processes = self.processes.into_values().map(|traced| TracedProcess {
            pid: traced.pid,
            program: traced.program,
            threads: traced.threads.len() as u64,
            words: traced.words,
            waited_ns: traced.waited_ns,
        });
        TraceReport::new(command, processes.collect(), self.missing, &found, &self.analysis.checks().violations())
    }
}

/// Writes chunks as they come.
#[derive(Debug)]
pub(crate) struct Recorder {
    writer: RecordingWriter,
    program: Rc<Program>,
}

impl Recorder {
    pub(crate) fn new(writer: RecordingWriter) -> Self {
        Self { writer, program: Rc::default() }
    }

    /// Writes what is left; `is_complete` says whether the run came to its end.
    pub(crate) fn finish(self, is_complete: bool) -> io::Result<RecordedTotals> {
        self.writer.finish(is_complete)
    }
}

impl TraceSink for Recorder {
    fn take(&mut self, event: Event<'_>) -> io::Result<()> {
        match event {
            Event::Begin(process) => self.writer.begin(info_of(process)),
            Event::Object { process, path, section } => {
                // What is wrong with it is told when the trace is read, of the same bytes.
                let section = section.unwrap_or_default();
                let _ = add_object(&mut self.program, Ok(&section));
                self.writer.object(process, &path, &section)
            }
            Event::Chunk(chunk) => self.writer.chunk(&self.program, &chunk),
            Event::End(end) => self.writer.end(end.process, end.losses.waited_ns, lost(&end)),
        }
    }
}

fn add_object(program: &mut Rc<Program>, section: Result<&[u8], &str>) -> Result<(), String> {
    let modules = Module::read_section(section?).map_err(|error| error.to_string())?;
    if modules.is_empty() {
        return Err("its site table could not be read".to_owned());
    }
    // Whoever holds the one before goes on with it: a trace that is read has all of them first.
    match Rc::get_mut(program) {
        Some(program) => modules.into_iter().for_each(|(id, module)| program.add(id, module)),
        None => return Err("it came too late".to_owned()),
    }
    Ok(())
}

fn info_of(process: Process) -> ProcessInfo {
    let Process { number, pid, parent_pid, program, started_ns } = process;
    ProcessInfo { number, pid, parent_pid, program, started_ns, ..ProcessInfo::default() }
}

/// As it is told in reports.
pub(crate) fn missing_of(pid: u32, what: &str) -> String {
    format!("process {pid}: {what}")
}

/// What is missing of a process, in words.
fn lost(end: &ProcessEnd) -> Vec<String> {
    let mut missing = Vec::new();
    if let Some(failure) = &end.failure {
        missing.push(format!("it was not traced, or not all of it: {failure}"));
    }
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
        (losses.untold_objects.into(), "libraries whose names are too long: what they wrote is not known"),
    ] {
        if count > 0 {
            missing.push(format!("{count} {what}"));
        }
    }
    missing
}
