//! Finding the program and telling, before it is started, how it can be recorded.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use object::elf::{self, FileHeader64};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{Endianness, FileKind, ReadCache, ReadRef};
use rustix::fs::{Access, access};
use rustix::process::{getegid, geteuid};
use slimline_trace::path_text::{text_of, text_of_bytes};
use slimline_trace::script::{LINE_BYTES, interpreter};

use crate::RecordError;

/// Interpreters that may name each other with `#!` before we give up; the kernel allows four.
const MAX_INTERPRETERS: usize = 4;

/// The machine that this slimline and its agent are for.
const MACHINE: elf::Machine = elf::EM_X86_64;

/// The file that `program` names, looked up in `PATH` as `execvp` does.
pub(crate) fn find(program: &OsStr) -> Result<PathBuf, RecordError> {
    if program.as_bytes().contains(&b'/') {
        return check_executable(Path::new(program)).map(|()| PathBuf::from(program));
    }
    let mut refused = None;
    // The default is glibc's, for a process without PATH.
    let path = env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    for directory in env::split_paths(&path) {
        let candidate = directory.join(program);
        match check_executable(&candidate) {
            Ok(()) => return Ok(candidate),
            Err(RecordError::NotExecutable(path)) => refused = refused.or(Some(RecordError::NotExecutable(path))),
            Err(_) => {}
        }
    }
    Err(refused.unwrap_or_else(|| RecordError::NotFound { program: text_of(program).into_owned() }))
}

/// The file whose code a command runs.
///
/// # Errors
/// There is no such program, or it can't be recorded in any way.
pub fn program_file(program: &OsStr) -> Result<PathBuf, RecordError> {
    Ok(what_runs(&find(program)?)?.file)
}

/// The file whose code a command runs with the agent; `None` where it runs without.
///
/// # Errors
/// There is no such program, or it can't be recorded in any way.
pub fn preloaded(program: &OsStr) -> Result<Option<PathBuf>, RecordError> {
    let Runs { file, without_agent } = what_runs(&find(program)?)?;
    Ok(without_agent.is_none().then_some(file))
}

fn check_executable(path: &Path) -> Result<(), RecordError> {
    let metadata = fs::metadata(path).map_err(|error| access_error(path, error))?;
    if metadata.is_dir() {
        return Err(RecordError::Directory(path.to_owned()));
    }
    let has_bit = metadata.permissions().mode() & 0o111 != 0;
    match access(path, Access::EXEC_OK) {
        Ok(()) if has_bit && metadata.is_file() => Ok(()),
        _ if has_bit && metadata.is_file() => Err(RecordError::PermissionDenied(path.to_owned())),
        _ => Err(RecordError::NotExecutable(path.to_owned())),
    }
}

fn access_error(path: &Path, error: io::Error) -> RecordError {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            RecordError::NotFound { program: text_of(path.as_os_str()).into_owned() }
        }
        io::ErrorKind::PermissionDenied => RecordError::PermissionDenied(path.to_owned()),
        _ => RecordError::Spawn { program: path.to_owned(), error },
    }
}

/// The file whose code will run, and why the agent can't be preloaded into it, where it can't.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Runs {
    pub(crate) file: PathBuf,
    pub(crate) without_agent: Option<String>,
}

/// What `program` runs: of a script it is the interpreter that counts. Refuses what can't be recorded in any way.
pub(crate) fn what_runs(program: &Path) -> Result<Runs, RecordError> {
    let mut program = program.to_owned();
    for _ in 0..=MAX_INTERPRETERS {
        check_privileges(&program, &program)?;
        let mut file = match File::open(&program) {
            Ok(file) => file,
            // Executable but not readable: the kernel runs it, we can't look. The loader may well preload.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                return Ok(Runs { file: program, without_agent: None });
            }
            Err(error) => return Err(access_error(&program, error)),
        };
        match interpreter_of_script(&mut file).map_err(|error| access_error(&program, error))? {
            Some((interpreter, _)) => {
                check_executable(&interpreter)?;
                program = interpreter;
            }
            None => {
                let without_agent = check_elf(&program, file)?;
                return Ok(Runs { file: program, without_agent });
            }
        }
    }
    Err(RecordError::NotAProgram(program))
}

/// Why the agent can't be preloaded into the program that `link` leads to, named `name`: by its file itself, which may have
/// another name by now, or have its name in another container. As [`what_runs`].
pub(crate) fn why_without_agent(link: &Path, name: &Path) -> Result<Option<String>, RecordError> {
    check_privileges(link, name)?;
    match File::open(link) {
        Ok(file) => check_elf(name, file),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(None),
        Err(error) => Err(access_error(name, error)),
    }
}

/// What the kernel runs for `program`, and the arguments that it puts before the command's own: of a script its interpreter, with
/// the argument that the script gives that, and the script. `program` is one that [`what_runs`] does not refuse.
pub(crate) fn as_started(program: &Path) -> io::Result<(PathBuf, Vec<OsString>)> {
    let (mut program, mut arguments) = (program.to_owned(), Vec::new());
    while let Some((interpreter, argument)) = interpreter_of_script(&mut File::open(&program)?)? {
        arguments.splice(0..0, argument.into_iter().chain([program.into()]));
        program = interpreter;
    }
    Ok((program, arguments))
}

/// The path after `#!`, and what is behind that.
fn interpreter_of_script(file: &mut File) -> io::Result<Option<(PathBuf, Option<OsString>)>> {
    let mut start = Vec::new();
    file.take(LINE_BYTES as u64).read_to_end(&mut start)?;
    Ok(interpreter(&start).map(|(path, argument)| {
        (OsStr::from_bytes(path).into(), argument.map(|argument| OsStr::from_bytes(argument).to_owned()))
    }))
}

/// The kernel runs these in secure mode, where the loader ignores `LD_PRELOAD`, and ends perf events of those who may not
/// read the program. `program` is what the file at `path` is called.
fn check_privileges(path: &Path, program: &Path) -> Result<(), RecordError> {
    const SET_USER_ID: u32 = 0o4000;
    const SET_GROUP_ID: u32 = 0o2010;
    let metadata = fs::metadata(path).map_err(|error| access_error(program, error))?;
    let refuse = |why| Err(RecordError::Privileged { program: program.to_owned(), why });
    if metadata.mode() & SET_USER_ID != 0 && metadata.uid() != geteuid().as_raw() {
        return refuse("set-user-id");
    }
    // Without group execution the bit means something else.
    if metadata.mode() & SET_GROUP_ID == SET_GROUP_ID && metadata.gid() != getegid().as_raw() {
        return refuse("set-group-id");
    }
    let mut capabilities = [0; 64];
    let has_capabilities = rustix::fs::getxattr(path, "security.capability", &mut capabilities[..]).is_ok();
    if has_capabilities && !geteuid().is_root() {
        return refuse("has file capabilities");
    }
    Ok(())
}

/// Why the agent can't be preloaded into an ELF program for this machine.
fn check_elf(program: &Path, file: File) -> Result<Option<String>, RecordError> {
    let cache = ReadCache::new(file);
    let damaged =
        |error: object::Error| RecordError::DamagedProgram { program: program.to_owned(), reason: error.to_string() };
    let foreign =
        |found: &str| RecordError::ForeignArchitecture { program: program.to_owned(), found: found.to_owned() };
    match FileKind::parse(&cache) {
        Ok(FileKind::Elf64) => {}
        Ok(FileKind::Elf32) => return Err(foreign("a 32-bit CPU")),
        _ => return Err(RecordError::NotAProgram(program.to_owned())),
    }
    let header = FileHeader64::<Endianness>::parse(&cache).map_err(damaged)?;
    let endian = header.endian().map_err(damaged)?;
    let machine = header.e_machine(endian);
    if machine != MACHINE || endian != Endianness::Little {
        return Err(foreign(&machine_name(machine)));
    }
    let loader = match loader(&cache, header, endian).map_err(damaged)? {
        // A library that runs is a loader, whose first argument is the program: `ld-linux-x86-64.so.2 ./a.out`.
        None if is_library(&cache, header, endian).map_err(damaged)? => Some(program.display().to_string()),
        loader => loader,
    };
    let name = program.display();
    Ok(match loader {
        None => Some(format!("{name} is statically linked, so the agent can't be preloaded")),
        Some(loader) if loader.contains("musl") => {
            Some(format!("{name} uses the loader {loader}, not glibc's, so the agent can't be preloaded"))
        }
        Some(_) => None,
    })
}

/// `PT_INTERP`.
fn loader<'a>(
    file: impl ReadRef<'a>,
    header: &FileHeader64<Endianness>,
    endian: Endianness,
) -> object::Result<Option<String>> {
    for segment in header.program_headers(endian, file)? {
        if let Some(path) = segment.interpreter(endian, file)? {
            return Ok(Some(text_of_bytes(path).into_owned()));
        }
    }
    Ok(None)
}

/// Whether it has a name that programs refer to it by (`DT_SONAME`).
fn is_library<'a>(
    file: impl ReadRef<'a>,
    header: &FileHeader64<Endianness>,
    endian: Endianness,
) -> object::Result<bool> {
    for segment in header.program_headers(endian, file)? {
        if let Some(entries) = segment.dynamic(endian, file)? {
            return Ok(entries.iter().any(|entry| entry.tag(endian) == elf::DT_SONAME));
        }
    }
    Ok(false)
}

fn machine_name(machine: elf::Machine) -> String {
    match machine {
        elf::EM_AARCH64 => "AArch64".to_owned(),
        elf::EM_ARM => "32-bit Arm".to_owned(),
        elf::EM_386 => "a 32-bit CPU".to_owned(),
        elf::EM_RISCV => "RISC-V".to_owned(),
        elf::EM_PPC64 => "PowerPC".to_owned(),
        elf::EM_S390 => "s390".to_owned(),
        elf::Machine(number) => format!("ELF machine {number}"),
    }
}
