//! What runs in the place of rustc and rustdoc.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use super::invocation::Invocation;
use super::linking::LINKER_VARIABLE;
use super::objects::{Job, Objects, Parts};
use super::scratch::{Scratch, Signal};
use super::toolchain::libllvm;
use super::{CargoError, Tool, io_error, make_tool};
use crate::driver::exit_status;
use crate::rewrite::Told;

/// The rustdoc that is to be run.
pub(super) const RUSTDOC_VARIABLE: &str = "SLIMLINE_RUSTDOC";
/// The linker that rustc takes by itself.
const USUAL_LINKER: &str = "cc";

/// Runs a rustc, whose path comes first, and rewrites what it has made. `own` is the path that we are called by.
pub(super) fn rustc(own: &Path, arguments: &[OsString], told: Told) -> Result<u8, CargoError> {
    let Some((program, arguments)) = arguments.split_first() else {
        return Err(io_error(own, io::Error::other("runs a rustc, whose path it is to be given")));
    };
    if arguments.last().is_some_and(|last| last == "-vV") {
        return version(program, arguments, &told);
    }
    let invocation = Invocation::parse(arguments);
    let mut rustc = Command::new(program);
    rustc.args(arguments);
    if !invocation.is_traced() {
        return Err(io_error(program, rustc.exec()));
    }
    invocation.refuse()?;
    // Another wrapper's first argument is the compiler.
    let inner = arguments.first().filter(|first| Path::new(first).file_name() == Some(OsStr::new("rustc")));
    let scratch = Scratch::new(&invocation)?;
    let job = Job {
        libllvm: libllvm(inner.unwrap_or(program))?,
        level: invocation.level(),
        told,
        scratch: scratch.directory().to_owned(),
    };
    job.leave_to(&mut rustc);
    // Names of variables and types are in debug information, whatever the profile says.
    rustc.args(invocation.for_bitcode()).arg("-Cdebuginfo=2");
    with_linker(own, &mut rustc, &invocation)?;
    let status = rustc.status().map_err(|error| io_error(program, error))?;
    let signal = scratch.signal();
    let archived = match status.success() {
        true => put_in(&invocation, job, signal)?,
        false => None,
    };
    if let Some(archived) = archived {
        say_untraced(&invocation, [archived, scratch.parts()?]);
        for remark in scratch.remarks()? {
            let _ = writeln!(io::stderr(), "slimline: {}: {remark}", invocation.stem());
        }
    }
    Ok(signal.ended().unwrap_or_else(|| exit_status(status)))
}

/// Tells of what rustc wrote no bitcode. Parts of a library for several uses are in each.
fn say_untraced(invocation: &Invocation, made: [Parts; 2]) {
    let Some(parts) = made.into_iter().filter(|parts| parts.untraced > 0).max_by_key(|parts| parts.untraced) else {
        return;
    };
    let _ = writeln!(
        io::stderr(),
        "slimline: {}: {} of its {} parts are not traced: rustc wrote no bitcode of them",
        invocation.stem(),
        parts.untraced,
        parts.traced + parts.untraced
    );
}

/// Tells the version of this rustc, and ours: cargo compiles anew where that changes.
fn version(program: &OsStr, arguments: &[OsString], told: &Told) -> Result<u8, CargoError> {
    let failed = |error| io_error(program, error);
    let output = Command::new(program).args(arguments).output().map_err(failed)?;
    let own = std::env::current_exe().and_then(|own| fs::metadata(own)?.modified()).map_err(failed)?;
    let age = own.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let values = if told.values { " with values" } else { "" };
    let allocators = told.allocators.mark().map(|mark| format!(" {mark}")).unwrap_or_default();
    let mut said = output.stdout;
    if output.status.success() {
        said.extend(
            format!("slimline: {} {}{values}{allocators}\n", env!("CARGO_PKG_VERSION"), age.as_nanos()).into_bytes(),
        );
    }
    let told = io::stdout().write_all(&said).and_then(|()| io::stderr().write_all(&output.stderr));
    told.map_err(failed)?;
    Ok(exit_status(output.status))
}

/// Has our linker called for the one that it would call, by the same name.
fn with_linker(own: &Path, program: &mut Command, invocation: &Invocation) -> Result<(), CargoError> {
    let linker = invocation.linker.clone().unwrap_or_else(|| USUAL_LINKER.into());
    let name = Path::new(&linker).file_name().unwrap_or(OsStr::new(USUAL_LINKER));
    let ours = own.with_file_name(Tool::LINKERS).join(name);
    make_tool(&ours)?;
    let mut argument = OsString::from("-Clinker=");
    argument.push(&ours);
    program.arg(argument).env(LINKER_VARIABLE, &linker);
    Ok(())
}

/// Puts rewritten objects into the archives that rustc has made, the same into each. None where a signal came.
fn put_in(invocation: &Invocation, job: Job, signal: &Signal) -> Result<Option<Parts>, CargoError> {
    let mut objects = Objects::new(job, signal.clone());
    let mut parts = Parts::default();
    for archive in invocation.archives() {
        parts = objects.replace_members(&archive, &invocation.stem())?;
    }
    Ok(Some(parts).filter(|_| signal.ended().is_none()))
}

/// Runs rustdoc. Tests in documentation are programs that are linked with traced libraries.
pub(super) fn rustdoc(own: &Path, arguments: &[OsString]) -> Result<u8, CargoError> {
    let program = std::env::var_os(RUSTDOC_VARIABLE).unwrap_or_else(|| "rustdoc".into());
    let mut rustdoc = Command::new(&program);
    rustdoc.args(arguments);
    let invocation = Invocation::parse(arguments);
    if arguments.iter().any(|argument| argument == "--test") && invocation.target.is_some() {
        with_linker(own, &mut rustdoc, &invocation)?;
    }
    Err(io_error(&program, rustdoc.exec()))
}
