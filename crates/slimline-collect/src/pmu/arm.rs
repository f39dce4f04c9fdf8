//! Arm's statistical profiling extension: it samples operations into an AUX area, in a format of its own.

use super::sysfs::Pmu;
use super::{PmuEvent, Reason};
use crate::perf_event::sample_type;

/// Operations between two samples: about as often as the clock on a core that does some 4 a nanosecond. It can't adapt to
/// a frequency.
const INTERVAL: u64 = 1 << 22;

/// The event of `arm_spe_0` …
pub(super) fn events(pmu: &Pmu) -> Result<Vec<PmuEvent>, Reason> {
    let mut terms = Vec::new();
    let mut event = PmuEvent::of_user_mode(pmu, String::new());
    // Times in the kernel's clock; loads and stores only; and no interval that a loop keeps step with.
    for field in ["ts_enable", "load_filter", "store_filter", "jitter"] {
        if pmu.has_field(field) {
            pmu.set(&mut event.attr, field, 1)?;
            terms.push(format!("{field}=1"));
        }
    }
    event.attr.period_or_frequency = INTERVAL.max(pmu.capability("min_interval")?.unwrap_or(0));
    // Address, latency and level are in the AUX area.
    event.attr.sample_type = sample_type::IP | sample_type::TID | sample_type::TIME | sample_type::CPU;
    event.needs_aux = true;
    event.name = format!("{}/{}/", pmu.name, terms.join(","));
    Ok(vec![event])
}
