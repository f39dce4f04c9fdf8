//! What a user put into a session: it must not go with it.

use std::ffi::OsStr;
use std::fs::DirEntry;
use std::io;
use std::path::{Path, PathBuf};

use super::{HEADER_FILE, SessionError};
use crate::place::{REGIONS_FILE, foreign_in};

/// Refuses a session about to be removed in which there is anything that no session has.
///
/// # Errors
/// [`SessionError::HoldsMore`], or the system's.
pub(super) fn refuse_foreign(session: &Path) -> Result<(), SessionError> {
    match foreign_in(session, is_of_session) {
        Ok(None) => Ok(()),
        Ok(Some(file)) => Err(SessionError::HoldsMore { session: session.to_owned(), file }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(SessionError::io(session)(error)),
    }
}

/// In a session: its header, its processes' directories, and sessions of ranks. What is foreign in or of it.
fn is_of_session(entry: &DirEntry) -> io::Result<Option<PathBuf>> {
    let (path, name) = (entry.path(), entry.file_name());
    if !entry.file_type()?.is_dir() {
        // As it is, or not finished.
        let is_header = [name.as_os_str(), path.file_stem().unwrap_or_default()].contains(&OsStr::new(HEADER_FILE));
        return Ok((!is_header).then_some(path));
    }
    let digits = name.to_str().and_then(|name| name.strip_prefix('p')).unwrap_or_default();
    if digits.starts_with(|first: char| first.is_ascii_digit()) {
        return foreign_in(&path, is_of_process);
    }
    // Of a rank; else a directory that somebody made.
    if path.join(HEADER_FILE).exists() { foreign_in(&path, is_of_session) } else { Ok(Some(path)) }
}

/// In the directory of a process: tables, their manifests, what was not finished of either, and its profile of regions.
fn is_of_process(entry: &DirEntry) -> io::Result<Option<PathBuf>> {
    let path = entry.path();
    let is_table =
        path.extension().and_then(OsStr::to_str).is_some_and(|end| ["parquet", "json", "tmp"].contains(&end));
    let is_own = is_table || entry.file_name() == REGIONS_FILE;
    Ok((!is_own || entry.file_type()?.is_dir()).then_some(path))
}
