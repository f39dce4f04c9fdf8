//! Intel: precise event-based sampling of loads by their latency, and of stores.

use super::sysfs::Pmu;
use super::{Plan, PmuEvent, Reason};
use crate::perf_event::{Flags, sample_type};

/// Loads, of a latency that the event says.
pub(super) const LOADS: &str = "mem-loads";
/// What has to be counted beside them from Sapphire Rapids on, as leader of their group (an erratum's workaround).
const LOADS_AUX: &str = "mem-loads-aux";
const STORES: &str = "mem-stores";
/// Cycles from which on loads are sampled, at least 3.
const LATENCY: &str = "ldlat";
const LEAST_LATENCY: u16 = 3;
/// The kernel takes no more (`precise_ip` has two bits).
const MOST_PRECISE: u64 = 3;

/// How precise samples are: 0 without PEBS. Kernels before 5.8 don't say; there 2 is what PEBS was made for.
pub(super) fn precision(pmu: &Pmu) -> Result<u8, Reason> {
    Ok(pmu.capability("max_precise")?.unwrap_or(2).min(MOST_PRECISE) as u8)
}

/// The events of `cpu`, `cpu_core` or `cpu_atom`.
pub(super) fn events(pmu: &Pmu, plan: &Plan) -> Result<Vec<PmuEvent>, Reason> {
    let precise = precision(pmu)?;
    let event = |name: &str, terms: &str| {
        let mut event = PmuEvent::of_user_mode(pmu, format!("{}/{name}{terms}/P", pmu.name));
        pmu.set_event(&mut event.attr, name)?;
        event.attr.flags = event.attr.flags.with_precise_ip(precise);
        Ok(event.at(plan.frequency_hz))
    };
    let cycles = plan.least_latency_cycles.max(LEAST_LATENCY);
    let mut loads: PmuEvent = event(LOADS, &format!(",{LATENCY}={cycles}"))?;
    pmu.set(&mut loads.attr, LATENCY, cycles.into())?;
    loads.least_latency_cycles = Some(cycles.into());
    let mut events = Vec::new();
    if pmu.has_event(LOADS_AUX) {
        loads.is_in_group = true;
        events.push(leader(pmu)?);
    }
    events.push(loads);
    if pmu.has_event(STORES) {
        events.push(event(STORES, "")?);
    }
    Ok(events)
}

/// It counts and takes no samples, so it may not be precise either.
fn leader(pmu: &Pmu) -> Result<PmuEvent, Reason> {
    let mut leader = PmuEvent::of_user_mode(pmu, format!("{}/{LOADS_AUX}/", pmu.name));
    pmu.set_event(&mut leader.attr, LOADS_AUX)?;
    leader.attr.flags = Flags::DISABLED.and(Flags::EXCLUDE_KERNEL).and(Flags::EXCLUDE_HV);
    // The kernel looks for it where data sources are asked for.
    leader.attr.sample_type = sample_type::IP | sample_type::TID | sample_type::TIME;
    Ok(leader)
}
