//! What is recorded, and which way suits it: the agent inside, or the clock or hardware from outside.

use crate::mapped_path::executable_of;
use slimline_trace::path_text::{text_of, text_of_existing};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::perf_rings;
use crate::program::Runs;
use crate::record::{CollectorChoice, RecordOptions};
use crate::usable_hardware::UsableHardware;
use crate::{RecordError, limits, pmu, program};

/// What is recorded, and how.
#[derive(Clone, Debug)]
pub(crate) struct Subject {
    /// For the session's head.
    pub(crate) command: Vec<String>,
    /// Path of the program.
    pub(crate) program: String,
    pub(crate) way: Way,
    /// Why the hardware does not sample, where it might have.
    pub(crate) no_hardware: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) enum Way {
    /// In the process. `runs` is the file whose code runs: `program`, or the interpreter of a script.
    Agent { program: PathBuf, runs: PathBuf },
    /// From outside, and why. The program to start, if any; the hardware that samples it, else it is the clock.
    Rings { program: Option<PathBuf>, why: String, hardware: Option<UsableHardware> },
}

/// Why hardware that could sample does not.
const CLOCK_KNOWS_THE_HEAP: &str =
    "it tells heap blocks apart, which hardware samples do not yet; --collector pmu has latencies and memory levels";

/// The hardware that is to sample, if any, and why not, where nobody asked for the clock.
fn hardware(options: &RecordOptions) -> Result<(Option<UsableHardware>, Option<String>), RecordError> {
    let is_asked_for = options.collector == CollectorChoice::Pmu;
    if options.collector == CollectorChoice::Clock || options.trigger.is_some() && !is_asked_for {
        return Ok((None, None));
    }
    let mut plan = pmu::Plan::default();
    if let Some(period_ns) = options.period_ns {
        plan.frequency_hz = (1_000_000_000 / period_ns.max(1)).max(1);
    }
    match UsableHardware::find(Path::new(pmu::EVENT_SOURCES), &plan) {
        Ok(hardware) => Ok((Some(hardware), None)),
        Err(none) if is_asked_for => Err(RecordError::NoHardware(none)),
        Err(none) => Ok((None, Some(none.reason))),
    }
}

impl Subject {
    pub(crate) fn of(options: &RecordOptions) -> Result<Self, RecordError> {
        if let Some(&first) = options.attach.first() {
            return Self::running(options, first);
        }
        let text = |text: &OsString| text_of(text).into_owned();
        let name = options.command.first().ok_or(RecordError::NoCommand)?;
        let program = program::find(name)?;
        let Runs { file: runs, without_agent } = program::what_runs(&program)?;
        if let Some(why) = without_agent.as_ref().filter(|_| options.with_regions) {
            return Err(RecordError::NoRegions(why.clone()));
        }
        let absolute = std::path::absolute(&program).unwrap_or_else(|_| program.clone());
        let (hardware, no_hardware) = hardware(options)?;
        let asked_for = || options.out_of_process.then(|| "asked for (--out-of-process)".to_owned());
        let without_agent = without_agent.or_else(asked_for).or_else(limits::no_room_for_agent);
        let (hardware, no_hardware) = match hardware {
            // From inside the process every heap block is known, from outside its mapping.
            Some(_) if without_agent.is_none() && options.collector == CollectorChoice::Auto => {
                (None, Some(CLOCK_KNOWS_THE_HEAP.to_owned()))
            }
            Some(hardware) => (Some(hardware), None),
            None => (None, no_hardware.filter(|_| without_agent.is_some())),
        };
        let from_outside = hardware.as_ref().map(UsableHardware::description).or(without_agent);
        let way = match from_outside {
            Some(why) => Way::Rings { program: Some(program), why, hardware },
            None => Way::Agent { program, runs },
        };
        let command = options.command.iter().map(text).collect();
        Ok(Self { command, program: text_of_existing(absolute.as_os_str()), way, no_hardware })
    }

    fn running(options: &RecordOptions, first: u32) -> Result<Self, RecordError> {
        options.attach.iter().try_for_each(|&pid| perf_rings::check_process(pid))?;
        let program = options.command.first().map(|name| program::find(name)).transpose()?;
        let command = match options.attach.as_slice() {
            [pid] => perf_rings::command_of(*pid),
            pids => vec!["-p".to_owned(), pids.iter().map(u32::to_string).collect::<Vec<_>>().join(",")],
        };
        let why = match options.attach.len() {
            1 => format!("process {first} ran already"),
            count => format!("{count} processes ran already"),
        };
        let (hardware, no_hardware) = hardware(options)?;
        let why = hardware.as_ref().map_or(why, UsableHardware::description);
        let way = Way::Rings { program, why, hardware };
        Ok(Self { command, program: executable_of(first), way, no_hardware })
    }
}
