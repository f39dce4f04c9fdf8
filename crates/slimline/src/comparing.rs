//! The sides of `slimline diff` and `slimline check`: whatever their paths name.

use std::fs;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail, ensure};
use slimline_analyze::comparison::traced;
use slimline_attribute::module::unread::is_code;
use slimline_collect::Input;
use slimline_report::comparison::{Comparison, Snapshot};
use slimline_report::declared_layouts::{LayoutOrder, TypeFilter};
use slimline_report::simulation::SimulationReport;
use slimline_simulate::simulation::Options;
use slimline_trace::regular_file::open_regular;
use slimline_trace::stream::recording::is_recording;

use crate::accesses;
use crate::declared_layouts;
use crate::machines::{machine, simulation};
use crate::pipeline;
use crate::recorded::RecordedTrace;

/// Bytes that a file is known by.
const BEGIN_BYTES: u64 = 16;
/// No JSON of slimline's that anybody keeps is larger.
const MOST_JSON_BYTES: u64 = 1 << 30;

/// Reads both sides and compares them; misses of traces are those of `machine_name`.
pub(crate) fn compare(old: &Path, new: &Path, machine_name: &str) -> anyhow::Result<Comparison> {
    let (before, after) = (Side::of(old)?, Side::of(new)?);
    // Of a program the types are read that the other side tells.
    let (before, after) = match (before, after) {
        (Side::Program, Side::Program) => {
            let all = TypeFilter::default();
            (types(old, &all)?, types(new, &all)?)
        }
        (Side::Program, after) => {
            let after = after.read(new, machine_name)?;
            (types_as(old, &after)?, after)
        }
        (before, Side::Program) => {
            let before = before.read(old, machine_name)?;
            let after = types_as(new, &before)?;
            (before, after)
        }
        (before, after) => (before.read(old, machine_name)?, after.read(new, machine_name)?),
    };
    let named = |path: &Path| path.display().to_string();
    Comparison::of((named(old), before), (named(new), after)).map_err(|why| anyhow!(why))
}

/// What a path names.
enum Side {
    Session,
    Trace,
    Program,
    Json(String),
}

impl Side {
    fn of(path: &Path) -> anyhow::Result<Self> {
        let shown = || path.display().to_string();
        let found = fs::metadata(path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => anyhow!("{}: No such file or directory", shown()),
            _ => anyhow::Error::from(error).context(shown()),
        })?;
        if found.is_dir() {
            return Ok(if is_recording(path) { Self::Trace } else { Self::Session });
        }
        ensure!(found.is_file(), "{}: not a regular file", shown());
        let mut begin = Vec::new();
        open_regular(path).and_then(|file| file.take(BEGIN_BYTES).read_to_end(&mut begin)).with_context(shown)?;
        if is_code(&begin) {
            return Ok(Self::Program);
        }
        match Input::open(path).with_context(shown)?.into_text(MOST_JSON_BYTES) {
            Ok(text) if text.trim_start().starts_with('{') => Ok(Self::Json(text)),
            Err(error) if error.kind() != ErrorKind::InvalidData => Err(error).with_context(shown),
            _ => bail!(
                "{}: neither a session, a trace, a program nor JSON of slimline report, layouts or simulate",
                shown()
            ),
        }
    }

    fn read(self, path: &Path, machine_name: &str) -> anyhow::Result<Snapshot> {
        let from_json = |text: &str| Snapshot::of_json(text).map_err(|why| anyhow!("{}: {why}", path.display()));
        match self {
            Self::Session => Ok(Snapshot::of_report(&pipeline::report(path)?)),
            Self::Program => types(path, &TypeFilter::default()),
            Self::Json(text) => from_json(&text),
            Self::Trace => {
                let options = Options::default();
                let mut simulations = vec![simulation(&machine(machine_name)?, machine_name, &options)?];
                let trace = RecordedTrace::open(path)?;
                let read = accesses::read_whole(&trace, &mut simulations)?;
                let outcomes: Vec<_> = simulations.into_iter().map(|simulation| simulation.finish()).collect();
                let simulated =
                    from_json(&SimulationReport::new(read.trace, &outcomes, &read.origins, &options).json())?;
                Ok(simulated.with_types(traced::types(trace.program())))
            }
        }
    }
}

fn types(path: &Path, filter: &TypeFilter) -> anyhow::Result<Snapshot> {
    let files: [PathBuf; 1] = [path.to_owned()];
    Ok(Snapshot::of_layouts(&declared_layouts::read(&files, filter, LayoutOrder::Name)?))
}

/// The types that the other side's filter asks for; a session's may be those of libraries, too.
fn types_as(path: &Path, other: &Snapshot) -> anyhow::Result<Snapshot> {
    let everything = TypeFilter { all: true, ..TypeFilter::default() };
    types(path, other.filter.as_ref().unwrap_or(&everything))
}
