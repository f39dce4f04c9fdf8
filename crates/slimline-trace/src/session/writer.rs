//! Writing a session while the target runs.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

use super::foreign::refuse_foreign;
use super::gather::{holds_sessions_only, merged, sessions_in};
use super::manifest::{Manifest, table_path, write_whole};
use super::{
    ENDED_MAPPINGS, HEADER_FILE, LIVE_RANGES, ProcessSummary, Rank, SessionError, SessionInfo, read_one_header,
};
use crate::place::{OLD, beside, is_being_written, open_locked, private_directory};
use crate::tables::{Accesses, Blocks, Mappings, Names, Paths, Ranges, Samples, StackFrames, Table, Threads};

/// A session directory under construction.
#[derive(Debug)]
pub struct SessionWriter {
    /// Where it is.
    directory: PathBuf,
    /// Where it belongs.
    place: PathBuf,
    /// Says to other collectors that it is being written, until this one is gone.
    _lock: File,
}

impl SessionWriter {
    /// [Stages](Self::stage) and [installs](Self::install) a session in one.
    ///
    /// # Errors
    /// Theirs.
    pub fn create(place: &Path, info: &SessionInfo) -> Result<Self, SessionError> {
        let mut session = Self::stage(place, info)?;
        session.install()?;
        Ok(session)
    }

    /// Makes `<place>.new` (mode 0700) with `info` in it. What is in its place stays there until it is
    /// [installed](Self::install).
    ///
    /// # Errors
    /// Refuses where it would come to move or remove anything that is not a slimline session or an empty directory.
    pub fn stage(place: &Path, info: &SessionInfo) -> Result<Self, SessionError> {
        check_output_directory(place)?;
        let directory = beside(place, NEW);
        remove(&directory)?;
        // The user knows the place by its own name.
        private_directory(&directory).map_err(SessionError::io(place))?;
        let lock = open_locked(&directory).map_err(SessionError::io(place))?;
        let lock = lock.ok_or_else(|| SessionError::BeingWritten(place.to_owned()))?;
        let session = Self { directory, place: place.to_owned(), _lock: lock };
        session.update(info)?;
        Ok(session)
    }

    /// Takes the session's place. A session that is there and holds samples becomes `<place>.old`, in place of an older
    /// one; one that holds none is removed, so that the older one stays.
    ///
    /// # Errors
    /// As [`Self::stage`].
    pub fn install(&mut self) -> Result<(), SessionError> {
        let place = &self.place;
        refuse_being_written(place, place)?;
        if classify(place)? == Occupant::Session && holds_samples(place)? {
            let old = beside(place, OLD);
            remove(&old)?;
            fs::rename(place, &old).map_err(SessionError::io(place))?;
        } else {
            remove(place)?;
        }
        fs::rename(&self.directory, place).map_err(SessionError::io(place))?;
        self.directory.clone_from(place);
        Ok(())
    }

    /// Removes a session that is not installed: all is as it was before.
    pub fn discard(self) {
        // What can't be removed now is in the next session's way, which removes it.
        let _ = fs::remove_dir_all(&self.directory);
    }

    /// Replaces `session.json`.
    ///
    /// # Errors
    /// The system's.
    pub fn update(&self, info: &SessionInfo) -> Result<(), SessionError> {
        let path = self.directory.join(HEADER_FILE);
        let content = serde_json::to_vec_pretty(info).map_err(|error| SessionError::damaged(&path, error))?;
        write_whole(&path, &content)
    }

    /// Starts the subdirectory `name` of a process.
    ///
    /// # Errors
    /// The system's.
    pub fn process(&self, name: &str) -> Result<ProcessWriter, SessionError> {
        let directory = self.directory.join(name);
        private_directory(&directory).map_err(SessionError::io(&directory))?;
        Ok(ProcessWriter { directory, next_part: 0, next_window: 0 })
    }

    /// Where the session is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

/// Suffix of a session that is not installed yet.
pub(super) const NEW: &str = ".new";

/// Whether [`SessionWriter::create`] may use `directory`: it is free, empty, or a session that can be set aside. For
/// refusing before the target is started.
///
/// # Errors
/// As [`SessionWriter::create`].
pub fn check_output_directory(directory: &Path) -> Result<(), SessionError> {
    for looked_at in [directory, &beside(directory, NEW)] {
        refuse_being_written(looked_at, directory)?;
    }
    if classify(directory)? == Occupant::Session && holds_samples(directory)? {
        check_removable(&beside(directory, OLD))?;
    } else {
        check_removable(directory)?;
    }
    check_removable(&beside(directory, NEW))
}

/// Where the session of a rank goes that was asked to go to `directory`. Makes that directory (mode 0700), and sets aside
/// what an earlier run of more ranks left in it. Where it was made by somebody else before, sessions in it are 0700 all the
/// same, as long as nobody else can put others in their place.
///
/// # Errors
/// It is a session itself, can't be made, or others may write in it.
pub fn place_of_rank(directory: &Path, rank: Rank) -> Result<PathBuf, SessionError> {
    if directory.join(HEADER_FILE).exists() {
        return Err(SessionError::NotForRanks(directory.to_owned()));
    }
    match private_directory(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(SessionError::io(directory)(error)),
        // Another rank may have made it just now.
        _ => {}
    }
    check_own(directory)?;
    let beyond = rank.of.into_iter().flat_map(|of| of..=u32::MAX);
    let left = beyond.map(|number| directory.join(Rank { number, of: None }.directory()));
    for left in left.take_while(|left| left.join(HEADER_FILE).exists()) {
        // Other ranks do the same: whoever comes second finds nothing to do.
        let old = beside(&left, OLD);
        let _ = remove(&old);
        let _ = fs::rename(&left, &old);
    }
    Ok(directory.join(rank.directory()))
}

/// Refuses a directory in which somebody else could put something in a session's place.
fn check_own(directory: &Path) -> Result<(), SessionError> {
    const OTHERS_MAY_WRITE: u32 = 0o022;
    let found = fs::metadata(directory).map_err(SessionError::io(directory))?;
    let is_own = found.uid() == geteuid().as_raw() && found.mode() & OTHERS_MAY_WRITE == 0;
    if is_own { Ok(()) } else { Err(SessionError::NotOurs(directory.to_owned())) }
}

/// Where the session is that was recorded before the one in `directory`, if it holds samples.
pub fn earlier_session(directory: &Path) -> Option<PathBuf> {
    let old = beside(directory, OLD);
    (classify(&old).ok()? == Occupant::Session && holds_samples(&old).ok()?).then_some(old)
}

/// Refuses a session that a collector is at. `place` is what the user knows it by.
fn refuse_being_written(directory: &Path, place: &Path) -> Result<(), SessionError> {
    if is_being_written(directory) { Err(SessionError::BeingWritten(place.to_owned())) } else { Ok(()) }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Occupant {
    Nobody,
    Empty,
    Session,
}

fn classify(directory: &Path) -> Result<Occupant, SessionError> {
    match fs::read_dir(directory) {
        Ok(mut entries) => {
            if entries.next().is_none() {
                return Ok(Occupant::Empty);
            }
            match read_one_header(directory) {
                Ok(_) | Err(SessionError::Newer { .. }) => Ok(Occupant::Session),
                Err(SessionError::NotASession(_)) if holds_sessions_only(directory) => Ok(Occupant::Session),
                Err(error) => Err(error),
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Occupant::Nobody),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            Err(SessionError::NotADirectory(directory.to_owned()))
        }
        Err(error) => Err(SessionError::io(directory)(error)),
    }
}

/// Whether the session has samples, which would be lost with it.
fn holds_samples(session: &Path) -> Result<bool, SessionError> {
    let gathered = |_| sessions_in(session).and_then(|sessions| merged(session, sessions));
    let info = match read_one_header(session).or_else(|error| match error {
        SessionError::NotASession(_) => gathered(error),
        error => Err(error),
    }) {
        // Not known, so it may.
        Err(SessionError::Newer { .. } | SessionError::Damaged { .. } | SessionError::NotASession(_)) => {
            return Ok(true);
        }
        info => info?,
    };
    // Where the collector was killed the parts know more than the header.
    let has_samples = |process: &ProcessSummary| process.samples > 0 || has_part_with_samples(session, process);
    Ok(info.processes.iter().any(has_samples))
}

fn has_part_with_samples(session: &Path, process: &ProcessSummary) -> bool {
    let directory = session.join(&process.directory);
    // A damaged manifest tells nothing, so there may be.
    (0..)
        .map_while(|part| Manifest::read(&directory, part).transpose())
        .any(|part| part.map_or(true, |part| part.rows(Samples::NAME) > 0))
}

/// Whether [`remove`] may take this away: a session with nothing else in it, an empty directory, or nothing.
fn check_removable(directory: &Path) -> Result<(), SessionError> {
    match classify(directory)? {
        Occupant::Nobody | Occupant::Empty => Ok(()),
        Occupant::Session => refuse_foreign(directory),
    }
}

/// Removes the session or the empty directory that is in the way.
fn remove(directory: &Path) -> Result<(), SessionError> {
    check_removable(directory)?;
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(SessionError::io(directory)),
    }
}

/// What was collected of a process since the part before.
#[derive(Clone, Copy, Debug)]
pub struct NewRows<'a> {
    /// Call paths not written before.
    pub stacks: &'a StackFrames,
    /// Blocks that `samples` and `accesses` name.
    pub blocks: &'a Blocks,
    /// Samples; their column `accesses` adds up to the rows of the next table.
    pub samples: &'a Samples,
    /// Their accesses.
    pub accesses: &'a Accesses,
    /// Ranges that died.
    pub dead_ranges: &'a Ranges,
    /// Ranges alive now: the whole of them, in place of what the part before said.
    pub live_ranges: &'a Ranges,
    /// Mappings that have gone.
    pub ended_mappings: &'a Mappings,
    /// All other mappings seen so far, likewise.
    pub mappings: &'a Mappings,
    /// All threads seen so far, likewise.
    pub threads: &'a Threads,
    /// What was allocated by call path, likewise.
    pub paths: &'a Paths,
    /// What an imported file says of addresses by itself, likewise.
    pub names: &'a Names,
}

/// The subdirectory of one process.
#[derive(Debug)]
pub struct ProcessWriter {
    directory: PathBuf,
    next_part: u32,
    next_window: u32,
}

impl ProcessWriter {
    /// Number of the next window: that of the first sample of the next part.
    pub fn next_window(&self) -> u32 {
        self.next_window
    }

    /// Writes one part. It exists for readers once all of it is on disk, and not at all where this fails.
    ///
    /// # Errors
    /// The system's; see [`SessionError::out_of_space`].
    pub fn write_part(&mut self, rows: NewRows<'_>) -> Result<(), SessionError> {
        let number = self.next_part;
        if let Err(error) = self.write_files(number, rows) {
            self.remove_files(number, &PART_TABLES);
            return Err(error);
        }
        if let Some(before) = number.checked_sub(1) {
            self.remove_files(before, &STATE_TABLES);
        }
        self.next_part += 1;
        self.next_window += rows.samples.len() as u32;
        Ok(())
    }

    fn write_files(&self, number: u32, rows: NewRows<'_>) -> Result<(), SessionError> {
        let mut manifest = Manifest { first_window: self.next_window, files: BTreeMap::new() };
        let directory = &self.directory;
        manifest.add(directory, number, StackFrames::NAME, rows.stacks)?;
        manifest.add(directory, number, Blocks::NAME, rows.blocks)?;
        manifest.add(directory, number, Samples::NAME, rows.samples)?;
        manifest.add(directory, number, Accesses::NAME, rows.accesses)?;
        manifest.add(directory, number, Ranges::NAME, rows.dead_ranges)?;
        manifest.add(directory, number, LIVE_RANGES, rows.live_ranges)?;
        if !rows.ended_mappings.is_empty() {
            manifest.add(directory, number, ENDED_MAPPINGS, rows.ended_mappings)?;
        }
        manifest.add(directory, number, Mappings::NAME, rows.mappings)?;
        manifest.add(directory, number, Threads::NAME, rows.threads)?;
        manifest.add(directory, number, Paths::NAME, rows.paths)?;
        if !rows.names.is_empty() {
            manifest.add(directory, number, Names::NAME, rows.names)?;
        }
        manifest.commit(directory, number)
    }

    fn remove_files(&self, number: u32, tables: &[&str]) {
        for name in tables {
            // No manifest names it (any more), so one that can't be removed does no harm.
            let _ = fs::remove_file(table_path(&self.directory, name, number));
        }
    }
}

/// Tables of which only the last part's counts.
const STATE_TABLES: [&str; 5] = [LIVE_RANGES, Mappings::NAME, Threads::NAME, Paths::NAME, Names::NAME];
const PART_TABLES: [&str; 11] = [
    StackFrames::NAME,
    Blocks::NAME,
    Samples::NAME,
    Accesses::NAME,
    Ranges::NAME,
    LIVE_RANGES,
    ENDED_MAPPINGS,
    Mappings::NAME,
    Threads::NAME,
    Paths::NAME,
    Names::NAME,
];
