//! Hardware events: of those that a PMU's description plans, what the kernel grants.
//!
//! An event is tried as it was planned, and then with less that privilege, an older kernel or the processor may refuse. What
//! was refused on the way is told: a report without physical addresses says why there are none. What is opened is a function
//! here, so that kernels that are not at hand can be tested.

use std::io;

use slimline_trace::session::SampledEvent;

use super::records::{Begin, of_reader};
use crate::perf_event::{EventAttr, Flags, sample_type};
use crate::pmu::PmuEvent;

/// An event as it is granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Granted {
    /// As perf spells it.
    pub(crate) name: String,
    pub(crate) attr: EventAttr,
    /// Whether the event before it leads its group.
    pub(crate) is_in_group: bool,
    /// CPUs that have it; `None` for all.
    cpus: Option<Vec<u32>>,
    /// Loads that take fewer cycles are not sampled.
    pub(crate) least_latency_cycles: Option<u64>,
}

impl Granted {
    /// A planned event with the attributes that the kernel took.
    fn new(event: &PmuEvent, attr: EventAttr) -> Self {
        let &PmuEvent { is_in_group, least_latency_cycles, .. } = event;
        Self { name: event.name.clone(), attr, is_in_group, cpus: event.cpus.clone(), least_latency_cycles }
    }

    /// As `session.json` tells it.
    pub(super) fn sampled_event(&self) -> SampledEvent {
        let (asked, is_frequency) = (Some(self.attr.period_or_frequency), self.attr.flags.has(Flags::FREQ));
        SampledEvent {
            name: self.name.clone(),
            period: asked.filter(|_| !is_frequency),
            frequency_hz: asked.filter(|_| is_frequency),
            least_latency_cycles: self.least_latency_cycles,
        }
    }

    /// Whether it can be opened on a CPU.
    pub(super) fn is_on(&self, cpu: u32) -> bool {
        is_among(self.cpus.as_deref(), cpu)
    }
}

/// Whether a CPU is one of these; `None` for all.
fn is_among(cpus: Option<&[u32]>, cpu: u32) -> bool {
    cpus.is_none_or(|cpus| cpus.contains(&cpu))
}

/// What came of asking.
#[derive(Debug, Default)]
pub(crate) struct Negotiated {
    pub(crate) granted: Vec<Granted>,
    /// What the kernel refused, one clause each: a part of an event, or the whole.
    pub(crate) refused: Vec<String>,
    /// The last error of an event that was refused as a whole.
    pub(crate) error: Option<io::Error>,
}

impl Negotiated {
    /// Whether any event is left that takes samples.
    pub(crate) fn has_any(&self) -> bool {
        self.granted.iter().any(|event| event.attr.period_or_frequency > 0)
    }

    /// All of what is planned.
    #[cfg(test)]
    pub(crate) fn granting(events: &[PmuEvent]) -> Self {
        let granted = |event: &PmuEvent| Granted::new(event, of_reader(&event.attr, Begin::AtExec, event.is_in_group));
        Self { granted: events.iter().map(granted).collect(), ..Self::default() }
    }

    fn refuse(&mut self, event: &PmuEvent, error: io::Error) {
        self.refused.push(format!("{}: {error}", event.name));
        self.error = Some(error);
    }
}

/// Finds out what of `events` is granted on the online `cpus`, by opening each once; `open` is given the event, the CPU and
/// the group's leader. `may_not_inherit` where events that new threads do not inherit are of use, too.
pub(super) fn negotiate<H>(
    events: &[PmuEvent],
    cpus: &[u32],
    begin: Begin,
    may_not_inherit: bool,
    mut open: impl FnMut(&EventAttr, u32, Option<&H>) -> io::Result<H>,
) -> Negotiated {
    let mut all = Negotiated::default();
    // The event before, where it may be a leader, and on which CPU it was opened.
    let mut leader: Option<(H, u32)> = None;
    for (place, event) in events.iter().enumerate() {
        let before = leader.take();
        if event.needs_aux {
            all.refuse(
                event,
                io::Error::other("its samples come in an AUX area, which this version reads of perf.data only"),
            );
            continue;
        }
        let group = before.as_ref().filter(|_| event.is_in_group);
        if event.is_in_group && group.is_none() {
            all.refuse(event, io::Error::other("the event that has to lead its group was refused"));
            continue;
        }
        let Some(&cpu) = cpus.iter().find(|&&cpu| is_among(event.cpus.as_deref(), cpu)) else {
            all.refuse(event, io::Error::other("none of its CPUs is online"));
            continue;
        };
        let attempts = attempts(event, begin, may_not_inherit);
        let mut opened = None;
        let mut first_error = None;
        for attr in &attempts {
            match open(attr, cpu, group.map(|(handle, _)| handle)) {
                Ok(handle) => {
                    opened = Some((handle, attr));
                    break;
                }
                Err(error) => drop(first_error.get_or_insert(error)),
            }
        }
        match (opened, first_error) {
            (Some((handle, attr)), error) => {
                if let Some(error) = error {
                    all.refused
                        .extend(lacks(&attempts[0], attr).map(|what| format!("{}: {what} ({error})", event.name)));
                }
                all.granted.push(Granted::new(event, attr.clone()));
                leader = Some((handle, cpu));
            }
            (None, error) => {
                all.refuse(event, error.unwrap_or_else(|| io::Error::other("there is no way to ask for it")));
                // Nobody needs a leader without its group.
                if event.is_in_group && place > 0 {
                    all.granted.pop();
                }
            }
        }
    }
    all
}

/// What is tried of an event, best first.
fn attempts(event: &PmuEvent, begin: Begin, may_not_inherit: bool) -> Vec<EventAttr> {
    let mut attempts: Vec<EventAttr> =
        event.attempts().iter().map(|attr| of_reader(attr, begin, event.is_in_group)).collect();
    if may_not_inherit {
        let alone = attempts.last().map(|last| EventAttr { flags: last.flags.without(Flags::INHERIT), ..last.clone() });
        attempts.extend(alone);
    }
    attempts
}

/// What `granted` has not of what was asked for.
fn lacks(asked: &EventAttr, granted: &EventAttr) -> impl Iterator<Item = String> {
    let missing = asked.sample_type & !granted.sample_type;
    let fields = [
        (sample_type::PHYS_ADDR, "no physical addresses"),
        (sample_type::DATA_PAGE_SIZE, "no page sizes"),
        (sample_type::WEIGHT_STRUCT, "no parts of the latency"),
        (sample_type::RAW, "no registers of the hardware"),
    ];
    let fields = fields.into_iter().filter(move |(field, _)| missing & field != 0).map(|(_, what)| what.to_owned());
    let [best, precise] = [asked, granted].map(|attr| attr.flags.precise_ip());
    let skid = (precise < best).then(|| format!("precise_ip {precise} in place of {best}"));
    let inherits = asked.flags.has(Flags::INHERIT) && !granted.flags.has(Flags::INHERIT);
    let threads = inherits.then(|| "threads that begin later are not sampled".to_owned());
    fields.chain(skid).chain(threads)
}

#[cfg(test)]
mod tests {
    use super::*;

    const EACCES: i32 = libc::EACCES;
    const EINVAL: i32 = libc::EINVAL;

    fn event(name: &str, attr: EventAttr) -> PmuEvent {
        PmuEvent {
            name: name.to_owned(),
            attr,
            is_in_group: false,
            needs_aux: false,
            least_latency_cycles: None,
            cpus: None,
        }
    }

    fn loads() -> EventAttr {
        let fields = sample_type::IP
            | sample_type::ADDR
            | sample_type::PHYS_ADDR
            | sample_type::DATA_PAGE_SIZE
            | sample_type::WEIGHT_STRUCT;
        let flags = Flags::DISABLED.and(Flags::FREQ).with_precise_ip(3);
        EventAttr { kind: 4, sample_type: fields, period_or_frequency: 1000, flags, ..EventAttr::default() }
    }

    /// A kernel that says `refuses` of what it is asked for; handles are numbers.
    fn ask(
        events: &[PmuEvent],
        may_not_inherit: bool,
        refuses: impl Fn(&EventAttr, u32, Option<&usize>) -> Option<i32>,
    ) -> Negotiated {
        let mut opened = 0;
        negotiate(events, &[0, 1, 2, 3], Begin::AtExec, may_not_inherit, |attr, cpu, group| {
            opened += 1;
            refuses(attr, cpu, group).map_or(Ok(opened), |errno| Err(io::Error::from_raw_os_error(errno)))
        })
    }

    #[test]
    fn what_is_granted_at_once_is_asked_for_once() {
        let all = ask(&[event("cpu/mem-loads/P", loads())], false, |_, _, _| None);
        assert_eq!((all.refused.len(), all.granted.len()), (0, 1));
        let attr = &all.granted[0].attr;
        let of_reader = Flags::DISABLED
            .and(Flags::FREQ)
            .and(Flags::INHERIT)
            .and(Flags::SAMPLE_ID_ALL)
            .and(Flags::USE_CLOCKID)
            .and(Flags::WATERMARK)
            .and(Flags::ENABLE_ON_EXEC);
        assert_eq!(attr.flags, of_reader.with_precise_ip(3));
        assert!(attr.samples(loads().sample_type | sample_type::IDENTIFIER));
        assert!(all.has_any());
    }

    #[test]
    fn less_is_asked_for_until_it_is_granted_and_what_is_missing_is_told() {
        let privileged =
            |attr: &EventAttr, _, _: Option<&usize>| attr.samples(sample_type::PHYS_ADDR).then_some(EACCES);
        let all = ask(&[event("loads", loads())], false, privileged);
        assert_eq!(all.refused, ["loads: no physical addresses (Permission denied (os error 13))"]);
        assert!(all.granted[0].attr.samples(sample_type::WEIGHT_STRUCT));

        let imprecise = |attr: &EventAttr, _, _: Option<&usize>| (attr.flags.precise_ip() > 1).then_some(EINVAL);
        let all = ask(&[event("loads", loads())], false, imprecise);
        let error = "(Invalid argument (os error 22))";
        let expected =
            ["no physical addresses", "no page sizes", "no parts of the latency", "precise_ip 1 in place of 3"]
                .map(|what| format!("loads: {what} {error}"));
        assert_eq!(all.refused, expected);
        assert!(all.granted[0].attr.samples(sample_type::WEIGHT), "the latency as a whole");

        let inherited = |attr: &EventAttr, _, _: Option<&usize>| attr.flags.has(Flags::INHERIT).then_some(EINVAL);
        assert!(
            !ask(&[event("loads", loads())], false, inherited).has_any(),
            "a command is sampled by inheritance alone"
        );
        let all = ask(&[event("loads", loads())], true, inherited);
        assert!(all.has_any() && all.refused.iter().any(|told| told.contains("threads that begin later")));
    }

    #[test]
    fn a_group_is_granted_as_a_whole() {
        let leader =
            event("aux", EventAttr { kind: 4, config: 0x8203, flags: Flags::DISABLED, ..EventAttr::default() });
        let member = PmuEvent { is_in_group: true, ..event("loads", loads()) };
        let stores = event("stores", EventAttr { config: 0x2cd, ..loads() });
        let events = [leader, member, stores];
        let names = |all: &Negotiated| all.granted.iter().map(|event| event.name.clone()).collect::<Vec<_>>();
        // The member is opened with its leader, and counts when that does.
        let all = ask(&events, false, |attr, _, group| match attr.config {
            0 => (group != Some(&1)).then_some(EINVAL),
            _ => group.is_some().then_some(EINVAL),
        });
        assert_eq!(names(&all), ["aux", "loads", "stores"]);
        let member = all.granted[1].attr.flags;
        assert!(!member.has(Flags::DISABLED) && !member.has(Flags::ENABLE_ON_EXEC) && member.has(Flags::INHERIT));

        let all = ask(&events, false, |attr, _, _| (attr.config == 0).then_some(EINVAL));
        assert_eq!(names(&all), ["stores"], "a leader alone is of no use");
        let all = ask(&events, false, |attr, _, _| (attr.config == 0x8203).then_some(EINVAL));
        assert_eq!(names(&all), ["stores"]);
        assert!(
            all.refused[1].starts_with("loads: the event that has to lead its group was refused"),
            "{:?}",
            all.refused
        );
    }

    #[test]
    fn events_are_opened_where_they_are() {
        let atom = PmuEvent { cpus: Some(vec![2, 3]), ..event("cpu_atom/mem-loads/P", loads()) };
        let gone = PmuEvent { cpus: Some(vec![8]), ..event("cpu_core/mem-loads/P", loads()) };
        let all = ask(&[atom, gone], false, |_, cpu, _| (cpu != 2).then_some(EINVAL));
        assert_eq!(all.granted.len(), 1);
        assert_eq!([0, 1, 2, 3].map(|cpu| all.granted[0].is_on(cpu)), [false, false, true, true]);
        assert_eq!(all.refused, ["cpu_core/mem-loads/P: none of its CPUs is online"]);
    }

    #[test]
    fn an_aux_area_is_refused_with_the_reason() {
        let spe = PmuEvent { needs_aux: true, ..event("arm_spe_0//", loads()) };
        let all = ask(&[spe], false, |_, _, _| None);
        assert!(
            !all.has_any() && all.refused[0].starts_with("arm_spe_0//: its samples come in an AUX area"),
            "{all:?}"
        );
    }
}
