//! What runs in the place of the linker.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::objects::{Job, Objects, Parts, is_part};
use super::scratch::Signal;
use super::{CargoError, io_error, scratch};
use crate::driver::{BEHIND_RUNTIME, before_runtime, exit_status, runtime_file};
use crate::rewrite::OwnAllocators;

/// The linker that is to be run.
pub(super) const LINKER_VARIABLE: &str = "SLIMLINE_LINKER";

/// Links with rewritten objects and the runtime. `name` is what we are called as.
pub(super) fn link(
    name: &OsStr,
    arguments: &[OsString],
    runtime: &[u8],
    allocators: &OwnAllocators,
) -> Result<u8, CargoError> {
    let linker = env::var_os(LINKER_VARIABLE).unwrap_or_else(|| name.to_owned());
    let all = expanded(arguments)?;
    refuse(&all)?;
    // The directory goes away on Ctrl-C, too, which ends the linker and not this process.
    let signal = Signal::outlived().map_err(|error| io_error(&linker, error))?;
    let directory = TempDir::with_prefix("slimline-").map_err(|error| io_error(env::temp_dir(), error))?;
    if let Some(job) = Job::left(allocators) {
        let scratch = job.scratch.clone();
        scratch::tell(&scratch, replace(&all, job, &signal)?)?;
    }
    if let Some(status) = signal.ended() {
        return Ok(status);
    }
    let archive = runtime_file(runtime, directory.path()).map_err(|error| io_error(directory.path(), error))?;
    let mut arguments = arguments.to_vec();
    for argument in &mut arguments {
        export_runtime(argument, directory.path())?;
    }
    let is_shared = all.iter().any(|argument| argument == "-shared");
    let at = after_objects(&arguments);
    arguments.splice(at..at, runtime_arguments(name, &archive, is_shared));
    let status = Command::new(&linker).args(&arguments).status();
    let status = exit_status(status.map_err(|error| io_error(&linker, error))?);
    Ok(signal.ended().unwrap_or(status))
}

/// Puts rewritten objects in the place of those that are to be linked, until a signal comes.
fn replace(arguments: &[OsString], job: Job, signal: &Signal) -> Result<Parts, CargoError> {
    let mut objects = Objects::new(job, signal.clone());
    let mut parts = Parts::default();
    let mut last = None;
    let is_object = |path: &&Path| path.file_name().and_then(OsStr::to_str).is_some_and(is_part);
    for object in arguments.iter().map(Path::new).filter(is_object).take_while(|_| signal.ended().is_none()) {
        parts += objects.replace(object)?;
        last = Some(object);
    }
    match last.filter(|_| parts.lack_all()) {
        Some(object) => Err(CargoError::NoBitcode { made: object.to_owned() }),
        None => Ok(parts),
    }
}

/// Arguments with those of files (`@file`) in their place, of which rustc writes one a line.
fn expanded(arguments: &[OsString]) -> Result<Vec<OsString>, CargoError> {
    let mut all = Vec::with_capacity(arguments.len());
    for argument in arguments {
        let Some(file) = argument.as_bytes().strip_prefix(b"@").map(|file| Path::new(OsStr::from_bytes(file))) else {
            all.push(argument.clone());
            continue;
        };
        let text = fs::read(file).map_err(|error| io_error(file, error))?;
        all.extend(text.split(|byte| *byte == b'\n').map(|line| {
            let mut bytes = line.iter();
            let mut word = Vec::with_capacity(line.len());
            while let Some(&byte) = bytes.next() {
                word.extend(if byte == b'\\' { bytes.next().copied() } else { Some(byte) });
            }
            OsString::from_vec(word)
        }));
    }
    Ok(all)
}

/// Refuses what would give no trace.
fn refuse(arguments: &[OsString]) -> Result<(), CargoError> {
    match arguments.iter().find(|argument| *argument == "-static" || *argument == "-static-pie") {
        None => Ok(()),
        Some(argument) => Err(CargoError::Argument {
            argument: argument.to_string_lossy().into_owned(),
            reason: "the runtime needs the dynamic linker",
        }),
    }
}

/// Behind all that needs the runtime, and before what it needs.
fn after_objects(arguments: &[OsString]) -> usize {
    let is_object = |argument: &OsString| {
        let path = Path::new(argument);
        path.extension().is_some_and(|end| end == "o" || end == "rlib" || end == "a")
    };
    // Those of a file come from where it is named.
    let is_file = |argument: &OsString| argument.as_bytes().starts_with(b"@");
    arguments
        .iter()
        .rposition(|argument| is_object(argument) || is_file(argument))
        .map_or(arguments.len(), |last| last + 1)
}

/// The runtime, and what makes it the process's only one.
fn runtime_arguments(name: &OsStr, archive: &Path, is_shared: bool) -> Vec<OsString> {
    let handed_on = (!is_linker_itself(name)).then_some("-Xlinker");
    let flags = |flags: &[&'static str]| -> Vec<OsString> {
        flags.iter().flat_map(|flag| handed_on.into_iter().chain([*flag])).map(OsString::from).collect()
    };
    [flags(before_runtime(is_shared)), vec![archive.into()], flags(&[BEHIND_RUNTIME])].concat()
}

/// Whether a program of this name is a linker, and not a compiler that calls one.
fn is_linker_itself(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let last = name.rsplit('-').next().unwrap_or_default();
    matches!(last, "ld" | "lld" | "mold" | "wild") || last.starts_with("ld.")
}

/// rustc lists what a shared library exports and hides all else. The runtime's symbols are not to be hidden: all objects of
/// a process have one runtime.
fn export_runtime(argument: &mut OsString, directory: &Path) -> Result<(), CargoError> {
    let bytes = argument.as_bytes();
    let key = b"--version-script=";
    let Some(at) = bytes.windows(key.len()).position(|part| part == key) else { return Ok(()) };
    let (before, file) = bytes.split_at(at + key.len());
    let file = PathBuf::from(OsStr::from_bytes(file));
    let script = fs::read_to_string(&file).map_err(|error| io_error(&file, error))?;
    let Some(script) = with_runtime_exported(&script) else { return Ok(()) };
    let ours = directory.join("exported");
    fs::write(&ours, script).map_err(|error| io_error(&ours, error))?;
    *argument = OsString::from_vec([before, ours.as_os_str().as_bytes()].concat());
    Ok(())
}

/// Such a list with the runtime's symbols; none where it has versions, which is then the program's own.
fn with_runtime_exported(script: &str) -> Option<String> {
    const RUNTIME: &str = "    __slimline_*;\n";
    let inner = script.trim_start().strip_prefix('{')?.trim_start();
    Some(match inner.strip_prefix("global:") {
        Some(rest) => format!("{{\n  global:\n{RUNTIME}{}", rest.trim_start_matches('\n')),
        None => format!("{{\n  global:\n{RUNTIME}{inner}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn the_runtime_stands_behind_all_objects() {
        let line = words("-m64 a.rcgu.o libb.rlib -lgcc_s -lc -o program -pie");
        assert_eq!(after_objects(&line), 3);
        assert_eq!(after_objects(&words("-m64 @arguments -o x")), 2);
        let ours = |name: &str, is_shared| runtime_arguments(OsStr::new(name), Path::new("r.a"), is_shared);
        let program = "--export-dynamic-symbol=__slimline_* --push-state --whole-archive r.a --pop-state";
        let library = "-z nodelete -u slimline_object --push-state --no-whole-archive r.a --pop-state";
        let handed_on =
            |line: &str| words(&format!("-Xlinker {}", line.replace(' ', " -Xlinker ").replace("-Xlinker r.a", "r.a")));
        assert_eq!(ours("cc", false), handed_on(program));
        assert_eq!(ours("x86_64-linux-gnu-gcc", true), handed_on(library));
        assert_eq!(ours("ld.lld", true), words(library));
    }

    #[test]
    fn static_programs_are_refused() {
        refuse(&words("-pie a.o")).unwrap();
        let line = refuse(&words("-static-pie a.o")).unwrap_err().to_string();
        assert_eq!(line, "-static-pie can't be combined with tracing: the runtime needs the dynamic linker");
    }

    #[test]
    fn arguments_in_a_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("linker-arguments");
        fs::write(&file, "a\\ b.o\n-lc").unwrap();
        let mut argument = OsString::from("@");
        argument.push(&file);
        assert_eq!(expanded(&["-m64".into(), argument]).unwrap(), ["-m64", "a b.o", "-lc"]);
        assert!(expanded(&["@/nowhere".into()]).is_err());
    }

    #[test]
    fn the_runtime_is_exported() {
        let script = "{\n  global:\n    answer;\n\n  local:\n    *;\n};\n";
        let ours = with_runtime_exported(script).unwrap();
        assert_eq!(ours, "{\n  global:\n    __slimline_*;\n    answer;\n\n  local:\n    *;\n};\n");
        let none = with_runtime_exported("{\n\n  local:\n    *;\n};\n").unwrap();
        assert_eq!(none, "{\n  global:\n    __slimline_*;\nlocal:\n    *;\n};\n");
        assert_eq!(with_runtime_exported("V1 { local: *; };"), None);
    }
}
