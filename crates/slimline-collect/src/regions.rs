//! Programs whose OpenMP regions are timed by a library that is preloaded into them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use slimline_regions::{
    DIRECTORY_VARIABLE, FUNCTIONS_VARIABLE, Profile, ReadError, STEPS_SUFFIX, STEPS_VARIABLE, SUFFIX, read,
};
use slimline_trace::session::End;
use slimline_trace::tables::{RegionStep, RegionSteps};

use crate::run_directory::{Library, RunDirectory};
use crate::signals::HeldSignals;
use crate::until::{Until, wait};
use crate::{RecordError, program};

/// A signal for us, or the command's end, wakes us before.
const PAUSE: Duration = Duration::from_millis(100);

/// What came of a run whose regions were timed.
#[derive(Debug)]
pub struct RegionsOutcome {
    /// How the command ended.
    pub end: End,
    /// What its processes wrote, by their numbers.
    pub profiles: Vec<WrittenProfile>,
    /// Processes that it started run on: theirs are not among these.
    pub runs_on: bool,
    /// Until this process ends as the command did, nothing else may end it.
    _held: HeldSignals,
}

/// What a process wrote.
#[derive(Clone, Debug)]
pub struct WrittenProfile {
    /// The process.
    pub process: u32,
    /// Its profile, or why it can't be read.
    pub profile: Result<Profile, ReadError>,
}

impl RegionsOutcome {
    /// Ends this process as the command ended; with 2 where that succeeded and we did not.
    pub fn exit(&self, in_vain: bool) -> ! {
        crate::record::exit_as(self.end, in_vain)
    }
}

/// Why the regions of a command can't be timed: the library can't be preloaded into its program. None where they can.
///
/// # Errors
/// There is no such program, or it can't be run.
pub fn why_without_regions(command: &[OsString]) -> Result<Option<String>, RecordError> {
    let name = command.first().ok_or(RecordError::NoCommand)?;
    Ok(program::what_runs(&program::find(name)?)?.without_agent)
}

/// Functions of a program that are regions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegionFunctions {
    /// The program's file.
    pub program: PathBuf,
    /// Their addresses in it.
    pub addresses: Vec<u64>,
}

impl RegionFunctions {
    fn variable(&self) -> OsString {
        let mut value = self.program.clone().into_os_string();
        let addresses: Vec<String> = self.addresses.iter().map(|address| format!("{address:x}")).collect();
        value.push(format!(":{}", addresses.join(",")));
        value
    }
}

/// Runs `command` to its end, and its regions are timed; of functions that the compiler instrumented only `functions` are, if there are
/// any. Standard streams, directory, signals and exit status are the command's own.
///
/// # Errors
/// [`RecordError`] where the command was not started. Once it runs, it runs to its end.
pub fn profile_regions(
    command: &[OsString],
    functions: Option<&RegionFunctions>,
) -> Result<RegionsOutcome, RecordError> {
    let (name, arguments) = command.split_first().ok_or(RecordError::NoCommand)?;
    let program = program::find(name)?;
    program::what_runs(&program)?;
    let run = RunDirectory::with(&[Library::Regions])?;
    let mut held = HeldSignals::for_command().map_err(RecordError::system("can't handle signals"))?;
    let mut started = Command::new(&program);
    started.args(arguments);
    std::os::unix::process::CommandExt::arg0(&mut started, name);
    started.envs(variables(&run)).env_remove(FUNCTIONS_VARIABLE);
    started.envs(functions.map(|functions| (FUNCTIONS_VARIABLE, functions.variable())));
    let child = held.spawn(&mut started).map_err(|error| RecordError::Spawn { program, error })?;
    let mut until = Until::Child(child);
    let mut wakes = until.wakes();
    let end = loop {
        match until.end(&mut held).map_err(RecordError::system("the command was lost"))? {
            Some(end) => break end,
            None => wait(&mut wakes, held.wake(), PAUSE),
        }
    };
    let profiles = written_in(run.path()).map_err(RecordError::system("can't read the run directory"))?;
    let runs_on = run.is_in_use();
    if runs_on {
        run.leave_library();
    }
    Ok(RegionsOutcome { end, profiles, runs_on, _held: held })
}

/// What is in the environment of a program whose regions are timed.
pub(crate) fn variables(run: &RunDirectory) -> [(&'static str, OsString); 2] {
    [("LD_PRELOAD", run.preload(&[Library::Regions])), (DIRECTORY_VARIABLE, run.path().into())]
}

/// The same of a program that is sampled from outside, where each change of a thread's region is wanted.
pub(crate) fn variables_for_samples(run: &RunDirectory) -> [(&'static str, OsString); 3] {
    let [preload, directory] = variables(run);
    [preload, directory, (STEPS_VARIABLE, "1".into())]
}

/// Changes of the regions of threads that were written to a directory, by process, in order. What a record that is cut off says is left out.
pub(crate) fn steps_in(directory: &Path) -> io::Result<BTreeMap<u32, RegionSteps>> {
    let mut all: BTreeMap<u32, RegionSteps> = BTreeMap::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let numbers = name.to_str().and_then(|name| name.strip_suffix(STEPS_SUFFIX)?.split_once('-'));
        let Some((process, tid)) = numbers.and_then(|(process, tid)| Some((process.parse().ok()?, tid.parse().ok()?)))
        else {
            continue;
        };
        let content = fs::read(entry.path())?;
        let (records, _) = content.as_chunks::<16>();
        let steps = all.entry(process).or_default();
        for record in records {
            let (words, _) = record.as_chunks::<8>();
            let [time_ns, region] = [words[0], words[1]].map(u64::from_ne_bytes);
            steps.push(RegionStep { tid, time_ns, region: region as u32 });
        }
    }
    Ok(all.into_iter().map(|(process, steps)| (process, steps.sorted())).collect())
}

/// The profiles in a directory.
pub(crate) fn written_in(directory: &Path) -> io::Result<Vec<WrittenProfile>> {
    let mut profiles = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        // Those that are still written have no number in front.
        let process = entry.file_name().to_str().and_then(|name| name.strip_suffix(SUFFIX)?.parse().ok());
        if let Some(process) = process {
            profiles.push(WrittenProfile { process, profile: read(&fs::read(entry.path())?) });
        }
    }
    profiles.sort_by_key(|written| written.process);
    Ok(profiles)
}
