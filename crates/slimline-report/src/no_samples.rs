//! Why a session has no samples, or few.

use slimline_trace::session::{ProcessState, ProcessSummary, SampledEvent, SessionInfo, Trigger};

use crate::text::number::duration;

/// Events that are named.
const NAMED: usize = 4;
/// With fewer samples shares are of hardly any use: of 30 a half may be a third or two thirds.
const FEW: u64 = 30;
/// A rate that makes many of a run of a second.
const HIGH_RATE_HZ: u64 = 1000;

/// What to do where a session has a few samples only; `None` where it has none, which [`why_no_samples`] is for, or enough, or did not
/// come to its end, which is said already.
pub fn few_samples(info: &SessionInfo) -> Option<String> {
    let samples = info.counted_samples();
    if !info.complete || !(1..FEW).contains(&samples) || info.collector.trigger == Trigger::Off {
        return None;
    }
    let of_clock = 1_000_000_000_u64.checked_div(info.collector.period_ns);
    let rate = of_clock.or_else(|| info.collector.events.iter().filter_map(|event| event.frequency_hz).min());
    Some(match rate {
        Some(hertz) if hertz < HIGH_RATE_HZ => format!(
            "few samples ({samples}) for shares to mean much, at {hertz} a second of each thread's CPU time: record with -F {HIGH_RATE_HZ}, or \
             give it more work"
        ),
        Some(hertz) => format!(
            "few samples ({samples}) for shares to mean much, at {hertz} a second of each thread's CPU time already: give it more work"
        ),
        None => format!("few samples ({samples}) for shares to mean much: give it more work"),
    })
}

/// Why a session has no samples; `None` where it says itself why it is not whole, or why its agents gave up.
pub fn why_no_samples(info: &SessionInfo) -> Option<String> {
    let SessionInfo { processes, .. } = info;
    if info.stopped_early.is_some() || processes.iter().any(|process| process.failure.is_some()) {
        return None;
    }
    Some(match info.end {
        Some(_) if info.collector.trigger == Trigger::Counter => why_none_counted(&info.collector.events),
        Some(_) => why_none_of(processes, info.collector.period_ns),
        None => "none were written yet: slimline still records, or was killed before it had written any".to_owned(),
    })
}

/// Why there are no samples of hardware events.
fn why_none_counted(events: &[SampledEvent]) -> String {
    let mut names: Vec<&str> = events.iter().take(NAMED).map(|event| event.name.as_str()).collect();
    if events.len() > NAMED {
        names.push("others");
    }
    let of = if names.is_empty() { String::new() } else { format!(" of {}", names.join(" and ")) };
    let slow = match events.iter().filter_map(|event| event.least_latency_cycles).min() {
        Some(cycles) => format!(", or no load took {cycles} cycles"),
        None => String::new(),
    };
    format!("there were fewer events{of} than from one sample to the next{slow}; give it more work")
}

/// Why these processes, sampled every `period_ns` of a thread's CPU time, have no samples.
fn why_none_of(processes: &[ProcessSummary], period_ns: u64) -> String {
    let mut without_trigger = processes.iter().filter(|process| process.trigger == Trigger::Off);
    if let Some(first) = without_trigger.next() {
        let others = match without_trigger.count() {
            0 => String::new(),
            others => format!(" and {others} more"),
        };
        return format!(
            "process {} ({}){others} had no trigger, so nothing interrupted it; see `slimline doctor -- COMMAND`",
            first.pid, first.executable
        );
    }
    let user_ns = processes.iter().filter_map(|process| process.user_ns).fold(0, u64::saturating_add);
    if user_ns < period_ns && processes.iter().any(|process| process.state == ProcessState::Running) {
        return "the command ended before what it left running used CPU time".to_owned();
    }
    if user_ns == 0 {
        return "the program hardly ran on a CPU, or never entered user code; see `slimline doctor -- COMMAND`"
            .to_owned();
    }
    let used = format!(
        "the program used {} of CPU time in user mode, and a thread's first sample comes after {}",
        duration(user_ns),
        duration(period_ns)
    );
    // One thread each would have had a sample by then. How many there were is not known here.
    if user_ns < period_ns.saturating_mul(2 * processes.len() as u64) {
        format!("{used}; give it more work, or raise the rate with -F")
    } else {
        format!(
            "{used}: its threads were short, or were not interrupted; raise the rate with -F, see `slimline doctor`"
        )
    }
}

#[cfg(test)]
mod tests {
    use slimline_trace::session::End;

    use super::*;
    use crate::session_info::{info, summary};

    fn process(trigger: Trigger, user_ns: Option<u64>) -> ProcessSummary {
        let (executable, state) = ("/bin/prog".to_owned(), ProcessState::Exited);
        ProcessSummary { executable, state, trigger, samples: 0, weight: 0, accesses: 0, user_ns, ..summary("p7-0") }
    }

    #[test]
    fn what_is_known_is_told_and_no_more() {
        let timer = |user_ns| process(Trigger::ThreadTimer, user_ns);
        let why = |processes: &[ProcessSummary]| why_none_of(processes, 4_000_000);
        assert!(why(&[]).contains("hardly ran"));
        assert!(why(&[timer(None), timer(Some(0))]).contains("hardly ran"));
        let short = "the program used 7.9 ms of CPU time in user mode, and a thread's first sample comes after 4.0 ms";
        assert_eq!(why(&[timer(Some(7_900_000))]), format!("{short}; give it more work, or raise the rate with -F"));
        // A thousand threads of a millisecond each, or interrupts that did not come.
        let long = why(&[timer(Some(1_000_000_000))]);
        assert!(long.contains("1.00 s of CPU time") && long.contains("its threads were short, or were not"), "{long}");
        let off = process(Trigger::Off, Some(1_000_000_000));
        assert!(why(&[timer(Some(1)), off.clone()]).starts_with("process 7 (/bin/prog) had no trigger"));
        assert!(why(&[off.clone(), off]).starts_with("process 7 (/bin/prog) and 1 more had no trigger"));
    }

    #[test]
    fn of_few_samples_it_is_said_how_there_are_more() {
        let told = |samples, trigger, period_ns, frequency_hz| {
            let event = SampledEvent { name: "e".to_owned(), period: None, frequency_hz, least_latency_cycles: None };
            let mut few = info();
            few.processes = vec![ProcessSummary { samples, ..process(trigger, Some(1)) }];
            (few.complete, few.collector.trigger) = (true, trigger);
            (few.collector.period_ns, few.collector.events) = (period_ns, vec![event]);
            few_samples(&few)
        };
        let clock = |samples, period_ns| told(samples, Trigger::ThreadTimer, period_ns, None);
        assert_eq!([clock(0, 4_000_000), clock(30, 4_000_000), told(9, Trigger::Off, 0, None)], [None, None, None]);
        let slow = clock(29, 4_000_000).unwrap();
        assert!(slow.starts_with("few samples (29) for shares to mean much, at 250 a second of"), "{slow}");
        assert!(slow.ends_with("record with -F 1000, or give it more work"), "{slow}");
        let fast = clock(1, 1_000_000).unwrap();
        assert!(fast.contains("at 1000 a second") && !fast.contains("-F"), "{fast}");
        assert!(told(9, Trigger::Counter, 0, Some(99)).unwrap().contains("at 99 a second"));
        assert!(told(9, Trigger::Counter, 0, None).unwrap().ends_with("mean much: give it more work"));
    }

    #[test]
    fn a_counter_has_no_clock_to_blame() {
        let event = |name: &str, least_latency_cycles| SampledEvent {
            name: name.into(),
            period: Some(10_000),
            frequency_hz: None,
            least_latency_cycles,
        };
        let loads = why_none_counted(&[event("cpu/mem-loads/P", Some(30)), event("cpu/mem-stores/P", None)]);
        assert_eq!(
            loads,
            "there were fewer events of cpu/mem-loads/P and cpu/mem-stores/P than from one sample to the next, or no load \
             took 30 cycles; give it more work"
        );
        let many: Vec<SampledEvent> = (0..9).map(|number| event(&format!("e{number}"), None)).collect();
        assert!(why_none_counted(&many).contains(" of e0 and e1 and e2 and e3 and others than "));
        assert!(why_none_counted(&[]).starts_with("there were fewer events than from"));
    }

    #[test]
    fn what_the_session_says_itself_is_not_explained() {
        let ended = SessionInfo { end: Some(End::Exited { status: 0 }), processes: Vec::new(), ..info() };
        assert!(why_no_samples(&ended).is_some_and(|why| why.contains("hardly ran")));
        let cut = SessionInfo { end: None, ..ended.clone() };
        assert!(why_no_samples(&cut).is_some_and(|why| why.contains("was killed before")));
        let stopped = SessionInfo { stopped_early: Some("no space left".into()), ..ended.clone() };
        assert_eq!(why_no_samples(&stopped), None);
        let failure = Some("no room".to_owned());
        let failed = ProcessSummary { failure, ..process(Trigger::ThreadTimer, None) };
        assert_eq!(why_no_samples(&SessionInfo { processes: vec![failed], ..ended }), None);
    }
}
