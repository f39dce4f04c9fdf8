//! Running programs that write what they access, by themselves or in a translator, and reading that.
//!
//! ```text
//!   trace ─► run_directory ─► spawn
//!                               │
//!   programs ══ rings ══► rings ─► ring ─► chunks ─► a TraceSink
//!                                 (copied)
//! ```
//!
//! What a chunk means is not looked at here: a sink gets its words, and the site tables of the files that they came from.
//!
//! Of several threads' chunks all that was written up to some moment is handed on together, also what is in chunks that are
//! not full: a sink that needs what happened in order then knows all that happened before.

mod code;
mod collector;
mod object;
mod qemu;
mod ring;
mod rings;
mod windows;

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use slimline_trace::session::End;
use slimline_trace::stream::chunk::Chunk;
use slimline_trace::stream::ring::{DIRECTORY_VARIABLE, FILE_BYTES, ObjectHead, PAUSED_VARIABLE};

use self::code::WithCode;
use self::rings::Rings;
use self::windows::WindowClock;
use crate::clock::monotonic_ns;
use crate::pid_namespace::check_proc;
use crate::record::check_file_size_limit;
use crate::regions::{self, WrittenProfile};
use crate::run_directory::{Library, RunDirectory};
use crate::signals::{self, HeldSignals};
use crate::until::{Until, wait};
use crate::{RecordError, limits, program};

pub use code::FoundCode;
pub use collector::TraceCollector;
pub use object::site_section;
pub use qemu::{Qemu, QemuError};
pub use windows::{Windows, WindowsError};

/// How long to wait where there was nothing to read. A thread fills all the chunks that may wait in no less.
const SHORTEST_PAUSE: Duration = Duration::from_micros(250);
/// Where there has been nothing for long.
const LONGEST_PAUSE: Duration = Duration::from_millis(4);

/// A process of a run that is traced, or one of the programs that it ran one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// From 0, in the order in which they were seen.
    pub number: u32,
    /// As the system has it.
    pub pid: u32,
    /// The process that made it; 0 where that is not known.
    pub parent_pid: u32,
    /// Path of the program; empty where it is not known.
    pub program: String,
    /// When tracing began (`CLOCK_MONOTONIC`).
    pub started_ns: u64,
    /// Its number is ours: the kernel can be asked about it.
    pub is_here: bool,
    /// The fork that made it, if its parent is traced.
    pub fork: Option<Fork>,
}

/// Names a [`FORKS`](slimline_trace::stream::record::FORKS) record of a process: the state that a child begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fork {
    /// Time stamp of the record.
    pub stamp: u64,
    /// Process id in it.
    pub process: u64,
}

/// A mapping that other processes may share, as [`SharedMapping`](slimline_trace::stream::ring::SharedMapping) has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedRange {
    /// Its first address.
    pub start: u64,
    /// Its length.
    pub bytes: u64,
    /// What is mapped, by a number that is the same in all processes; 0: these addresses are no longer shared.
    pub object: u64,
    /// Offset of the first byte in the object.
    pub offset: u64,
    /// Time stamp: no access to it is in a stretch that began before.
    pub since: u64,
}

/// What was not traced of a process, and what tracing did to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessLosses {
    /// Times that a thread waited for us.
    pub waits: u64,
    /// How long, together.
    pub waited_ns: u64,
    /// Chunks that were thrown away.
    pub untraced_chunks: u64,
    /// Forked children that could not be traced.
    pub untraced_children: u32,
    /// Objects whose path we were not told.
    pub untold_objects: u32,
    /// Blocks of threads' own variables that we were not told of.
    pub untold_blocks: u32,
    /// Shared mappings that we were not told of.
    pub untold_mappings: u32,
    /// Children that were made by a system call which the runtime did not see, and wrote over records of this process at first.
    pub unseen_forks: u32,
    /// Child processes that have this process's memory, as by `clone` with `CLONE_VM`, and are not traced.
    pub memory_children: u32,
    /// What those and the threads that made them wrote meanwhile, in bytes of records.
    pub lent_bytes: u64,
    /// Chunks that are missing between others of their stream.
    pub sequence_gaps: u64,
    /// Values of a translated program that could not be read.
    pub unread_values: u64,
    /// Of a translated program, accesses of instructions for numbers of 80 bits, if they are not told.
    pub extended_numbers: Unseen,
    /// The same of those that save and restore the processor's state.
    pub processor_states: Unseen,
    /// Nothing of it was traced: its program is not instrumented, and has no room for what its libraries keep for each thread.
    pub has_no_words: bool,
    /// The process cut the shared file off.
    pub is_cut_off: bool,
    /// From the beginning of tracing to its end.
    pub lifetime_ns: u64,
    /// How long of that it was not traced between two windows.
    pub between_windows_ns: u64,
    /// How long of it the program wanted not to be traced.
    pub paused_ns: u64,
}

/// Instructions whose accesses are not told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unseen {
    /// How many there are in the code that was translated.
    pub instructions: u64,
    /// Times that they ran while the program was traced.
    pub runs: u64,
}

/// When a run is to be traced.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TracePlan {
    /// Only now and then; else always.
    pub windows: Option<Windows>,
    /// Programs begin untraced, until they ask for it.
    pub is_paused: bool,
    /// A library is preloaded that times OpenMP's regions, and tells the stream of them.
    pub with_regions: bool,
}

/// The end of a process' trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessEnd {
    /// [`Process::number`].
    pub process: u32,
    /// What is missing.
    pub losses: ProcessLosses,
    /// Why nothing, or not all, was traced.
    pub failure: Option<String>,
    /// It runs on, untraced.
    pub is_alive: bool,
    /// Of a translated program, why none of its blocks of the heap is known, if that is so.
    pub no_allocator: Option<NoAllocator>,
}

/// A program in whose files no function of an allocator has a name that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoAllocator {
    /// The first of its files.
    pub file: String,
    /// That has no symbols.
    pub is_stripped: bool,
}

/// A block of an object's thread-local variables that was made for one thread, as [`ThreadBlock`](slimline_trace::stream::ring::ThreadBlock) has
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnBlock {
    /// What was added to the object's link-time addresses.
    pub bias: u64,
    /// Where it begins.
    pub start: u64,
    /// Time stamp: no access to it is in a stretch that began before.
    pub since: u64,
}

/// What happens in a traced run, in this order for each process: it begins, has objects, and chunks after the objects that
/// they came from, and ends.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// A process.
    Begin(Process),
    /// A file with instrumented code was loaded.
    Object {
        /// [`Process::number`].
        process: u32,
        /// The file.
        path: String,
        /// Where it is.
        head: ObjectHead,
        /// Its section of site tables, or why it can't be read.
        section: Result<Vec<u8>, String>,
    },
    /// Code that translated processes run next.
    Code {
        /// [`Process::number`] of one that is known.
        process: u32,
        /// What is new.
        found: Vec<FoundCode>,
    },
    /// Threads have got these, of objects of which was told.
    Blocks {
        /// [`Process::number`].
        process: u32,
        /// What is new.
        blocks: Vec<OwnBlock>,
    },
    /// Mappings of a process that others may share, or the end of some.
    SharedMappings {
        /// [`Process::number`].
        process: u32,
        /// What is new.
        mappings: Vec<SharedRange>,
    },
    /// Records of a stream, after all that were in it before, and after all that they can know of in other streams.
    Chunk(Chunk<'a>),
    /// The same but for other streams: those come before [`Event::PutInOrder`].
    Part(Chunk<'a>),
    /// All parts up to some time were handed on. What comes later was also written later.
    PutInOrder {
        /// [`Process::number`].
        process: u32,
    },
    /// The end of a process.
    End(ProcessEnd),
}

/// Who takes what a run gives.
pub trait TraceSink {
    /// Takes the next event.
    ///
    /// # Errors
    /// Nothing more can be taken, as no room is left on a disk. Then the run goes on untraced.
    fn take(&mut self, event: Event<'_>) -> io::Result<()>;

    /// Memory for the words of the next chunk, if there is any to spare: chunks come as vectors of their own, for the sink to keep.
    fn spare(&mut self) -> Vec<u64> {
        Vec::new()
    }

    /// Whether it matters in which order several streams are handed on. Where it does, chunks are also handed on while their
    /// threads still write them ([`Self::take_growing`]): threads that wait may never fill theirs.
    fn needs_order(&self) -> bool;

    /// Takes, as [`Event::Part`], whole records of a chunk that is still written, of those stretches that began up to `now`; how
    /// many words that are. The others come again.
    ///
    /// # Errors
    /// As [`Self::take`].
    fn take_growing(&mut self, chunk: Chunk<'_>, now: u64) -> io::Result<usize>;
}

/// Whether the file that a command runs holds instrumented code; what it starts is not looked at.
pub fn is_instrumented(command: &[OsString]) -> bool {
    let program = command.first().and_then(|name| program::find(name).ok());
    program.is_some_and(|program| object::writes_records(&program))
}

/// How a traced run ended.
#[derive(Debug)]
pub struct TraceOutcome {
    /// How the command ended.
    pub end: End,
    /// Processes that were seen.
    pub processes: u32,
    /// Windows that were traced, if only those were.
    pub windows: Option<u32>,
    /// Why not all was taken.
    pub stopped_early: Option<io::Error>,
    /// What processes wrote of their regions, if that was asked for.
    pub profiles: Vec<WrittenProfile>,
}

impl TraceOutcome {
    /// As [`Self::exit`], with 2 where the command succeeded: nothing came of it.
    pub fn exit_in_vain(&self) -> ! {
        crate::record::exit_as(self.end, true)
    }

    /// Ends this process as the command ended; with 2 where that succeeded and not all was taken.
    pub fn exit(&self) -> ! {
        crate::record::exit_as(self.end, self.stopped_early.is_some())
    }
}

/// Whether `command` can be started, as far as that can be told before.
///
/// # Errors
/// [`RecordError`] as of [`trace`].
pub fn check_command(command: &[OsString]) -> Result<(), RecordError> {
    startable(command).map(drop)
}

/// A command that can be started: its name, its arguments, and the file that it is.
fn startable(command: &[OsString]) -> Result<(&OsString, &[OsString], PathBuf), RecordError> {
    limits::check_own()?;
    check_proc()?;
    let (name, arguments) = command.split_first().ok_or(RecordError::NoCommand)?;
    let program = program::find(name)?;
    program::what_runs(&program)?;
    check_file_size_limit(FILE_BYTES)?;
    Ok((name, arguments, program))
}

/// Runs `command`, which writes records as `collector` says, and hands these on until it ends; processes that it leaves behind are
/// traced up to then. Standard streams, directory, signals and exit status are the command's own.
///
/// # Errors
/// [`RecordError`] where the command was not started. Once it runs, it runs to its end.
pub fn trace(
    command: &[OsString],
    collector: &TraceCollector,
    plan: TracePlan,
    sink: &mut dyn TraceSink,
) -> Result<TraceOutcome, RecordError> {
    let (name, arguments, program) = startable(command)?;
    signals::survive_file_size_limit().map_err(RecordError::system("can't handle signals"))?;
    let libraries = [(plan.with_regions, Library::Regions), (collector.translates(), Library::Plugin)];
    let libraries: Vec<Library> = libraries.into_iter().filter_map(|(is_used, of)| is_used.then_some(of)).collect();
    let run = match libraries.as_slice() {
        [] => RunDirectory::without_library()?,
        libraries => RunDirectory::with(libraries)?,
    };
    let mut held = HeldSignals::for_command().map_err(RecordError::system("can't handle signals"))?;
    let preloaded = plan.with_regions.then(|| regions::variables(&run));
    let started = collector.command(&run, (&program, name), preloaded.as_ref().map_or(&[], |all| all));
    let mut started = started.map_err(RecordError::system("can't write what the plugin reads"))?;
    started.args(arguments).env(DIRECTORY_VARIABLE, run.path()).env_remove(PAUSED_VARIABLE);
    if plan.is_paused {
        started.env(PAUSED_VARIABLE, "1");
    }
    let child = held.spawn(&mut started).map_err(|error| RecordError::Spawn { program: program.clone(), error })?;
    let mut rings = Rings::new(run.path(), (child.id(), &program), collector.file_of());
    let mut with_code;
    let sink: &mut dyn TraceSink = if collector.translates() {
        with_code = WithCode::new(sink, run.path().to_owned());
        &mut with_code
    } else {
        sink
    };
    let mut until = Until::Child(child);
    let mut clock = plan.windows.map(|windows| WindowClock::new(windows, monotonic_ns()));
    let (end, mut taken) = follow(&mut until, &mut rings, &mut clock, &mut held, sink);
    let end = end.map_err(RecordError::system("the command was lost"))?;
    if taken.is_ok() {
        taken = rings.finish(sink);
    }
    let windows = clock.map(|clock| clock.windows());
    let profiles = if plan.with_regions { regions::written_in(run.path()) } else { Ok(Vec::new()) };
    let profiles = profiles.map_err(RecordError::system("can't read the run directory"))?;
    let processes = rings.processes();
    if plan.with_regions && run.is_in_use() {
        run.leave_library();
    }
    drop(held);
    Ok(TraceOutcome { end, processes, windows, stopped_early: taken.err(), profiles })
}

/// Hands on what there is until the command ends.
fn follow(
    until: &mut Until,
    rings: &mut Rings,
    clock: &mut Option<WindowClock>,
    held: &mut HeldSignals,
    sink: &mut dyn TraceSink,
) -> (io::Result<End>, io::Result<()>) {
    let mut wakes = until.wakes();
    let mut taken = Ok(());
    let mut pause = SHORTEST_PAUSE;
    loop {
        match until.end(held) {
            Ok(Some(end)) => return (Ok(end), taken),
            Ok(None) => {}
            Err(error) => return (Err(error), taken),
        }
        let mut any = false;
        if taken.is_ok() {
            match rings.pass(sink) {
                Ok(found) => any = found,
                Err(error) => taken = Err(error),
            }
        }
        if taken.is_err() {
            rings.stop();
        }
        pause = if any { SHORTEST_PAUSE } else { (pause * 2).min(LONGEST_PAUSE) };
        if let Some(clock) = clock {
            let now_ns = monotonic_ns();
            if let Some(is_open) = clock.turn(now_ns, rings.words_taken()) {
                rings.set_open(is_open, now_ns);
            }
            pause = pause.min(clock.rest(now_ns));
        }
        if !any {
            wait(&mut wakes, held.wake(), pause);
        }
    }
}
