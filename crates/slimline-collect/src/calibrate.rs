//! What of sampling depends on the machine, measured before the run with the agent that will run: how far after the
//! stalled instruction a sample points, and what a trigger costs.

use std::ffi::OsString;
use std::io::Read;
use std::mem::offset_of;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use slimline_trace::session::{Skid, Trigger};
use slimline_trace::wire::{
    PROCESS_FILE_EXTENSION, ProcessHeader, RUN_DIRECTORY_VARIABLE, RunConfig, SLOTS, TriggerKind,
};

use crate::message::{Message, messages};
use crate::process_summary::trigger_of;
use crate::ring::ProcessFile;
use crate::run_directory::{Library, RunDirectory, plain_config};
use crate::stall_kernel::{LOAD_BYTES, NOPS, StallKernel};
use crate::trigger::trigger_cost_ns;

/// Time between two samples of the kernel, while it is sampled.
const PERIOD_NS: u64 = 50_000;
/// CPU time that the kernel's slices take at first: some fifteen samples …
const QUICK_US: u32 = 1500;
/// … and where that gave too few, as with a trigger at the kernel's tick (250 Hz or less).
const SLOW_US: u32 = 200_000;
/// Samples of the load that a verdict needs, and the share that must agree. Measured: 88 to 100 % do, so that eight of
/// which seven agree by chance are next to impossible.
const MIN_SAMPLES: u64 = 8;
const MIN_SHARE: f64 = 0.8;
/// The distance assumed where it is not measured: what every x86-64 CPU measured so far shows.
pub(crate) const ASSUMED_SKID: u32 = 1;

/// What the measurement found.
#[derive(Clone, Debug)]
pub(crate) struct Calibration {
    pub(crate) skid: Skid,
    /// The trigger that the agent got, and the `errno` of the one it asked for. `None` where it could not be asked.
    pub(crate) trigger: Option<(Trigger, u32)>,
    /// CPU time that a trigger takes. `None` where it was not measured: timers at the kernel's tick can't be.
    pub(crate) trigger_cost_ns: Option<u64>,
}

impl Calibration {
    /// What is used where nothing was measured.
    pub(crate) fn assumed(why: &str) -> Self {
        Self { skid: assumed(why), trigger: None, trigger_cost_ns: None }
    }
}

/// A measurement under way, in a process of its own.
#[derive(Debug)]
pub(crate) struct Calibrating<'a> {
    command: &'a [OsString],
    run: &'a RunDirectory,
    trigger: TriggerKind,
    child: Result<Child, String>,
}

impl<'a> Calibrating<'a> {
    /// Starts `command MICROSECONDS`, which must call [`run_stall_kernel`](crate::run_stall_kernel), under the agent.
    /// Until it is finished the run directory's config is the measurement's.
    pub(crate) fn start(command: &'a [OsString], run: &'a RunDirectory, trigger: TriggerKind) -> Self {
        Self { command, run, trigger, child: start(command, run, trigger, QUICK_US) }
    }

    /// Waits for the measurement; repeats it for longer where it gave too few samples.
    pub(crate) fn finish(self) -> Calibration {
        let Self { command, run, trigger, child } = self;
        let measured = child.and_then(|child| finish(child, run)).and_then(|quick| {
            let needs_more = quick.at_distance.iter().sum::<u64>() < MIN_SAMPLES;
            if needs_more {
                start(command, run, trigger, SLOW_US).and_then(|child| finish(child, run))
            } else {
                Ok(quick)
            }
        });
        match measured {
            Ok(Measured { at_distance, trigger, trigger_cost_ns }) => {
                Calibration { skid: verdict(at_distance), trigger: Some(trigger), trigger_cost_ns }
            }
            Err(why) => Calibration::assumed(&why),
        }
    }
}

/// The skid that is used where nothing was measured.
fn assumed(why: &str) -> Skid {
    Skid {
        instructions: ASSUMED_SKID,
        calibrated: false,
        samples_at_distance: Vec::new(),
        note: format!("assumed: {why}"),
    }
}

struct Measured {
    at_distance: Vec<u64>,
    trigger: (Trigger, u32),
    trigger_cost_ns: Option<u64>,
}

fn start(command: &[OsString], run: &RunDirectory, trigger: TriggerKind, microseconds: u32) -> Result<Child, String> {
    let (program, arguments) = command.split_first().ok_or("no calibration program was given")?;
    let config =
        RunConfig { period_ns: PERIOD_NS, track_allocations: 0, burst_instructions: 0, ..plain_config(trigger) };
    run.write_config(&config).map_err(|error| format!("the run directory can't be written: {error}"))?;
    Command::new(program)
        .args(arguments)
        .arg(microseconds.to_string())
        .env(RUN_DIRECTORY_VARIABLE, run.path())
        .env("LD_PRELOAD", run.library(Library::Agent))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("the calibration program can't be started: {error}"))
}

fn finish(mut child: Child, run: &RunDirectory) -> Result<Measured, String> {
    let mut text = String::new();
    if let Some(mut output) = child.stdout.take() {
        // Unreadable output is found out just below.
        let _ = output.read_to_string(&mut text);
    }
    let path = run.path().join(format!("{}-0.{PROCESS_FILE_EXTENSION}", child.id()));
    let status = child.wait().map_err(|error| format!("the calibration program was lost: {error}"))?;
    let found = read_samples(&path, &text);
    // It must not be taken for a process of the run.
    let _ = std::fs::remove_file(&path);
    if !status.success() {
        return Err(format!("the calibration program failed ({status})"));
    }
    found
}

fn read_samples(path: &Path, text: &str) -> Result<Measured, String> {
    let kernel = StallKernel::parse(text).ok_or("the calibration program did not say what it stalls on")?;
    let file = ProcessFile::open(path).map_err(|_| "the agent did not start in the calibration program")?;
    let mut at_distance = vec![0; NOPS as usize + 2];
    let mut times_ns = Vec::new();
    let mut words = Vec::new();
    for slot in (0..SLOTS).map(|slot| file.slot(slot)).filter(|slot| !slot.is_untouched()) {
        slot.take(&mut words).map_err(|_| "its ring is damaged")?;
        for message in messages(&words) {
            if let Ok(Message::Sample(sample)) = message {
                times_ns.push(sample.time_ns);
                if let Some(distance) = distance(sample.sampled_ip, kernel.load) {
                    at_distance[distance] += 1;
                }
            }
        }
    }
    let trigger = trigger_of(file.header_u32(offset_of!(ProcessHeader, trigger)));
    // The kernel can hold back perf's events only: under a timer both slices of a pair are sampled.
    let is_alternating = trigger == Trigger::PerfSigtrap;
    Ok(Measured {
        at_distance,
        trigger: (trigger, file.header_u32(offset_of!(ProcessHeader, trigger_errno))),
        trigger_cost_ns: is_alternating.then(|| trigger_cost_ns(&kernel.slices, &times_ns)).flatten(),
    })
}

/// Instructions from the load to `ip`; `None` outside the part of the kernel where that is known.
fn distance(ip: u64, load: u64) -> Option<usize> {
    let after = ip.checked_sub(load)?;
    match after {
        0 => Some(0),
        _ => after.checked_sub(LOAD_BYTES).filter(|&nops| nops <= NOPS).map(|nops| nops as usize + 1),
    }
}

fn verdict(at_distance: Vec<u64>) -> Skid {
    let total: u64 = at_distance.iter().sum();
    let best = (0..at_distance.len()).max_by_key(|&distance| at_distance[distance]).unwrap_or(0);
    let share = at_distance.get(best).map_or(0.0, |&samples| samples as f64 / total.max(1) as f64);
    let note = format!(
        "{:.0} % of {total} samples of a stalled load point {best} instruction{} after it",
        share * 100.0,
        if best == 1 { "" } else { "s" }
    );
    if total >= MIN_SAMPLES && share >= MIN_SHARE && best <= 1 {
        Skid { instructions: best as u32, calibrated: true, samples_at_distance: at_distance, note }
    } else {
        Skid { samples_at_distance: at_distance, ..assumed(&format!("calibration is unclear: {note}")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_counted_in_instructions() {
        let load = 0x1000;
        let found: Vec<_> = (0x0fff..=0x100b).map(|ip| distance(ip, load)).collect();
        let nops = [Some(1), Some(2), Some(3), Some(4), Some(5), Some(6), Some(7)];
        assert_eq!(found[..4], [None, Some(0), None, None]);
        assert_eq!(found[4..11], nops);
        assert_eq!(found[11..], [None, None]);
    }

    #[test]
    fn a_clear_majority_decides() {
        let skid = verdict(vec![3, 197, 0, 0]);
        assert_eq!((skid.instructions, skid.calibrated), (1, true));
        assert_eq!(skid.note, "98 % of 200 samples of a stalled load point 1 instruction after it");
        let skid = verdict(vec![200, 0, 0, 0]);
        assert_eq!((skid.instructions, skid.calibrated), (0, true));
    }

    #[test]
    fn what_is_unclear_is_assumed_and_said() {
        for unclear in [vec![0; 8], vec![0, 7], vec![70, 30], vec![0, 0, 200]] {
            let skid = verdict(unclear.clone());
            assert_eq!((skid.instructions, skid.calibrated), (1, false), "{unclear:?}");
            assert!(skid.note.contains("unclear"), "{}", skid.note);
        }
    }
}
