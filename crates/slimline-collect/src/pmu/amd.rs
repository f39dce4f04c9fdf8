//! AMD instruction-based sampling: the hardware tags an op every so often and tells all of it.

use super::sysfs::Pmu;
use super::{Plan, PmuEvent, Reason};
use crate::perf_event::{Flags, sample_type};

/// Counts dispatched ops, not cycles: else an op that is dispatched after a long wait is tagged more often.
const COUNT_OPS: &str = "cnt_ctl";
/// Tags ops that miss the third-level cache only (from Zen 4 on).
const L3_MISSES: &str = "l3missonly";
/// The kernel leaves out samples of the mode that the event excludes (from Linux 6.15 on). Hardware can't.
const FILTER: &str = "swfilt";

/// The event of `ibs_op`. Ops that access no memory are tagged as well: they say so.
pub(super) fn events(pmu: &Pmu, plan: &Plan) -> Result<Vec<PmuEvent>, Reason> {
    let mut terms = Vec::new();
    let mut event = PmuEvent::of_user_mode(pmu, String::new()).at(plan.frequency_hz);
    // What kernels before 6.1 do not tell is in the registers.
    event.attr.sample_type |= sample_type::RAW;
    let wished = [(COUNT_OPS, true), (L3_MISSES, plan.l3_misses_only), (FILTER, true)];
    for (field, _) in wished.into_iter().filter(|&(field, is_wished)| is_wished && pmu.has_field(field)) {
        pmu.set(&mut event.attr, field, 1)?;
        terms.push(format!("{field}=1"));
    }
    if !pmu.has_field(FILTER) {
        // It would be refused; the reader leaves out the kernel's samples.
        event.attr.flags = Flags::DISABLED.and(Flags::FREQ);
    }
    event.name = format!("{}/{}/", pmu.name, terms.join(","));
    Ok(vec![event])
}
