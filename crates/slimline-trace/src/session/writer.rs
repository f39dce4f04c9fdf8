//! Writing a session while the target runs.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use super::manifest::{Manifest, table_path, write_whole};
use super::{HEADER_FILE, LIVE_RANGES, SessionError, SessionInfo, read_header};
use crate::tables::{Accesses, Blocks, Mappings, Paths, Ranges, Samples, StackFrames, Table, Threads};

/// A session directory under construction.
#[derive(Debug)]
pub struct SessionWriter {
    directory: PathBuf,
}

impl SessionWriter {
    /// Makes `directory` (mode 0700) with `info` in it. A session that is there becomes `<directory>.old`, in place of
    /// an older one.
    ///
    /// # Errors
    /// Refuses to move or remove anything that is not a slimline session or an empty directory.
    pub fn create(directory: &Path, info: &SessionInfo) -> Result<Self, SessionError> {
        set_aside(directory)?;
        make_private_directory(directory)?;
        let writer = Self { directory: directory.to_owned() };
        writer.update(info)?;
        Ok(writer)
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
        make_private_directory(&directory)?;
        Ok(ProcessWriter { directory, next_part: 0, next_window: 0 })
    }

    /// Where the session is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

/// Whether [`SessionWriter::create`] may use `directory`: it is free, empty, or a session that can be set aside. For
/// refusing before the target is started.
///
/// # Errors
/// As [`SessionWriter::create`].
pub fn check_output_directory(directory: &Path) -> Result<(), SessionError> {
    if let Occupant::Session = classify(directory)? {
        classify(&old_name(directory))?;
    }
    Ok(())
}

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
            match read_header(directory) {
                Ok(_) | Err(SessionError::Newer { .. }) => Ok(Occupant::Session),
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

fn set_aside(directory: &Path) -> Result<(), SessionError> {
    match classify(directory)? {
        Occupant::Nobody => Ok(()),
        Occupant::Empty => fs::remove_dir(directory).map_err(SessionError::io(directory)),
        Occupant::Session => {
            let old = old_name(directory);
            match classify(&old)? {
                Occupant::Nobody => {}
                Occupant::Empty | Occupant::Session => fs::remove_dir_all(&old).map_err(SessionError::io(&old))?,
            }
            fs::rename(directory, &old).map_err(SessionError::io(directory))
        }
    }
}

fn old_name(directory: &Path) -> PathBuf {
    // `components` drops a trailing slash, which would put the suffix inside the directory.
    let mut name = directory.components().as_path().as_os_str().to_owned();
    name.push(".old");
    PathBuf::from(name)
}

fn make_private_directory(directory: &Path) -> Result<(), SessionError> {
    fs::DirBuilder::new().mode(0o700).create(directory).map_err(SessionError::io(directory))
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
    /// All mappings seen so far, likewise.
    pub mappings: &'a Mappings,
    /// All threads seen so far, likewise.
    pub threads: &'a Threads,
    /// What was allocated by call path, likewise.
    pub paths: &'a Paths,
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
    /// The system's; see [`SessionError::is_out_of_space`].
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
        manifest.add(directory, number, Mappings::NAME, rows.mappings)?;
        manifest.add(directory, number, Threads::NAME, rows.threads)?;
        manifest.add(directory, number, Paths::NAME, rows.paths)?;
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
const STATE_TABLES: [&str; 4] = [LIVE_RANGES, Mappings::NAME, Threads::NAME, Paths::NAME];
const PART_TABLES: [&str; 9] = [
    StackFrames::NAME,
    Blocks::NAME,
    Samples::NAME,
    Accesses::NAME,
    Ranges::NAME,
    LIVE_RANGES,
    Mappings::NAME,
    Threads::NAME,
    Paths::NAME,
];
