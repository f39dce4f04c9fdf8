//! The least that reads a trace: `discard_trace [--count] COMMAND…` runs an instrumented program and throws away what it
//! writes, so that what is left is the price of writing it. With `--count` it decodes the records and counts how often each
//! site was there; the sum is told on standard error. What `cargo xtask bench trace` runs. `discard_trace --translate
//! COMMAND…` has any program translated and throws that away: what `cargo xtask bench translate` runs.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use slimline_attribute::files::{FileBytes, Files};
use slimline_attribute::hooked::site_tables;
use slimline_attribute::module::store::FileStore;
use slimline_collect::{Event, Qemu, TraceCollector, TracePlan, TraceSink, trace};
use slimline_trace::stream::chunk::Chunk;
use slimline_trace::stream::decode::{Decoder, Program, SegmentId, Tallies, Visits};
use slimline_trace::stream::sites::Module;

fn main() -> ExitCode {
    let mut command: Vec<OsString> = env::args_os().skip(1).collect();
    let [is_counting, is_translating] =
        ["--count", "--translate"].map(|option| command.first().is_some_and(|first| first == option));
    command.drain(..usize::from(is_counting || is_translating));
    let collector = match is_translating.then(|| Qemu::find(None)) {
        None => TraceCollector::Instrumented,
        Some(Ok(qemu)) => TraceCollector::Translated { qemu, allocators: Vec::new(), values: false },
        Some(Err(error)) => {
            eprintln!("discard_trace: {error}");
            return ExitCode::from(2);
        }
    };
    let mut counter = Counter::default();
    let mut discard = Discard::default();
    let sink: &mut dyn TraceSink = if is_counting { &mut counter } else { &mut discard };
    match trace(&command, &collector, TracePlan::default(), sink) {
        Ok(outcome) => {
            if outcome.processes == 0 {
                eprintln!("discard_trace: nothing was traced");
                return ExitCode::FAILURE;
            }
            if is_counting {
                eprintln!("discard_trace: {} accesses and other events", counter.total());
            }
            outcome.exit()
        }
        Err(error) => {
            eprintln!("discard_trace: {error}");
            ExitCode::from(2)
        }
    }
}

/// Keeps the memory of chunks only.
#[derive(Default)]
struct Discard(Vec<u64>);

impl TraceSink for Discard {
    fn take(&mut self, event: Event<'_>) -> io::Result<()> {
        if let Event::Chunk(chunk) | Event::Part(chunk) = event {
            self.0 = chunk.words.into_owned();
        }
        Ok(())
    }

    fn spare(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.0)
    }

    fn needs_order(&self) -> bool {
        false
    }

    fn take_growing(&mut self, _: Chunk<'_>, _: u64) -> io::Result<usize> {
        Ok(0)
    }
}

/// A file's site tables, with those of what gcc has compiled.
fn with_hooks(path: &str, section: Result<Vec<u8>, String>) -> io::Result<Vec<u8>> {
    let store = FileStore::new(&Whole);
    let made = site_tables(&slimline_attribute::module::Module::open(&store, path)).map_err(io::Error::other)?;
    match (section, made) {
        (section, None) => section.map_err(io::Error::other),
        (Ok(section), Some(made)) => Ok([section, made].concat()),
        (Err(_), Some(made)) => Ok(made),
    }
}

/// Files, read at once.
struct Whole;

impl Files for Whole {
    fn open(&self, path: &str) -> Option<FileBytes> {
        Some(Arc::new(fs::read(path).ok()?))
    }
}

/// Decodes, and counts for each segment how often it was there, and with it each of its sites.
#[derive(Default)]
struct Counter {
    program: Program,
    decoder: Decoder,
    visits: Vec<Visits>,
    tallies: Tallies,
    /// By segment.
    times: Vec<u64>,
    /// Of the last chunk, for its memory.
    words: Vec<u64>,
}

impl Counter {
    fn total(&self) -> u64 {
        let sites = |segment| self.program.sites_of(SegmentId(segment)).count() as u64;
        (0..).zip(&self.times).map(|(segment, times)| sites(segment) * times).sum()
    }
}

impl TraceSink for Counter {
    fn take(&mut self, event: Event<'_>) -> io::Result<()> {
        match event {
            Event::Object { path, section, .. } => {
                let section = with_hooks(&path, section)?;
                let modules = Module::read_section(&section).map_err(io::Error::other)?;
                modules.into_iter().for_each(|(id, module)| self.program.add(id, module));
                self.times.resize(self.program.segments().len(), 0);
                self.tallies.ask(self.times.iter().map(|_| false));
            }
            Event::Chunk(chunk) | Event::Part(chunk) => {
                let Self { program, decoder, visits, tallies, times, words } = self;
                decoder.tally(program, &chunk.words, chunk.is_open, visits, tallies);
                let counted = visits.iter().map(|visits| (visits.segment, visits.times)).chain(tallies.iter());
                counted.for_each(|(segment, run)| times[segment.0 as usize] += u64::from(run));
                *words = chunk.words.into_owned();
            }
            Event::Begin(_)
            | Event::Code { .. }
            | Event::Blocks { .. }
            | Event::SharedMappings { .. }
            | Event::PutInOrder { .. }
            | Event::End(_) => {}
        }
        Ok(())
    }

    fn spare(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.words)
    }

    fn needs_order(&self) -> bool {
        false
    }

    fn take_growing(&mut self, _: Chunk<'_>, _: u64) -> io::Result<usize> {
        Ok(0)
    }
}
