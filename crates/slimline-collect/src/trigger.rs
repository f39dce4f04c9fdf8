//! What interrupts the threads, and how often, where nobody says: whatever costs the program least.

use std::io;

use slimline_trace::session::Trigger;
use slimline_trace::wire::TriggerKind;

use crate::calibrate::Calibration;
use crate::stall_kernel::Slices;

/// Time between two triggers where perf's interrupts are cheap. On bare metal one costs 2 to 4 µs, in virtual machines
/// 15 to 40, and in code that streams through memory several times that: what was in flight is lost.
const PERIOD_NS: u64 = 1_000_000;
/// Cheap: at most 1 % of the time.
const CHEAP_NS: u64 = PERIOD_NS / 100;
/// Time between two where they are dear, or nobody knows.
const CAREFUL_PERIOD_NS: u64 = 4_000_000;
/// Periods of the first clock in one of the second, in hundredths: often enough for paces in a few seconds, and so far
/// from small fractions (five golden sections) that samples of the two fall at all distances.
const BETWEEN_PERCENT: u64 = 809;

/// Pairs of slices that a verdict on the cost needs.
pub(crate) const MIN_PAIRS: usize = 4;

/// CPU time that one trigger takes: the interrupt, the signal, and a sample without a burst. The median over the pairs
/// of slices, so that a few that were disturbed do not count. `samples_ns` are the times of all samples. `None` where
/// too few slices have samples.
pub(crate) fn trigger_cost_ns(slices: &[Slices], samples_ns: &[u64]) -> Option<u64> {
    let mut costs: Vec<u64> = slices
        .iter()
        .filter_map(|pair| {
            let inside = samples_ns.iter().filter(|&&time_ns| (pair.begin_ns..pair.end_ns).contains(&time_ns)).count();
            // A calm slice may be the slower one; the median takes care of that, too.
            pair.sampled_ns.saturating_sub(pair.calm_ns).checked_div(inside as u64)
        })
        .collect();
    if costs.len() < MIN_PAIRS {
        return None;
    }
    costs.sort_unstable();
    Some(costs[costs.len() / 2])
}

/// What interrupts the threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Choice {
    pub(crate) trigger: Trigger,
    pub(crate) why: String,
    /// `errno` of perf where it was refused, else 0.
    pub(crate) errno: u32,
    /// Time between two triggers of a thread that weigh; 0 where there are none.
    pub(crate) period_ns: u64,
    /// Why this period, where it was not asked for.
    pub(crate) period_why: Option<String>,
}

/// What is used of what was asked for, by what calibration found. `tick_ns` is the kernel's.
///
/// Perf's event has any rate, and a phase of its own. A timer fires at the kernel's tick, which interrupts the thread
/// anyway, so that only its signal is to be paid for: a tenth to a third of the price (docs/overhead.md). It is asked for at
/// every tick: threads that take less time than its first period have no sample.
pub(crate) fn choose(trigger: Option<Trigger>, period_ns: Option<u64>, found: &Calibration, tick_ns: u64) -> Choice {
    let Granted { trigger: granted, why, errno } = granted(trigger, found.trigger);
    let is_cheap = found.trigger_cost_ns.is_some_and(|cost_ns| cost_ns <= CHEAP_NS);
    let price = match found.trigger_cost_ns {
        Some(cost_ns) => format!("an interrupt costs {:.0} µs on this machine", cost_ns as f64 / 1000.0),
        None => "what an interrupt costs on this machine was not measured".to_owned(),
    };
    // No kernel ticks more often; one that says so means another clock.
    let tick_ns = tick_ns.max(PERIOD_NS);
    let is_tick_cheaper = !is_cheap && trigger.is_none() && found.trigger.is_some();
    let chosen = |period_ns, period_why| Choice { trigger: granted, why: why.clone(), errno, period_ns, period_why };
    match (granted, period_ns) {
        (Trigger::Off | Trigger::Counter, _) => chosen(0, None),
        (_, Some(period_ns)) => chosen(period_ns, None),
        (Trigger::PerfSigtrap | Trigger::PerfRing, None) if is_cheap => chosen(PERIOD_NS, Some(price)),
        (Trigger::PerfSigtrap, None) if is_tick_cheaper => {
            let more = if tick_ns > PERIOD_NS { "; -F 1000 for more" } else { "" };
            Choice {
                trigger: Trigger::ThreadTimer,
                why: format!("it rides on the kernel's tick: {price}"),
                ..chosen(tick_ns, Some(format!("{price}{more}")))
            }
        }
        (Trigger::PerfSigtrap | Trigger::PerfRing, None) => {
            chosen(CAREFUL_PERIOD_NS, Some(format!("{price}; -F 1000 for more")))
        }
        (Trigger::ThreadTimer, None) => chosen(tick_ns, Some("the kernel serves timers at its tick".to_owned())),
    }
}

impl Choice {
    /// Periods of the two clocks that the agents are asked for; 0 for none. A timer that was asked for is alone, and so
    /// is one where perf was refused.
    pub(crate) fn clocks_ns(&self, asked: Option<Trigger>, found: &Calibration) -> [u64; 2] {
        let has_perf = matches!(found.trigger, Some((Trigger::PerfSigtrap, _)));
        match self.trigger {
            Trigger::Off | Trigger::Counter => [0, 0],
            // Paces need the threads' own time, which is not known from outside.
            Trigger::PerfRing => [self.period_ns, 0],
            Trigger::ThreadTimer if asked.is_some() || !has_perf => [self.period_ns, 0],
            Trigger::PerfSigtrap | Trigger::ThreadTimer => [self.period_ns, self.period_ns * BETWEEN_PERCENT / 100],
        }
    }
}

/// Those of `clocks_ns` that a process got: its trigger, and the `errno` of the second clock.
pub(crate) fn granted_clocks_ns(clocks_ns: [u64; 2], trigger: Trigger, between_errno: u32) -> [u64; 2] {
    match (trigger, clocks_ns, between_errno) {
        (Trigger::Off, ..) => [0, 0],
        (_, _, 0) => clocks_ns,
        (_, [first_ns, _], _) => [first_ns, 0],
    }
}

/// The trigger that there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Granted {
    pub(crate) trigger: Trigger,
    pub(crate) why: String,
    /// `errno` of perf where it was refused, else 0.
    pub(crate) errno: u32,
}

/// The trigger that there is, and why. `found` is what an agent got, and the `errno` of what it asked for first.
pub(crate) fn granted(asked: Option<Trigger>, found: Option<(Trigger, u32)>) -> Granted {
    let as_asked = |trigger, why: &str| Granted { trigger, why: why.to_owned(), errno: 0 };
    match (asked, found) {
        // Not what the agent was tried with.
        (Some(Trigger::PerfRing), _) => as_asked(Trigger::PerfRing, "asked for"),
        (Some(asked), None) => as_asked(asked, "asked for"),
        (Some(asked), Some((found, _))) if asked == found => as_asked(asked, "asked for"),
        (None, None) => as_asked(Trigger::PerfSigtrap, "the best there is; not tried"),
        (None, Some((Trigger::PerfSigtrap, _))) => as_asked(Trigger::PerfSigtrap, "the best there is, and granted"),
        (_, Some((trigger, errno))) => {
            let error = io::Error::from_raw_os_error(errno.cast_signed());
            Granted { trigger, why: format!("perf_event_open with sigtrap was refused: {error}"), errno }
        }
    }
}

/// What the agents are told to use.
pub(crate) fn kind_of(trigger: Trigger) -> TriggerKind {
    match trigger {
        // The agent falls back to the timer by itself, in every process.
        Trigger::PerfSigtrap => TriggerKind::PerfSigtrap,
        Trigger::ThreadTimer => TriggerKind::ThreadTimer,
        // A counter's samples are the kernel's; the agent tracks allocations.
        Trigger::Counter | Trigger::Off => TriggerKind::Off,
        // What is measured before the run is measured with an agent.
        Trigger::PerfRing => TriggerKind::PerfSigtrap,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pair whose sampled slice has the two samples at `begin_ns` + 1 and + 2.
    fn pair(begin_ns: u64, calm_ns: u64, sampled_ns: u64) -> Slices {
        Slices { calm_ns, sampled_ns, begin_ns, end_ns: begin_ns + 100 }
    }

    fn samples(slices: &[Slices]) -> Vec<u64> {
        slices.iter().flat_map(|pair| [pair.begin_ns + 1, pair.begin_ns + 2]).collect()
    }

    #[test]
    fn a_trigger_costs_the_difference_over_the_samples() {
        // 20, 21, 22 and 23 µs a sample; two slices were disturbed, one was calm and slow.
        let extra = [40_000, 42_000, 44_000, 46_000, 900_000];
        let mut slices: Vec<_> = (0..5).map(|row| pair(1000 * row as u64, 100_000, 100_000 + extra[row])).collect();
        slices.push(pair(9000, 300_000, 150_000));
        let times = samples(&slices);
        // Costs in order: 0, 20, 21, 22, 23, 450.
        assert_eq!(trigger_cost_ns(&slices, &times), Some(22_000));
    }

    #[test]
    fn slices_without_samples_say_nothing() {
        let slices: Vec<_> = (0..6).map(|row| pair(1000 * row, 100_000, 150_000)).collect();
        assert_eq!(trigger_cost_ns(&slices, &samples(&slices[..3])), None);
        assert_eq!(trigger_cost_ns(&slices, &samples(&slices[..4])), Some(25_000));
        // The end of one slice is not in it, and other samples are the program's start.
        assert_eq!(trigger_cost_ns(&slices, &[100, 1100, 2100, 3100, 4100, 5]), None);
        assert_eq!(trigger_cost_ns(&[], &[]), None);
    }

    const TICK_NS: u64 = 4_000_000;

    fn found(trigger: Trigger, trigger_cost_ns: Option<u64>) -> Calibration {
        Calibration { trigger: Some((trigger, 0)), trigger_cost_ns, ..Calibration::assumed("test") }
    }

    #[test]
    fn perf_where_it_is_cheap_and_else_the_tick() {
        use Trigger::{PerfSigtrap, ThreadTimer};
        let auto = |cost_ns, tick_ns| {
            let choice = choose(None, None, &found(PerfSigtrap, cost_ns), tick_ns);
            (choice.trigger, choice.period_ns)
        };
        assert_eq!([3_000, 10_000].map(|cost_ns| auto(Some(cost_ns), TICK_NS)), [(PerfSigtrap, 1_000_000); 2]);
        assert_eq!([10_001, 60_000].map(|cost_ns| auto(Some(cost_ns), TICK_NS)), [(ThreadTimer, TICK_NS); 2]);
        assert_eq!(auto(None, TICK_NS), (ThreadTimer, TICK_NS));
        assert_eq!(auto(None, 1), (ThreadTimer, 1_000_000), "gVisor's resolution is no tick");
        // Every tick, at 1000, 300 and 100 Hz: threads of less than a period have no sample.
        for tick_ns in [1_000_000, 3_333_333, 10_000_000] {
            assert_eq!(auto(None, tick_ns), (ThreadTimer, tick_ns));
            assert_eq!(choose(Some(ThreadTimer), None, &found(ThreadTimer, None), tick_ns).period_ns, tick_ns);
            let perf = choose(Some(PerfSigtrap), None, &found(PerfSigtrap, None), tick_ns);
            assert_eq!(perf.period_ns, CAREFUL_PERIOD_NS, "perf's interrupts are paid for");
        }
    }

    #[test]
    fn what_is_asked_for_is_obeyed() {
        use Trigger::{Off, PerfSigtrap, ThreadTimer};
        let dear = found(PerfSigtrap, Some(90_000));
        let choice = choose(None, Some(500_000), &dear, TICK_NS);
        assert_eq!((choice.trigger, choice.period_ns, choice.period_why), (PerfSigtrap, 500_000, None));
        let choice = choose(Some(PerfSigtrap), None, &dear, TICK_NS);
        assert_eq!((choice.trigger, choice.why.as_str(), choice.period_ns), (PerfSigtrap, "asked for", TICK_NS));
        let choice = choose(Some(ThreadTimer), None, &found(ThreadTimer, None), TICK_NS);
        assert_eq!((choice.trigger, choice.why.as_str(), choice.period_ns), (ThreadTimer, "asked for", TICK_NS));
        let choice = choose(Some(Off), None, &Calibration::assumed("nothing is sampled"), TICK_NS);
        assert_eq!((choice.trigger, choice.period_ns, choice.period_why), (Off, 0, None));
    }

    #[test]
    fn a_second_clock_is_perfs() {
        use Trigger::{Off, PerfSigtrap, ThreadTimer};
        let clocks = |asked: Option<Trigger>, cost_ns| {
            let found = found(asked.unwrap_or(PerfSigtrap), cost_ns);
            choose(asked, None, &found, TICK_NS).clocks_ns(asked, &found)
        };
        assert_eq!(clocks(None, Some(50_000)), [TICK_NS, 32_360_000]);
        assert_eq!(clocks(None, Some(5_000)), [1_000_000, 8_090_000], "the first one as asked");
        assert_eq!(clocks(Some(PerfSigtrap), Some(50_000)), [CAREFUL_PERIOD_NS, 32_360_000]);
        assert_eq!(clocks(Some(ThreadTimer), None), [TICK_NS, 0]);
        assert_eq!(clocks(Some(Off), None), [0, 0]);
    }

    #[test]
    fn only_clocks_that_were_granted_are_told() {
        let granted = |trigger, between_errno| granted_clocks_ns([TICK_NS, 32_360_000], trigger, between_errno);
        assert_eq!(granted(Trigger::ThreadTimer, 0), [TICK_NS, 32_360_000]);
        assert_eq!(granted(Trigger::PerfSigtrap, 24), [TICK_NS, 0]);
        assert_eq!(granted(Trigger::Off, 24), [0, 0]);
    }

    #[test]
    fn what_is_chosen_is_explained() {
        let explained = |trigger, cost_ns| {
            let choice = choose(None, None, &found(trigger, cost_ns), TICK_NS);
            (choice.why, choice.period_why.unwrap_or_default())
        };
        let (why, period_why) = explained(Trigger::PerfSigtrap, Some(37_600));
        assert_eq!(why, "it rides on the kernel's tick: an interrupt costs 38 µs on this machine");
        assert_eq!(period_why, "an interrupt costs 38 µs on this machine; -F 1000 for more");
        let often = choose(None, None, &found(Trigger::PerfSigtrap, Some(37_600)), 1_000_000);
        assert_eq!(often.period_why.as_deref(), Some("an interrupt costs 38 µs on this machine"), "it is 1000 already");
        let (why, period_why) = explained(Trigger::PerfSigtrap, Some(2_400));
        assert_eq!(why, "the best there is, and granted");
        assert_eq!(period_why, "an interrupt costs 2 µs on this machine");
        assert!(explained(Trigger::PerfSigtrap, None).1.contains("not measured"));
        let refused = Calibration { trigger: Some((Trigger::ThreadTimer, 13)), ..Calibration::assumed("test") };
        let refused = choose(None, None, &refused, TICK_NS);
        assert_eq!(refused.trigger, Trigger::ThreadTimer);
        assert!(refused.why.contains("Permission denied") && refused.errno == 13, "{}", refused.why);
        assert!(refused.period_why.is_some_and(|why| why.contains("tick")));
        let untried = choose(None, None, &Calibration::assumed("test"), TICK_NS);
        assert_eq!((untried.trigger, untried.period_ns), (Trigger::PerfSigtrap, TICK_NS));
    }
}
