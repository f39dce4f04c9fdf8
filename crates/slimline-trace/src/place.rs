//! Directories that what is recorded is put in: what was there before, and who is at it.

use std::fs::{self, DirEntry, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

/// Name of the file of profiles of regions: of a trace, or of one process of a session.
pub const REGIONS_FILE: &str = "regions";
/// Suffix of what was recorded before.
pub(crate) const OLD: &str = ".old";

/// The directory of that name with a suffix.
pub(crate) fn beside(directory: &Path, suffix: &str) -> PathBuf {
    // `components` drops a trailing slash, which would put the suffix inside the directory.
    let mut name = directory.components().as_path().as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Makes a directory that its owner alone can look into.
pub(crate) fn private_directory(directory: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).create(directory)
}

/// Locks a directory; `None` where another process has. The lock stays with it when it is renamed, and ends with this process.
/// Where there are no locks, as on some network file systems, nobody can be told.
pub(crate) fn open_locked(directory: &Path) -> io::Result<Option<File>> {
    let file = File::open(directory)?;
    let is_taken = flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK);
    Ok((!is_taken).then_some(file))
}

/// Whether somebody has [locked](open_locked) a directory.
pub(crate) fn is_being_written(directory: &Path) -> bool {
    // What can't be opened is told by who needs it. Others that look as we do are in nobody's way.
    let locked = File::open(directory).map(|file| flock(&file, FlockOperation::NonBlockingLockShared));
    matches!(locked, Ok(Err(Errno::WOULDBLOCK)))
}

/// What a user put into a directory: it must not go with it. `is_own` tells of an entry what is foreign in or of it.
pub(crate) fn foreign_in(
    directory: &Path,
    is_own: fn(&DirEntry) -> io::Result<Option<PathBuf>>,
) -> io::Result<Option<PathBuf>> {
    for entry in fs::read_dir(directory)? {
        if let Some(foreign) = is_own(&entry?)? {
            return Ok(Some(foreign));
        }
    }
    Ok(None)
}
