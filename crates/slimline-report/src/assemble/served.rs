//! How the memory system served samples, as far as hardware tells.

use slimline_analyze::service::Service;

use crate::view;

/// The view of `service`, part of `whole`; none where hardware tells nothing of it.
pub(super) fn view(service: &Service, whole: &Service) -> Option<view::Served> {
    if service.samples == 0 {
        return None;
    }
    let latency = service.latency.mean().map(|mean_cycles| view::Latency {
        samples: service.latency.count,
        share: service.latency_share_of(whole),
        mean_cycles,
        median_cycles: service.latency_quantile(0.5),
        p95_cycles: service.latency_quantile(0.95),
        instruction_mean_cycles: service.instruction.mean(),
        retire_mean_cycles: service.retire.mean(),
    });
    let level = |(level, sum)| view::ServedBy {
        level,
        share: service.level_share(&sum),
        latency_share: service.latency_part(&sum),
    };
    Some(view::Served {
        samples: service.samples,
        latency,
        levels: service.levels().map(level).collect(),
        tlb_miss_share: service.tlb_misses.share(),
        locked_share: service.locked.share(),
        remote_share: service.remote.share(),
        modified_share: service.modified.share(),
    })
}
