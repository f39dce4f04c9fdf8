//! The head of a report, from what the session says of itself.

use std::collections::BTreeSet;
use std::io;

use slimline_analyze::findings::Findings;
use slimline_analyze::quality::SampleQuality;
use slimline_attribute::resolver::{Reason, Resolution, Unresolved};
use slimline_trace::session::{AddsTo, End, ProcessSummary, SessionInfo, Trigger, Unlooked};
use slimline_trace::wire::{BurstEnd, Quality as Found};

use super::served;
use crate::{failures, import_remarks, unseen_calls, view, why_no_samples};

/// Burst ends in the order in which they are told, with their names.
const ENDS: [(BurstEnd, &str); 7] = [
    (BurstEnd::Limit, "limit"),
    (BurstEnd::Agent, "allocation call"),
    (BurstEnd::Syscall, "system call"),
    (BurstEnd::Unknown, "unknown value"),
    (BurstEnd::Unsupported, "unsupported instruction"),
    (BurstEnd::Fault, "fault"),
    (BurstEnd::Full, "full"),
];

pub(super) fn view(
    info: &SessionInfo,
    quality: &SampleQuality,
    resolution: &Resolution,
    findings: &Findings,
) -> view::Session {
    // Agents count in memory that their target can scribble over: sums must not overflow.
    let sum = |of: fn(&ProcessSummary) -> u64| info.processes.iter().map(of).fold(0, u64::saturating_add);
    let collector = &info.collector;
    let user_ns = user_ns(info);
    let skid = &collector.skid;
    let calibration: u64 = skid.samples_at_distance.iter().copied().fold(0, u64::saturating_add);
    let agreeing = skid.samples_at_distance.get(skid.instructions as usize).copied().unwrap_or(0);
    view::Session {
        command: info.command.clone(),
        collector: collector.name.clone(),
        trigger: trigger(info),
        weight: collector.weight,
        events: collector.events.clone(),
        served: served::view(&findings.service, &findings.service),
        frequency_hz: if collector.period_ns == 0 { 0.0 } else { 1e9 / collector.period_ns as f64 },
        frequency_reason: collector.period_reason.clone(),
        burst_instructions: collector.burst_instructions,
        duration_ns: info.duration_ns(),
        ended: match info.end {
            Some(End::Exited { status }) => format!("exit status {status}"),
            Some(End::Signaled { signal }) => format!("killed by signal {signal}"),
            Some(End::Detached) => "ran on".to_owned(),
            Some(End::Gone) => "ended".to_owned(),
            None => "end not recorded".to_owned(),
        },
        complete: info.complete,
        processes: info.process_count() as u64,
        threads: resolution.tables.threads.len() as u64,
        samples: quality.samples,
        accesses: quality.burst_accesses,
        weight_total: quality.weight,
        user_ns,
        unsampled_ns: if collector.weight.is_time() { user_ns.saturating_sub(quality.weight) } else { 0 },
        system_ns: sum(|process| process.system_ns.unwrap_or(0)),
        sampling_ns: sum(|process| process.sampling_ns),
        allocations: sum(|process| process.allocations),
        allocated_bytes: sum(|process| process.allocated_bytes),
        allocations_followed: sum(|process| process.allocations_followed),
        owner_known_share: resolution.tables.inferred.known_share,
        follow_shift: info.processes.iter().map(|process| process.follow_shift).max().unwrap_or(0),
        followed_bytes: info.processes.iter().map(|process| process.followed_bytes).max().unwrap_or(0),
        paced: findings.paced,
        quality: view::Quality {
            exact: quality.share(Found::Exact),
            inverted: quality.share(Found::Inverted),
            next_instance: quality.share(Found::NextInstance),
            lost: quality.share(Found::Lost),
            no_memory: quality.share(Found::NoMemory),
            no_code: quality.share(Found::NoCode),
            ambiguous: quality.share(Found::Ambiguous),
        },
        bursts: view::Bursts {
            count: quality.bursts,
            mean_instructions: quality.mean_burst(),
            ends: ENDS
                .iter()
                .map(|&(end, name)| view::Named { name: name.to_owned(), share: quality.end_share(end) })
                .filter(|named| named.share > 0.0)
                .collect(),
        },
        lost: lost(info, quality),
        unnamed: resolution.unresolved.iter().map(|row| unnamed(row, quality.weight)).collect(),
        skid: skid.instructions,
        skid_agreement: (skid.calibrated && calibration > 0).then(|| agreeing as f64 / calibration as f64),
        no_samples_because: (quality.samples == 0).then(|| why_no_samples(info)).flatten(),
        notes: notes(info),
    }
}

/// CPU time in user mode that is known of all processes. One that told no times, as it was killed or sampled from outside,
/// used at least the time of its samples.
fn user_ns(info: &SessionInfo) -> u64 {
    let is_time = info.collector.weight.is_time();
    let known = |process: &ProcessSummary| process.user_ns.unwrap_or(if is_time { process.weight } else { 0 });
    info.processes.iter().map(known).fold(0, u64::saturating_add)
}

fn lost(info: &SessionInfo, quality: &SampleQuality) -> view::Lost {
    let mut lost = view::Lost {
        unresolved: quality.unresolved,
        deep_stacks: quality.deep_stacks,
        broken_stacks: quality.broken_stacks,
        ..view::Lost::default()
    };
    for process in &info.processes {
        let losses = &process.losses;
        let messages = losses.dropped_messages.saturating_sub(losses.dropped_samples);
        for (into, more) in [
            (&mut lost.dropped, losses.dropped_samples),
            (&mut lost.dropped_weight, losses.dropped_weight),
            (&mut lost.throttled, losses.triggers_in_agent.saturating_add(losses.throttled)),
            (&mut lost.messages, messages),
            (&mut lost.damaged, losses.damaged_messages),
            (&mut lost.threads, losses.threads_without_ring.saturating_add(losses.threads_without_timer)),
            (&mut lost.children, losses.children_unrecorded),
            (&mut lost.stacks, losses.stacks_dropped),
            (&mut lost.blocks, losses.blocks_unindexed),
            (&mut lost.unwritten, losses.unwritten_samples),
            (&mut lost.uncounted_threads, losses.threads_uncounted),
        ] {
            *into = into.saturating_add(more);
        }
    }
    let allocators = info.processes.iter().flat_map(|process| &process.allocators);
    let unseen: BTreeSet<&str> =
        allocators.filter(|one| one.outcome.why_not().is_some()).map(|one| one.function.as_str()).collect();
    lost.allocator_functions = unseen.len() as u64;
    if let Some(imported) = &info.imported {
        // Which of the lost records were samples is not known; nearly all records are.
        lost.dropped = lost.dropped.saturating_add(imported.lost_records).saturating_add(imported.lost_samples);
        lost.throttled = lost.throttled.saturating_add(imported.throttled);
        lost.damaged = lost.damaged.saturating_add(imported.malformed_records);
    }
    lost
}

/// The reason's stable name.
pub(super) fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::NoAddress => "no_address",
        Reason::NoMapping => "no_mapping",
        Reason::NoCallPath => "no_call_path",
        Reason::NoVariable => "no_variable",
        Reason::NoFrame => "no_frame",
        Reason::UnseenMapping => "unseen_mapping",
        Reason::NotFollowed => "not_followed",
        Reason::CodeInNoFile => "code_in_no_file",
        Reason::UnreadableModule => "unreadable_module",
        Reason::NoFunction => "no_function",
        Reason::NoLine => "no_line",
        Reason::LineZero => "line_zero",
        Reason::LinkageStub => "linkage_stub",
        Reason::SplitDebugInfo => "split_debug_info",
        Reason::DamagedDebugInfo => "damaged_debug_info",
    }
}

fn unnamed(row: &Unresolved, weight: u64) -> view::Unnamed {
    view::Unnamed {
        reason: reason(row.reason).to_owned(),
        module: row.module.clone(),
        share: row.weight as f64 / weight.max(1) as f64,
        accesses: row.accesses,
    }
}

fn trigger(info: &SessionInfo) -> String {
    let collector = &info.collector;
    let label = collector.trigger.label();
    let [_, between_ns] = collector.clocks_ns;
    if between_ns == 0 {
        return label.to_owned();
    }
    let without = info.processes.iter().filter(|process| process.between_errno != 0).count();
    let except = if without == 0 { String::new() } else { format!("; refused in {without} of the processes") };
    format!("{label} (in between perf cpu-clock at {:.0} Hz, which weighs nothing{except})", 1e9 / between_ns as f64)
}

/// What a reader must know before trusting the numbers.
fn notes(info: &SessionInfo) -> Vec<String> {
    let mut notes = Vec::new();
    let collector = &info.collector;
    // A timer that was chosen for its price says so at its rate.
    let is_second_best = collector.trigger_errno != 0 || collector.period_reason.is_none();
    if collector.trigger == Trigger::ThreadTimer && is_second_best {
        notes.push(format!(
            "{}; thread timers were used, which the kernel serves at its own tick, usually 250 Hz, whatever was asked",
            collector.trigger_reason
        ));
    }
    if collector.trigger == Trigger::PerfRing {
        notes.push(format!(
            "sampled from outside: {}; blocks of the heap are not told apart, and bursts hold what follows from registers",
            collector.trigger_reason
        ));
    }
    // Those whose agents gave up have lines of their own, with the reason.
    let is_outside = |process: &&ProcessSummary| process.trigger == Trigger::PerfRing && process.adds_to.is_none();
    let outside = info.processes.iter().filter(is_outside).count();
    if outside > 0 && collector.trigger != Trigger::PerfRing {
        notes.push(format!(
            "{outside} of {} processes were sampled from outside, which does not tell their heap allocations apart: their programs \
             can't have the agent, were started without it (env -i), or began by a system call that it did not see",
            info.process_count()
        ));
    }
    let threads = info.processes.iter().filter(|process| matches!(process.adds_to, Some(AddsTo::Thread(_)))).count();
    if threads > 0 {
        let were = if threads == 1 { "1 thread was" } else { &format!("{threads} threads were") };
        notes.push(format!("{were} sampled from outside: system calls (clone) began them that the agent did not see"));
    }
    let is_hardware = collector.trigger == Trigger::Counter;
    if is_hardware && info.imported.is_none() {
        notes.push(format!(
            "sampled from outside: {}; blocks of the heap are not told apart, which --collector clock does",
            collector.trigger_reason
        ));
    }
    let of_kernel = info.processes.iter().map(|process| process.losses.kernel_samples).fold(0, u64::saturating_add);
    if of_kernel > 0 {
        notes.push(format!("{of_kernel} samples of the kernel's code were left out"));
    }
    // What the hardware or others recorded is blamed on the instruction that it tells.
    if !collector.skid.calibrated && !is_hardware {
        notes.push(format!("the skid was assumed, not measured: {}", collector.skid.note));
    }
    notes.extend(recordings(info));
    notes.extend(info.stopped_early.clone());
    notes.extend(info.imported.iter().flat_map(import_remarks));
    let allocators = info.processes.iter().flat_map(|process| &process.allocators);
    notes.extend(unseen_calls(allocators).into_iter().map(|(names, why)| {
        format!("calls of {names} (of an allocator) are not seen, and blocks are taken for others': {why}")
    }));
    let unlooked: BTreeSet<Unlooked> = info.processes.iter().flat_map(|process| &process.unlooked).copied().collect();
    notes.extend(unlooked.into_iter().map(|unlooked| {
        format!("functions of allocators other than the C library's were not looked for in {}", unlooked.objects())
    }));
    notes.extend(failures(info));
    let untimed =
        info.processes.iter().map(|process| process.losses.threads_without_timer).fold(0, u64::saturating_add);
    if untimed > 0 {
        let threads = if untimed == 1 { "1 thread has" } else { &format!("{untimed} threads have") };
        notes.push(format!(
            "{threads} no samples: the limit on pending signals (ulimit -i) left no timer, and there are no perf events \
             instead; raise the limit by the number of threads, or record with --out-of-process"
        ));
    }
    for process in info.processes.iter().filter(|process| process.failure.is_none()) {
        if process.trigger == Trigger::Off && process.trigger_errno != 0 {
            let error = io::Error::from_raw_os_error(process.trigger_errno.cast_signed());
            notes.push(format!("process {} ({}) was not sampled: {error}", process.pid, process.executable));
        }
    }
    notes
}

/// That several recordings are taken together, and which.
fn recordings(info: &SessionInfo) -> Option<String> {
    let mut names: Vec<&str> =
        info.processes.iter().filter_map(|process| process.directory.split_once('/')).map(|(name, _)| name).collect();
    names.dedup();
    let (first, last) = (names.first()?, names.last()?);
    Some(match names.len() {
        1 => format!("the recording of {first} alone"),
        count => format!(
            "{count} recordings are taken together: {first} to {last}; how they were recorded is told as of the first"
        ),
    })
}

#[cfg(test)]
mod tests {
    use slimline_trace::session::{FoundAllocator, HookOutcome, Imported, WeightUnit};

    use super::*;
    use crate::session_info::{info, summary};

    #[test]
    fn the_second_clock_is_told_where_it_was_granted() {
        let mut info = info();
        assert_eq!(trigger(&info), "perf cpu-clock, sigtrap");
        info.collector.clocks_ns = [1_000_000, 8_090_000];
        assert_eq!(
            trigger(&info),
            "perf cpu-clock, sigtrap (in between perf cpu-clock at 124 Hz, which weighs nothing)"
        );
        info.processes.push(ProcessSummary { between_errno: 24, ..summary("p8-0") });
        assert!(trigger(&info).ends_with("which weighs nothing; refused in 1 of the processes)"), "{}", trigger(&info));
    }

    #[test]
    fn hardware_is_told_with_what_it_does_not_see() {
        let mut info = info();
        info.collector.trigger = Trigger::Counter;
        info.collector.trigger_reason = "AMD IBS samples accesses here".into();
        info.collector.skid.calibrated = false;
        info.processes[0].losses.kernel_samples = 3;
        let expected = [
            "sampled from outside: AMD IBS samples accesses here; blocks of the heap are not told apart, which \
             --collector clock does",
            "3 samples of the kernel's code were left out",
        ];
        assert_eq!(notes(&info), expected);
    }

    #[test]
    fn what_is_damaged_was_not_dropped() {
        let damaged = Imported { malformed_records: 3, ..Imported::default() };
        let info = SessionInfo { imported: Some(damaged), processes: Vec::new(), ..info() };
        let lost = lost(&info, &SampleQuality::default());
        assert_eq!((lost.damaged, lost.messages, lost.dropped), (3, 0, 0));
    }

    #[test]
    fn a_refused_perf_is_told_whoever_chose_the_rate() {
        let mut info = info();
        info.collector.trigger = Trigger::ThreadTimer;
        assert_eq!(notes(&info), [""; 0], "chosen for its price");
        info.collector.trigger_errno = 13;
        info.collector.trigger_reason = "perf_event_open with sigtrap was refused: Permission denied".into();
        assert!(info.collector.period_reason.is_some());
        let refused = notes(&info);
        assert!(refused.len() == 1 && refused[0].contains("refused: Permission denied; thread timers"), "{refused:?}");
        info.collector.trigger_errno = 0;
        info.collector.period_reason = None;
        assert_eq!(notes(&info).len(), 1, "a rate was asked for that timers do not have");
    }

    #[test]
    fn functions_that_are_not_hooked_are_lost_and_told_once() {
        let mut info = info();
        let found = |function: &str, outcome| FoundAllocator { function: function.to_owned(), outcome };
        info.processes[0].allocators = vec![found("take", HookOutcome::Calls), found("give", HookOutcome::Followed)];
        info.processes.push(ProcessSummary { allocators: vec![found("take", HookOutcome::Calls)], ..summary("p8-0") });
        assert_eq!(lost(&info, &SampleQuality::default()).allocator_functions, 1);
        let told = notes(&info);
        assert!(told.len() == 1 && told[0].starts_with("calls of `take` (of an allocator) are not seen"), "{told:?}");
        assert!(told[0].ends_with(": its first instructions call another function"), "{told:?}");
    }

    #[test]
    fn objects_that_were_not_looked_through_are_told_once() {
        let mut info = info();
        info.processes[0].unlooked = vec![Unlooked::LoadedLater, Unlooked::BeyondMost];
        info.processes.push(ProcessSummary { unlooked: vec![Unlooked::LoadedLater], ..summary("p8-0") });
        let told = notes(&info);
        assert_eq!(told.len(), 2, "{told:?}");
        assert!(told[0].contains("were not looked for in objects that are loaded while it runs (dlopen)"), "{told:?}");
    }

    #[test]
    fn each_process_that_was_sampled_from_outside_has_one_note() {
        let mut info = info();
        let outside =
            |directory: &str, adds_to| ProcessSummary { trigger: Trigger::PerfRing, adds_to, ..summary(directory) };
        let failed = ProcessSummary { failure: Some("it is traced".to_owned()), ..summary("p8-0") };
        info.processes.extend([
            failed,
            outside("p8-1000", Some(AddsTo::Rest("p8-0".to_owned()))),
            outside("p7-1001", Some(AddsTo::Thread("p7-0".to_owned()))),
            outside("p9-1002", None),
        ]);
        let notes = notes(&info);
        let outside: Vec<&String> = notes.iter().filter(|note| note.contains("from outside")).collect();
        let [processes, thread, failed] = outside[..] else { panic!("{notes:?}") };
        assert!(processes.starts_with("1 of 3 processes were sampled from outside, "), "{processes}");
        assert!(thread.starts_with("1 thread was sampled from outside: "), "{thread}");
        assert_eq!(failed, "process 7 (/opt/program) was sampled from outside: it is traced");
    }

    /// Its samples' time counts: the kernel's share is of all time that is known.
    #[test]
    fn processes_without_times_used_what_their_samples_weigh() {
        let mut info = info();
        info.processes[0].user_ns = Some(1_000_000);
        info.processes[0].system_ns = Some(6_000_000);
        info.processes.push(ProcessSummary { trigger: Trigger::PerfRing, weight: 93_000_000, ..summary("p8-1000") });
        assert_eq!(user_ns(&info), 94_000_000);
        info.collector.weight = WeightUnit::LatencyCycles;
        assert_eq!(user_ns(&info), 1_000_000);
    }

    #[test]
    fn a_process_that_got_no_trigger_is_told() {
        let mut info = info();
        info.processes.push(ProcessSummary { trigger: Trigger::Off, trigger_errno: 16, ..summary("p8-0") });
        let told = notes(&info);
        assert!(told.len() == 1 && told[0].starts_with("process 7 (/opt/program) was not sampled: "), "{told:?}");
    }
}
