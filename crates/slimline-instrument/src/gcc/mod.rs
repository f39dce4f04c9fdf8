//! gcc, g++ and gfortran, with every access traced: the way for what clang can't compile, and the slower one.
//!
//! ```text
//!   slimline gcc ──► gcc -wrapper …/slimline-gcc-step ──┬─► slimline-gcc-step cc1 …       cc1, then its assembly is changed
//!                                                       ├─► slimline-gcc-step as …        as it is
//!                                                       └─► slimline-gcc-step collect2 …  with the runtime
//! ```
//!
//! gcc itself says which programs it would start, starts them, and removes what is in between: each of them as an argument of
//! the wrapper, which is a link to this program that knows by its name what it is to be. Only the compilers proper are told
//! `-fsanitize=thread`: so the C library's and gcc's own files are linked as for any other program, and none of the
//! sanitizer's.

mod assembly;
mod sources;
mod steps;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::cargo::ALLOCATORS_VARIABLE;
use crate::driver::{VALUES_ARGUMENT, exit_status, is_less_debug};
use crate::rewrite::OwnAllocators;
pub use assembly::AssemblyError;
pub use steps::as_step;

/// Environment variable that names the gcc to use; g++ and gfortran are found by its name.
pub const GCC_VARIABLE: &str = "SLIMLINE_GCC";
/// The oldest gcc that tells volatile accesses apart.
pub const OLDEST: u32 = 11;
/// In the directory of a run: why a step has refused to go on.
const REFUSED: &str = "refused";

/// Which of gcc's drivers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Compiler {
    /// `gcc`.
    C,
    /// `g++`.
    CPlusPlus,
    /// `gfortran`.
    Fortran,
}

impl Compiler {
    /// As it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::C => "gcc",
            Self::CPlusPlus => "g++",
            Self::Fortran => "gfortran",
        }
    }
}

/// Why nothing could be compiled.
#[derive(Debug, thiserror::Error)]
pub enum GccError {
    /// There is no compiler.
    #[error("no {0} in PATH; {GCC_VARIABLE} names a gcc, beside which it is looked for")]
    None(&'static str),
    /// A program can't be started, or a file can't be read or written.
    #[error("{}: {error}", path.display())]
    Io {
        /// The program or the file.
        path: PathBuf,
        /// What happened.
        error: io::Error,
    },
    /// The compiler is another, too old, or makes code for another machine.
    #[error("{} is {version}, not gcc of version {OLDEST} or newer for x86-64 Linux; {GCC_VARIABLE} names another", compiler.display())]
    Version {
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
    /// Code can't be instrumented.
    #[error("{}: {error}", object.display())]
    Assembly {
        /// What was to be made.
        object: PathBuf,
        /// Why not.
        error: AssemblyError,
    },
    /// A step has said why it does not go on.
    #[error("{0}")]
    Refused(String),
}

/// Compiles and links as gcc does with these arguments, with every access traced. Gives the exit status that gcc has.
/// `allocators` are those of the program's own.
pub fn compile(compiler: Compiler, arguments: &[OsString], allocators: &OwnAllocators) -> Result<u8, GccError> {
    if let Some(refused) = arguments.iter().find_map(|argument| reason_against(argument)) {
        return Err(refused);
    }
    let program = usable(compiler)?;
    let directory = TempDir::with_prefix("slimline-").map_err(|error| io_error(&std::env::temp_dir(), error))?;
    let step = directory.path().join(steps::NAME);
    let own = std::env::current_exe().map_err(|error| io_error(Path::new("/proc/self/exe"), error))?;
    std::os::unix::fs::symlink(own, &step).map_err(|error| io_error(&step, error))?;
    if step.as_os_str().as_bytes().contains(&b',') {
        let error =
            io::Error::other("gcc can't start programs with a comma in their path: set TMPDIR to another directory");
        return Err(io_error(&step, error));
    }
    let mut command = Command::new(&program);
    command.arg("-wrapper").arg(&step).arg("-g");
    // Through pipes there would be no file to change.
    command.args(arguments.iter().filter(|argument| !is_less_debug(argument) && *argument != "-pipe"));
    if let Some(file) = &allocators.file {
        command.env(ALLOCATORS_VARIABLE, file);
    }
    let status = exit_status(command.status().map_err(|error| io_error(&program, error))?);
    match std::fs::read_to_string(directory.path().join(REFUSED)) {
        Ok(line) if status != 0 => Err(GccError::Refused(line)),
        _ => Ok(status),
    }
}

/// Whether an argument asks for what would give no trace, or a wrong one.
fn reason_against(argument: &OsStr) -> Option<GccError> {
    let text = argument.to_string_lossy();
    let reason = if argument == VALUES_ARGUMENT {
        "gcc's hooks tell no values; slimline cc does"
    } else if text.starts_with("-fsanitize=") {
        "sanitizers add accesses of their own, and the hooks are those of one; leave them out"
    } else if text.starts_with("-flto") {
        "its objects hold no code yet; leave it out"
    } else if text == "-static" {
        "the runtime needs the dynamic linker"
    } else if text == "-m32" || text == "-mx32" {
        "records are laid out for x86-64 with 64-bit pointers"
    } else if text == "-masm=intel" || text == "-mcmodel=large" || text == "-mcmodel=medium" {
        "calls of hooks are looked for in assembly as gcc writes it otherwise; leave it out"
    } else {
        return None;
    };
    Some(GccError::Argument { argument: text.into_owned(), reason })
}

/// The compiler that [`compile`] uses.
///
/// # Errors
/// There is none, or it is of a version that is not known.
pub fn usable(compiler: Compiler) -> Result<PathBuf, GccError> {
    let program = find(compiler)?;
    check_version(&program)?;
    Ok(program)
}

/// The compiler of the environment, or the one in `PATH`.
fn find(compiler: Compiler) -> Result<PathBuf, GccError> {
    if let Some(named) = std::env::var_os(GCC_VARIABLE).filter(|named| !named.is_empty()) {
        return Ok(beside(Path::new(&named), compiler));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|directory| directory.join(compiler.name())).find(|it| it.is_file());
    found.ok_or(GccError::None(compiler.name()))
}

/// The compiler that belongs to a gcc of this name: `x86_64-linux-gnu-g++-13` to `x86_64-linux-gnu-gcc-13`.
fn beside(gcc: &Path, compiler: Compiler) -> PathBuf {
    let name = gcc.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match name.rsplit_once("gcc") {
        Some((before, after)) => gcc.with_file_name(format!("{before}{}{after}", compiler.name())),
        None => gcc.to_owned(),
    }
}

fn check_version(compiler: &Path) -> Result<(), GccError> {
    let asked = Command::new(compiler).arg("-v").stdin(Stdio::null()).output();
    let answer = asked.map_err(|error| io_error(compiler, error))?.stderr;
    match understood(&String::from_utf8_lossy(&answer)) {
        Ok(()) => Ok(()),
        Err(version) => Err(GccError::Version { compiler: compiler.to_owned(), version }),
    }
}

/// Whether `gcc -v` says that it can be used; else what it is.
fn understood(said: &str) -> Result<(), String> {
    let after = |mark: &str| said.lines().find_map(|line| line.strip_prefix(mark));
    let target = after("Target: ").unwrap_or_default();
    let Some(version) = after("gcc version ") else {
        return Err(said.lines().next().filter(|line| !line.is_empty()).unwrap_or("something else").to_owned());
    };
    let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
    let is_ours = target.starts_with("x86_64-") && target.contains("linux") && !target.ends_with("x32");
    if is_ours && major.is_some_and(|major| major >= OLDEST) {
        return Ok(());
    }
    Err(format!("gcc {version} for {target}"))
}

fn io_error(path: &Path, error: io::Error) -> GccError {
    GccError::Io { path: path.to_owned(), error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_gives_no_trace_is_refused() {
        let line = |argument: &str| reason_against(OsStr::new(argument)).map(|error| error.to_string());
        for argument in ["-fsanitize=address", "-flto=auto", "-static", "-m32", "-masm=intel", VALUES_ARGUMENT] {
            let line = line(argument).unwrap();
            assert!(line.starts_with(&format!("{argument} can't be combined with tracing: ")), "{line}");
        }
        for argument in ["-fno-sanitize=all", "-fno-lto", "-static-libgcc", "-m64", "a.c", "-static-pie"] {
            assert_eq!(line(argument), None);
        }
    }

    #[test]
    fn versions_are_read() {
        let said = |target: &str, version: &str| understood(&format!("Using specs.\nTarget: {target}\n{version}\n"));
        assert_eq!(said("x86_64-linux-gnu", "gcc version 12.2.0 (Debian 12.2.0-14+deb12u1)"), Ok(()));
        assert_eq!(said("x86_64-pc-linux-gnu", "gcc version 15.1.1 20250425 (GCC)"), Ok(()));
        assert_eq!(said("x86_64-linux-gnu", "gcc version 10.2.1 x").unwrap_err(), "gcc 10.2.1 x for x86_64-linux-gnu");
        assert!(said("aarch64-linux-gnu", "gcc version 12.2.0").is_err());
        assert!(said("x86_64-linux-gnux32", "gcc version 12.2.0").is_err());
        assert_eq!(understood("Debian clang version 19.1.7\nTarget: x"), Err("Debian clang version 19.1.7".to_owned()));
        assert_eq!(understood(""), Err("something else".to_owned()));
    }

    #[test]
    fn the_others_lie_beside_gcc() {
        let of = |gcc: &str, compiler| beside(Path::new(gcc), compiler).display().to_string();
        assert_eq!(of("gcc", Compiler::C), "gcc");
        assert_eq!(of("/opt/bin/x86_64-linux-gnu-gcc-13", Compiler::CPlusPlus), "/opt/bin/x86_64-linux-gnu-g++-13");
        assert_eq!(of("gcc-12", Compiler::Fortran), "gfortran-12");
        assert_eq!(of("/opt/mine", Compiler::Fortran), "/opt/mine");
    }
}
