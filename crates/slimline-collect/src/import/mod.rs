//! Sessions of what other tools recorded.
//!
//! A file is turned into an ordinary session, so that every report works with it. What it does not tell stays unknown: no
//! burst, no allocation, no call path of one.

mod address_trace;
mod description;
mod drmemtrace;
mod error;
mod input;
mod naming;
mod perf_data;
mod program;
mod programs;
mod table;

use std::path::{Path, PathBuf};

use slimline_trace::session::{Collector, Imported, Machine, SessionInfo, SessionWriter, Skid, Trigger};

pub use address_trace::{AddressFormat, AddressTraceError, AddressesRead, TracedAccess, TracedKind, read_addresses};
use description::Description;
pub use drmemtrace::{
    AddressInput, DrmemtraceError, DrmemtraceInput, DrmemtraceLosses, ThreadPart, is_drmemtrace, open_addresses,
    read_drmemtrace,
};
pub use error::ImportError;
pub use input::{Input, InputError, packing_advice};
use programs::Programs;
use table::TableInput;
pub use table::{ColumnMap, TableAccess, TableLosses, read_access_table};

/// What to import.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// The file; `-` for standard input.
    pub input: PathBuf,
    /// The session's directory.
    pub output: PathBuf,
    /// Which column is what, of a table of samples (CSV or Parquet); `None` of a perf.data file.
    pub columns: Option<ColumnMap>,
}

/// A session that was made.
#[derive(Debug)]
pub struct ImportOutcome {
    /// Where it is.
    pub directory: PathBuf,
    /// What `session.json` says.
    pub info: SessionInfo,
}

/// Makes a session of a file. What is in its place stays there until all of the file has been read. `progress` is told now and then
/// how many bytes of the file were read so far.
///
/// # Errors
/// The file is not one that can be imported, has no samples, or the session can't be written.
pub fn import(options: &ImportOptions, progress: &mut dyn FnMut(u64)) -> Result<ImportOutcome, ImportError> {
    let mut info = empty_info(&options.input);
    let session = SessionWriter::stage(&options.output, &info)?;
    let mut programs = Programs::new(session);
    let read = read(options, &mut programs, progress);
    let (session, finished) = programs.finish();
    let imported = read.and_then(|description| Ok((description, finished?)));
    let described = imported.and_then(|(description, processes)| {
        describe(&mut info, description);
        info.processes = processes;
        if info.processes.is_empty() { Err(ImportError::NoSamples(why_none(info.imported.as_ref()))) } else { Ok(()) }
    });
    install(session, &info, described)
}

/// Puts the session into its place, or removes it.
fn install(
    mut session: SessionWriter,
    info: &SessionInfo,
    described: Result<(), ImportError>,
) -> Result<ImportOutcome, ImportError> {
    let installed = described.and_then(|()| {
        session.update(info)?;
        session.install()?;
        Ok(())
    });
    match installed {
        Ok(()) => Ok(ImportOutcome { directory: session.directory().to_owned(), info: info.clone() }),
        Err(error) => {
            session.discard();
            Err(error)
        }
    }
}

fn read(
    options: &ImportOptions,
    programs: &mut Programs,
    progress: &mut dyn FnMut(u64),
) -> Result<Description, ImportError> {
    let path = &options.input;
    if path != Path::new("-") && std::fs::metadata(path).map_err(ImportError::Read)?.is_dir() {
        return Err(ImportError::Directory);
    }
    let input = Input::open(path)?;
    match &options.columns {
        Some(columns) => table::read(TableInput::of(input)?, columns, programs, progress),
        None => perf_data::read(input, programs, progress),
    }
}

fn describe(info: &mut SessionInfo, description: Description) {
    info.command = description.command;
    info.machine = description.machine;
    info.started_unix_ns = description.started_unix_ns;
    (info.started_ns, info.ended_ns) = (description.started_ns, description.ended_ns);
    info.collector.weight = description.weight;
    info.collector.period_ns = description.period_ns;
    info.collector.events = description.events;
    info.stopped_early = description.stopped_early;
    let file = info.imported.take().map_or_else(String::new, |imported| imported.file);
    info.imported = Some(Imported { file, ..description.counts });
}

/// What became of all samples, where none is left.
fn why_none(imported: Option<&Imported>) -> String {
    let Some(imported) = imported else { return "there are none".to_owned() };
    let reasons = [
        (imported.kernel_samples, "of the kernel's code"),
        (imported.samples_without_thread, "without thread or instruction"),
        (imported.malformed_records, "damaged"),
        (imported.records_without_event, "of unknown events"),
        (imported.aux_bytes, "bytes of AUX data in a format that is not read, as Intel PT's (Arm SPE's is)"),
    ];
    let told: Vec<String> =
        reasons.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    if told.is_empty() { "there are none".to_owned() } else { told.join(", ") }
}

/// A session of which nothing is known but the file.
fn empty_info(input: &Path) -> SessionInfo {
    let file = input.display().to_string();
    SessionInfo {
        format: slimline_trace::session::FORMAT_VERSION,
        slimline_version: env!("CARGO_PKG_VERSION").to_owned(),
        complete: true,
        command: Vec::new(),
        program: String::new(),
        working_directory: String::new(),
        environment: Default::default(),
        machine: Machine::default(),
        collector: Collector {
            name: "import".to_owned(),
            second_best: None,
            trigger: Trigger::Counter,
            trigger_reason: format!("imported from {file}"),
            trigger_errno: 0,
            weight: Default::default(),
            events: Vec::new(),
            period_ns: 0,
            clocks_ns: [0; 2],
            period_reason: None,
            trigger_cost_ns: None,
            burst_instructions: 0,
            budget_ppm: 0,
            track_allocations: false,
            follow_children: true,
            skid: Skid {
                instructions: 0,
                calibrated: false,
                samples_at_distance: Vec::new(),
                note: "as the recording tells".to_owned(),
            },
        },
        started_unix_ns: 0,
        started_ns: 0,
        ended_ns: 0,
        end: None,
        stopped_early: None,
        imported: Some(Imported { file, ..Imported::default() }),
        processes: Vec::new(),
    }
}
