//! The session directory.
//!
//! ```text
//!   slimline.data/                     mode 0700
//!     session.json                     SessionInfo; replaced as the recording goes on, "complete": true at its end
//!     p4711-0/                         one a process
//!       part-00000.json                manifest: rows, size and checksum of each file; its presence makes the part
//!       samples-00000.parquet          this part's rows …
//!       accesses-00000.parquet
//!       blocks-00000.parquet
//!       stacks-00000.parquet           call paths not in earlier parts
//!       ranges-00000.parquet           ranges that died
//!       live-ranges-00000.parquet      … and the whole state so far: kept for the last part only
//!       ended-mappings-00000.parquet   mappings that have gone, where there are any
//!       mappings-00000.parquet         … and the others, likewise for the last part only, as all that follows
//!       threads-00000.parquet
//!       paths-00000.parquet            what was allocated by call path
//!       part-00001.json …
//! ```
//!
//! Where several sessions lie in one directory, as those of the ranks of a parallel run (`rank-0`, `rank-1`, …), the
//! directory is read as one session with the processes of all of them.
//!
//! Parts are written whole while the target runs, so a session whose collector was killed is readable up to its last
//! part. Reading goes part by part: memory is bounded by a part, however long the recording was.
//!
//! ```no_run
//! # fn main() -> Result<(), slimline_trace::session::SessionError> {
//! let session = slimline_trace::session::Session::open("slimline.data".as_ref())?;
//! for process in session.processes() {
//!     let process = session.load(process)?;
//!     for part in process.parts() {
//!         let part = part?;
//!         for window in part.windows() {
//!             println!("{:?}: {} accesses", window.sample, window.accesses.len());
//!         }
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod error;
mod foreign;
mod gather;
mod imported;
mod info;
mod manifest;
mod outside;
mod rank;
mod writer;

use std::io;
use std::ops;
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;
use serde_json::error::Category;

pub use crate::place::REGIONS_FILE;
pub use error::{OutOfSpace, SessionError};
pub use imported::Imported;
pub use info::{
    Cache, Collector, End, FoundAllocator, HookOutcome, Losses, Machine, ProcessState, ProcessSummary, SampledEvent,
    SessionInfo, Skid, Trigger, Unlooked, WeightUnit,
};
pub use outside::AddsTo;
pub use rank::{RANK_VARIABLES, Rank};
pub use writer::{NewRows, ProcessWriter, SessionWriter, check_output_directory, earlier_session, place_of_rank};

use crate::access::WindowId;
use crate::regular_file::read_regular;
use crate::tables::{
    Accesses, Blocks, Mappings, Names, Paths, Ranges, RegionSteps, Sample, Samples, StackFrames, StackRow, Stacks,
    Table, TableError, Threads, whole_table,
};
use manifest::{Manifest, manifest_path, table_path};

/// Version of the session's format.
///
/// Version 1: the first; all weights are nanoseconds.
/// Version 2: weights are in the unit that [`Collector::weight`] names, so a reader that takes them for time would be wrong
/// (`samples.weight` and the header's `weight` and `dropped_weight` had `_ns` in their names); `samples` has columns of what
/// hardware tells.
/// Version 3: `ranges` holds thread-local storage too, and has columns of what is mapped.
/// Version 4: `blocks` holds blocks that were not followed, with bounds and a `follow_shift` of 255; a reader that takes that for a
/// chance would be wrong.
pub const FORMAT_VERSION: u32 = 4;
/// Name of the file that makes a directory a session.
pub const HEADER_FILE: &str = "session.json";
/// Name of the session that is written and read where none is given.
pub const DEFAULT_DIRECTORY: &str = "slimline.data";
/// Bytes of `session.json` and of a manifest: a hundred thousand processes.
const MOST_TEXT_BYTES: u64 = 256 << 20;
/// File in a process's directory of where its threads were.
pub const REGION_STEPS_FILE: &str = "region-steps.parquet";
/// Bytes of it: a hundred million changes, or so.
const MOST_STEPS_BYTES: u64 = 1 << 30;
/// File name of the ranges alive; the table is the same as that of the dead ones.
const LIVE_RANGES: &str = "live-ranges";
/// File name of the mappings that have gone; the table is the same as that of the others.
const ENDED_MAPPINGS: &str = "ended-mappings";

/// A recorded session, or several that lie in one directory, as those of the ranks of a parallel run.
#[derive(Clone, Debug)]
pub struct Session {
    directory: PathBuf,
    info: SessionInfo,
    /// It is made of those in its subdirectories.
    is_gathered: bool,
}

/// Whether the directory holds a session, or the sessions of a parallel run.
pub fn is_session(directory: &Path) -> bool {
    directory.join(HEADER_FILE).is_file() || gather::holds_sessions_only(directory)
}

impl Session {
    /// Opens the session in `directory`, or all those in its subdirectories as one. One that is not complete opens too: see
    /// [`SessionInfo::complete`].
    ///
    /// # Errors
    /// There is none, it is not a session, it is newer than this version, its `session.json` is damaged, or samples of
    /// several weigh in different units.
    pub fn open(directory: &Path) -> Result<Self, SessionError> {
        let (info, is_gathered) = match read_one_header(directory) {
            Err(SessionError::NotASession(_)) => (gather::merged(directory, gather::sessions_in(directory)?)?, true),
            info => (info?, false),
        };
        Ok(Self { directory: directory.to_owned(), info, is_gathered })
    }

    /// What `session.json` says.
    pub fn info(&self) -> &SessionInfo {
        &self.info
    }

    /// The file of a process's regions, which is there where they were asked for and met.
    pub fn regions_file(&self, process: &ProcessSummary) -> PathBuf {
        self.directory.join(&process.directory).join(REGIONS_FILE)
    }

    /// Where it is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The recorded processes.
    pub fn processes(&self) -> &[ProcessSummary] {
        &self.info.processes
    }

    /// Loads what concerns the whole of a process: call paths, ranges, mappings, threads.
    ///
    /// # Errors
    /// A file is missing or damaged.
    pub fn load(&self, process: &ProcessSummary) -> Result<Process, SessionError> {
        // The name comes from a file: it must not lead out of the session.
        let is_plain = |part: Component<'_>| matches!(part, Component::Normal(_));
        let path = Path::new(&process.directory);
        let depth = if self.is_gathered { 2 } else { 1 };
        if path.components().count() != depth || !path.components().all(is_plain) {
            return Err(SessionError::damaged(
                &self.directory.join(HEADER_FILE),
                format_args!("process directory {:?} is not a plain name", process.directory),
            ));
        }
        let loaded = Process::load(self.directory.join(&process.directory))?;
        if self.info.complete && loaded.parts < process.parts {
            return Err(SessionError::MissingFile(manifest_path(&loaded.directory, loaded.parts)));
        }
        Ok(loaded)
    }
}

fn read_one_header(directory: &Path) -> Result<SessionInfo, SessionError> {
    const BEGIN: &[u8] = b"{\n  \"format\":";
    #[derive(Deserialize)]
    struct Version {
        format: u32,
    }
    let path = directory.join(HEADER_FILE);
    let content = match read_regular(&path, MOST_TEXT_BYTES) {
        Ok(content) => content,
        Err(error) => {
            let directory = directory.to_owned();
            return Err(match error.kind() {
                io::ErrorKind::NotADirectory => SessionError::NotADirectory(directory),
                io::ErrorKind::NotFound if directory.exists() => SessionError::NotASession(directory),
                io::ErrorKind::NotFound => SessionError::NotFound(directory),
                _ => SessionError::Io { path, error },
            });
        }
    };
    let Version { format } = serde_json::from_slice(&content).map_err(|error| match error.classify() {
        // It begins as ours do.
        Category::Eof if content.starts_with(BEGIN) => SessionError::damaged(&path, error),
        _ => SessionError::NotASession(directory.to_owned()),
    })?;
    if format > FORMAT_VERSION {
        return Err(SessionError::Newer { directory: directory.to_owned(), found: format });
    }
    serde_json::from_slice(&content).map_err(|error| SessionError::damaged(&path, error))
}

/// A recorded process: its whole-life tables in memory, its parts on disk.
#[derive(Clone, Debug)]
pub struct Process {
    directory: PathBuf,
    parts: u32,
    /// Call paths.
    pub stacks: Stacks,
    /// Large heap blocks and mappings.
    pub ranges: Ranges,
    /// What was mapped where.
    pub mappings: Mappings,
    /// Threads.
    pub threads: Threads,
    /// What was allocated by call path.
    pub paths: Paths,
    /// What an imported file says of addresses by itself.
    pub names: Names,
    /// Where its threads were, where it was sampled from outside and told that.
    pub region_steps: RegionSteps,
}

impl Process {
    fn load(directory: PathBuf) -> Result<Self, SessionError> {
        let mut process = Self {
            parts: 0,
            stacks: Stacks::default(),
            ranges: Ranges::default(),
            mappings: Mappings::default(),
            threads: Threads::default(),
            paths: Paths::default(),
            names: Names::default(),
            region_steps: RegionSteps::default(),
            directory,
        };
        let directory = &process.directory;
        let mut last = None;
        for number in 0.. {
            let Some(manifest) = Manifest::read(directory, number)? else { break };
            let stacks: StackFrames = manifest.table(directory, number, StackFrames::NAME)?;
            let file = table_path(directory, StackFrames::NAME, number);
            process.stacks.append(&stacks).map_err(SessionError::table(&file))?;
            process.ranges.append(&mut manifest.table(directory, number, Ranges::NAME)?);
            if manifest.files.contains_key(ENDED_MAPPINGS) {
                process.mappings.append(&mut manifest.table(directory, number, ENDED_MAPPINGS)?);
            }
            process.parts = number + 1;
            last = Some((manifest, number));
        }
        if let Some((manifest, number)) = last {
            process.ranges.append(&mut manifest.table(directory, number, LIVE_RANGES)?);
            process.mappings.append(&mut manifest.table(directory, number, Mappings::NAME)?);
            process.threads = manifest.table(directory, number, Threads::NAME)?;
            // Earlier sessions have none.
            if manifest.files.contains_key(Paths::NAME) {
                process.paths = manifest.table(directory, number, Paths::NAME)?;
            }
            // Written where there are any.
            if manifest.files.contains_key(Names::NAME) {
                process.names = manifest.table(directory, number, Names::NAME)?;
            }
        }
        let steps = directory.join(REGION_STEPS_FILE);
        if steps.is_file() {
            let content = read_regular(&steps, MOST_STEPS_BYTES).map_err(SessionError::io(&steps))?;
            process.region_steps = whole_table::<RegionSteps>(content).map_err(SessionError::table(&steps))?.sorted();
        }
        let is_missing = |stack: &StackRow| stack.index() >= process.stacks.len();
        if process.ranges.stack.iter().flatten().any(is_missing) || process.paths.stack.iter().any(is_missing) {
            return Err(SessionError::damaged(directory, "a row names a call path that does not exist"));
        }
        Ok(process)
    }

    /// Number of parts.
    pub fn part_count(&self) -> u32 {
        self.parts
    }

    /// All parts in order, read as they are asked for.
    pub fn parts(&self) -> impl Iterator<Item = Result<Part, SessionError>> + '_ {
        (0..self.parts).map(|number| self.part(number))
    }

    /// Reads one part. Parts are independent: threads may share them out.
    ///
    /// # Errors
    /// A file is missing or damaged, or there is no such part.
    pub fn part(&self, number: u32) -> Result<Part, SessionError> {
        let directory = &self.directory;
        let manifest = Manifest::read(directory, number)?
            .ok_or_else(|| SessionError::MissingFile(manifest_path(directory, number)))?;
        let mut part = Part {
            first_window: manifest.first_window,
            blocks: manifest.table(directory, number, Blocks::NAME)?,
            samples: manifest.table(directory, number, Samples::NAME)?,
            accesses: manifest.table(directory, number, Accesses::NAME)?,
        };
        let file = |name| table_path(directory, name, number);
        part.check_blocks(self).map_err(SessionError::table(&file(Blocks::NAME)))?;
        part.check_samples(self).map_err(SessionError::table(&file(Samples::NAME)))?;
        part.check_accesses().map_err(SessionError::table(&file(Accesses::NAME)))?;
        if !self.region_steps.is_empty() {
            part.place(&self.region_steps, &self.threads);
        }
        Ok(part)
    }
}

/// A few seconds of a process.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    first_window: u32,
    /// The heap blocks that `samples` and `accesses` name.
    pub blocks: Blocks,
    /// Samples.
    pub samples: Samples,
    /// The accesses of all their windows, one after another.
    pub accesses: Accesses,
}

impl Part {
    /// Every sample with its accesses.
    pub fn windows(&self) -> impl Iterator<Item = Window> + '_ {
        self.samples.windows().map(|(row, accesses)| {
            let id = WindowId(self.first_window + row as u32);
            Window { id, sample: self.samples.row(row), accesses }
        })
    }

    /// Says of each sample in which region its thread was.
    fn place(&mut self, steps: &RegionSteps, threads: &Threads) {
        let samples = &mut self.samples;
        let rows = samples.within.iter_mut().zip(&samples.thread).zip(&samples.time_ns);
        for ((within, thread), time_ns) in rows {
            within.region = steps.region_at(threads.tid[thread.index()], *time_ns);
        }
    }

    fn check_blocks(&self, process: &Process) -> Result<(), TableError> {
        let stacks = process.stacks.len();
        check(self.blocks.stack.iter().flatten().all(|stack| stack.index() < stacks), "no such call path")
    }

    fn check_samples(&self, process: &Process) -> Result<(), TableError> {
        let (samples, stacks) = (&self.samples, process.stacks.len());
        check(self.first_window.checked_add(samples.len() as u32).is_some(), "too many windows")?;
        check(samples.stack.iter().flatten().all(|stack| stack.index() < stacks), "no such call path")?;
        check(samples.block.iter().flatten().all(|block| block.index() < self.blocks.len()), "no such block")?;
        check(samples.thread.iter().all(|thread| thread.index() < process.threads.len()), "no such thread")?;
        let accesses: u64 = samples.accesses.iter().map(|&rows| u64::from(rows)).sum();
        check(accesses == self.accesses.len() as u64, "its windows do not add up to the accesses")
    }

    fn check_accesses(&self) -> Result<(), TableError> {
        let blocks = self.blocks.len();
        check(self.accesses.block.iter().flatten().all(|block| block.index() < blocks), "no such block")
    }
}

fn check(holds: bool, otherwise: &'static str) -> Result<(), TableError> {
    if holds { Ok(()) } else { Err(TableError::Reference(otherwise)) }
}

/// A sample and the consecutive accesses that its burst saw.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// Its number in the process.
    pub id: WindowId,
    /// The sample that began it.
    pub sample: Sample,
    /// Its rows of [`Part::accesses`].
    pub accesses: ops::Range<usize>,
}
