//! The compiler that is run in place of clang or flang: that itself, with the rewriter between its optimizer and its code
//! generator.
//!
//! `clang -###` says which programs clang would start. A compilation becomes three steps: clang makes optimized bitcode,
//! the bitcode is rewritten in this process, clang makes code of it with the same options. Links get the runtime.
//! Everything else is run as it is. So it is with flang, but that the clang beside it makes the code: flang would optimize again.

pub(crate) mod fortran;
mod jobs;
pub(crate) mod prepared;
mod runtime_file;
mod sources;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use slimline_trace::path_text::text_of;
use tempfile::TempDir;

use crate::llvm::{self, Llvm, LlvmError};
use crate::rewrite::{Origin, OwnAllocators, RewriteError, Told, rewrite};
pub(crate) use jobs::{BEHIND_RUNTIME, Job, WITHOUT_C_LIBRARY, before_runtime};
use jobs::{Purpose, Said};
use prepared::Prepared;
pub(crate) use runtime_file::runtime_file;
use sources::prepared;

/// The header by which programs of C and C++ say what of them is to be traced, timed and watched.
pub const HEADER: &str = include_str!("slimline.h");
/// The source of the module by which those of Fortran say what is to be timed and watched.
pub const FORTRAN_MODULE: &str = include_str!("slimline.f90");
/// Environment variable that names the clang to use.
pub const CLANG_VARIABLE: &str = "SLIMLINE_CLANG";
/// Environment variable that names the flang to use.
pub const FLANG_VARIABLE: &str = "SLIMLINE_FLANG";
/// The argument that has values told, which neither clang nor cargo knows.
pub const VALUES_ARGUMENT: &str = "--slimline-values";
/// How the option begins that leaves template arguments out of names.
const SHORT_NAMES: &str = "-gsimple-template-names";
/// Arguments of a linker beyond which they are given in a file: well below what Linux takes.
const MAX_ARGUMENT_BYTES: usize = 1 << 20;

/// The language that a driver takes files for that do not say, and links for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Language {
    /// As `clang`.
    C,
    /// As `clang++`.
    CPlusPlus,
    /// As `flang`, which was `flang-new` up to version 19.
    Fortran,
}

impl Language {
    /// What compiles it.
    pub fn compiler(self) -> &'static str {
        self.names()[0]
    }

    /// The compiler's names without a version, the newest first.
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::C | Self::CPlusPlus => &["clang"],
            Self::Fortran => &["flang", "flang-new"],
        }
    }

    /// The variable that names the compiler.
    fn variable(self) -> &'static str {
        match self {
            Self::C | Self::CPlusPlus => CLANG_VARIABLE,
            Self::Fortran => FLANG_VARIABLE,
        }
    }
}

/// Why nothing could be compiled.
#[derive(Debug, thiserror::Error)]
pub enum DriverError {
    /// There is no compiler.
    #[error("no {} of version {} to {} in PATH; {} names one", .0.compiler(), llvm::SUPPORTED.start(), llvm::SUPPORTED.end(), .0.variable())]
    NoCompiler(Language),
    /// A program can't be started, or a file can't be written.
    #[error("{}: {error}", path.display())]
    Io {
        /// The program or the file.
        path: PathBuf,
        /// What happened.
        error: io::Error,
    },
    /// The compiler is another one, or too old.
    #[error("{} is {version}, not {} of version {} to {}; {} names another", compiler.display(), language.compiler(),
        llvm::SUPPORTED.start(), llvm::SUPPORTED.end(), language.variable())]
    Version {
        /// What it was to be.
        language: Language,
        /// The compiler.
        compiler: PathBuf,
        /// What it says of itself.
        version: String,
    },
    /// The command line asks for what can't be traced.
    #[error("{argument} can't be combined with tracing: {reason}")]
    Argument {
        /// What was asked for.
        argument: String,
        /// Why not.
        reason: &'static str,
    },
    /// The compiler has no libLLVM to rewrite with.
    #[error(transparent)]
    Llvm(#[from] LlvmError),
    /// Code can't be instrumented.
    #[error("{}: {error}", object.display())]
    Rewrite {
        /// What was to be compiled.
        object: PathBuf,
        /// Why not.
        error: RewriteError,
    },
}

/// Compiles and links as the language's compiler does with these arguments, with every access traced. Gives the exit status that it
/// would have, 128 + n where signal n ended a step. `runtime` is the archive that instrumented programs are linked with.
///
/// `allocators` are those of the program's own.
pub fn compile(
    language: Language,
    arguments: &[OsString],
    runtime: &[u8],
    allocators: OwnAllocators,
) -> Result<u8, DriverError> {
    let compiler = find(language)?;
    let (ours, arguments): (Vec<_>, Vec<_>) = arguments.iter().partition(|argument| *argument == VALUES_ARGUMENT);
    let told = Told { values: !ours.is_empty(), allocators };
    let directory = TempDir::with_prefix("slimline-").map_err(|error| io_error(&std::env::temp_dir(), error))?;
    let mode = (language == Language::CPlusPlus).then(|| OsString::from("--driver-mode=g++"));
    let mut asked = Command::new(&compiler);
    // Objects in between go where they are removed with everything else.
    asked.env("TMPDIR", directory.path()).stdin(Stdio::null()).stdout(Stdio::null());
    // By its command line in debug information a unit is looked at again (`syntax`).
    let recorded = (language != Language::Fortran).then_some("-grecord-command-line");
    asked
        .args(&mode)
        .args(["-###", "-g"])
        .args(recorded)
        .args(arguments.iter().filter(|argument| !is_less_debug(argument)));
    let answer = asked.output().map_err(|error| io_error(&compiler, error))?;
    let said = Said::parse(&answer.stderr);
    if answer.status.success() {
        said.jobs.iter().try_for_each(refuse)?;
    }
    let is_ours = said.jobs.iter().any(|job| job.purpose() != Purpose::Other);
    if said.version.is_empty() {
        // Some questions are answered without it, and other compilers understand `-###` too: those would trace nothing.
        check_version(language, &compiler, &version_of(&compiler)?)?;
    } else {
        check_version(language, &compiler, &said.version)?;
    }
    if !answer.status.success() || !is_ours {
        // Questions, checks, mistakes: it answers as it always does.
        let status = Command::new(&compiler).args(&mode).args(arguments).status();
        return Ok(exit_status(status.map_err(|error| io_error(&compiler, error))?));
    }
    for warning in &said.warnings {
        let _ = writeln!(io::stderr(), "{warning}");
    }
    let run = Run { directory: &directory, producer: &said.version, told, runtime };
    run.all(&said.jobs)
}

/// One run of the driver.
struct Run<'a> {
    directory: &'a TempDir,
    producer: &'a str,
    told: Told,
    runtime: &'a [u8],
}

impl Run<'_> {
    /// Runs every job, as clang does: what failed keeps the others from being linked only.
    fn all(&self, jobs: &[Job]) -> Result<u8, DriverError> {
        let mut llvm = None;
        let mut failed = None;
        for (number, job) in jobs.iter().enumerate() {
            let purpose = job.purpose();
            if failed.is_some() && purpose != Purpose::Compile {
                continue;
            }
            let status = match purpose {
                Purpose::Read => self.start(&prepared(job, self.directory.path(), number)?)?,
                Purpose::Compile => {
                    let llvm = match &mut llvm {
                        Some(llvm) => llvm,
                        none => none.insert(Llvm::load(&llvm::libllvm_of(&job.program)?)?),
                    };
                    self.compile(llvm, job, number)?
                }
                Purpose::Link => self.link(job)?,
                Purpose::Other => start(job)?,
            };
            failed = failed.or(Some(status).filter(|status| *status != 0));
        }
        Ok(failed.unwrap_or(0))
    }

    fn compile(&self, llvm: &Llvm, job: &Job, number: usize) -> Result<u8, DriverError> {
        let [optimized, rewritten] =
            ["optimized", "rewritten"].map(|name| self.directory.path().join(format!("{number}.{name}.bc")));
        let mut prepared = prepared(job, self.directory.path(), number)?;
        prepared.job = prepared.job.to_bitcode(&optimized);
        let status = self.start(&prepared)?;
        if status != 0 {
            return Ok(status);
        }
        let object = PathBuf::from(job.after("-o").unwrap_or_default());
        // A temporary name is another each time, and says nothing.
        let is_between = object.starts_with(self.directory.path());
        let name = if is_between { String::new() } else { text_of(object.as_os_str()).into_owned() };
        let origin = Origin { object: name, producer: self.producer.to_owned(), copy: prepared.copy };
        let done = rewrite(llvm, &optimized, &rewritten, &self.told, &origin);
        let done = done.map_err(|error| DriverError::Rewrite { object, error })?;
        for remark in done.remarks() {
            let _ = writeln!(io::stderr(), "slimline: {remark}");
        }
        let status = start(&job.of_bitcode(&rewritten))?;
        // Many sources in one command would fill the disk.
        for file in [optimized, rewritten] {
            let _ = fs::remove_file(file);
        }
        Ok(status)
    }

    fn start(&self, prepared: &Prepared) -> Result<u8, DriverError> {
        prepared.start().map_err(|error| io_error(&prepared.job.program, error))
    }

    fn link(&self, job: &Job) -> Result<u8, DriverError> {
        let scratch = self.directory.path();
        let archive = runtime_file(self.runtime, scratch).map_err(|error| io_error(scratch, error))?;
        let mut job = job.with_runtime(&archive);
        if job.arguments.iter().map(|argument| argument.len() + 1).sum::<usize>() > MAX_ARGUMENT_BYTES {
            let file = self.directory.path().join("arguments");
            fs::write(&file, response_file(&job.arguments)).map_err(|error| io_error(&file, error))?;
            let mut argument = OsString::from("@");
            argument.push(&file);
            job.arguments = vec![argument];
        }
        start(&job)
    }
}

/// Arguments as linkers read them from a file: one a line, with a backslash before everything that could end one.
fn response_file(arguments: &[OsString]) -> Vec<u8> {
    let mut text = Vec::new();
    for argument in arguments {
        for &byte in argument.as_bytes() {
            if byte.is_ascii_whitespace() || matches!(byte, b'\\' | b'"' | b'\'') {
                text.push(b'\\');
            }
            text.push(byte);
        }
        text.push(b'\n');
    }
    text
}

/// Whether an argument asks for less debug information than names of variables and types need.
pub(crate) fn is_less_debug(argument: &OsStr) -> bool {
    if argument.as_bytes().starts_with(SHORT_NAMES.as_bytes()) {
        return true;
    }
    const LESS: &[&str] = &["-g0", "-g1", "-ggdb0", "-ggdb1", "-gmlt", "-gline-tables-only", "-gline-directives-only"];
    LESS.iter().any(|less| argument == *less)
}

/// Refuses what would give no trace, or a wrong one.
fn refuse(job: &Job) -> Result<(), DriverError> {
    let refused = |argument: &OsStr, reason| {
        Err(DriverError::Argument { argument: argument.to_string_lossy().into_owned(), reason })
    };
    // With it objects hold bitcode.
    if let Some(argument) = job.beginning("-flto").filter(|_| job.has("-emit-llvm-bc") || job.has("-emit-obj")) {
        return refused(argument, "its objects hold no code yet; leave it out");
    }
    match job.purpose() {
        Purpose::Compile => {
            if let Some(argument) = job.beginning("-fsanitize=") {
                return refused(argument, "sanitizers add accesses of their own; leave them out");
            }
        }
        Purpose::Link if job.has("-static") && !job.has("-dynamic-linker") => {
            return refused(OsStr::new("-static"), "the runtime needs the dynamic linker");
        }
        Purpose::Link if job.lacks_c_library() => {
            let (argument, reason) = WITHOUT_C_LIBRARY;
            return refused(OsStr::new(argument), reason);
        }
        Purpose::Link | Purpose::Read | Purpose::Other => {}
    }
    Ok(())
}

/// The compiler that [`compile`] would use, and the libLLVM that it comes with.
///
/// # Errors
/// There is none, it is of a version that is not known, or its libLLVM is not there.
pub fn usable(language: Language) -> Result<(PathBuf, PathBuf), DriverError> {
    let compiler = find(language)?;
    check_version(language, &compiler, &version_of(&compiler)?)?;
    let library = llvm::libllvm_of(&compiler)?;
    Ok((compiler, library))
}

/// What it says of its version.
fn version_of(compiler: &Path) -> Result<String, DriverError> {
    let asked = Command::new(compiler).arg("--version").stdin(Stdio::null()).output();
    let said = asked.map_err(|error| io_error(compiler, error))?.stdout;
    Ok(String::from_utf8_lossy(&said).lines().next().unwrap_or_default().to_owned())
}

/// The compiler of the environment, which may be a name in `PATH`, too, or the newest there that is known.
fn find(language: Language) -> Result<PathBuf, DriverError> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let in_path =
        |name: &OsStr| std::env::split_paths(&path).map(|directory| directory.join(name)).find(|file| file.is_file());
    if let Some(named) = std::env::var_os(language.variable()).filter(|named| !named.is_empty()) {
        // What is looked at of it, its libLLVM, is beside the file.
        let is_name = Path::new(&named).components().count() == 1;
        return Ok(is_name.then(|| in_path(&named)).flatten().unwrap_or_else(|| named.into()));
    }
    let of_version = |version| language.names().iter().map(move |name| format!("{name}-{version}"));
    let plain = language.names().iter().map(|name| (*name).to_owned());
    let found = llvm::SUPPORTED.rev().flat_map(of_version).chain(plain).find_map(|name| in_path(name.as_ref()));
    found.ok_or(DriverError::NoCompiler(language))
}

fn check_version(language: Language, compiler: &Path, said: &str) -> Result<(), DriverError> {
    // `Debian clang version 19.1.7 (3~deb12u1)`
    let of = |name: &&str| said.split_once(&format!("{name} version ")).map(|(_, rest)| rest);
    let number = language.names().iter().find_map(of).and_then(|rest| rest.split(['.', ' ', '-']).next());
    match number.and_then(|number| number.parse().ok()) {
        Some(major) if llvm::SUPPORTED.contains(&major) => Ok(()),
        _ => {
            let version = if said.is_empty() { "something else" } else { said }.to_owned();
            Err(DriverError::Version { language, compiler: compiler.to_owned(), version })
        }
    }
}

fn io_error(path: &Path, error: io::Error) -> DriverError {
    DriverError::Io { path: path.to_owned(), error }
}

fn start(job: &Job) -> Result<u8, DriverError> {
    let status = Command::new(&job.program).args(&job.arguments).status();
    Ok(exit_status(status.map_err(|error| io_error(&job.program, error))?))
}

pub(crate) fn exit_status(status: ExitStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(arguments: &[&str]) -> Job {
        Job { program: "/usr/bin/ld".into(), arguments: arguments.iter().map(OsString::from).collect() }
    }

    #[test]
    fn what_gives_no_trace_is_refused() {
        let line = |arguments: &[&str]| refuse(&job(arguments)).unwrap_err().to_string();
        assert!(line(&["-cc1", "-emit-obj", "-flto=thin"]).starts_with("-flto=thin can't be combined with tracing: "));
        assert!(line(&["-cc1", "-emit-obj", "-fsanitize=address"]).starts_with("-fsanitize=address can't"));
        assert!(line(&["-static", "-o", "a"]).starts_with("-static can't"));
        assert!(line(&["-o", "a", "a.o"]).starts_with("-nostdlib or -nodefaultlibs can't"));
        assert!(refuse(&job(&["-dynamic-linker", "x", "-o", "a", "-static", "-lc"])).is_ok());
        assert!(refuse(&job(&["-shared", "-o", "a.so", "a.o"])).is_ok());
        assert!(refuse(&job(&["-cc1", "-E", "-fsanitize=address"])).is_ok());
    }

    #[test]
    fn versions_are_read() {
        let check = |said| check_version(Language::C, Path::new("clang"), said);
        assert!(check("Debian clang version 19.1.7 (3~deb12u1)").is_ok());
        assert!(check("clang version 22.0.0git").is_ok());
        assert!(check("Debian clang version 14.0.6").is_err());
        assert_eq!(
            check("").unwrap_err().to_string(),
            "clang is something else, not clang of version 19 to 22; SLIMLINE_CLANG names another"
        );
        let flang = |said| check_version(Language::Fortran, Path::new("flang"), said);
        assert!(flang("Debian flang-new version 19.1.7 (3~deb12u1)").is_ok());
        assert!(flang("flang version 20.1.2").is_ok());
        assert_eq!(
            flang("clang version 19.1.7").unwrap_err().to_string(),
            "flang is clang version 19.1.7, not flang of version 19 to 22; SLIMLINE_FLANG names another"
        );
    }

    #[test]
    fn arguments_in_a_file() {
        assert_eq!(response_file(&["-o".into(), "a b\"c\\".into()]), b"-o\na\\ b\\\"c\\\\\n");
    }
}
