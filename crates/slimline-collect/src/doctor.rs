//! What this machine and a command allow, found by trying. Data only: the command line prints it.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use slimline_trace::session::{Machine, Skid, Trigger};
use slimline_trace::wire::TriggerKind;

use crate::calibrate::{Calibrating, Calibration};
use crate::clock::tick_ns;
use crate::limits::{self, Limit};
use crate::perf_rings::{RingOptions, Rings};
use crate::program::Runs;
use crate::run_directory::{Library, RunDirectory};
use crate::usable_hardware::{NoHardware, UsableHardware};
use crate::{machine, perf_refusal, pmu, proc_text, program, trigger};

/// Everything found.
#[derive(Clone, Debug)]
pub struct Diagnosis {
    /// The machine.
    pub machine: Machine,
    /// Version of the C library that slimline itself runs with, where it could be told.
    pub libc: Option<String>,
    /// `kernel.perf_event_paranoid`.
    pub perf_event_paranoid: Option<i32>,
    /// Where the rings would go and what is free there, or why there is no place.
    pub run_directory: Result<(PathBuf, u64), String>,
    /// What calibration found with the best trigger there is.
    pub skid: Skid,
    /// CPU time that one trigger takes, where it could be measured.
    pub trigger_cost_ns: Option<u64>,
    /// What `record` interrupts threads with where it is not told, and why; `None` where nothing was granted.
    pub trigger: Option<(Trigger, String)>,
    /// Samples a second and thread that `record` takes where it is not told, and why; `None` likewise.
    pub rate: Option<(f64, String)>,
    /// Resource limits that recording meets.
    pub limits: Vec<Limit>,
    /// One row for each way to collect, best first.
    pub capabilities: Vec<Capability>,
    /// The command, where one was given.
    pub command: Option<CommandDiagnosis>,
}

/// One way to collect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capability {
    /// Its name, and the variant after a slash.
    pub collector: &'static str,
    /// Whether it would work.
    pub availability: Availability,
    /// Why, or why not, in one line.
    pub reason: String,
    /// What would make it available.
    pub remedy: Option<String>,
}

/// Whether a way to collect would work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Availability {
    /// Tried, and works; whether it does for a given command is told by [`CommandDiagnosis::obstacle`].
    Available,
    /// Tried, and does not work here.
    Unavailable,
}

/// A command, looked at as `record` would.
#[derive(Clone, Debug)]
pub struct CommandDiagnosis {
    /// The file that would run; `None` where it was not found.
    pub program: Option<PathBuf>,
    /// The file whose code would run: `program`, or the interpreter of a script. `None` where it can't be recorded.
    pub runs: Option<PathBuf>,
    /// Why it would be sampled from outside, by perf's rings, where the agent can't be preloaded.
    pub without_agent: Option<String>,
    /// Why it can't be recorded, in one line with the remedy.
    pub obstacle: Option<String>,
}

/// Tries what this machine allows. `calibration` as in [`RecordOptions`](crate::RecordOptions); without it nothing can
/// be tried, which the reasons then say. `program` is the first word of a command.
pub fn doctor(program: Option<&OsString>, calibration: &[OsString]) -> Diagnosis {
    let run = RunDirectory::with(&[Library::Agent]);
    let probe = |trigger| match &run {
        Ok(run) => Calibrating::start(calibration, run, trigger).finish(),
        Err(error) => Calibration::assumed(&error.to_string()),
    };
    let sigtrap = probe(TriggerKind::PerfSigtrap);
    let timer = probe(TriggerKind::ThreadTimer);
    let is_sigtrap_granted = matches!(sigtrap.trigger, Some((Trigger::PerfSigtrap, _)));
    let chosen = trigger::choose(None, None, &sigtrap, tick_ns());
    let is_any_granted = sigtrap.trigger.is_some() && chosen.trigger != Trigger::Off;
    let perf_event_paranoid = perf_refusal::paranoid_level();
    Diagnosis {
        machine: machine::describe(),
        libc: libc_version(),
        perf_event_paranoid,
        run_directory: run.as_ref().map(free_room).map_err(ToString::to_string),
        limits: limits::limits(),
        capabilities: vec![
            hardware(UsableHardware::find(Path::new(pmu::EVENT_SOURCES), &pmu::Plan::default())),
            in_process("clock/perf-sigtrap", Trigger::PerfSigtrap, &sigtrap, perf_event_paranoid),
            in_process("clock/thread-timer", Trigger::ThreadTimer, &timer, perf_event_paranoid),
            out_of_process(perf_event_paranoid),
        ],
        trigger_cost_ns: sigtrap.trigger_cost_ns,
        trigger: is_any_granted.then_some((chosen.trigger, chosen.why)),
        rate: chosen.period_why.filter(|_| is_any_granted).map(|why| (1e9 / chosen.period_ns as f64, why)),
        skid: if is_sigtrap_granted { sigtrap.skid } else { timer.skid },
        command: program.map(diagnose),
    }
}

fn in_process(collector: &'static str, wanted: Trigger, found: &Calibration, paranoid: Option<i32>) -> Capability {
    let (availability, reason, remedy) = match found.trigger {
        Some((granted, _)) if granted == wanted => (Availability::Available, "tried, and granted".to_owned(), None),
        Some((_, errno)) => {
            let error = io::Error::from_raw_os_error(errno.cast_signed());
            let reason = format!("the kernel refused it: {error}");
            (Availability::Unavailable, reason, perf_refusal::remedy(errno.cast_signed(), paranoid))
        }
        None => (Availability::Unavailable, found.skid.note.clone(), None),
    };
    Capability { collector, availability, reason, remedy }
}

/// Opened and closed again: nothing is started, so nothing is sampled.
fn out_of_process(paranoid: Option<i32>) -> Capability {
    let (availability, reason, remedy) = match Rings::for_children(&RingOptions::of_clock(1_000_000)) {
        Ok(_) => {
            let reason = "tried, and granted; for static programs and running ones (-p), or with --out-of-process";
            (Availability::Available, reason.to_owned(), None)
        }
        Err(error) => {
            let remedy = perf_refusal::remedy(error.raw_os_error().unwrap_or(0), paranoid);
            (Availability::Unavailable, format!("the kernel refused it: {error}"), remedy)
        }
    };
    Capability { collector: "clock/perf-rings", availability, reason, remedy }
}

/// Sampling by hardware that tells addresses: `found` in this machine, and tried.
fn hardware(found: Result<UsableHardware, NoHardware>) -> Capability {
    let (availability, reason, remedy) = match found {
        Ok(hardware) => {
            let events: Vec<&str> = hardware.events.iter().map(|event| event.name.as_str()).collect();
            let reason = format!("tried, and granted: {}, by {}", hardware.description(), events.join(" "));
            (Availability::Available, reason, None)
        }
        Err(NoHardware { reason, remedy }) => (Availability::Unavailable, reason, remedy),
    };
    Capability { collector: "pmu", availability, reason, remedy }
}

fn diagnose(program: &OsString) -> CommandDiagnosis {
    let (program, checked) = match program::find(program) {
        Ok(program) => {
            let checked = program::what_runs(&program);
            (Some(program), checked)
        }
        Err(error) => (None, Err(error)),
    };
    match checked {
        Ok(Runs { file, without_agent }) => {
            let without_agent = without_agent.or_else(limits::no_room_for_agent);
            CommandDiagnosis { program, runs: Some(file), without_agent, obstacle: None }
        }
        Err(error) => CommandDiagnosis { program, runs: None, without_agent: None, obstacle: Some(error.to_string()) },
    }
}

/// The mount's directory and the bytes free there.
fn free_room(run: &RunDirectory) -> (PathBuf, u64) {
    let parent = run.path().parent().unwrap_or(run.path()).to_owned();
    let free = rustix::fs::statvfs(&parent).map_or(0, |mount| mount.f_bavail.saturating_mul(mount.f_frsize));
    (parent, free)
}

/// The banner in the C library that is mapped into this process.
fn libc_version() -> Option<String> {
    let maps = proc_text::read("/proc/self/maps").ok()?;
    let library =
        maps.lines().filter_map(|line| line.split_once('/')).find(|(_, path)| path.ends_with("/libc.so.6"))?;
    version_in(&fs::read(format!("/{}", library.1)).ok()?)
}

/// glibc says "… release version 2.36." in its read-only data.
fn version_in(library: &[u8]) -> Option<String> {
    const BEFORE: &[u8] = b"release version ";
    let at = library.windows(BEFORE.len()).position(|window| window == BEFORE)? + BEFORE.len();
    let version: String = library[at..]
        .iter()
        .take(12)
        .map(|&byte| char::from(byte))
        .take_while(|c| c.is_ascii_digit() || *c == '.')
        .collect();
    let version = version.trim_end_matches('.');
    (!version.is_empty()).then(|| format!("glibc {version}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trigger_counts_only_where_it_was_granted() {
        let found = |trigger| {
            let calibration = Calibration { trigger, ..Calibration::assumed("nothing was tried") };
            in_process("clock/perf-sigtrap", Trigger::PerfSigtrap, &calibration, Some(4))
        };
        assert_eq!(found(Some((Trigger::PerfSigtrap, 0))).availability, Availability::Available);
        let refused = found(Some((Trigger::ThreadTimer, 13)));
        assert_eq!(refused.availability, Availability::Unavailable);
        assert!(refused.reason.contains("Permission denied") && refused.remedy.is_some(), "{refused:?}");
        assert!(found(None).reason.contains("nothing was tried"));
    }

    #[test]
    fn counters_are_found_where_the_kernel_lists_them() {
        let scratch = tempfile::tempdir().unwrap();
        let none = hardware(UsableHardware::find(scratch.path(), &pmu::Plan::default()));
        assert_eq!(none.availability, Availability::Unavailable);
        assert!(none.reason.contains("no AMD IBS, Intel PEBS or Arm SPE") && none.remedy.is_some(), "{none:?}");
        fs::create_dir_all(scratch.path().join("ibs_op/format")).unwrap();
        fs::write(scratch.path().join("ibs_op/type"), "11\n").unwrap();
        fs::write(scratch.path().join("ibs_op/format/cnt_ctl"), "config:19\n").unwrap();
        let events = pmu::attrs(scratch.path(), &pmu::Plan::default()).unwrap();
        let found = hardware(Ok(UsableHardware { name: "AMD IBS", events, refused: Vec::new() }));
        assert_eq!(found.availability, Availability::Available);
        assert!(found.reason.ends_with("AMD IBS samples accesses here, by ibs_op/cnt_ctl=1/"), "{found:?}");
    }

    #[test]
    fn the_c_library_tells_its_version() {
        let banner = b"\0GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36.\nCopyright";
        assert_eq!(version_in(banner).as_deref(), Some("glibc 2.36"));
        assert_eq!(version_in(b"no such thing"), None);
        assert!(libc_version().is_some_and(|version| version.starts_with("glibc 2.")));
    }

    #[test]
    fn without_a_program_to_try_nothing_is_claimed() {
        let diagnosis = doctor(Some(&"no-such-program-4711".into()), &[]);
        // That of the rings needs no program.
        let of_programs = |found: &&Capability| found.collector != "clock/perf-rings";
        let mut of_programs = diagnosis.capabilities.iter().filter(of_programs);
        assert!(of_programs.all(|found| found.availability != Availability::Available));
        assert!(!diagnosis.skid.calibrated);
        let command = diagnosis.command.unwrap();
        assert!(command.program.is_none() && command.obstacle.unwrap().contains("not found"));
    }
}
