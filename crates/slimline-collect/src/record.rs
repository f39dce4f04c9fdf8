//! Recording a command, from checking it to the finished session.

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use rustix::process::{Resource, getrlimit};
use slimline_regions::{DIRECTORY_VARIABLE, FUNCTIONS_VARIABLE, STEPS_VARIABLE};
use slimline_trace::path_text::text_of;
use slimline_trace::session::{
    Collector, End, FORMAT_VERSION, Machine, ProcessSummary, RANK_VARIABLES, SessionError, SessionInfo, SessionWriter,
    Trigger, WeightUnit, check_output_directory,
};
use slimline_trace::tables::RegionSteps;
use slimline_trace::wire::{FILE_BYTES, MAX_BURST, RUN_DIRECTORY_VARIABLE, RunConfig, TriggerKind};

use crate::allocators::{AllocatorCall, Allocators};
use crate::calibrate::{Calibrating, Calibration};
use crate::clock::{monotonic_ns, tick_ns, unix_ns};
use crate::drain::Drain;
use crate::inherited;
use crate::loaded_agent::LoadedAgent;
use crate::perf_rings::{RingOptions, Rings, Sampled};
use crate::pid_namespace::check_proc;
use crate::run_directory::{Library, RunDirectory, plain_config};
use crate::signals::{self, HeldSignals};
use crate::source::Source;
use crate::subject::{Subject, Way};
use crate::tree::Tree;
use crate::until::{Until, watch, watch_of};
use crate::writer_thread::WriterThread;
use crate::{RecordError, WrittenProfile, limits, machine, regions, trigger};

/// Instructions of a burst where [`RecordOptions::burst_instructions`] is left as it is.
pub const DEFAULT_BURST_INSTRUCTIONS: u32 = 300;
/// As much as [`RecordOptions::budget_ppm`] allows where it is left as it is: 1 %.
pub const DEFAULT_BUDGET_PPM: u32 = 10_000;

/// What samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CollectorChoice {
    /// Hardware that tells accesses where this machine grants it, else the clock.
    #[default]
    Auto,
    /// The clock.
    Clock,
    /// Hardware, or nothing.
    Pmu,
}

/// How to record.
#[derive(Clone, Debug)]
pub struct RecordOptions {
    /// Program and arguments; the program is looked up in `PATH`.
    pub command: Vec<OsString>,
    /// Processes to sample that run already, from outside. Recording ends when they have ended, or when slimline is asked to
    /// end, or when `command` has ended, which is not recorded then and may be empty.
    pub attach: Vec<u32>,
    /// Sample from outside, by perf's rings, also where the agent could be preloaded.
    pub out_of_process: bool,
    /// Where the session goes. A session that is there and has samples becomes `<output>.old`.
    pub output: PathBuf,
    /// Time between two samples of a thread; `None` for as often as this machine's interrupts allow.
    pub period_ns: Option<u64>,
    /// Instructions to emulate in a burst, at most [`MAX_BURST`]; 0 for none.
    pub burst_instructions: u32,
    /// Part of a thread's CPU time, in millionths, that samples may take before bursts are left out.
    pub budget_ppm: u32,
    /// What samples.
    pub collector: CollectorChoice,
    /// What interrupts threads; `None` for the best that this machine grants. Of the clock: hardware needs none.
    pub trigger: Option<Trigger>,
    /// Whether to track allocations.
    pub track_allocations: bool,
    /// Whether to tell samples by regions of the program: by a second library that is preloaded.
    pub with_regions: bool,
    /// Functions of allocators of the program's own, beside those that are known.
    pub allocators: Vec<AllocatorCall>,
    /// Whether to record programs that the target starts, too.
    pub follow_children: bool,
    /// A command that calls [`run_stall_kernel`](crate::run_stall_kernel) with the microseconds that are appended to
    /// it; empty to assume the skid.
    pub calibration: Vec<OsString>,
    /// Whether this process keeps its standard input and output and what other files it passes on to the command. If not, the
    /// command alone has them once it runs, and whoever waits for the end of a pipe does not wait for this process.
    pub keeps_files: bool,
}

impl RecordOptions {
    /// Defaults for `command`: a rate that suits the machine, bursts of 300 instructions within 1 % of the time, allocations and children
    /// included.
    pub fn new(command: Vec<OsString>) -> Self {
        Self {
            command,
            attach: Vec::new(),
            out_of_process: false,
            output: slimline_trace::session::DEFAULT_DIRECTORY.into(),
            period_ns: None,
            burst_instructions: DEFAULT_BURST_INSTRUCTIONS,
            budget_ppm: DEFAULT_BUDGET_PPM,
            collector: CollectorChoice::Auto,
            trigger: None,
            track_allocations: true,
            with_regions: false,
            allocators: Vec::new(),
            follow_children: true,
            calibration: Vec::new(),
            keeps_files: true,
        }
    }
}

/// A recording that came to its end, though perhaps early.
#[derive(Debug)]
pub struct Outcome {
    /// Where the session is.
    pub directory: PathBuf,
    /// What its `session.json` says (or would say, where the disk is full).
    pub info: SessionInfo,
    /// Profiles of its processes' regions, where they were asked for.
    pub profiles: Vec<WrittenProfile>,
    /// Where their threads were, by process, where they were sampled from outside.
    pub region_steps: BTreeMap<u32, RegionSteps>,
    /// The command that told how long to record running processes, where it runs on: it ignores SIGTERM.
    pub runs_on: Option<u32>,
    /// Until this process ends as the target did, nothing else may end it.
    _held: HeldSignals,
}

impl Outcome {
    /// How the target ended.
    pub fn end(&self) -> End {
        // `record` sets it before it returns.
        self.info.end.unwrap_or(End::Exited { status: 0 })
    }

    /// Ends this process as the target ended: with its exit status, or by the same signal. Where the target succeeded
    /// and recording stopped early the status is 2.
    pub fn exit(&self) -> ! {
        exit_as(self.end(), self.info.stopped_early.is_some())
    }
}

/// Ends this process as the target ended, with status 2 where that succeeded and we did not.
pub(crate) fn exit_as(end: End, has_stopped_early: bool) -> ! {
    match end {
        End::Exited { status: 0 } if has_stopped_early => std::process::exit(2),
        End::Exited { status } => std::process::exit(status),
        // It was not ours to end as.
        End::Detached | End::Gone => std::process::exit(if has_stopped_early { 2 } else { 0 }),
        End::Signaled { signal } => {
            // The core dump is the target's business.
            let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
            let _ = rustix::process::setrlimit(rustix::process::Resource::Core, none);
            signals::end_by(signal);
            // It does not end us: say it as shells do.
            std::process::exit(128 + signal)
        }
    }
}

/// Runs the command and records it until it ends; processes that it leaves behind are recorded up to then. Standard
/// streams, directory, signals and exit status are the target's own. Or records processes that run already.
///
/// # Errors
/// [`RecordError`] where the command was not started. Once it runs, it runs to its end: what fails then is told in
/// [`SessionInfo::stopped_early`].
pub fn record(options: &RecordOptions) -> Result<Outcome, RecordError> {
    limits::check_own()?;
    check_proc()?;
    let subject = Subject::of(options)?;
    check_output_directory(&options.output)?;
    signals::survive_file_size_limit().map_err(RecordError::system("can't handle signals"))?;
    match &subject.way {
        Way::Agent { program, runs } => with_agent(options, &subject, program, runs),
        Way::Rings { .. } => with_rings(options, &subject),
    }
}

/// Measures what depends on the machine, with an agent, whatever samples the target. `run` is none where there is no place
/// for one.
fn calibrate(options: &RecordOptions, run: Option<&RunDirectory>, asked: TriggerKind) -> (Calibration, Machine) {
    let calibrating = match (options.calibration.as_slice(), run) {
        ([], _) => Err(Calibration::assumed("calibration was not asked for")),
        (_, None) => Err(Calibration::assumed("there is no usable directory for the agent that measures it")),
        _ if asked == TriggerKind::Off => Err(Calibration::assumed("nothing is sampled")),
        (command, Some(run)) => Ok(Calibrating::start(command, run, asked)),
    };
    // While it runs.
    let machine = machine::describe();
    (calibrating.map_or_else(|assumed| assumed, Calibrating::finish), machine)
}

/// Starts writing a session.
fn stage(options: &RecordOptions, info: &SessionInfo) -> Result<WriterThread, RecordError> {
    let session = SessionWriter::stage(&options.output, info)?;
    WriterThread::start(session).map_err(RecordError::system("can't start a thread"))
}

fn with_agent(options: &RecordOptions, subject: &Subject, program: &Path, runs: &Path) -> Result<Outcome, RecordError> {
    check_file_size_limit(FILE_BYTES)?;
    // Of two libraries with an `_exit` the first one calls the next.
    let libraries: &[Library] =
        if options.with_regions { &[Library::Regions, Library::Agent] } else { &[Library::Agent] };
    let run = RunDirectory::with(libraries)?;
    let asked = trigger::kind_of(options.trigger.unwrap_or(Trigger::PerfSigtrap));
    let (calibration, machine) = calibrate(options, Some(&run), asked);
    let mut info = session_info(options, subject, machine, &calibration);
    let config = RunConfig {
        period_ns: info.collector.clocks_ns[0],
        between_ns: info.collector.clocks_ns[1],
        burst_instructions: info.collector.burst_instructions,
        budget_ppm: options.budget_ppm,
        skid: calibration.skid.instructions,
        track_allocations: options.track_allocations.into(),
        follow_children: options.follow_children.into(),
        ..plain_config(trigger::kind_of(info.collector.trigger))
    };
    let allocators = Allocators::new(&options.allocators);
    let is_written = run.write_allocators(&allocators.file()).and_then(|()| run.write_config(&config));
    is_written.map_err(RecordError::system("can't write the run directory"))?;
    let mut held = HeldSignals::for_command().map_err(RecordError::system("can't handle signals"))?;
    let writer = stage(options, &info)?;
    let mut command = command(options, program);
    command.env(RUN_DIRECTORY_VARIABLE, run.path()).env("LD_PRELOAD", run.preload(libraries));
    if options.with_regions {
        command.env(DIRECTORY_VARIABLE, run.path()).env_remove(FUNCTIONS_VARIABLE).env_remove(STEPS_VARIABLE);
    }
    let child = match held.spawn(&mut command) {
        Ok(child) => child,
        Err(error) => {
            writer.finish().0.discard();
            return Err(RecordError::Spawn { program: program.to_owned(), error });
        }
    };
    writer.install();
    if !options.keeps_files {
        inherited::let_go();
    }
    if !options.follow_children {
        // Agents of other processes stay idle once they know. Where this fails they are recorded as well.
        let _ = run.write_config(&RunConfig { root_pid: child.id(), ..config });
    }

    let only = (!options.follow_children).then(|| child.id());
    let until = Until::Child(child);
    let drain = Drain::new(run.path().to_owned(), Arc::new(allocators));
    let followed = if info.collector.period_ns > 0 {
        // What the command goes on to or starts may be such that it can't have the agent.
        let ring_options = ring_options(options, &info, Sampled::Clock { period_ns: info.collector.period_ns });
        let agent = LoadedAgent::new(run.library(Library::Agent));
        follow(until, Tree::new(drain, agent, ring_options, only), &mut held, writer, &mut info)
    } else {
        follow(until, drain, &mut held, writer, &mut info)
    };
    let any_alive = followed.any_alive;
    if let (None, Some(first)) = (calibration.trigger, followed.processes.first()) {
        let granted = trigger::granted(options.trigger, Some((first.trigger, first.trigger_errno)));
        info.collector.trigger = granted.trigger;
        info.collector.trigger_reason = granted.why;
        info.collector.trigger_errno = granted.errno;
    }
    if let Some(first) = followed.processes.first() {
        let asked_ns = info.collector.clocks_ns;
        info.collector.clocks_ns = trigger::granted_clocks_ns(asked_ns, first.trigger, first.between_errno);
    }
    let (profiles, region_steps) = regions_of(&run, &mut info);
    let is_readable = File::open(runs).is_ok();
    conclude(followed, &mut info, |end| {
        format!("the program was not recorded: {}", why_without_agent(is_readable, end))
    });
    if any_alive {
        run.leave_library()
    } else {
        drop(run)
    }
    Ok(Outcome { directory: options.output.clone(), info, profiles, region_steps, runs_on: None, _held: held })
}

fn with_rings(options: &RecordOptions, subject: &Subject) -> Result<Outcome, RecordError> {
    let Way::Rings { program, why, hardware } = &subject.way else { return Err(RecordError::NoCommand) };
    let (calibration, machine) = match hardware {
        Some(_) => (Calibration::assumed("the hardware tells the instruction"), machine::describe()),
        None => {
            calibrate(options, RunDirectory::with(&[Library::Agent]).ok().as_ref(), trigger::kind_of(Trigger::PerfRing))
        }
    };
    let mut info = session_info(options, subject, machine, &calibration);
    let sampled = match hardware {
        Some(hardware) => Sampled::Hardware(hardware.events.clone()),
        None => Sampled::Clock { period_ns: info.collector.period_ns },
    };
    let ring_options = ring_options(options, &info, sampled);
    let refused = |error| RecordError::refused_command(why, error);
    let is_attached = !options.attach.is_empty();
    let held = if is_attached { HeldSignals::for_running() } else { HeldSignals::for_command() };
    let mut held = held.map_err(RecordError::system("can't handle signals"))?;
    // Before anything is written or started: it may be refused. What samples a command is inherited from this thread.
    let mut rings = if is_attached {
        Rings::attach(&ring_options, &options.attach, options.follow_children)?
    } else {
        Rings::for_children(&ring_options).map_err(refused)?
    };
    info.collector.weight = rings.weight();
    info.collector.events = rings.sampled_events();
    let run = options.with_regions.then(|| RunDirectory::with(&[Library::Regions])).transpose()?;
    let writer = stage(options, &info)?;
    let spawned = program
        .as_ref()
        .map(|program| {
            let mut command = command(options, program);
            command.envs(run.iter().flat_map(regions::variables_for_samples)).env_remove(FUNCTIONS_VARIABLE);
            (held.spawn(&mut command), program)
        })
        .map(|(spawned, program)| spawned.map_err(|error| RecordError::Spawn { program: program.clone(), error }));
    let child = match spawned.transpose() {
        Ok(child) => child,
        Err(error) => {
            writer.finish().0.discard();
            return Err(error);
        }
    };
    writer.install();
    let until = match child {
        Some(child) if !is_attached => {
            if !options.keeps_files {
                inherited::let_go();
            }
            if !options.follow_children {
                rings.record_only(child.id());
            }
            Until::Child(child)
        }
        meanwhile => {
            Until::Gone { processes: options.attach.iter().filter_map(|&pid| watch_of(pid)).collect(), meanwhile }
        }
    };
    let followed = follow(until, rings, &mut held, writer, &mut info);
    let (profiles, region_steps) = match run {
        Some(run) => {
            let written = regions_of(&run, &mut info);
            if run.is_in_use() {
                run.leave_library();
            }
            written
        }
        None => Default::default(),
    };
    let runs_on = followed.runs_on;
    conclude(followed, &mut info, |_| "the program was not recorded: it ended before the kernel told of it".to_owned());
    Ok(Outcome { directory: options.output.clone(), info, profiles, region_steps, runs_on, _held: held })
}

/// What processes have written of their regions: nothing where that was not asked for, and where their threads were only from outside.
fn regions_of(run: &RunDirectory, info: &mut SessionInfo) -> (Vec<WrittenProfile>, BTreeMap<u32, RegionSteps>) {
    let read = regions::written_in(run.path()).and_then(|profiles| Ok((profiles, regions::steps_in(run.path())?)));
    read.unwrap_or_else(|error| {
        info.stopped_early.get_or_insert(format!("regions could not be read ({error})"));
        Default::default()
    })
}

/// How to sample from outside.
fn ring_options(options: &RecordOptions, info: &SessionInfo, sampled: Sampled) -> RingOptions {
    RingOptions {
        sampled,
        burst_instructions: info.collector.burst_instructions,
        budget_ppm: options.budget_ppm,
        skid: info.collector.skid.instructions,
    }
}

/// The command as the user gave it, with `program` found for its first word.
fn command(options: &RecordOptions, program: &Path) -> Command {
    let mut command = Command::new(program);
    if let Some((name, arguments)) = options.command.split_first() {
        command.arg0(name).args(arguments);
    }
    command
}

/// What came of following the target to its end.
struct Followed {
    end: io::Result<End>,
    runs_on: Option<u32>,
    processes: Vec<ProcessSummary>,
    any_alive: bool,
    session: SessionWriter,
    written: Result<(), SessionError>,
    /// Writing failed while the target ran.
    failed_early: bool,
}

/// Takes in what `source` has until the end, and writes it.
fn follow(
    mut until: Until,
    mut source: impl Source,
    held: &mut HeldSignals,
    writer: WriterThread,
    info: &mut SessionInfo,
) -> Followed {
    let (end, failed_early) = watch(&mut until, held, &mut source, &writer, info);
    let (processes, any_alive) = source.finish(&writer);
    let (session, written) = writer.finish();
    Followed { end, runs_on: until.runs_on(), processes, any_alive, session, written, failed_early }
}

/// Writes the last `session.json`. `why_nothing` says why no process was recorded, where none was.
fn conclude(followed: Followed, info: &mut SessionInfo, why_nothing: impl Fn(Option<End>) -> String) {
    info.processes = followed.processes;
    info.ended_ns = monotonic_ns();
    info.end = Some(followed.end.unwrap_or_else(|error| {
        info.stopped_early = Some(format!("the target was lost: {error}"));
        End::Exited { status: 0 }
    }));
    if let Err(error) = followed.written {
        let when = if followed.failed_early { "while the target ran" } else { "at its end" };
        let what = error.out_of_space().map_or_else(|| "writing failed".to_owned(), |limit| limit.to_string());
        info.stopped_early = Some(format!(
            "recording stopped before the program did: {what} {when} ({error}); kept is what was written before"
        ));
    }
    if info.processes.is_empty() && info.stopped_early.is_none() {
        info.stopped_early = Some(why_nothing(info.end));
    }
    info.complete = info.stopped_early.is_none();
    if let Err(error) = followed.session.update(info)
        && info.stopped_early.is_none()
    {
        info.complete = false;
        info.stopped_early = Some(format!("session.json could not be written at the end ({error})"));
    }
}

/// Refuses a limit on the size of files, which the target inherits and keeps, under which it can't make the file of so many
/// bytes that it shares with us.
pub(crate) fn check_file_size_limit(bytes: usize) -> Result<(), RecordError> {
    match getrlimit(Resource::Fsize).current {
        Some(limit_bytes) if limit_bytes < bytes as u64 => {
            Err(RecordError::FileSizeLimit { limit_bytes, shared_mib: bytes.div_ceil(1 << 20) })
        }
        _ => Ok(()),
    }
}

/// Why no process of the target ever had the agent, although its file looked as if it would, where that could be read.
/// How it ended tells what may have been before the agent came, and nothing for sure.
fn why_without_agent(is_readable: bool, end: Option<End>) -> String {
    let ignored = "its loader ignored LD_PRELOAD";
    match end {
        // The loader's own status. It has told on standard error what it did not find.
        Some(End::Exited { status: 127 }) => {
            format!("its libraries could not be loaded (then its loader has said so), or {ignored}")
        }
        Some(End::Signaled { signal }) => {
            format!("signal {signal} killed it before the agent was loaded, or {ignored}")
        }
        _ if is_readable => format!("{ignored}, or it ended before the agent was loaded"),
        _ => format!("{ignored} (its file can't be read, so why is not known)"),
    }
}

fn session_info(
    options: &RecordOptions,
    subject: &Subject,
    machine: Machine,
    calibration: &Calibration,
) -> SessionInfo {
    let (asked, way_why) = match &subject.way {
        Way::Agent { .. } => (options.trigger, None),
        Way::Rings { why, hardware: None, .. } => (Some(Trigger::PerfRing), Some(why.clone())),
        Way::Rings { why, hardware: Some(_), .. } => (Some(Trigger::Counter), Some(why.clone())),
    };
    let is_hardware = asked == Some(Trigger::Counter);
    let chosen = trigger::choose(asked, options.period_ns, calibration, tick_ns());
    let clocks_ns = chosen.clocks_ns(asked, calibration);
    let started_ns = monotonic_ns();
    SessionInfo {
        format: FORMAT_VERSION,
        slimline_version: env!("CARGO_PKG_VERSION").to_owned(),
        complete: false,
        command: subject.command.clone(),
        program: subject.program.clone(),
        working_directory: env::current_dir()
            .map_or_else(|_| String::new(), |path| text_of(path.as_os_str()).into_owned()),
        environment: environment_that_matters(),
        machine,
        collector: Collector {
            name: if is_hardware { "pmu" } else { "clock" }.to_owned(),
            second_best: subject.no_hardware.clone(),
            trigger: chosen.trigger,
            trigger_reason: way_why.unwrap_or(chosen.why),
            trigger_errno: chosen.errno,
            weight: WeightUnit::TimeNs,
            events: Vec::new(),
            period_ns: chosen.period_ns,
            clocks_ns,
            period_reason: chosen.period_why,
            trigger_cost_ns: calibration.trigger_cost_ns,
            burst_instructions: if is_hardware { 0 } else { options.burst_instructions.min(MAX_BURST as u32) },
            budget_ppm: options.budget_ppm,
            track_allocations: options.track_allocations && matches!(subject.way, Way::Agent { .. }),
            follow_children: options.follow_children,
            skid: calibration.skid.clone(),
        },
        started_unix_ns: unix_ns(),
        started_ns,
        ended_ns: started_ns,
        end: None,
        stopped_early: None,
        imported: None,
        processes: Vec::new(),
    }
}

/// Variables that change how a program uses memory or threads. Others may be secrets, and stay where they are.
fn environment_that_matters() -> BTreeMap<String, String> {
    const NAMES: [&str; 3] = ["LD_PRELOAD", "LD_LIBRARY_PATH", "GLIBC_TUNABLES"];
    const PREFIXES: [&str; 6] = ["OMP_", "GOMP_", "KMP_", "MALLOC_", "MKL_NUM_", "OPENBLAS_NUM_"];
    env::vars_os()
        .filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            let matters = NAMES.contains(&name.as_str())
                || RANK_VARIABLES.as_flattened().contains(&name.as_str())
                || PREFIXES.iter().any(|prefix| name.starts_with(prefix));
            matters.then(|| (name, text_of(&value).into_owned()))
        })
        .collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    #[test]
    fn why_nothing_was_recorded_is_no_more_than_the_end_tells() {
        let ignored = "its loader ignored LD_PRELOAD";
        let exited = |status| why_without_agent(true, Some(End::Exited { status }));
        assert_eq!(exited(0), format!("{ignored}, or it ended before the agent was loaded"));
        assert!(exited(127).contains("libraries could not be loaded") && exited(127).ends_with(ignored));
        // An hour later it may just as well have been killed by somebody.
        let killed = why_without_agent(true, Some(End::Signaled { signal: 2 }));
        assert_eq!(killed, format!("signal 2 killed it before the agent was loaded, or {ignored}"));
        assert!(why_without_agent(false, Some(End::Exited { status: 0 })).contains("can't be read"));
    }

    /// The header of a session that has only begun.
    pub(crate) fn empty_info() -> SessionInfo {
        let options = RecordOptions { collector: CollectorChoice::Clock, ..RecordOptions::new(vec!["true".into()]) };
        let subject = Subject::of(&options).unwrap();
        session_info(&options, &subject, Machine::default(), &Calibration::assumed("test"))
    }
}
