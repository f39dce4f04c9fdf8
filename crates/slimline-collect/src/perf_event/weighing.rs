//! What samples weigh: of the events that were sampled together, one.
//!
//! Sums over events that count different things are shares of nothing, and two clocks make twice the time. So the samples of
//! one event weigh, that of which most is known; those of others tell of accesses, and weigh nothing. On a processor with
//! several kinds of cores the same event of each kind's PMU is one.

use std::collections::BTreeSet;

use slimline_trace::session::WeightUnit;

use super::attr::{EventAttr, Flags, event_type, sample_type, software_event};
use super::caught::Caught;
use super::sample::Sample;

/// Which events weigh, and in what unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Weighing {
    unit: WeightUnit,
    /// What the samples of each event count; `None` of one that never has any.
    units: Vec<Option<WeightUnit>>,
    weighs: BTreeSet<usize>,
}

impl Weighing {
    /// Of these events, each with its name as perf spells it.
    pub fn of<'a>(events: impl IntoIterator<Item = (&'a EventAttr, String)>) -> Self {
        let (units, kinds): (Vec<_>, Vec<_>) =
            events.into_iter().map(|(attr, name)| (unit_of(attr), Kind::of(attr, name))).unzip();
        use WeightUnit::{LatencyCycles, Period, Samples, TimeNs};
        let first_of = |unit| units.iter().position(|&other| other == Some(unit)).map(|first| (unit, first));
        let Some((unit, first)) = [LatencyCycles, TimeNs, Period, Samples].into_iter().find_map(first_of) else {
            return Self { unit: Samples, units, weighs: BTreeSet::new() };
        };
        let mut weighs = BTreeSet::from([first]);
        let mut pmus = BTreeSet::from([kinds[first].pmu]);
        for (event, kind) in kinds.iter().enumerate() {
            if units[event] == Some(unit) && kind.is_as(&kinds[first]) && pmus.insert(kind.pmu) {
                weighs.insert(event);
            }
        }
        Self { unit, units, weighs }
    }

    /// Events that this is of.
    pub fn events(&self) -> usize {
        self.units.len()
    }

    /// The unit of all weights.
    pub fn unit(&self) -> WeightUnit {
        self.unit
    }

    /// What an event's samples count; `None` of one that never has any.
    pub fn unit_of(&self, event: usize) -> Option<WeightUnit> {
        self.units[event]
    }

    /// Whether an event's samples weigh.
    pub fn weighs(&self, event: usize) -> bool {
        self.weighs.contains(&event)
    }

    /// The first event that weighs.
    pub fn first(&self) -> Option<usize> {
        self.weighs.first().copied()
    }

    /// What a sample of `event`, whose attribute is `attr`, weighs; `None` where those of another event do.
    ///
    /// A latency that was measured stands for as many accesses as the event's period. Where the kernel adapts that to a
    /// frequency it differs from sample to sample, and so it is multiplied by it; a fixed one is the same factor for all.
    pub fn weight(&self, event: usize, attr: &EventAttr, sample: &Sample<'_>, caught: &Caught) -> Option<u64> {
        let is_adapted = attr.flags.has(Flags::FREQ);
        self.weighs(event).then(|| match self.unit {
            WeightUnit::LatencyCycles => {
                let cycles = u64::from(caught.served.latency_cycles.unwrap_or(0));
                cycles.saturating_mul(sample.period.filter(|_| is_adapted).unwrap_or(1))
            }
            WeightUnit::TimeNs => sample.period.unwrap_or(period_ns(attr)),
            WeightUnit::Period => sample.period.unwrap_or(attr.period_or_frequency),
            WeightUnit::Samples => 1,
        })
    }
}

/// Which event it is, on whichever PMU.
struct Kind {
    pmu: u32,
    /// The number of an event that the kernel defines for all PMUs: type, and configuration without the PMU.
    general: Option<(u32, u64)>,
    name: String,
}

impl Kind {
    fn of(attr: &EventAttr, name: String) -> Self {
        let is_general = matches!(attr.kind, event_type::HARDWARE | event_type::HW_CACHE);
        // The kernel has the PMU there, where there are several (PERF_PMU_TYPE_SHIFT).
        let (pmu, config) = ((attr.config >> 32) as u32, u64::from(attr.config as u32));
        match is_general && pmu != 0 {
            true => Self { pmu, general: Some((attr.kind, config)), name },
            false => Self { pmu: attr.kind, general: None, name },
        }
    }

    /// Whether it is the same event as another one.
    fn is_as(&self, other: &Self) -> bool {
        let name = of_any_pmu(&self.name);
        self.general.is_some() && self.general == other.general || name.is_some() && name == of_any_pmu(&other.name)
    }
}

/// The event as other PMUs name it, too: `mem-loads,ldlat=30/P` of `cpu_core/mem-loads,ldlat=30/P`.
fn of_any_pmu(name: &str) -> Option<&str> {
    name.split_once('/').map(|(_, event)| event)
}

/// What an event's samples count; `None` of one that is there for other records only, or to lead a group.
fn unit_of(attr: &EventAttr) -> Option<WeightUnit> {
    let is_dummy = attr.kind == event_type::SOFTWARE && attr.config == software_event::DUMMY;
    if is_dummy || attr.period_or_frequency == 0 {
        return None;
    }
    // Software has no latency, whatever was asked for.
    let is_hardware = !matches!(attr.kind, event_type::SOFTWARE | event_type::TRACEPOINT | event_type::BREAKPOINT);
    let has_weight = attr.samples(sample_type::WEIGHT) || attr.samples(sample_type::WEIGHT_STRUCT);
    Some(if is_hardware && has_weight && attr.samples(sample_type::ADDR) {
        WeightUnit::LatencyCycles
    } else if attr.counts_time() {
        WeightUnit::TimeNs
    } else if attr.samples(sample_type::PERIOD) || !attr.flags.has(Flags::FREQ) {
        WeightUnit::Period
    } else {
        WeightUnit::Samples
    })
}

/// Time between two samples of a clock; 0 where it is not told.
pub fn period_ns(attr: &EventAttr) -> u64 {
    let asked = attr.period_or_frequency;
    if attr.flags.has(Flags::FREQ) { 1_000_000_000_u64.checked_div(asked).unwrap_or(0) } else { asked }
}

#[cfg(test)]
mod tests {
    use slimline_trace::served::Served;

    use super::*;

    const MEMORY: u64 = sample_type::ADDR | sample_type::WEIGHT_STRUCT | sample_type::PERIOD;

    fn attr(kind: u32, sample_type: u64) -> EventAttr {
        EventAttr { kind, sample_type, period_or_frequency: 1000, ..EventAttr::default() }
    }

    fn clock() -> EventAttr {
        EventAttr { config: software_event::CPU_CLOCK, ..attr(event_type::SOFTWARE, sample_type::PERIOD) }
    }

    #[track_caller]
    fn check(events: &[(EventAttr, &str)], unit: WeightUnit, weighs: &[usize]) {
        let weighing = Weighing::of(events.iter().map(|(attr, name)| (attr, (*name).to_owned())));
        let found: Vec<usize> = (0..weighing.events()).filter(|&event| weighing.weighs(event)).collect();
        assert_eq!((weighing.unit(), &found[..]), (unit, weighs));
        assert_eq!(weighing.first(), weighs.first().copied());
    }

    #[test]
    fn one_event_weighs() {
        let counter = attr(event_type::HARDWARE, sample_type::PERIOD);
        let [misses, branches] = ["cache-misses", "branch-misses"].map(|name| (counter.clone(), name));
        check(&[misses.clone(), branches.clone()], WeightUnit::Period, &[0]);
        let task_clock = EventAttr { config: software_event::TASK_CLOCK, ..clock() };
        check(&[misses.clone(), (clock(), "cpu-clock"), (task_clock, "task-clock")], WeightUnit::TimeNs, &[1]);
        check(&[(clock(), "cpu-clock"), (clock(), "cpu-clock")], WeightUnit::TimeNs, &[0]);
        check(&[(clock(), "cpu-clock"), (attr(4, MEMORY), "cpu/mem-loads/P")], WeightUnit::LatencyCycles, &[1]);
        check(&[], WeightUnit::Samples, &[]);
    }

    #[test]
    fn an_event_of_two_kinds_of_cores_is_one() {
        let leader = EventAttr { period_or_frequency: 0, ..attr(4, MEMORY) };
        let (core, atom) = (attr(4, MEMORY), attr(10, MEMORY));
        let hybrid = [
            (leader, "cpu_core/mem-loads-aux/"),
            (atom.clone(), "cpu_atom/mem-loads,ldlat=30/P"),
            (atom, "cpu_atom/mem-stores/P"),
            (core.clone(), "cpu_core/mem-loads,ldlat=30/P"),
            (core.clone(), "cpu_core/mem-stores/P"),
        ];
        check(&hybrid, WeightUnit::LatencyCycles, &[1, 3]);
        let twice = [(core.clone(), "cpu/mem-loads/P"), (core, "cpu/mem-loads/P")];
        check(&twice, WeightUnit::LatencyCycles, &[0]);
    }

    /// Events of the kernel's have the PMU in their configuration, and names that may differ by their modifiers.
    #[test]
    fn a_general_event_of_two_kinds_of_cores_is_one() {
        let of = |kind, pmu: u64, config: u64| EventAttr {
            config: pmu << 32 | config,
            ..attr(kind, sample_type::PERIOD | sample_type::ADDR)
        };
        let [hardware, cache] = [event_type::HARDWARE, event_type::HW_CACHE];
        let cycles = [
            (of(hardware, 10, 0), "cpu_atom/cycles/u"),
            (of(hardware, 4, 0), "cpu_core/cycles/Pu"),
            (of(hardware, 10, 1), "cpu_atom/instructions/u"),
            (of(hardware, 4, 1), "cpu_core/instructions/u"),
            (of(cache, 4, 0), "cpu_core/L1-dcache-loads/u"),
            (of(hardware, 4, 0), "cpu_core/cycles/u"),
        ];
        check(&cycles, WeightUnit::Period, &[0, 1]);
        // Of a pipe without names.
        let unnamed = [(of(cache, 10, 3), "event type 3"), (of(cache, 4, 3), "event type 3"), (of(cache, 7, 3), "")];
        check(&unnamed, WeightUnit::Period, &[0, 1, 2]);
        let one_pmu = [(of(hardware, 0, 0), "cycles"), (of(hardware, 0, 0), "cycles")];
        check(&one_pmu, WeightUnit::Period, &[0]);
    }

    fn weight(attr: EventAttr, period: Option<u64>, latency_cycles: Option<u32>) -> Option<u64> {
        let weighing = Weighing::of([(&attr, "event".to_owned())]);
        let sample = Sample { period, ..Sample::default() };
        let served = Served { latency_cycles, ..Served::UNKNOWN };
        weighing.weight(0, &attr, &sample, &Caught { served, ..Caught::of(&sample, None) })
    }

    #[test]
    fn a_latency_counts_for_all_accesses_that_it_stands_for() {
        let fixed = attr(4, MEMORY);
        let adapted = EventAttr { flags: Flags::FREQ, ..fixed.clone() };
        assert_eq!(weight(fixed, Some(1000), Some(30)), Some(30));
        assert_eq!(weight(adapted.clone(), Some(50), Some(30)), Some(1500));
        assert_eq!(weight(adapted.clone(), None, Some(30)), Some(30), "what it stands for was not recorded");
        assert_eq!(weight(adapted, Some(50), None), Some(0), "a store's was not measured");
    }

    #[test]
    fn a_clock_of_a_frequency_has_its_period() {
        let clock = EventAttr { sample_type: 0, flags: Flags::FREQ, period_or_frequency: 4000, ..clock() };
        assert_eq!(weight(clock.clone(), None, None), Some(250_000));
        assert_eq!(weight(EventAttr { flags: Flags::default(), ..clock.clone() }, None, None), Some(4000));
        assert_eq!(weight(clock, Some(249_000), None), Some(249_000));
    }
}
