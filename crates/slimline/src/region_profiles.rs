//! Profiles of regions: taken from a run, with where their code is in the source, kept in files, and read.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use slimline_analyze::full_trace::filter::is_match;
use slimline_attribute::module::Module;
use slimline_attribute::module::demangle;
use slimline_attribute::module::store::FileStore;
use slimline_collect::{RegionFunctions, WrittenProfile, program_file};
use slimline_regions::{Code, Ended, Profile, Run, read_all};
use slimline_trace::address::Svma;
use slimline_trace::path_text::{text_of, text_of_existing};
use slimline_trace::session::End;

use crate::disk::Disk;

/// Why there may be nothing.
pub(crate) const NO_REGION: &str = "no region was met: the program calls neither libgomp nor LLVM's libomp that are shared libraries, nor \
                                    slimline_region_begin(); Intel's, NVIDIA's and other runtimes are not seen, nor programs that are started with an environment of \
                                    their own making (env -i)";

/// The same of a session.
pub(crate) const NO_REGION_IN_SESSION: &str = "no regions were recorded, or none was met: slimline record --regions";

/// Their addresses are in a variable of the environment, which has room for 128 KiB.
const MOST_FUNCTIONS: usize = 8000;
/// The signal that no process sees.
const SIGKILL: i32 = 9;

/// What the processes of a run wrote.
pub(crate) struct Taken {
    pub(crate) profiles: Vec<Profile>,
    /// What is missing, in words.
    pub(crate) missing: Vec<String>,
}

impl Taken {
    /// Of a command that ended so. Code is looked up in the files that it is in, which must still be those that ran.
    pub(crate) fn of(written: &[WrittenProfile], end: End, command: &[OsString]) -> Self {
        let ended = match end {
            End::Exited { status } => Ended::Status(status),
            End::Signaled { signal } => Ended::Signal(signal),
            // A command that we start is waited for.
            End::Detached | End::Gone => Ended::Status(0),
        };
        let is_killed = matches!(end, End::Signaled { signal: SIGKILL });
        let command: Vec<String> = command.iter().map(|word| text_of(word).into_owned()).collect();
        let (mut profiles, mut missing) = (Vec::new(), Vec::new());
        for WrittenProfile { process, profile } in written {
            match profile {
                Ok(profile) => {
                    let run = Some(Run { ended, command: command.clone() });
                    profiles.push(Profile { run, ..profile.clone() });
                }
                Err(error) => missing.push(format!("regions of process {process}: {error}")),
            }
        }
        if is_killed {
            missing.push(
                "regions of the command itself: SIGKILL ended it, and they are written as a process ends".to_owned(),
            );
        }
        look_up(&mut profiles);
        Self { profiles, missing }
    }
}

/// The functions of these names in the file that a command runs.
///
/// # Errors
/// There is none of a name.
pub(crate) fn functions(command: &[OsString], names: &[String]) -> anyhow::Result<RegionFunctions> {
    let name = command.first().context("no command")?;
    let program = program_file(name)?;
    let program = fs::canonicalize(&program).with_context(|| program.display().to_string())?;
    let store = FileStore::new(&Disk);
    let module = Module::open(&store, &text_of_existing(program.as_os_str()));
    let mut has = vec![false; names.len()];
    let mut addresses = Vec::new();
    module.for_each_function(&mut |linked, Svma(address), _| {
        let full = demangle(linked);
        // Arguments tell overloads apart; who has none in mind leaves them out.
        let short = full.split('(').next().unwrap_or(&full);
        for (has, name) in has.iter_mut().zip(names) {
            if [linked, &full, short].iter().any(|function| is_match(name, function)) {
                *has = true;
                addresses.push(address);
            }
        }
    });
    let lacking: Vec<&str> = names.iter().zip(has).filter(|(_, has)| !has).map(|(name, _)| name.as_str()).collect();
    if !lacking.is_empty() {
        bail!("{}: has no function {} (by its symbols)", program.display(), lacking.join(" or "));
    }
    addresses.sort_unstable();
    addresses.dedup();
    if addresses.len() > MOST_FUNCTIONS {
        bail!("{} functions have these names: {MOST_FUNCTIONS} can be told", addresses.len());
    }
    Ok(RegionFunctions { program, addresses })
}

/// Reads what was kept.
pub(crate) fn read(kept: &Path) -> anyhow::Result<Vec<Profile>> {
    let bytes = fs::read(kept).with_context(|| kept.display().to_string())?;
    read_all(&bytes).with_context(|| format!("{}: not what slimline regions -o writes", kept.display()))
}

/// Writes profiles in one step: nobody sees half a file.
pub(crate) fn keep(output: &Path, profiles: &[Profile]) -> anyhow::Result<()> {
    let beside = |suffix: &str| {
        let mut name = output.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    };
    let (temporary, old) = (beside(".tmp"), beside(".old"));
    let content: String = profiles.iter().map(Profile::written).collect();
    let write = || {
        File::create(&temporary)?.write_all(content.as_bytes())?;
        match fs::rename(output, old) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => fs::rename(&temporary, output),
        }
    };
    write().with_context(|| {
        // It says nothing that is not to be told now.
        let _ = fs::remove_file(&temporary);
        output.display().to_string()
    })
}

fn look_up(profiles: &mut [Profile]) {
    let store = FileStore::new(&Disk);
    let mut modules = HashMap::new();
    for profile in profiles {
        let found = profile.addresses().into_iter().filter_map(|(address, instruction)| {
            let (path, offset) = profile.locate(instruction)?;
            let module = modules.entry(path.to_owned()).or_insert_with(|| Module::open(&store, path));
            code(module, address, offset)
        });
        profile.code = found.collect();
    }
}

fn code(module: &Module<'_>, address: u64, offset: u64) -> Option<Code> {
    let segments = module.image()?.segments();
    let segment = segments.iter().find(|segment| {
        let end = segment.file_offset.checked_add(segment.data.len() as u64);
        segment.executable && segment.file_offset <= offset && end.is_some_and(|end| offset < end)
    })?;
    let svma = Svma(segment.svma.0.checked_add(offset - segment.file_offset)?);
    let frames = module.frames(svma);
    // gcc's calls of libgomp have the line of what is before them: where that was said by the header, its user is meant.
    let is_header = |name: &str| name.starts_with("slimline_") || name.starts_with("__slimline_");
    let frame = frames.iter().find(|frame| !is_header(&frame.function)).or(frames.first())?;
    // Without a name it is as in the next run, wherever the loader puts the file.
    let function = if frame.is_named() { frame.function.clone() } else { format!("{}+{:#x}", frame.module, svma.0) };
    let (file, line) = match &frame.position {
        Some(position) => (position.file.clone(), position.line),
        None => (String::new(), 0),
    };
    Some(Code { address, function, file, line })
}
