//! Recording a command, from checking it to the finished session.

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Resource, getrlimit, pidfd_open};
use slimline_trace::session::{
    Collector, End, FORMAT_VERSION, Machine, SessionInfo, SessionWriter, Trigger, WeightUnit, check_output_directory,
};
use slimline_trace::wire::{FILE_BYTES, MAX_BURST, RUN_DIRECTORY_VARIABLE, RunConfig, TriggerKind};

use crate::calibrate::{Calibrating, Calibration};
use crate::clock::{monotonic_ns, tick_ns, unix_ns};
use crate::drain::Drain;
use crate::run_directory::{RunDirectory, plain_config};
use crate::signals::{self, HeldSignals};
use crate::writer_thread::WriterThread;
use crate::{RecordError, machine, program, trigger};

/// Instructions of a burst where [`RecordOptions::burst_instructions`] is left as it is.
pub const DEFAULT_BURST_INSTRUCTIONS: u32 = 300;
/// As much as [`RecordOptions::budget_ppm`] allows where it is left as it is: 1 %.
pub const DEFAULT_BUDGET_PPM: u32 = 10_000;

/// How to record.
#[derive(Clone, Debug)]
pub struct RecordOptions {
    /// Program and arguments; the program is looked up in `PATH`.
    pub command: Vec<OsString>,
    /// Where the session goes. A session that is there and has samples becomes `<output>.old`.
    pub output: PathBuf,
    /// Time between two samples of a thread; `None` for as often as this machine's interrupts allow.
    pub period_ns: Option<u64>,
    /// Instructions to emulate in a burst, at most [`MAX_BURST`]; 0 for none.
    pub burst_instructions: u32,
    /// Part of a thread's CPU time, in millionths, that samples may take before bursts are left out.
    pub budget_ppm: u32,
    /// What interrupts threads; `None` for the best that this machine grants.
    pub trigger: Option<Trigger>,
    /// Whether to track allocations.
    pub track_allocations: bool,
    /// Whether to record programs that the target starts, too.
    pub follow_children: bool,
    /// A command that calls [`run_stall_kernel`](crate::run_stall_kernel) with the microseconds that are appended to
    /// it; empty to assume the skid.
    pub calibration: Vec<OsString>,
}

impl RecordOptions {
    /// Defaults for `command`: a rate that suits the machine, bursts of 300 instructions within 1 % of the time, allocations and children
    /// included.
    pub fn new(command: Vec<OsString>) -> Self {
        Self {
            command,
            output: slimline_trace::session::DEFAULT_DIRECTORY.into(),
            period_ns: None,
            burst_instructions: DEFAULT_BURST_INSTRUCTIONS,
            budget_ppm: DEFAULT_BUDGET_PPM,
            trigger: None,
            track_allocations: true,
            follow_children: true,
            calibration: Vec::new(),
        }
    }
}

/// A recording that came to its end, though perhaps early.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Where the session is.
    pub directory: PathBuf,
    /// What its `session.json` says (or would say, where the disk is full).
    pub info: SessionInfo,
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
        match self.end() {
            End::Exited { status: 0 } if self.info.stopped_early.is_some() => std::process::exit(2),
            End::Exited { status } => std::process::exit(status),
            End::Signaled { signal } => {
                // The core dump is the target's business.
                let none = rustix::process::Rlimit { current: Some(0), maximum: Some(0) };
                let _ = rustix::process::setrlimit(rustix::process::Resource::Core, none);
                let _ = signal_hook::low_level::emulate_default_handler(signal);
                // The signal does not end processes by default, or we ignore it: say it as shells do.
                std::process::exit(128 + signal)
            }
        }
    }
}

/// Runs the command and records it until it ends; processes that it leaves behind are recorded up to then. Standard
/// streams, directory, signals and exit status are the target's own.
///
/// # Errors
/// [`RecordError`] where the command was not started. Once it runs, it runs to its end: what fails then is told in
/// [`SessionInfo::stopped_early`].
pub fn record(options: &RecordOptions) -> Result<Outcome, RecordError> {
    let (name, arguments) = options.command.split_first().ok_or(RecordError::NoCommand)?;
    let program = program::find(name)?;
    let runs = program::check_preloadable(&program)?;
    check_output_directory(&options.output)?;

    signals::survive_file_size_limit().map_err(RecordError::system("can't handle signals"))?;
    check_file_size_limit()?;
    let run = RunDirectory::create()?;
    let asked = trigger::kind_of(options.trigger.unwrap_or(Trigger::PerfSigtrap));
    let calibrating = match options.calibration.as_slice() {
        [] => Err(Calibration::assumed("calibration was not asked for")),
        _ if asked == TriggerKind::Off => Err(Calibration::assumed("nothing is sampled")),
        command => Ok(Calibrating::start(command, &run, asked)),
    };
    // While it runs.
    let machine = machine::describe();
    let calibration = calibrating.map_or_else(|assumed| assumed, Calibrating::finish);
    let mut info = session_info(options, &program, machine, &calibration);
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
    run.write_config(&config).map_err(RecordError::system("can't write the run directory"))?;
    let held = HeldSignals::hold().map_err(RecordError::system("can't handle signals"))?;
    let session = SessionWriter::stage(&options.output, &info)?;
    let writer = WriterThread::start(session).map_err(RecordError::system("can't start a thread"))?;
    let spawned = Command::new(&program)
        .arg0(name)
        .args(arguments)
        .env(RUN_DIRECTORY_VARIABLE, run.path())
        .env("LD_PRELOAD", run.preload())
        .spawn();
    let child = match spawned {
        Ok(child) => child,
        Err(error) => {
            writer.finish().0.discard();
            return Err(RecordError::Spawn { program, error });
        }
    };
    writer.install();
    if !options.follow_children {
        // Agents of other processes stay idle once they know. Where this fails they are recorded as well.
        let _ = run.write_config(&RunConfig { root_pid: child.id(), ..config });
    }

    let mut drain = Drain::new(run.path().to_owned());
    let (status, failed_early) = watch(child, &held, &mut drain, &writer, &mut info);
    let (processes, any_alive) = drain.finish(&writer);
    let (session, written) = writer.finish();
    if let (None, Some(first)) = (calibration.trigger, processes.first()) {
        let granted = trigger::granted(options.trigger, Some((first.trigger, first.trigger_errno)));
        info.collector.trigger = granted.trigger;
        info.collector.trigger_reason = granted.why;
        info.collector.trigger_errno = granted.errno;
    }
    if let Some(first) = processes.first() {
        let asked_ns = info.collector.clocks_ns;
        info.collector.clocks_ns = trigger::granted_clocks_ns(asked_ns, first.trigger, first.between_errno);
    }
    info.processes = processes;
    info.ended_ns = monotonic_ns();
    info.end = Some(match status {
        Ok(status) => end_of(status),
        Err(error) => {
            info.stopped_early = Some(format!("the target was lost: {error}"));
            End::Exited { status: 0 }
        }
    });
    if let Err(error) = written {
        let when = if failed_early { "while the target ran" } else { "at its end" };
        let what = error.out_of_space().map_or_else(|| "writing failed".to_owned(), |limit| limit.to_string());
        info.stopped_early = Some(format!(
            "recording stopped before the program did: {what} {when} ({error}); kept is what was written before"
        ));
    }
    if info.processes.is_empty() && info.stopped_early.is_none() {
        info.stopped_early =
            Some(format!("the program was not recorded: {}", why_without_agent(File::open(&runs).is_ok(), info.end)));
    }
    info.complete = info.stopped_early.is_none();
    if let Err(error) = session.update(&info)
        && info.stopped_early.is_none()
    {
        info.complete = false;
        info.stopped_early = Some(format!("session.json could not be written at the end ({error})"));
    }
    if any_alive {
        run.leave_agent()
    } else {
        drop(run)
    }
    drop(held);
    Ok(Outcome { directory: options.output.clone(), info })
}

/// Refuses a limit on the size of files, which the target inherits and keeps, under which its agent can't make the file
/// that it shares with us.
fn check_file_size_limit() -> Result<(), RecordError> {
    match getrlimit(Resource::Fsize).current {
        Some(limit_bytes) if limit_bytes < FILE_BYTES as u64 => Err(RecordError::FileSizeLimit { limit_bytes }),
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

/// Drains until the target ends. Returns its status, and whether writing failed meanwhile.
fn watch(
    mut child: Child,
    signals: &HeldSignals,
    drain: &mut Drain,
    writer: &WriterThread,
    info: &mut SessionInfo,
) -> (io::Result<ExitStatus>, bool) {
    let pid = Pid::from_child(&child);
    // Wakes us when the target ends; without it (old kernels) the end is noticed one pause later.
    let exit = pidfd_open(pid, PidfdFlags::empty()).ok();
    let mut has_failed = false;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return (Ok(status), has_failed),
            Ok(None) => {}
            Err(error) => return (Err(error), has_failed),
        }
        signals.forward_to(pid);
        if !has_failed && writer.has_failed() {
            has_failed = true;
            drain.stop();
        }
        if !has_failed && drain.pass(writer) {
            info.processes = drain.summaries();
            info.ended_ns = monotonic_ns();
            writer.send_header(info.clone());
            drain.write_parts(writer);
        }
        wait(exit.as_ref(), drain.pause());
    }
}

/// Waits until the target ends, a signal comes or `pause` is over.
fn wait(exit: Option<&OwnedFd>, pause: Duration) {
    let mut ready: Vec<PollFd<'_>> = exit.map(|exit| PollFd::new(exit, PollFlags::IN)).into_iter().collect();
    let pause = Timespec { tv_sec: pause.as_secs().cast_signed(), tv_nsec: pause.subsec_nanos().into() };
    // Interrupted by a signal, or nothing to wait for: the caller looks again.
    let _ = poll(&mut ready, Some(&pause));
}

fn end_of(status: ExitStatus) -> End {
    match (status.code(), status.signal()) {
        (Some(status), _) => End::Exited { status },
        (None, Some(signal)) => End::Signaled { signal },
        (None, None) => End::Exited { status: 0 },
    }
}

fn session_info(options: &RecordOptions, program: &Path, machine: Machine, calibration: &Calibration) -> SessionInfo {
    let text = |text: &OsStr| text.to_string_lossy().into_owned();
    let chosen = trigger::choose(options.trigger, options.period_ns, calibration, tick_ns());
    let clocks_ns = chosen.clocks_ns(options.trigger, calibration);
    let started_ns = monotonic_ns();
    let absolute = std::path::absolute(program).unwrap_or_else(|_| program.to_owned());
    SessionInfo {
        format: FORMAT_VERSION,
        slimline_version: env!("CARGO_PKG_VERSION").to_owned(),
        complete: false,
        command: options.command.iter().map(|part| text(part)).collect(),
        program: text(absolute.as_os_str()),
        working_directory: env::current_dir().map_or_else(|_| String::new(), |path| text(path.as_os_str())),
        environment: environment_that_matters(),
        machine,
        collector: Collector {
            name: "clock".to_owned(),
            trigger: chosen.trigger,
            trigger_reason: chosen.why,
            trigger_errno: chosen.errno,
            weight: WeightUnit::TimeNs,
            events: Vec::new(),
            period_ns: chosen.period_ns,
            clocks_ns,
            period_reason: chosen.period_why,
            trigger_cost_ns: calibration.trigger_cost_ns,
            burst_instructions: options.burst_instructions.min(MAX_BURST as u32),
            budget_ppm: options.budget_ppm,
            track_allocations: options.track_allocations,
            follow_children: options.follow_children,
            skid: calibration.skid.clone(),
        },
        started_unix_ns: unix_ns(),
        started_ns,
        ended_ns: started_ns,
        end: None,
        stopped_early: None,
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
            let matters = NAMES.contains(&name.as_str()) || PREFIXES.iter().any(|prefix| name.starts_with(prefix));
            matters.then(|| (name, value.to_string_lossy().into_owned()))
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
        let options = RecordOptions::new(vec!["true".into()]);
        session_info(&options, Path::new("/bin/true"), Machine::default(), &Calibration::assumed("test"))
    }
}
