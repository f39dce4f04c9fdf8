//! How often threads are interrupted where nobody says: as often as this machine's interrupts allow.

use slimline_trace::session::Trigger;

use crate::stall_kernel::Slices;

/// Rates in Hz with the most that a trigger may cost for each, highest first. On bare metal a trigger costs 2 to 4 µs,
/// in virtual machines 15 to 40: the first three keep triggers at 1 % of the CPU time, or at 1.5 % before so many
/// samples are given up that reports of short runs get coarse. Few rates, so that runs on one machine have the same.
const RATES: [(u64, u64); 3] = [(1000, 10_000), (500, 20_000), (250, 60_000)];
/// Beyond these costs.
const LOWEST_HZ: u64 = 100;
/// Where the cost is not known: dear enough to be careful, and a common tick.
const UNMEASURED_HZ: u64 = 250;
/// The kernel serves CPU-time timers at its tick, which comes anyway: asking for more costs nothing, and a thread that
/// ran for a little less than a tick is not passed over.
const TIMER_HZ: u64 = 1000;

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

/// The period, and why where it was not asked for.
pub(crate) fn choose(asked_ns: Option<u64>, trigger: Trigger, cost_ns: Option<u64>) -> (u64, Option<String>) {
    let period_ns = |hertz: u64| 1_000_000_000 / hertz;
    if let Some(asked_ns) = asked_ns {
        return (asked_ns, None);
    }
    let (hertz, reason) = match (trigger, cost_ns) {
        (Trigger::Off, _) => (TIMER_HZ, "nothing interrupts the threads".to_owned()),
        (Trigger::ThreadTimer, _) => {
            (TIMER_HZ, "the kernel serves it at its own tick, which interrupts threads anyway".to_owned())
        }
        (Trigger::PerfSigtrap, None) => {
            (UNMEASURED_HZ, "what an interrupt costs on this machine was not measured; -F 1000 for more".to_owned())
        }
        (Trigger::PerfSigtrap, Some(cost_ns)) => {
            let affordable = RATES.iter().find(|&&(_, most_ns)| cost_ns <= most_ns);
            let hertz = affordable.map_or(LOWEST_HZ, |&(hertz, _)| hertz);
            let more = if hertz < RATES[0].0 { "; -F 1000 for more" } else { "" };
            let micros = cost_ns as f64 / 1000.0;
            (hertz, format!("an interrupt costs {micros:.0} µs on this machine{more}"))
        }
    };
    (period_ns(hertz), Some(reason))
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

    #[test]
    fn the_rate_follows_the_cost() {
        let auto = |cost_ns| choose(None, Trigger::PerfSigtrap, Some(cost_ns)).0;
        assert_eq!([3_000, 10_000].map(auto), [1_000_000; 2]);
        assert_eq!([10_001, 20_000].map(auto), [2_000_000; 2]);
        assert_eq!([25_000, 60_000].map(auto), [4_000_000; 2]);
        assert_eq!(auto(u64::MAX), 10_000_000);
    }

    #[test]
    fn what_is_asked_for_is_obeyed_and_what_is_chosen_explained() {
        assert_eq!(choose(Some(1_000_000), Trigger::PerfSigtrap, Some(90_000)), (1_000_000, None));
        let (period_ns, why) = choose(None, Trigger::PerfSigtrap, Some(37_600));
        assert_eq!(period_ns, 4_000_000);
        assert_eq!(why.as_deref(), Some("an interrupt costs 38 µs on this machine; -F 1000 for more"));
        let (_, why) = choose(None, Trigger::PerfSigtrap, Some(2_400));
        assert_eq!(why.as_deref(), Some("an interrupt costs 2 µs on this machine"));
        let (period_ns, why) = choose(None, Trigger::PerfSigtrap, None);
        assert!(period_ns == 4_000_000 && why.is_some_and(|why| why.contains("not measured")));
        let (period_ns, why) = choose(None, Trigger::ThreadTimer, None);
        assert!(period_ns == 1_000_000 && why.is_some_and(|why| why.contains("tick")));
    }
}
