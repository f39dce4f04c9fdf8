//! Why a recording can't be started, each with what to do about it.

use std::io;
use std::path::PathBuf;

use slimline_trace::session::SessionError;
use slimline_trace::wire::FILE_MIB;

/// Why nothing was recorded. Each displays as one line that holds the system's own words; none has a source besides.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// No command was given.
    #[error("no command given (usage: slimline record -- COMMAND…)")]
    NoCommand,
    /// There is no such program.
    #[error("{program}: command not found{}", if program.contains('/') { "" } else { " in PATH (give its path, as in ./NAME)" })]
    NotFound {
        /// As given.
        program: String,
    },
    /// The program is a directory.
    #[error("{}: is a directory, not a program", .0.display())]
    Directory(PathBuf),
    /// The file may not be executed.
    #[error("{}: not executable (chmod +x {})", .0.display(), .0.display())]
    NotExecutable(PathBuf),
    /// The file may not be read or its directory not be searched.
    #[error("{}: permission denied", .0.display())]
    PermissionDenied(PathBuf),
    /// Neither ELF nor a script.
    #[error("{}: neither an ELF program nor a script that names its interpreter with #!", .0.display())]
    NotAProgram(PathBuf),
    /// The ELF file is cut off or damaged.
    #[error("{}: damaged ELF file: {reason}", program.display())]
    DamagedProgram {
        /// The file.
        program: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// For another CPU or of 32 bits.
    #[error("{}: a program for {found}; slimline records {} programs", program.display(), std::env::consts::ARCH)]
    ForeignArchitecture {
        /// The file.
        program: PathBuf,
        /// What it is for.
        found: String,
    },
    /// Static: the agent can't be preloaded.
    #[error("{}: statically linked, so the agent can't be preloaded (link it dynamically; the out-of-process \
             collector is not in this version)", .0.display())]
    Static(PathBuf),
    /// Uses another C library than the agent.
    #[error("{}: uses the loader {loader}, not glibc's, so the agent can't be preloaded (build it for glibc)",
        program.display())]
    ForeignLoader {
        /// The file.
        program: PathBuf,
        /// `PT_INTERP`.
        loader: String,
    },
    /// The kernel makes the loader ignore `LD_PRELOAD`.
    #[error("{}: {why}, so the system ignores preloaded libraries (record a copy without it: cp {} /tmp/)",
        program.display(), program.display())]
    Privileged {
        /// The file.
        program: PathBuf,
        /// Set-user-id, set-group-id or file capabilities.
        why: &'static str,
    },
    /// No directory can hold the shared memory or the agent.
    #[error("no usable directory for {what}: {tried} (set TMPDIR to one with {need})")]
    NoRunDirectory {
        /// The rings or the agent.
        what: &'static str,
        /// Each candidate with what was wrong.
        tried: String,
        /// What it must offer.
        need: &'static str,
    },
    /// The target could not share memory with us.
    #[error("the size of files is limited to {} KiB (ulimit -f), and what a program shares with slimline is a sparse \
             file of {} MiB: raise the limit (ulimit -f unlimited)", limit_bytes / 1024, FILE_MIB)]
    FileSizeLimit {
        /// `RLIMIT_FSIZE`.
        limit_bytes: u64,
    },
    /// The system would not start it.
    #[error("{}: can't be started: {error}", program.display())]
    Spawn {
        /// The file.
        program: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The session can't be written, or something is in its place.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The system refused something that recording needs.
    #[error("{what}: {error}")]
    System {
        /// What was tried.
        what: &'static str,
        /// Why not.
        error: io::Error,
    },
}

impl RecordError {
    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::System { what, error }
    }
}
