//! Hardware that samples addresses: which of it this machine has, and the events that set it up.
//!
//! ```text
//!   /sys/bus/event_source/devices/ibs_op   ─► AMD IBS: ops, tagged as they are dispatched
//!                                 cpu      ─► Intel PEBS: loads of some latency (mem-loads), stores (mem-stores)
//!                                 cpu_core,   the same of a processor with two kinds of cores
//!                                 cpu_atom
//!                                 arm_spe_0 ► Arm SPE: operations, into an AUX area
//! ```
//!
//! All that follows from the kernel's description of its event sources: a function of a directory, so that machines that
//! are not at hand can be tested. Nothing is opened here.

mod amd;
mod arm;
mod intel;
mod sysfs;
#[cfg(test)]
mod tests;

use std::path::Path;

use crate::perf_event::{EventAttr, Flags, sample_type};
use sysfs::{Pmu, pmus};

/// Where the kernel lists its sources of events.
pub const EVENT_SOURCES: &str = "/sys/bus/event_source/devices";

/// What is asked of a sample: where it was, what it accessed, and how that was served.
pub(crate) const MEMORY_FIELDS: u64 = sample_type::IP
    | sample_type::TID
    | sample_type::TIME
    | sample_type::ADDR
    | sample_type::CPU
    | sample_type::PERIOD
    | sample_type::DATA_SRC
    | sample_type::WEIGHT_STRUCT
    | sample_type::DATA_PAGE_SIZE
    | sample_type::PHYS_ADDR;

/// What is wished for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Samples a second of each event, to which the kernel adapts its period. Arm SPE can't: it has an interval of
    /// operations.
    pub frequency_hz: u64,
    /// Loads that take fewer cycles are not sampled, where hardware can leave them out (Intel).
    pub least_latency_cycles: u16,
    /// Sample operations that miss the third-level cache only, where hardware can (AMD from Zen 4 on).
    pub l3_misses_only: bool,
}

impl Default for Plan {
    /// As often as the clock; loads from 30 cycles on, as `perf mem` does: nearer ones hide behind other work.
    fn default() -> Self {
        Self { frequency_hz: 1000, least_latency_cycles: 30, l3_misses_only: false }
    }
}

/// An event to open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PmuEvent {
    /// As perf spells it.
    pub name: String,
    /// The event. Which records are wanted beside samples, how the reader is woken and when it starts is its reader's to
    /// add.
    pub attr: EventAttr,
    /// Whether it is of the group that the event before it leads, which has to be opened with it.
    pub is_in_group: bool,
    /// Whether its samples come in an AUX area, in the hardware's own format.
    pub needs_aux: bool,
    /// Loads that take fewer cycles are not sampled.
    pub least_latency_cycles: Option<u64>,
    /// CPUs that have it; `None` for all.
    pub cpus: Option<Vec<u32>>,
}

impl PmuEvent {
    /// An event of `pmu` that exists in user mode only, so that its samples need no privilege.
    fn of_user_mode(pmu: &Pmu, name: String) -> Self {
        let attr = EventAttr {
            kind: pmu.kind,
            sample_type: MEMORY_FIELDS,
            flags: Flags::DISABLED.and(Flags::EXCLUDE_KERNEL).and(Flags::EXCLUDE_HV),
            ..EventAttr::default()
        };
        let cpus = pmu.cpus.clone();
        Self { name, attr, is_in_group: false, needs_aux: false, least_latency_cycles: None, cpus }
    }

    /// With so many samples a second.
    fn at(mut self, frequency_hz: u64) -> Self {
        self.attr.period_or_frequency = frequency_hz;
        self.attr.flags = self.attr.flags.and(Flags::FREQ);
        self
    }

    /// What to try, best first: the whole, then with less that privilege, an older kernel or the processor may refuse.
    pub fn attempts(&self) -> Vec<EventAttr> {
        let mut attempts = vec![self.attr.clone()];
        let without = |from: &EventAttr, bits: u64, instead: u64| {
            let has = from.sample_type & bits != 0;
            let sample_type = from.sample_type & !bits | if has { instead } else { 0 };
            EventAttr { sample_type, ..from.clone() }
        };
        // Physical addresses are for the privileged.
        let unprivileged = without(&self.attr, sample_type::PHYS_ADDR, 0);
        // Linux 5.11 came with page sizes, 5.12 with parts of the weight.
        let older = without(&unprivileged, sample_type::WEIGHT_STRUCT, sample_type::WEIGHT);
        let older = without(&older, sample_type::DATA_PAGE_SIZE, 0);
        let precise = older.flags.precise_ip();
        let less_precise = (1..precise).rev().map(|precise| {
            let flags = older.flags.with_precise_ip(precise);
            EventAttr { flags, ..older.clone() }
        });
        let weaker: Vec<EventAttr> = [unprivileged, older.clone()].into_iter().chain(less_precise).collect();
        attempts.extend(weaker);
        attempts.dedup();
        attempts
    }
}

/// Why hardware can't sample addresses here. Each displays as one line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// The kernel lists none of it.
    #[error("the kernel lists no AMD IBS, Intel PEBS or Arm SPE in {0} (virtual machines seldom have them)")]
    NoSource(String),
    /// Intel without PEBS.
    #[error("{pmu} counts memory accesses, but can't tell which (caps/max_precise is 0, as in virtual machines)")]
    NotPrecise {
        /// Its name.
        pmu: String,
    },
    /// The kernel's description is not as it should be.
    #[error("{file}: {what}")]
    Description {
        /// The file, in the directory of event sources.
        file: String,
        /// What is wrong with it.
        what: String,
    },
}

impl Reason {
    /// What would help.
    pub fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::NoSource(_) | Self::NotPrecise { .. } => Some(
                "run on the machine itself, or give the virtual machine a PMU (kvm: -cpu host,pmu=on, on Intel with PEBS)",
            ),
            Self::Description { .. } => None,
        }
    }
}

/// A kind of hardware that samples addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hardware {
    /// AMD instruction-based sampling of ops.
    AmdIbs,
    /// Intel's load latency and precise stores.
    IntelPebs,
    /// Arm's statistical profiling extension.
    ArmSpe,
}

impl Hardware {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AmdIbs => "AMD IBS",
            Self::IntelPebs => "Intel PEBS",
            Self::ArmSpe => "Arm SPE",
        }
    }
}

/// The hardware that the event sources in `sources` have, if any.
///
/// # Errors
/// There is none, or it can't tell addresses.
pub fn hardware(sources: &Path) -> Result<Hardware, Reason> {
    found(sources).map(|(hardware, _)| hardware)
}

/// The events that sample addresses as `plan` says, on what `sources` ([`EVENT_SOURCES`]) describes.
///
/// # Errors
/// There is no such hardware, or its description is not understood.
pub fn attrs(sources: &Path, plan: &Plan) -> Result<Vec<PmuEvent>, Reason> {
    let (hardware, pmus) = found(sources)?;
    let events = pmus.iter().map(|pmu| match hardware {
        Hardware::AmdIbs => amd::events(pmu, plan),
        Hardware::IntelPebs => intel::events(pmu, plan),
        Hardware::ArmSpe => arm::events(pmu),
    });
    Ok(events.collect::<Result<Vec<_>, _>>()?.concat())
}

/// The PMUs of one kind, of which a machine has one.
fn found(sources: &Path) -> Result<(Hardware, Vec<Pmu>), Reason> {
    let amd = pmus(sources, |name| name == "ibs_op")?;
    if !amd.is_empty() {
        return Ok((Hardware::AmdIbs, amd));
    }
    let mut intel = pmus(sources, |name| matches!(name, "cpu" | "cpu_core" | "cpu_atom"))?;
    intel.retain(|pmu| pmu.has_event(intel::LOADS));
    if let Some(first) = intel.first().map(|pmu| pmu.name.clone()) {
        let mut precise = Vec::new();
        for pmu in intel {
            if intel::precision(&pmu)? > 0 {
                precise.push(pmu);
            }
        }
        return if precise.is_empty() {
            Err(Reason::NotPrecise { pmu: first })
        } else {
            Ok((Hardware::IntelPebs, precise))
        };
    }
    let arm = pmus(sources, |name| name.starts_with("arm_spe_"))?;
    if arm.is_empty() { Err(Reason::NoSource(sources.display().to_string())) } else { Ok((Hardware::ArmSpe, arm)) }
}
