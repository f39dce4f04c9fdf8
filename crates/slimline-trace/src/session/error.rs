//! What can be wrong with a session directory.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::tables::TableError;

/// Why a session can't be read or written. Each displays as one line.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// There is nothing at the path.
    #[error("{}: no such session (record one with: slimline record -- COMMAND)", .0.display())]
    NotFound(PathBuf),
    /// The path is not a directory.
    #[error("{}: not a directory, so not a slimline session", .0.display())]
    NotADirectory(PathBuf),
    /// A directory without `session.json`, or with one that is not ours.
    #[error("{}: not a slimline session (no valid {})", .0.display(), super::HEADER_FILE)]
    NotASession(PathBuf),
    /// A session that is about to be removed holds what slimline did not write.
    #[error("{}: holds {}, which is none of a session's files, and would be removed: move it away first",
        session.display(), file.strip_prefix(session).unwrap_or(file).display())]
    HoldsMore {
        /// The session.
        session: PathBuf,
        /// What else is there, or the first of it.
        file: PathBuf,
    },
    /// Another collector is writing it.
    #[error("{}: another slimline is recording into it; wait for its end, or name another directory (-o DIR)",
        .0.display())]
    BeingWritten(PathBuf),
    /// Holds one session, where each rank of a parallel run is to have its own.
    #[error("{}: holds a session that is not of a parallel run: give the ranks a directory of their own (-o DIR)",
        .0.display())]
    NotForRanks(PathBuf),
    /// A directory for the ranks of a parallel run in which somebody else could put something in a session's place.
    #[error("{}: not a directory that only you may write to; give the ranks one that is not there yet (-o DIR)",
        .0.display())]
    NotOurs(PathBuf),
    /// Written by a later version.
    #[error("{}: session format {found} is newer than this slimline reads ({}); use a newer slimline",
        directory.display(), super::FORMAT_VERSION)]
    Newer {
        /// The session.
        directory: PathBuf,
        /// Its format version.
        found: u32,
    },
    /// A file is shorter or longer than what was written.
    #[error("{}: truncated: {found_bytes} bytes where {expected_bytes} were written", file.display())]
    Truncated {
        /// The file.
        file: PathBuf,
        /// Its size.
        found_bytes: u64,
        /// The size it was written with.
        expected_bytes: u64,
    },
    /// A file that the session needs is gone.
    #[error("{}: missing from the session", .0.display())]
    MissingFile(PathBuf),
    /// A file holds something else than what was written.
    #[error("{}: damaged: {reason}", file.display())]
    Damaged {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The system refused.
    #[error("{}: {error}", path.display())]
    Io {
        /// What was read, written or renamed.
        path: PathBuf,
        /// Why not. Told in the line above, so not as this error's source.
        error: io::Error,
    },
}

impl SessionError {
    /// Wraps an error of the system about `path`.
    pub(super) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Io { path: path.to_owned(), error }
    }

    pub(super) fn damaged(file: &Path, reason: impl ToString) -> Self {
        Self::Damaged { file: file.to_owned(), reason: reason.to_string() }
    }

    pub(super) fn table(file: &Path) -> impl FnOnce(TableError) -> Self {
        move |error| Self::damaged(file, error)
    }

    /// What there was no room in, where that is why it could not be written.
    pub fn out_of_space(&self) -> Option<OutOfSpace> {
        use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        let Self::Io { error, .. } = self else { return None };
        match error.kind() {
            StorageFull => Some(OutOfSpace::Disk),
            QuotaExceeded => Some(OutOfSpace::Quota),
            FileTooLarge => Some(OutOfSpace::FileSize),
            _ => None,
        }
    }
}

/// A limit on what may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutOfSpace {
    /// The file system is full.
    Disk,
    /// The user's part of it is used up.
    Quota,
    /// The process may not write files as large as this (`RLIMIT_FSIZE`), or the file system can't hold them.
    FileSize,
}

impl fmt::Display for OutOfSpace {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Disk => "no space left",
            Self::Quota => "the disk quota is used up",
            Self::FileSize => "the limit on the size of files (ulimit -f) was reached",
        })
    }
}
