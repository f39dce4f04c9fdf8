//! The programs that gcc starts, each behind the name of this one.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::assembly::instrument;
use super::sources::prepared;
use super::{GccError, REFUSED, io_error};
use crate::driver::{Job, WITHOUT_C_LIBRARY, exit_status, runtime_file};
use crate::rewrite::OwnAllocators;

/// The name that says that this program is gcc's wrapper.
pub(super) const NAME: &str = "slimline-gcc-step";

/// What compilers proper are told beside what gcc tells them.
const HOOKS: [&str; 7] = [
    "-fsanitize=thread",
    // What a thread sanitizer can't check is no concern of ours.
    "-Wno-tsan",
    "--param=tsan-distinguish-volatile=1",
    "--param=tsan-instrument-func-entry-exit=1",
    // What stands in the place of a call changes registers that functions of the same file may be known to leave alone.
    "-fno-ipa-ra",
    // Copies that would be made within the code are called, so that they are seen.
    "-mmemcpy-strategy=libcall:-1:noalign",
    "-mmemset-strategy=libcall:-1:noalign",
];
/// The same of those that have a preprocessor: programs do other things where this is defined.
const UNDEFINED: &str = "-U__SANITIZE_THREAD__";

/// Does what gcc wants done, where this program is called as its wrapper; the status to end with. `runtime` is the archive
/// that instrumented programs are linked with, `allocators` reads those of the program's own.
pub fn as_step<E: From<GccError> + std::fmt::Display>(
    arguments: &[OsString],
    runtime: &[u8],
    allocators: impl FnOnce() -> Result<OwnAllocators, E>,
) -> Option<u8> {
    let [own, program, arguments @ ..] = arguments else { return None };
    let own = Path::new(own);
    if own.file_name() != Some(OsStr::new(NAME)) {
        return None;
    }
    let directory = own.parent().unwrap_or(Path::new("."));
    let job = Job { program: program.into(), arguments: arguments.to_vec() };
    let done = match Step::of(&job) {
        Step::Compile => allocators().and_then(|allocators| Ok(compile(&job, directory, &allocators)?)),
        Step::Link => link(&job, directory, runtime).map_err(E::from),
        Step::Other => start(&job).map_err(E::from),
    };
    let refused = |error: E| {
        // Who has started gcc says it, once gcc has ended.
        let _ = fs::write(directory.join(REFUSED), error.to_string());
        1
    };
    Some(done.unwrap_or_else(refused))
}

/// What a program that gcc starts is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// Source becomes assembly.
    Compile,
    /// A program or a shared object is linked.
    Link,
    /// Anything else: preprocessing, assembling, checking.
    Other,
}

impl Step {
    fn of(job: &Job) -> Self {
        match name_of(job) {
            Some("cc1" | "cc1plus" | "f951") if !job.has("-E") && !job.has("-fsyntax-only") => Self::Compile,
            Some("collect2" | "ld") if !job.has("-r") => Self::Link,
            _ => Self::Other,
        }
    }
}

pub(super) fn name_of(job: &Job) -> Option<&str> {
    job.program.file_name()?.to_str()
}

fn compile(job: &Job, directory: &Path, allocators: &OwnAllocators) -> Result<u8, GccError> {
    // What a file of arguments or a specification says.
    if let Some(refused) = job.arguments.iter().find_map(|argument| super::reason_against(argument)) {
        return Err(refused);
    }
    let mut job = Job { program: job.program.clone(), arguments: job.arguments.clone() };
    job.arguments.extend(HOOKS.map(OsString::from));
    if name_of(&job) != Some("f951") {
        job.arguments.push(UNDEFINED.into());
    }
    let asked = job.after("-o").map(PathBuf::from);
    let is_printed = asked.as_deref() == Some(Path::new("-"));
    let between = directory.join(format!("{}.s", std::process::id()));
    if is_printed && let Some(place) = job.arguments.iter().rposition(|argument| argument == "-o") {
        job.arguments[place + 1] = between.clone().into();
    }
    let prepared = prepared(&job, &directory.join(std::process::id().to_string()))?;
    let status = prepared.start().map_err(|error| io_error(&job.program, error))?;
    let Some(made) = (if is_printed { Some(between) } else { asked }).filter(|made| status == 0 && made.is_file())
    else {
        return Ok(status);
    };
    let mut code = fs::read(&made).map_err(|error| io_error(&made, error))?;
    let done = instrument(&code, allocators).map_err(|error| GccError::Assembly { object: object_of(&job), error })?;
    if let Some(done) = done {
        for function in &done.unlike {
            let _ = writeln!(
                io::stderr(),
                "slimline: gcc has changed the parameters of `{function}`, which slimline.toml tells: its blocks are not known"
            );
        }
        code = done.code;
    }
    if is_printed {
        io::stdout().write_all(&code).map_err(|error| io_error(Path::new("standard output"), error))?;
    } else {
        fs::write(&made, code).map_err(|error| io_error(&made, error))?;
    }
    Ok(0)
}

/// What is compiled, as messages name it.
fn object_of(job: &Job) -> PathBuf {
    PathBuf::from(job.after("-dumpbase").unwrap_or(OsStr::new("standard input")))
}

fn link(job: &Job, directory: &Path, runtime: &[u8]) -> Result<u8, GccError> {
    if job.has("-static") && !job.has("-dynamic-linker") {
        let reason = "the runtime needs the dynamic linker";
        return Err(GccError::Argument { argument: "-static".to_owned(), reason });
    }
    if job.lacks_c_library() {
        let (argument, reason) = WITHOUT_C_LIBRARY;
        return Err(GccError::Argument { argument: argument.to_owned(), reason });
    }
    let archive = runtime_file(runtime, directory).map_err(|error| io_error(directory, error))?;
    start(&job.with_runtime(&archive))
}

fn start(job: &Job) -> Result<u8, GccError> {
    let status = Command::new(&job.program).args(&job.arguments).status();
    Ok(exit_status(status.map_err(|error| io_error(&job.program, error))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_by_their_programs() {
        let step = |program: &str, argument: &str| {
            Step::of(&Job { program: program.into(), arguments: vec!["-quiet".into(), argument.into()] })
        };
        assert_eq!(step("/usr/lib/gcc/x86_64-linux-gnu/12/cc1", "a.c"), Step::Compile);
        assert_eq!(step("/usr/lib/gcc/x86_64-linux-gnu/12/cc1plus", "a.cpp"), Step::Compile);
        assert_eq!(step("f951", "a.f90"), Step::Compile);
        assert_eq!(step("cc1", "-E"), Step::Other);
        assert_eq!(step("as", "--64"), Step::Other);
        assert_eq!(step("/usr/lib/gcc/x86_64-linux-gnu/12/collect2", "a.o"), Step::Link);
        assert_eq!(step("collect2", "-r"), Step::Other);
    }
}
