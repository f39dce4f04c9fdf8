//! The processes that could not be recorded, or only from outside, or not to their end.

use std::collections::HashMap;

use slimline_trace::session::{End, ProcessState, ProcessSummary, SessionInfo};

use crate::text::number::duration;

/// What became of a process whose agent failed.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Fate {
    Outside,
    /// Its agent had recorded something before it gave up.
    InPart,
    Nothing,
}

/// Processes of one program that failed for one reason and had one fate.
struct Alike<'s> {
    first: &'s ProcessSummary,
    program: &'s str,
    why: &'s str,
    fate: Fate,
    count: u64,
    /// CPU time that they are known to have used.
    cpu_ns: u64,
}

/// Which processes were not recorded, were sampled from outside instead or ran on after the command, and why: a line for each
/// program and reason.
pub fn failures(info: &SessionInfo) -> Vec<String> {
    let went_on_outside = info.went_on_outside();
    let mut last_program_ns: HashMap<u32, u64> = HashMap::new();
    for process in info.processes.iter().filter(|process| process.adds_to.is_none()) {
        let last_ns = last_program_ns.entry(process.pid).or_default();
        *last_ns = process.started_ns.max(*last_ns);
    }
    let mut all: Vec<Alike<'_>> = Vec::new();
    let mut places = HashMap::new();
    for process in &info.processes {
        let Some(why) = process.failure.as_deref() else { continue };
        let fate = match process {
            _ if went_on_outside.contains(process.directory.as_str()) => Fate::Outside,
            _ if process.samples > 0 || process.allocations > 0 => Fate::InPart,
            _ => Fate::Nothing,
        };
        let program = match process.executable.as_str() {
            // It went on to another one before anybody could ask what it was.
            "" if last_program_ns.get(&process.pid).is_some_and(|&last_ns| last_ns > process.started_ns) => {
                "before exec"
            }
            program => program,
        };
        let place = *places.entry((program, why, fate)).or_insert_with(|| {
            all.push(Alike { first: process, program, why, fate, count: 0, cpu_ns: 0 });
            all.len() - 1
        });
        let alike = &mut all[place];
        // The last of very many stands for those after it. Children of a process that was recorded are none of them.
        let others = if fate == Fate::Nothing { process.losses.children_unrecorded } else { 0 };
        alike.count = alike.count.saturating_add(others).saturating_add(1);
        for ns in [process.user_ns, process.system_ns].into_iter().flatten() {
            alike.cpu_ns = alike.cpu_ns.saturating_add(ns);
        }
    }
    all.iter().map(Alike::line).chain(left_behind(info)).collect()
}

/// Which processes ran on when the command had ended, with which recording ends.
fn left_behind(info: &SessionInfo) -> Option<String> {
    if !matches!(info.end, Some(End::Exited { .. } | End::Signaled { .. })) {
        return None;
    }
    let mut running = info.processes.iter().filter(|process| process.state == ProcessState::Running);
    let first = running.next()?;
    let (others, they) = match running.count() {
        0 => (String::new(), "it"),
        count => (format!(" and {count} more"), "they"),
    };
    let (pid, program) = (first.pid, &first.executable);
    Some(format!("process {pid} ({program}){others} ran on after the command: recording ended before {they} did"))
}

impl Alike<'_> {
    fn line(&self) -> String {
        let Self { first, program, why, fate, count, cpu_ns } = self;
        // It may have ended before anybody could ask what it ran.
        let program = if program.is_empty() { String::new() } else { format!(" ({program})") };
        let (others, were, they) = match count {
            1 => (String::new(), "was", "it"),
            _ => (format!(" and {} more", count - 1), "were", "they"),
        };
        let used = match cpu_ns {
            1.. if *fate != Fate::Outside => format!("; {they} used at least {} of CPU time", duration(*cpu_ns)),
            _ => String::new(),
        };
        let fate = match fate {
            Fate::Outside => "sampled from outside",
            Fate::InPart => "recorded in part",
            Fate::Nothing => "not recorded",
        };
        format!("process {}{program}{others} {were} {fate}: {why}{used}", first.pid)
    }
}

#[cfg(test)]
mod tests {
    use slimline_trace::session::{AddsTo, Trigger};

    use super::*;
    use crate::session_info::{info, summary};

    fn failed(pid: u32, why: &str) -> ProcessSummary {
        let (directory, failure) = (format!("p{pid}-0"), Some(why.to_owned()));
        ProcessSummary { pid, failure, samples: 0, allocations: 0, ..summary(&directory) }
    }

    fn lines(processes: Vec<ProcessSummary>) -> Vec<String> {
        failures(&SessionInfo { processes, ..info() })
    }

    #[test]
    fn each_program_and_reason_has_a_line() {
        let mut last = failed(9, "for a 32-bit CPU");
        last.losses.children_unrecorded = 5;
        let unnamed = [10, 11].map(|pid| ProcessSummary { executable: String::new(), ..failed(pid, "it is traced") });
        let processes = [failed(7, "for a 32-bit CPU"), failed(8, "set-user-id"), summary("p1-0"), last];
        let expected = [
            "process 7 (/opt/program) and 6 more were not recorded: for a 32-bit CPU",
            "process 8 (/opt/program) was not recorded: set-user-id",
            "process 10 and 1 more were not recorded: it is traced",
        ];
        assert_eq!(lines(processes.into_iter().chain(unnamed).collect()), expected);
    }

    #[test]
    fn a_process_whose_agent_gave_up_was_recorded_if_its_rest_was_sampled() {
        // Before it went on to the program that was sampled.
        let shell =
            ProcessSummary { executable: "/bin/sh".into(), directory: "p7-1".into(), ..failed(7, "it is traced") };
        let adds_to = Some(AddsTo::Rest("p7-0".to_owned()));
        let outside = ProcessSummary { trigger: Trigger::PerfRing, samples: 3, adds_to, ..summary("p7-1000") };
        let expected = [
            "process 7 (/bin/sh) was not recorded: it is traced",
            "process 7 (/opt/program) was sampled from outside: it is traced",
        ];
        assert_eq!(lines(vec![shell, failed(7, "it is traced"), outside]), expected);
    }

    #[test]
    fn what_was_recorded_before_a_failure_counts() {
        let started = ProcessSummary { allocations: 1, ..failed(7, "it confined itself") };
        assert_eq!(lines(vec![started]), ["process 7 (/opt/program) was recorded in part: it confined itself"]);
    }

    /// As gdb's shell.
    #[test]
    fn a_program_without_a_name_is_distinguished_from_the_next_one_of_its_process() {
        let shell = ProcessSummary { executable: String::new(), started_ns: 50, ..failed(7, "it is traced") };
        let expected = [
            "process 7 (before exec) was not recorded: it is traced",
            "process 7 (/opt/program) was not recorded: it is traced",
        ];
        assert_eq!(lines(vec![shell, failed(7, "it is traced")]), expected);
    }

    #[test]
    fn what_the_command_left_running_is_named() {
        let running = |pid| ProcessSummary { pid, state: ProcessState::Running, ..summary("p7-0") };
        let told = |end, processes| failures(&SessionInfo { end: Some(end), processes, ..info() });
        let ended = End::Exited { status: 0 };
        let one = "process 7 (/opt/program) ran on after the command: recording ended before it did";
        let exited = ProcessSummary { state: ProcessState::Exited, ..summary("p6-0") };
        assert_eq!(told(ended, vec![exited, running(7)]), [one]);
        let two = "process 7 (/opt/program) and 1 more ran on after the command: recording ended before they did";
        assert_eq!(told(ended, vec![running(7), running(8)]), [two]);
        assert_eq!(told(End::Detached, vec![running(7)]), [""; 0], "it was asked for");
    }

    #[test]
    fn what_was_not_recorded_has_its_cpu_time() {
        let used =
            |pid| ProcessSummary { user_ns: Some(2_000_000_000), system_ns: Some(250_000_000), ..failed(pid, "no") };
        let line = "process 7 (/opt/program) and 1 more were not recorded: no; they used at least 4.50 s of CPU time";
        assert_eq!(lines(vec![used(7), used(8)]), [line]);
        assert!(lines(vec![used(7)])[0].ends_with(": no; it used at least 2.25 s of CPU time"));
    }
}
