//! Why a recording can't be started, each with what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use slimline_trace::escape::shell_word;
use slimline_trace::path_text::text_of;
use slimline_trace::session::SessionError;

use crate::{NoHardware, perf_refusal};

/// Why nothing was recorded. Each displays as one line that holds the system's own words; none has a source besides.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// No command was given.
    #[error("no command given (usage: slimline record -- COMMAND…, or record -p PID)")]
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
    #[error("{}: not executable (chmod +x {})", .0.display(), quoted(.0))]
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
    /// The kernel does not let us sample it from outside.
    #[error("{subject}: {}", refusal(error, remedy.as_deref()))]
    Refused {
        /// A process, or why a program can't be sampled in another way.
        subject: String,
        /// Why not.
        error: io::Error,
        /// What would help.
        remedy: Option<String>,
    },
    /// Nothing can be preloaded into the program that would tell its regions.
    #[error("--regions: the program itself tells where its threads are, by a library that is preloaded: {0}")]
    NoRegions(String),
    /// Hardware was asked for, and there is none.
    #[error("--collector pmu: {}{}; use --collector clock, which needs no hardware counter", .0.reason,
        .0.remedy.as_ref().map(|remedy| format!(" ({remedy})")).unwrap_or_default())]
    NoHardware(NoHardware),
    /// What `/proc` shows is not what the kernel tells us.
    #[error(
        "/proc shows the processes of another PID namespace, so those that are recorded can't be looked at (mount its \
             own: unshare --mount-proc, or mount -t proc proc /proc)"
    )]
    ForeignProc,
    /// There is no process of this number.
    #[error("no process has the number {0} (ps -e lists them)")]
    NoSuchProcess(u32),
    /// The process has ended, and its parent has not looked at how.
    #[error("process {0} has ended already")]
    ProcessEnded(u32),
    /// The number of a thread.
    #[error("{thread} is a thread of process {process} (record all of it: -p {process})")]
    NotAProcess {
        /// As given.
        thread: u32,
        /// Its process.
        process: u32,
    },
    /// The kernel makes the loader ignore `LD_PRELOAD`.
    #[error("{}: {why}, so the system ignores preloaded libraries (record a copy without it, in a directory of your own: \
             cp {} ~/)", program.display(), quoted(program))]
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
             file of {shared_mib} MiB: raise the limit (ulimit -f unlimited)", limit_bytes / 1024)]
    FileSizeLimit {
        /// `RLIMIT_FSIZE`.
        limit_bytes: u64,
        /// Size of the file, in MiB.
        shared_mib: usize,
    },
    /// A limit leaves too little for slimline itself, which has it as the target will.
    #[error("{what} limited to {limit} ({command}), and slimline itself needs {need}: raise the limit")]
    OwnLimit {
        /// What is limited.
        what: &'static str,
        /// How much there may be.
        limit: String,
        /// How much it takes.
        need: String,
        /// The shell's command for the limit.
        command: &'static str,
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

/// What the kernel said, and what would help.
fn refusal(error: &io::Error, remedy: Option<&str>) -> String {
    let remedy = remedy.map(|remedy| format!(" ({remedy})")).unwrap_or_default();
    format!("the kernel refuses to sample from outside: {error}{remedy}")
}

/// The path as a word of a command.
fn quoted(path: &Path) -> String {
    shell_word(&text_of(path.as_os_str()))
}

impl RecordError {
    /// The kernel refused to sample the process with `error`.
    pub(crate) fn refused_process(pid: u32, error: io::Error) -> Self {
        const NO_SUCH_PROCESS: i32 = rustix::io::Errno::SRCH.raw_os_error();
        if error.raw_os_error() == Some(NO_SUCH_PROCESS) {
            return Self::NoSuchProcess(pid);
        }
        let subject = format!("process {pid}");
        let paranoid = perf_refusal::paranoid_level();
        let is_denied = error.kind() == io::ErrorKind::PermissionDenied;
        let remedy = if is_denied && paranoid.is_some_and(|level| level <= 2) {
            Some("it is somebody else's, or privileged: run slimline as its user, or as root".to_owned())
        } else {
            error.raw_os_error().and_then(|errno| perf_refusal::remedy(errno, paranoid))
        };
        Self::Refused { subject, error, remedy }
    }

    /// The kernel refused to sample a command that can't be sampled in another way, `why`.
    pub(crate) fn refused_command(why: &str, error: io::Error) -> Self {
        let paranoid = perf_refusal::paranoid_level();
        let remedy = error.raw_os_error().and_then(|errno| perf_refusal::remedy(errno, paranoid));
        Self::Refused { subject: why.to_owned(), error, remedy }
    }

    /// The same without the process that it is about.
    pub(crate) fn without_process(&self) -> String {
        match self {
            Self::Refused { error, remedy, .. } => refusal(error, remedy.as_deref()),
            other => other.to_string(),
        }
    }

    pub(crate) fn system(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::System { what, error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remedies_can_be_pasted() {
        let hostile = PathBuf::from("/a b;id/$(id)\n");
        let word = r"$'/a b;id/$(id)\012'";
        let told = RecordError::NotExecutable(hostile.clone()).to_string();
        assert!(told.ends_with(&format!("not executable (chmod +x {word})")), "{told}");
        let told = RecordError::Privileged { program: hostile, why: "set-user-id" }.to_string();
        assert!(told.ends_with(&format!("in a directory of your own: cp {word} ~/)")), "{told}");
    }
}
